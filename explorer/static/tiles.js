// View 7: attention by each method; blocked attention block by block.

import { latest, unpack } from "./api.js";
import { brief, count, cut, exact, h, num, problemLine, renew, s, table, whole } from "./dom.js";
import { largest, picks, strip } from "./maps.js";

export const id = "tiles";
export const name = "Three ways";
export const title = "Attention three ways";
export const lead =
  "The weights of a long text do not fit into fast memory all at once. The standard method computes all weights at once. The blocked method (FlashAttention) does not: it processes the keys in " +
  "blocks and keeps three values for each query, the largest score m, the sum l and the output o, which are rescaled when m grows.";

let parts, context, data;
const query = latest("tiles");

export function mount(section, given) {
  context = given;
  const block = h("input", { type: "range", min: 2, max: 16, value: 4, id: "tiles-block" }), blockNow = h("span", {}, "4");
  block.addEventListener("input", () => context.change({ block: Number(block.value) }, "block"));
  const box = h("div", { class: "ask" }), problem = problemLine();
  const grid = h("div"), running = h("div"), methods = h("div");
  section.append(
    box, h("div", { class: "ask" }, h("label", { class: "wide" }, h("span", {}, "Queries and keys in a block: ", blockNow), block)), problem,
    h("div", { class: "split" }, h("div", {}, h("h3", {}, "The blocks"), grid), h("div", {}, h("h3", {}, "One query, block by block"), running)),
    h("h3", {}, "The methods"), methods);
  parts = { section, picks: box, block, blockNow, problem, grid, running, methods };
}

export function show({ shared }) {
  parts.block.value = parts.blockNow.textContent = shared.block;
  const body = { text: shared.text, off: shared.off, layer: shared.layer ?? undefined, head: shared.head, query: shared.row ?? 0, block: shared.block };
  query(body, (answer) => {
    data = answer;
    for (const row of data.trace) row.o = unpack(row.o);
    for (const method of data.methods) if (method.output) method.output = unpack(method.output);
    parts.problem.textContent = "";
    renew(parts.picks, ...picks(context, data.layer, false));
    draw();
    parts.section.dataset.ready = `${body.layer}/${body.head}/${body.query}/${body.block}`;
  }, (text) => {
    parts.problem.textContent = text;
    for (const part of ["picks", "grid", "running", "methods"]) parts[part].replaceChildren();
  });
}

function draw() {
  const { rows, columns, tiles } = data, row = context.shared.row;
  const size = Math.max(5, Math.min(26, Math.floor(330 / Math.max(rows.length, columns.length))));
  const width = columns.length * size + 2, height = rows.length * size + 2;
  let visited = 0;
  const boxes = tiles.map((tile) => {
    const [q0, q1] = tile.queries, [k0, k1] = tile.keys;
    const own = q0 <= row && row < q1;
    const number = tile.skipped ? null : ++visited;
    return s("g", { class: `tile ${tile.skipped ? "skipped" : ""} ${own ? "own" : ""}` },
      s("rect", { x: k0 * size + 1, y: q0 * size + 1, width: (k1 - k0) * size - 2, height: (q1 - q0) * size - 2, rx: 2 }),
      number && (k1 - k0) * size > 24 ? s("text", { x: ((k0 + k1) / 2) * size, y: ((q0 + q1) / 2) * size + 4, "text-anchor": "middle" }, number) : null);
  });
  const skipped = tiles.length - visited;
  parts.grid.replaceChildren(
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The blocks" },
      s("svg", { class: "tiling", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${visited} blocks are computed, ${skipped} skipped` }, boxes,
        s("rect", { class: "hit", x: 0.5, y: row * size, width: width - 1, height: size }))),
    h("p", { class: "small" }, num(visited, { id: "visited" }), " blocks, numbered in their order; ", num(skipped, { id: "skipped" }),
      " skipped. Rows are queries and columns are keys. A block is skipped if none of its queries may attend to any of its keys. The frame marks the query on the right."));
  const most = largest(...data.trace.map((one) => one.o), data.methods[0].output);
  const last = data.trace.at(-1);
  const cell = (x, kind) => h("td", { "data-value": exact(x, true), class: kind }, brief(x));
  const words = ([from, to]) => columns.slice(from, to).join(" ");
  const steps = data.trace.map((one) => h("tr", {}, h("th", { scope: "row", "aria-label": words(one.keys), ...whole(words(one.keys), 26) }, cut(words(one.keys), 26)),
    h("td", { class: "withstrip" }, strip(one.o, most, "o")), cell(one.m, "m"), cell(one.rescale), cell(one.l, "l")));
  const ends = last ? [h("tr", { class: "on" }, h("th", { scope: "row" }, "o ÷ l"),
    h("td", { class: "withstrip", id: "quotient" }, strip(last.o.map((x) => x / last.l), most, "o ÷ l")), h("td"), h("td"), h("td"))] : [];
  parts.running.replaceChildren(h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The running values" },
    table(null, ["keys", "o", "m", "× before", "l"], [...steps, ...ends,
      ...data.methods.filter((one) => one.output).map((one) => h("tr", {}, h("th", { scope: "row" }, one.method),
        h("td", { class: "withstrip" }, strip(one.output, most, one.method)), h("td"), h("td"), h("td")))])),
    h("p", { class: "small soft" }, "“× before” is exp(m before − m now): the factor for l and o so far when a larger score is found."));
  parts.methods.replaceChildren(h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The methods" },
    table(null, ["method", "largest error against float64", "scores at a time, bytes", "kept for the backward pass, bytes"], data.methods.map((one) =>
      one.refused ? h("tr", { class: "off" }, h("th", { scope: "row" }, one.method), h("td", { colspan: 3, class: "left reason" }, `not available: ${one.refused}`))
        : h("tr", {}, h("th", { scope: "row" }, one.method), cell(one.error, "error"), h("td", { "data-value": one.scores }, one.scores ? count(one.scores) : "registers"), h("td", { "data-value": one.kept }, count(one.kept)))))),
    h("p", { class: "small soft" }, `handloom uses blocks if a head has at least ${count(data.long)} scores; for a sentence, the standard method is faster. `,
      "For n words, the memory of the standard method's scores grows with n². The memory of a block's scores does not grow; the memory of the three values grows with n."));
}
