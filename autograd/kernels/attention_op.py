"""Attention by the fused CUDA kernels of `autograd/kernels`: the blocked algorithm in one pass over the keys.

The kernels replace `attention_plain` of attention.py on a GPU. They never write scores to memory, only the output and
two numbers for each query. If the kernels don't support a call (float64, a head_dim beyond 128, a GPU of compute
capability below 8.0), the blocked or the standard method computes attention.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ..backend import array_module, to_device
from ..ops.attention import attention_plain, with_four_axes
from ..ops.attention_blocked import BlockedAttention
from ..ops.heads import empty_like_heads
from ..ops.registry import QuickImplementation, implements
from ..sums import unbroadcast
from .attention import DTYPES, MAX_HEAD_DIM, MAX_HEADS, AttentionOptions, device_kernels
from .philox import philox4x32_10

#: This bit marks the call numbers of attention, so that attention and other dropouts draw different random words.
_ATTENTION = 1 << 31


def why_not_fused(query: Any, key: Any, value: Any) -> str | None:
    """Return the reason why the kernels don't support these arrays, or None."""
    if not query.dtype == key.dtype == value.dtype or query.dtype not in DTYPES:
        return f"it takes float16 or float32, all of one kind, not {query.dtype}, {key.dtype} and {value.dtype}"
    if max(query.shape[3], value.shape[3]) > MAX_HEAD_DIM:
        return f"it takes a head_dim up to {MAX_HEAD_DIM}, not {query.shape[3]} and {value.shape[3]}"
    if max(query.shape[:2]) > MAX_HEADS:
        return f"it takes up to {MAX_HEADS} batch rows and heads, not {query.shape[0]} and {query.shape[1]}"
    if isinstance(query, np.ndarray):
        return "it needs tensors on a GPU, and these are on the CPU: move them with .to('cuda')"
    return device_kernels(query.device.id).why_not_here()


def kernels_can(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """Condition: the arrays are on a GPU, and the call does not request another method than "fused"."""
    if options["method"] not in ("auto", "fused"):
        return f"method {options['method']!r} was requested"
    query, key, value = arrays[:3]
    if options["method"] == "auto" and isinstance(query, np.ndarray):
        return "the arrays are on the CPU"
    refused = why_not_fused(query, key, value)
    if refused is None and options["method"] == "auto" and options["return_weights"] is True:
        refused = "it gives the weights without a gradient"
    return refused


@implements(attention_plain, "fused", kernels_can)
class FusedAttention(BlockedAttention):
    """One call of attention by the kernels. Requested weights and second derivatives are computed by the blocked
    method.

    If `deterministic` is true, the gradient of the queries is summed in a fixed order. If not, blocks of keys add to
    the gradient in a varying order, and the last digits can differ from run to run.
    """

    def __init__(self, **options):
        QuickImplementation.__init__(self, **options)

    def forward(self, query, key, value, bias=None):
        self.save(query, key, value, *(() if bias is None else (bias,)))
        self.lengths = query.shape[2], key.shape[2]
        self.wide = np.dtype(np.float32)
        seed, number = self.generator.next_call(query) if self.dropout else (None, 0)
        self.random = seed, number | _ATTENTION
        kernels, call = device_kernels(query.device.id), self.call(query, bias)
        call = replace(call, tiles=kernels.mask_tiles(query, value, call))
        out, totals = kernels.forward(query, key, value, call)
        self.keep(out, totals, call.tiles)
        return out

    def backward(self, g):
        query, key, value, *others = self.saved
        out, totals, tiles = self.kept
        bias = others[0] if others else None
        call, d_bias = replace(self.call(query, bias), tiles=tiles), None
        if call.bias is not None and self.needs[3]:
            # With a fixed order, several pairs can't add to one number, so each pair first gets its own element.
            shape = (*query.shape[:2], *self.lengths) if self.deterministic else call.bias.shape
            d_bias = array_module(g).zeros(shape, dtype=self.wide)
        found = device_kernels(query.device.id).backward(
            query, key, value, call, out, totals, g, d_bias, deterministic=self.deterministic,
            room=empty_like_heads(array_module(g), query, key, value, query.dtype),
        )  # fmt: skip
        if bias is None:
            return found
        return *found, None if d_bias is None else unbroadcast(d_bias, bias.shape).astype(bias.dtype)

    def call(self, query: Any, bias: Any) -> AttentionOptions:
        """Return the options of a kernel call."""
        mask_spec, xp = self.mask_spec, array_module(query)
        full = (*query.shape[:2], *self.lengths)
        lengths, slopes = mask_spec.key_lengths, mask_spec.slopes
        return AttentionOptions(
            scale=self.scale,
            mask=mask_spec.mask,
            key_lengths=None if lengths is None else xp.ascontiguousarray(lengths, dtype=np.int32),
            causal=mask_spec.causal,
            window=mask_spec.window,
            bias=None if bias is None else with_four_axes("bias", bias.astype(query.dtype, copy=False), full),
            slopes=None if slopes is None else xp.ascontiguousarray(slopes, dtype=np.float32),
            dropout=self.dropout,
            seed=self.random[0],
            number=self.random[1],
        )

    def keep_whole(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return the factors of dropout that the kernels draw (`dropout_words` in attention_pairs.cuh)."""
        batch, heads, queries, keys = shape
        head, i, j = np.ogrid[: batch * heads, :queries, :keys]
        counter = np.zeros((batch * heads, queries, keys, 4), dtype=np.uint32)
        counter[..., 0], counter[..., 1], counter[..., 2] = j // 16 * 8 + j % 8, i // 16 * 8 + i % 8, head
        counter[..., 3], seed = self.random[1], int(to_device(self.random[0], "cpu")[0])
        words = philox4x32_10(counter, np.array([seed & 0xFFFFFFFF, seed >> 32], dtype=np.uint32))
        lane = (i // 8 % 2 * 2 + j // 8 % 2)[..., None] + np.zeros((batch * heads, 1, 1, 1), dtype=np.int64)
        word = np.take_along_axis(words, lane, axis=-1).reshape(shape)
        threshold = min(round(self.dropout * 2**32), 2**32 - 1)
        factor = 1 / (1 - threshold / 2**32) if self.dropout < 1 else 0.0
        return ((word >= threshold) * factor).astype(dtype)
