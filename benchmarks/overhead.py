"""Measure how many microseconds longer an op on small arrays takes than the same NumPy call.

    python -m benchmarks.overhead --json benchmarks/results/overhead.json

Arrays are 4 x 4 float32, so that the arithmetic takes nearly no time. "forward" is the time of a call that is recorded
for a backward pass, "unrecorded" is the time of a call inside no_grad, and "backward" is the time of the backward pass
per call in a chain of calls. The time of the equivalent NumPy calls is subtracted from each of the three times. Times
are the shortest of several interleaved rounds. The last lines are the processor times (user and system) of a start of
Python that imports NumPy, imports handloom, or translates a sentence: the shortest of several starts.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.side_by_side import conditions, processor_time, program, write_results
from handloom.autograd import Tensor, no_grad, ops

CHAIN = 100
ROUNDS = 100
STARTS = {
    "import numpy": ["-c", "import numpy"],
    "import handloom.autograd": ["-c", "import handloom.autograd"],
    "handloom translate": ["-m", "handloom", "translate", "Wo ist der Bahnhof?"],
}


class Op(NamedTuple):
    """An op x -> f(x, w) of handloom, the equivalent NumPy function, and the NumPy calls of the op's backward rule."""

    handloom: Callable[[Any, Any], Any]
    numpy: Callable[[Any, Any], Any]
    rule: Callable[[Any, Any, Any], Any]  # gradient, w, output


OPS = {
    "add": Op(lambda x, w: x + w, np.add, lambda g, w, y: g),
    "multiply": Op(lambda x, w: x * w, np.multiply, lambda g, w, y: g * w),
    "matmul": Op(lambda x, w: x @ w, np.matmul, lambda g, w, y: g @ w.T),
    "maximum": Op(ops.maximum, np.maximum, lambda g, w, y: g * (y > w)),
    "exp": Op(lambda x, w: ops.exp(x), lambda x, w: np.exp(x), lambda g, w, y: g * y),
    "tanh": Op(lambda x, w: ops.tanh(x), lambda x, w: np.tanh(x), lambda g, w, y: g * (1 - y * y)),
    "reshape": Op(lambda x, w: x.reshape(4, 4), lambda x, w: x.reshape(4, 4), lambda g, w, y: g.reshape(4, 4)),
}


def shortest(works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the microseconds per op for each chain of ops, from the shortest round."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(ROUNDS):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - begin)
    return {name: seconds / CHAIN * 1e6 for name, seconds in best.items()}


def measure(op: Op) -> dict[str, float]:
    """Microseconds per op."""
    start = np.full((4, 4), 0.01, np.float32)
    weight = np.eye(4, dtype=np.float32)
    leaf, fixed, ones = Tensor(start, requires_grad=True), Tensor(weight), np.ones_like(start)
    output = op.numpy(start, weight)

    def repeat(function: Callable[[Any, Any], Any], x: Any, w: Any) -> Any:
        for _ in range(CHAIN):
            function(x, w)  # always the same x: a chain of exp would overflow

    def recorded_chain() -> Any:
        x = leaf
        for _ in range(CHAIN):
            x = op.handloom(x, fixed)
        return x

    def unrecorded() -> None:
        with no_grad():
            repeat(op.handloom, leaf, fixed)

    def rules() -> None:
        for _ in range(CHAIN):
            op.rule(ones, weight, output)

    with np.errstate(all="ignore"):
        found = shortest(
            {
                "NumPy": lambda: repeat(op.numpy, start, weight),
                "recorded": lambda: repeat(op.handloom, leaf, fixed),
                "unrecorded": unrecorded,
                "NumPy backward": rules,
                "chain": recorded_chain,
                "chain and backward": lambda: recorded_chain().backward(ones),
            }
        )
    leaf.grad = None
    return {
        "NumPy": found["NumPy"],
        "forward": found["recorded"] - found["NumPy"],
        "unrecorded": found["unrecorded"] - found["NumPy"],
        "backward": found["chain and backward"] - found["chain"] - found["NumPy backward"],
    }


def start_seconds(arguments: list[str]) -> float:
    """Return the shortest processor time of several Python processes; the first one may compile modules."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times = []
    for _ in range(11):
        before = processor_time()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment)
        times.append(processor_time() - before)
    return min(times)


def main() -> None:
    arguments = program(__doc__).parse_args()
    table = {name: measure(op) for name, op in OPS.items()}
    columns = list(table["add"])
    print(f"microseconds per op in addition to NumPy's call\n{'':10}" + "".join(f"{column:>12}" for column in columns))
    for name, figures in table.items():
        print(f"{name:10}" + "".join(f"{figures[column]:12.2f}" for column in columns))
    starts = {name: start_seconds(start) for name, start in STARTS.items()}
    print(*(f"{name}: {seconds:.2f} s of processor time" for name, seconds in starts.items()), sep="\n")
    write_results(arguments.json, {"microseconds": table, "start_seconds": starts, **conditions()})


if __name__ == "__main__":
    main()
