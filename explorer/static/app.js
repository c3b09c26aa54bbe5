// The page: which view is shown, the state that all views share, and keyboard focus.

import { ask, Problem } from "./api.js";
import { count, h } from "./dom.js";
import * as beam from "./beam.js";
import * as bpe from "./bpe.js";
import * as tiles from "./tiles.js";
import * as check from "./check.js";
import * as graph from "./graph.js";
import * as head from "./head.js";
import * as training from "./training.js";
import * as translate from "./translate.js";

const VIEWS = [translate, head, beam, graph, check, bpe, tiles, training];

// What views share: the text, its pass through the model, and the cell chosen last.
export const shared = { facts: null, text: null, pass: null, layer: null, head: 0, row: null, column: 0, call: null };

const main = document.getElementById("main");
const sections = new Map();
const links = new Map();

const named = (id) => VIEWS.find((view) => view.id === id) || VIEWS[0];

function show(view, focus) {
  let section = sections.get(view.id);
  if (!section) {
    section = h("section", { id: `view-${view.id}`, "aria-labelledby": `title-${view.id}` },
      h("h2", { id: `title-${view.id}` }, view.title), h("p", { class: "lead" }, view.lead));
    sections.set(view.id, section);
    view.mount(section, { shared, go });
  }
  for (const [id, link] of links) link.toggleAttribute("aria-current", false);
  links.get(view.id).setAttribute("aria-current", "page");
  main.replaceChildren(section);
  document.title = `${view.title} – handloom explorer`;
  view.show({ shared, go });
  if (focus) {
    main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
}

// Go to another view, with changes to what it shows.
export function go(id, changes = {}) {
  Object.assign(shared, changes);
  if (location.hash === `#${id}`) show(named(id), true);
  else location.hash = id;
}

function describe({ model, problem }) {
  shared.facts = model;
  const facts = document.getElementById("facts");
  facts.textContent = model
    ? `${model.kind} · ${model.run} · ${count(model.parameters)} parameters · ${count(model.vocabulary)} tokens`
    : problem;
}

for (const view of VIEWS) {
  const link = h("a", { href: `#${view.id}` }, view.name);
  links.set(view.id, link);
  document.getElementById("views").append(h("li", {}, link));
}
window.addEventListener("hashchange", () => show(named(location.hash.slice(1)), true));

async function learn() {
  try {
    describe(await ask("state"));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    document.getElementById("facts").textContent = error.message;
  }
  shared.text ||= shared.facts?.example ?? "";
}

await learn();
if (!shared.facts && !location.hash) history.replaceState(null, "", "#training"); // the other views need a model
show(named(location.hash.slice(1)), false);
document.documentElement.dataset.ready = "yes";

// Events of the run: the training view draws them, and the other views get new weights.
let weights = null;
new EventSource("events").addEventListener("message", async ({ data }) => {
  const found = JSON.parse(data);
  if (found.model && found.model !== weights) {
    if (weights !== null || !shared.facts) {
      await learn();
      const view = named(location.hash.slice(1));
      if (view.renewed) view.renewed();
    }
    weights = found.model;
  }
  training.news(found);
});
