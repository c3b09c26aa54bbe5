// View 6: byte-pair encoding, merge by merge.

import { latest } from "./api.js";
import { brief, count, h, num, numbers, problemLine, s, settled, table } from "./dom.js";

export const id = "bpe";
export const name = "BPE";
export const title = "From bytes to words, merge by merge";
export const lead =
  "A tokenizer begins with bytes and learns, one after the other, which two neighbours to merge. Move through the merges " +
  "in the order in which they were learned: the text below is split as it would have been then.";

const TEXT = "Gestern hat der Ritter das Lied gesungen. Heute singt die Prinzessin, weil der Ritter schläft. " +
  "Yesterday the knight sang the song. Today the princess is singing because the knight is sleeping.";

let parts;
const query = latest("bpe");

export function mount(section) {
  const text = h("textarea", { id: "bpe-text", rows: 3, spellcheck: "false" });
  text.value = TEXT;
  // Until the first answer nobody knows how many merges there are.
  const merges = h("input", { type: "range", min: 0, max: 1, value: 1, id: "bpe-merges", disabled: "" });
  const now = h("span", {}), problem = problemLine(), said = h("p", { role: "status" });
  const tokens = h("p", { class: "tokens", id: "bpe-tokens" }), tree = h("div"), pairs = h("div"), behind = h("div");
  const again = settled(() => send(), 60);
  merges.addEventListener("input", () => { now.textContent = count(Number(merges.value)); again(); });
  text.addEventListener("input", () => { parts.word = ""; again(); });
  section.append(
    h("div", { class: "ask" }, h("label", { class: "wide" }, "Your text", text)),
    h("div", { class: "ask" }, h("label", { class: "wide" }, h("span", {}, "Merges: ", now), merges)),
    problem, said, tokens, behind,
    h("div", { class: "halves" },
      h("div", {}, h("h3", {}, "How a word grows"), h("p", { class: "soft small" }, "Choose a word in the text above. Numbers are merges; outlined tokens are not merged yet."), tree),
      h("div", {}, h("h3", {}, "Neighbours in this text"), pairs)),
  );
  parts = { section, text, merges, now, problem, said, tokens, tree, pairs, behind, word: "" };
}

function send() {
  const body = { text: parts.text.value, word: parts.word };
  if (!parts.merges.disabled) body.merges = Number(parts.merges.value);
  query(body, (answer) => {
    parts.problem.textContent = "";
    draw(answer);
    parts.section.dataset.ready = `${answer.merges}/${body.word}`;
  }, (text) => {
    parts.problem.textContent = text;
    for (const part of ["said", "tokens", "tree", "pairs", "behind"]) parts[part].replaceChildren();
  });
}

export const show = send;

function draw(seen) {
  parts.merges.max = seen.total;
  if (parts.merges.disabled) {  // later the slider may have been moved since the question was asked
    parts.merges.value = seen.merges;
    parts.merges.disabled = false;
  }
  parts.now.textContent = `${count(Number(parts.merges.value))} of ${count(seen.total)}`;
  const pair = ([left, right]) => h("span", { class: "mono" }, `${left} + ${right}`);
  parts.said.replaceChildren(
    num(seen.ids.length, { id: "bpe-count" }), ` tokens for ${count(seen.bytes)} bytes, `,
    h("span", {}, brief(seen.bytes / Math.max(seen.ids.length, 1))), " bytes a token.",
    ...(seen.last ? [" Last merge: ", pair(seen.last)] : []), ...(seen.next ? [". Next: ", pair(seen.next)] : []), ".");
  let colour = 0;
  parts.tokens.replaceChildren(...seen.words.map(({ word, ids, tokens }) => h(
    "button", { type: "button", class: "word", onclick: () => { parts.word = word; send(); } },
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
      node.merge ? s("text", { class: "soft small", x: wide / 2 + 3, y: 14 }, node.merge) : null);
  });
  const said = tree.nodes.map((node) => `${node.text}${node.merge ? `, merge ${node.merge}` : ""}`).join("; ");
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `The merges of ${word}` },
    s("svg", { class: "grown", role: "img", "aria-label": `${word.trim()} after ${merges} merges: ${said}`, width: tree.width + 60, height: tree.height, viewBox: `-10 0 ${tree.width + 60} ${tree.height}` }, edges, boxes));
}
