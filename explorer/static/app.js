// The page: its header, the text, the model's answer, the selected view and the keyboard focus.

import { alone, ask, events, latest, Problem, unpack } from "./api.js";
import { count, h, settled, showWhole } from "./dom.js";
import { address, DEFAULTS, keep, read, shared } from "./state.js";
import { strongest } from "./maps.js";
import * as beam from "./beam.js";
import * as bpe from "./bpe.js";
import * as check from "./check.js";
import * as graph from "./graph.js";
import * as head from "./head.js";
import * as model from "./model.js";
import * as next from "./next.js";
import * as tiles from "./tiles.js";
import * as tour from "./tour.js";
import * as training from "./training.js";
import * as translate from "./translate.js";

const VIEWS = [model, translate, head, next, beam, bpe, tiles, graph, check, training];
const NAMES = { "language model": "Continue", classifier: "Classify" }; // name of the view "Translate" for other models

const main = document.getElementById("main"), input = document.getElementById("text"), problem = document.getElementById("problem");
const answer = document.getElementById("answer"), sections = new Map();

const possible = () => VIEWS.filter((view) => (shared.facts?.views ?? ["training"]).includes(view.id));
const named = (id) => possible().find((view) => view.id === id) || possible()[0];
const headOf = (key) => {
  const at = key.lastIndexOf("/"), layer = shared.pass?.layers.find((one) => one.name === key.slice(0, at));
  return layer ? translate.label(layer, Number(key.slice(at + 1))) : key;
};
const nameOf = (view) => (view === translate && NAMES[shared.facts?.kind]) || view.name;

// Change the state, then redraw the view or show another view.
export function go(view, changes = {}, flowing = null) {
  const other = view !== shared.view;
  keep({ ...changes, view }, flowing);
  if ("text" in changes || "off" in changes) return run();
  show(other);
}
export const change = (changes, flowing = null) => go(shared.view, changes, flowing);

function say(text) {
  problem.textContent = text;
  main.classList.toggle("stale", Boolean(text));
  answer.classList.toggle("stale", Boolean(text));
}

// Return why the page shows another view than the one in the address.
function absent(id) {
  const view = VIEWS.find((one) => one.id === id);
  if (!view) return `There is no view “${id}”. `;
  return alone ? `The view ${view.name} needs an installed handloom: python -m handloom.explorer --view ${id}. ` : `This model has no view ${view.name}. `;
}

let missing = "";
function show(focus) {
  const view = named(shared.view);
  if (shared.facts && view.id !== shared.view) {
    missing = absent(shared.view);
    shared.view = view.id;
    history.replaceState(null, "", address(view.id));
  } else if (focus) missing = "";
  let section = sections.get(view.id);
  if (!section) {
    section = h("section", { id: `view-${view.id}`, "aria-labelledby": `title-${view.id}` },
      h("h2", { id: `title-${view.id}` }), h("p", { class: "lead" }, view.lead));
    sections.set(view.id, section);
    view.mount(section, { shared, go, change });
  }
  const title = view === translate && NAMES[shared.facts?.kind] ? `${nameOf(view)}, and see the attention` : view.title;
  section.querySelector("h2").textContent = title;
  document.getElementById("views").replaceChildren(...possible().map((one) => h("li", {}, h("a", {
    href: address(one.id), "aria-current": one === view ? "page" : null,
    onclick: (event) => { if (!event.ctrlKey && !event.metaKey) { event.preventDefault(); go(one.id); } },
  }, nameOf(one)))));
  document.getElementById("ask").hidden = !shared.facts || view === training;
  document.getElementById("off").replaceChildren(missing, ...(shared.off.length ? [
    `Switched off: ${shared.off.map(headOf).join("; ")}. ${view === graph || view === check ? "This view uses all heads. " : ""}`, h("button", { type: "button", class: "plain link", onclick: () => change({ off: [] }) }, "Switch all on")] : []));
  main.classList.toggle("stale", Boolean(problem.textContent) && view !== training && view !== bpe);
  if (main.firstChild !== section) main.replaceChildren(section);
  document.title = `${title} – handloom explorer`;
  tour.show({ shared, go, change });
  if (shared.pass || view === training || view === bpe) view.show({ shared, go, change });
  if (focus) {
    main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
}

// Compute the model's answer to the text and all attention weights, then show the view.
const query = latest("translate");
function run(focus = false) {
  if (document.activeElement !== input) input.value = shared.text;
  const key = JSON.stringify([shared.text, shared.off, shared.facts?.run]);
  if (!shared.facts || shared.pass?.key === key) return show(focus);
  if (!shared.pass) show(focus);  // show the frame while the model computes
  query({ text: shared.text, off: shared.off }, (seen) => {
    for (const layer of seen.layers) layer.weights = unpack(layer.weights);
    shared.pass = Object.assign(seen, { key });
    const layer = seen.layers.find((one) => one.name === shared.layer) ?? seen.layers.at(-1);
    if (layer) {
      const rows = seen.tokens[layer.rows].length, columns = seen.tokens[layer.columns].length;
      Object.assign(shared, { layer: layer.name, head: Math.min(shared.head, layer.heads - 1), row: Math.min(shared.row ?? Math.floor(rows / 2), rows - 1) });
      shared.column = Math.min(shared.column ?? strongest(layer, shared.head, shared.row), columns - 1);
    }
    say("");
    answer.textContent = seen.answer;
    document.documentElement.dataset.text = seen.text;
    document.documentElement.dataset.off = shared.off.join(",");
    show(focus);
  }, (text) => {
    say(text);
    document.documentElement.dataset.text = shared.text;
    show(focus);
  });
}

async function learn() {
  let found;
  try {
    found = await ask("state");
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return say(error.message);
  }
  shared.facts = found.model;
  const { model: facts, runs } = found;
  document.getElementById("facts").textContent = facts ? `${facts.kind} · ${count(facts.parameters)} parameters · vocabulary of ${count(facts.vocabulary)} tokens` : found.problem;
  if (alone) document.getElementById("facts").append(" · runs in your browser; handloom explore also shows Graph, Gradient check, Three ways and Training");
  document.getElementById("runs").hidden = !runs;
  document.getElementById("run").replaceChildren(...(runs ?? []).map((name) => h("option", { value: name, selected: name === found.run }, name)));
  shared.text ??= facts?.example ?? "";
  shared.width ??= facts?.beam ?? 5;
  shared.alpha ??= facts?.alpha ?? 1;
}

async function arrive(focus) {
  read();
  shared.text ??= shared.facts?.example ?? "";
  shared.width ??= shared.facts?.beam ?? 5;
  shared.alpha ??= shared.facts?.alpha ?? 1;
  run(focus);
}

input.addEventListener("input", settled(() => {
  if (input.value !== shared.text) go(shared.view, { text: input.value, row: null, column: null }, "text"); // the same text again keeps the selected cell
}, 150));
document.getElementById("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  shared.pass = null;
  go(shared.view, { text: input.value });
});
document.getElementById("run").addEventListener("change", async ({ target }) => {
  const { text, facts, card } = shared;
  for (const part of [main, answer]) part.classList.add("stale");
  document.getElementById("facts").textContent = `Loading ${target.value} …`;
  try {
    await ask("choose", { run: target.value });
  } catch (error) {
    return say(error.message);
  }
  Object.assign(shared, DEFAULTS, { pass: null, card });
  await learn();
  input.value = shared.facts?.example === facts?.example ? text : shared.text;
  go(shared.view, { text: input.value });
});
window.addEventListener("popstate", () => arrive(true));
tour.mount({ shared, go, change });
showWhole(document.getElementById("whole"));

read();
await learn();
run();
document.documentElement.dataset.ready = "yes";

// Handle the events of the run: the training view draws them, and the other views use the new weights.
let weights = null;
events(async (found) => {
  if (found.model === 0 && shared.facts) {  // a new run without a model
    await learn();
    show();
  }
  if (found.model && found.model !== weights) {
    if (weights !== null || !shared.facts) {
      await learn();
      shared.pass = null;
      run();
    }
    weights = found.model;
  }
  training.news(found);
}, (text) => { if (text || problem.textContent) say(text); });
