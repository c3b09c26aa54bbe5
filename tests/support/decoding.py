"""Small random models for the generation tests, and sequence scores computed in one pass through the whole model."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from handloom.autograd import manual_seed, no_grad, ops
from handloom.autograd.fast import compiled
from handloom.models import Rules, Seq2SeqConfig, Seq2SeqTransformer
from handloom.models.generation.decoding import DecodingState, Uncached
from handloom.models.generation.fast import team
from handloom.nn import Module, MultiHeadAttention, attention_maps

PAD, BOS, EOS = 0, 2, 3

needs_numba = pytest.mark.skipif(
    compiled.missing() is not None or not team.usable(), reason="needs Numba that compiles: pip install numba"
)


def build(seed: int, vocabulary: int = 9, *, layers: int = 1, **options) -> Seq2SeqTransformer:
    """Return a random model whose output is so peaked that sequences end (<eos>) at different lengths."""
    manual_seed(seed)
    config = Seq2SeqConfig(
        vocabulary, vocabulary, d_model=8, nhead=2, encoder_layers=1, decoder_layers=layers, dim_feedforward=12,
        dropout=0.0, **{"max_length": 40, **options},
    )  # fmt: skip
    model = Seq2SeqTransformer(config).astype(np.float64).eval()
    model.output.weight.data[...] *= 4
    rng = np.random.default_rng(seed)
    for parameter in model.parameters():  # no bias is 0, no norm's weight is 1
        if parameter.ndim == 1:
            parameter.data[...] += rng.normal(scale=0.3, size=parameter.shape)
    model.output.bias.data[EOS] += 2
    return model


def without_attention_dropout(model: Module) -> Module:
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.dropout = 0.0  # the kernels draw different masks
    return model


def padded(sentences: list[list[int]]) -> np.ndarray:
    """Return an array (batch, longest) of the ids, with padding at the end."""
    source = np.full((len(sentences), max(map(len, sentences))), PAD)
    for row, ids in zip(source, sentences, strict=True):
        row[: len(ids)] = ids
    return source


def random_source(rng: np.random.Generator, lengths: list[int], vocabulary: int = 9) -> np.ndarray:
    return padded([rng.integers(4, vocabulary, length).tolist() for length in lengths])


def textbook_log_p(logits: np.ndarray, before: list[int], rules: Rules) -> np.ndarray:
    """Return log-probabilities of the token after `before`, with the repetition penalty; -inf for forbidden tokens."""
    x = logits.copy()
    for token in set(before):
        x[token] = x[token] / rules.repetition_penalty if x[token] > 0 else x[token] * rules.repetition_penalty
    log_p = x - np.log(np.exp(x).sum())
    for token in range(len(x)):
        grams = [tuple(before[i : i + rules.no_repeat_ngram]) for i in range(len(before) - rules.no_repeat_ngram + 1)]
        n = rules.no_repeat_ngram
        if token in rules.forbidden or (n and len(before) >= n - 1 and tuple([*before, token][-n:]) in grams):
            log_p[token] = -np.inf
    return log_p


def textbook_score(
    model: Seq2SeqTransformer, source: np.ndarray, ids: list[int], ended: bool, rules: Rules, prefix: int = 0
) -> tuple[float, np.ndarray]:
    """Return the log-probability of an output, given its first `prefix` tokens, and the attention per source token."""
    target = [BOS, *ids] if ended else [BOS, *ids[:-1]]
    wanted = [*ids, EOS] if ended else ids
    with no_grad(), attention_maps(model) as maps:
        memory, lengths = model.encode(source)
        logits = model.decode(np.array([target]), memory, lengths).data[0]
    total = 0.0
    for position, token in enumerate(wanted):
        if position >= prefix:
            if token == EOS and position + 1 - prefix < rules.min_length:
                return -np.inf, np.zeros(0)
            total += textbook_log_p(logits[position], target[: position + 1], rules)[token]
    return total, list(maps.values())[-1][0][0].mean(axis=0).sum(axis=0)


def every_output(vocabulary: int, prefix: list[int], limit: int) -> Iterator[tuple[list[int], bool]]:
    """Yield all outputs of up to `limit` tokens (with <eos>) after the prefix, and whether each ends with <eos>."""
    words = [token for token in range(vocabulary) if token != EOS]
    for length in range(limit):
        yield from (([*prefix, *ids], True) for ids in itertools.product(words, repeat=length))
    yield from (([*prefix, *ids], False) for ids in itertools.product(words, repeat=limit))


def log_probabilities(model: Seq2SeqTransformer, source: np.ndarray, target: list[int]) -> np.ndarray:
    """Return the log-probabilities of the token after `target`, computed in one pass."""
    with no_grad():
        return ops.log_softmax(model(source, np.array([[BOS, *target]]))).data[0, -1]


def start_uncached(model: Seq2SeqTransformer, source: np.ndarray) -> Uncached:
    """Return an encoder-decoder's decoding state without a cache: each step recomputes all target positions."""
    with no_grad():
        memory, lengths = model.encode(source)

    def logits(ids: np.ndarray, origin: np.ndarray) -> np.ndarray:
        with no_grad():
            return model.decode(ids, memory[origin], lengths[origin], source=source[origin]).data[:, -1]

    return Uncached(logits, len(lengths), positions=model.config.max_length, suggested_lengths=2 * lengths + 10)


def fed_to(state: DecodingState) -> list[np.ndarray]:
    """Return a list to which each step of the state adds the ids that it is given."""
    fed: list[np.ndarray] = []
    step = state.step

    def recorded(ids: np.ndarray, *more: Any) -> np.ndarray:
        fed.append(ids)
        return step(ids, *more)

    state.step = recorded  # type: ignore[method-assign]
    return fed
