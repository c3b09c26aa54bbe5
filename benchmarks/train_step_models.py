"""Sizes, batches and handloom models for `benchmarks.train_step`."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from handloom.autograd import Tensor, manual_seed, ops
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer
from handloom.models.classifier import ClassifierConfig, TransformerClassifier
from handloom.models.language_model import LanguageModel, LanguageModelConfig
from handloom.nn import Module

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Size:
    """A model and its batch. `source` and `target` are lengths in tokens; id 0 is padding."""

    kind: Literal["seq2seq", "language model", "classifier"]
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

    def arrays(self, seed: int = 0) -> Arrays:
        """Return a batch without padding: `source`, `labels` and, for two languages, `target_input`, all int64."""
        generator = np.random.default_rng(seed)

        def ids(length: int) -> np.ndarray:
            return generator.integers(1, self.vocabulary, (self.batch, length))

        source = ids(self.source)
        if self.kind == "classifier":
            return {"source": source, "labels": generator.integers(0, self.classes, self.batch)}
        if self.kind == "language model":
            return {"source": source, "labels": ids(self.source)}
        return {"source": source, "target_input": ids(self.target), "labels": ids(self.target)}


#: One model from each report, at the report's size.
CPU_SIZES: Mapping[str, Size] = {
    "paraphrase": Size("seq2seq", 64, 16, 16, 30_000, 256, 1024, 3),
    "de-en": Size("seq2seq", 16, 32, 32, 50_000, 512, 2048, 6),
    "en-fr": Size("seq2seq", 32, 32, 32, 10_000, 256, 512, 6),
    "headline": Size("seq2seq", 16, 64, 32, 20_000, 512, 2048, 2),
    "classifier": Size("classifier", 64, 32, 0, 30_000, 512, 2048, 2, classes=42),
    "language-model": Size("language model", 16, 128, 0, 2000, 368, 1472, 5, norm_first=True),
}

#: These models with batches for a GPU. The German-English model is measured in a small and a large size.
CUDA_SIZES: Mapping[str, Size] = {
    "de-en": replace(CPU_SIZES["de-en"], batch=128, source=64, target=64),
    "de-en-512": replace(CPU_SIZES["de-en"], batch=512, source=64, target=64),
    "en-fr": replace(CPU_SIZES["en-fr"], batch=64, vocabulary=16_000),
    "paraphrase": CPU_SIZES["paraphrase"],
    "headline": replace(CPU_SIZES["headline"], batch=64, vocabulary=30_000),
    "classifier": CPU_SIZES["classifier"],
    "language-model": replace(CPU_SIZES["language-model"], batch=64),
}

#: Tiny models, to test the benchmark itself; "all" does not include them.
TINY: Mapping[str, Size] = {
    "tiny": Size("seq2seq", 4, 5, 6, 50, 16, 32, 1, heads=2),
    "tiny-classifier": Size("classifier", 4, 5, 0, 50, 16, 32, 1, heads=2, classes=3),
    "tiny-language-model": Size("language model", 4, 5, 0, 50, 16, 32, 1, heads=2, norm_first=True, activation="gelu"),
}

#: The sizes that "all" measures, by device.
SIZES = {"cpu": CPU_SIZES, "cuda": CUDA_SIZES}


def build(size: Size) -> Module:
    """Build a model of this size. Its initial weights are always the same."""
    manual_seed(0)
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


def loss(
    model: Module, size: Size, source: Any, labels: Any, target_input: Any = None, source_lengths: Any = None
) -> Tensor:
    """Return the mean cross-entropy in nats. As in the Trainer, the logits of many classes are never all stored."""
    if size.kind == "seq2seq":
        return model.loss(source, target_input, labels, source_lengths, label_smoothing=size.label_smoothing)
    if size.kind == "language model":
        return model.output.cross_entropy(model.hidden(source), labels)
    return ops.cross_entropy(model(source), labels)


def shared_name(size: Size, name: str) -> str:
    """Return the name of handloom's parameter `name` in the model of `train_step_torch`."""
    if size.kind == "seq2seq":
        return name
    name = name.replace("positions.weight", "positions").replace("embedding.", "source_embedding.")
    return name.replace("decoder.", "encoder.")


def initial_weights(size: Size) -> Arrays:
    """Return handloom's initial weights, and the table of sinusoidal positions if there is one, by `shared_name`."""
    model = build(size)
    state = {shared_name(size, name): array for name, array in model.state_dict().items()}
    table = getattr(model.positions, "table", None)
    return state if table is None else {**state, "positions": table.data}


def prepare(data_name: str, count: int) -> tuple[Size, list[Arrays]]:
    """Return the size of the preset laptop's model, and the first `count` training batches of a data set."""
    from handloom.models.presets import translation_preset
    from handloom.train.data.translation import load_translation_data
    from handloom.train.tasks.translation import Translation

    data = load_translation_data(data_name)
    preset = translation_preset("laptop", data.name)
    task = Translation(data.train, data.valid, preset=preset)
    tokenizer = task.make_tokenizer()
    epochs = map(task.batches(tokenizer, seed=0).train.epoch, itertools.count())
    size = Size(
        "seq2seq", 0, 0, 0, tokenizer.vocab_size, preset.d_model, preset.dim_feedforward, preset.layers, preset.nhead,
        preset.dropout, norm_first=preset.norm_first, tied=preset.tied, label_smoothing=preset.label_smoothing,
        max_length=preset.max_length,
    )  # fmt: skip
    return size, list(map(arguments, itertools.islice(itertools.chain.from_iterable(epochs), count)))


def arguments(batch: Any) -> Arrays:
    """Return the arguments of `loss` for a Batch of `handloom.train.data.batches`."""
    inputs = {"source": batch.source, "target_input": batch.target_input, "source_lengths": batch.source_lengths}
    return {**inputs, "labels": batch.target_output}


def sizes_of(size: Size, batches: Sequence[Arrays] | None) -> list[Size]:
    """Return a size for each batch of real data, with its shape, or without real data only `size`."""
    if batches is None:
        return [size]
    shapes = [(*batch["source"].shape, batch["target_input"].shape[1]) for batch in batches]
    return [replace(size, batch=rows, source=source, target=target) for rows, source, target in shapes]
