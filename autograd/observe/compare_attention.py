"""Compare the attention methods: numerical errors, time and memory. Use it to tell rounding from a bug.

    python -m handloom.autograd.observe.compare_attention
    python -m handloom.autograd.observe.compare_attention --length 2048 --causal --dtype float32
    python -m handloom.autograd.observe.compare_attention --device cuda --length 4096 --heads 16

All methods compute the same output and gradients in different orders, so their rounding differs. The table shows the
largest error of each against float64. A method is correct if its errors are about those of the standard method in the
same precision: at most 2 times for the output, 3 times for gradients, as the authors of FlashAttention judge theirs.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arguments import Parser, Whole, positive, run_program, whole
from ...errors import InputError
from ..backend import DeviceError, import_cupy, to_device, use_device
from ..engine import grad
from ..ops import attention
from ..ops.attention import attention_plain
from ..ops.registry import unsupported_reason
from ..origin import no_grad
from ..random import Generator
from ..tensor import Tensor

METHODS = ("standard", "blocked", "fused")
RESULTS = ("output", "d_query", "d_key", "d_value")
_LARGEST_REFERENCE = 1 << 26  # scores that the float64 reference holds at once
_LARGEST_INPUT = 1 << 30  # numbers of an input; 8 GB in float64
_SIZE = Whole(1, 1_000_000)


@dataclass(frozen=True)
class Setting:
    """The shapes and options. Errors are measured without `dropout`, which hides them; times and memory with it."""

    batch: int = 1
    heads: int = 4
    length: int = 512
    key_length: int | None = None
    head_dim: int = 64
    causal: bool = False
    window: int | None = None
    dropout: float = 0.0
    device: str = "cpu"
    seed: int = 0

    def inputs(self) -> list[np.ndarray]:
        """Query, key, value and the gradient of the output, in float64 (batch, heads, length, head_dim)."""
        rng = np.random.default_rng(self.seed)
        lengths = (self.length, self.key_length or self.length, self.key_length or self.length, self.length)
        return [rng.standard_normal((self.batch, self.heads, length, self.head_dim)) for length in lengths]


@dataclass(frozen=True)
class Row:
    """The result of one method in one precision.
    Errors are the largest absolute ones, times in seconds, memory in bytes.
    """

    method: str
    dtype: str
    errors: dict[str, float]
    forward_seconds: float
    both_seconds: float
    peak_bytes: int


def methods_on(device: str) -> tuple[list[str], str]:
    """Return the methods that a device can run, and why the others can't run.
    Raises DeviceError for an unusable device.
    """
    use_device(device)
    if device == "cpu":
        missing: str | None = "needs a GPU: --device cuda"
    else:
        small = [to_device(np.zeros((1, 1, 1, 8), np.float16), device)] * 3
        missing = unsupported_reason(attention_plain, "fused", tuple(small), method="fused", return_weights=False)
    return [name for name in METHODS if name != "fused" or not missing], missing or ""


def compare(setting: Setting, methods: Sequence[str], dtypes: Sequence[str], repeats: int = 3) -> list[Row]:
    """Run every method in every precision. Raises DeviceError for a device that can't be used."""
    use_device(setting.device)
    rows = []
    for dtype in dtypes:
        rounded = [array.astype(dtype) for array in setting.inputs()]
        truth = _reference(setting, rounded)
        moved = [to_device(array, setting.device) for array in rounded]
        for method in methods:
            found = _results(setting, method, moved)
            errors = {
                name: float(np.abs(to_device(a, "cpu").astype(np.float64) - b).max(initial=0))
                for name, a, b in zip(RESULTS, found, truth, strict=True)
            }
            del found
            rows.append(Row(method, dtype, errors, *costs(setting, method, moved, repeats)))
    return rows


def costs(setting: Setting, method: str, arrays: list[Any], repeats: int) -> tuple[float, float, int]:
    """Return seconds forward, seconds forward and backward, and peak bytes of both, for arrays on the setting's
    device.
    """

    def forward() -> None:
        with no_grad():
            _forward(setting, method, arrays)

    def both() -> None:
        _results(setting, method, arrays, dropout=True)

    device = setting.device
    return seconds(forward, repeats, device), seconds(both, repeats, device), peak_bytes(both, device)


def _forward(setting: Setting, method: str, arrays: list[Any], leaves: bool = False, dropout: bool = True) -> Any:
    tensors = [Tensor(array, requires_grad=leaves) for array in arrays[:3]]
    out = attention(
        *tensors,
        causal=setting.causal,
        window=setting.window,
        dropout=setting.dropout if dropout else 0.0,
        method=method,
        generator=Generator(setting.seed),
    )
    return (out, tensors) if leaves else out


def _results(setting: Setting, method: str, arrays: list[Any], dropout: bool = False) -> list[Any]:
    """Return the output and the three gradients."""
    out, tensors = _forward(setting, method, arrays, leaves=True, dropout=dropout)
    return [out.data, *(g.data for g in grad(out, tensors, arrays[3]))]


def _reference(setting: Setting, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Return the results in float64 from the same rounded inputs, computed by blocks where the weights would take too
    much memory.
    """
    scores = setting.batch * setting.heads * setting.length * (setting.key_length or setting.length)
    method = "standard" if scores <= _LARGEST_REFERENCE else "blocked"
    return _results(setting, method, [array.astype(np.float64) for array in arrays])


def seconds(run: Callable[[], Any], repeats: int, device: str) -> float:
    """Return the median time of `run`, after one run that does not count."""

    def once() -> float:
        _finish(device)
        start = time.perf_counter()
        run()
        _finish(device)
        return time.perf_counter() - start

    once()
    return sorted(once() for _ in range(repeats))[repeats // 2]


def _finish(device: str) -> None:
    if device != "cpu":
        import_cupy().cuda.Device().synchronize()


def peak_bytes(run: Callable[[], Any], device: str) -> int:
    """Return the peak memory of `run` beyond the memory in use before."""
    if device == "cpu":
        tracemalloc.start()
        try:
            run()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    pool = import_cupy().get_default_memory_pool()
    _finish(device)
    pool.free_all_blocks()
    before = pool.total_bytes()
    run()
    _finish(device)
    return pool.total_bytes() - before


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text, each error with its ratio to that of the standard method in the same precision."""
    plain = {row.dtype: row.errors for row in rows if row.method == "standard"}
    lines = [
        f"{'':9} {'':8} "
        + " ".join(f"{'error of ' + name:>17}" for name in RESULTS)
        + f" {'forward':>10} {'+ backward':>10} {'peak memory':>12}"
    ]
    for row in rows:
        cells = []
        for name, error in row.errors.items():
            base = plain.get(row.dtype, {}).get(name, 0.0)
            cells.append(f"{error:9.1e}" + (f" ({error / base:4.1f}x)" if base else " " * 8))
        lines.append(
            f"{row.method:9} {row.dtype:8} {' '.join(cells)} {row.forward_seconds * 1e3:7.1f} ms "
            f"{row.both_seconds * 1e3:7.1f} ms {row.peak_bytes / 2**20:9.1f} MB"
        )
    return "\n".join(lines)


def verdict(rows: Sequence[Row]) -> tuple[bool, str]:
    """Return whether every method is as exact as the standard one: at most 2 times its error in the output, 3 in
    gradients.
    """
    plain = {row.dtype: row.errors for row in rows if row.method == "standard"}
    for row in rows:
        for name, error in row.errors.items():
            allowed = (2 if name == "output" else 3) * plain.get(row.dtype, {}).get(name, np.inf)
            if not error <= allowed + 4 * np.finfo(row.dtype).eps:
                who = f"{row.method} in {row.dtype}"
                return False, f"{who} is further off than rounding explains: {name} by {error:.1e}"
    return True, "All methods are as exact as their precision allows: where they differ, they round otherwise."


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m handloom.autograd.observe.compare_attention", description=__doc__)
    default = Setting()
    sizes = {
        "batch": "sequences per batch",
        "heads": "heads",
        "length": "queries per sequence",
        "head_dim": "features per head",
    }
    for name, words in sizes.items():
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=_SIZE, default=getattr(default, name), help=f"{words} (default: %(default)s)")
    parser.add_argument("--key-length", type=_SIZE, help="keys per sequence (default: the same as --length)")
    parser.add_argument(
        "--window", type=positive, help="attend only to keys within this distance, in tokens (default: all keys)"
    )
    parser.add_argument("--causal", action="store_true", help="causal mask: attend to no later keys")
    parser.add_argument(
        "--dropout", type=float, default=0.0, help="dropout probability when measuring time and memory (default: 0)"
    )
    parser.add_argument("--device", default="cpu", help="device: cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--seed", type=whole, default=0, help="random seed (default: 0)")
    parser.add_argument("--dtype", nargs="+", choices=("float16", "float32"), default=["float32", "float16"])
    parser.add_argument(
        "--method", nargs="+", choices=METHODS, help="methods to compare (default: all that the device supports)"
    )
    parser.add_argument(
        "--repeats", type=positive, default=3, help="timed runs per method; the median is reported (default: 3)"
    )
    options = vars(parser.parse_args(arguments))
    dtypes, repeats, methods = options.pop("dtype"), options.pop("repeats"), options.pop("method")
    setting = Setting(**options)
    if not 0 <= setting.dropout <= 1:
        parser.error("--dropout is a probability, from 0 to 1")
    longest = max(setting.length, setting.key_length or 0)
    if (numbers := setting.batch * setting.heads * longest * setting.head_dim) > _LARGEST_INPUT:
        parser.error(f"an input of {numbers:,} numbers is too large, {_LARGEST_INPUT:,} are the most: take less")
    try:
        able, missing = methods_on(setting.device)
        rows = compare(setting, methods or able, dtypes, repeats)
    except (DeviceError, ValueError) as error:
        raise InputError(str(error)) from None
    shape = (setting.batch, setting.heads, setting.length, setting.head_dim)
    print(f"query (batch, heads, length, head_dim) = {shape}, {setting.device}; errors against float64\n")
    print(table(rows))
    if missing:
        print(f"fused     {missing}")
    fine, text = verdict(rows)
    print(f"\n{text}")
    return int(not fine)


if __name__ == "__main__":
    sys.exit(run_program(main))
