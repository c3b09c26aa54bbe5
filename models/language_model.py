"""The decoder-only Transformer: a language model."""

import dataclasses
from typing import Any

import numpy as np

from .. import nn
from ..autograd import Tensor, no_grad
from ..autograd.backend import array_module, constant
from ..autograd.ops.indexing import integers
from .fields import Activation, Count, Depth, Fraction, Length, Pattern, Positions, Size
from .generation.cached import CachedState
from .generation.decoding import Uncached, last_logits
from .generation.raw_layers import RawDecoder, cacheable
from .options import ModelOptions


@dataclasses.dataclass(frozen=True)
class LanguageModelConfig(ModelOptions):
    """The configuration of a LanguageModel.

    Args:
        vocab_size: number of token ids.
        d_model, nhead, layers, dim_feedforward, dropout: sizes of the layers.
        head_dim: number of features per attention head; None means d_model / nhead.
        norm_first: use pre-norm, with a norm after the last layer, instead of post-norm.
        max_length: context length in tokens, with sinusoidal or learned positions; other positions have no limit.
        tie_output: whether embedding and output layer share one matrix.
        output_bias: whether the output layer has a bias; None means a bias unless `tie_output` is true.

    It also has the arguments that `ModelOptions` describes. Raises ValueError for an invalid value; see `fields`.
    """

    vocab_size: Count
    d_model: Size = 368
    nhead: Size = 8
    head_dim: Size | None = None
    layers: Depth = 5
    dim_feedforward: Size = 1472
    dropout: Fraction = 0.2
    activation: Activation = "gelu"
    norm_first: bool = True
    positions: Positions = "learned"
    pattern: Pattern = "full"
    max_length: Length = 128
    tie_output: bool = False
    output_bias: bool | None = dataclasses.field(default=None, kw_only=True)


class LanguageModel(nn.Module):
    """A decoder-only Transformer: ids (batch, length) -> logits (batch, length, vocab_size) of the next tokens.

    Matrices and embeddings are initialised from a normal distribution with standard deviation 0.02, or 0.02 / sqrt(2
    layers) for the last matrix of each sublayer. Biases are initialised to zero. Source: Radford et al. 2019, "Language
    models are unsupervised multitask learners", section 2.3.
    """

    def __init__(self, config: LanguageModelConfig):
        self.config = c = config
        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        self.positions, in_attention = nn.embedding_positions(
            c.positions, c.d_model, c.max_length, halves=c.sinusoid_halves
        )
        self.dropout = nn.Dropout(c.dropout)
        layers, norm = c.layers_of(nn.TransformerEncoderLayer, c.layers, in_attention, head_dim=c.head_dim)
        self.decoder = nn.TransformerEncoder(layers, norm)
        bias = not c.tie_output if c.output_bias is None else c.output_bias
        self.output = nn.Linear(c.d_model, c.vocab_size, bias=bias)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.ndim > 1 and "position_scores" not in name:
                into_stream = name.endswith(("out_proj.weight", "linear2.weight"))
                nn.init.normal_(parameter, 0.0, 0.02 / (2 * c.layers) ** 0.5 if into_stream else 0.02)
        if c.tie_output:
            self.output.weight = self.embedding.weight

    def forward(self, ids: Any, padding: Any = None) -> Tensor:
        """Return the logits of the token after each of `ids` (batch, length).

        The first `padding` (batch,) tokens of each row are padding. No other token attends to padding, and the first
        token after it has position 0. The logits at padding are undefined. Raises ValueError if there are more than
        `max_length` positions, IndexError for an id outside the vocabulary.
        """
        return self.output(self.hidden(ids, padding))

    def hidden(self, ids: Any, padding: Any = None) -> Tensor:
        """Return the input of the output layer, (batch, length, d_model)."""
        offset, mask = 0, None
        if padding is not None:
            padding = integers("padding", padding).astype(np.int64)  # unsigned ones have no negative
            real = np.arange(np.shape(ids)[1]) >= padding[:, None]
            offset, mask = -padding, constant(array_module(next(self.parameters()).data), real[:, None, None])
        return self.decoder(self.dropout(self.positions(self.embedding(ids), offset)), mask=mask, causal=True)

    def raw_decoder(self, packed: bool = True) -> RawDecoder | None:
        """Return the decoder for `start`, or None if its layers can't be cached (see `cacheable`).
        Its weights are copied into the memory layout that is fastest for generation, unless `packed` is false.
        """
        if not cacheable(self):
            return None
        return RawDecoder(self._embed, self.decoder.layers, self.decoder.norm, self.output, packed)

    def start(self, rows: int = 1, *, decoder: RawDecoder | None = None) -> CachedState | Uncached:
        """Return a DecodingState for generating `rows` sequences; see `models.generation`. A `decoder` from
        `raw_decoder` saves time if the model is used repeatedly. nn.Dropout is not applied, even in training mode. If
        the model has layers that can't be cached, each step calls it with all tokens so far, as it is.
        """
        decoder = decoder or self.raw_decoder(packed=False)
        limited = self.config.positions in ("sinusoidal", "learned")
        positions = self.config.max_length if limited else None
        if decoder is None:
            return Uncached(lambda ids, _: last_logits(self(ids)), rows, positions=positions)
        return CachedState(decoder, rows, positions=positions)

    def _embed(self, ids: np.ndarray, offset: int) -> Any:
        with no_grad():
            return self.positions(self.embedding(ids), offset).data
