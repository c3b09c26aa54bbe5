"""A translator in one file, which needs only NumPy and Python's standard library.

python -m handloom.train.data.grammar pairs.tsv            writes sentence pairs, German<TAB>English
python examples/one_file.py pairs.tsv "Der Hund schläft."  trains for some minutes, then translates

Read it from top to bottom: tensors that know how they were computed, byte-level BPE, the Transformer, Adam, and greedy
search. handloom does the same, faster and with more options; tests compare the losses of both.
Shapes: B sentences, T target and S source tokens, D features, H heads of D / H features, V tokens in the vocabulary.
"""

import argparse
import re
import time
from collections import Counter
from itertools import count

import numpy as np

D, HIDDEN, LAYERS, HEADS = 96, 384, 2, 4  # sizes of the model
PAD, BOS, EOS, BYTES = 0, 1, 2, 3  # the special tokens, and the token of byte 0
WORD = re.compile(r" ?\w+| ?[^\w\s]+|\s+")  # a word with the blank before it, or punctuation, or blanks


# ---- 1. Tensors and derivatives --------------------------------------------------------------------------------------
class Tensor:
    """An array, the tensors from which it was computed, and the rule that turns its gradient into theirs."""

    numbers = count()

    def __init__(self, data, inputs=(), rule=None):
        self.data, self.inputs, self.rule = data, inputs, rule
        self.grad, self.number = None, next(self.numbers)

    def __add__(self, other):
        """Add a tensor of the same shape. The derivative of x + y by each of them is 1."""
        return Tensor(self.data + other.data, (self, other), lambda g: (g, g))

    def backward(self):
        """Set the `grad` of every tensor without inputs to the derivative of this number by that tensor."""
        self.grad, waiting = np.ones_like(self.data), {self}
        while waiting:
            tensor = max(waiting, key=lambda x: x.number)  # the newest: nothing computed from it is waiting
            waiting.remove(tensor)
            if tensor.rule is not None:
                for x, gradient in zip(tensor.inputs, tensor.rule(tensor.grad), strict=True):
                    x.grad = gradient if x.grad is None else x.grad + gradient
                    waiting.add(x)
                tensor.grad = None


def linear(x, weight, bias):
    """x W^T + b for x (..., D), W (E, D) and b (E)."""
    rows = x.data.reshape(-1, x.data.shape[-1])  # a row for each token

    def rule(g):
        g = g.reshape(-1, g.shape[-1])
        return (g @ weight.data).reshape(x.data.shape), g.T @ rows, g.sum(axis=0)

    y = rows @ weight.data.T + bias.data
    return Tensor(y.reshape(*x.data.shape[:-1], -1), (x, weight, bias), rule)


def relu(x):
    return Tensor(np.maximum(x.data, 0), (x,), lambda g: (g * (x.data > 0),))


def layer_norm(x, weight, bias, eps=1e-5):
    """Give each vector mean 0 and variance 1, then scale and shift it (Ba et al. 2016, arXiv 1607.06450)."""
    inverse = (x.data.var(axis=-1, keepdims=True) + eps) ** -0.5
    normal = (x.data - x.data.mean(axis=-1, keepdims=True)) * inverse

    def rule(g):
        axes, h = tuple(range(g.ndim - 1)), g * weight.data
        dx = inverse * (h - h.mean(axis=-1, keepdims=True) - normal * (h * normal).mean(axis=-1, keepdims=True))
        return dx, (g * normal).sum(axis=axes), g.sum(axis=axes)

    return Tensor(normal * weight.data + bias.data, (x, weight, bias), rule)


def embedding(ids, table):
    """ids (B, T) -> (B, T, D): rows of the table (V, D), times sqrt(D), plus waves that tell a token's position."""
    d, scale = table.data.shape[1], np.float32(table.data.shape[1] ** 0.5)
    angle = np.arange(ids.shape[1])[:, None] / 10000 ** (np.arange(0, d, 2) / d)  # (T, D/2)
    waves = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(-1, d).astype(np.float32)

    def rule(g):
        gradient = np.zeros_like(table.data)
        np.add.at(gradient, ids, g * scale)  # a token that occurs n times collects n gradients
        return (gradient,)

    return Tensor(table.data[ids] * scale + waves, (table,), rule)


def attention(queries, keys_and_values, mask):
    """softmax(Q K^T / sqrt(d)) V in each head (Vaswani et al. 2017, arXiv 1706.03762) for queries (B, T, D), keys and
    values (B, S, 2 D). The mask (B or 1, 1, T or 1, S) is True where a query may look.
    """
    batch, scale = len(queries.data), np.float32((D // HEADS) ** -0.5)

    def split(x):  # (B, T, D) -> (B, H, T, D/H)
        return x.reshape(batch, -1, HEADS, D // HEADS).transpose(0, 2, 1, 3)

    def join(x):  # and back
        return x.transpose(0, 2, 1, 3).reshape(batch, -1, D)

    q, k, v = map(split, [queries.data, *np.split(keys_and_values.data, 2, axis=-1)])
    scores = np.where(mask, q @ k.swapaxes(2, 3) * scale, np.float32(-np.inf))  # (B, H, T, S)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)

    def rule(g):
        g = split(g)
        dp = g @ v.swapaxes(2, 3)
        ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) * scale  # the derivative of the softmax
        dk, dv = ds.swapaxes(2, 3) @ q, p.swapaxes(2, 3) @ g
        return join(ds @ k), np.concatenate([join(dk), join(dv)], axis=-1)

    return Tensor(join(p @ v), (queries, keys_and_values), rule)


def cross_entropy(logits, labels):
    """Mean of -log softmax(logits)[label] over the labels that are no padding: logits (B, T, V), labels (B, T)."""
    x, labels = logits.data.reshape(-1, logits.data.shape[-1]), labels.reshape(-1)
    rows, counted = np.arange(len(x)), labels != PAD
    log_p = x - x.max(axis=-1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(axis=-1, keepdims=True))
    dx = np.exp(log_p)
    dx[rows, labels] -= 1  # the derivative of a row's loss is its probabilities, minus 1 at the label
    dx *= (counted / counted.sum()).astype(np.float32)[:, None]
    return Tensor(-log_p[rows, labels][counted].mean(), (logits,), lambda g: (g * dx.reshape(logits.data.shape),))


# ---- 2. Byte-level BPE (Sennrich et al. 2016, arXiv 1508.07909) ------------------------------------------------------
class BPE:
    """Tokens are written as characters: token n is chr(n). Then a word is a string, and a merge is `str.replace`."""

    def __init__(self, texts, vocab_size):
        """Learn the merges {pair: new token}: again and again, the most frequent pair of neighbours becomes a token."""
        counts = Counter(word for text in texts for word in WORD.findall(text))
        self.merges, self.words = {}, {word: self.in_bytes(word) for word in counts}
        for new in map(chr, range(BYTES + 256, vocab_size)):
            pairs = Counter()
            for word, tokens in self.words.items():
                for i in range(len(tokens) - 1):
                    pairs[tokens[i : i + 2]] += counts[word]
            if not pairs:
                break  # every word is one token
            best = min(pairs, key=lambda pair: (-pairs[pair], pair))
            self.merges[best] = new
            self.words = {word: tokens.replace(best, new) for word, tokens in self.words.items()}

    def in_bytes(self, word):
        return "".join(chr(BYTES + byte) for byte in word.encode())

    def encode(self, text):
        """Return the tokens of a text, and EOS."""
        for word in WORD.findall(text):
            if word not in self.words:
                self.words[word] = self.in_bytes(word)
                for pair, new in self.merges.items():  # in the order in which they were learned
                    self.words[word] = self.words[word].replace(pair, new)
        return [*map(ord, "".join(self.words[word] for word in WORD.findall(text))), EOS]

    def decode(self, tokens):
        text = "".join(map(chr, tokens))
        for pair, new in reversed(self.merges.items()):
            text = text.replace(new, pair)
        return bytes(ord(token) - BYTES for token in text if ord(token) >= BYTES).decode(errors="replace")


# ---- 3. The Transformer, with a norm before each sublayer ------------------------------------------------------------
def make_weights(vocab_size):
    """Return {name: (matrix, bias)}, and (scale, bias) for norms. Matrices are random (Glorot and Bengio 2010)."""
    shapes = {"embedding": (vocab_size, D), "encoder.norm": (D,), "decoder.norm": (D,)}
    for layer in [f"{side}.{i}" for side in ("encoder", "decoder") for i in range(LAYERS)]:
        attentions = ("self", "cross") if layer.startswith("decoder") else ("self",)
        for name in [f"{layer}.{attention}" for attention in attentions]:
            shapes |= {f"{name}.norm": (D,), f"{name}.query": (D, D), f"{name}.kv": (2 * D, D), f"{name}.out": (D, D)}
        shapes |= {f"{layer}.norm": (D,), f"{layer}.hidden": (HIDDEN, D), f"{layer}.back": (D, HIDDEN)}
    random, weights = np.random.default_rng(0), {}
    for name, shape in shapes.items():
        bound = D**-0.5 if name == "embedding" else (6 / sum(shape)) ** 0.5
        matrix = np.ones(shape) if len(shape) == 1 else random.uniform(-bound, bound, shape)
        weights[name] = tuple(Tensor(array.astype(np.float32)) for array in (matrix, np.zeros(len(matrix))))
    return weights


def transformer(source, target, w):
    """Return the logits of the token after each target token: source (B, S), target (B, T) -> (B, T, V)."""

    def norm(x, name):
        return layer_norm(x, *w[f"{name}.norm"])

    def attend(x, memory, name, mask):
        attended = attention(linear(x, *w[f"{name}.query"]), linear(memory, *w[f"{name}.kv"]), mask)
        return linear(attended, *w[f"{name}.out"])

    def feed_forward(x, name):
        return linear(relu(linear(x, *w[f"{name}.hidden"])), *w[f"{name}.back"])

    real = (source != PAD)[:, None, None]  # (B, 1, 1, S): nothing looks at padding
    past = np.tri(target.shape[1], dtype=bool)[None, None]  # (1, 1, T, T): a token sees itself and earlier tokens
    x = embedding(source, w["embedding"][0])
    for layer in [f"encoder.{i}" for i in range(LAYERS)]:
        h = norm(x, f"{layer}.self")
        x = x + attend(h, h, f"{layer}.self", real)
        x = x + feed_forward(norm(x, layer), layer)
    memory = norm(x, "encoder")  # (B, S, D)
    x = embedding(target, w["embedding"][0])
    for layer in [f"decoder.{i}" for i in range(LAYERS)]:
        h = norm(x, f"{layer}.self")
        x = x + attend(h, h, f"{layer}.self", past)
        x = x + attend(norm(x, f"{layer}.cross"), memory, f"{layer}.cross", real)
        x = x + feed_forward(norm(x, layer), layer)
    return linear(norm(x, "decoder"), *w["embedding"])  # the table is the output matrix, too


# ---- 4. Training with Adam (Kingma and Ba 2015, arXiv 1412.6980) -----------------------------------------------------
def padded(rows):
    """Return an array (B, longest), in which shorter rows end with padding."""
    longest = max(map(len, rows))
    return np.array([row + [PAD] * (longest - len(row)) for row in rows])


def batches(pairs, steps, size=64):
    """Yield (source, target, labels) for each step; a label is the token after a target token."""
    pairs = sorted(pairs, key=lambda pair: len(pair[0]))  # neighbours have similar lengths: little padding
    random = np.random.default_rng(0)
    for _ in range(steps):
        first = random.integers(max(len(pairs) - size, 0) + 1)
        source, target = zip(*pairs[first : first + size], strict=True)
        yield padded(source), padded([[BOS, *row[:-1]] for row in target]), padded(target)


def train(pairs, weights, steps, lr=3e-3):
    """Train the weights on pairs of tokens, and return the loss of each step, in nats per token."""
    tensors = [tensor for pair in weights.values() for tensor in pair]
    means, squares = ([np.zeros_like(x.data) for x in tensors] for _ in range(2))
    losses, start = [], time.time()
    for step, (source, target, labels) in enumerate(batches(pairs, steps), 1):
        loss = cross_entropy(transformer(source, target, weights), labels)
        loss.backward()
        rate = lr * min(step / 100, 1 - (step - 1) / steps)  # rises at first, then falls to 0
        for x, m, v in zip(tensors, means, squares, strict=True):
            m += 0.1 * (x.grad - m)
            v += 0.02 * (x.grad**2 - v)
            x.data -= rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.98**step)) + 1e-9)
            x.grad = None
        losses.append(float(loss.data))
        if step % 50 == 0 or step == steps:
            print(f"step {step} of {steps}, {time.time() - start:.0f} s: loss {np.mean(losses[-50:]):.3f}", flush=True)
    return losses


# ---- 5. Greedy search, and the program -------------------------------------------------------------------------------
def translate(text, weights, bpe):
    """Append the most probable token until it is EOS."""
    source, target = np.array([bpe.encode(text)]), [BOS]
    while target[-1] != EOS and len(target) < 60:
        target.append(int(transformer(source, np.array([target]), weights).data[0, -1].argmax()))
    return bpe.decode(target)


def read_pairs(path):
    """Return the lines of a file, split at the tab. Raises ValueError for a file that can't be used."""
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    for number, row in enumerate(rows, 1):
        if [bool(text.strip()) for text in row] != [True, True]:
            raise ValueError(f"line {number} is not a sentence, a tab and its translation")
    if len(rows) < 10:
        raise ValueError(f"it has {len(rows)} lines, but 10 are the least, and thousands are useful")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", help="file with a sentence, a tab and its translation on each line")
    parser.add_argument("texts", nargs="*", help="sentences to translate after training")
    parser.add_argument("--steps", type=int, default=1000, help="number of updates (default: 1000)")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    try:
        *rows, a, b, c, d = read_pairs(options.pairs)  # the last four are held out
    except (OSError, ValueError) as error:
        parser.exit(2, f"error: {options.pairs}: {error}. See --help for a command that writes a good file.\n")
    bpe = BPE((text for row in rows for text in row), vocab_size=1000)
    weights = make_weights(BYTES + 256 + len(bpe.merges))
    print(f"{len(rows)} pairs, {BYTES + 256 + len(bpe.merges)} tokens")
    train([[bpe.encode(text) for text in row] for row in rows], weights, options.steps)
    for text, reference in [*((text, None) for text in options.texts), a, b, c, d]:
        print(f"\n{text}\n  translation: {translate(text, weights, bpe)}")
        if reference:
            print(f"  reference:   {reference}")


if __name__ == "__main__":
    main()
