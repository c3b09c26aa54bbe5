"""What the attention kernels issue per tensor-core instruction, and the share of a GPU's peak that this allows.

    python -m tests.support.attention_budget  # read the machine code, write the record, print the tables of the docs

docs/flash_attention.md contains the tables and explains the model. No number was measured on a GPU.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.side_by_side import write_results
from tests.support import nvrtc, sass
from tests.support.kernel_variants import SHARED_MEMORY, attention_constants
from tests.support.ladder import RUNGS, Rung

RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "attention_budget.json"
KERNELS = {"forward": "attention_forward", "backward": "attention_backward_keys"}


class Case(NamedTuple):
    """A kernel, its head dimension, and whether a thread block has 99 KB of shared memory, as on most GPUs."""

    direction: str
    width: int
    small: bool = False

    def __str__(self) -> str:
        return f"{self.direction} d {self.width}{', 99 KB' if self.small else ''}"

    @property
    def file(self) -> str:
        return f"attention_{self.direction}.cu"

    @property
    def constants(self) -> dict[str, int]:
        return attention_constants(self.direction, 1, self.width, 0, self.small)


CASES = [*(Case(direction, width) for direction in KERNELS for width in (64, 128)), Case("backward", 128, small=True)]
#: Maximum numbers of issue slots and of LDSM per product, by direction and `small`.
ALLOWED = {("forward", False): (5.0, 0.3125), ("backward", False): (4.5, 0.45), ("backward", True): (4.5, 0.53)}


@dataclass(frozen=True)
class Gpu:
    """One of the four parts of a multiprocessor: the cycles that it needs for an instruction of a warp."""

    name: str
    architecture: str
    product: float  # mma.m16n8k16, at NVIDIA's stated peak
    reached: float  # mma.m16n8k16, at the measured rate of mma.sync
    floats: float

    def units(self, x: sass.Pass) -> dict[str, float]:
        """Return the busy cycles of each unit per product. A part gets 32 of shared memory's 128 bytes per cycle."""
        return {
            "tensor cores": self.reached,
            "issue": x.issued / x.products,
            "shared memory": (x.fragment_bytes + 512 * x.copies + 128 * x.plain_turns) / 32 / x.products,
            "exponentials": 8 * x.special / x.products,
            "float32": self.floats * x.floats / x.products,
        }

    def ceiling(self, x: sass.Pass) -> float:
        """Return the share of the peak if all units work in parallel; the busiest unit limits it."""
        return self.product / max(self.units(x).values())

    def alone(self, x: sass.Pass) -> float:
        """Return the share if a warp's other instructions never overlap with its products or with another warp."""
        return min(self.ceiling(x), self.product / (self.reached + x.issued / x.products - 1))


# Dense fp16 peaks: 312 TFLOP/s on 432 parts at 1.41 GHz, 989 on 528 at 1.83 GHz; 512 and 1024 operations per cycle.
GPUS = (Gpu("A100", "sm_80", 8.0, 8.0, 2.0), Gpu("H100", "sm_90", 4.0, 4.0 / 0.63, 1.0))


def measure(case: Case, architecture: str) -> sass.Pass:
    """Count one pass of a kernel's inner loop, in float16 and with causal, window and lengths as the only options."""
    code = sass.disassemble(nvrtc.machine_code(case.file, case.constants, architecture))
    return sass.count(sass.inner_loop(code[KERNELS[case.direction]]))


def check(case: Case, x: sass.Pass) -> None:
    """Raise AssertionError if a pass exceeds ALLOWED."""
    slots, loads = ALLOWED[case.direction, case.small]
    assert x.issued <= slots * x.products
    assert x.fragment_loads <= loads * x.products


def table(record: dict[str, Any]) -> str:
    """Return the table of what a pass issues."""
    passes = record["passes"]
    lines = [
        "| sm_90 | warps x rows, columns | shared memory | HMMA | LDSM | copies | RED | slots | slots a HMMA "
        "| LDSM a HMMA |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        x = sass.Pass(**passes[f"{case} sm_90"])
        constants = case.constants
        team = constants.get("TEAM", 1)
        columns = constants.get("BLOCK_K", constants.get("BLOCK", 0)) // team
        rows = 16 * constants["M_TILES"] * team
        shared = SHARED_MEMORY[case.file](constants) / 1024
        lines.append(
            f"| {case} | {constants['WARPS']} x {rows}, {columns} | {shared:g} KB | {x.products} "
            f"| {x.fragment_loads} | {x.copies} | {x.additions} | {x.issued} | {x.issued / x.products:.1f} "
            f"| {x.fragment_loads / x.products:.2f} |"
        )
    return "\n".join(lines)


def model(record: dict[str, Any]) -> str:
    """Return the table of the busy cycles of each unit and of the shares of the peak."""
    passes = record["passes"]
    first = sass.Pass(**passes[f"{CASES[0]} sm_90"])
    units = list(GPUS[0].units(first))
    lines = ["| | " + " | ".join(units) + " | ceiling | nothing overlaps |", "|---" * (len(units) + 3) + "|"]
    for gpu in GPUS:
        for case in (case for case in CASES if not case.small):
            x = sass.Pass(**passes[f"{case} {gpu.architecture}"])
            busy = " | ".join(f"{cycles:.1f}" for cycles in gpu.units(x).values())
            lines.append(f"| {gpu.name}, {case} | {busy} | {gpu.ceiling(x):.0%} | {gpu.alone(x):.0%} |")
    return "\n".join(lines)


def slots_of_rung(rung: Rung) -> float:
    """Return the issue slots per tensor-core instruction, or per 2,048 multiply-adds (the work of an HMMA)."""
    code = sass.disassemble(nvrtc.machine_code(rung.file, {}, "sm_90"))[rung.name]
    main = "HMMA" if rung.uses_tensor_cores else "FFMA"
    way = sass.inner_loop(code, main)
    found = sum(x.name == main for x in way)
    return round(len(way) / (found if main == "HMMA" else found / 64), 1)


def ladder(record: dict[str, Any]) -> str:
    """Return the table of the five kernels for learners."""
    lines = ["| kernel | what is new | issue slots |", "|---|---|---|"]
    for rung in RUNGS:
        link = f"[{rung.name}.cu](../autograd/kernels/{rung.file})"
        lines.append(f"| {link} | {rung.new} | {record['ladder'][rung.name]:.1f} |")
    return "\n".join(lines)


def main() -> None:
    if reason := nvrtc.missing() or sass.missing():
        raise SystemExit(reason)
    passes = {f"{case} {gpu.architecture}": asdict(measure(case, gpu.architecture)) for case in CASES for gpu in GPUS}
    digests = {str(case): nvrtc.digest(case.file, case.constants) for case in CASES}
    digests |= {rung.name: nvrtc.digest(rung.file, {}) for rung in RUNGS}
    slots = {rung.name: slots_of_rung(rung) for rung in RUNGS}
    command = "python -m tests.support.attention_budget"
    record = {"nvrtc": nvrtc.version(), "command": command, "digests": digests, "passes": passes, "ladder": slots}
    write_results(RECORD, record)
    print(*(write(record) for write in TABLES.values()), sep="\n\n")


#: The functions that write the tables of docs/flash_attention.md, by the names of the marks around each table.
TABLES = {"table": table, "model": model, "ladder": ladder}

if __name__ == "__main__":
    main()
