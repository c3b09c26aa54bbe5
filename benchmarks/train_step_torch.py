"""The PyTorch side of `benchmarks.train_step`: the same models, with the parameter names of handloom's translators."""

import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from benchmarks.train_step_models import Arrays, Size, initial_weights
from benchmarks.train_step_products import gflops
from benchmarks.train_step_subjects import BETAS, CLIP_NORM, EPS, LEARNING_RATE, Side


class ScaledDotProductAttention(nn.MultiheadAttention):
    """Attention with the parameters of nn.MultiheadAttention and one call of scaled_dot_product_attention."""

    def forward(  # type: ignore[override]
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Any = None, is_causal: bool = False, **_: Any
    ) -> tuple[Tensor, None]:
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


#: Returns the mask that the layers need in addition to `is_causal`.
causal_mask = nn.Transformer.generate_square_subsequent_mask


class Model(nn.Module):
    """A PyTorch model that returns the mean cross-entropy in nats; if `lean`, with ScaledDotProductAttention."""

    def __init__(self, size: Size, *, lean: bool):
        super().__init__()
        self.size, self.causal = size, size.kind == "language model"  # unscaled embeddings, learned positions
        d = size.d_model
        options: dict[str, Any] = {"batch_first": True, "norm_first": size.norm_first, "activation": size.activation}
        sizes = (d, size.heads, size.dim_feedforward, size.dropout)
        norms = [nn.LayerNorm(d) if size.norm_first else None for _ in range(2)]
        self.positions = (nn.Parameter if self.causal else nn.Buffer)(torch.zeros(size.max_length, d))
        self.dropout = nn.Dropout(size.dropout)
        self.source_embedding = nn.Embedding(size.vocabulary, d, padding_idx=None if self.causal else 0)
        layer: nn.Module = nn.TransformerEncoderLayer(*sizes, **options)
        self.encoder = nn.TransformerEncoder(layer, size.layers, norms[0], enable_nested_tensor=False)
        if size.kind == "seq2seq":
            self.target_embedding = self.source_embedding if size.tied else nn.Embedding(size.vocabulary, d, 0)
            layer = nn.TransformerDecoderLayer(*sizes, **options)
            self.decoder = nn.TransformerDecoder(layer, size.layers, norms[1])
        self.output = nn.Linear(d, size.classes or size.vocabulary)
        if size.tied:
            self.output.weight = self.target_embedding.weight
        if lean:
            for module in self.modules():
                if isinstance(module, nn.MultiheadAttention):
                    module.__class__ = ScaledDotProductAttention

    def embed(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        x = table(ids) if self.causal else table(ids) * self.size.d_model**0.5
        return self.dropout(x + self.positions[: ids.shape[1]])

    def forward(
        self, source: Tensor, labels: Tensor, target_input: Tensor | None = None, source_lengths: Tensor | None = None
    ) -> Tensor:
        """Return the loss of ids (batch, length). If `source_lengths` is given, id 0 is padding."""
        padding = None if source_lengths is None else source == 0
        mask = causal_mask(source.shape[1]) if self.causal else None
        x = self.embed(self.source_embedding, source)
        x = self.encoder(x, mask=mask, src_key_padding_mask=padding, is_causal=self.causal)
        if target_input is not None:
            memory, x = x, self.embed(self.target_embedding, target_input)
            mask = causal_mask(target_input.shape[1])
            x = self.decoder(x, memory, tgt_mask=mask, memory_key_padding_mask=padding, tgt_is_causal=True)
        if self.size.kind == "classifier":
            x = self.dropout(x[:, 0])
        logits = self.output(x).flatten(0, -2)
        smoothing = self.size.label_smoothing if self.training else 0.0
        ignore = -100 if padding is None else 0
        return F.cross_entropy(logits, labels.flatten(), ignore_index=ignore, label_smoothing=smoothing)


class Torch(Side):
    """PyTorch with its fused Adam; with the name of a half precision in `half`, under autocast."""

    def __init__(self, *common: Any, lean: bool = True, compiled: bool = False, half: str | None = None):
        super().__init__(*common)
        torch.set_num_threads(torch.get_num_threads())  # otherwise MKL may use fewer
        torch.manual_seed(0)
        self.model = Model(self.size, lean=lean)
        self.model.load_state_dict({name: torch.from_numpy(x) for name, x in initial_weights(self.size).items()})
        self.model.to(self.device)
        self.forward: Any = torch.compile(self.model) if compiled else self.model
        self.half = half and getattr(torch, half)
        self.batches = itertools.cycle([self.tensors(batch) for batch in self.arrays])
        self.optimizer = torch.optim.Adam(self.model.parameters(), LEARNING_RATE, BETAS, EPS, fused=True)
        self.scaler = torch.amp.GradScaler(self.device, enabled=half == "float16")

    def tensors(self, batch: Arrays) -> dict[str, Tensor]:
        tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
        return {name: tensor.pin_memory() for name, tensor in tensors.items()} if self.device == "cuda" else tensors

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        batch = {name: tensor.to(self.device, non_blocking=True) for name, tensor in next(self.batches).items()}
        with torch.autocast(self.device, self.half, enabled=self.half is not None):
            loss = self.forward(**batch)
        self.scaler.scale(loss).backward()
        if self.clips:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), CLIP_NORM)
        self.optimizer.param_groups[0]["lr"] = next(self.rates)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.last = loss.detach()

    def wait(self) -> float:
        return self.last.item()

    def gradients(self, seed: int) -> Arrays:
        self.optimizer.zero_grad()
        loss = self.model(**self.tensors(self.batch(seed)))
        loss.backward()
        return {"loss": loss.detach().numpy(), **{name: p.grad.numpy() for name, p in self.model.named_parameters()}}

    def launches(self) -> None:
        """Return None: PyTorch's launches are not counted."""

    def device_memory(self) -> int:
        return torch.cuda.max_memory_reserved()

    def about(self) -> dict[str, Any]:
        def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
            torch.matmul(torch.from_numpy(a), torch.from_numpy(b), out=torch.from_numpy(out))

        kernels = torch.backends.cpu.get_cpu_capability()
        return {"torch": torch.__version__, "kernels": kernels, "gflops": gflops(multiply)}
