"""Check and measure a GPU in ways that tests of small shapes can't: python -m benchmarks.gpu NAME

environment: describes the machine and the loaded libraries. kernels: measures the time, registers and occupancy of each
kernel on large arrays, the GPU's rate of copying memory, products, and the cost of a launch. large: checks attention at
lengths 4096 and 16384. repeats: checks that a hundred runs give the same bits. graphs: checks a thousand replays. far:
checks arrays of more than 2^31 elements, if memory allows. devices: checks a second GPU. If a result is wrong, the
element with the largest error is printed and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from handloom.autograd import Generator, Tensor, grad, ops
from handloom.autograd.backend import import_cupy, use_device
from handloom.autograd.kernels import attention, fused, update
from handloom.autograd.kernels.graphs import Graphs
from handloom.autograd.kernels.products import product
from handloom.files import write_json
from handloom.train.runs.results import machine, versions

HALF = np.float16
Row = dict[str, Any]


class Bench:
    """Device arrays and times. On the NumPy stand-in for CuPy, which the tests use, all arrays are small."""

    def __init__(self) -> None:
        self.cupy, self.rng = import_cupy(), np.random.default_rng(0)
        self.small = "stand-in" in self.cupy.__version__

    def size(self, n: int, least: int = 8) -> int:
        """Return n, or a small number if the stand-in replaces CuPy."""
        return max(n // 512 // 8 * 8, least) if self.small else n

    def times(self, n: int) -> int:
        return 2 if self.small else n

    def normal(self, *shape: int, dtype: Any = HALF) -> Any:
        return self.cupy.asarray(self.rng.standard_normal(shape, np.float32).astype(dtype))

    def seconds(self, call: Callable[[], Any], times: int) -> float:
        """Return the seconds of one call, measured over several launches."""
        call()
        self.wait()
        begin = time.perf_counter()
        for _ in range(times):
            call()
        self.wait()
        return (time.perf_counter() - begin) / times

    def wait(self) -> None:
        self.cupy.cuda.Device().synchronize()


def environment(bench: Bench) -> list[Row]:
    runtime = bench.cupy.cuda.runtime
    attributes = bench.cupy.cuda.Device().attributes
    about = runtime.getDeviceProperties(0)
    maps = Path("/proc/self/maps")
    lines = maps.read_text(encoding="utf-8").splitlines() if maps.exists() else []
    try:
        smi = subprocess.run(["nvidia-smi", "-q"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        smi = str(error)
    packages = "handloom", "numpy", "cupy-cuda13x", "cupy-cuda12x", "torch", "nvidia-cuda-nvrtc", "nvidia-cublas"
    return [
        {"gpu": about["name"].decode(), "driver": runtime.driverGetVersion(), "runtime": runtime.runtimeGetVersion()},
        {**machine(), **versions(*packages)},
        {name: int(value) for name, value in attributes.items()},
        {name: value for name, value in os.environ.items() if name.startswith(("CUDA", "CUPY", "NVIDIA", "HANDLOOM"))},
        {"libraries": sorted({line.split()[-1] for line in lines if "/libnv" in line or "/libcu" in line})},
        {"nvidia-smi": smi[:30_000]},
    ]


def kernels(bench: Bench) -> list[Row]:
    """Measure every kernel's memory throughput as a share of the copy rate, which limits most kernels."""
    rows, width = bench.size(32768), bench.size(1024)
    x, y = bench.normal(rows, width), bench.normal(rows, width)
    out = bench.cupy.empty_like(x)
    seconds = bench.seconds(lambda: bench.cupy.add(x, 0, out=out), bench.times(50))
    copies = 2 * x.nbytes / seconds
    side = bench.size(8192)
    a = bench.normal(side, side)
    rate = 2 * side**3 / bench.seconds(lambda: product(a, a), bench.times(20))
    tiny, drop = bench.normal(8), fused.DropoutKey(bench.cupy.zeros(1, np.uint64), 0, 6554)
    cost = bench.seconds(lambda: fused.dropout_add(tiny, drop), bench.times(2000))
    found: dict[str, Row] = {}

    def launch(kernel: Any, grid: Any, block: Any, args: Any, shared: int = 0) -> None:
        name = f"{kernel.name} {len(found)}"  # a kernel is compiled for each set of constants and each precision
        took = bench.seconds(lambda: kernel(grid, block, args, shared_mem=shared), bench.times(20))
        moved = sum(arg.nbytes for arg in args if isinstance(arg, bench.cupy.ndarray))
        threads = int(np.prod(block))
        found[name] = {
            "kernel": kernel.name, "dtype": args[0].dtype.name,
            "us": round(1e6 * took, 1), "GB/s": round(moved / took / 1e9, 1),
            "of copies": round(moved / took / copies, 2), **_needs(bench.cupy, kernel, threads, shared),
        }  # fmt: skip

    with (
        mock.patch.object(fused, "launch", launch), mock.patch.object(update, "launch", launch),
        mock.patch.object(attention, "launch", launch),
    ):  # fmt: skip
        first = time.perf_counter()
        for dtype in (HALF, np.float32):
            _every_kernel(bench, x.astype(dtype), y.astype(dtype), drop)
    general = {
        "copies GB/s": round(copies / 1e9, 1), "products TFLOP/s": round(rate / 1e12, 1), "us a launch": 1e6 * cost,
        "seconds with compilation": round(time.perf_counter() - first, 1),
    }  # fmt: skip
    return [general, *found.values()]


def _every_kernel(bench: Bench, x: Any, y: Any, drop: fused.DropoutKey) -> None:
    rows, width = x.shape
    weight, ids = x[0].copy(), bench.cupy.asarray(bench.rng.integers(0, rows, rows))
    for w in (width, 2 * width):  # first one warp per row, then one block per row
        a, b, one = x.reshape(-1, w), y.reshape(-1, w), bench.cupy.ones(w, x.dtype)
        _, z, mean, rstd = fused.layer_norm(a, one, one, 1e-5, b, drop)
        fused.layer_norm_backward(b, z, one, mean, rstd, drop)
    fused.dropout_add(x, drop, y)
    fused.bias_activation_dropout(x, weight, "gelu", drop)
    fused.bias_activation_dropout_backward(y, x, weight, "gelu", drop)
    losses = fused.cross_entropy_rows(x.copy(), weight, ids % width, -1, 0.1, gradient=True)
    _, count = fused.total_loss(losses, ids % width, -1, x.dtype, mean=True)
    fused.scale_gradients(count, count, [x.copy()], x.dtype)
    fused.embedding(x, ids)
    fused.embedding_backward(y, ids, rows)
    state, settings = update.new_state(bench.cupy), bench.cupy.ones(2, np.float32)
    wide = [bench.cupy.zeros(x.size, np.float32) for _ in range(3)]
    update.prepare_update(x.reshape(-1), state, settings)
    update.adam(wide[0], x.reshape(-1), *wide[1:], x.reshape(-1).copy(), state, settings, betas=(0.9, 0.98), eps=1e-9)
    length = bench.size(2048, 64)
    for head_dim in (64, 128):
        leaves = [Tensor(bench.normal(2, 8, length, head_dim, dtype=x.dtype), requires_grad=True) for _ in range(3)]
        for deterministic in (False, True):
            out = ops.attention(*leaves, causal=True, method="fused", deterministic=deterministic)
            grad(out, leaves, leaves[0].data)


def _needs(cupy: Any, kernel: Any, threads: int, shared: int) -> Row:
    """Return a kernel's registers, spilled bytes, and blocks per multiprocessor, if CuPy reports them."""
    if not hasattr(kernel, "num_regs"):
        return {}
    occupancy = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel.kernel.ptr, threads, shared)
    return {"registers": kernel.num_regs, "local": kernel.local_size_bytes, "shared": shared, "blocks": occupancy}


def large(bench: Bench) -> list[Row]:
    """Compare float16 attention with the blocked method in float32, which does not use handloom's kernels."""
    rows = []
    for length, head_dim in ((4096, 64), (4096, 128), (16384, 64), (16384, 128)):
        length = bench.size(length, 96)
        arrays = [bench.normal(1, 2, length, head_dim) for _ in range(4)]
        results = []
        for dtype, method in ((HALF, "fused"), (np.float32, "blocked")):
            leaves = [Tensor(a.astype(dtype), requires_grad=True) for a in arrays[:3]]
            out = ops.attention(*leaves, causal=True, method=method)
            results.append([out, *grad(out, leaves, arrays[3].astype(dtype))])
        for name, found, wanted in zip(("out", "d_query", "d_key", "d_value"), *results, strict=True):
            what = f"attention {name}, length {length}, head_dim {head_dim}, seed 0"
            rows.append(compared(what, found.numpy(), wanted.numpy(), 2.0**-7))
    return rows


def compared(what: str, found: np.ndarray, wanted: np.ndarray, share: float) -> Row:
    """Return the element with the largest error. An element is wrong if its error exceeds `share` times the largest
    expected number."""
    errors = np.abs(found.astype(np.float64) - wanted)
    errors[np.isnan(errors)] = np.inf
    place = np.unravel_index(int(errors.argmax()), errors.shape)
    bound = share * float(np.abs(wanted).max())
    return {
        "what": what, "right": bool(errors[place] <= bound), "error": float(errors[place]), "allowed": bound,
        "at": [int(i) for i in place], "found": float(found[place]), "wanted": float(wanted[place]),
    }  # fmt: skip


def repeats(bench: Bench) -> list[Row]:
    """Check that every op documented as deterministic gives bit-equal results in a hundred runs."""
    length = bench.size(1000, 100)
    leaves = [Tensor(bench.normal(2, 4, length, 64), requires_grad=True) for _ in range(3)]
    x, g = bench.normal(bench.size(8192), 512), bench.normal(bench.size(8192), 512)
    one, ids = bench.cupy.ones(512, HALF), bench.cupy.asarray(bench.rng.integers(0, 50, len(x)))

    def all_results() -> list[Any]:
        options: Any = {"deterministic": True, "dropout": 0.1, "generator": Generator(1)}
        out = ops.attention(*leaves, causal=True, method="fused", **options)
        found = [out.data, *(t.data for t in grad(out, leaves, leaves[0].data))]
        y, z, mean, rstd = fused.layer_norm(x, one, one, 1e-5)
        found += [y, *fused.layer_norm_backward(g, z, one, mean, rstd)[1:], fused.column_sums(x)]
        return [*found, fused.embedding_backward(g, ids, 50), product(x.T, g)]

    wanted = [a.copy() for a in all_results()]
    changed = 0
    for _ in range(bench.times(100)):
        changed += any(bool((a != b).any()) for a, b in zip(all_results(), wanted, strict=True))
    return [{"what": "the same bits", "right": changed == 0, "times": bench.times(100), "other": changed}]


def graphs(bench: Bench) -> list[Row]:
    """Check that replays of a CUDA graph with changing inputs and seeds give the results of plain calls."""
    own, generator, weight = Graphs(), Generator(), bench.normal(64, 64)

    def compute(given: Any) -> dict[str, Any]:
        seed, x = given
        if seed is not None:
            generator.keep_seed_in(seed)
        hidden = ops.linear_activation(x, weight, activation="gelu", dropout=0.2, generator=generator)
        return {"y": ops.residual_layer_norm(hidden, x, weight[0], weight[1], 0.1, generator=generator).data}

    wrong, inputs = 0, [bench.rng.standard_normal((40, 64)).astype(HALF) for _ in range(4)]
    for number in range(bench.times(1000) + 4):
        generator.set_state(Generator(number % 4).get_state())
        wanted = compute((None, bench.cupy.asarray(inputs[number % 4])))["y"]
        generator.set_state(Generator(number % 4).get_state())
        seed = np.array([generator.begin_calls()], np.uint64)
        wrong += bool((own("pass", compute, (seed, inputs[number % 4]))["y"] != wanted).any())
    return [{"what": "replays of a graph", "right": wrong == 0, "wrong": wrong, "launched": own.launched}]


def far(bench: Bench) -> list[Row]:
    """Check arrays with more than 2^31 elements: their last rows must equal the same rows computed separately."""
    free = np.inf if bench.small else bench.cupy.cuda.runtime.memGetInfo()[0]
    rows, width = bench.size(70_000), bench.size(32_768)
    if free < 5 * rows * width:
        return [{"what": "far", "left out": f"{free / 1e9:.0f} GB are free, this takes {5 * rows * width / 1e9:.0f}"}]
    x = bench.cupy.zeros((rows, width), HALF)
    x[-3:] = bench.normal(3, width)
    target = bench.cupy.zeros(rows, np.int64)
    found = [fused.cross_entropy_rows(part, None, target[-len(part) :], -1, 0.1) for part in (x, x[-3:].copy())]
    result = [compared("cross-entropy of far rows", found[0][-3:].get(), found[1].get(), 1e-6)]
    last = x[-3:].copy()
    for part in (x, last):
        fused.cross_entropy_rows(part, None, target[-len(part) :], -1, 0.0, gradient=True)
    result.append(compared("gradient of cross-entropy in far rows", x[-3:].get(), last.get(), 2.0**-9))
    del x
    batch, length = bench.size(1024, 4), bench.size(256, 40)
    one = [bench.normal(1, 64, length, 128) for _ in range(4)]
    results = []
    for count in (batch if free > 60e9 else 2, 1):
        *operands, g = (bench.cupy.concatenate([a] * count) for a in one)
        leaves = [Tensor(a, requires_grad=True) for a in operands]
        out = ops.attention(*leaves, causal=True, method="fused")
        results.append([out.data[-1], *(t.data[-1] for t in grad(out, leaves, g))])
    for name, a, b in zip(("out", "d_query", "d_key", "d_value"), *results, strict=True):
        result.append(compared(f"attention {name} of a far batch row", a.get(), b.get(), 2.0**-9))
    return result


def devices(bench: Bench) -> list[Row]:
    count = bench.cupy.cuda.runtime.getDeviceCount()
    if count < 2:
        return [{"what": "a second GPU", "left out": "there is one"}]
    found = []
    for device in ("cuda:0", "cuda:1"):
        use_device(device)
        x = bench.cupy.asarray(np.arange(64 * 64, dtype=np.float32).reshape(64, 64))
        found.append(ops.layer_norm(x, x[0], x[1]).numpy())
    return [compared("layer norm on a second GPU", found[1], found[0], 0.0)]


CHECKS: dict[str, Callable[[Bench], list[Row]]] = {
    check.__name__: check for check in (environment, kernels, large, repeats, graphs, far, devices)
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("name", choices=CHECKS)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    rows = CHECKS[options.name](Bench())
    if options.json:
        write_json(options.json, {"rows": rows})
    for row in rows:
        print(*(f"{name}: {str(value)[:500]}" for name, value in row.items()), sep="  ")
    return int(any(row.get("right") is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
