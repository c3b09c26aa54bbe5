// View 4: the recorded calls of a training step, folded by module; the backward pass step by step; one call in detail.

import { latest, unpack } from "./api.js";
import { brief, exact, h, num, numbers, problemLine, s, table } from "./dom.js";

export const id = "graph";
export const name = "Graph";
export const title = "A training step, call by call";
export const lead =
  "This is what the engine recorded while the model computed the loss of your text and its answer, in training mode. The rows are in the order of the " +
  "calls; an arc leads from the call that computes a value to a call that uses it. Step backward, and watch the gradient arrive at each call.";

let parts, context, data, opened = null, shownText = null;
const query = latest("graph"), queryCall = latest("call");

export function mount(section, { shared, go }) {
  context = { shared, go };
  const slider = h("input", { type: "range", min: 0, max: 1, value: 0, id: "graph-step", "aria-label": "Calls that the backward pass has done" });
  slider.addEventListener("input", () => walk(Number(slider.value)));
  const later = h("button", { type: "button", class: "main", id: "graph-back", onclick: () => walk(Number(slider.value) + 1) }, "Step backward");
  const earlier = h("button", { type: "button", onclick: () => walk(Number(slider.value) - 1) }, "Undo a step");
  const problem = problemLine(), said = h("p", { role: "status", class: "soft small" }), loss = h("p"), list = h("ol", { class: "calls" }), arcs = h("div", { class: "arcs" });
  const detail = h("div", { class: "detail", id: "graph-detail" }), behind = h("div");
  const fold = (text, all) => h("button", { type: "button", onclick: () => { opened = all ? "all" : []; send(); } }, text);
  section.append(problem, h("div", { class: "ask stuck" }, later, earlier, h("label", { class: "wide" }, "The backward pass so far", slider), fold("Open all", true), fold("Fold all", false), said), loss,
    h("div", { class: "graph" }, h("div", { class: "trace" }, list, arcs), detail), behind);
  parts = { section, slider, problem, said, loss, list, arcs, detail, behind };
}

export function show({ shared }) {
  if (shownText !== shared.text) {
    if (shownText !== null) shared.call = null;
    opened = null;
    parts.slider.value = 0;
  }
  send();
}

function send() {
  const { shared } = context, body = { text: shared.text };
  if (Array.isArray(opened)) body.open = opened;
  if (opened === "all") body.open = [...everyModule];
  query(body, (answer) => {
    data = answer;
    shownText = data.text;
    parts.problem.textContent = "";
    for (const row of data.rows) if (row.kind !== "call") everyModule.add(row.key);
    if (opened === "all" && data.rows.some((row) => row.kind === "closed")) return send(); // now the inner modules are known
    opened = data.open;
    draw();
    parts.section.dataset.ready = `${data.text}/${data.rows.length}`;
  }, (text) => {
    parts.problem.textContent = text;
    for (const part of ["said", "loss", "list", "arcs", "detail", "behind"]) parts[part].replaceChildren();
  });
}

const everyModule = new Set();
const HEIGHT = 30;

function draw() {
  parts.slider.max = data.count;
  const { dropout, kind } = context.shared.facts;
  parts.loss.replaceChildren("Loss: ", num(data.loss, { id: "graph-loss" }), kind === "classifier" ? " nats" : " nats per token", dropout ? ` with dropout ${dropout}, as in training; ` : ". ",
    ...(dropout ? [num(data.evaluated, { id: "graph-evaluated" }), " without dropout. "] : []), num(data.count, { id: "graph-count" }), " calls.");
  parts.list.replaceChildren(...data.rows.map(rowOf));
  const width = Math.max(0, ...data.arcs.map((arc) => arc.x)) + 12, height = data.height;
  const middle = (row) => data.rows[row].y + HEIGHT / 2;
  parts.arcs.replaceChildren(s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": true }, data.arcs.map((arc) => {
    const a = middle(arc.from) + 4, b = middle(arc.to) - 4, r = Math.min(7, arc.x, (b - a) / 2);
    return s("path", { d: `M0 ${a}H${arc.x - r}Q${arc.x} ${a} ${arc.x} ${a + r}V${b - r}Q${arc.x} ${b} ${arc.x - r} ${b}H0`, class: "arc", "data-from": arc.from, "data-to": arc.to });
  })));
  parts.behind.replaceChildren(numbers("The gradients of all parameters", () =>
    table("The norm of each parameter's gradient in this step", ["parameter", "shape", "norm of the gradient"], data.parameters.map((one) =>
      h("tr", {}, h("th", { scope: "row", class: "mono" }, one.name), h("td", {}, one.shape.join(" × ")), h("td", { class: "gradient", "data-name": one.name, "data-value": one.norm }, brief(one.norm)))))));
  walk(Number(parts.slider.value));
  if (context.shared.call !== null && context.shared.call !== undefined) detailOf(context.shared.call);
  else detailOf(data.parts[context.shared.part] ?? data.count - 1);
}

function rowOf(row, i) {
  const fold = row.kind === "open" || row.kind === "closed";
  const label = fold
    ? [h("span", { class: "fold", "aria-hidden": true }, row.kind === "open" ? "▾" : "▸"), h("strong", {}, row.name), row.kind === "closed" ? h("span", { class: "soft" }, ` ${row.calls.length} calls`) : null]
    : [row.module ? h("span", { class: "soft" }, `${row.module} · `) : null, row.name, row.form === "fused" ? h("span", { class: "badge" }, "fused") : null,
       row.parameters.length ? h("span", { class: "soft small" }, ` ${row.parameters.join(", ")}`) : null];
  const button = h("button", {
    type: "button", class: "plain callrow", "aria-expanded": fold ? String(row.kind === "open") : null,
    onclick: () => {
      if (!fold) return detailOf(row.calls[0]);
      opened = row.kind === "open" ? opened.filter((key) => key !== row.key) : [...opened, row.key];
      focusKey = row.key;
      send();
    },
    onpointerenter: () => light(i), onfocus: () => light(i), onpointerleave: () => light(null),
  }, h("span", { class: "what" }, label), h("span", { class: "shape soft small" }, row.kind === "open" ? "" : row.shape.join("×") || "a number"),
  h("span", { class: "norm small", "data-value": row.norm }, ""));
  button.style.paddingLeft = `${0.3 + 1.1 * row.depth}rem`;
  const item = h("li", { "data-kind": row.kind, "data-calls": row.calls.length, "data-first": row.calls[0] }, button);
  if (row.key === focusKey) queueMicrotask(() => button.focus());
  return item;
}

let focusKey = null;

// Highlight the arcs into (blue) and out of (orange) a row.
function light(row) {
  for (const path of parts.arcs.querySelectorAll("path")) {
    path.classList.toggle("in", row !== null && Number(path.dataset.to) === row);
    path.classList.toggle("out", row !== null && Number(path.dataset.from) === row);
  }
}

// Mark the rows that are done after `done` calls of the backward pass, and the current row.
function walk(done) {
  done = Math.max(0, Math.min(data.count, done));
  parts.slider.value = done;
  const reached = data.count - done; // calls from this number on are done
  let current = null;
  data.rows.forEach((row, i) => {
    const item = parts.list.children[i], last = row.calls.at(-1);
    const begun = done > 0 && last >= reached;
    item.classList.toggle("done", begun);
    const here = done > 0 && row.kind !== "open" && row.calls.includes(reached);
    item.classList.toggle("here", here);
    if (here) current = row;
    item.querySelector(".norm").textContent = begun && row.kind !== "open" ? `∇ ${brief(row.norm)}` : "";
  });
  parts.section.dataset.done = done;
  parts.said.textContent = current ? `Step ${done}: the gradient, of norm ${brief(current.norm)}, has arrived at ${current.name}.` : "";
  if (current) {
    const item = parts.list.querySelector(".here");
    if (item && document.activeElement?.id !== "text") item.scrollIntoView({ block: "nearest" });
    detailOf(reached);
  }
}

function detailOf(number) {
  context.shared.call = number;
  queryCall({ text: shownText, call: number }, drawCall, (text) => { parts.problem.textContent = text; });
}

function drawCall(call) {
  const values = (label, source, value, gradient) => [h("tr", {}, h("th", { scope: "row" }, label), h("td", { class: "left" }, source),
    h("td", {}, value ? `${value.dtype} ${value.shape.join("×")}` : ""), h("td", { "data-value": value?.norm }, value ? brief(value.norm) : ""),
    h("td", { "data-value": gradient?.norm, class: "gradientnorm" }, gradient ? brief(gradient.norm) : "none"))];
  const rows = [...call.inputs.flatMap((one, i) => values(one.name, one.source, one.value, one.gradient)),
    ...call.outputs.flatMap((one, i) => values(call.outputs.length > 1 ? `output ${i}` : "output", "", one.value, one.gradient))];
  const out = call.outputs.find((one) => one.gradient) ?? call.outputs[0];
  const region = (label, child) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, child);
  const sources = call.sources.map((one, i) => h("details", { class: "numbers", open: !i }, h("summary", {}, `${one.name}, `, h("code", {}, one.file)), h("pre", { tabindex: 0 }, one.text)));
  parts.detail.replaceChildren(
    h("h3", {}, call.name), h("p", { class: "soft small" }, `call ${call.number}, in ${call.module || "the model itself"}; `,
      call.form === "fused" ? "fused: one call instead of several small ops" : "a single op"),
    h("button", { type: "button", onclick: () => context.go("check", { call: call.number }) }, "Check this gradient"),
    h("h4", {}, "The formula and its code"), h("pre", { tabindex: 0, class: "about" }, call.about), sources[0],
    region("Values and gradients", table(null, ["value", "from", "array", "norm", "∇ norm"], rows)),
    h("h4", {}, "The output, first elements"), picture(out.value, "value"),
    ...(out.gradient ? [h("h4", {}, "Its gradient"), picture(out.gradient, "gradient")] : []),
    h("details", { class: "numbers" }, h("summary", {}, `Saved for the backward pass: ${call.saved.length} arrays`),
      ...call.saved.flatMap((value, i) => [h("h4", {}, `${value.dtype} ${value.shape.join("×") || "a number"}`), picture(value, `saved ${i + 1}`)])),
    ...(call.composed ? [h("h4", {}, "Fused and composed"),
      h("p", { class: "small" }, "The same gradients, computed by small ops. The outputs differ by at most ", num(call.composed.value), "."),
      region("Fused and composed", table(null, ["gradient of", "fused", "composed", "largest difference", "relative"], call.composed.gradients.map((one) => h("tr", {},
        h("th", { scope: "row", class: "mono" }, one.source), h("td", { "data-value": one.fused.norm }, brief(one.fused.norm)), h("td", { "data-value": one.composed.norm }, brief(one.composed.norm)),
        h("td", { "data-value": one.difference }, brief(one.difference)), h("td", { class: "relative", "data-value": one.relative }, brief(one.relative))))))] : []),
    ...sources.slice(1),
  );
  for (const item of parts.list.children) item.classList.toggle("chosen", item.dataset.kind === "call" && Number(item.dataset.first) === call.number);
  parts.section.dataset.call = call.number;
}

// Draw the first rows and columns of an array: blue above zero, orange below.
function picture(value, kind) {
  if (!value) return h("p", { class: "soft" }, "none");
  const first = unpack(value.first), [rows, columns] = first.shape;
  const most = first.reduce((top, x) => (Number.isFinite(x) ? Math.max(top, Math.abs(x)) : top), 0) || 1;
  const cells = [];
  for (let i = 0; i < first.length; i++) {
    const x = first[i];
    cells.push(`<rect x="${i % columns}" y="${Math.floor(i / columns)}" width="1" height="1" class="${x < 0 ? "warm" : ""}" fill-opacity="${Math.min(1, Math.abs(x) / most).toFixed(3)}" data-value="${exact(x, true)}"><title>${brief(x)}</title></rect>`);
  }
  const size = 13;
  const svg = s("svg", { class: "cells array", width: columns * size, height: rows * size, viewBox: `0 0 ${columns} ${rows}`, role: "img", "data-kind": kind,
    "aria-label": `${kind}: the first ${rows} by ${columns} numbers, from ${brief(value.least)} to ${brief(value.largest)}` });
  svg.innerHTML = cells.join("");
  return h("div", {}, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${kind}` }, svg),
    h("p", { class: "soft small" }, value.shape.length ? `${value.shape.join("×")}, from ${brief(value.least)} to ${brief(value.largest)}` : `one number: ${brief(value.least)}`));
}
