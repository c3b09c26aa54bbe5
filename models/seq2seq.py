"""The encoder-decoder Transformer for translation, summaries and paraphrases."""

import copy
import dataclasses
from typing import Any

import numpy as np

from .. import nn
from ..autograd import Tensor, no_grad, ops
from ..autograd.backend import array_module, is_array, to_device
from ..autograd.ops.indexing import integers
from ..nn.linear import cross_entropy_of
from ..nn.module import replaced_methods
from .copying import copied_shares, copy_logits, coverage_loss
from .fields import Activation, Count, Depth, Fraction, Length, Pattern, Positions, Size, Whole
from .generation.cached import CachedState
from .generation.decoding import Uncached, last_logits
from .generation.raw_layers import RawDecoder, cacheable
from .options import ModelOptions
from .own_layers import own_layers


@dataclasses.dataclass(frozen=True)
class Seq2SeqConfig(ModelOptions):
    """The configuration of a Seq2SeqTransformer.

    Args:
        source_vocab_size, target_vocab_size: number of source token ids, and number of target token ids.
        d_model, nhead, encoder_layers, decoder_layers, dim_feedforward, dropout: sizes of the layers.
        norm_first: use pre-norm, with a norm after the last layer of encoder and decoder, instead of post-norm.
        max_length: maximum number of tokens of a source or target, with sinusoidal or learned positions.
        pad_id: id of the padding token.
        share_embeddings: whether source and target share one embedding; the vocabularies must be equal.
        tie_output: whether the output layer shares the target embedding's matrix.
        scale_embedding: multiply embeddings by sqrt(d_model).
        decoder_nhead, decoder_dim_feedforward: sizes of the decoder; None means the encoder's size.
        copy: whether tokens can be copied from the source (see `copying`); the vocabularies must be equal.
        uncopied_id: id of a token that is never copied, such as <eos>.
        title_case: whether the model expects sources in Title Case; the caller must convert them.
        lowercase: whether the model expects and generates lower case; the caller must convert the texts.

    It also has the arguments that `ModelOptions` describes. Raises ValueError for an invalid value; see `fields`.
    """

    source_vocab_size: Count
    target_vocab_size: Count
    d_model: Size = 512
    nhead: Size = 8
    encoder_layers: Depth = 6
    decoder_layers: Depth = 6
    dim_feedforward: Size = 2048
    dropout: Fraction = 0.1
    activation: Activation = "relu"
    norm_first: bool = False
    max_length: Length = 256
    pad_id: Whole = 0
    share_embeddings: bool = False
    tie_output: bool = False
    positions: Positions = "sinusoidal"
    pattern: Pattern = "full"
    _: dataclasses.KW_ONLY
    scale_embedding: bool = True
    decoder_nhead: Size | None = None
    decoder_dim_feedforward: Size | None = None
    copy: bool = False
    uncopied_id: Whole | None = None
    title_case: bool = False
    lowercase: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pad_id >= min(self.source_vocab_size, self.target_vocab_size):
            raise ValueError(f"pad_id is {self.pad_id}, but it must be an id of both vocabularies")
        for option in ("share_embeddings", "copy"):
            if getattr(self, option) and self.source_vocab_size != self.target_vocab_size:
                raise ValueError(
                    f"{option} needs equal vocabularies, not {self.source_vocab_size} and {self.target_vocab_size} ids"
                )


class Seq2SeqTransformer(nn.Module):
    """An encoder-decoder Transformer: ids of a source sentence and a target -> logits of each next target token.

    Embeddings are scaled by sqrt(d_model), and positions are added to them. Matrices are initialised by Xavier uniform,
    and embeddings from a normal distribution with standard deviation 1/sqrt(d_model). Source: Vaswani et al. 2017,
    arXiv 1706.03762; for shared embeddings, Press and Wolf 2017, arXiv 1608.05859.
    """

    def __init__(self, config: Seq2SeqConfig):
        self.config = c = config
        table: dict[str, Any] = {"padding_idx": c.pad_id, "scale_by_sqrt_dim": c.scale_embedding}
        self.source_embedding = nn.Embedding(c.source_vocab_size, c.d_model, **table)
        self.target_embedding = self.source_embedding
        if not c.share_embeddings:
            self.target_embedding = nn.Embedding(c.target_vocab_size, c.d_model, **table)
        self.positions, in_attention = nn.embedding_positions(
            c.positions, c.d_model, c.max_length, halves=c.sinusoid_halves
        )
        self.dropout = nn.Dropout(c.dropout)
        self.encoder = nn.TransformerEncoder(*c.layers_of(nn.TransformerEncoderLayer, c.encoder_layers, in_attention))
        feed_forward = c.decoder_dim_feedforward or c.dim_feedforward
        sizes = {"nhead": c.decoder_nhead or c.nhead, "dim_feedforward": feed_forward}
        self.decoder = nn.TransformerDecoder(
            *c.layers_of(nn.TransformerDecoderLayer, c.decoder_layers, in_attention, **sizes)
        )
        for stack in (self.encoder, self.decoder):
            for name, parameter in stack.named_parameters():
                if parameter.ndim > 1 and "position_scores" not in name:
                    nn.init.xavier_uniform_(parameter)
        self.output = nn.Linear(c.d_model, c.target_vocab_size)
        nn.init.zeros_(self.output.bias)  # type: ignore[arg-type]
        if c.tie_output:
            self.output.weight = self.target_embedding.weight
        else:
            nn.init.xavier_uniform_(self.output.weight)
        if c.copy:
            self.copy_gate = nn.Linear(c.d_model, 1)
            nn.init.zeros_(self.copy_gate.bias)  # type: ignore[arg-type]
            # The other methods of attention give weights without a gradient.
            self.decoder.layers[-1].multihead_attn.method = "standard"

    def add_encoder_layers(self, number: int) -> None:
        """Add layers at the end of the encoder without a change of the model's output, which training then improves.

        A new layer is a copy of the last one in which the last matrix of each sublayer is zero, so the sublayers add
        zero to their input. Source: "Net2Net", Chen et al. 2016, arXiv 1511.05641. Raises ValueError for a post-norm
        model, whose layers also normalise their input.
        """
        if number and not self.config.norm_first:
            raise ValueError("only a model with norm_first=True can get new layers")
        layers = list(self.encoder.layers)
        for _ in range(number):
            layer = copy.deepcopy(layers[-1])
            for linear in (layer.self_attn.out_proj, layer.linear2):
                for parameter in linear.parameters():
                    nn.init.zeros_(parameter)
            layers.append(layer)
        self.encoder.layers = nn.ModuleList(layers)
        self.config = dataclasses.replace(self.config, encoder_layers=len(layers))

    def forward(self, source: Any, target: Any, source_lengths: Any = None) -> Tensor:
        """Return the logits (batch, target_length, target_vocab_size) of the token after each target position.

        Args:
            source: (batch, source_length) ids, padded at the end.
            target: (batch, target_length) ids: <bos> and the target without its last token.
            source_lengths: (batch,) source lengths without padding; if None, they are computed from `source`.

        Raises ValueError if a sequence is longer than `max_length`, IndexError for an id outside the vocabulary.
        """
        memory, source_lengths = self.encode(source, source_lengths)
        return self.decode(target, memory, source_lengths, source=source)

    def encode(self, source: Any, source_lengths: Any = None) -> tuple[Tensor, Any]:
        """Return the encoder output (batch, source_length, d_model) and the source lengths (batch,) without padding."""
        source = integers("source ids", source)
        if source_lengths is None:
            source_lengths = (source != self.config.pad_id).sum(axis=1)
        x = self.dropout(self.positions(self.source_embedding(source)))
        return self.encoder(x, lengths=source_lengths), source_lengths

    def decode(self, target: Any, memory: Tensor, memory_lengths: Any, *, source: Any = None) -> Tensor:
        """Return the logits for `target` (batch, length) given the encoder output `memory`.

        `memory` is (batch, source_length, d_model). A copying model raises ValueError without `source` (batch,
        source_length).
        """
        if not self.config.copy:
            return self.output(self._decoded(target, memory, memory_lengths))
        if source is None:
            raise ValueError("decode: this copying model needs the argument source, the ids of the source")
        logits, gate, weights = self._to_mix(target, memory, memory_lengths)
        return copy_logits(logits, gate, weights, source, self.config.uncopied_id)

    def _to_mix(self, target: Any, memory: Tensor, memory_lengths: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return the three inputs of `copy_logits`: vocabulary logits, copy gate and attention averaged over heads."""
        last: list[Tensor] = []
        x = self._decoded(target, memory, memory_lengths, last)
        return self.output(x), self.copy_gate(x), last[0].mean(axis=1)

    def _decoded(self, target: Any, memory: Tensor, memory_lengths: Any, last_weights: Any = None) -> Tensor:
        x = self.dropout(self.positions(self.target_embedding(target)))
        return self.decoder(x, memory, memory_lengths=memory_lengths, last_weights=last_weights)

    def loss(
        self,
        source: Any,
        target: Any,
        labels: Any,
        source_lengths: Any = None,
        *,
        label_smoothing: float = 0.0,
        class_weight: Any = None,
        coverage: float = 0.0,
    ) -> Tensor:
        """Return the mean cross-entropy, in nats, of `labels` (batch, target_length) without padding.

        The other arguments are the same as in `forward`.

        The result equals `ops.cross_entropy` of the logits, but, except in a copying model, the logits are computed in
        parts to save memory. In a copying model, `coverage` times the `copying.coverage_loss` is added. In other
        models, `coverage` above 0 raises ValueError.
        """
        pad_id = self.config.pad_id
        options: dict[str, Any] = {"ignore_index": pad_id, "label_smoothing": label_smoothing}
        if replaced_methods(self) & {"forward", "decode"}:
            if coverage:
                raise ValueError(f"loss: coverage needs the forward of Seq2SeqTransformer, not {type(self).__name__}'s")
            return ops.cross_entropy(self(source, target, source_lengths), labels, weight=class_weight, **options)
        xp = array_module(next(self.parameters()).data)
        if xp is not np:  # one transfer for all layers
            lengths = (source != pad_id).sum(axis=1) if source_lengths is None else source_lengths
            source_lengths = xp.asarray(lengths, dtype=np.int32)
        memory, source_lengths = self.encode(source, source_lengths)
        if not self.config.copy:
            if coverage:
                raise ValueError("loss: coverage needs a copying model; build the model with copy=True")
            x = self._decoded(target, memory, source_lengths)
            return cross_entropy_of(self.output, x, labels, class_weight=class_weight, **options)
        logits, gate, weights = self._to_mix(target, memory, source_lengths)
        mixed = copy_logits(logits, gate, weights, source, self.config.uncopied_id)
        value = ops.cross_entropy(mixed, labels, weight=class_weight, **options)
        return value + coverage * coverage_loss(weights, integers("labels", labels) != pad_id) if coverage else value

    def copied(self, source: Any, target: Any, written: Any) -> Any:
        """Return the probability that each token of `written` (batch, target_length) was copied from each source token.
        `source` and `target` are the arguments with which `forward` predicts `written`; see `copying.copied_shares`.
        """
        if changed := own_layers(self):
            raise ValueError(f"the copy probabilities are not known: {changed[0]} is not handloom's")
        with no_grad():
            logits, gate, weights = self._to_mix(target, *self.encode(source))
            return copied_shares(logits, gate, weights, source, written, self.config.uncopied_id)

    def raw_decoder(self, packed: bool = True) -> RawDecoder | None:
        """Return the decoder for `start`, or None if its layers can't be cached (see `cacheable`).
        Its weights are copied into the memory layout that is fastest for generation, unless `packed` is false.
        """
        cached = ("position_wise",) if self.config.copy else ("position_wise", "cached_step")
        if not cacheable(self, ("encoder", "source_embedding", "encode"), cached):  # `start` calls the encoder
            return None
        copying = (self.copy_gate, self.config.uncopied_id) if self.config.copy else None
        return RawDecoder(self._embed_target, self.decoder.layers, self.decoder.norm, self.output, packed, copying)

    def start(
        self,
        source: Any,
        source_lengths: Any = None,
        *,
        keep_attention: bool = False,
        decoder: RawDecoder | None = None,
    ) -> CachedState | Uncached:
        """Encode `source` (batch, source_length) and return the DecodingState for generating targets.

        Args:
            source_lengths: as in `forward`.
            keep_attention: whether the state stores each step's attention weights.
            decoder: a result of `raw_decoder`, to save time if the model is used repeatedly.

        The decoder never applies dropout; the encoder applies it in training mode. If the decoder has layers that can't
        be cached, each step calls the model with all tokens so far, as it is: with dropout in training mode.
        """
        decoder = decoder or self.raw_decoder(packed=False)
        with no_grad():
            memory, lengths = self.encode(source, source_lengths)
        lengths = to_device(lengths, "cpu") if is_array(lengths) else np.asarray(lengths)
        longest: dict[str, Any] = {"positions": self.config.max_length}
        longest["suggested_lengths"] = 2 * lengths.astype(np.int64) + 10
        if decoder is None:
            if keep_attention:
                raise ValueError("start: this decoder has layers of its own, so its attention can't be kept")
            source = np.asarray(source)
            return Uncached(lambda ids, i: last_logits(self(source[i], ids, lengths[i])), len(lengths), **longest)
        return CachedState(
            decoder,
            len(lengths),
            **longest,
            memory=memory.data,
            memory_lengths=lengths,
            source=source if self.config.copy else None,
            keep_attention=keep_attention,
        )

    def _embed_target(self, ids: np.ndarray, offset: int) -> Any:
        with no_grad():
            return self.positions(self.target_embedding(ids), offset).data
