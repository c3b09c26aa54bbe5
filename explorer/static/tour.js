// The tour: eight cards, each with a view and a question. Also the glossary of the pages.

import { h } from "./dom.js";

const CROSS = (shared) => shared.pass?.layers.filter((layer) => layer.title === "Cross-attention").at(-1)?.name ?? shared.layer;
const CARDS = [
  ["model", {}, "What is inside?", "The model has two stacks of layers: the encoder reads the German sentence, and the decoder writes the English sentence. Each box is a link. Follow the arrows from the text to the answer."],
  ["bpe", {}, "What does the model read?", "The model reads tokens: pieces of words that the tokenizer has learned. Move the slider to 0 and back: which words are one token?"],
  ["translate", (shared) => ({ layer: CROSS(shared), head: 0, row: null, column: null }), "Which German word does “you” look at?", "In cross-attention, each row is a position of the answer, and each column is a German token. Point at the row that writes ·you: does du have the largest weight?"],
  ["head", (shared) => ({ layer: CROSS(shared) }), "Where does a weight come from?", "A weight is computed from the product of two vectors, a query and a key. Double the scale: do the weights become more or less uniform?"],
  ["translate", (shared) => ({ off: shared.off.length ? shared.off : [`${CROSS(shared)}/0`] }), "Does one head matter?", "One head is switched off here. Does the translation change? Switch off more heads, then switch all heads on again."],
  ["next", { off: [], temperature: 1 }, "How sure is the model?", "At each position, the model gives a probability to every token. Raise the temperature: at which position does a second token come close first?"],
  ["beam", {}, "Is the most probable token always the best one?", "Beam search keeps several hypotheses. Set the beam width to 1: is the translation still the same?"],
  ["check", {}, "How does it learn, and is that right?", "Training follows gradients. Each backward rule is compared with finite differences. Plant a mistake and see whether the comparison finds it."],
];

const WORDS = {
  "head": "One of several attention functions that a layer computes in parallel, each with its own projections.",
  "query, key, value": "Three vectors that are computed from each token. A query is compared with all keys, which gives the weights; the result is the average of the values with these weights.",
  "weight": "The share of a key's value in the result of a query, from 0 to 1. The weights of a row sum to 1.",
  "·": "A blank: ·you is the token “you” with the blank before it.",
  "<bos>, <eos>": "The tokens at the beginning and at the end of a sequence.",
  "logit": "The score of a token before softmax turns the scores into probabilities.",
  "after X, about to write Y": "The position of the decoder that has read the answer up to X and computes the next token, Y.",
};

let box;
export function mount({ shared, change }) {
  box = document.getElementById("card");
  document.getElementById("tour").addEventListener("click", () => turn(shared.card === null ? 0 : null));
  document.getElementById("words").append(h("dl", {}, Object.entries(WORDS).flatMap(([word, text]) => [h("dt", {}, word), h("dd", {}, text)])));
  const cards = () => CARDS.filter(([view]) => shared.facts?.views.includes(view));
  function turn(number) {
    if (number === null || !cards()[number]) return change({ card: null });
    const [view, changes] = cards()[number];
    context.go(view, { ...(typeof changes === "function" ? changes(shared) : changes), card: number });
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
  const button = (label, number) => h("button", { type: "button", onclick: () => box.turn(number) }, label);
  box.replaceChildren(h("strong", {}, `${card + 1} of ${box.cards().length}. ${question}`), h("p", {}, text),
    h("p", {}, ...(card ? [button("Back", card - 1), " "] : []), button(last ? "End" : "Next", last ? null : card + 1), " ",
      ...(last ? [] : [h("button", { type: "button", class: "plain link", onclick: () => box.turn(null) }, "Skip the tour")])));
}
