"""The encoder-only Transformer: a classifier of texts."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..autograd import Tensor
from ..nn import (
    Dropout,
    Embedding,
    LayerNorm,
    Linear,
    Module,
    TransformerEncoder,
    TransformerEncoderLayer,
    embedding_positions,
)
from .fields import Activation, Count, Depth, Length, Pattern, Positions, Share, Size, Whole, check_fields


@dataclasses.dataclass(frozen=True)
class ClassifierConfig:
    """What a TransformerClassifier is built from.

    Args:
        vocab_size, classes: numbers of token ids and of classes.
        d_model, nhead, layers, dim_feedforward, dropout: sizes of the layers.
        activation: "relu", "gelu", "silu", "glu", "reglu", "geglu" or "swiglu".
        norm_first: pre-norm, with a final norm.
        positions: one of `nn.POSITIONS`.
        pattern: which positions self-attention sees, see `nn.sparse`.
        max_length: longest sequence, in tokens, for positions that are added to the embeddings.
        pad_id: id of the padding token.

    Raises ValueError for a value that its field does not allow, see `fields`.
    """

    vocab_size: Count
    classes: Count
    d_model: Size = 512
    nhead: Size = 8
    layers: Depth = 2
    dim_feedforward: Size = 2048
    dropout: Share = 0.1
    activation: Activation = "relu"
    norm_first: bool = False
    positions: Positions = "sinusoidal"
    pattern: Pattern = "full"
    max_length: Length = 128
    pad_id: Whole = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.pad_id >= self.vocab_size:
            raise ValueError(f"pad_id is {self.pad_id}, it must be an id of the vocabulary")

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class TransformerClassifier(Module):
    """ids (batch, length), padded at the end -> logits (batch, classes), read off the first position.

    The first token should be the same in every text (<bos>): what its position gathers from the others is all that
    the output layer sees. Source: Devlin et al. 2019, arXiv 1810.04805, section 3.1.
    """

    def __init__(self, config: ClassifierConfig):
        self.config = c = config
        self.embedding = Embedding(c.vocab_size, c.d_model, c.pad_id, scale_by_sqrt_dim=True)
        self.positions, in_attention = embedding_positions(c.positions, c.d_model, c.max_length)
        self.dropout = Dropout(c.dropout)
        attention: dict[str, Any] = {"positions": in_attention, "pattern": c.pattern}
        sizes = (c.d_model, c.nhead, c.dim_feedforward, c.dropout, c.activation, c.norm_first)
        self.encoder = TransformerEncoder(
            [TransformerEncoderLayer(*sizes, **attention) for _ in range(c.layers)],
            LayerNorm(c.d_model) if c.norm_first else None,
        )
        self.output = Linear(c.d_model, c.classes)

    def forward(self, ids: Any, lengths: Any = None) -> Tensor:
        """Logits of the classes; `lengths` (batch,) without padding, found from it if None.

        Raises ValueError beyond `max_length`, IndexError for an id outside the vocabulary.
        """
        if lengths is None:
            lengths = (ids != self.config.pad_id).sum(axis=1)
        x = self.dropout(self.positions(self.embedding(ids)))
        return self.output(self.dropout(self.encoder(x, lengths=lengths)[:, 0]))
