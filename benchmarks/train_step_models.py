"""Sizes, batches and handloom models for `benchmarks.train_step`."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from handloom.autograd import Tensor, ops
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer
from handloom.models.classifier import ClassifierConfig, TransformerClassifier
from handloom.models.language_model import LanguageModel, LanguageModelConfig
from handloom.nn import Module

Kind = Literal["seq2seq", "language model", "classifier"]


@dataclasses.dataclass(frozen=True)
class Size:
    """A model and its batch. `source` and `target` are lengths in tokens; id 0 is padding."""

    kind: Kind
    batch: int
    source: int
    target: int
    vocabulary: int
    d_model: int
    dim_feedforward: int
    layers: int  # number of layers of the encoder and, if there is a decoder, of the decoder
    heads: int = 8
    dropout: float = 0.1
    classes: int = 0  # of the classifier
    norm_first: bool = False
    activation: str = "relu"
    tied: bool = False  # one matrix for source embedding, target embedding and output layer
    label_smoothing: float = 0.0
    max_length: int = 128

    @property
    def tokens(self) -> int:
        """Return the number of token positions that one step processes."""
        return self.batch * (self.source + self.target)

    def arrays(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Return a batch without padding: `source`, `labels` and, for two languages, `target_input`, all int64."""
        generator = np.random.default_rng(seed)

        def ids(*shape: int) -> np.ndarray:
            return generator.integers(1, self.vocabulary, shape)

        arrays = {"source": ids(self.batch, self.source)}
        if self.kind == "classifier":
            return arrays | {"labels": generator.integers(0, self.classes, self.batch)}
        if self.kind == "language model":
            return arrays | {"labels": ids(self.batch, self.source)}
        return arrays | {"target_input": ids(self.batch, self.target), "labels": ids(self.batch, self.target)}


#: One model from each report, at the report's size.
SIZES: Mapping[str, Size] = {
    "paraphrase": Size("seq2seq", 64, 16, 16, 30_000, 256, 1024, 3),
    "de-en": Size("seq2seq", 16, 32, 32, 50_000, 512, 2048, 6),
    "en-fr": Size("seq2seq", 32, 32, 32, 10_000, 256, 512, 6),
    "headline": Size("seq2seq", 16, 64, 32, 20_000, 512, 2048, 2),
    "classifier": Size("classifier", 64, 32, 0, 30_000, 512, 2048, 2, classes=42),
    "language-model": Size("language model", 16, 128, 0, 2000, 368, 1472, 5, norm_first=True),
}

#: These sizes are measured only if they are named; "all" does not include them.
MORE: Mapping[str, Size] = {
    # Tiny models, to test the benchmark itself.
    "tiny": Size("seq2seq", 4, 5, 6, 50, 16, 32, 1, heads=2),
    "tiny-classifier": Size("classifier", 4, 5, 0, 50, 16, 32, 1, heads=2, classes=3),
    "tiny-language-model": Size("language model", 4, 5, 0, 50, 16, 32, 1, heads=2, norm_first=True, activation="gelu"),
}


def build(size: Size) -> Module:
    """Build a model of this size, with new weights from the default generator."""
    common: dict[str, Any] = {
        "d_model": size.d_model, "nhead": size.heads, "dim_feedforward": size.dim_feedforward, "dropout": size.dropout,
        "activation": size.activation, "norm_first": size.norm_first, "max_length": size.max_length,
    }  # fmt: skip
    if size.kind == "classifier":
        return TransformerClassifier(ClassifierConfig(size.vocabulary, size.classes, layers=size.layers, **common))
    if size.kind == "language model":
        return LanguageModel(LanguageModelConfig(size.vocabulary, layers=size.layers, **common))
    common |= {"encoder_layers": size.layers, "decoder_layers": size.layers}
    common |= {"share_embeddings": size.tied, "tie_output": size.tied}
    return Seq2SeqTransformer(Seq2SeqConfig(size.vocabulary, size.vocabulary, **common))


def loss(model: Module, size: Size, source: Any, labels: Any, target_input: Any = None) -> Tensor:
    """Return the mean cross-entropy in nats. As in the Trainer, the logits of many classes are never all stored."""
    if size.kind == "seq2seq":
        return model.loss(source, target_input, labels)
    if size.kind == "language model":
        return model.output.cross_entropy(model.hidden(source), labels)
    return ops.cross_entropy(model(source), labels)


#: Prefixes of handloom's parameter names, with the names in `train_step_torch`'s model where these differ.
RENAMED = {
    "language model": {"embedding.": "source_embedding.", "decoder.": "encoder.", "positions.weight": "positions"},
    "seq2seq": {},
    "classifier": {"embedding.": "source_embedding."},
}


def shared_name(size: Size, name: str) -> str:
    """Return the name of a parameter in the PyTorch model."""
    for ours, theirs in RENAMED[size.kind].items():
        if name.startswith(ours):
            return theirs + name.removeprefix(ours)
    return name


def prepare(data_name: str, preset_name: str, count: int) -> tuple[Size, list[Any]]:
    """Return the size of the preset's model, and the first `count` training batches of a data set."""
    from handloom.models.presets import translation_preset
    from handloom.train.data.translation import load_translation_data
    from handloom.train.tasks.translation import Translation

    data = load_translation_data(data_name)
    preset = translation_preset(preset_name, data.name)
    task = Translation(data.train, data.valid, preset=preset)
    tokenizer = task.make_tokenizer()
    batches = task.batches(tokenizer, seed=0).train
    epochs = itertools.chain.from_iterable(batches.epoch(epoch) for epoch in itertools.count())
    size = Size(
        "seq2seq", 0, 0, 0, tokenizer.vocab_size, preset.d_model, preset.dim_feedforward, preset.layers, preset.nhead,
        preset.dropout, norm_first=preset.norm_first, tied=preset.tied, label_smoothing=preset.label_smoothing,
        max_length=preset.max_length,
    )  # fmt: skip
    return size, list(itertools.islice(epochs, count))
