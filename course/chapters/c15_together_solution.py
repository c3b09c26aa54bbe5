"""The solution of chapter 15: a translator that consists of parts from all chapters."""

import re
from collections import Counter

import numpy as np

from ...course.parts import own
from ...course.translator import TRANSLATOR, save_translator
from ...nn.positional import sinusoidal_table
from ...train.data.grammar import build_corpus
from ...train.tasks.metrics import bleu

# Your functions, if they have passed the checks; otherwise handloom's functions.
Scalar, backward = own("c01_gradient", "Scalar", "backward")
unbroadcast, matmul_rule = own("c02_shapes", "unbroadcast", "matmul_rule")
learn_merges, encode = own("c04_tokens", "train", "encode")
smoothed, gradient = own("c05_loss", "smoothed", "gradient")
layer_norm, layer_norm_rule = own("c08_depth", "layer_norm", "layer_norm_rule")
(shifted,) = own("c09_translate", "shifted")
adam, noam = own("c10_learn", "adam", "noam")
(beam_search,) = own("c11_beam", "beam_search")

PAD, BOS, EOS, FIRST = 0, 1, 2, 3  # token t of the byte-pair encoding has the id t + FIRST
D, HEADS, LAYERS = 64, 4, 2

# -- tokens --------------------------------------------------------------------------------------------------------


class Tokens:
    """Converts texts to ids and back, with a byte-pair encoding that is trained on `texts`."""

    def __init__(self, texts, merges):
        self.merges = learn_merges(Counter(word for text in texts for word in self.words(text)), merges)
        self.known = {}
        self.bytes = {FIRST + byte: bytes([byte]) for byte in range(256)}
        for number, (left, right) in enumerate(self.merges, FIRST + 256):
            self.bytes[number] = self.bytes[left + FIRST] + self.bytes[right + FIRST]

    def words(self, text):
        return [tuple(word.encode()) for word in re.findall(r" ?\w+| ?[^\w\s]", text)]

    def encode(self, text):
        for word in self.words(text):
            if word not in self.known:
                self.known[word] = [token + FIRST for token in encode(word, self.merges)]
        return [token for word in self.words(text) for token in self.known[word]]

    def parts(self):
        """Return the bytes of each token, in the order of ids, and the pairs of bytes of the merges."""
        pairs = [tuple(self.bytes[token + FIRST] for token in pair) for pair in self.merges]
        return [self.bytes[id] for id in sorted(self.bytes)], pairs

    def decode(self, ids):
        return b"".join(self.bytes.get(token, b"") for token in ids).decode(errors="replace")


# -- your engine, with arrays in its Scalars -----------------------------------------------------------------------


def add(x, y):
    """Return x + y for two Scalars that contain arrays of equal shape."""
    return Scalar(x.data + y.data, (x, y), lambda g: (g, g))


def relu(x):
    return Scalar(np.maximum(x.data, 0), (x,), lambda g: (g * (x.data > 0),))


def norm(x, weight, bias):
    """Return chapter 8's layer norm for each word of a batch (batch, length, d)."""
    rows, shape = x.data.reshape(-1, x.data.shape[-1]), x.data.shape

    def rule(g):
        dx, dweight, dbias = layer_norm_rule(rows, weight.data, g.reshape(rows.shape))
        return dx.reshape(shape), dweight, dbias

    return Scalar(layer_norm(rows, weight.data, bias.data).reshape(shape), (x, weight, bias), rule)


def loss_node(logits, target):
    """Return chapter 5's smoothed loss of logits (batch, length, tokens) for target ids (batch, length)."""
    rows, labels = logits.data.reshape(target.size, -1), np.where(target == PAD, -100, target).ravel()

    def rule(g):
        return ((g * gradient(rows, labels, 0.1)).reshape(logits.data.shape).astype(rows.dtype),)

    return Scalar(smoothed(rows, labels, 0.1), (logits,), rule)


def matmul(x, y):
    """Return x @ y as a Scalar that contains an array: x (..., m, k), y (k, n)."""
    # your turn: Return a Scalar with the value, the two inputs and a rule, as in `add` above. matmul_rule of chapter 2
    # computes both gradients. Its arguments are arrays.
    return Scalar(x.data @ y.data, (x, y), lambda g: matmul_rule(x.data, y.data, g))


def lookup(table, ids):
    """Return the rows of a table (vocabulary, d) for ids (batch, length), times sqrt(d)."""
    # your turn: The value is table.data[ids] times a number. In the rule, make an array of the table's shape in which
    # each row is the sum of the shares of this row. A word that occurs twice gets two shares. `np.add.at` adds all
    # shares.
    scale = table.data.shape[1] ** 0.5  # a Python number; a NumPy number would convert float32 to float64

    def rule(g):
        shares = np.zeros_like(table.data)
        np.add.at(shares, ids, g * scale)
        return (shares,)

    return Scalar(table.data[ids] * scale, (table,), rule)


def split(x):
    """(batch, length, d) -> (batch, heads, length, d / heads)"""
    return x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)


def merge(x):
    return x.swapaxes(1, 2).reshape(len(x), x.shape[2], -1)


def attend(q, k, v, mask):
    """Return attention for q (batch, queries, d), k, v (batch, keys, d), mask (..., queries, keys), True for allowed
    keys.
    """
    qs, ks, vs = split(q.data), split(k.data), split(v.data)
    scale = qs.shape[-1] ** -0.5
    scores = np.where(mask, qs @ ks.swapaxes(2, 3) * scale, -np.inf)
    e = np.exp(scores - scores.max(axis=3, keepdims=True))
    p = e / e.sum(axis=3, keepdims=True)
    out = p @ vs

    def rule(g):
        g = split(g)
        # your turn: Chapter 13 has the formulas, here with all keys at once: dV = Pᵀ g, dP = g Vᵀ, dS = P (dP - D) with
        # D = the sum of g · out along the features, and dQ and dK from dS. Transpose the last two axes only. Apply
        # `merge` to each of the three gradients.
        ds = p * (g @ vs.swapaxes(2, 3) - (g * out).sum(axis=3, keepdims=True)) * scale
        return merge(ds @ ks), merge(ds.swapaxes(2, 3) @ qs), merge(p.swapaxes(2, 3) @ g)

    return Scalar(merge(out), (q, k, v), rule)


# -- the model -----------------------------------------------------------------------------------------------------


def new_weights(vocabulary, seed=0):
    """Return random initial weights by name."""
    rng = np.random.default_rng(seed)
    shapes = {"table": (vocabulary, D), "output": (D, vocabulary)}
    for part, looks in (("encoder", ["self"]), ("decoder", ["self", "source"])):
        for i in range(LAYERS):
            shapes |= {f"{part}{i}.{look}.{kind}": (D, D) for look in looks for kind in "qkvo"}
            shapes |= {f"{part}{i}.up": (D, 4 * D), f"{part}{i}.down": (4 * D, D)}
    weights = {name: rng.standard_normal(shape) / np.sqrt(D) for name, shape in shapes.items()}
    norms = [
        f"{part}{i}.{step}"
        for part in ("encoder", "decoder")
        for i in range(LAYERS)
        for step in ("self", "source", "up")
    ]
    for name in [*norms, "encoder", "decoder"]:
        weights |= {f"{name}.weight": np.ones(D), f"{name}.bias": np.zeros(D)}
    return {name: weight.astype(np.float32) for name, weight in weights.items()}


def logits_of(w, source, target):
    """Return the logits (batch, length, vocabulary) of chapter 9's translator, with a dictionary w of Scalars as
    weights.
    """
    seen, causal = (source != PAD)[:, None, None, :], np.tri(target.shape[1], dtype=bool)

    def embed(ids):
        positions = sinusoidal_table(ids.shape[1], D).astype(np.float32)
        return add(lookup(w["table"], ids), Scalar(np.broadcast_to(positions, (*ids.shape, D))))

    def normed(x, name):
        return norm(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def look(x, at, name, mask):
        q, k, v = (matmul(rows, w[f"{name}.{kind}"]) for rows, kind in ((x, "q"), (at, "k"), (at, "v")))
        return matmul(attend(q, k, v, mask), w[f"{name}.o"])

    def layer(x, name, mask, memory=None):
        h = normed(x, f"{name}.self")
        x = add(x, look(h, h, f"{name}.self", mask))
        if memory is not None:
            x = add(x, look(normed(x, f"{name}.source"), memory, f"{name}.source", seen))
        inner = relu(matmul(normed(x, f"{name}.up"), w[f"{name}.up"]))
        return add(x, matmul(inner, w[f"{name}.down"]))

    memory = embed(source)
    for i in range(LAYERS):
        memory = layer(memory, f"encoder{i}", seen)
    memory, x = normed(memory, "encoder"), embed(target)
    for i in range(LAYERS):
        x = layer(x, f"decoder{i}", causal, memory)
    return matmul(normed(x, "decoder"), w["output"])


# -- it learns, and translates -------------------------------------------------------------------------------------


def learn(weights, loss_of, batches, rate):
    """Train `weights`, arrays by name, in place. loss_of(nodes, batch) computes the loss from Scalars by name.

    rate: step (1, 2, ...) -> learning rate. Returns a list of floats, the losses before each update.
    """
    means = {name: (np.zeros_like(w), np.zeros_like(w)) for name, w in weights.items()}
    losses = []
    for step, batch in enumerate(batches, 1):
        # your turn: In each step, put each weight into a new Scalar, so that its gradient begins at 0. Compute the
        # loss, call backward, and call adam for each weight, with its two running means. A Scalar's gradient is in its
        # `grad`.
        nodes = {name: Scalar(w) for name, w in weights.items()}
        loss = loss_of(nodes, batch)
        backward(loss)
        losses.append(float(loss.data))
        for name, node in nodes.items():
            weights[name], *means[name] = adam(weights[name], node.grad, *means[name], step, rate(step))
        # given:
    return losses


def translate(next_logits, source, width=4):
    """Return the ids of the translation that beam search finds for the list `source` of ids, at most 40 ids.

    next_logits(source, target) returns the logits (vocabulary,) of the word after `target`, for ids (1, length).
    """
    # your turn: beam_search needs a function next_log_p(ids), which returns log-probabilities. ids is a list that
    # begins with BOS. How do logits become log-probabilities (chapter 5)? Use alpha = 1.

    def next_log_p(ids):
        logits = next_logits(np.array([source]), np.array([ids]))
        shifted = logits - logits.max()
        return shifted - np.log(np.exp(shifted).sum())

    return beam_search(next_log_p, BOS, EOS, width, 40, 1.0)[0]


class MyTranslator:
    """Weights, arrays by name, and the tokens with which they translate."""

    def __init__(self, weights, tokens):
        self.weights, self.tokens = weights, tokens

    def logits(self, source, target):
        return logits_of({name: Scalar(weight) for name, weight in self.weights.items()}, source, target).data

    def translate(self, german, width=4):
        source = [*self.tokens.encode(german), EOS]
        return self.tokens.decode(translate(lambda *ids: self.logits(*ids)[0, -1], source, width))

    def looks_ahead(self, source, target):
        """Return whether a prediction depends on later words, as in chapter 16."""
        earlier = self.logits(source, target[:, :-1])
        return not np.allclose(self.logits(source, target)[:, :-1], earlier, atol=1e-3)


def least_loss(vocabulary, smoothing=0.1):
    """Return the least possible loss: that of a model that predicts the smoothed targets of chapter 5 exactly."""
    each = smoothing / vocabulary
    own = 1 - smoothing + each
    return -own * np.log(own) - (vocabulary - 1) * each * np.log(each)


def run(steps=1200, pairs=10_000, merges=400, tests=40, folder=None):
    """Train on handloom's German-English grammar, print the BLEU of held-out sentences, and save the translator."""
    corpus = build_corpus(train_size=pairs, valid_size=tests, test_size=tests)
    tokens = Tokens([text for pair in corpus.train for text in pair], merges)
    rows = sorted(([tokens.encode(text) for text in pair] for pair in corpus.train), key=lambda pair: len(pair[0]))
    rng, seen = np.random.default_rng(0), []
    weights = new_weights(FIRST + len(tokens.bytes))
    mine = MyTranslator(weights, tokens)
    print(f"Every 100 steps: the loss, and a translation of {corpus.test[0][0]!r}")

    def batches():
        for step in range(1, steps + 1):
            first = rng.integers(max(1, len(rows) - 48))  # neighbours of similar length: little padding
            german, english = zip(*rows[first : first + 48], strict=True)
            yield shifted(german, PAD, BOS, EOS)[1], *shifted(english, PAD, BOS, EOS)
            if step % 100 == 0 or step == steps:  # the weights have been updated when the next batch is wanted
                loss, said = np.mean(seen[-100:]), mine.translate(corpus.test[0][0], 1)
                print(f"step {step:5} of {steps}   loss {loss:.2f}   {said}", flush=True)

    def loss_of(nodes, batch):
        source, read, say = batch
        loss = loss_node(logits_of(nodes, source, read), say)
        seen.append(float(loss.data))
        return loss

    losses = learn(weights, loss_of, batches(), lambda step: 2 * noam(step, D, steps // 5 + 1))
    least = least_loss(len(weights["table"]))
    print(f"loss: {losses[0]:.2f} at first, {np.mean(losses[-50:]):.2f} at last; none is below {least:.2f}")
    if mine.looks_ahead(*(np.array([ids]) for ids in rows[-1])):
        print("The loss means nothing: the decoder sees the words that it should predict. Is its mask causal?")

    said = [mine.translate(german) for german, _ in corpus.test]
    right = [text == english for text, (_, english) in zip(said, corpus.test, strict=True)]
    for what, wanted in (("right", True), ("wrong", False)):
        print(f"\n{right.count(wanted)} of {tests} sentences that it has never seen are {what}.")
        for number in [i for i in range(tests) if right[i] == wanted][:3]:
            german, english = corpus.test[number]
            print(f"{german}\n  yours:     {said[number]}\n  reference: {english}")
    score = bleu(said, [english for _, english in corpus.test])
    print(f"\n{score}")
    if folder:
        save_translator(folder, losses, weights, *tokens.parts(), HEADS)
        print(f"Saved in {folder}. To ask it: python -m handloom.course ask 'Der Hund schläft.'")
    return losses, score


if __name__ == "__main__":
    run(folder=TRANSLATOR)
