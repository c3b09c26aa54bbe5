// View 2: one query of one head, step by step. The page computes each step from the step before.

import { latest, unpack } from "./api.js";
import { brief, exact, h, num, problemLine, renew, table } from "./dom.js";
import { largeMap, largest, picks, strip } from "./maps.js";

export const id = "head";
export const name = "One head";
export const title = "One head, number by number";
export const lead =
  "This page computes the attention of one query in four steps. It begins with the model's query q, keys k and values v, and your browser computes each step " +
  "from the step before. handloom's own results stand next to it. Change the scale or leave out a word, and all later steps change.";

let parts, context, data;
const changes = { scale: null, dropped: new Set() };

export function mount(section, given) {
  context = given;
  const box = h("div", { class: "ask" }), problem = problemLine(), steps = h("div", { class: "steps" });
  section.append(box, problem, steps);
  parts = { section, picks: box, problem, steps };
}

const query = latest("head");

export function show({ shared }) {
  parts.section.dataset.ready = "";
  const kept = data && changes.of === `${shared.text}/${shared.layer}`; // another query or head of a layer keeps the scale
  query(
    { text: shared.text, off: shared.off, layer: shared.layer ?? undefined, head: shared.head, query: shared.row ?? 0 },
    (answer) => {
      data = answer;
      for (const key of ["q", "k", "v", "added", "weights", "output"]) data[key] = unpack(data[key]);
      if (!kept) Object.assign(changes, { scale: data.scale, dropped: new Set(), of: `${shared.text}/${shared.layer}` });
      parts.problem.textContent = "";
      renew(parts.picks, ...picks(context, data.layer, true));
      draw();
      parts.section.dataset.ready = `${data.layer.name}/${shared.head}/${shared.row}`;
    },
    (text) => {
      parts.problem.textContent = text;
      parts.steps.replaceChildren();
    },
  );
}

// Compute all steps from q, K, V, the scale and the position bias and mask (`added`).
export function computed({ q, k, v, added }, scale, dropped) {
  const [keys, size] = k.shape;
  const dot = Array.from({ length: keys }, (_, j) => q.reduce((sum, x, d) => sum + x * k[j * size + d], 0));
  const scores = dot.map((x, j) => (dropped.has(j) ? -Infinity : x * scale + added[j]));
  const top = Math.max(...scores);
  const e = scores.map((x) => (top === -Infinity ? 0 : Math.exp(x - top)));
  const total = e.reduce((sum, x) => sum + x, 0);
  const weights = e.map((x) => x / (total || 1));
  const width = v.shape[1];
  const output = Array.from({ length: width }, (_, d) => weights.reduce((sum, w, j) => sum + w * v[j * width + d], 0));
  return { dot, scores, top, e, total, weights, output };
}

function draw() {
  const { shared } = context, j = Math.min(shared.column, data.columns.length - 1);
  const size = data.k.shape[1], width = data.v.shape[1];
  const word = data.rows[shared.row], other = data.columns[j];
  const key = data.k.subarray(j * size, (j + 1) * size);
  const product = Float64Array.from(data.q, (x, d) => x * key[d]);
  const now = computed(data, changes.scale, changes.dropped);
  const most = largest(data.q, data.k);
  const step = (name, text, ...rest) => h("div", { class: "step" }, h("h3", {}, name), h("p", {}, text), ...rest);
  const pair = (...cells) => h("div", { class: "pair" }, ...cells);
  const slider = h("input", {
    type: "range", min: 0, max: (4 * data.scale).toFixed(5), step: (data.scale / 50).toFixed(6), value: changes.scale, "aria-label": "Scale",
    oninput: (event) => { changes.scale = Number(event.target.value); refresh(); },
  });
  const back = h("button", { type: "button", onclick: () => { Object.assign(changes, { scale: data.scale, dropped: new Set() }); draw(); } }, "Reset to the model's");
  const scaleNow = h("span", {}), tableBox = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "From scores to weights" });
  const outputBox = h("div", {});
  parts.steps.replaceChildren(
    step("Query and key", `The query of ${word} and the key of ${other}: ${size} numbers each, blue above zero, orange below.`,
      pair(h("span", {}, `q of ${word}`), strip(data.q, most, "q"), h("span", {}, `k of ${other}`), strip(key, most, "k"))),
    step("Their product", "The elements are multiplied and the products are summed. The sum is large if both vectors point in the same direction.",
      pair(h("span", {}, "q · k, each"), strip(product, largest(product), "product"), h("span", {}, "sum"), h("span", {}, num(now.dot[j], { id: "dot" })))),
    step("From scores to weights", "For every key, the product is multiplied by the scale, the position bias and the mask are added, and the largest result is subtracted. The weight is the exponential of this score, divided by the sum of all exponentials. Untick a word to leave it out.",
      h("div", { class: "ask" }, h("label", { class: "wide" }, h("span", {}, "Scale ", scaleNow), slider), back), tableBox),
    step("The weighted sum", `The result for ${word} is the sum of the values v of all words, each multiplied by its weight.`, outputBox),
    ...(data.yours ? [step(`Your ${data.yours.name}`, ...yours(data.yours))] : []),
  );
  function refresh() {
    const now = computed(data, changes.scale, changes.dropped);
    scaleNow.replaceChildren(num(changes.scale, { id: "scale" }), ` (the model's: ${brief(data.scale)} = 1/√${size})${changes.scale === data.scale && !changes.dropped.size ? "" : ", changed"}`);
    tableBox.replaceChildren(weightTable(now, j, refresh));
    const most = largest(data.v, Float64Array.from(now.output));
    const difference = largest(Float64Array.from(now.output, (x, d) => x - data.output[d]));
    outputBox.replaceChildren(
      pair(
        ...[...now.weights.keys()].sort((a, b) => now.weights[b] - now.weights[a]).slice(0, 4).flatMap((i) => [
          h("span", {}, `${brief(now.weights[i])} × ${data.columns[i]}`), strip(data.v.subarray(i * width, (i + 1) * width), most, "v")]),
        h("span", {}, "the sum of all"), strip(now.output, most, "output"),
        h("span", {}, "handloom's"), strip(data.output, most, "handloom's output")),
      h("p", { class: "small" }, "Largest difference from the output of the unchanged model: ", num(difference, { id: "difference" })),
    );
  }
  refresh();
}

// Show the learner's weights of this head next to handloom's, and where they differ most.
function yours({ problem, weights }) {
  if (problem) return [problem];
  const { shared, change } = context, own = unpack(weights), layer = shared.pass.layers.find((one) => one.name === data.layer.name), [, q, k] = own.shape;
  const theirs = Float32Array.from(layer.weights.subarray(shared.head * q * k, (shared.head + 1) * q * k));
  theirs.shape = own.shape;
  const gap = (i) => Math.abs(own[i] - theirs[i]), far = own.reduce((worst, x, i) => (!Number.isFinite(x) || gap(i) > gap(worst) ? i : worst), 0);
  const map = (title, weights) => h("div", {}, h("h4", {}, title), largeMap({ weights, head: 0, rows: data.rows, columns: data.columns, row: shared.row, column: shared.column, label: title,
    room: parts.section.clientWidth / 2 - 24, picked: (row, column) => change({ row, column }) }).element);
  return [gap(far) <= 1e-5 ? `All ${q * k} weights are handloom's, to rounding: the largest difference is ${brief(gap(far))}.`
    : `The weights differ from handloom's, most where ${data.rows[Math.floor(far / k)]} looks at ${data.columns[far % k]}: yours is ${brief(own[far])}, handloom's ${brief(theirs[far])}.`,
  h("div", { class: "halves", id: "yours" }, map("handloom's weights", theirs), map("Your weights", own))];
}

function weightTable(now, current, refresh) {
  const cell = (x, extra) => h("td", { "data-value": exact(x, true), ...extra }, brief(x));
  const rows = data.columns.map((word, j) => {
    const bar = h("span", { class: "bar" });
    bar.style.width = `${100 * now.weights[j]}%`;
    const tick = h("input", {
      type: "checkbox", checked: !changes.dropped.has(j), "aria-label": `count ${word}`, "data-key": j,
      onchange: (event) => {
        if (event.target.checked) changes.dropped.delete(j); else changes.dropped.add(j);
        refresh();
        parts.steps.querySelector(`[data-key="${j}"]`).focus();
      },
    });
    return h("tr", { class: now.scores[j] === -Infinity ? "off" : j === current ? "on" : null },
      h("th", { scope: "row" }, h("label", { class: "line" }, tick, word)),
      cell(now.dot[j]), cell(now.dot[j] * changes.scale), cell(data.added[j]), cell(now.scores[j] - now.top), cell(now.e[j]),
      cell(now.weights[j], { class: "weight" }), h("td", { class: "with" }, bar), cell(data.weights[j], { class: "own" }));
  });
  rows.push(h("tr", {}, h("th", { scope: "row" }, "sum"), h("td"), h("td"), h("td"), h("td"), cell(now.total),
    cell(now.weights.reduce((a, b) => a + b, 0)), h("td"), cell(data.weights.reduce((a, b) => a + b, 0))));
  return table(null, ["key", "q · k", "× scale", "added", "− largest", "exp", "÷ sum", "weight", "handloom's"], rows);
}
