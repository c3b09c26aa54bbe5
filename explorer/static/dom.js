// Functions that build elements, and the parts that several views share.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const h = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

// Format a number for reading: about four digits, with an exponent only below 1e-4 and from 1e5 on.
export function brief(x) {
  if (!Number.isFinite(x)) return x > 0 ? "∞" : x < 0 ? "−∞" : "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1e5) return String(x).replace("-", "−");
  const text = size >= 1e5 || size < 1e-4 ? x.toExponential(1) : x.toFixed(size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 4);
  return text.replace("-", "−");
}

// Format a number for comparison: the digits of float32, or all digits.
export const exact = (x, float64 = false) => (float64 ? String(x) : String(Number(x.toPrecision(8))));

export const count = (x) => x.toLocaleString("en");

// Show a number, with its exact value for tests.
export const num = (x, attributes = {}) => h("span", { "data-value": exact(x, true), ...attributes }, brief(x));

// Return a table of a picture's numbers. The table is built when it is opened.
export function numbers(title, make) {
  const box = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title });
  const details = h("details", { class: "numbers" }, h("summary", {}, title), box);
  details.addEventListener("toggle", () => {
    if (details.open) box.replaceChildren(make());
  });
  return details;
}

export function table(caption, head, rows, attributes = {}) {
  return h(
    "table", attributes,
    caption ? h("caption", {}, caption) : null,
    h("thead", {}, h("tr", {}, head.map((name, i) => h(name ? "th" : "td", name && { scope: "col", class: i && !["text", "token", "from", "o"].includes(name) ? null : "left" }, name)))),
    h("tbody", {}, rows),
  );
}

// Shorten a label to `most` letters. `showWhole`, and a table or an accessible name, give the whole label.
export const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
export const whole = (text, most) => (text.length > most ? { "data-whole": text } : {});

// If a pointed, tapped or focused element has `data-whole` or is cut by its style, show its whole text in `line`.
export function showWhole(line) {
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, ({ target }) => {
      const cut = "[data-whole], .what", found = target.closest(cut) ?? (target.matches("a, button") ? target.querySelector(cut) : null);
      line.textContent = found?.dataset.whole ?? (found && found.scrollWidth > found.clientWidth ? found.textContent : "");
    });
  }
}

// Replace the children of a box. The focus stays on the control in the same place.
export function renew(box, ...children) {
  const controls = () => [...box.querySelectorAll("button, select, input, summary, [tabindex]")], at = controls().indexOf(document.activeElement);
  box.replaceChildren(...children);
  controls()[at]?.focus({ preventScroll: true });
}

// A line for error messages, which screen readers announce.
export const problemLine = () => h("p", { class: "problem", role: "alert" });

export function option(value, text, selected) {
  return h("option", { value, selected }, text);
}

// Return a function that executes only the last of several calls in quick succession.
export function settled(call, milliseconds) {
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...values), milliseconds);
  };
}
