// All attention maps of a text as small squares, one large map with its words, and a second map for comparison.

import { ask, Problem, unpack } from "./api.js";
import { h, renew, table } from "./dom.js";
import { largeMap, legend, links, strongest, thumbnail } from "./maps.js";

export const id = "translate";
export const name = "Translate";
export const title = "Translate, and see the attention";
export const lead =
  "Each small square is one attention head, with a row for each query and a column for each key; a stronger colour means a larger weight. " +
  "Choose a square to enlarge it. Point at a cell to read its weight; choose a cell to see how its weight is computed.";

let parts, context, drawn;

export function mount(section, given) {
  context = given;
  const all = h("div", { id: "maps" }), shares = h("div"), words = h("div", { id: "linked" }), chosen = h("div", { id: "large" });
  section.append(shares, h("div", { class: "overview" }, h("div", {}, all, words), chosen));
  parts = { section, all, shares, words, chosen };
}

export function show({ shared }) {
  const { pass } = shared;
  if (drawn !== pass) {
    drawn = pass;
    parts.shares.replaceChildren(...(pass.shares ? [shareTable(pass.shares)] : []));
    const groups = new Map();
    for (const layer of pass.layers) groups.set(layer.title, [...(groups.get(layer.title) || []), layer]);
    parts.all.replaceChildren(
      h("div", { class: "groups" }, [...groups].map(([title, layers]) => h("section", {}, h("h3", {}, title), h("div", { class: "multiples" }, layers.map(layerRow))))),
      ...(pass.layers.length ? [legend()] : [h("p", { class: "soft" }, "This model has no attention: it is recurrent.")]));
  }
  choose();
  parts.section.dataset.text = pass.text;
}

function layerRow(layer) {
  const heads = Array.from({ length: layer.heads }, (_, number) => {
    const key = `${layer.name}/${number}`;
    const button = h("button", {
      class: `thumb${context.shared.off.includes(key) ? " out" : ""}`, type: "button", "aria-pressed": "false", tabindex: -1, "data-layer": layer.name, "data-head": number,
      "aria-label": `${layer.title}, layer ${layer.number + 1}, head ${number + 1}${context.shared.off.includes(key) ? ", switched off" : ""}`,
      onclick: () => context.change({ layer: layer.name, head: number, row: rowIn(layer), column: null }),
      onkeydown: (event) => move(event, button),
    });
    button.append(thumbnail(layer.weights, number));
    return button;
  });
  const row = h("div", { class: "heads" }, heads);
  row.style.setProperty("--heads", layer.heads);
  return h("div", { class: "layer" }, h("span", {}, layer.number + 1), row);
}

const rowIn = (layer) => Math.min(context.shared.row ?? 0, context.shared.pass.tokens[layer.rows].length - 1);

// The Tab key stops once for all squares; arrow keys move among them.
function move(event, button) {
  const all = [...parts.all.querySelectorAll(".thumb")], row = button.parentElement.children.length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -row, ArrowDown: row }[event.key];
  if (!step) return;
  event.preventDefault();
  const next = all[all.indexOf(button) + step];
  if (next) { next.focus(); next.click(); }
}

function choose() {
  const { shared, change, go } = context, { pass, head } = shared;
  const layer = pass.layers.find((one) => one.name === shared.layer);
  for (const button of parts.all.querySelectorAll(".thumb")) {
    const on = button.dataset.layer === shared.layer && Number(button.dataset.head) === head;
    button.setAttribute("aria-pressed", String(on));
    button.tabIndex = on ? 0 : -1;
  }
  if (!layer) return [parts.chosen, parts.words].forEach((part) => part.replaceChildren());
  shared.row ??= Math.floor(pass.tokens[layer.rows].length / 2);
  shared.column ??= strongest(layer, head, shared.row);
  const { element, point } = mapOf(pass, layer, head);
  const rows = pass.tokens[layer.rows], columns = pass.tokens[layer.columns];
  parts.words.replaceChildren(h("h3", {}, "Words"), links({
    ...layer, head, rows, columns, pointed: (row) => point(row, strongest(layer, head, row)), picked: (row) => go("head", { row, column: strongest(layer, head, row) }),
  }));
  const key = `${layer.name}/${head}`, off = shared.off.includes(key);
  renew(parts.chosen,
    h("h3", { id: "chosen" }, label(layer, head)), element,
    h("p", { class: "tools" },
      h("button", { type: "button", id: "switch", "aria-pressed": String(off), onclick: () => change({ off: off ? shared.off.filter((one) => one !== key) : [...shared.off, key] }) }, off ? "Switch this head on" : "Switch this head off"),
      h("button", { type: "button", id: "pin", onclick: () => change({ beside: `${key}/${pass.text}` }) }, "Keep this map to compare")),
    h("div", { id: "beside" }));
  besides();
}

export const label = (layer, head) => `${layer.title}, layer ${layer.number + 1}, head ${head + 1}`;

function mapOf(pass, layer, head, kept = "") {
  const { shared, go } = context, rows = pass.tokens[layer.rows], columns = pass.tokens[layer.columns];
  return largeMap({ ...layer, head, rows, columns, row: Math.min(shared.row, rows.length - 1), column: Math.min(shared.column, columns.length - 1), label: label(layer, head) + kept, room: parts.chosen.clientWidth,
    picked: (row, column) => go("head", { layer: layer.name, head, row, column, text: pass.text }) });
}

// Draw the map that was kept, "layer/head/text", of another head or another text.
async function besides() {
  const { shared, change } = context, { beside } = shared;
  if (!beside) return;
  const [name, number] = beside.split("/", 2), text = beside.slice(name.length + number.length + 2);
  try {
    const seen = text === shared.pass.text ? shared.pass : await ask("translate", { text, off: shared.off });
    const layer = seen.layers.find((one) => one.name === name), box = document.getElementById("beside");
    if (!layer || !box || shared.beside !== beside) return;
    layer.weights = unpack(layer.weights);
    box.replaceChildren(h("h3", {}, "Kept: ", label(layer, Number(number)), text === shared.pass.text ? "" : h("span", { class: "soft" }, ` of “${text}”: ${seen.answer}`)),
      mapOf(seen, layer, Number(number), ", kept").element, h("button", { type: "button", onclick: () => change({ beside: null }) }, "Remove"));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  }
}

function shareTable(shares) {
  const rows = shares.slice(0, 8).map(([name, share]) => {
    const bar = h("span", { class: "bar" });
    bar.style.width = `${100 * share}%`;
    return h("tr", {}, h("th", { scope: "row" }, name), h("td", { "data-value": share }, `${(100 * share).toFixed(1)} %`), h("td", { class: "with" }, bar));
  });
  return table("Probability of each class", ["class", "probability", ""], rows);
}
