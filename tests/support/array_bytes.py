"""Peak number of bytes in arrays during a training step on a device, counted on the stand-in for CuPy.

    python -m tests.support.array_bytes paraphrase [BATCH]

tracemalloc counts the arrays, cuBLAS's workspace of 34 MB included. Other memory of a device (CuPy's rounding up, the
driver) is not counted. The kernels run in the emulator, which takes minutes for a model of real size.
"""

import dataclasses
import gc
import sys
import tracemalloc

from benchmarks.train_step_device import HandloomOnDevice, size_of
from benchmarks.train_step_models import Size
from tests.support.fake_cupy import installed


def peak_bytes(size: Size, half: bool) -> dict[str, int]:
    """Bytes held before a step (weights, moments, float16 copies) and at its peak."""
    tracemalloc.start()
    try:
        with installed():
            subject = HandloomOnDevice(size, half)
            gc.collect()
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            subject.step()
            return {"before": before, "peak": tracemalloc.get_traced_memory()[1]}
    finally:
        tracemalloc.stop()


def main() -> None:
    size = size_of(sys.argv[1])
    if len(sys.argv) > 2:
        size = dataclasses.replace(size, batch=int(sys.argv[2]))
    found = {precision: peak_bytes(size, precision == "fp16") for precision in ("fp32", "fp16")}
    for precision, each in found.items():
        print(f"{precision}: {each['before'] / 1e6:,.1f} MB before the step, {each['peak'] / 1e6:,.1f} MB at its peak")
    saved = 1 - found["fp16"]["peak"] / found["fp32"]["peak"]
    step = [each["peak"] - each["before"] for each in found.values()]
    print(f"fp16 saves {saved:.1%} in all, {1 - step[1] / step[0]:.1%} of what the step adds")


if __name__ == "__main__":
    main()
