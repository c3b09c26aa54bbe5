// The Transformer (Vaswani et al. 2017, arXiv 1706.03762) in plain loops. A sequence is an array with one Float32Array, of
// d_model numbers, for each position.

// y = W x + b for each row x. Four rows at a time, so that each weight is read once for them.
function linear(weight, bias, rows) {
  const [outputs, inputs] = weight.shape, results = rows.map(() => new Float32Array(outputs));
  for (let first = 0; first < rows.length; first += 4) {
    const [p, q = p, r = p, s = p] = rows.slice(first, first + 4);
    for (let i = 0, at = 0; i < outputs; i++) {
      let a = 0, b = 0, c = 0, d = 0;
      for (let j = 0; j < inputs; j++, at++) {
        const w = weight[at];
        a += w * p[j];
        b += w * q[j];
        c += w * r[j];
        d += w * s[j];
      }
      const more = bias ? bias[i] : 0;
      results[first][i] = a + more;
      if (first + 1 < rows.length) results[first + 1][i] = b + more;
      if (first + 2 < rows.length) results[first + 2][i] = c + more;
      if (first + 3 < rows.length) results[first + 3][i] = d + more;
    }
  }
  return results;
}

const add = (x, y) => x.map((value, i) => value + y[i]);

function normalised(x, weight, bias, eps) {
  const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
  const scale = 1 / Math.sqrt(x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length + eps);
  return x.map((value, i) => (value - mean) * scale * weight[i] + bias[i]);
}

export function softmax(scores) {
  const top = scores.reduce((most, x) => Math.max(most, x), -Infinity);
  const e = Float64Array.from(scores, (x) => Math.exp(x - top));
  const total = e.reduce((sum, x) => sum + x, 0);
  return e.map((x) => x / total);
}

export class Transformer {
  // `watch(name, call)` is told of each attention: its q, k, v, weights and output, by head.
  constructor({ tensors, config }) {
    Object.assign(this, { tensors, config, heads: config.nhead, off: new Set(), watch: null });
  }

  linear(name, x) { // of all rows
    return linear(this.tensors[`${name}.weight`], this.tensors[`${name}.bias`], x);
  }

  norm(name, x) {
    return normalised(x, this.tensors[`${name}.weight`], this.tensors[`${name}.bias`], this.config.norm_eps ?? 1e-5);
  }

  embedded(table, ids, start) {
    const weight = this.tensors[`${table}.weight`], d = weight.shape[1], factor = Math.fround(Math.sqrt(d));
    return ids.map((id, n) => Float32Array.from({ length: d }, (_, i) => {
      const angle = (start + n) * 10000 ** (-(i - (i % 2)) / d);
      return weight[id * d + i] * factor + (i % 2 ? Math.cos(angle) : Math.sin(angle));
    }));
  }

  // Rows `part` to `part + count` of the projections to queries, keys and values: 0, 1 and 2.
  project(name, part, x) {
    const weight = this.tensors[`${name}.in_proj_weight`], bias = this.tensors[`${name}.in_proj_bias`], [rows, d] = weight.shape, size = rows / 3;
    const own = weight.subarray(part * size * d, (part + 1) * size * d);
    own.shape = [size, d];
    return linear(own, bias.subarray(part * size, (part + 1) * size), x);
  }

  // softmax(q k' / sqrt(head_dim)) v for each head, projected. Query i sees the keys and values `seen[i]`, {k, v, count}.
  attend(name, q, seen) {
    const d = q[0].length / this.heads, weights = [];
    const outputs = q.map((query, i) => {
      const { k, v, count } = seen[i], output = new Float32Array(query.length);
      for (let head = 0; head < this.heads; head++) {
        const at = head * d, scores = new Float64Array(count);
        for (let j = 0; j < count; j++) for (let n = at; n < at + d; n++) scores[j] += query[n] * k[j][n];
        const shares = softmax(scores.map((score) => score / Math.sqrt(d)));
        for (let j = 0; j < count; j++) for (let n = at; n < at + d; n++) output[n] += shares[j] * v[j][n];
        weights.push(shares);
      }
      return output;
    });
    this.watch?.(name, { q, ...seen.at(-1), outputs, weights });
    const off = Array.from({ length: this.heads }, (_, head) => this.off.has(`${name}/${head}`));
    return this.linear(`${name}.out_proj`, outputs.map((output) => output.map((x, n) => (off[Math.floor(n / d)] ? 0 : x))));
  }

  // x + f(norm(x)), or norm(x + f(x)) in a post-norm model.
  residual(norm, x, f) {
    if (this.config.norm_first) return f(x.map((row) => this.norm(norm, row))).map((y, i) => add(x[i], y));
    return f(x).map((y, i) => this.norm(norm, add(x[i], y)));
  }

  feedForward(name, x) {
    const inner = this.linear(`${name}.linear1`, x).map((row) => row.map((value) => Math.max(0, value)));
    return this.linear(`${name}.linear2`, inner);
  }

  last(side, x) {
    return this.config.norm_first ? x.map((row) => this.norm(`${side}.norm`, row)) : x;
  }

  encode(ids) {
    let x = this.embedded("source_embedding", ids, 0);
    for (let n = 0; n < this.config.encoder_layers; n++) {
      const layer = `encoder.layers.${n}`, name = `${layer}.self_attn`;
      x = this.residual(`${layer}.norm1`, x, (y) => {
        const [q, k, v] = [0, 1, 2].map((part) => this.project(name, part, y));
        return this.attend(name, q, q.map(() => ({ k, v, count: k.length })));
      });
      x = this.residual(`${layer}.norm2`, x, (y) => this.feedForward(layer, y));
    }
    return this.last("encoder", x);
  }

  // The start of an answer: for each layer the encoder's keys and values, and those of the tokens so far, none yet.
  start(memory) {
    return Array.from({ length: this.config.decoder_layers }, (_, n) => {
      const [k, v] = [1, 2].map((part) => this.project(`decoder.layers.${n}.multihead_attn`, part, memory));
      return { memory: { k, v }, k: [], v: [] };
    });
  }

  // The logits after each of the next tokens: `ids[i]` continues the sequence of `caches[i]`. The caches grow by their keys
  // and values: nothing is computed twice.
  decode(ids, caches) {
    const places = caches.map((cache, i) => cache[0].k.length + caches.slice(0, i).filter((other) => other === cache).length);
    let x = ids.map((id, i) => this.embedded("target_embedding", [id], places[i])[0]);
    for (let n = 0; n < this.config.decoder_layers; n++) {
      const layer = `decoder.layers.${n}`, self = `${layer}.self_attn`, cross = `${layer}.multihead_attn`;
      x = this.residual(`${layer}.norm1`, x, (y) => {
        const [q, k, v] = [0, 1, 2].map((part) => this.project(self, part, y));
        caches.forEach(({ [n]: own }, i) => Object.assign(own, { k: [...own.k, k[i]], v: [...own.v, v[i]] }));
        return this.attend(self, q, caches.map(({ [n]: own }, i) => ({ k: own.k, v: own.v, count: places[i] + 1 })));
      });
      x = this.residual(`${layer}.norm2`, x, (y) =>
        this.attend(cross, this.project(cross, 0, y), caches.map(({ [n]: { memory } }) => ({ ...memory, count: memory.k.length }))));
      x = this.residual(`${layer}.norm3`, x, (y) => this.feedForward(layer, y));
    }
    return this.linear("output", this.last("decoder", x));
  }
}

// A cache for another continuation of the same tokens; the keys and values themselves are shared.
export const branch = (cache) => cache.map((own) => ({ ...own }));
