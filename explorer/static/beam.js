// View 3: the tree of a beam search, and the tree of keys and values in its cache.

import { latest } from "./api.js";
import { brief, count, cut, exact, h, numbers, problemLine, s, settled, table, whole } from "./dom.js";

export const id = "beam";
export const name = "Beam";
export const title = "Beam search and the candidates it dropped";
export const lead =
  "Each column is one step of the search. The path of the best sequence is bold and blue. A column shows the open sequences at the top, the most probable first, then the sequences " +
  "that have ended and, without a frame, the most probable candidates that were dropped. The number is the log-probability so far; the number after an arrow is the score.";

let parts, context, found;

export function mount(section, given) {
  context = given;
  const width = h("input", { type: "range", min: 1, max: 8, value: 4, id: "beam-width" });
  const alpha = h("input", { type: "range", min: 0, max: 2, step: 0.1, value: 1, id: "beam-alpha" });
  const step = h("input", { type: "range", min: 1, max: 1, value: 1, id: "beam-step" });
  const widthNow = h("span", {}), alphaNow = h("span", {}), stepNow = h("span", {});
  const again = settled(() => context.change({ width: Number(width.value), alpha: Number(alpha.value) }, "beam"), 120);
  for (const slider of [width, alpha]) slider.addEventListener("input", () => { say(); again(); });
  step.addEventListener("input", () => { say(); drawCache(); });
  const problem = problemLine(), hypotheses = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "What the search found" }), tree = h("div", {}), cache = h("div", {}), note = h("p", { class: "readout", role: "status" });
  const behind = h("div", {}), yours = h("div", { id: "yours" });
  section.append(
    h("div", { class: "ask" },
      h("label", { class: "wide" }, h("span", {}, "Width: ", widthNow), width),
      h("label", { class: "wide" }, h("span", {}, "Length penalty α: ", alphaNow), alpha)),
    problem, hypotheses,
    h("h3", {}, "The search"),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The tree of hypotheses and the cache below it" }, tree, yours,
      h("h3", {}, "The cache of keys and values"), cache),
    h("div", { class: "ask" }, h("label", { class: "wide" }, h("span", {}, "Step of the search: ", stepNow), step)), note, behind,
  );
  function say() {
    widthNow.textContent = `${width.value}${Number(width.value) === context.shared.facts?.beam ? ", as for the answer above" : ""}`;
    alphaNow.textContent = `${Number(alpha.value).toFixed(1)}${Number(alpha.value) ? "" : ", none"}`;
    stepNow.textContent = step.value;
  }
  say();
  parts = { section, width, alpha, step, problem, hypotheses, tree, cache, note, behind, yours, say };
}

const query = latest("beam");

export function show({ shared }) {
  parts.width.value = shared.width;
  parts.alpha.value = shared.alpha;
  parts.say();
  const body = { text: shared.text, off: shared.off, width: shared.width, alpha: shared.alpha };
  query(body, (answer) => {
    found = answer;
    parts.problem.textContent = "";
    draw();
    parts.section.dataset.ready = `${body.text}/${body.width}/${body.alpha}`;
  }, (text) => {
    found = null;
    parts.problem.textContent = text;
    for (const part of ["hypotheses", "tree", "cache", "note", "behind", "yours"]) parts[part].replaceChildren();
  });
}

const BOX = 74, TALL = 27, MOST = 10; // size of a box, and its maximum number of letters

function path(a, b) {
  const x = a.x + BOX, y = a.y + TALL / 2, end = b.y + TALL / 2;
  return `M${x} ${y}C${x + 12} ${y} ${b.x - 12} ${end} ${b.x} ${end}`;
}

// Return the ids of the nodes from the best hypothesis back to the root.
function bestPath(nodes) {
  const path = new Set();
  let at = nodes.find((node) => node.rank === 0);
  while (at) {
    path.add(at.id);
    at = at.parent === null ? null : nodes[at.parent];
  }
  return path;
}

// A tree that is slightly too wide is drawn smaller, but the letters stay legible. A wider tree scrolls.
function fit(width, height) {
  const scale = Math.min(1, Math.max(0.9, parts.tree.clientWidth / width));
  return { class: "beam", width: width * scale, height: height * scale, viewBox: `-1 -1 ${width} ${height}`, "aria-hidden": true };
}

// Draw the tree of a search.
function picture({ nodes, width, height }) {
  const best = bestPath(nodes);
  const edges = nodes.filter((node) => node.parent !== null).map((node) =>
    s("path", { d: path(nodes[node.parent], node), class: `edge ${node.kind} ${best.has(node.id) ? "best" : ""}` }));
  const boxes = nodes.map((node) => s("g", {
    class: `node ${node.kind} ${best.has(node.id) ? "best" : ""}`, transform: `translate(${node.x} ${node.y})`,
    "data-value": exact(node.log_probability, true), "data-id": node.id, "data-rank": node.rank, "data-score": node.score, ...whole(node.token, MOST),
  },
  s("rect", { width: BOX, height: TALL, rx: 4 }),
  s("text", { x: 6, y: 11.5 }, cut(node.token, MOST)),
  s("text", { x: 6, y: 23, class: "small" }, node.kind === "root" ? "" : node.kind === "finished" ? `→ ${brief(node.score)}` : brief(node.log_probability)),
  node.rank !== null ? s("text", { x: BOX - 6, y: 11.5, "text-anchor": "end", class: "rank" }, node.rank + 1) : null));
  return s("svg", fit(width, height), edges, boxes);
}

// Show the sequences that the learner's search continued, and where they differ from handloom's.
function yours({ problem, text, score, differs, ...tree }) {
  if (problem) return [h("p", { class: "problem" }, problem)];
  const list = (paths) => paths.map((one) => `“${one}”`).join(", ") || "none";
  return [h("p", {}, differs ? `The first difference is in step ${differs.step}: only yours goes on with ${list(differs.yours)}, only handloom's with ${list(differs.handlooms)}.`
    : "In every step it goes on with the same sequences as handloom's search.", ` It returns “${text}” with the score ${brief(score)}; handloom's is ${brief(found.found[0].score)}.`), picture(tree)];
}

function draw() {
  const { nodes, held } = found;
  parts.hypotheses.replaceChildren(h("p", { class: "soft small" }, "The score of a sequence is the log-probability of its tokens, divided by the length penalty."), table(null, ["", "text", "tokens", "log-probability", "÷ penalty", "score"],
    nodes.filter((node) => node.rank !== null).sort((a, b) => a.rank - b.rank).map((node) => h("tr", { class: node.rank ? null : "on" },
      h("td", {}, node.rank + 1), h("td", { class: "left" }, found.found[node.rank].text), h("td", {}, node.length),
      h("td", { "data-value": node.log_probability }, brief(node.log_probability)), h("td", {}, brief(node.log_probability / node.score)),
      h("td", { class: "score", "data-value": node.score }, brief(node.score))))));
  parts.tree.replaceChildren(picture(found));
  parts.yours.replaceChildren(...(found.yours ? [h("h3", {}, `Your ${found.yours.name}`), ...yours(found.yours)] : []));
  parts.step.max = held.length;
  parts.step.value = Math.min(Math.max(2, Math.ceil(held.length / 2)), held.length);
  parts.say();
  drawCache();
  parts.behind.replaceChildren(numbers("The numbers of the tree", () =>
    table("Every node", ["token", "step", "after", "result", "log-probability", "score"], nodes.map((node) => h("tr", {},
      h("th", { scope: "row" }, node.token), h("td", {}, node.step), h("td", {}, node.parent === null ? "" : nodes[node.parent].token),
      h("td", {}, node.kind), h("td", { "data-value": node.log_probability }, brief(node.log_probability)),
      h("td", {}, node.score === null ? "" : brief(node.score)))))));
}

function drawCache() {
  const { nodes, width, held } = found, step = Number(parts.step.value), now = held[step - 1];
  const written = nodes.filter((node) => (node.kind === "open" || node.kind === "root") && node.step < step);
  const height = Math.max(...nodes.filter((node) => node.kind === "open" || node.kind === "root").map((node) => node.y)) + TALL + 4;
  const small = (node) => ({ x: node.x, y: node.y * 0.62 });
  const edges = written.filter((node) => node.parent !== null).map((node) => {
    const a = small(nodes[node.parent]), b = small(node);
    return s("path", { d: `M${a.x + BOX} ${a.y + 9}C${a.x + BOX + 12} ${a.y + 9} ${b.x - 12} ${b.y + 9} ${b.x} ${b.y + 9}`, class: `edge ${node.cached >= step ? "open" : "pruned"}` });
  });
  const boxes = written.map((node) => {
    const { x, y } = small(node), living = node.cached >= step;
    return s("g", { class: `slot ${living ? "living" : "dead"}`, transform: `translate(${x} ${y})`, ...whole(node.token, MOST) },
      s("rect", { width: BOX, height: 17, rx: 3 }), s("text", { x: 6, y: 12.5 }, cut(node.token, MOST)));
  });
  parts.cache.replaceChildren(s("svg", fit(width, height * 0.62 + 8), edges, boxes));
  parts.note.replaceChildren(
    "The cache holds the keys and values of ", h("strong", { "data-value": now.nodes, id: "held" }, now.nodes), ` tokens, ${count(now.nodes * found.bytes)} bytes. `,
    h("strong", { "data-value": now.living, id: "living" }, now.living), " of them belong to an open sequence; the outlined ones will be removed. A separate cache for each sequence would hold ",
    h("strong", { "data-value": now.copies }, now.copies), " tokens.");
}
