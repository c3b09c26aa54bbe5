"""Chapter 9, the exercises: inputs and targets of the decoder, the embedding, both layers, and the whole translator."""

from typing import Any

import numpy as np

from ...autograd import Tensor, no_grad
from ...models import Seq2SeqConfig, Seq2SeqTransformer
from ...nn import Embedding, SinusoidalPositions, TransformerDecoderLayer, TransformerEncoderLayer
from ...train.data.batches import TokenSequences
from ..exercise import need, normal

D, HEADS, INNER, LAYERS, PAD, BOS, EOS = 6, 2, 10, 2, 0, 1, 2


def model() -> Seq2SeqTransformer:
    """Return a small Transformer in float64 with fixed random weights."""
    config = Seq2SeqConfig(13, 11, D, HEADS, LAYERS, LAYERS, INNER, dropout=0.0, max_length=16, pad_id=PAD)
    made = Seq2SeqTransformer(config).eval().astype(np.float64)
    rng = np.random.default_rng(9)
    drawn = {name: 0.4 * rng.standard_normal(array.shape) for name, array in made.state_dict().items()}
    drawn = {name: array + ("norm" in name and name.endswith("weight")) for name, array in drawn.items()}
    made.load_state_dict(drawn)
    return made


def weights() -> dict[str, np.ndarray]:
    return model().state_dict()


def loaded(layer: Any, w: Any, name: str) -> Any:
    layer.eval().astype(np.float64)
    layer.load_state_dict({key: w[f"{name}.{key}"] for key in layer.state_dict()})
    return layer


def probe_shifted(shifted: Any) -> dict[str, Any]:
    made = need(shifted([[5, 6, 7]], PAD, BOS, EOS), tuple, "shifted(...)")
    one, several = made, shifted([[5, 6, 7], [8], [4, 3]], PAD, BOS, EOS)
    other = shifted([[5, 6], [8]], 9, BOS, EOS)
    names = "the inputs", "the targets"
    found = {f"{name} for one sentence": np.asarray(x) for name, x in zip(names, one, strict=True)}
    found |= {f"{name} for three sentences": np.asarray(x) for name, x in zip(names, several, strict=True)}
    return found | {f"{name} with pad=9": np.asarray(x) for name, x in zip(names, other, strict=True)}


def real_shifted(sentences: Any, pad: int, bos: int, eos: int) -> Any:
    sequences, every = TokenSequences(sentences), np.arange(len(sentences))
    width = max(map(len, sentences)) + 1
    return sequences.pad(every, pad, first=bos, width=width), sequences.pad(every, pad, last=eos, width=width)


def probe_embed(embed: Any) -> dict[str, Any]:
    (table,) = normal(19, (7, 4))
    return {
        "the vectors of one word": embed(np.array([[3]]), table),
        "the vectors of two sentences of three words": embed(np.array([[3, 1, 3], [2, 6, 0]]), table),
    }


def real_embed(ids: Any, table: Any) -> np.ndarray:
    embedding = Embedding(*table.shape, scale_by_sqrt_dim=True).astype(np.float64)
    embedding.load_state_dict({"weight": table})
    return SinusoidalPositions(table.shape[1]).astype(np.float64)(embedding(ids)).data


def probe_encoder_layer(encoder_layer: Any) -> dict[str, Any]:
    (x,) = normal(19, (2, 4, D))
    mask = (np.arange(4) < np.array([[4], [2]]))[:, None, None, :]
    every = np.ones((1, 1, 4, 4), dtype=bool)
    return {
        "the output where all may be seen": encoder_layer(x, weights(), "encoder.layers.0", HEADS, every),
        "the output with padding": encoder_layer(x, weights(), "encoder.layers.1", HEADS, mask),
    }


def real_encoder_layer(x: Any, w: Any, name: str, heads: int, mask: Any) -> np.ndarray:
    return loaded(TransformerEncoderLayer(D, heads, INNER), w, name)(Tensor(x), mask=mask).data


def probe_decoder_layer(decoder_layer: Any) -> dict[str, Any]:
    x, memory = normal(19, (2, 3, D), (2, 5, D))
    one, causal, every = np.ones((1, 1), dtype=bool), np.tri(3, dtype=bool), np.ones((1, 1, 1, 1), dtype=bool)
    mask = (np.arange(5) < np.array([[5], [2]]))[:, None, None, :]
    w, name = weights(), "decoder.layers.1"
    return {
        "the output for one word": decoder_layer(x[:, :1], memory, w, name, HEADS, one, every),
        "the output where nobody looks ahead": decoder_layer(x, memory, w, name, HEADS, causal, every),
        "the output with padding in the source": decoder_layer(x, memory, w, name, HEADS, causal, mask),
    }


def real_decoder_layer(x, memory, w, name, heads, own_mask, memory_mask):
    """Call handloom's layer, which has lengths as arguments instead of masks, and always uses the causal mask."""
    lengths = np.broadcast_to(memory_mask, (len(x), 1, 1, memory.shape[1])).sum(axis=(1, 2, 3))
    return loaded(TransformerDecoderLayer(D, heads, INNER), w, name)(
        Tensor(x), Tensor(memory), memory_lengths=lengths
    ).data


def probe_transformer(transformer: Any) -> dict[str, Any]:
    source, padded = np.array([[4, 9, 3, 7]]), np.array([[5, 6, 10, 3], [8, 2, 0, 0]])
    target = np.array([[1, 8, 4], [1, 9, 0]])
    logits = transformer(padded, target, weights(), HEADS, LAYERS)
    return {
        "the logits of one word after <bos>": transformer(source, np.array([[1]]), weights(), HEADS, LAYERS),
        "the logits after each of five words": transformer(source, np.arange(1, 6)[None], weights(), HEADS, LAYERS),
        "the logits of two sentences, one with padding": np.asarray(logits)[target != PAD],
        "the logits with pad=7": transformer(source, np.array([[1]]), weights(), HEADS, LAYERS, pad=7),
    }


def real_transformer(source, target, w, heads, layers, pad=0):
    made = model()
    made.load_state_dict(w)
    with no_grad():
        return made(np.where(source == pad, PAD, source), target).data
