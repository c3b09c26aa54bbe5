// The home view: one picture of the whole model. Each box leads to the view that shows how it works.

import { count, cut, h, s, whole } from "./dom.js";
import { address } from "./state.js";

export const id = "model";
export const name = "Model";
export const title = "The whole model in one picture";
export const lead = "Your text enters at the bottom as tokens. The answer leaves at the top of the last stack. Choose a blue box to see what it computes from your text.";

let box, context;

export function mount(section, given) {
  context = given;
  box = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The model" });
  section.append(box);
}

const TALL = 38, GAP = 16, BETWEEN = 60;

// Return the tiers of a stack from the bottom up. A tier is a list of boxes [label, small text, view, changes].
function tiers(side, layers, { pass, facts, last, first }) {
  const tokens = (last ? pass.tokens.read ?? pass.tokens.text : pass.tokens.source) ?? [];
  const inner = [...layers.values()].map((parts) => [
    ...parts.map((layer) => [`${layer.title.replace(/^\w+ s/, "S")}, layer ${layer.number + 1}`, `${layer.heads} heads`, "translate", { layer: layer.name, head: 0, row: null, column: null }, layer]),
    ["Feed-forward", "each position separately", "graph", {}]]);
  const top = !last ? [] : facts.kind === "classifier" ? [[["Class", pass.answer, "translate", {}]]]
    : [[["Probabilities of the next token", "softmax over the vocabulary", "next", {}]], [["Beam search", pass.answer, "beam", {}]]];
  const input = !first ? "the answer so far" : facts.kind === "language model" ? "your text and the answer so far" : "your text";
  return [[[`${side[0].toUpperCase()}${side.slice(1)}: ${input}`, tokens.join(" ")]],
    [["Tokens", `${tokens.length} tokens from a vocabulary of ${count(facts.vocabulary)}`, "bpe", {}]],
    [["Embedding and position", `each token becomes ${facts.d_model ?? "many"} numbers`, "graph", {}]], ...inner, ...top];
}

export function show({ shared }) {
  const { facts, pass } = shared, stacks = new Map();
  for (const layer of pass.layers) {
    const side = layer.name.split(".")[0];
    if (!stacks.has(side)) stacks.set(side, new Map());
    stacks.get(side).set(layer.number, [...(stacks.get(side).get(layer.number) ?? []), layer]);
  }
  if (!stacks.size) stacks.set("model", new Map());
  // In a narrow window each box has its own tier. On a phone the decoder is above the encoder.
  const narrow = box.clientWidth < 600, SIDE = narrow ? 300 : Math.max(250, Math.min(560, (box.clientWidth - BETWEEN) / 2 - 2)), most = Math.floor(SIDE / 7);
  const sides = [...stacks].map(([side, layers], i) => tiers(side, layers, { pass, facts, first: !i, last: i === stacks.size - 1 }))
    .map((side) => (SIDE < 450 ? side.flat().map((one) => [one]) : side));
  const below = (number) => (narrow && number ? sides[0].length + 1 : 0);
  const height = Math.max(...sides.map((side, number) => below(number) + side.length)) * (TALL + GAP), width = narrow ? SIDE + BETWEEN / 2 : sides.length * (SIDE + BETWEEN) - BETWEEN;
  const boxes = [], lines = [], up = (tier) => height - (tier + 1) * (TALL + GAP) + GAP / 2, memory = up(sides[0].length - 1) + TALL / 2;
  sides.forEach((side, number) => side.forEach((tier, level) => {
    const wide = (SIDE - (tier.length - 1) * 10) / tier.length, left = narrow ? 0 : number * (SIDE + BETWEEN), y = up(below(number) + level);
    if (level) lines.push(`M${left + SIDE / 2} ${y + TALL + GAP}v${-GAP}m-4 5l4-5 4 5`);
    tier.forEach(([label, small, view, changes, layer], i) => {
      const x = left + i * (wide + 10), at = `translate(${x} ${y})`;
      const inner = [s("rect", { width: wide, height: TALL, rx: 5 }), s("text", { x: 9, y: 16 }, label), s("text", { x: 9, y: 31, class: "soft small", ...whole(small, most) }, cut(small, most))];
      boxes.push(facts.views.includes(view)
        ? s("a", { href: address(view, changes), "aria-label": `${label}: ${small}`, class: "box", transform: at, onclick: (event) => { event.preventDefault(); context.go(view, changes); } }, inner)
        : s("g", { class: "box", transform: at }, inner));
      // The encoder's result goes to each cross-attention.
      if (layer && layer.columns === "source" && layer.rows !== "source") lines.push(`M${narrow ? SIDE : left - BETWEEN} ${memory}h${BETWEEN / (narrow ? 4 : 2)}V${y + TALL + GAP / 2}H${x + wide / 2}v${-GAP / 2}m-4 5l4-5 4 5`);
    });
  }));
  box.replaceChildren(s("svg", { class: "model", width, height, viewBox: `-2 0 ${width + 4} ${height}`, role: "group", "aria-label": `${facts.kind} model` }, s("path", { class: "flow", d: lines.join("") }), boxes));
  box.closest("section").dataset.ready = pass.text;
}
