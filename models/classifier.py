"""The encoder-only Transformer: a classifier of texts."""

import dataclasses
from typing import Annotated, Any

import numpy as np

from .. import nn
from ..autograd import Tensor, ops
from ..autograd.backend import array_module
from ..autograd.ops.indexing import integers
from .fields import Activation, Choices, Count, Depth, Fraction, Length, Pattern, Positions, Size, Whole
from .options import ModelOptions

#: Pooling before the output layer: the first token's state, or each feature's mean or maximum over all tokens.
POOLINGS = ("first", "mean", "max")
POOLERS = {"none": None, "tanh": ops.tanh, "relu": ops.relu}


@dataclasses.dataclass(frozen=True)
class ClassifierConfig(ModelOptions):
    """The configuration of a TransformerClassifier.

    Args:
        vocab_size, classes: number of token ids, and number of classes.
        d_model, nhead, layers, dim_feedforward, dropout: sizes of the layers.
        norm_first: use pre-norm, with a norm after the last layer, instead of post-norm.
        max_length: maximum number of tokens if the position encoding is added to the embeddings.
        pad_id: id of the padding token.
        scale_embedding: multiply embeddings by sqrt(d_model).
        token_types: number of token types, such as 2 for a pair of sentences; each type's learned vector is added to
            the embeddings; 0 for none.
        embedding_norm: normalise the embeddings, before dropout is applied to them.
        pooling: the input of the output layer: the state of the "first" token, or the "mean" or "max" of each feature
            over all tokens.
        pooler: the activation, "tanh" or "relu", of a linear layer between pooling and output layer; "none" for no such
            layer.
        token_dropout: probability p that a token's embedding is set to zero in training; the other embeddings are
            scaled by 1/(1-p).
        bos: whether each text begins with <bos>; the caller adds it.

    It also has the arguments that `ModelOptions` describes. Raises ValueError for an invalid value; see `fields`.
    """

    vocab_size: Count
    classes: Count
    d_model: Size = 512
    nhead: Size = 8
    layers: Depth = 2
    dim_feedforward: Size = 2048
    dropout: Fraction = 0.1
    activation: Activation = "relu"
    norm_first: bool = False
    positions: Positions = "sinusoidal"
    pattern: Pattern = "full"
    max_length: Length = 128
    pad_id: Whole = 0
    _: dataclasses.KW_ONLY
    scale_embedding: bool = True
    token_types: Whole = 0
    embedding_norm: bool = False
    pooling: Annotated[str, Choices(POOLINGS)] = "first"
    pooler: Annotated[str, Choices(tuple(POOLERS))] = "none"
    token_dropout: Fraction = 0.0
    bos: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pad_id >= self.vocab_size:
            raise ValueError(f"pad_id is {self.pad_id}, but it must be an id of the vocabulary")


class TransformerClassifier(nn.Module):
    """An encoder that classifies texts: ids (batch, length), padded at the end -> logits (batch, classes).

    The logits are computed from the encoder outputs that `pooling` selects. With "first" every text should begin with
    the same token (<bos>), because the output layer uses only the encoder output at this position. Source: Devlin et
    al. 2019, arXiv 1810.04805, section 3.1. Source of token dropout: Iyyer et al. 2015, "Deep unordered composition
    rivals syntactic methods for text classification", section 3.
    """

    def __init__(self, config: ClassifierConfig):
        self.config = c = config
        self.embedding = nn.Embedding(c.vocab_size, c.d_model, c.pad_id, scale_by_sqrt_dim=c.scale_embedding)
        self.positions, in_attention = nn.embedding_positions(
            c.positions, c.d_model, c.max_length, halves=c.sinusoid_halves
        )
        if c.token_types:
            self.token_types = nn.Embedding(c.token_types, c.d_model)
            nn.init.normal_(self.token_types.weight, 0.0, 0.02)
        if c.embedding_norm:
            self.embedding_norm = nn.make_norm(c.norm, c.d_model, c.norm_eps)
        self.dropout, self.token_dropout = nn.Dropout(c.dropout), nn.Dropout(c.token_dropout)
        layers, norm = c.layers_of(nn.TransformerEncoderLayer, c.layers, in_attention)
        self.encoder = nn.TransformerEncoder(layers, norm)
        if c.pooler != "none":
            self.pooler = nn.Linear(c.d_model, c.d_model)
        self.output = nn.Linear(c.d_model, c.classes)

    def forward(self, ids: Any, lengths: Any = None, token_types: Any = None) -> Tensor:
        """Return the logits of the classes, (batch, classes).

        `lengths` (batch,) are the numbers of tokens without padding; if None, they are computed from `ids`.

        `token_types` (batch, length) are the tokens' types; None means type 0 for all tokens. Raises ValueError if
        `ids` is longer than `max_length`, or for token types that the model does not have. Raises IndexError for an id
        outside the vocabulary.
        """
        if token_types is not None and not self.config.token_types:
            raise ValueError("this model has no token types: build it with token_types, or pass none")
        ids = integers("ids", ids)
        if lengths is None:
            lengths = (ids != self.config.pad_id).sum(axis=1)
        x = self.embedding(ids)
        if self.config.token_dropout:
            x = x * self.token_dropout(Tensor(array_module(x.data).ones((*x.shape[:2], 1), x.dtype)))
        x = self.positions(x)
        if self.config.token_types:
            x = x + self.token_types(np.zeros((1, 1), np.int64) if token_types is None else token_types)
        if self.config.embedding_norm:
            x = self.embedding_norm(x)
        pooled = self._pooled(self.encoder(self.dropout(x), lengths=lengths), lengths)
        if activation := POOLERS[self.config.pooler]:
            pooled = activation(self.pooler(pooled))
        return self.output(self.dropout(pooled))

    def _pooled(self, x: Tensor, lengths: Any) -> Tensor:
        """Pool (batch, length, d_model) to (batch, d_model), ignoring padding. For a text without tokens, the result is
        the state of its first padding token.
        """
        if self.config.pooling == "first":
            return x[:, 0]
        xp = array_module(x.data)
        lengths = xp.maximum(xp.asarray(lengths), 1)[:, None]
        there = (xp.arange(x.shape[1]) < lengths)[..., None]
        if self.config.pooling == "max":
            return ops.where(there, x, -xp.inf).max(axis=1)
        return ops.where(there, x, 0.0).sum(axis=1) / lengths.astype(x.dtype)
