// The tour: eight cards, each with a view and a question. Also the glossary of the pages.

import { h, renew } from "./dom.js";

const CROSS = (shared) => shared.pass?.layers.filter((layer) => layer.title === "Cross-attention").at(-1)?.name ?? shared.layer;
const CARDS = [
  ["model", {}, "What is inside?", "A model is a stack of layers. A translator has two stacks: the encoder reads your text, and the decoder writes the answer. Each blue box is a link. Follow the arrows from the text to the answer."],
  ["bpe", {}, "What does the model read?", "The model reads tokens: pieces of words that the tokenizer has learned. Move the slider to 0 and back: which words are one token?"],
  ["translate", (shared) => ({ layer: CROSS(shared), head: 0, row: null, column: null }), "Which words does a word look at?", "Each row of the large map is a query, and each column is a key. In the cross-attention of a translator, the rows write the answer and the columns are your text. Point at a row that writes a word: does its translation have the largest weight?"],
  ["head", (shared) => ({ layer: CROSS(shared) }), "Where does a weight come from?", "A weight is computed from the product of two vectors, a query and a key. Double the scale: do the weights become more or less uniform?"],
  ["translate", (shared) => ({ off: shared.off.length ? shared.off : [`${CROSS(shared)}/0`] }), "Does one head matter?", "One head is switched off here. How does the answer change? Switch all heads on again, then try other heads: most can be missed alone."],
  ["next", { off: [], temperature: 1 }, "How sure is the model?", "At each position, the model gives a probability to every token. Raise the temperature slowly: at which position do two tokens first become about equally probable?"],
  ["beam", {}, "Is the most probable token always the best one?", "Beam search keeps several sequences, as many as the beam width. Change the beam width to 1, which keeps only the most probable token at each step: does the best sequence change?"],
  ["check", {}, "How does it learn, and is that right?", "Training follows gradients. Each backward rule is compared with finite differences. Plant a mistake and see whether the comparison finds it."],
];

const WORDS = {
  "token": "A word or a piece of a word: the unit that the model reads and writes.",
  "head": "One of several attention functions that a layer computes in parallel, each with its own projections.",
  "query, key, value": "Three vectors that are computed from each token. A query is compared with all keys, which gives the weights; the result is the average of the values with these weights.",
  "weight": "The share of a key's value in the result of a query, from 0 to 1. The weights of a row sum to 1.",
  "·": "A space: ·you is the token “you” with the space before it.",
  "\\xd0": "One byte of a letter that has no token of its own.",
  "<bos>, <eos>": "The tokens at the beginning and at the end of a sequence.",
  "nat": "The unit of the loss and of log-probabilities, which are natural logarithms.",
  "X → Y": "The position of the decoder that has read the answer up to X and computes the next token, Y.",
};

let box;
export function mount({ shared, change }) {
  box = document.getElementById("card");
  document.getElementById("tour").addEventListener("click", () => turn(shared.card === null ? 0 : null));
  document.getElementById("words").append(h("dl", {}, Object.entries(WORDS).flatMap(([word, text]) => [h("dt", {}, word), h("dd", {}, text)])));
  const words = document.getElementById("words");
  for (const kind of ["keydown", "pointerdown"]) document.addEventListener(kind, ({ key, target }) => { if (key ? key === "Escape" : !words.contains(target)) words.open = false; });
  const cards = () => CARDS.filter(([view]) => shared.facts?.views.includes(view));
  function turn(number) {
    if (number === null || !cards()[number]) {
      change({ card: null });
      return document.getElementById("tour").focus();
    }
    const [view, changes] = cards()[number];
    context.go(view, { ...(typeof changes === "function" ? changes(shared) : changes), card: number });
    box.querySelector(".main")?.focus();
  }
  box.turn = turn;
  box.cards = cards;
}

let context;
export function show(given) {
  context = given;
  const { card } = given.shared, found = card === null ? null : box.cards()[card];
  box.hidden = !found;
  if (!found) return box.replaceChildren();
  const [, , question, text] = found, last = card === box.cards().length - 1;
  const button = (label, number) => h("button", { type: "button", class: label === "Back" ? null : "main", onclick: () => box.turn(number) }, label);
  renew(box, h("strong", {}, `${card + 1} of ${box.cards().length}. ${question}`), h("p", {}, text),
    h("p", {}, ...(card ? [button("Back", card - 1), " "] : []), button(last ? "End" : "Next", last ? null : card + 1), " ",
      ...(last ? [] : [h("button", { type: "button", class: "plain link", onclick: () => box.turn(null) }, "Skip the tour")])));
}
