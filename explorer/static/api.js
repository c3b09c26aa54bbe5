// Requests a view's data from the server. Without a server, a worker with the model answers (local/worker.js).

export class Problem extends Error {}

const ENDED = "The explorer's process has ended. Start it again and open its new address.";

async function askServer(view, body) {
  let response;
  try {
    response = await fetch(`api/${view}`, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
    });
  } catch {
    throw new Problem(ENDED);
  }
  const type = response.headers.get("content-type") || "";
  return type.includes("json") ? response.json() : { problem: (await response.text()).trim() };
}

// The index.html of a page without a server has the attribute data-alone.
export const alone = document.documentElement.dataset.alone !== undefined;
const worker = alone ? new Worker(new URL("local/worker.js", import.meta.url), { type: "module" }) : null;
const open = new Map();
worker?.addEventListener("message", ({ data }) => { open.get(data.number)(data.answer); open.delete(data.number); });

let asked = 0;
const askWorker = (view, body) => new Promise((done) => {
  open.set(++asked, done);
  worker.postMessage({ number: asked, view, body });
});

// After 300 ms, show that the page waits for an answer.
let waiting = 0, timer;
function wait(change) {
  waiting += change;
  clearTimeout(timer);
  const busy = document.getElementById("busy");
  if (!waiting) busy.textContent = "";
  else timer = setTimeout(() => { busy.textContent = "Working …"; }, 300);
}

export async function ask(view, body = {}) {
  wait(1);
  try {
    const answer = await (alone ? askWorker : askServer)(view, body);
    if (answer.problem && !("model" in answer)) throw new Problem(answer.problem);
    return answer;
  } finally {
    wait(-1);
  }
}

// Convert {shape, type, data} of the server, or {shape, values} of the worker, to a typed array with the property `shape`.
export function unpack(packed) {
  if (packed.values) return Object.assign(packed.values, { shape: packed.shape });
  const { shape, type, data } = packed;
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  const values = type === "float64" ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
  values.shape = shape;
  return values;
}

// Return a function that sends a request. It ignores the answer if a newer request has been sent.
export function latest(view) {
  let newest = 0;
  return async (body, done, failed) => {
    const own = ++newest;
    try {
      const answer = await ask(view, body);
      if (own === newest) done(answer);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (own === newest) failed(error.message);
    }
  };
}

// Listen to the events of the run, if there is a server. `lost(text)`: connection lost; `lost("")`: connected again.
export function events(heard, lost) {
  if (alone) return;
  const source = new EventSource("events");
  source.addEventListener("message", ({ data }) => heard(JSON.parse(data)));
  source.addEventListener("error", () => lost(ENDED));
  source.addEventListener("open", () => lost(""));
}
