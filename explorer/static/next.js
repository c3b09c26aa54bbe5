// The most probable next tokens at each position of the answer, with a temperature.

import { latest } from "./api.js";
import { h, problemLine } from "./dom.js";

export const id = "next";
export const name = "Next word";
export const title = "The probabilities of the next word";
export const lead = "Each column is a position of the answer. It shows the ten most probable tokens, given your text and the answer so far. The outlined token was written. The perplexity is the number of equally probable tokens that would be just as uncertain. A high temperature makes the probabilities more equal, and a low temperature favours the most probable token.";

let parts, context;
const query = latest("next");

export function mount(section, given) {
  context = given;
  const slider = h("input", { type: "range", min: 0.1, max: 5, step: 0.1, id: "temperature" }), now = h("span");
  slider.addEventListener("input", () => context.change({ temperature: Number(slider.value) }, "temperature"));
  const problem = problemLine(), columns = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Positions" });
  section.append(h("div", { class: "ask" }, h("label", { class: "wide" }, h("span", {}, "Temperature: ", now), slider)), problem, columns);
  parts = { section, slider, now, problem, columns };
}

export function show({ shared }) {
  const { temperature, text, off } = shared;
  parts.slider.value = temperature;
  parts.now.textContent = `${temperature.toFixed(1)}${temperature === 1 ? ", as in training" : ""}`;
  query({ text, off, temperature }, (answer) => {
    parts.problem.textContent = "";
    parts.columns.replaceChildren(h("div", { class: "positions" }, answer.positions.map(column)));
    parts.section.dataset.ready = `${text}/${temperature}`;
  }, (said) => { parts.problem.textContent = said; });
}

function column({ read, written, candidates, entropy }) {
  return h("section", {}, h("h3", {}, h("span", { class: "soft" }, "after "), read),
    h("ol", {}, candidates.map(([token, share]) => {
      const bar = h("span", { class: "bar" });
      bar.style.width = `${100 * share}%`;
      return h("li", { class: token === written ? "written" : null, "data-value": share },
        h("span", { class: "token" }, token), h("span", { class: "soft" }, share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`), bar);
    })), h("p", { class: "soft small" }, `perplexity ${Math.exp(entropy).toFixed(1)}`));
}
