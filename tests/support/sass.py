"""Reads the machine code of kernels and counts what one pass of an inner loop issues.

NVRTC compiles without a GPU, and `nvdisasm` (wheel nvidia-cuda-nvdisasm) prints the code. The counts are for the
loop with the most tensor-core instructions, on the path of a tile that touches no edge: all products, all copies and
additions to memory, and as few other instructions as possible.
"""

import functools
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

_LINE = re.compile(
    r"/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<predicate>@!?U?P\w+)?\s*(?P<opcode>[A-Z][\w.]*)(?P<rest>[^;]*);"
)
_TO_MEMORY = ("LDGSTS", "RED", "REDG", "ATOM", "ATOMG")
_LABEL = re.compile(r"^(\.L_x_\d+):", re.MULTILINE)


@dataclass(frozen=True)
class Instruction:
    """One instruction: its address, its opcode with modifiers, the rest of its line, and the address of its target."""

    address: int
    opcode: str
    rest: str
    conditional: bool
    target: int | None = None

    @property
    def name(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def jumps_always(self) -> bool:
        bare = self.target is not None and not re.match(r"\s*!?U?P\d", self.rest) and ".DIV" not in self.opcode
        return not self.conditional and (bare or self.name in ("EXIT", "RET", "BRX"))


@functools.cache
def _program() -> str | None:
    """Return the path of nvdisasm in NVIDIA's wheel, or else on PATH, or None."""
    spec = importlib.util.find_spec("nvidia")
    for root in map(Path, (spec.submodule_search_locations or []) if spec else []):
        for found in root.glob("*/bin/nvdisasm"):
            return str(found)
    return shutil.which("nvdisasm")


def missing() -> str | None:
    """Return why code can't be disassembled here, or None."""
    return (
        None if _program() else "nvdisasm is not installed: pip install nvidia-cuda-nvdisasm (with the extra oracles)"
    )


def disassemble(cubin: bytes) -> dict[str, list[Instruction]]:
    """Return the instructions of each kernel of a compiled module, by kernel name."""
    program = _program()
    assert program is not None, missing()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([program, "-c", file.name], capture_output=True, text=True, check=True)
    sections = re.split(r"^\.text\.(\w+):$", done.stdout, flags=re.MULTILINE)
    return {name: read(text) for name, text in zip(sections[1::2], sections[2::2], strict=True)}


def read(text: str) -> list[Instruction]:
    """Return the instructions of a listing."""
    found, labels, waiting = [], {}, []
    for line in text.splitlines():
        if label := _LABEL.match(line):
            waiting.append(label[1])
        elif match := _LINE.search(line):
            address = int(match["address"], 16)
            labels |= dict.fromkeys(waiting, address)
            waiting = []
            found.append((address, match["opcode"], match["rest"], match["predicate"] is not None))
        elif line.startswith("//-----") and found:
            break
    instructions = []
    for address, opcode, rest, conditional in found:
        label = re.search(r"`\((\.L_x_\d+)\)", rest) if opcode.startswith("BRA") else None
        target = labels.get(label[1]) if label else None
        instructions.append(Instruction(address, opcode, rest, conditional, target))
    return instructions


def inner_loop(instructions: list[Instruction], main: str = "HMMA") -> list[Instruction]:
    """Return one pass of the loop with the most `main` instructions, on the path of a tile that touches no edge.

    Raises AssertionError if this path contains a loop, because a listed instruction could then be issued repeatedly.
    """
    places = {instruction.address: place for place, instruction in enumerate(instructions)}
    jumps = [(places[x.target], place) for place, x in enumerate(instructions) if x.target in places]
    loops = [(start, end) for start, end in jumps if start <= end]
    products = [0]
    for instruction in instructions:
        products.append(products[-1] + (instruction.name == main))
    start, end = max(loops, key=lambda loop: (products[loop[1] + 1] - products[loop[0]], loop[0] - loop[1]))
    # Backwards from the end: the best path, as (products, copies and additions, minus instructions), and the next place
    best: dict[int, tuple[tuple[int, int, int], int | None]] = {}
    for place in range(end, start - 1, -1):
        now = instructions[place]
        own = (int(now.name == main), int(now.name in _TO_MEMORY), -1)
        ways: list[tuple[tuple[int, int, int], int | None]] = [((0, 0, 0), None)] if place == end else []
        following = [] if now.jumps_always else [place + 1]
        if now.target in places and places[now.target] > place:
            following.append(places[now.target])
        ways += [(best[after][0], after) for after in following if after in best]
        if ways:
            counts, after = max(ways, key=lambda way: way[0])
            best[place] = (own[0] + counts[0], own[1] + counts[1], own[2] + counts[2]), after
    way: list[Instruction] = []
    place: int | None = start
    while place is not None:
        way.append(instructions[place])
        place = best[place][1]
    ends = {instruction.address for instruction in way}
    for first, last in loops:
        whole = instructions[first].address in ends and instructions[last].address in ends
        assert (first, last) == (start, end) or not whole, (
            f"a loop inside the loop, at {instructions[first].address:#x}"
        )
    return way


@dataclass(frozen=True)
class Pass:
    """The instructions that a warp issues in one pass of the inner loop."""

    products: int  # HMMA
    issued: int  # all instructions
    fragment_loads: int  # LDSM
    fragment_bytes: int  # read from shared memory by LDSM
    copies: int  # LDGSTS
    plain_turns: int  # turns of shared memory (128 bytes) for LDS and STS, as if no lanes shared a number
    special: int  # MUFU: exponentials
    floats: int  # on the pipe of float32 multiplications and additions
    additions: int  # to memory: RED, ATOM


def count(way: list[Instruction]) -> Pass:
    names = Counter(instruction.name for instruction in way)
    matrices = [int(match[1] or 1) for x in way if (match := re.match(r"LDSM\.16\.MT?88(?:\.([24]))?$", x.opcode))]
    assert len(matrices) == names["LDSM"], "an LDSM of an unknown form"
    # The compiler puts a few `LDS RZ, [RZ]` before copies. They are issued, but are no work for the memory.
    plain = [x.opcode for x in way if x.name in ("LDS", "STS") and not x.rest.strip().startswith("RZ,")]
    return Pass(
        products=names["HMMA"],
        issued=len(way),
        fragment_loads=names["LDSM"],
        fragment_bytes=128 * sum(matrices),
        copies=names["LDGSTS"],
        plain_turns=sum({"64": 2, "128": 4}.get(opcode.rpartition(".")[2], 1) for opcode in plain),
        special=names["MUFU"],
        floats=sum(names[name] for name in ("FFMA", "FMUL", "FADD", "IMAD")),
        additions=sum(names[name] for name in _TO_MEMORY[1:]),
    )
