// State shared by the views, with a copy in the address: #view?text=...&layer=...; reload keeps it, Back undoes it.

const text = String, number = Number, list = (value) => value.split(",").filter(Boolean);
const KINDS = {
  text, off: list, layer: text, head: number, row: number, column: number, beside: text, temperature: number, width: number,
  alpha: number, merges: number, word: text, block: number, call: number, part: text, card: number,
};
export const DEFAULTS = { text: null, off: [], layer: null, head: 0, row: null, column: null, beside: null, temperature: 1, width: null, alpha: null, merges: null, word: null, block: 4, call: null, part: null, card: null };

export const shared = { view: "model", facts: null, pass: null, ...DEFAULTS };

// Return the address of a view for the current state with `changes`.
export function address(view, changes = {}) {
  const state = { ...shared, ...changes }, query = new URLSearchParams();
  for (const key of Object.keys(KINDS)) {
    const value = state[key], usual = { text: shared.facts?.example, width: shared.facts?.beam, alpha: shared.facts?.alpha }[key];
    if (value !== null && String(value) !== String(DEFAULTS[key]) && value !== usual) query.set(key, String(value));
  }
  return `#${view}${query.size ? `?${query}` : ""}`;
}

// Read the state from the address.
export function read() {
  const [view, query] = location.hash.slice(1).split(/\?(.*)/s), given = new URLSearchParams(query);
  Object.assign(shared, DEFAULTS, { view: view || "model" });
  for (const [key, kind] of Object.entries(KINDS)) {
    const value = given.has(key) ? kind(given.get(key)) : null;
    if (value !== null && !Number.isNaN(value)) shared[key] = value;
  }
}

// Change the state and the address. Continuous changes, such as a slider or typing, are one step for Back.
let flowed = null;
export function keep(changes, flowing = null) {
  Object.assign(shared, changes);
  const target = address(shared.view);
  if (target !== (location.hash || "#model")) history[flowing && flowing === flowed ? "replaceState" : "pushState"](null, "", target);
  flowed = flowing;
}
