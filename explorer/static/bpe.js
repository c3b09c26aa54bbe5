// View 6: byte-pair encoding, merge by merge.

import { latest } from "./api.js";
import { count, h, num, numbers, problemLine, renew, s, settled, table } from "./dom.js";

export const id = "bpe";
export const name = "BPE";
export const title = "From bytes to words, merge by merge";
export const lead =
  "A tokenizer begins with bytes and learns one merge of two adjacent tokens after another. Move through the merges " +
  "in the order in which they were learned: the text below is split with the merges up to this point.";

let parts, context;
const query = latest("bpe");

export function mount(section, given) {
  context = given;
  const merges = h("input", { type: "range", min: 0, max: 1, value: 1, id: "bpe-merges", disabled: true });
  const now = h("span", {}), problem = problemLine(), said = h("p", { role: "status" });
  const tokens = h("p", { class: "tokens", id: "bpe-tokens" }), tree = h("div"), pairs = h("div"), behind = h("div");
  const again = settled(() => { parts.moved = false; context.change({ merges: Number(merges.value) }, "merges"); }, 60);
  merges.addEventListener("input", () => { parts.moved = true; now.textContent = `${count(Number(merges.value))} of ${count(Number(merges.max))}`; again(); });
  section.append(
    h("div", { class: "ask" }, h("label", { class: "wide" }, h("span", {}, "Merges: ", now), merges)),
    problem, said, tokens, behind,
    h("div", { class: "halves" },
      h("div", {}, h("h3", {}, "How a word grows"), h("p", { class: "soft small" }, "Choose a word in the text above. The number next to a token is the merge that makes it; outlined tokens are not made yet."), tree),
      h("div", {}, h("h3", {}, "Adjacent tokens in this text"), pairs)),
  );
  parts = { section, merges, now, problem, said, tokens, tree, pairs, behind };
}

export function show({ shared }) {
  const body = { text: shared.text ?? "", word: shared.word ?? "" };
  if (shared.merges !== null) body.merges = shared.merges;
  query(body, (answer) => {
    parts.problem.textContent = "";
    draw(answer);
    parts.section.dataset.ready = `${answer.merges}/${body.word}`;
  }, (text) => {
    parts.problem.textContent = text;
    for (const part of ["said", "tokens", "tree", "pairs", "behind"]) parts[part].replaceChildren();
  });
}

function draw(seen) {
  parts.merges.max = seen.total;
  // The user may have moved the slider since the request.
  if (!parts.moved) parts.merges.value = seen.merges;
  parts.merges.disabled = false;
  parts.now.textContent = `${count(Number(parts.merges.value))} of ${count(seen.total)}`;
  const pair = ([left, right]) => h("span", { class: "mono" }, `${left} + ${right}`);
  parts.said.replaceChildren(
    num(seen.ids.length, { id: "bpe-count" }), ` tokens for ${count(seen.bytes)} bytes, `,
    (seen.bytes / Math.max(seen.ids.length, 1)).toFixed(2), " bytes per token.",
    ...(seen.last ? [" Last merge: ", pair(seen.last)] : []), ...(seen.next ? [". Next: ", pair(seen.next)] : []), ".");
  let colour = 0;
  renew(parts.tokens, ...seen.words.map(({ word, ids, tokens }) => h(
    "button", { type: "button", class: "word", onclick: () => context.change({ word }) },
    tokens.map((token, i) => h("span", { class: `token t${colour++ % 5}`, "data-value": ids[i], title: `token ${ids[i]}` }, token)))));
  parts.tree.replaceChildren(treePicture(seen));
  const most = Math.max(1, ...seen.pairs.map((one) => one.count));
  parts.pairs.replaceChildren(table(null, ["pair", "count", "", "merge"], seen.pairs.map((one) => {
    const bar = h("span", { class: "bar" });
    bar.style.width = `${(100 * one.count) / most}%`;
    return h("tr", { class: one.merge === seen.merges + 1 ? "on" : null }, h("th", { scope: "row", class: "mono" }, `${one.left} + ${one.right}`),
      h("td", { "data-value": one.count }, one.count), h("td", { class: "with" }, bar), h("td", {}, one.merge === null ? "never" : count(one.merge)));
  })));
  parts.behind.replaceChildren(numbers("The tokens as a table", () => table(null, ["token", "id"],
    seen.words.flatMap(({ ids, tokens }) => tokens.map((token, i) => h("tr", {}, h("th", { scope: "row", class: "mono" }, token), h("td", {}, ids[i])))))));
}

function treePicture({ tree, word, merges }) {
  const edges = tree.nodes.flatMap((node) => node.parts.map((part) => {
    const inner = tree.nodes[part];
    return s("path", { d: `M${node.x} ${node.y + 12}V${node.y + 26}H${inner.x}V${inner.y}`, class: "axis" });
  }));
  const boxes = tree.nodes.map((node) => {
    const wide = Math.max(26, 8 * node.text.length + 10);
    return s("g", { transform: `translate(${node.x} ${node.y + 2})`, class: node.made ? "made" : "later", "data-merge": node.merge },
      s("rect", { x: -wide / 2, width: wide, height: 20, rx: 4 }), s("text", { y: 14, "text-anchor": "middle" }, node.text),
      node.merge ? s("text", { class: "soft small", x: wide / 2 + 3, y: 14 }, count(node.merge)) : null);
  });
  const said = tree.nodes.map((node) => `${node.text}${node.merge ? `, merge ${node.merge}` : ""}`).join("; ");
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `The merges of ${word}` },
    s("svg", { class: "grown", role: "img", "aria-label": `${word.trim()} after ${merges} merges: ${said}`, width: tree.width + 60, height: tree.height, viewBox: `-10 0 ${tree.width + 60} ${tree.height}` }, edges, boxes));
}
