"""BPE-dropout: splits each text into different tokens in every epoch, so that a model learns the parts of words.

Source: Provilkov, Emelianenko and Voita 2020, arXiv 1910.13267.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np

from ...tokenizer import BPETokenizer
from .batches import Batch, TokenBatches, TokenSequences
from .files import Pair


class BPEDropoutBatches(TokenBatches):
    """`TokenBatches` whose texts are encoded again in every epoch, with BPE-dropout.

    Each merge is left out with probability `dropout`. Pairs are grouped into batches by their lengths without dropout,
    so a batch can slightly exceed `tokens_per_batch`. The random choices depend only on the seed, the epoch and the
    batch. A pair that dropout makes longer than `max_length` is encoded without dropout.
    """

    def __init__(
        self, pairs: Sequence[Pair], tokenizer: BPETokenizer, dropout: float, *, max_length: int, **options: Any
    ):
        self._pairs, self._tokenizer = pairs, copy.copy(tokenizer)
        self._most = max_length
        sources, targets = self._encoded(pairs)
        super().__init__(sources, targets, max_length=max_length, **options)
        self._tokenizer.dropout = dropout

    def _encoded(self, pairs: Sequence[Pair]) -> tuple[list[list[int]], list[list[int]]]:
        sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
        return self._tokenizer.encode_batch(sources, add_eos=True), self._tokenizer.encode_batch(targets)

    def epoch(self, epoch: int, start: int = 0, every: int = 1) -> Iterator[Batch]:
        for indices in self.plan(epoch)[start::every]:
            self._tokenizer.generator = Random(f"{self.seed} {epoch} {indices[0]}")
            rows = list(zip(*self._encoded([self._pairs[i] for i in indices]), strict=True))
            for i in [i for i, row in enumerate(rows) if max(len(row[0]), len(row[1]) + 1) > self._most]:
                usual = super().batch(indices[i : i + 1])
                source, target = usual.source[0, : usual.source_lengths[0]], usual.target_output[0]
                rows[i] = source.tolist(), target[: usual.target_lengths[0] - 1].tolist()
            again = copy.copy(self)
            again.source, again.target = map(TokenSequences.from_lists, zip(*rows, strict=True))
            again._longest = self._most
            yield dataclasses.replace(TokenBatches.batch(again, np.arange(len(rows))), indices=indices)
