// Attention maps: thumbnails, one large map, words with links between them, strips of signed numbers.

import { brief, cut, exact, h, numbers, option, s, table, whole } from "./dom.js";

// The opacity of a weight is its square root, so that small weights can be distinguished. The legend says so.
export const shade = (weight) => Math.sqrt(Math.max(0, Math.min(1, weight)));

function cells(values, offset, rows, columns) {
  const parts = [];
  for (let i = 0, at = offset; i < rows; i++) {
    for (let j = 0; j < columns; j++, at++) {
      const value = values[at];
      parts.push(`<rect x="${j}" y="${i}" width="1" height="1" fill-opacity="${shade(value).toFixed(3)}" data-value="${exact(value)}"/>`);
    }
  }
  return parts.join("");
}

// Draw one head's map as a canvas with one pixel for each cell. Drawing thousands of elements would take longer than
// the model's computation. `data-values` holds the numbers, row by row.
export function thumbnail(weights, head) {
  const [, rows, columns] = weights.shape;
  const canvas = h("canvas", { class: "map", width: columns, height: rows, "aria-hidden": "true" });
  canvas.own = weights.subarray(head * rows * columns, (head + 1) * rows * columns);
  canvas.dataset.values = Array.from(canvas.own, (weight) => weight.toPrecision(8)).join(" ");
  paint(canvas);
  return canvas;
}

const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => document.querySelectorAll("canvas.map").forEach(paint));

function paint(canvas) {
  const hex = getComputedStyle(document.documentElement).getPropertyValue("--cool").trim();
  const colour = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const brush = canvas.getContext("2d"), image = brush.createImageData(canvas.width, canvas.height);
  canvas.own.forEach((weight, i) => image.data.set([...colour, Math.round(255 * shade(weight))], 4 * i));
  brush.putImageData(image, 0, 0);
}

// Return the key with the largest weight for a query.
export function strongest({ weights }, head, row) {
  const [, q, k] = weights.shape, start = (head * q + row) * k, own = weights.subarray(start, start + k);
  return own.indexOf(Math.max(...own));
}

export function legend() {
  const stops = Array.from({ length: 40 }, (_, i) => s("rect", { x: i, y: 0, width: 1, height: 1, "fill-opacity": i / 39, "shape-rendering": "crispEdges" }));
  return h(
    "p", { class: "legend" }, "weight 0",
    s("svg", { viewBox: "0 0 40 1", preserveAspectRatio: "none", class: "cells", "aria-hidden": true }, stops),
    "1, shaded by its square root",
  );
}

const MOST = 24; // maximum number of letters in a label

// Draw one map with its words. A click or Enter calls `picked(row, column)`; arrow keys move; hovering shows a weight.
// The map is as wide as `room` if its cells stay legible; otherwise it scrolls.
export function largeMap({ weights, head, rows, columns, row, column, picked, label, room = 700 }) {
  const [, q, k] = weights.shape;
  const at = (i, j) => weights[(head * q + i) * k + j];
  const longest = (words) => Math.max(...words.map((word) => long(cut(word, MOST))));
  const before = 1.08 * longest(rows), above = 0.89 * longest(columns), after = 0.5 * long(cut(columns.at(-1), MOST));
  const size = Math.max(5, Math.min(26, Math.floor((room - before - after - 18) / k), Math.floor((Math.max(window.innerHeight, 600) - 480) / q)));
  const letters = Math.max(9, Math.min(12, size + 2)), every = Math.ceil((letters - 2) / size); // label each row, or every second one
  const left = 10 + (letters / 12) * before, top = 12 + (letters / 12) * above;
  const width = left + k * size + after + 8, height = top + q * size + 4;
  const svg = s("svg", { class: "big", "font-size": letters, width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": true });
  const grid = s("g", { class: "cells", transform: `translate(${left} ${top}) scale(${size})`, "shape-rendering": "crispEdges" });
  grid.innerHTML = cells(weights, head * q * k, q, k);
  const names = rows.map((word, i) =>
    s("text", { x: left - 6, y: top + (i + 0.5) * size + letters / 3, "text-anchor": "end", class: i % every ? "rare" : null, ...whole(word, MOST) }, cut(word, MOST)));
  const heads = columns.map((word, j) =>
    s("text", { transform: `translate(${left + (j + 0.5) * size + 4} ${top - 6}) rotate(-62)`, class: j % every ? "rare" : null, ...whole(word, MOST) }, cut(word, MOST)));
  const hit = s("rect", { class: "hit", width: size, height: size });
  svg.append(s("rect", { class: "frame", x: left, y: top, width: k * size, height: q * size }), grid, ...names, ...heads, hit);
  const readout = h("p", { class: "readout", role: "status" });
  let i = Math.min(row ?? 0, q - 1), j = Math.min(column ?? 0, k - 1);
  function point(newRow, newColumn) {
    names[i].classList.remove("on");
    heads[j].classList.remove("on");
    [i, j] = [newRow, newColumn];
    names[i].classList.add("on");
    heads[j].classList.add("on");
    hit.setAttribute("x", left + j * size);
    hit.setAttribute("y", top + i * size);
    readout.replaceChildren(
      ...said(rows[i]), " looks at ", h("strong", {}, columns[j]), " with weight ",
      h("span", { "data-value": exact(at(i, j)) }, brief(at(i, j))),
    );
  }
  function under(event) {
    const box = svg.getBoundingClientRect(), scale = box.width / width;
    const newColumn = Math.floor(((event.clientX - box.left) / scale - left) / size);
    const newRow = Math.floor(((event.clientY - box.top) / scale - top) / size);
    return newRow >= 0 && newRow < q && newColumn >= 0 && newColumn < k ? [newRow, newColumn] : null;
  }
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const box = h("div", {
    class: "scroll", tabindex: 0, role: "application", "aria-label": `${label}. Arrow keys move over the cells, Enter opens one.`,
    onpointermove: (event) => event.pointerType === "mouse" && under(event) && point(...under(event)),
    onclick: (event) => {  // a mouse already points at the cell; the first of two taps shows its weight
      const cell = under(event);
      if (cell && cell[0] === i && cell[1] === j) picked(i, j);
      else if (cell) point(...cell);
    },
    onkeydown: (event) => {
      const move = moves[event.key];
      if (move) point(Math.max(0, Math.min(q - 1, i + move[0])), Math.max(0, Math.min(k - 1, j + move[1])));
      else if (event.key === "Enter" || event.key === " ") picked(i, j);
      else return;
      event.preventDefault();
    },
  }, svg);
  point(i, j);
  const behind = numbers(`The numbers of this map: ${label}`, () =>
    table(label, ["", ...columns], rows.map((word, a) =>
      h("tr", {}, h("th", { scope: "row" }, word), columns.map((_, b) => h("td", { "data-value": exact(at(a, b)) }, brief(at(a, b))))))));
  return { element: h("div", {}, readout, box, behind), point };
}

// Describe a query in words. For a decoder it is "last token read → next token to write".
export function said(row) {
  const [read, written] = row.split(" → ");
  return written === undefined ? [h("strong", {}, row)] : ["After ", h("strong", {}, read), ", about to write ", h("strong", {}, written), ", the model"];
}

// Return the width of a label in pixels.
const measure = document.createElement("canvas").getContext("2d");
function long(word) {
  measure.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return measure.measureText(word).width;
}

// Return selects for layer, head, query and, if `key` is true, key. They change the state.
export function picks({ shared, change }, layer, key) {
  const { pass } = shared;
  const select = (label, options, value, pick) =>
    h("label", {}, label, h("select", { onchange: (event) => change(pick(event.target.value)) },
      options.map(([id, text]) => option(id, text, String(id) === String(value)))));
  const words = (list) => list.map((word, i) => [i, `${i + 1}  ${word}`]);
  return [
    select("Layer", pass.layers.map((one) => [one.name, `${one.title}, layer ${one.number + 1}`]), layer.name, (name) => {
      const rows = pass.tokens[pass.layers.find((one) => one.name === name).rows];
      return { layer: name, row: Math.min(shared.row, rows.length - 1), column: 0 };
    }),
    select("Head", Array.from({ length: layer.heads }, (_, i) => [i, i + 1]), shared.head, (value) => ({ head: Number(value) })),
    select("Query", words(pass.tokens[layer.rows]), shared.row, (value) => ({ row: Number(value) })),
    ...(key ? [select("Key", words(pass.tokens[layer.columns]), shared.column, (value) => ({ column: Number(value) }))] : []),
  ];
}

const ROW = 24.8; // height of a word in pixels: 1.55rem at 16 px

// Draw queries on the left, keys on the right and a line for each weight. Pointing at a query shows only its lines.
export function links({ weights, head, rows, columns, row, pointed, picked }) {
  const [, q, k] = weights.shape;
  const at = (i, j) => weights[(head * q + i) * k + j];
  const height = Math.max(q, k) * ROW;
  const svg = s("svg", { viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", "aria-hidden": true });
  const lines = [];
  for (let i = 0; i < q; i++) {
    for (let j = 0; j < k; j++) {
      if (at(i, j) < 0.02) continue; // too faint to see; the map shows all weights
      const a = (i + 0.5) * ROW, b = (j + 0.5) * ROW;
      lines.push(`<path d="M0 ${a}C45 ${a} 55 ${b} 100 ${b}" vector-effect="non-scaling-stroke" stroke-width="${(0.6 + 3.4 * at(i, j)).toFixed(2)}" ` +
        `stroke-opacity="${shade(at(i, j)).toFixed(3)}" data-row="${i}" data-column="${j}" data-value="${exact(at(i, j))}"/>`);
    }
  }
  svg.innerHTML = lines.join("");
  const paths = [...svg.children];
  const words = rows.map((word, i) =>
    h("button", { class: "plain", type: "button", onpointerenter: (event) => event.pointerType === "mouse" && show(i), onfocus: () => shown === i || (fresh = i, show(i)),
      onclick: () => { if (fresh === i) fresh = null; else picked(i); if (shown !== i) show(i); } }, word));
  let shown = null, fresh = null;  // the first tap focuses and shows a query; the second tap opens it
  function show(i, tell = true) {
    shown = i;
    for (const path of paths) path.style.opacity = i === null || Number(path.dataset.row) === i ? 1 : 0.07;
    words.forEach((word, number) => word.classList.toggle("on", number === i));
    if (tell && i !== null) pointed(i);
  }
  const box = h(
    "div", { class: "links", onpointerleave: () => show(null) },
    h("ol", { "aria-label": "Queries" }, words.map((word) => h("li", {}, word))),
    h("div", {}, svg),
    h("ol", { "aria-label": "Keys" }, columns.map((word) => h("li", {}, h("span", {}, word)))),
  );
  box.children[1].style.height = `${height}px`;
  if (row !== undefined && row !== null) show(row, false);
  return box;
}

// Draw signed numbers in a row: blue above zero, orange below; larger magnitudes are darker.
export function strip(values, largest, name) {
  const parts = [...values].map((value, i) =>
    `<rect x="${i}" y="0" width="1" height="1" class="${value < 0 ? "warm" : ""}" ` +
    `fill-opacity="${Math.min(1, Math.abs(value) / (largest || 1)).toFixed(3)}" data-value="${exact(value)}"><title>${name} ${i}: ${brief(value)}</title></rect>`);
  const svg = s("svg", { class: "strip cells", viewBox: `0 0 ${values.length} 1`, preserveAspectRatio: "none", role: "img", "aria-label": `${name}: ${values.length} numbers` });
  svg.innerHTML = parts.join("");
  return svg;
}

export const largest = (...arrays) => Math.max(...arrays.map((values) => values.reduce((most, x) => Math.max(most, Math.abs(x)), 0)));
