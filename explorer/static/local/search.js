// Beam search with handloom's rules (models/generation/beam.py; Wu et al. 2016, arXiv 1609.08144, section 7).

import { branch } from "./transformer.js";

export const penalty = (length, alpha) => ((5 + length) / 6) ** alpha;

// The indices of the largest values, largest first.
export function largest(values, count) {
  const found = [];
  for (let i = 0; i < values.length; i++) {
    if (found.length === count && values[i] <= values[found[count - 1]]) continue;
    let at = found.length;
    while (at && values[found[at - 1]] < values[i]) at--;
    found.splice(at, 0, i);
    if (found.length > count) found.pop();
  }
  return found;
}

function logSumExp(values) {
  const top = values.reduce((most, x) => Math.max(most, x), -Infinity);
  return top + Math.log(values.reduce((sum, x) => sum + Math.exp(x - top), 0));
}

// The best complete sequences, {ids, score}. `observe(step)` hears of each step, as a BeamStep.
export function beamSearch(model, source, { bos, eos, width, alpha, best: wanted = 1, observe = () => {} }) {
  const limit = Math.min(2 * source.length + 10, model.config.max_length), complete = [];
  let open = [{ ids: [], score: 0, cache: model.start(model.encode(source)), next: bos }], ended;
  const end = (parent, last, score, length) => {
    const found = { ids: [...open[parent].ids, ...last], score: score / penalty(length, alpha) };
    complete.push(found);
    complete.sort((a, b) => b.score - a.score);
    complete.length = Math.min(complete.length, wanted);
    ended.push({ parent, last, score, length, found });
  };
  for (let length = 1; open.length; length++) {
    ended = [];
    const all = model.decode(open.map((one) => one.next), open.map((one) => one.cache));
    const candidates = open.flatMap((one, parent) => {
      const logits = all[parent], total = logSumExp(logits);
      return largest(logits, 2 * width).map((token) => ({ score: one.score + Math.fround(logits[token] - total), parent, token }));
    }).sort((a, b) => b.score - a.score).slice(0, 2 * width);
    let kept = [];
    for (const [rank, candidate] of candidates.entries()) {
      if (kept.length === width) break;
      if (candidate.token !== eos) kept.push(candidate);
      else if (rank < width) end(candidate.parent, [], candidate.score, length); // lower ones would not be kept either
    }
    if (width === 1 && complete.length) kept = [];
    else if (length >= limit) {
      for (const { parent, token, score } of kept) end(parent, [token], score, length);
      kept = [];
    } else if (complete.length >= wanted && kept.length && kept[0].score / penalty(alpha > 0 ? limit : length, alpha) <= complete.at(-1).score) kept = [];
    observe({ length, candidates, kept, ended, open });
    open = kept.map(({ score, parent, token }) => ({ ids: [...open[parent].ids, token], score, cache: branch(open[parent].cache), next: token }));
  }
  return complete;
}
