"""Chapter 9, the exercises: inputs and targets of the decoder, the embedding, both layers, and the whole translator."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import Tensor, no_grad
from ...models import Seq2SeqConfig, Seq2SeqTransformer
from ...nn import Embedding, SinusoidalPositions, TransformerDecoderLayer, TransformerEncoderLayer
from ...train.data.batches import TokenSequences
from ..exercise import Exercise, need
from .c09_translate_solution import (
    attention,
    decoder_layer,
    embed,
    encoder_layer,
    feed_forward,
    linear,
    norm,
    shifted,
    transformer,
)

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


def vectors(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(19)
    return [rng.standard_normal(shape) for shape in shapes]


def loaded(layer: Any, w: Any, name: str) -> Any:
    layer.eval().astype(np.float64)
    layer.load_state_dict({key: w[f"{name}.{key}"] for key in layer.state_dict()})
    return layer


# -- shifted -----------------------------------------------------------------------------------------------------------


def probe_shifted(shifted: Any) -> dict[str, Any]:
    made = need(shifted([[5, 6, 7]], PAD, BOS, EOS), tuple, "shifted(...)")
    one, several = made, shifted([[5, 6, 7], [8], [4, 3]], PAD, BOS, EOS)
    other = shifted([[5, 6], [8]], 9, BOS, EOS)
    names = "what the decoder reads", "what it should say"
    found = {f"{name}, of one sentence": np.asarray(x) for name, x in zip(names, one, strict=True)}
    found |= {f"{name}, of three sentences": np.asarray(x) for name, x in zip(names, several, strict=True)}
    return found | {f"{name}, with the padding 9": np.asarray(x) for name, x in zip(names, other, strict=True)}


def real_shifted(sentences: Any, pad: int, bos: int, eos: int) -> Any:
    sequences, every = TokenSequences.from_lists(sentences), np.arange(len(sentences))
    width = max(map(len, sentences)) + 1
    return sequences.pad(every, pad, first=bos, width=width), sequences.pad(every, pad, last=eos, width=width)


SHIFTED = Exercise(
    shifted,
    probe_shifted,
    real_shifted,
    source="train.data.batches.TokenBatches.batch",
    hints=(
        "The decoder has read <bos> and the first word. What should it say? And what after the last word?",
        "For [5, 6, 7] it reads [bos, 5, 6, 7] and says [5, 6, 7, eos]. Padding comes after that, in both rows.",
        "fill = [pad] * (longest - len(ids)) for each sentence; the rows are [bos, *ids, *fill] and [*ids, eos, "
        "*fill]. np.array makes one array of the list of rows.",
    ),
    changes="""
        The rows are filled with 0, whatever `pad` is: fill them with `pad`.
        - [pad]
        + [0]
        Both rows are the same, so at each place the decoder reads the very word that it should say. The row that it
        reads must be shifted by one place to the right: it begins with bos, and the other row does not.
        - [bos, *ids, *more]
        + [bos, *ids, eos, *more]
        - [*ids, eos, *more]
        + [bos, *ids, eos, *more]
        Nobody ever says eos. Then the decoder can't learn when a sentence is over, and a translation would never end.
        - [*ids, eos, *more]
        + [*ids, pad, *more]
        The decoder reads eos too. After eos nothing is left to say, so neither row needs this place: both rows are
        longer by one than the longest sentence.
        - [bos, *ids, *more]
        + [bos, *ids, eos, *more]
        - [*ids, eos, *more]
        + [*ids, eos, pad, *more]
        This is right except for the shorter sentences, where the decoder reads eos: after the last word it should read
        pad.
        - [bos, *ids, *more]
        + [bos, *ids, eos, *more][: longest + 1]
        This is right for one sentence. In a shorter sentence eos comes after the padding, but it should come right
        after the last word.
        - [*ids, eos, *more]
        + [*ids, *more, eos]
        It is the other way round: the decoder reads bos first, and says eos last.
        - np.array(read), np.array(say)
        + np.array(say), np.array(read)
    """,
)


@SHIFTED.right
def written_into_arrays(sentences, pad, bos, eos):
    read = np.full((len(sentences), max(map(len, sentences)) + 1), pad)
    say = read.copy()
    read[:, 0] = bos
    for row, ids in enumerate(sentences):
        read[row, 1 : len(ids) + 1] = say[row, : len(ids)] = ids
        say[row, len(ids)] = eos
    return read, say


# -- embed -------------------------------------------------------------------------------------------------------------


def probe_embed(embed: Any) -> dict[str, Any]:
    (table,) = vectors((7, 4))
    return {
        "the vectors of one word": embed(np.array([[3]]), table),
        "the vectors of two sentences of three words": embed(np.array([[3, 1, 3], [2, 6, 0]]), table),
    }


def real_embed(ids: Any, table: Any) -> np.ndarray:
    embedding = Embedding(*table.shape, scale_by_sqrt_dim=True).astype(np.float64)
    embedding.load_state_dict({"weight": table})
    return SinusoidalPositions(table.shape[1]).astype(np.float64)(embedding(ids)).data


EMBED = Exercise(
    embed,
    probe_embed,
    real_embed,
    source="nn.embedding.Embedding.forward",
    hints=(
        "What does NumPy give for a table that is indexed with a whole array of ids?",
        "ids (2, 3) and a table (7, 4) give (2, 3, 4). The positions are (3, 4): they are added to each of the 2 "
        "sentences. sqrt(4) is 2.",
        "table[ids] * np.sqrt(d) + sinusoidal_table(ids.shape[1], d), with d = table.shape[1].",
    ),
    changes="""
        The rows of the table are not multiplied by sqrt(d).
        - * np.sqrt(d)
        +
        Positions are missing. Without them attention can't tell one order of the words from another.
        - + sinusoidal_table(ids.shape[1], d)
        +
        The positions are multiplied by sqrt(d) too; multiply only the rows of the table.
        - table[ids] * np.sqrt(d) + sinusoidal_table(ids.shape[1], d)
        + (table[ids] + sinusoidal_table(ids.shape[1], d)) * np.sqrt(d)
        The position is taken from the id. Row t of the sinusoidal table belongs to the t-th word of the sentence,
        whichever word that is: add the whole table, it broadcasts over the batch.
        - sinusoidal_table(ids.shape[1], d)
        + sinusoidal_table(len(table), d)[ids]
    """,
)


@EMBED.right
def word_by_word(ids, table):
    d = table.shape[1]
    rate = 10000.0 ** (-2 * (np.arange(d) // 2) / d)
    out = np.empty((*ids.shape, d))
    for (row, t), word in np.ndenumerate(ids):
        angle = t * rate
        wave = np.where(np.arange(d) % 2, np.cos(angle), np.sin(angle)).astype(np.float32)
        out[row, t] = table[word] * d**0.5 + wave
    return out


# -- encoder_layer -----------------------------------------------------------------------------------------------------


def probe_encoder_layer(encoder_layer: Any) -> dict[str, Any]:
    (x,) = vectors((2, 4, D))
    mask = (np.arange(4) < np.array([[4], [2]]))[:, None, None, :]
    every = np.ones((1, 1, 4, 4), dtype=bool)
    return {
        "the output where all may be seen": encoder_layer(x, weights(), "encoder.layers.0", HEADS, every),
        "the output with padding": encoder_layer(x, weights(), "encoder.layers.1", HEADS, mask),
    }


def real_encoder_layer(x: Any, w: Any, name: str, heads: int, mask: Any) -> np.ndarray:
    return loaded(TransformerEncoderLayer(D, heads, INNER), w, name)(Tensor(x), mask=mask).data


ENCODER_LAYER = Exercise(
    encoder_layer,
    probe_encoder_layer,
    real_encoder_layer,
    source="nn.transformer.TransformerEncoderLayer.forward",
    hints=(
        "In self-attention, who asks and who answers?",
        "In the picture the left stack has 2 boxes a layer: look at each other, feed-forward. Each is the norm of the "
        "sum of what there was and what is new.",
        "x = norm(x + attention(x, x, w, f'{name}.self_attn', heads, mask), w, f'{name}.norm1'); then norm(x + "
        "feed_forward(x, w, name), w, f'{name}.norm2').",
    ),
    changes="""
        What there was before is lost: each step should be norm(x + new), not norm(new). Chapter 8 has the reason:
        through the sum the gradient has a short way back.
        - x + attention
        + attention
        - x + feed_forward
        + feed_forward
        Both steps use norm1. The second step has its own weights: norm2.
        - norm2
        + norm1
        The second sum begins with the layer's input again. It should begin with the result of the first step.
        - x = norm(x
        + new = norm(x
        - feed_forward(x
        + feed_forward(new
        This is right without padding, but the mask is not passed to attention.
        - heads, mask), w
        + heads, True), w
    """,
)


@ENCODER_LAYER.wrong
def norm_first(x, w, name, heads, mask):
    """This is the order of chapter 8, x + new(norm(x)). Here the norm comes after the sum: norm(x + new(x))."""
    h = norm(x, w, f"{name}.norm1")
    x = x + attention(h, h, w, f"{name}.self_attn", heads, mask)
    return x + feed_forward(norm(x, w, f"{name}.norm2"), w, name)


@ENCODER_LAYER.right
def step_by_step(x, w, name, heads, mask):
    def sublayer(x, new, number):
        return norm(new + x, w, f"{name}.norm{number}")

    x = sublayer(x, attention(x, x, w, f"{name}.self_attn", heads, mask), 1)
    hidden = linear(x, w, f"{name}.linear1")
    return sublayer(x, linear(hidden * (hidden > 0), w, f"{name}.linear2"), 2)


# -- decoder_layer -----------------------------------------------------------------------------------------------------


def probe_decoder_layer(decoder_layer: Any) -> dict[str, Any]:
    x, memory = vectors((2, 3, D), (2, 5, D))
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


DECODER_LAYER = Exercise(
    decoder_layer,
    probe_decoder_layer,
    real_decoder_layer,
    source="nn.transformer.TransformerDecoderLayer.forward",
    hints=(
        "The encoder's layer has two steps, and this one has three. Which one is new, and who asks whom in it?",
        "In the picture the right stack has 3 boxes a layer. In the second the decoder's words ask (2 sentences, 3 "
        "words), and the source answers (2 sentences, 5 words).",
        "x = norm(x + attention(x, memory, w, f'{name}.multihead_attn', heads, memory_mask), w, f'{name}.norm2'), "
        "between the encoder's two steps; the last norm is norm3.",
    ),
    changes="""
        In the second step the source asks and the target answers. Whose vectors should change? Those of the target: x
        asks, memory answers.
        - attention(x, memory,
        + attention(memory, x,
        The second attention looks at x once more, so nothing from the source arrives: its second argument should be
        memory.
        - attention(x, memory, w, f"{name}.multihead_attn", heads, memory_mask)
        + attention(x, x, w, f"{name}.multihead_attn", heads, own_mask)
        The result of the attention to the source replaces x. It should be added to x, as in the other steps.
        - x + attention(x, memory
        + attention(x, memory
        This is right without padding in the source. The second step needs memory_mask.
        - heads, memory_mask)
        + heads, True)
        This is right for one word. With more words, no word may look ahead: the first step needs own_mask.
        - heads, own_mask), w
        + heads, True), w
        The attention to the source uses the weights of self_attn. It has its own weights: f"{name}.multihead_attn".
        - multihead_attn
        + self_attn
        The two masks are exchanged. own_mask belongs to the words said so far, memory_mask to the source.
        - self_attn", heads, own_mask
        + self_attn", heads, memory_mask
        - multihead_attn", heads, memory_mask
        + multihead_attn", heads, own_mask
    """,
)


@DECODER_LAYER.wrong
def source_first(x, memory, w, name, heads, own_mask, memory_mask):
    """The steps are right, but their order is wrong. First the words of the target look at each other, then at the
    source.
    """
    x = norm(x + attention(x, memory, w, f"{name}.multihead_attn", heads, memory_mask), w, f"{name}.norm2")
    x = norm(x + attention(x, x, w, f"{name}.self_attn", heads, own_mask), w, f"{name}.norm1")
    return norm(x + feed_forward(x, w, name), w, f"{name}.norm3")


@DECODER_LAYER.right
def in_a_loop(x, memory, w, name, heads, own_mask, memory_mask):
    steps = [
        lambda x: attention(x, x, w, f"{name}.self_attn", heads, own_mask),
        lambda x: attention(x, memory, w, f"{name}.multihead_attn", heads, memory_mask),
        lambda x: feed_forward(x, w, name),
    ]
    for number, step in enumerate(steps, 1):
        x = norm(x + step(x), w, f"{name}.norm{number}")
    return x


# -- transformer -------------------------------------------------------------------------------------------------------


def probe_transformer(transformer: Any) -> dict[str, Any]:
    source, padded = np.array([[4, 9, 3, 7]]), np.array([[5, 6, 10, 3], [8, 2, 0, 0]])
    target = np.array([[1, 8, 4], [1, 9, 0]])
    logits = transformer(padded, target, weights(), HEADS, LAYERS)
    return {
        "the logits of one word after <bos>": transformer(source, np.array([[1]]), weights(), HEADS, LAYERS),
        "the logits after each of five words": transformer(source, np.arange(1, 6)[None], weights(), HEADS, LAYERS),
        "the logits of two sentences, one with padding": np.asarray(logits)[target != PAD],
    }


def real_transformer(source, target, w, heads, layers, pad=0):
    made = model()
    made.load_state_dict(w)
    with no_grad():
        return made(source, target).data


TRANSFORMER = Exercise(
    transformer,
    probe_transformer,
    real_transformer,
    source="models.seq2seq.Seq2SeqTransformer.forward",
    hints=(
        "Which of the two masks depends on the sentence, and which is the same for all?",
        "Masks broadcast to 4 axes: batch, heads, queries, keys. The padding's mask has the shape (batch, 1, 1, "
        "keys), the other (length, length).",
        "seen = (source != pad)[:, None, None, :]; causal = np.tri(target.shape[1], dtype=bool); memory = "
        "encoder_layer(memory, w, f'encoder.layers.{i}', heads, seen) in a loop; decoder_layer(x, memory, w, "
        "f'decoder.layers.{i}', heads, causal, seen) in another; linear(x, w, 'output').",
    ),
    changes="""
        This is right for one word. With more words, each target word sees the words after it, which don't exist yet
        during a translation: the decoder needs the causal mask.
        - np.tri(target.shape[1], dtype=bool)
        + True
        Decoder layer i gets the output of encoder layer i. All decoder layers should get the output of the last encoder
        layer: run the whole encoder first.
        - memory = embed(source, w["source_embedding.weight"])
        + made = [embed(source, w["source_embedding.weight"])]
        - memory = encoder_layer(memory, w, f"encoder.layers.{i}", heads, seen)
        + made.append(encoder_layer(made[-1], w, f"encoder.layers.{i}", heads, seen))
        - decoder_layer(x, memory
        + decoder_layer(x, made[i + 1]
        This is right without padding. Neither the words of the source nor those of the target may look at the padding
        of the source.
        - (source != pad)[:, None, None, :]
        + True
        The encoder ignores padding, but the decoder still looks at it: the mask of the source is also the decoder's
        memory_mask.
        - causal, seen
        + causal, True
        The target's words are looked up in the table of the source. Each language has its own.
        - target_embedding
        + source_embedding
        These are probabilities. Stop one step earlier, at the logits.
        - return linear(x, w, "output")
        + e = np.exp(linear(x, w, "output"))
        + return e / e.sum(axis=-1, keepdims=True)
    """,
)


def assembled(
    source, target, w, layers, *, table="target", seen=True, causal=True, last=True, memory_too=True, output=True
):
    """Compute the translator, without the parts that the arguments switch off."""
    mask = (source != PAD)[:, None, None, :]
    memory = embed(source, w["source_embedding.weight"])
    memories = []
    for i in range(layers):
        memory = encoder_layer(memory, w, f"encoder.layers.{i}", HEADS, mask if seen else np.True_)
        memories.append(memory)
    x = embed(target, w[f"{table}_embedding.weight"])
    own = np.tri(target.shape[1], dtype=bool) if causal else np.True_
    for i in range(layers):
        given = memories[-1] if last else memories[i]
        x = decoder_layer(x, given, w, f"decoder.layers.{i}", HEADS, own, mask if memory_too else np.True_)
    logits = linear(x, w, "output")
    return logits if output else np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)


@TRANSFORMER.right
def prefix_by_prefix(source, target, w, heads, layers, pad=0):
    """A correct answer that runs one pass for each word and uses only the logits at the last position."""
    ends = range(1, target.shape[1] + 1)
    return np.stack([assembled(source, target[:, :end], w, layers)[:, -1] for end in ends], axis=1)
