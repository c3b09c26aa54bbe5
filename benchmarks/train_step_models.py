"""The handloom side of `benchmarks.train_step`: its models at the measured sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.train_step_sizes import Size
from handloom.autograd import Tensor, ops
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer
from handloom.models.classifier import ClassifierConfig, TransformerClassifier
from handloom.models.language_model import LanguageModel, LanguageModelConfig
from handloom.nn import Module


def build(size: Size) -> Module:
    """A model of this size, with fresh weights from the default generator."""
    if size.kind == "classifier":
        return TransformerClassifier(
            ClassifierConfig(
                size.vocabulary, size.classes, size.d_model, size.heads, size.layers, size.dim_feedforward,
                size.dropout, size.activation, size.norm_first, max_length=size.max_length,
            )
        )  # fmt: skip
    if size.kind == "language model":
        return LanguageModel(
            LanguageModelConfig(
                size.vocabulary, size.d_model, size.heads, layers=size.layers, dim_feedforward=size.dim_feedforward,
                dropout=size.dropout, activation=size.activation, norm_first=size.norm_first,
                max_length=size.max_length,
            )
        )  # fmt: skip
    return Seq2SeqTransformer(
        Seq2SeqConfig(
            size.vocabulary, size.vocabulary, size.d_model, size.heads, size.layers, size.layers, size.dim_feedforward,
            size.dropout, size.activation, size.norm_first, size.max_length, share_embeddings=size.tied,
            tie_output=size.tied,
        )
    )  # fmt: skip


def loss(model: Module, size: Size, source: Any, labels: Any, target_input: Any = None) -> Tensor:
    """Mean cross-entropy in nats; with many classes as the Trainer computes it, without holding all logits."""
    if size.kind == "seq2seq":
        return model.loss(source, target_input, labels)
    if size.kind == "language model":
        return model.output.cross_entropy(model.hidden(source), labels)
    return ops.cross_entropy(model(source), labels)


#: Prefixes of parameter names in handloom that differ in the PyTorch model of `train_step_torch`.
RENAMED = {
    "language model": {"embedding.": "source_embedding.", "decoder.": "encoder.", "positions.weight": "positions"},
    "seq2seq": {},
    "classifier": {"embedding.": "source_embedding."},
}


def shared_name(size: Size, name: str) -> str:
    """The PyTorch side's name of a parameter."""
    for ours, theirs in RENAMED[size.kind].items():
        if name.startswith(ours):
            return theirs + name.removeprefix(ours)
    return name


def fixed_positions(model: Any) -> dict[str, np.ndarray]:
    """The sinusoidal table that the model adds, for the other side; empty where positions are learned."""
    table = getattr(model.positions, "table", None)
    return {} if table is None else {"positions": table.data}
