"""The PyTorch side of the training benchmarks: the same models and parameter names."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from benchmarks.train_step_models import Size


class ScaledDotProductAttention(nn.MultiheadAttention):
    """Attention with the parameters of nn.MultiheadAttention and one call of scaled_dot_product_attention."""

    def forward(  # type: ignore[override]
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None = None,
        is_causal: bool = False,
        **_: Any,
    ) -> tuple[torch.Tensor, None]:
        d = self.embed_dim
        if key is query:
            q, k, v = F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        else:
            q = F.linear(query, self.in_proj_weight[:d], self.in_proj_bias[:d])
            k, v = F.linear(key, self.in_proj_weight[d:], self.in_proj_bias[d:]).chunk(2, dim=-1)
        q, k, v = (x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for x in (q, k, v))
        mask = None if key_padding_mask is None else key_padding_mask[:, None, None]
        if mask is not None and mask.dtype == torch.bool:  # True is padding; the function needs True for visible keys
            mask = ~mask
        dropout = self.dropout if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=is_causal)
        return self.out_proj(out.transpose(1, 2).flatten(2)), None


class Model(nn.Module):
    """A PyTorch model that returns the mean cross-entropy in nats; if `lean`, with ScaledDotProductAttention."""

    def __init__(self, size: Size, *, lean: bool):
        super().__init__()
        self.size = size
        d = size.d_model
        options: dict[str, Any] = {"batch_first": True, "norm_first": size.norm_first, "activation": size.activation}
        sizes = (d, size.heads, size.dim_feedforward, size.dropout)

        def stack(kind: type[nn.Module]) -> nn.Module:
            found = nn.Module()
            found.layers = nn.ModuleList(kind(*sizes, **options) for _ in range(size.layers))
            found.norm = nn.LayerNorm(d) if size.norm_first else None
            return found

        positions = torch.zeros(size.max_length, d)
        if size.kind == "language model":
            self.positions = nn.Parameter(positions)
        else:
            self.register_buffer("positions", positions)
        self.dropout = nn.Dropout(size.dropout)
        self.source_embedding = nn.Embedding(size.vocabulary, d, padding_idx=None if self.causal else 0)
        self.encoder = stack(nn.TransformerEncoderLayer)
        if size.kind == "seq2seq":
            self.target_embedding = self.source_embedding if size.tied else nn.Embedding(size.vocabulary, d, 0)
            self.decoder = stack(nn.TransformerDecoderLayer)
        self.output = nn.Linear(d, size.classes or size.vocabulary)
        if size.tied:
            self.output.weight = self.target_embedding.weight
        if lean:
            for module in self.modules():
                if isinstance(module, nn.MultiheadAttention):
                    module.__class__ = ScaledDotProductAttention

    @property
    def causal(self) -> bool:
        """Whether the first stack is causal; then embeddings are not scaled, and positions are learned."""
        return self.size.kind == "language model"

    def embed(self, table: nn.Embedding, ids: torch.Tensor) -> torch.Tensor:
        x = table(ids) if self.causal else table(ids) * self.size.d_model**0.5
        return self.dropout(x + self.positions[: ids.shape[1]])

    def forward(
        self,
        source: torch.Tensor,
        labels: torch.Tensor,
        target_input: torch.Tensor | None = None,
        padding: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the loss of ids (batch, length). `padding` (batch, length) is True at padding of the source."""
        x = self.embed(self.source_embedding, source)
        mask = causal_mask(source) if self.causal else None
        for layer in self.encoder.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=padding, is_causal=self.causal)
        x = x if self.encoder.norm is None else self.encoder.norm(x)
        if target_input is not None:
            memory, x = x, self.embed(self.target_embedding, target_input)
            mask = causal_mask(target_input)
            for layer in self.decoder.layers:
                x = layer(x, memory, tgt_mask=mask, memory_key_padding_mask=padding, tgt_is_causal=True)
            x = x if self.decoder.norm is None else self.decoder.norm(x)
        if self.size.kind == "classifier":
            x = self.dropout(x[:, 0])
        logits = self.output(x).flatten(0, -2)
        smoothing = self.size.label_smoothing if self.training else 0.0
        ignore = 0 if padding is not None else -100
        return F.cross_entropy(logits, labels.flatten(), ignore_index=ignore, label_smoothing=smoothing)


def causal_mask(ids: torch.Tensor) -> torch.Tensor:
    """Return the mask that the layers need in addition to `is_causal`."""
    return nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
