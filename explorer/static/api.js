// Asking the server. The page's own address holds the token; all requests are relative to it.

export class Problem extends Error {}

export async function ask(view, body = {}) {
  let response;
  try {
    response = await fetch(`api/${view}`, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
    });
  } catch {
    throw new Problem("The explorer's process has ended. Start it again and open its new address.");
  }
  const type = response.headers.get("content-type") || "";
  const answer = type.includes("json") ? await response.json() : { problem: (await response.text()).trim() };
  if (!response.ok) throw new Problem(answer.problem);
  return answer;
}

// {shape, type, data} -> a typed array with `shape`.
export function unpack({ shape, type, data }) {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  const values = type === "float64" ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
  values.shape = shape;
  return values;
}

// A function that asks, and ignores the answer if a newer question has been asked since.
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
