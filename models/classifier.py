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
    """

    vocab_size: int
    classes: int
    d_model: int = 512
    nhead: int = 8
    layers: int = 2
    dim_feedforward: int = 2048
    dropout: float = 0.1
    activation: str = "relu"
    norm_first: bool = False
    positions: str = "sinusoidal"
    pattern: str = "full"
    max_length: int = 128
    pad_id: int = 0

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
