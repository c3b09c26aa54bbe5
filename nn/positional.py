"""Positional encodings: added to the embeddings, or built into the scores of attention."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..autograd import Parameter, Tensor, ops
from ..autograd.backend import array_module, constant
from ..kinds import checked, one_of
from . import init
from .module import Module


@checked
def sinusoidal_table(length: int, d_model: int, halves: bool = False) -> np.ndarray:
    """Return (length, d_model) float32: sin(t / 10000^(2i/d_model)) in column 2i, and the cosine in column 2i + 1.

    If `halves` is true, the sines fill the first half of the columns and the cosines the second half, as in Marian and
    tensor2tensor. Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.5.
    """
    position = np.arange(length)[:, None]
    rate = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    table = np.empty((length, d_model), np.float32)
    table[:, 0::2] = np.sin(position * rate)
    table[:, 1::2] = np.cos(position * rate[: d_model // 2])
    return np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1) if halves else table


class _AddedPositions(Module):
    """A layer that adds row t of a table to the vector at position t, for vectors (batch, length, d_model)."""

    def __init__(self, max_length: int):
        self.max_length = max_length

    def add(self, x: Tensor, table: Tensor, offset: Any) -> Tensor:
        """Add rows of `table` to x, from position `offset` on: an int, or (batch,), in which negative ones are 0."""
        end = int(np.max(offset, initial=0)) + x.shape[1]
        if end > self.max_length:
            raise ValueError(
                f"a sequence of {end} tokens is longer than the {self.max_length} positions for which this model was "
                "built: shorten it, or build the model with a larger max_length"
            )
        if isinstance(offset, np.ndarray):
            rows = np.maximum(np.arange(x.shape[1]) + offset[:, None], 0)
            return x + ops.embedding(constant(array_module(x.data), rows), table)
        return x + table[offset:end]


class SinusoidalPositions(_AddedPositions):
    """A layer that adds the fixed sine and cosine table to embeddings (batch, length, d_model).
    `offset` is the first token's position. Raises ValueError for positions beyond `max_length`. Source: arXiv
    1706.03762, section 3.5.
    """

    def __init__(self, d_model: int, max_length: int = 1024, *, halves: bool = False):
        super().__init__(max_length)
        self.table = Tensor(sinusoidal_table(max_length, d_model, halves))

    def forward(self, x: Tensor, offset: Any = 0) -> Tensor:
        return self.add(x, self.table, offset)


class LearnedPositions(_AddedPositions):
    """A layer that adds a learned table `weight` (max_length, d_model), initially normal with deviation 0.02."""

    def __init__(self, d_model: int, max_length: int = 1024):
        super().__init__(max_length)
        self.weight = Parameter(np.empty((max_length, d_model), np.float32))
        init.normal_(self.weight, 0.0, 0.02)

    def forward(self, x: Tensor, offset: Any = 0) -> Tensor:
        return self.add(x, self.weight, offset)


class PositionScores(Module):
    """The base class of position encodings in self-attention's scores. The base class itself changes nothing."""

    def rotate(self, query: Tensor, key: Tensor, offset: int) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys (batch, heads, length, head_dim), of which the first have the position `offset`."""
        return query, key

    def scores(self, query: Tensor, key: Tensor) -> dict[str, Any]:
        """Return the encoding's options for `ops.attention`. The last query has the last key's position."""
        return {}

    def bias_at(self, distance: np.ndarray, dtype: Any) -> Any:
        """Return what `scores` adds, (..., heads, query, key), at distances (..., query, key) to a key, or None."""
        return None


class RotaryPositions(PositionScores):
    """An encoding that rotates pairs of features of queries and keys by an angle proportional to the position.

    At position t the pair (i, i + head_dim / 2) is rotated by t / 10000^(2i/head_dim). With these rotations, the score
    of a query and a key depends on their positions only through the distance. Source: Su et al. 2021, arXiv 2104.09864,
    equation 34, but with pairs of features i and i + head_dim / 2. Raises ValueError for an odd head_dim, or if only
    some of low, high and length are given.

    Args:
        base: the number that replaces 10000; a larger base rotates more slowly.
        factor: the number by which the rotation speed is divided, for contexts longer by this factor (Chen et al. 2023,
            arXiv 2306.15595).
        low, high, length: limits of the slowing down, as in Llama 3. Pairs that rotate fewer than `low` times in
            `length` positions are slowed down by the whole factor. Pairs that rotate more than `high` times are not
            slowed down. For pairs in between, the factor is interpolated. Without these three options, all pairs are
            slowed down.
    """

    def __init__(
        self,
        head_dim: int,
        base: float = 10000.0,
        factor: float = 1.0,
        low: float | None = None,
        high: float | None = None,
        length: int | None = None,
    ):
        if head_dim % 2:
            raise ValueError(f"rotary positions rotate features in pairs: head_dim {head_dim} must be even")
        if len({limit is None for limit in (low, high, length)}) > 1:
            raise ValueError(f"rotary positions need low, high and length, or none, not {low=}, {high=}, {length=}")
        self.head_dim = head_dim
        half = head_dim // 2
        self.rate = base ** (-np.arange(half) / half)
        if low is not None and high is not None and length is not None:
            turns = length * self.rate / (2 * np.pi)
            kept = np.clip((turns - low) / (high - low), 0, 1)
            self.rate = self.rate * (kept + (1 - kept) / factor)
        elif factor != 1.0:
            self.rate = self.rate / factor

    def rotate(self, query: Tensor, key: Tensor, offset: int) -> tuple[Tensor, Tensor]:
        half = self.head_dim // 2
        angle = np.arange(offset, offset + query.shape[2])[:, None] * self.rate  # (length, half)
        xp = array_module(query.data)
        cosine, sine = (constant(xp, f(angle).astype(query.dtype)) for f in (np.cos, np.sin))

        def rotated(x: Tensor) -> Tensor:
            first, second = x[..., :half], x[..., half:]
            return ops.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)

        return rotated(query), rotated(key)


class RelativePositions(PositionScores):
    """A learned number for each head and distance, added to the scores. All distances beyond `max_distance` use one
    number.

    `weight` (num_heads, 2 max_distance + 1) is initially zero. Column d + max_distance has the numbers for a key d
    positions after the query. Source: Raffel et al. 2020, arXiv 1910.10683, section 2.1, but without buckets of
    distances; limited distances: Shaw et al. 2018, arXiv 1803.02155, equation 4.
    """

    def __init__(self, num_heads: int, max_distance: int = 32):
        self.max_distance = max_distance
        self.weight = Parameter(np.zeros((num_heads, 2 * max_distance + 1), np.float32))

    def scores(self, query: Tensor, key: Tensor) -> dict[str, Any]:
        queries, keys = query.shape[2], key.shape[2]
        distance = np.arange(keys) - np.arange(keys - queries, keys)[:, None]  # (query, key)
        return {"bias": ops.take(self.weight, self._columns(distance), axis=1)[None]}

    def bias_at(self, distance: np.ndarray, dtype: Any) -> Any:
        xp = array_module(self.weight.data)
        return xp.moveaxis(self.weight.data[:, self._columns(distance)], 0, -3).astype(dtype, copy=False)

    def _columns(self, distance: np.ndarray) -> Any:
        columns = np.clip(distance, -self.max_distance, self.max_distance) + self.max_distance
        return constant(array_module(self.weight.data), columns)


class LinearBiasPositions(PositionScores):
    """ALiBi: in head h, a key's score is lowered by 2^(-8 (h+1) / num_heads) times its distance from the query.

    ALiBi has no parameters. In an encoder, which attends in both directions, distances are absolute. The formula is the
    paper's, for any number of heads. The authors' published code, and models trained with it (BLOOM, MPT), use other
    slopes where the number of heads is not a power of 2, such as 6, 12 or 40: those of the next smaller power of 2, and
    every second one of the next larger power for the other heads. Give such slopes to `ops.attention`.
    Source: Press et al. 2022, arXiv 2108.12409, section 3.
    """

    def __init__(self, num_heads: int):
        self.slopes = Tensor((2.0 ** (-8.0 * np.arange(1, num_heads + 1) / num_heads)).astype(np.float32))

    def scores(self, query: Tensor, key: Tensor) -> dict[str, Any]:
        return {"alibi_slopes": self.slopes.data}

    def bias_at(self, distance: np.ndarray, dtype: Any) -> Any:
        xp = array_module(self.slopes.data)
        return (-self.slopes.data[:, None, None] * xp.abs(xp.asarray(distance))[..., None, :, :]).astype(dtype)


#: Positions that act on the scores of self-attention; the other kinds are added to the embeddings.
ATTENTION_POSITIONS = ("none", "relative", "alibi", "rotary")
#: All kinds of positions that a model can be built with.
POSITIONS = ("sinusoidal", "learned", *ATTENTION_POSITIONS[1:], "none")


def attention_positions(
    kind: str, num_heads: int, head_dim: int, rotary: Mapping[str, Any] | None = None
) -> PositionScores | None:
    """Return the position encoding for `kind`, one of `ATTENTION_POSITIONS`, or None for "none". `rotary` are options
    of `RotaryPositions`. Raises ValueError for an unknown kind.
    """
    if kind == "rotary":
        return RotaryPositions(head_dim, **(rotary or {}))
    if kind == "relative":
        return RelativePositions(num_heads)
    one_of("positions in attention", kind, ATTENTION_POSITIONS)
    return LinearBiasPositions(num_heads) if kind == "alibi" else None


class NoPositions(Module):
    """A layer that adds nothing: for no positions or positions in attention, without a maximum length."""

    def forward(self, x: Tensor, offset: Any = 0) -> Tensor:
        return x


def embedding_positions(kind: str, d_model: int, max_length: int, *, halves: bool = False) -> tuple[Module, str]:
    """Return, for one of `POSITIONS`, the layer that adds positions to embeddings, and the kind of positions in
    attention. `halves` is the argument of `sinusoidal_table`. Raises ValueError for an unknown kind.
    """
    if kind == "sinusoidal":
        return SinusoidalPositions(d_model, max_length, halves=halves), "none"
    if kind == "learned":
        return LearnedPositions(d_model, max_length), "none"
    return NoPositions(), one_of("positions", kind, POSITIONS)
