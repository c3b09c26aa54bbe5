// The tour, eight cards over the views with one question each, and the words that the pages use.

import { h } from "./dom.js";

const CROSS = (shared) => shared.pass?.layers.filter((layer) => layer.title === "Cross-attention").at(-1)?.name ?? shared.layer;
const CARDS = [
  ["model", {}, "What is inside?", "Two stacks: the encoder reads the German sentence, the decoder writes the English one. Each box is a link. Follow the arrows from the text to the answer."],
  ["bpe", {}, "What does the model read?", "No letters and no words but tokens, pieces of words that it has learned. Move the slider to 0 and back: which words are one token?"],
  ["translate", (shared) => ({ layer: CROSS(shared), head: 0, row: null, column: null }), "Which German word does “you” look at?", "In cross-attention each row is a position of the answer, each column a German token. Point at the row that writes ·you: is the strongest cell du?"],
  ["head", (shared) => ({ layer: CROSS(shared) }), "Where does a weight come from?", "From a product of two vectors, a query and a key. Double the scale: do the weights become sharper or flatter?"],
  ["translate", (shared) => ({ off: shared.off.length ? shared.off : [`${CROSS(shared)}/0`] }), "Does one head matter?", "One head is switched off here. Is the translation another one? Switch off more of them, and then all on again."],
  ["next", { off: [], temperature: 1 }, "How sure is the model?", "At each position it has a probability for every token. Raise the temperature: where does another token come close first?"],
  ["beam", {}, "Is the likeliest word always the best one?", "Beam search keeps several beginnings. Set the width to 1: is the translation still the same?"],
  ["check", {}, "How does it learn, and is that right?", "Training follows gradients. Each rule is checked against measured differences. Plant a mistake, and see it found."],
];

const WORDS = {
  "head": "One of several attentions that a layer computes in parallel, each with its own projections.",
  "query, key, value": "Three vectors made from each token. A query is compared with all keys; the values are averaged with the weights that this gives.",
  "weight": "How much a query takes from a key's value, from 0 to 1; each row sums to 1.",
  "·": "A blank: ·you is the token with the blank before it.",
  "<bos>, <eos>": "Where a sequence begins, and where it ends.",
  "logit": "A score before softmax makes probabilities of them.",
  "after X, about to write Y": "A decoder's position has read the answer up to X; from there it computes the next token, Y.",
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
