// View 5: comparison of one call's gradient with finite differences; the user can plant a mistake.

import { ask, latest, unpack } from "./api.js";
import { brief, count, exact, h, numbers, option, problemLine, s, table } from "./dom.js";

export const id = "check";
export const name = "Gradient check";
export const title = "Is this gradient correct?";
export const lead =
  "A backward rule computes a derivative. This page compares it with finite differences of the forward computation, in float64, for the call's real inputs. It compares " +
  "24 entries of each input: the largest, those in the rows of the targets, entries that a planted mistake changes, and others. Points on the diagonal agree. Plant a mistake and see whether it is found.";

let parts, context;
const query = latest("check"), queryGraph = latest("graph");

export function mount(section, given) {
  context = given;
  const calls = h("select", { id: "check-call", onchange: () => context.change({ call: Number(calls.value) }) });
  const plants = h("select", { id: "check-plant", onchange: () => send(Number(plants.value)) });
  const problem = problemLine(), verdict = h("div", { role: "status" }), pictures = h("div", { class: "plots" }), behind = h("div");
  section.append(h("div", { class: "ask" }, h("label", {}, "Call", calls), h("label", {}, "Planted mistake", plants)), problem, verdict, pictures, behind);
  parts = { section, calls, plants, problem, verdict, pictures, behind, text: null };
}

export function show({ shared }) {
  if (parts.text === shared.text) return send(-1);
  queryGraph({ text: shared.text, open: [] }, async (folded) => {
    // List every call by its module: open all modules of the graph.
    const names = new Map();
    let keys = folded.rows.filter((row) => row.kind === "closed").map((row) => row.key), rows = folded.rows;
    while (keys.length) {
      const answer = await ask("graph", { text: shared.text, open: [...opened(rows), ...keys] });
      rows = answer.rows;
      keys = rows.filter((row) => row.kind === "closed").map((row) => row.key);
    }
    for (const row of rows) if (row.kind === "call") names.set(row.calls[0], row.name);
    parts.text = shared.text;
    parts.calls.replaceChildren(...[...names].map(([number, name]) => option(number, `${number}  ${name}`)));
    if (!names.has(shared.call)) shared.call = [...names].find(([, name]) => name === "StandardAttention")?.[0] ?? 0;
    send(-1);
  }, failed);
}

const opened = (rows) => rows.filter((row) => row.kind === "open").map((row) => row.key);

function failed(text) {
  parts.problem.textContent = text;
  for (const part of ["verdict", "pictures", "behind"]) parts[part].replaceChildren();
}

function send(plant) {
  const { shared } = context;
  parts.calls.value = shared.call;
  parts.verdict.replaceChildren(h("p", { class: "soft" }, "Measuring …"));
  query({ text: shared.text, call: shared.call, plant }, (answer) => {
    parts.problem.textContent = "";
    draw(answer, plant);
    parts.section.dataset.ready = `${answer.number}/${plant}`;
  }, failed);
}

function draw(seen, plant) {
  parts.plants.replaceChildren(option(-1, "none: the rule as it is", plant === -1), ...seen.mutants.map((one) => option(one.number, one.what, one.number === plant)));
  const worst = Math.max(0, ...seen.inputs.map((one) => one.error));
  const total = (key) => count(seen.inputs.reduce((sum, one) => sum + one[key], 0));
  for (const one of seen.inputs) one.compared = one.positions.length;
  const said = seen.planted
    ? seen.ok ? (total("changed") === "0" ? "Not found: with these inputs the mistake changes nothing." : "Not found: the changes are as small as rounding.") : "Found."
    : seen.ok ? `The gradient is right in the ${total("compared")} of ${total("size")} entries that were compared.` : "The gradient is wrong.";
  parts.verdict.replaceChildren(
    h("p", { class: "answer", id: "check-verdict" }, said),
    h("p", { class: "soft" }, seen.error || `${seen.name}${seen.module ? ` in ${seen.module}` : ""}: largest relative difference `, seen.error ? "" : h("span", { "data-value": worst }, brief(worst)), "."),
    ...(seen.planted ? [h("p", {}, "In ", h("code", {}, seen.planted.where), ": ", h("code", { class: "cool" }, seen.planted.old), " became ", h("code", { class: "warm" }, seen.planted.new), seen.error ? "." : `. This changes ${total("changed")} of ${total("size")} entries of the gradients.`)] : []));
  for (const one of seen.inputs) for (const key of ["analytic", "numeric", "excess"]) one[key] = unpack(one[key]);
  parts.pictures.replaceChildren(...seen.inputs.map(plot));
  parts.behind.replaceChildren(...(seen.inputs.length ? [numbers("All entries as a table", () => table("Each entry that was compared", ["input", "entry", "analytic", "numeric", "difference", "verdict"],
    seen.inputs.flatMap((one) => [...one.analytic].map((a, i) => h("tr", { class: one.excess[i] > 1 ? "on" : null },
      h("th", { scope: "row", class: "mono" }, one.name), h("td", { class: "mono" }, `[${one.positions[i].join(", ")}]`),
      h("td", { "data-value": a }, brief(a)), h("td", { "data-value": one.numeric[i] }, Number.isNaN(one.numeric[i]) ? "kink" : brief(one.numeric[i])),
      h("td", {}, brief(Math.abs(a - one.numeric[i]))), h("td", {}, Number.isNaN(one.numeric[i]) ? "left out" : one.excess[i] > 1 ? "wrong" : "right"))))))] : []));
}

// Plot the analytic gradient against the numeric gradient. Points on the diagonal agree.
function plot(one) {
  const size = 220, edge = 26;
  const known = [...one.analytic, ...one.numeric].filter(Number.isFinite);
  const most = Math.max(1e-30, ...known.map(Math.abs));
  const x = (value) => edge + ((value / most + 1) / 2) * (size - 2 * edge);
  const y = (value) => size - x(value);
  const points = [...one.analytic].map((a, i) => {
    const n = one.numeric[i], kink = Number.isNaN(n), wrong = one.excess[i] > 1;
    const attributes = { class: `point ${kink ? "kink" : wrong ? "wrong" : "right"}`, "data-analytic": exact(a, true), "data-value": exact(n, true) };
    const label = s("title", {}, `[${one.positions[i].join(", ")}] analytic ${brief(a)}, ${kink ? "a kink" : `numeric ${brief(n)}`}`);
    if (wrong) return s("path", { ...attributes, d: `M${x(n) - 4} ${y(a) - 4}l8 8m0 -8l-8 8` }, label);
    return s("circle", { ...attributes, cx: x(kink ? 0 : n), cy: y(a), r: kink ? 5 : 3.5 }, label);
  });
  const wrong = one.excess.filter((excess) => excess > 1).length;
  const svg = s("svg", { class: "plot", width: size, height: size, viewBox: `0 0 ${size} ${size}`, role: "img",
    "aria-label": `${one.name}: ${one.analytic.length} entries, ${wrong} wrong, ${one.kinks} on kinks` },
    s("line", { x1: edge, y1: size - edge, x2: size - edge, y2: edge, class: "axis" }),
    s("line", { x1: edge, y1: size / 2, x2: size - edge, y2: size / 2, class: "axis" }), s("line", { x1: size / 2, y1: edge, x2: size / 2, y2: size - edge, class: "axis" }),
    s("text", { x: size - edge + 2, y: size / 2 + 13, class: "soft", "text-anchor": "end" }, `numeric ${brief(most)}`),
    s("text", { x: size / 2 + 5, y: edge - 6, class: "soft" }, "analytic"), points);
  return h("figure", {}, svg, h("figcaption", {}, h("span", { class: "mono" }, one.name), h("br"),
    `${one.shape.join("×") || "a number"}: ${one.compared} of ${count(one.size)} compared, ${one.compared - wrong - one.kinks} right`, wrong ? h("strong", { class: "warm" }, `, ${wrong} wrong ×`) : "", one.kinks ? `, ${one.kinks} on a kink ○` : "",
    one.hint ? h("p", { class: "warm" }, `Guess: ${one.hint}.`) : ""));
}
