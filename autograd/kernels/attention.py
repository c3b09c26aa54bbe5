"""Launches of the attention kernels: the choice of the kernel variant, the block sizes and the arguments.

The arrays can be views, such as the heads of a fused projection: batch, head and row strides are arguments. The last
axis must be contiguous. The kernels pad any head_dim up to 128 to the next multiple of 32.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..backend import address_of, array_module, compute_capability, import_cupy
from .loading import launch, load_module

MAX_HEAD_DIM = 128
MAX_HEADS = 65535  # and batch rows: an axis of the grid each
DTYPES = (np.dtype(np.float16), np.dtype(np.float32))
#: The lowest compute capability, times ten, with the instructions of ptx.cuh: asynchronous copies, 16 x 16 products.
MIN_CAPABILITY = 80
SMALL_SHARED_MEMORY = 99 * 1024  # bytes that a block of threads can have on RTX 30, 40, 50, L4
MASK_TILE = 32  # as in attention_pairs.cuh
_FAR = 1 << 30  # beyond any distance between positions


@dataclass(frozen=True)
class AttentionOptions:
    """The options of a kernel call; see `ops.attention`."""

    scale: float
    mask: Any = None  # four axes
    tiles: Any = None  # what `mask_tiles` found, to skip what the mask hides as a whole
    key_lengths: Any = None
    causal: bool = False
    window: int | None = None
    bias: Any = None  # four axes, the data's dtype
    slopes: Any = None
    dropout: float = 0.0
    seed: Any = None  # of dropout, (1,) uint64
    number: int = 0  # of the call with this seed

    @property
    def extras(self) -> bool:
        """True if the call uses a mask, bias, slopes, dropout or a scale that is not positive.
        If not, a smaller variant of the kernels runs.
        """
        return any(x is not None for x in (self.mask, self.bias, self.slopes)) or self.dropout > 0 or self.scale <= 0


class AttentionKernels:
    """The attention kernels as functions of arrays.

    Args:
        load: a function that compiles a file with constants and returns the module, such as
            `kernels.loading.load_module`.
        shared_limit: bytes of shared memory available to one block.
        capability: the GPU's compute capability, times ten.
    """

    def __init__(self, load: Callable[..., Any], shared_limit: int, capability: int = MIN_CAPABILITY):
        self._load, self.small, self.capability = load, shared_limit <= SMALL_SHARED_MEMORY, capability
        self._ready: dict[Any, Any] = {}

    def why_not_here(self) -> str | None:
        """Return the reason why this GPU can't run the kernels, or None."""
        if self.capability >= MIN_CAPABILITY:
            return None
        return (
            f"it needs a GPU of compute capability {MIN_CAPABILITY / 10} (A100, RTX 30 series) or later, and this "
            f"one has {self.capability / 10}"
        )

    def mask_tiles(self, query: Any, value: Any, options: AttentionOptions) -> Any:
        """Return an array: whether any element of each 32 x 32 tile of the mask is true; or None without a mask."""
        if options.mask is None:
            return None
        batch, heads, rows, columns = options.mask.shape
        shape = batch, heads, math.ceil(rows / MASK_TILE), math.ceil(columns / MASK_TILE)
        tiles = array_module(query).empty(shape, dtype=bool)
        if tiles.size:
            constants, _ = self._forward_variant(query, value, options)
            self._launch(
                ("attention_forward.cu", "attention_mask_tiles", constants),
                (math.ceil(tiles.size / constants["WARPS"]),),
                0,
                (options.mask, tiles, *_broadcast_strides(options.mask)),
                (*map(np.int32, (heads, rows, columns)), np.int64(tiles.size)),
            )
        return tiles

    def forward(self, query: Any, key: Any, value: Any, options: AttentionOptions) -> tuple[Any, Any]:
        """Return the output (batch, heads, query_length, value_dim), and for each query the two numbers with which the
        backward pass computes the weights again, (batch, heads, query_length, 2): see attention_forward.cu.
        """
        xp = array_module(query)
        batch, heads, queries, _ = query.shape
        # In memory (batch, query_length, heads, value_dim): merging the heads is then a view.
        out = xp.empty((batch, queries, heads, value.shape[3]), dtype=query.dtype).transpose(0, 2, 1, 3)
        totals = xp.empty((batch, heads, queries, 2), dtype=np.float32)
        query, key, value = map(_rows_contiguous, (query, key, value))
        if totals.size:
            constants, shared = self._forward_variant(query, value, options)
            per_block = 16 * constants["M_TILES"] * constants["WARPS"]
            self._launch(
                ("attention_forward.cu", "attention_forward", constants),
                (math.ceil(queries / per_block), heads, batch),
                shared,
                (query, key, value, out, totals, *_strides(query, key, value, out)),
                _aligned(query, key, value, out),
                _pair_arguments(query, key, value, options),
            )
        return out, totals

    def backward(
        self,
        query: Any,
        key: Any,
        value: Any,
        options: AttentionOptions,
        out: Any,
        totals: Any,
        g: Any,
        d_bias: Any = None,
        deterministic: bool = False,
        room: tuple[Any, Any, Any] | None = None,
    ) -> tuple[Any, Any, Any]:
        """Return the gradients of query, key and value.

        The gradient of the bias is added to `d_bias` (float32, four axes).

        If `deterministic` is true, a separate pass computes the sums of d_query in a fixed order. If `room` is given,
        the gradients are written into these three arrays. They have the operands' shapes and a contiguous last axis.
        """
        xp = array_module(query)
        query, key, value, g = map(_rows_contiguous, (query, key, value, g))
        batch, heads, queries, _ = query.shape
        keys, value_dim = value.shape[2:]
        d_query, d_key, d_value = room or tuple(xp.empty(x.shape, dtype=x.dtype) for x in (query, key, value))
        if not (batch and heads):
            return d_query, d_key, d_value
        delta = xp.empty((batch, heads, queries), dtype=np.float32)
        constants = backward_constants(*_asked(query, value, options), self.small)
        shared = backward_shared(constants)
        owned, block = 16 * constants["M_TILES"] * constants["WARPS"], constants["BLOCK"]
        tiles = math.ceil(queries / block)
        sums = None if deterministic else xp.zeros((batch, heads, tiles, block * constants["D"]), np.float32)
        if queries:
            self._launch(
                ("attention_backward.cu", "attention_delta", constants),
                (math.ceil(delta.size / constants["WARPS"]),),
                0,
                (g, out, delta, *_strides(g, out), *map(np.int32, (heads, queries, value_dim)), np.int64(delta.size)),
            )
        pair_arguments = _pair_arguments(query, key, value, options)
        if keys:
            self._launch(
                ("attention_backward.cu", "attention_backward_keys", constants),
                (math.ceil(keys / owned), heads, batch),
                shared,
                (query, key, value, g, totals, delta, d_key, d_value, sums, d_bias),
                (*_strides(query, key, value, g, d_key, d_value), *_broadcast_strides(d_bias)),
                _aligned(query, key, value, g, d_key, d_value),
                pair_arguments,
            )
        if queries and deterministic:
            self._launch(
                ("attention_backward.cu", "attention_backward_queries", constants),
                (math.ceil(queries / owned), heads, batch),
                shared,
                (query, key, value, g, totals, delta, d_query, *_strides(query, key, value, g, d_query)),
                _aligned(query, key, value, g, d_query),
                pair_arguments,
            )
        elif queries:
            self._launch(
                ("attention_backward.cu", "attention_query_gradient", constants),
                (tiles, heads, batch),
                block * constants["D"] * query.dtype.itemsize,
                (sums, d_query, *_strides(d_query), *_aligned(d_query)),
                (*map(np.int32, (queries, query.shape[3])), np.float32(options.scale)),
            )
        return d_query, d_key, d_value

    def _forward_variant(self, query: Any, value: Any, options: AttentionOptions) -> tuple[dict[str, int], int]:
        """Return the constants of the forward kernel, and the number of bytes of shared memory that it needs."""
        constants = forward_constants(*_asked(query, value, options), self.small)
        return constants, forward_shared(constants)

    def _launch(self, which: tuple[str, str, Any], grid: tuple[int, ...], shared: int, *arguments: Any) -> None:
        file, name, constants = which
        key = (file, name, *constants.values())
        if key not in self._ready:
            kernel = self._load(file, **constants).get_function(name)
            if shared > 48 * 1024:
                kernel.max_dynamic_shared_size_bytes = shared
            self._ready[key] = kernel
        flat = tuple(argument for group in arguments for argument in group)
        launch(self._ready[key], grid, (32 * constants["WARPS"],), flat, shared)


def device_kernels(device: int) -> AttentionKernels:
    """Return the attention kernels for a GPU. Raises DeviceError if CuPy or a GPU is missing."""
    return _device_kernels(import_cupy(), device)


@cache
def _device_kernels(cupy: Any, device: int) -> AttentionKernels:
    shared_limit = cupy.cuda.Device(device).attributes["MaxSharedMemoryPerBlockOptin"]
    return AttentionKernels(load_module, shared_limit, compute_capability(cupy, device))


def forward_constants(half: int, padded: int, extras: int, small: bool = False) -> dict[str, int]:
    """Return the constants of attention_forward.cu: block sizes for which the registers suffice without spilling.

    `small` is for GPUs with 99 KiB of shared memory per block (RTX 30, 40, 50, L4). With these constants a
    multiprocessor can run two blocks at once if it has enough registers: 232 per thread in float16 with D = 128.
    """
    if not half:
        tiles, warps, block = 2 if padded <= 64 else 1, 4, 32
    elif extras and padded > 64:
        tiles, warps, block = 1, 8, 64
    elif small and padded == 128:
        tiles, warps, block = 2, 4, 32
    else:
        tiles, warps, block = 2, 4, 64 if extras or padded > 64 else 128
    return {"HALF": half, "D": padded, "EXTRAS": extras, "M_TILES": tiles, "WARPS": warps, "BLOCK_K": block}


def backward_constants(half: int, padded: int, extras: int, small: bool = False) -> dict[str, int]:
    """Return the constants of attention_backward.cu: the fastest, or, if `small`, constants for at most 99 KiB."""
    if not half:
        block = (1, 2, 16, 1) if small and padded > 64 else (1, 4, 32 if padded <= 96 else 16, 1)
    elif padded <= 64:
        block = (1 if small else 2, 4, 32, 1)
    elif padded == 96:
        block = (1, 4, 32, 1) if extras or small else (1, 8, 64, 1)
    else:
        block = (1, 4, 32, 2) if small else (1, 8, 64, 2)
    asked = {"HALF": half, "D": padded, "EXTRAS": extras}
    return {**asked, **dict(zip(("M_TILES", "WARPS", "BLOCK", "TEAM"), block, strict=True))}


def forward_shared(constants: dict[str, int]) -> int:
    """Return the number of bytes of shared memory for attention_forward.cu (tiles of Q, K and V, and P in float32)."""
    owned, block, half = 16 * constants["M_TILES"] * constants["WARPS"], constants["BLOCK_K"], constants["HALF"]
    return ((owned + 2 * block) * constants["D"] + (0 if half else owned * block)) * (2 if half else 4)


def backward_shared(constants: dict[str, int]) -> int:
    """Return the bytes of shared memory for attention_backward.cu (four kinds of tiles, dS, P, L, delta, offset)."""
    owned, block = 16 * constants["M_TILES"] * constants["WARPS"], constants["BLOCK"]
    size = 2 if constants["HALF"] else 4
    pairs = owned * block * (1 if constants["TEAM"] == 1 else 2)
    return ((2 * owned + 4 * block) * constants["D"] + pairs) * size + 2 * block * 12


def _asked(query: Any, value: Any, options: AttentionOptions) -> tuple[int, int, int]:
    """Return the kernel constants HALF, D and EXTRAS for a call."""
    padded = max(32, 32 * math.ceil(max(query.shape[3], value.shape[3]) / 32))
    return int(query.dtype == np.float16), padded, int(options.extras)


def _pair_arguments(query: Any, key: Any, value: Any, options: AttentionOptions) -> tuple[Any, ...]:
    """Return the arguments for PAIR_PARAMETERS of attention_pairs.cuh."""
    _, heads, queries, head_dim = query.shape
    keys, value_dim = value.shape[2:]
    nearest = max(0 if options.causal else -_FAR, -_FAR if options.window is None else -options.window)
    farthest = _FAR if options.window is None else min(options.window, _FAR)
    threshold = min(round(options.dropout * 2**32), 2**32 - 1)
    factor = 1 / (1 - threshold / 2**32) if options.dropout < 1 else 0.0
    return (
        *map(np.int32, (heads, queries, keys, keys - queries, head_dim, value_dim)),
        np.float32(options.scale),
        *map(np.int32, (nearest, farthest)),
        options.key_lengths,
        options.mask,
        *_broadcast_strides(options.mask),
        options.tiles,
        *_broadcast_strides(options.tiles),
        options.bias,
        *_broadcast_strides(options.bias),
        options.slopes,
        np.uint32(threshold),
        np.float32(factor),
        options.seed,
        np.uint32(options.number),
    )


def _rows_contiguous(x: Any) -> Any:
    return x if x.shape[-1] <= 1 or x.strides[-1] == x.itemsize else array_module(x).ascontiguousarray(x)


def _strides(*arrays: Any) -> tuple[np.int64, ...]:
    """Return the strides of batch rows, heads and rows, in elements."""
    return tuple(np.int64(stride // x.itemsize) for x in arrays for stride in x.strides[:3])


def _broadcast_strides(x: Any) -> tuple[np.int64, ...]:
    """Return the strides of batch rows, heads, queries and keys, in elements; 0 for an axis of length 1."""
    if x is None:
        return (np.int64(0),) * 4
    return tuple(
        np.int64(0 if side == 1 else stride // x.itemsize) for side, stride in zip(x.shape, x.strides, strict=True)
    )


def _aligned(*arrays: Any) -> tuple[np.int32]:
    """Return 1 if all rows start and end at multiples of 16 bytes, so that 16 bytes can be copied at a time, else 0."""
    counts = (n for x in arrays for n in (address_of(x), *x.strides[:3], x.shape[3] * x.itemsize))
    return (np.int32(all(n % 16 == 0 for n in counts)),)
