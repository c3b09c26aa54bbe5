"""The profile of handloom's training step, op by op."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

from handloom.autograd import function

Row = dict[str, Any]


def minor_faults() -> int:
    """Minor page faults of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


class Profile:
    """Measures every op's forward and backward computation; a context manager, for one thread.

    `rows` has the calls, seconds and page faults of each op, separately for forward and backward.
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], list[float]] = {}

    def measure(self, name: str, phase: str, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run `work(*arguments)` and add it to the row of this name and phase."""
        faults, begin = minor_faults(), time.perf_counter()
        result = work(*arguments)
        row = self.rows.setdefault((name, phase), [0, 0.0, 0])
        row[0] += 1
        row[1] += time.perf_counter() - begin
        row[2] += minor_faults() - faults
        return result

    def forward(self, call: Any, arrays: list[Any]) -> Any:
        return self.measure(call.name, "forward", call.forward, *arrays)

    def backward(self, call: Any, rule: Callable[..., Any], gradients: list[Any]) -> Any:
        return self.measure(call.name, "backward", rule, *gradients)

    def __enter__(self) -> Profile:
        self._before, function.observer = function.observer, self
        return self

    def __exit__(self, *exception: object) -> None:
        function.observer = self._before


def profile(step: Callable[[], Any], optimizer: Any, steps: int) -> list[Row]:
    """Rows, the slowest first, of `steps` calls of `step`: op, phase, calls, ms and page faults a step.

    The optimiser's update is a row, and so is the rest: the engine and the Python code of layers and loss.
    """
    update = optimizer.step
    total, faults = 0.0, 0
    with Profile() as found:
        optimizer.step = lambda *arguments: found.measure("Adam", "update", update, *arguments)
        try:
            for _ in range(steps):
                before, begin = minor_faults(), time.perf_counter()
                step()
                total += time.perf_counter() - begin
                faults += minor_faults() - before
        finally:
            del optimizer.step
    known = [sum(column) for column in zip(*found.rows.values(), strict=True)]
    found.rows["everything else", ""] = [steps, total - known[1], faults - known[2]]
    found.rows["total", ""] = [steps, total, faults]
    rows = [
        {"op": name, "phase": phase, "calls": calls / steps, "ms": 1e3 * spent / steps, "faults": pages / steps}
        for (name, phase), (calls, spent, pages) in found.rows.items()
    ]
    return sorted(rows, key=lambda row: -row["ms"])


def print_profile(rows: list[Row]) -> None:
    total = max(row["ms"] for row in rows)
    print(f"{'op':28} {'':9} {'calls':>7} {'ms':>9} {'share':>6} {'page faults':>12}")
    for row in rows:
        print(
            f"{row['op']:28} {row['phase']:9} {row['calls']:7.0f} {row['ms']:9.2f} {row['ms'] / total:6.1%} "
            f"{row['faults']:12,.0f}"
        )
