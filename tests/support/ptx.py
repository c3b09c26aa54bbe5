"""The PTX of ptx.cuh, read and carried out by NumPy: what a device is told to do, which the emulator never sees.

Each function there holds one `asm` statement for the device and a call of the emulator's twin. `asm_statements` reads
the statements, `Warp` carries them out for 32 lanes. Source: NVIDIA, PTX ISA 8.x, "Warp Level Matrix Instructions" and
"Data Movement and Conversion Instructions".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_FUNCTION = re.compile(r"__device__ __forceinline__ \w+ (\w+)\([^{]*\) \{\n#ifdef __CUDA_ARCH__\n(.*?)#else", re.DOTALL)
_OPERAND = re.compile(r'"([^"]+)"\s*\(((?:[^()]|\([^()]*\))*)\)')
LANES = np.arange(32)
_GROUP, _PAIR = LANES // 4, LANES % 4 * 2  # the row and the first of two columns that a lane holds of an 8 x 8 matrix


@dataclass(frozen=True)
class Asm:
    """An inline statement: its PTX, the constraint and the C++ expression of each operand, what else it may change."""

    text: str
    outputs: list[tuple[str, str]]
    inputs: list[tuple[str, str]]
    clobbers: set[str]
    volatile: bool


def asm_statements(source: str) -> dict[str, Asm]:
    """The statements of a source by the name of the function that holds each."""
    found = {}
    for name, body in _FUNCTION.findall(source):
        for volatile, inside in re.findall(r"\basm( volatile)?\s*\((.*?)\);", body, re.DOTALL):
            assert name not in found, f"{name} holds two statements"
            template, outputs, inputs, clobbers = [*_parts(inside), "", "", ""][:4]
            text = "".join(re.findall(r'"([^"]*)"', template)).replace(r"\n", "\n")
            found[name] = Asm(
                text, _OPERAND.findall(outputs), _OPERAND.findall(inputs), set(re.findall(r'"(\w+)"', clobbers)),
                bool(volatile),
            )  # fmt: skip
    return found


def _parts(inside: str) -> list[str]:
    """What colons outside of strings divide."""
    strings = re.findall(r'"[^"]*"', inside)
    bare = re.sub(r'"[^"]*"', '"', inside)
    return [re.sub('"', lambda _: strings.pop(0), part) for part in bare.split(":")]


@dataclass
class Warp:
    """32 lanes: `values` by C++ expression, (32,) each; bytes of shared and global memory; copies under way."""

    values: dict[str, np.ndarray]
    shared: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    memory: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    groups: list[list[tuple[int, np.ndarray]]] = field(default_factory=lambda: [[]])

    def run(self, asm: Asm) -> None:
        """Carry a statement out. AssertionError for what is unknown, or is not said to the compiler as it must be."""
        operands = [*asm.outputs, *asm.inputs]
        for line in filter(str.strip, asm.text.split(";")):
            opcode, _, rest = line.strip().partition(" ")
            given = [re.findall(r"%?\w+", part) for part in re.findall(r"\{[^}]*\}|\[[^]]*\]|[^,\s]+", rest)]
            known = [(step, match) for pattern, step in _INSTRUCTIONS if (match := re.fullmatch(pattern, opcode))]
            assert known, f"no meaning is known of {opcode!r}"
            if opcode.startswith(("ldmatrix", "cp.async")):  # which touch memory
                assert asm.volatile, f"{opcode}: the compiler may move it, it is not volatile"
                assert "memory" in asm.clobbers, f"{opcode}: the compiler may move accesses of memory beyond it"
            step, match = known[0]
            step(self, match, [[self._operand(word, operands) for word in words] for words in given])

    def _operand(self, word: str, operands: list[tuple[str, str]]) -> Operand:
        if word.startswith("%"):
            return Operand(self, *operands[int(word[1:])])
        return Operand(self, "n", word)


@dataclass(frozen=True)
class Operand:
    """A register or a number of the text, as the statement names it."""

    warp: Warp
    constraint: str
    expression: str

    def read(self, kind: str) -> np.ndarray:
        """Its values. `kind`: the constraint that they must have: r and l whole numbers of 32 and 64 bits, f floats."""
        assert self.constraint in (kind, f"+{kind}", "n"), f"{self.expression} is {self.constraint!r}, not {kind!r}"
        if self.expression.isdecimal():
            return np.full(32, int(self.expression))
        return self.warp.values[self.expression]

    def write(self, kind: str, values: np.ndarray) -> None:
        assert self.constraint in (f"={kind}", f"+{kind}"), f"{self.expression} is {self.constraint!r}, not '={kind}'"
        self.warp.values[self.expression] = values


def _multiply(warp: Warp, match: Any, operands: list[list[Operand]]) -> None:
    """mma.m16n8k16: D = A B + C, of which lane 4 g + t holds what `emulator::combine_mma_m16n8k16` has in words."""
    d, a, b, c = operands
    assert [len(x) for x in operands] == [4, 4, 2, 4]
    left, right, total = np.zeros((16, 16)), np.zeros((16, 8)), np.zeros((16, 8))
    for i in range(2):
        for register in range(4):
            left[_GROUP + register % 2 * 8, _PAIR + i + register // 2 * 8] = _halves(a[register].read("r"))[:, i]
        for register in range(2):
            right[_PAIR + i + register * 8, _GROUP] = _halves(b[register].read("r"))[:, i]
    for e in range(4):
        total[_GROUP + e // 2 * 8, _PAIR + e % 2] = c[e].read("f")
    total += left @ right
    for e in range(4):
        d[e].write("f", total[_GROUP + e // 2 * 8, _PAIR + e % 2].astype(np.float32))


def _load_matrices(warp: Warp, match: Any, operands: list[list[Operand]]) -> None:
    """ldmatrix: lane i names the row i % 8 of matrix i / 8; a lane gets two neighbours, of a row or of a column."""
    registers, (address,) = operands
    count, transposed = int(match[1]), match[2] is not None
    assert len(registers) == count
    for number, register in enumerate(registers):
        starts = address.read("r")[8 * number : 8 * number + 8]
        matrix = np.stack([warp.shared[start : start + 16] for start in starts]).view(np.uint16).astype(np.uint32)
        low, high = (matrix.T if transposed else matrix)[_GROUP[:, None], _PAIR[:, None] + [0, 1]].T
        register.write("r", high << 16 | low)


def _copy(warp: Warp, match: Any, operands: list[list[Operand]]) -> None:
    """cp.async: 16 bytes, of which the first are the source's and the rest zero; they come when they are waited for."""
    (target,), (source,), (size,), (valid,) = operands
    assert (size.read("n") == 16).all()
    for to, start, length in zip(target.read("r"), source.read("l"), valid.read("r"), strict=True):
        data = np.zeros(16, np.uint8)
        data[:length] = warp.memory[start : start + length]
        warp.groups[-1].append((to, data))


def _commit(warp: Warp, match: Any, operands: list[list[Operand]]) -> None:
    assert not operands
    warp.groups.append([])


def _wait(warp: Warp, match: Any, operands: list[list[Operand]]) -> None:
    (number,) = operands[0]
    under_way = int(number.read("n")[0])
    while len(warp.groups) - 1 > under_way:  # the last one is open
        for to, data in warp.groups.pop(0):
            warp.shared[to : to + 16] = data


def _exponential(warp: Warp, match: Any, operands: list[list[Operand]]) -> None:
    (d,), (a,) = operands
    found = np.exp2(a.read("f").astype(np.float64))
    d.write("f", np.where(found < np.finfo(np.float32).tiny, 0, found).astype(np.float32))


def _halves(register: np.ndarray) -> np.ndarray:
    """Both float16 of a register of each lane, (32, 2), the lower half first."""
    return np.ascontiguousarray(register, np.uint32).view(np.float16).reshape(32, 2)


#: What an opcode does.
_INSTRUCTIONS = [
    (r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16\.f16\.f32", _multiply),
    (r"ldmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared\.b16", _load_matrices),
    (r"cp\.async\.cg\.shared\.global", _copy),
    (r"cp\.async\.commit_group", _commit),
    (r"cp\.async\.wait_group", _wait),
    (r"ex2\.approx\.ftz\.f32", _exponential),
]
