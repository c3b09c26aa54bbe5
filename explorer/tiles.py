"""The view "Attention three ways": one attention call by each method, and the blocked method block by block."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd import default_generator, no_grad, ops
from ..autograd.backend import DeviceError, check_device, to_device
from ..autograd.ops.attention import MaskSpec, attention_plain
from ..autograd.ops.attention_blocked import BLOCKS_FROM, BlockedAttention, can_skip
from ..autograd.ops.registry import unsupported_reason
from ..autograd.quick import slices
from .asking import Ask
from .attention import chosen_layer, place
from .packing import packed
from .recording import record
from .subject import Subject

SMALLEST, LARGEST = 2, 32  # of a block


def tiles(subject: Subject, ask: Ask) -> dict[str, Any]:
    """Return each method's error against float64 and memory for one head, and a query's m, l, o after each block."""
    seen = subject.watched(ask.text(), ask.heads_off())
    layer = chosen_layer(seen, ask)
    heads, queries, keys = layer.weights.shape
    head, query = ask.whole("head", 0, heads - 1), ask.whole("query", 0, queries - 1)
    size = ask.whole("block", SMALLEST, LARGEST, 4)
    arrays = [x[:, head : head + 1] for x in (layer.call.query, layer.call.key, layer.call.value)]
    added = layer.added()[head][None, None]
    bias = np.where(np.isfinite(added), added, 0).astype(np.float32)  # of positions, on the scores
    causal = bool(layer.call.settings["causal"])
    future = ~past(queries, keys) if causal else False
    mask = np.isfinite(added) | future  # the mask without its causal part
    mask_spec = MaskSpec(queries, keys, mask=None if mask.all() else mask, causal=causal)
    found, trace = compared([*arrays, bias] if bias.any() else arrays, mask_spec, layer.scale, size, query)
    return place(seen, layer) | {
        "block": size,
        "methods": found,
        "tiles": grid(mask_spec, size),
        "trace": trace,
        "long": BLOCKS_FROM,
    }


def compared(
    operands: list[np.ndarray], mask_spec: MaskSpec, scale: float, size: int, query: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return each method's output for the query, and the trace of the blocked method."""

    def by_method(method: str) -> Callable[..., Any]:
        def compute(query: Any, key: Any, value: Any, bias: Any = None) -> Any:
            how: dict[str, Any] = {"mask": mask_spec.mask, "causal": mask_spec.causal, "scale": scale}
            return ops.attention(query, key, value, bias=bias, method=method, **how)

        return compute

    truth, _ = _output(by_method("standard"), [x.astype(np.float64) for x in operands])
    trace: list[dict[str, Any]] = []
    before = [-np.inf]

    def observe(block: Any, m: Any, total: Any, o: Any) -> None:
        _, _, q, k = block
        if q.start <= query < q.stop:
            at = query - q.start
            now = float(m[0, 0, 0, at])
            rescale = float(np.exp(before[-1] - now)) if np.isfinite(now) else 1.0
            before.append(now)
            row = {"keys": [k.start, k.stop], "m": now, "rescale": rescale, "l": float(total[0, 0, 0, at])}
            trace.append(row | {"o": packed(o[0, 0, at])})

    blocked = BlockedAttention(
        mask_spec=mask_spec, dropout=0.0, scale=scale, generator=default_generator, block_size=size,
        return_weights=False,
    )  # fmt: skip
    blocked.observe = observe
    methods: list[tuple[str, Any, int]] = [
        ("standard", by_method("standard"), mask_spec.query_length * mask_spec.key_length),
        ("blocked", blocked, min(size, mask_spec.query_length) * min(size, mask_spec.key_length)),
    ]
    moved, refused = on_device(operands)
    if refused is None:
        methods.append(("fused", by_method("fused"), 0))
    found = []
    for name, compute, scores in methods:
        out, kept = _output(compute, moved if name == "fused" else operands)
        found.append({
            "method": name,
            "error": float(np.abs(out - truth).max()),
            "scores": 4 * scores,
            "kept": kept,
            "output": packed(out[0, 0, query]),
        })  # fmt: skip
    if refused is not None:
        found.append({"method": "fused", "refused": refused})
    return found, trace


def on_device(operands: list[np.ndarray]) -> tuple[list[Any], str | None]:
    """Return the operands on the GPU, and None or the reason why the fused method can't be used with them."""
    try:
        check_device("cuda")
        moved = [to_device(x, "cuda") for x in operands]
    except DeviceError as error:
        return [], str(error)
    return moved, unsupported_reason(attention_plain, "fused", tuple(moved[:3]), method="fused", return_weights=False)


def past(queries: int, keys: int) -> np.ndarray:
    """Return the causal mask (queries, keys), in which the last query has the same position as the last key."""
    return np.tri(queries, keys, keys - queries, dtype=bool)


def grid(mask_spec: MaskSpec, size: int) -> list[dict[str, Any]]:
    """Return every block of queries and keys in the order of computation, and whether the block is skipped."""
    size = min(size, max(mask_spec.query_length, mask_spec.key_length))
    found = []
    for q in slices(0, mask_spec.query_length, size):
        for k in slices(0, mask_spec.key_length, size):
            skipped = can_skip(mask_spec, (slice(0, 1), slice(0, 1), q, k))
            found.append({"queries": [q.start, q.stop], "keys": [k.start, k.stop], "skipped": skipped})
    return found


def _output(compute: Callable[..., Any], operands: list[np.ndarray]) -> tuple[np.ndarray, int]:
    """Return the output, and the number of bytes, without inputs, that are stored for a backward pass."""
    with no_grad(), record() as seen:
        out = compute(*operands).numpy()
    return out, sum(int(x.nbytes) for made in seen.calls for x in made.call.kept if hasattr(x, "nbytes"))
