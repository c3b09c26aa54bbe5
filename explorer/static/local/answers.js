// The views' data from the model in the browser, in the form in which the server gives them.

import { beamSearch, largest, penalty } from "./search.js";
import { split, Tokenizer } from "./tokenizer.js";
import { softmax, Transformer } from "./transformer.js";
import { readWeights } from "./weights.js";

const fetched = async (name, form) => {
  const response = await fetch(new URL(`../${name}`, import.meta.url));
  if (!response.ok) throw new Error(`${name} is not there: ${response.status}`);
  return response[form]();
};
const loading = Promise.all([fetched("model.safetensors", "arrayBuffer"), fetched("tokenizer.json", "json"), fetched("facts.json", "json")])
  .then(([weights, tokens, facts]) => ({ model: new Transformer(readWeights(weights)), tokenizer: new Tokenizer(tokens), facts }));

const VIEWS = { state, translate, head, next, beam, bpe };

export async function answer(view, body) {
  try {
    const given = await loading;
    return VIEWS[view]({ ...given, ...body });
  } catch (error) {
    if (view === "state") return { model: null, problem: error.message };
    return { problem: error instanceof Refused ? error.message : `${error}` };
  }
}

class Refused extends Error {}

function state({ facts }) {
  return { run: facts.run, runs: null, model: facts, problem: null };
}

const BOS = "<bos>", EOS = "<eos>";
const special = (tokenizer) => ({ bos: tokenizer.special.get(BOS), eos: tokenizer.special.get(EOS) });

// A text in capitals with the probable case of each word, as train/data/pairs.py computes it.
function truecased(text, { truecases, acronyms }, tokenizer) {
  if (!truecases || !/\p{Uppercase}/u.test(text) || /(?!ß)[\p{Lowercase}\p{Lt}]/u.test(text)) return text;
  const cost = (word) => {
    const ids = tokenizer.encode(`a ${word}`); // a word within a sentence
    return ids.length * 1e9 + ids.reduce((sum, id) => sum + id, 0);
  };
  const best = (word) => {
    const low = word.toLowerCase(), [first, ...rest] = low;
    if (acronyms.includes(word)) return word;
    return [low, first.toUpperCase() + rest.join(""), word].reduce((a, b) => (cost(b) < cost(a) ? b : a));
  };
  return text.replace(/\p{L}+(?:['’]\p{L}+)*/gu, best).replace(/(?:^|[.!?]\s)[^\p{L}\p{N}_]*[\p{L}\p{N}_]/gu, (start) => start.toUpperCase());
}

export function sourceIds({ tokenizer, model, facts }, text) {
  if (!text.trim()) throw new Refused("There is no text. Type one.");
  const ids = [...tokenizer.encode(truecased(tokenizer.normalized(text), facts, tokenizer)), special(tokenizer).eos], most = model.config.max_length;
  if (ids.length > most) throw new Refused(`The text has ${ids.length} tokens, but the limit of this model is ${most}. Shorten it.`);
  return ids;
}

export function translated(given, text) {
  return beamSearch(given.model, sourceIds(given, text), { ...special(given.tokenizer), width: given.facts.beam, alpha: given.facts.alpha })[0].ids;
}

// One pass: the answer, the tokens by name, the logits, and each call of attention. The last one is kept.
let passed = {};
export function pass(given) {
  const { model, tokenizer, text, off = [] } = given, key = JSON.stringify([text, off]);
  if (passed.key === key) return passed;
  model.off = new Set(off);
  const source = sourceIds(given, text), ids = translated(given, text), read = [special(tokenizer).bos, ...ids].slice(0, model.config.max_length);
  const calls = new Map();
  model.watch = (name, call) => calls.set(name, call);
  const cache = model.start(model.encode(source)), logits = model.decode(read, read.map(() => cache));
  model.watch = null;
  const shown = (list) => list.map((id) => tokenizer.token(id));
  const tokens = { source: shown(source), read: shown(read), written: shown([...ids, special(tokenizer).eos].slice(0, read.length)) };
  tokens.steps = tokens.read.map((one, i) => `${one} → ${tokens.written[i]}`);
  passed = { key, text, answer: tokenizer.decode(ids), tokens, logits, calls };
  return passed;
}

function described(name, heads) {
  const [side, , number, kind] = name.split(".");
  const [title, rows, columns] = side === "encoder" ? ["Encoder self-attention", "source", "source"]
    : kind === "self_attn" ? ["Decoder self-attention", "steps", "read"] : ["Cross-attention", "steps", "source"];
  return { name, title, number: Number(number), rows, columns, heads };
}

// (heads, queries, keys)
function weightsOf({ weights, q, k }, heads) {
  const all = new Float32Array(heads * q.length * k.length);
  weights.forEach((row, n) => all.set(row, ((n % heads) * q.length + Math.floor(n / heads)) * k.length));
  return { values: all, shape: [heads, q.length, k.length] };
}

function translate(given) {
  const { facts, model } = given, { text, answer, tokens, calls } = pass(given);
  const layers = [...calls].map(([name, call]) => ({ ...described(name, model.heads), weights: weightsOf(call, model.heads) }));
  return { kind: facts.kind, text, answer, shares: null, tokens, layers };
}

function head(given) {
  const { model, layer, head, query } = given, { calls, tokens } = pass(given), call = calls.get(layer);
  if (!call || !call.q[query] || head >= model.heads) throw new Refused("This model has no such head or query.");
  const d = call.q[0].length / model.heads, part = (row) => row.subarray(head * d, (head + 1) * d), about = described(layer, model.heads);
  const matrix = (rows) => ({ values: Float32Array.from(rows.flatMap((row) => [...part(row)])), shape: [rows.length, d] });
  const vector = (values) => ({ values: Float32Array.from(values), shape: [values.length] });
  return {
    layer: about, rows: tokens[about.rows], columns: tokens[about.columns], scale: d ** -0.5,
    q: vector(part(call.q[query])), k: matrix(call.k), v: matrix(call.v), output: vector(part(call.outputs[query])),
    weights: vector(Array.from(call.k, (_, j) => call.weights[query * model.heads + head][j] ?? 0)),
    added: vector(call.k.map((_, j) => (about.columns === "read" && j > query ? -Infinity : 0))),
  };
}

function next(given) {
  const { tokenizer, temperature } = given, { logits, tokens } = pass(given);
  const positions = logits.map((row, i) => {
    const shares = softmax(Float64Array.from(row, (x) => x / temperature));
    const entropy = -shares.reduce((sum, p) => sum + p * Math.log(Math.max(p, 1e-300)), 0);
    return { read: tokens.read[i], written: tokens.written[i], candidates: largest(shares, 10).map((id) => [tokenizer.token(id), shares[id]]), entropy };
  });
  return { temperature, positions };
}

// The tree of a search: each step a column, with the open sequences, then those that ended, then the dropped candidates.
function beam(given) {
  const { model, tokenizer, text, width, alpha, off = [] } = given, ids = special(tokenizer);
  model.off = new Set(off);
  const nodes = [{ id: 0, parent: null, step: 0, slot: 0, token: BOS, log_probability: 0, kind: "root", score: null, length: null, rank: null, cached: 0 }];
  let ends = [0], cached = 0, sweep = 64; // handloom's cache removes unneeded tokens when it has twice as many as after the last time
  const held = [], finished = new Map();
  const put = (parent, token, score, kind) => {
    const slot = nodes.filter((node) => node.step === held.length).length;
    nodes.push({ id: nodes.length, parent: ends[parent], step: held.length, slot, token: token === undefined ? EOS : tokenizer.token(token), log_probability: score, kind, score: null, length: null, rank: null, cached: 0 });
    return nodes.at(-1);
  };
  const observe = ({ length, candidates, kept, ended, open }) => {
    const living = new Set();
    for (let at of ends) for (; at !== null && !living.has(at); at = nodes[at].parent) living.add(at);
    if (cached >= sweep) {
      const needed = living.size - open.length;
      if (needed <= Math.floor((cached * 3) / 4)) cached = needed;
      sweep = Math.max(2 * cached, 64);
    }
    cached += open.length;
    held.push({ nodes: cached, living: living.size, copies: open.length * length });
    for (const id of living) nodes[id].cached = held.length;
    const opened = kept.map(({ parent, token, score }) => put(parent, token, score, "open").id);
    for (const { parent, last, score, found, length: own } of ended) finished.set(found, Object.assign(put(parent, last[0], score, "finished"), { score: found.score, length: own }));
    const known = [...kept, ...ended.map(({ parent, last }) => ({ parent, token: last[0] ?? ids.eos }))];
    for (const { parent, token, score } of candidates) if (!known.some((one) => one.parent === parent && one.token === token)) put(parent, token, score, "pruned");
    ends = opened;
  };
  const found = beamSearch(model, sourceIds(given, text), { ...ids, width, alpha, best: width, observe });
  found.forEach((one, rank) => { finished.get(one).rank = rank; });
  for (const node of nodes) Object.assign(node, { x: 96 * node.step, y: 34 * node.slot });
  const most = (key) => nodes.reduce((top, node) => Math.max(top, node[key]), 0);
  return {
    nodes, found: found.map((one) => ({ text: tokenizer.decode(one.ids), score: one.score })), width: most("x") + 96, height: most("y") + 34,
    held, bytes: 2 * model.config.decoder_layers * model.config.d_model * 4, penalties: held.map((_, i) => penalty(i + 1, alpha)),
  };
}

function bpe({ tokenizer, text: typed, merges, word }) {
  const text = tokenizer.normalized(typed);
  const total = tokenizer.merges.length, n = Math.min(merges ?? total, total), bytes = (part) => new TextEncoder().encode(part).length;
  const ids = tokenizer.encode(text, n), show = (list) => list.map((id) => tokenizer.token(id));
  const words = split(text).map((one) => ({ word: one, ids: tokenizer.encode(one, n) }));
  const counts = new Map();
  for (const one of split(text)) {
    const parts = tokenizer.grow(one, n);
    parts.slice(1).forEach((right, i) => {
      const pair = `${parts[i].token} ${right.token}`;
      counts.set(pair, (counts.get(pair) ?? 0) + 1);
    });
  }
  const rank = (pair) => tokenizer.ranks.get(pair) ?? total;
  const pairs = [...counts].sort((a, b) => b[1] - a[1] || rank(a[0]) - rank(b[0])).slice(0, 12).map(([pair, count]) => {
    const [left, right] = pair.split(" ").map((part) => tokenizer.shown(part));
    return { left, right, count, merge: rank(pair) < total ? rank(pair) + 1 : null };
  });
  const chosen = word || split(text).filter((one) => bytes(one) <= 60).reduce((a, b) => (b.length > a.length ? b : a), "");
  const pair = (i) => tokenizer.merges[i]?.map((part) => tokenizer.shown(part)) ?? null;
  return {
    total, merges: n, ids, words: words.map((one) => ({ ...one, tokens: show(one.ids) })), bytes: bytes(text), pairs,
    last: n ? pair(n - 1) : null, next: pair(n), word: chosen, tree: tree(tokenizer, chosen, n),
  };
}

// The merges of a word, laid out: bytes below, each token above the middle of its parts.
function tree(tokenizer, word, n) {
  const every = [];
  let left = 0.5;
  const place = (part) => {
    part.parts.forEach(place);
    part.depth = part.parts.length ? 1 + Math.max(...part.parts.map((one) => one.depth)) : 0;
    part.x = part.parts.length ? part.parts.reduce((sum, one) => sum + one.x, 0) / part.parts.length : left++;
    every.push(part);
  };
  tokenizer.grow(word).forEach(place);
  const deepest = Math.max(0, ...every.map((part) => part.depth));
  const nodes = every.map((part) => ({ text: tokenizer.shown(part.token), merge: part.merge, made: part.merge <= n, x: 34 * part.x, y: 40 * (deepest - part.depth), parts: part.parts.map((one) => every.indexOf(one)) }));
  return { nodes, width: 34 * Math.max(left - 0.5, 1), height: 40 * (deepest + 1) };
}

// What the model computes, to be compared with handloom: the ids of each text's answer, and its logits (positions, vocabulary).
export async function ids(texts) {
  const given = await loading;
  return texts.map((text) => translated(given, text));
}
export async function logits(text) {
  return pass({ ...await loading, text }).logits.map((row) => Array.from(row));
}
