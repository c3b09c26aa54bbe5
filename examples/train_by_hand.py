"""Train a translator with a loop written out: batches, loss, backward(), Adam.

python examples/train_by_hand.py               trains on generated sentences in under two minutes
python examples/train_by_hand.py --steps 50    takes only seconds, for example in a debugger
"""

import numpy as np

from handloom.autograd import manual_seed, no_grad, ops
from handloom.cli import Parser, positive
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer
from handloom.tokenizer import BPETokenizer
from handloom.train import build_corpus

parser = Parser(description=__doc__)
parser.add_argument("--steps", type=positive, default=1000, help="number of parameter updates (default: 1000)")
steps = parser.parse_args().steps

# Load sentence pairs, train one vocabulary for both languages, and convert the pairs to ids, short pairs first.
corpus = build_corpus(train_size=20_000, valid_size=4, test_size=4)
tokenizer = BPETokenizer.train([text for pair in corpus.train for text in pair], vocab_size=1000)
pad, bos, eos = tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id
pairs = [[tokenizer.encode(text, add_eos=True) for text in pair] for pair in corpus.train]
pairs.sort(key=lambda pair: len(pair[0]))


def padded(sequences):
    """Return an array of ids (batch, longest length), in which shorter sequences are padded."""
    longest = max(map(len, sequences))
    return np.array([ids + [pad] * (longest - len(ids)) for ids in sequences])


def translate(text):
    """Greedy search: append the most probable token until it is <eos>."""
    source, target = np.array([tokenizer.encode(text, add_eos=True)]), [bos]
    with no_grad():
        while target[-1] != eos and len(target) < 60:
            logits = model(source, np.array([target]))  # (1, length, vocabulary)
            target.append(int(logits.data[0, -1].argmax()))
    return tokenizer.decode(target)


manual_seed(0)
random = np.random.default_rng(0)
config = {"d_model": 96, "nhead": 4, "encoder_layers": 2, "decoder_layers": 2, "dim_feedforward": 384, "dropout": 0.0}
config |= {"norm_first": True, "share_embeddings": True, "tie_output": True}
model = Seq2SeqTransformer(Seq2SeqConfig(tokenizer.vocab_size, tokenizer.vocab_size, **config))
weights = list(model.parameters())
# Adam keeps a running mean of each gradient and of its square (Kingma and Ba 2015, arXiv 1412.6980, algorithm 1).
means, squares = ([np.zeros_like(w.data) for w in weights] for _ in range(2))
b1, b2, losses = 0.9, 0.98, []
for step in range(1, steps + 1):
    first = random.integers(len(pairs) - 64)
    german, english = zip(*pairs[first : first + 64], strict=True)  # similar lengths, so little padding
    inputs = [[bos, *ids[:-1]] for ids in english]  # the decoder's input: `english`, shifted by one token
    loss = ops.cross_entropy(model(padded(german), padded(inputs)), padded(english), ignore_index=pad)
    loss.backward()  # adds d(loss)/d(w) to w.grad for every weight w
    lr = 3e-3 * min(step / 100, 1 - step / steps)  # rises at first, then falls to 0
    for w, m, v in zip(weights, means, squares, strict=True):
        m += (1 - b1) * (w.grad - m)
        v += (1 - b2) * (w.grad**2 - v)
        w.data -= lr * (m / (1 - b1**step)) / (np.sqrt(v / (1 - b2**step)) + 1e-9)
        w.grad = None
    losses.append(loss.item())
    if step % 50 == 0:
        print(f"step {step:4}, mean loss of the last 50: {np.mean(losses[-50:]):.3f}")

for german, english in corpus.test:
    print(f"\n{german}\n  translation: {translate(german)}\n  reference:   {english}")
