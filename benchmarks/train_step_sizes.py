"""The models whose training step `benchmarks.train_step` measures: one from each report, at the report's size."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

import numpy as np

Kind = Literal["seq2seq", "language model", "classifier"]


@dataclasses.dataclass(frozen=True)
class Size:
    """A model and the batch it is trained on. `source` and `target` are lengths in tokens; ids start at 0 = padding."""

    kind: Kind
    batch: int
    source: int
    target: int
    vocabulary: int
    d_model: int
    dim_feedforward: int
    layers: int  # of the encoder, and as many of the decoder where there is one
    heads: int = 8
    dropout: float = 0.1
    classes: int = 0  # of the classifier
    norm_first: bool = False
    activation: str = "relu"
    tied: bool = False  # one table for source, target and output layer
    label_smoothing: float = 0.0
    max_length: int = 128

    @property
    def tokens(self) -> int:
        """Token positions that one step processes."""
        return self.batch * (self.source + self.target)

    def arrays(self, seed: int = 0) -> dict[str, np.ndarray]:
        """A batch without padding: `source`, `labels` and, for two languages, `target_input`, all int64."""
        generator = np.random.default_rng(seed)

        def ids(*shape: int) -> np.ndarray:
            return generator.integers(1, self.vocabulary, shape)

        arrays = {"source": ids(self.batch, self.source)}
        if self.kind == "classifier":
            return arrays | {"labels": generator.integers(0, self.classes, self.batch)}
        if self.kind == "language model":
            return arrays | {"labels": ids(self.batch, self.source)}
        return arrays | {"target_input": ids(self.batch, self.target), "labels": ids(self.batch, self.target)}


SIZES: Mapping[str, Size] = {
    "paraphrase": Size("seq2seq", 64, 16, 16, 30_000, 256, 1024, 3),
    "de-en": Size("seq2seq", 16, 32, 32, 50_000, 512, 2048, 6),
    "en-fr": Size("seq2seq", 32, 32, 32, 10_000, 256, 512, 6),
    "headline": Size("seq2seq", 16, 64, 32, 20_000, 512, 2048, 2),
    "classifier": Size("classifier", 64, 32, 0, 30_000, 512, 2048, 2, classes=42),
    "language-model": Size("language model", 16, 128, 0, 2000, 368, 1472, 5, norm_first=True),
}

#: Measured only by name, not as part of "all".
MORE: Mapping[str, Size] = {
    "language-model-gelu": dataclasses.replace(SIZES["language-model"], activation="gelu"),
    # Tiny models, to test the benchmark itself.
    "tiny": Size("seq2seq", 4, 5, 6, 50, 16, 32, 1, heads=2),
    "tiny-classifier": Size("classifier", 4, 5, 0, 50, 16, 32, 1, heads=2, classes=3),
    "tiny-language-model": Size("language model", 4, 5, 0, 50, 16, 32, 1, heads=2, norm_first=True, activation="gelu"),
}


def size_of(config: str) -> Size:
    """The size of this name. Raises KeyError for another."""
    return {**SIZES, **MORE}[config]
