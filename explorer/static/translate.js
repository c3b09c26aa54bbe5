// View 1: a text, the model's answer, and all attention maps.

import { latest, unpack } from "./api.js";
import { brief, h, num, problemLine, settled, table } from "./dom.js";
import { largeMap, legend, links, thumbnail } from "./maps.js";

export const id = "translate";
export const name = "Translate";
export const title = "Translate, and see the attention";
export const lead =
  "Each small square is one attention head: a row for each query word, a column for each key word, " +
  "darker for larger weights. Choose a square to enlarge it, choose a cell to see how its weight is computed.";

let parts, context;

export function mount(section, { shared, go }) {
  const input = h("input", { type: "text", id: "text", value: shared.text, autocomplete: "off", spellcheck: "false" });
  const problem = problemLine();
  const answer = h("p", { class: "answer", id: "answer", role: "status" });
  const chosen = h("div", { class: "split" }), all = h("div", { id: "maps" }), shares = h("div");
  const query = latest("translate");
  const send = () => query({ text: input.value }, (seen) => draw(seen), (text) => {
    problem.textContent = text;
    section.dataset.text = input.value;
  });
  input.addEventListener("input", settled(send, 150));
  const form = h("form", { class: "ask", onsubmit: (event) => { event.preventDefault(); send(); } },
    h("label", { class: "wide" }, "Your text", input), h("button", { class: "main" }, "Run"));
  section.append(form, problem, answer, shares, chosen, all);
  parts = { section, input, problem, answer, shares, chosen, all, send };
  context = { shared, go };
}

export function show({ shared }) {
  if (!shared.facts) parts.problem.textContent = "There is no model yet: it is saved at the first validation of the training; see the last view.";
  else if (parts.section.dataset.text !== shared.text) {
    parts.input.value = shared.text;
    parts.send();
  }
}

// New weights have been saved.
export const renewed = () => {
  if (!parts.input.value) parts.input.value = context.shared.text;
  parts.send();
};

function draw(seen) {
  const { shared } = context;
  for (const layer of seen.layers) layer.weights = unpack(layer.weights);
  Object.assign(shared, { text: seen.text, pass: seen });
  const kept = seen.layers.find((layer) => layer.name === shared.layer);
  if (!kept) Object.assign(shared, { layer: seen.layers.at(-1)?.name, head: 0 });
  parts.problem.textContent = "";
  parts.answer.textContent = seen.answer;
  parts.answer.title = `the model's answer to: ${seen.text}`;
  parts.shares.replaceChildren(...(seen.shares ? [shareTable(seen.shares)] : []));
  const groups = new Map();
  for (const layer of seen.layers) groups.set(layer.title, [...(groups.get(layer.title) || []), layer]);
  parts.all.replaceChildren(
    h("div", { class: "groups" }, [...groups].map(([title, layers]) =>
      h("section", {}, h("h3", {}, title), h("div", { class: "multiples" }, layers.map(layerRow))))),
    ...(seen.layers.length ? [legend()] : [h("p", { class: "soft" }, "This model has no attention: it is recurrent.")]),
  );
  choose();
  parts.section.dataset.text = seen.text;
}

function layerRow(layer) {
  const heads = Array.from({ length: layer.heads }, (_, number) => {
    const button = h("button", {
      class: "thumb", type: "button", "aria-pressed": "false", "data-layer": layer.name, "data-head": number,
      "aria-label": `${layer.title}, layer ${layer.number + 1}, head ${number + 1}`,
      onclick: () => { Object.assign(context.shared, { layer: layer.name, head: number }); choose(); },
    });
    button.append(thumbnail(layer.weights, number), h("span", {}, `head ${number + 1}`));
    return button;
  });
  const row = h("div", { class: "heads" }, heads);
  row.style.setProperty("--heads", layer.heads);
  return h("div", { class: "layer" }, h("span", {}, `layer ${layer.number + 1}`), row);
}

// The chosen head large: its words with links, and its map.
function choose() {
  const { shared, go } = context, { layer: chosen, head } = shared;
  for (const button of parts.all.querySelectorAll(".thumb")) {
    button.setAttribute("aria-pressed", String(button.dataset.layer === chosen && Number(button.dataset.head) === head));
  }
  const layer = shared.pass.layers.find((one) => one.name === chosen);
  if (!layer) return parts.chosen.replaceChildren();
  const rows = shared.pass.tokens[layer.rows], columns = shared.pass.tokens[layer.columns];
  const open = (row, column) => go("head", { row, column });
  const best = (i) => {
    const [, q, k] = layer.weights.shape;
    const row = layer.weights.subarray((head * q + i) * k, (head * q + i + 1) * k);
    return row.indexOf(Math.max(...row));
  };
  shared.row = Math.min(shared.row ?? Math.floor(rows.length / 2), rows.length - 1);
  shared.column = best(shared.row);
  const label = `${layer.title}, layer ${layer.number + 1}, head ${head + 1}`;
  const map = largeMap({ ...layer, head, rows, columns, row: shared.row, column: shared.column, label, picked: open });
  const words = links({ ...layer, head, rows, columns, pointed: (row) => map.point(row, best(row)), picked: (row) => open(row, best(row)) });
  parts.chosen.replaceChildren(
    h("div", {}, h("h3", {}, "Words"), words), h("div", {}, h("h3", { id: "chosen" }, label), map.element));
}

function shareTable(shares) {
  const rows = shares.slice(0, 8).map(([label, share]) => {
    const bar = h("span", { class: "bar" });
    bar.style.width = `${100 * share}%`;
    return h("tr", {}, h("th", { scope: "row" }, label), h("td", { "data-value": share }, `${brief(100 * share)} %`), h("td", { class: "with" }, bar));
  });
  return table("Probability of each class", ["class", "probability", ""], rows);
}
