// The home view: one picture of the whole model, with one layer of each stack in full. Each blue box leads to its view.

import { count, cut, h, s, whole } from "./dom.js";
import { address } from "./state.js";

export const id = "model";
export const name = "Model";
export const title = "The whole model in one picture";
export const lead = "Follow the arrows from your text, at the bottom, to the answer at the top. The steps of one layer are drawn in full; + adds the input of a step to its result. Choose a blue box to see what it computes from your text.";

let box, context;

export function mount(section, given) {
  context = given;
  box = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The model" });
  section.append(box);
}

const TALL = 36, GAP = 9, SIZES = { box: TALL, norm: 18, plus: 16, frame: 17 };

// Return the steps of a stack from the bottom up: {kind, label, small, view, changes, ...}.
function steps(side, layers, { pass, facts, first, last }) {
  const tokens = (last ? pass.tokens.read ?? pass.tokens.text : pass.tokens.source) ?? [], pre = facts.norm_first;
  const make = (label, small, view, changes = {}) => ({ kind: "box", label, small, view, changes }), norm = { kind: "norm", label: "norm" };
  const around = (inner) => (pre ? [{ ...norm, from: true }, inner, { kind: "plus" }] : [{ ...inner, from: true }, { kind: "plus" }, norm]);
  const parts = layers.get(0) ?? [], size = layers.size;
  const inner = parts.flatMap((layer) => around({
    ...make(layer.title.replace(/^\w+ s/, "S").replace(/^Self/, last && facts.kind !== "classifier" ? "Causal self" : "Self"), `${layer.heads} heads`, "translate", { layer: layer.name, head: 0, row: null, column: null }), memory: layer.columns === "source" && layer.rows !== "source",
  }));
  const network = around(make("Feed-forward", "each position separately", "graph", { part: `${side}.layers.0.linear1`, call: null }));
  const input = last && !first ? "The answer so far" : facts.kind === "language model" ? "Text and answer so far" : "Your text";
  const top = !last ? [] : facts.kind === "classifier" ? [make("Class", pass.answer, "translate")]
    : [make("Next token", "its probabilities: linear layer, softmax", "next"), make("Beam search", "keeps the best sequences", "beam"), { kind: "box", label: "The answer", small: pass.answer, strong: true }];
  return [
    { kind: "box", label: input, small: tokens.join(" "), strong: true }, make("Tokens", `${tokens.length} of ${count(facts.vocabulary)}`, "bpe"),
    make("Embedding", `+ position: ${facts.d_model ?? "many"} numbers`, "graph", { part: first ? "source_embedding" : "target_embedding", call: null }),
    ...(size ? [{ kind: "start" }, ...inner, ...network, { kind: "frame", label: `${side[0].toUpperCase()}${side.slice(1)}: × ${size} layer${size > 1 ? "s" : ""}` }, ...(pre ? [norm] : [])] : []), ...top,
  ];
}

export function show({ shared }) {
  const { facts, pass } = shared, stacks = new Map();
  for (const layer of pass.layers) {
    const side = layer.name.split(".")[0];
    if (!stacks.has(side)) stacks.set(side, new Map());
    stacks.get(side).set(layer.number, [...(stacks.get(side).get(layer.number) ?? []), layer]);
  }
  if (!stacks.size) stacks.set("model", new Map());
  const BACK = 14, MARGIN = 26, between = 30, total = Math.max(box.clientWidth - 4, 300);
  const wide = Math.min(330, (total - BACK - between * (stacks.size - 1)) / stacks.size), body = wide - MARGIN - 8, most = Math.floor((body - 14) / 6.2);
  const sides = [...stacks].map(([side, layers], i) => steps(side, layers, { pass, facts, first: !i, last: i === stacks.size - 1 }));
  const heightOf = (list) => list.reduce((sum, { kind }) => sum + (kind === "start" ? 5 : SIZES[kind] + GAP), 6);
  const height = Math.max(...sides.map(heightOf)), width = sides.length * (wide + between) - between + BACK + 2;
  const shapes = [], lines = [], arrow = (x, y) => `m-4 5l4-5 4 5M${x} ${y}`;
  let memory = null;
  sides.forEach((list, number) => {
    const left = number * (wide + between) + 8, middle = left + body / 2;
    let y = height - 2, from = null, start = null, below = null, first = null, beam = null;
    for (const step of list) {
      if (step.kind === "start") {
        start = y;
        y -= 5;
        continue;
      }
      const tall = SIZES[step.kind], bottom = y, top = y - tall, mid = top + tall / 2;
      if (step.from) from = bottom + GAP / 2;
      if (step.kind === "frame") {
        shapes.unshift(s("rect", { x: left - 8, y: top, width: wide, height: start - top, rx: 7, class: "frame" }));
        shapes.push(s("text", { x: left - 1, y: top + 12.5, class: "soft small" }, step.label));
        lines.push(`M${middle} ${below}V${top - 1}`);
      } else {
        if (below !== null) lines.push(`M${middle} ${below}V${bottom}${arrow(middle, bottom)}`);
        if (step.kind === "plus") {
          shapes.push(s("circle", { cx: middle, cy: mid, r: 8, class: "sum" }), s("path", { d: `M${middle - 4} ${mid}h8m-4-4v8`, class: "sign" }));
          lines.push(`M${middle} ${from}H${left + body + MARGIN / 2}V${mid}H${middle + 8}m5-4l-5 4 5 4`);
        } else if (step.kind === "norm") {
          shapes.push(s("g", { class: "box norm" }, s("rect", { x: left + body / 4, y: top, width: body / 2, height: tall, rx: 9 }), s("text", { x: middle, y: top + 13, "text-anchor": "middle", class: "small" }, step.label)));
        } else shapes.push(boxOf(step, left, top, body, most, facts));
        if (step.memory) lines.push(`M${memory.x} ${memory.y}V${memory.y - GAP}H${left - 8 - between / 2}V${mid}H${left}m-5-4l5 4-5 4`);
      }
      if (step.label === "Beam search") beam = mid;
      first ??= mid;
      [below, y] = [top, top - GAP];
    }
    if (beam !== null) lines.push(`M${left + body} ${beam}H${left + wide + BACK - 8}V${first}H${left + body}m5-4l-5 4 5 4`); // each new token is read again
    memory = { x: middle, y: below };
  });
  box.replaceChildren(s("svg", { class: "model", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `${facts.kind} model` }, shapes.filter((one) => one.classList.contains("frame")), s("path", { class: "flow", d: lines.join("") }), shapes.filter((one) => !one.classList.contains("frame"))));
  box.closest("section").dataset.ready = pass.text;
}

function boxOf({ label, small, view, changes, strong }, x, y, width, most, facts) {
  const inner = [s("rect", { width, height: TALL, rx: 5 }), s("text", { x: 8, y: 15, class: strong ? "strong" : null }, label), s("text", { x: 8, y: 29, class: strong ? "small" : "soft small", ...whole(small, most) }, cut(small, most))];
  const at = `translate(${x} ${y})`;
  return facts.views.includes(view)
    ? s("a", { href: address(view, changes), "aria-label": `${label}: ${small}`, class: "box", transform: at, onclick: (event) => { event.preventDefault(); context.go(view, changes); } }, inner)
    : s("g", { class: "box", transform: at }, inner);
}
