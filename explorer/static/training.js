// View 8: a run during training: curves, gradients by layer, loss scale, and attention over its saves.

import { ask, latest, Problem, unpack } from "./api.js";
import { brief, count, h, num, numbers, option, problemLine, s, table } from "./dom.js";
import { thumbnail } from "./maps.js";

export const id = "training";
export const name = "Training";
export const title = "Training, live";
export const lead =
  "The charts show the log of a run while it trains. A run that was started here can be paused and continued step by step; the list at the top leads back to other models. " +
  "Below is the attention of one head on your text, computed with the weights of each save.";

let parts, context;
const log = { rows: [], state: "", version: -1 };
const querySaves = latest("saves");

export function mount(section, { shared }) {
  context = { shared };
  const order = async (body) => {
    try {
      await ask("train", body);
      parts.problem.textContent = "";
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      parts.problem.textContent = error.message;
    }
  };
  const button = (id, text, act) => h("button", { type: "button", id, onclick: act }, text);
  const preset = h("select", { id: "preset" }, option("smoke", "smoke: half a minute, only to watch; it writes nonsense", true), option("laptop", "laptop: minutes, translates well"));
  const precision = h("select", { id: "precision" }, option("fp32", "fp32", true), option("fp16", "fp16, with a loss scale"));
  const pause = button("pause", "Pause", () => order({ order: log.state === "paused" ? "go" : "pause" }));
  const one = button("one", "One step", () => order({ order: "step" })), stop = button("stop", "Stop and save", () => order({ order: "stop" }));
  const start = h("form", { class: "ask", onsubmit: (event) => {
    event.preventDefault();
    const busy = log.state === "running" || log.state === "paused";
    if (busy && !confirm(`This ends ${log.run} at step ${log.rows.at(-1)?.step ?? 0}; its state is saved. Start a new run?`)) return;
    order({ order: "start", preset: preset.value, precision: precision.value });
  } },
    h("label", {}, "Model", preset), h("label", {}, "Precision", precision), h("button", { id: "start" }, "Start a new run"));
  const problem = problemLine(), said = h("p", { role: "status", id: "training-state" }), lines = h("pre", { tabindex: 0, "aria-label": "Output of the training" });
  const charts = h("div", { class: "charts" }), layers = h("div", { class: "charts small-charts" }), saves = h("div"), behind = h("div");
  const layersTitle = h("h3", {}, "Gradient norm by layer");
  section.append(h("div", { class: "ask" }, pause, one, stop), problem, said, lines, charts, layersTitle, layers, behind, h("h3", {}, "Train another"), start, h("h3", {}, "Attention over the saves"), saves);
  parts = { section, problem, said, lines, charts, layers, layersTitle, saves, behind, pause, one, stop, steering: [pause, one, stop] };
}

export function show() {
  draw();
  drawSaves();
}

// Handle news of the run from the server's events. `log` is also updated while other views are shown.
export function news(found) {
  let changed = false;
  if (found.problem !== undefined) {
    log.problem = found.problem;
  } else {
    log.problem = "";
    changed = found.model !== log.model;
    Object.assign(log, found, { rows: [...log.rows.slice(0, found.first), ...found.rows] });
  }
  if (parts?.section.isConnected) {
    draw();
    if (changed) drawSaves();
  }
}

export const state = () => log;

const STATES = {
  running: "Training", paused: "Paused", finished: "Trained", stopped: "Stopped and saved", failed: "The training failed", watched: "Read from its folder",
};

function draw() {
  const rows = log.rows, training = rows.filter((row) => "loss" in row), valid = rows.filter((row) => "valid_loss" in row && !row.averaged);
  const steered = log.state === "running" || log.state === "paused", step = rows.at(-1)?.step ?? 0;
  parts.problem.textContent = log.problem || "";
  parts.charts.hidden = parts.behind.hidden = !rows.length && log.state === "watched";
  if (parts.charts.hidden) parts.said.textContent = `${log.run} holds the finished model only: its log and its saves are not in the folder. Start a new run to watch one.`;
  else parts.said.replaceChildren(`${STATES[log.state] ?? "…"}: ${log.run ?? ""}, step `, num(step, { id: "training-step" }), log.steps ? ` of ${count(log.steps)}` : "", ".");
  parts.lines.textContent = log.state === "failed" || (!rows.length && log.state === "running") ? (log.said ?? []).join("\n") || "Preparing the data and the tokenizer …" : "";
  parts.lines.hidden = !parts.lines.textContent;
  for (const button of parts.steering) button.hidden = !steered;
  parts.pause.textContent = log.state === "paused" ? "Continue" : "Pause";
  const series = (from, key, label, kind) => ({ label, kind, key, points: from.filter((row) => Number.isFinite(row[key])).map((row) => [row.step, row[key]]) });
  const charts = [
    chart("Loss", context.shared.facts?.kind === "classifier" ? "nats" : "nats per token", [series(training, "loss", "training", "cool"), series(valid, "valid_loss", "validation", "warm")]),
    chart("Learning rate", "", [series(training, "learning_rate", "", "cool")]),
    chart("Gradient norm", "before clipping", [series(training, "gradient_norm", "", "cool")]),
  ];
  if (training.some((row) => "loss_scale" in row)) charts.push(scaleChart(training, series(training, "loss_scale", "", "cool")));
  parts.charts.replaceChildren(...charts);
  const layers = [...new Set(training.flatMap((row) => Object.keys(row.gradient_norms ?? {})))];
  const top = Math.max(0, ...training.flatMap((row) => Object.values(row.gradient_norms ?? {}).filter(Number.isFinite)));
  parts.layersTitle.hidden = !layers.length;
  parts.layers.replaceChildren(...layers.map((layer) => chart(layer, "", [{
    label: "", kind: "cool", key: `gradient_norms.${layer}`,
    points: training.filter((row) => Number.isFinite(row.gradient_norms?.[layer])).map((row) => [row.step, row.gradient_norms[layer]]),
  }], { width: 230, height: 84, top })));
  if (!parts.behind.firstChild) parts.behind.append(numbers("The log as a table", logTable));
  parts.section.dataset.rows = rows.length;
  parts.section.dataset.state = log.state;
}

function logTable() {
  const columns = ["step", "loss", "valid_loss", "learning_rate", "gradient_norm", "loss_scale", "skipped", "overflowed"].filter((key) => log.rows.some((row) => key in row));
  return table("Rows of metrics.jsonl, the last 200", columns.map((key) => key.replaceAll("_", " ")), log.rows.slice(-200).map((row) => h("tr", {},
    columns.map((key) => h("td", {}, typeof row[key] === "number" ? brief(row[key]) : row[key] ?? "")))));
}

// Draw lines over steps, with labels at their ends. `data-steps` and `data-values` hold the points.
function chart(title, unit, lines, { width = 360, height = 170, top = null, marks = [] } = {}) {
  const left = 8, right = 58, upper = 12, lower = 20;
  const all = lines.flatMap((line) => line.points);
  if (!all.length) return h("figure", { class: "chart" }, h("p", { class: "title" }, title), h("p", { class: "soft small" }, "nothing yet"));
  const last = Math.max(...log.rows.map((row) => row.step), 1), values = all.map(([, y]) => y);
  const high = top ?? Math.max(...values), low = top ? 0 : Math.min(0.999 * high, ...values);
  const x = (step) => left + (step / last) * (width - left - right), y = (value) => upper + (1 - (value - low) / (high - low || 1)) * (height - upper - lower);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: ${lines.filter((line) => line.points.length).map((line) => `${line.label} from ${brief(line.points[0][1])} to ${brief(line.points.at(-1)[1])}`).join("; ")}` },
    s("path", { d: `M${left} ${height - lower}H${width - right}`, class: "axis" }),
    s("text", { x: left, y: upper - 2, class: "soft" }, brief(high)), s("text", { x: left, y: height - lower - 3, class: "soft" }, brief(low)),
    s("text", { x: left, y: height - 5, class: "soft" }, "step 0"), s("text", { x: width - right, y: height - 5, class: "soft", "text-anchor": "end" }, count(last)));
  let lowest = -Infinity;
  for (const line of [...lines].sort((a, b) => y(a.points.at(-1)?.[1] ?? 0) - y(b.points.at(-1)?.[1] ?? 0))) {
    if (!line.points.length) continue;
    const [endStep, end] = line.points.at(-1);
    svg.append(s("path", {
      d: line.points.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join(""), class: `line ${line.kind}`, "data-key": line.key,
      "data-steps": line.points.map(([a]) => a).join(" "), "data-values": line.points.map(([, b]) => b).join(" "),
    }));
    if (line.points.length < 30) svg.append(...line.points.map(([a, b]) => s("circle", { cx: x(a), cy: y(b), r: 2.2, class: `dot ${line.kind}` }, s("title", {}, `step ${a}: ${brief(b)}`))));
    lowest = Math.max(y(end) + 3, lowest + 13);
    svg.append(s("text", { x: x(endStep) + 6, y: lowest, class: line.kind }, brief(end)));
  }
  for (const { step, value, label } of marks) svg.append(s("path", { class: "mark", d: `M${x(step)} ${y(value) - 5}l4 8h-8z`, "data-step": step }, s("title", {}, label)));
  return h("figure", { class: "chart" }, h("p", { class: "title" }, title, unit ? `, ${unit}` : "", lines.filter((line) => line.label).map((line, i) => [i ? " and " : ": ", h("span", { class: line.kind }, line.label)]).flat()), svg);
}

// Draw the loss scale. A triangle marks steps skipped due to overflow; its label names the first layer that overflowed.
function scaleChart(training, line) {
  const marks = [];
  training.forEach((row, i) => {
    const before = i ? training[i - 1].skipped ?? 0 : 0;
    if (row.skipped > before) marks.push({ step: row.step, value: row.loss_scale, label: `${row.skipped - before} skipped${row.overflowed ? `, first ${row.overflowed}` : ""}` });
  });
  const figure = chart("Loss scale", "fp16", [line], { marks });
  figure.append(h("p", { class: "small soft", id: "overflows" }, marks.length
    ? `△ ${training.at(-1).skipped} skipped steps. ${[...new Set(training.map((row) => row.overflowed).filter(Boolean))].map((who) => `Overflowed first: ${who}.`).join(" ")}` : "No overflow so far."));
  return figure;
}

function drawSaves() {
  const { shared } = context;
  if (!shared.facts || !log.model) return parts.saves.replaceChildren(h("p", { class: "soft" }, "After the first save."));
  if (!shared.facts.views.includes("head")) return parts.saves.replaceChildren(h("p", { class: "soft" }, "This model has no attention."));
  const body = { text: shared.text, head: shared.head, layer: shared.layer ?? undefined };
  querySaves(body, (seen) => {
    parts.saves.replaceChildren(
      h("p", { class: "soft small" }, `${seen.layer.title}, layer ${seen.layer.number + 1}, head ${seen.head + 1}, for “${shared.text}”. Choose another head in the view One head.`),
      h("div", { class: "saves" }, seen.saves.map((save) => h("figure", { "data-step": save.step }, thumbnail(unpack(save.weights), 0), h("figcaption", {}, save.step ? `step ${count(save.step)}` : "untrained")))),
      ...(seen.saves.length ? [] : [h("p", { class: "soft" }, "This run keeps no saves.")]));
    parts.section.dataset.saves = seen.saves.length;
  }, (text) => parts.saves.replaceChildren(h("p", { class: "soft" }, text)));
}
