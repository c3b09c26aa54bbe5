"""Translates the text of inline PTX to C++ for the emulator, so that PTX needs no second version in C++.

`asm volatile("ldmatrix...x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), ... : "r"(address) : "memory");` becomes
a block that reads the inputs, carries out the instruction (include/ptx.hpp) and writes the outputs. Source: NVIDIA, PTX
ISA 8.x, "Warp Level Matrix Instructions" and "Data Movement and Conversion Instructions", and "Inline PTX Assembly".
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

_STATEMENT = re.compile(r"\basm\b(?P<volatile>\s+volatile\b)?\s*\((?P<inside>(?:[^\"]|\"[^\"]*\")*?)\)\s*;")
_OPERAND = re.compile(r'"([^"]+)"\s*\(((?:[^()]|\([^()]*\))*)\)')
#: The C++ type of an operand by its constraint.
_TYPES = {"r": "unsigned", "l": "unsigned long long", "f": "float", "n": "int"}


class PtxError(ValueError):
    """The text is not PTX, or its declaration to the compiler is wrong. The message explains the error."""


@dataclass(frozen=True)
class Operand:
    """A register or a number in an instruction: its C++ text, constraint letter, and whether it may be written."""

    text: str
    kind: str
    written: bool = False

    def read(self, kind: str) -> str:
        """Return the C++ text that reads a register of type `kind`. A number is valid for every type."""
        if self.kind not in (kind, "n"):
            raise PtxError(f"the operand {self.text} has the constraint {self.kind!r}, not {kind!r}")
        return self.text

    def write(self, kind: str) -> str:
        if self.kind != kind or not self.written:
            raise PtxError(f"the operand {self.text} is written: its constraint must be '={kind}' or '+{kind}'")
        return self.text


@dataclass(frozen=True)
class Instruction:
    """One instruction: its opcode and its operands in order. `{...}` and `[...]` are lists of their contents."""

    opcode: str
    operands: list[list[Operand]]

    def lists(self, *lengths: int) -> list[list[Operand]]:
        if [len(x) for x in self.operands] != list(lengths):
            found = tuple(len(x) for x in self.operands)
            raise PtxError(f"{self.opcode} takes operands of {lengths} registers, not {found}")
        return self.operands


def translate(source: str) -> str:
    """Return the source with every inline statement translated to C++, on the same lines. Raises PtxError."""

    def put_in(match: re.Match[str]) -> str:
        return _statement(match["inside"], bool(match["volatile"])) + "\n" * match[0].count("\n")

    return _STATEMENT.sub(put_in, source)


def _statement(inside: str, volatile: bool) -> str:
    template, outputs, inputs, clobbers = [*_parts(inside), "", "", ""][:4]
    text = "".join(re.findall(r'"([^"]*)"', template)).replace(r"\n", "\n").replace(r"\t", " ")
    memory = "memory" in re.findall(r'"(\w+)"', clobbers)
    written, read = _OPERAND.findall(outputs), _OPERAND.findall(inputs)
    operands = [_operand(constraint, number) for number, (constraint, _) in enumerate(written + read)]
    before = []
    for operand, (constraint, expression) in zip(operands[len(written) :], read, strict=True):
        before.append(f"const {_TYPES[operand.kind]} {operand.text} = emulator::ptx::{constraint}({expression});")
    for operand, (constraint, expression) in zip(operands, written, strict=False):
        before.append(f"{_TYPES[operand.kind]}& {operand.text} = {expression};")
        if constraint.startswith("="):  # has no value yet
            before.append(f"emulator::ptx::unset({operand.text});")
    steps = [_step(line.strip(), operands, volatile, memory) for line in text.split(";") if line.strip()]
    if len(steps) > 1:
        raise PtxError(f"one instruction a statement, not {len(steps)}: {text!r}")
    place = "const emulator::Place ptx_place{__FILE__, __LINE__};"
    return "{ " + " ".join([place, *before, *steps]) + " }"


def _operand(constraint: str, number: int) -> Operand:
    kind = constraint.lstrip("=+")
    if kind not in _TYPES:
        raise PtxError(f"the constraint {constraint!r} is unknown; known are {', '.join(_TYPES)}, with = and +")
    return Operand(f"ptx{number}", kind, constraint != kind)


def _parts(inside: str) -> list[str]:
    """Return the parts between colons outside of strings and parentheses."""
    parts, depth = [""], 0
    for piece in re.findall(r'"[^"]*"|.', inside, re.DOTALL):
        depth += {"(": 1, ")": -1}.get(piece, 0)
        if piece == ":" and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _step(line: str, operands: list[Operand], volatile: bool, memory: bool) -> str:
    opcode, _, rest = line.partition(" ")
    known = [(write, match) for pattern, write in _INSTRUCTIONS if (match := re.fullmatch(pattern, opcode))]
    if not known:
        raise PtxError(f"no meaning is known of {opcode!r}")
    if opcode.startswith(("ldmatrix", "cp.async")) and not (volatile and memory):
        raise PtxError(f'{opcode}: it touches memory, so it must be "volatile" and clobber "memory"')
    given = [re.findall(r"[%\w]+", part) for part in re.findall(r"\{[^}]*\}|\[[^]]*\]|[^,\s]+", rest)]
    write, match = known[0]
    return write(match, Instruction(opcode, [[_named(word, operands) for word in words] for words in given]))


def _named(word: str, operands: list[Operand]) -> Operand:
    if not word.startswith("%"):
        return Operand(word, "n")
    if int(word[1:]) >= len(operands):
        raise PtxError(f"{word}: the statement has {len(operands)} operands")
    return operands[int(word[1:])]


def _list(operands: list[Operand], kind: str) -> str:
    return "{" + ", ".join(operand.read(kind) for operand in operands) + "}"


def _assign(operands: list[Operand], kind: str, found: str) -> str:
    """Return C++ that writes the array `found` to the operands."""
    writes = (f"{operand.write(kind)} = ptx_found[{i}];" for i, operand in enumerate(operands))
    return f"const auto ptx_found = {found}; {' '.join(writes)}"


def _multiply(match: re.Match[str], instruction: Instruction) -> str:
    d, a, b, c = instruction.lists(4, 4, 2, 4)
    operands = ", ".join([_list(a, "r"), _list(b, "r"), _list(c, "f")])
    return _assign(d, "f", f"emulator::ptx::mma_m16n8k16({operands}, ptx_place)")


def _load_matrices(match: re.Match[str], instruction: Instruction) -> str:
    registers, (address,) = instruction.lists(4, 1)
    transposed = str(match["trans"] is not None).lower()
    return _assign(registers, "r", f"emulator::ptx::ldmatrix_x4<{transposed}>({address.read('r')}, ptx_place)")


def _copy(match: re.Match[str], instruction: Instruction) -> str:
    """Return C++ for cp.async. The last operand is the number of valid bytes; the other bytes become zero."""
    (target,), (source,), (size,), (valid,) = instruction.lists(1, 1, 1, 1)
    if size.text != "16":
        raise PtxError(f"{instruction.opcode} copies 16 bytes, not {size.text}")
    arguments = target.read("r"), source.read("l"), size.text, valid.read("r"), "ptx_place"
    return f"emulator::ptx::copy_async({', '.join(arguments)});"


def _commit(match: re.Match[str], instruction: Instruction) -> str:
    instruction.lists()
    return "emulator::copy_async_commit();"


def _wait(match: re.Match[str], instruction: Instruction) -> str:
    ((number,),) = instruction.lists(1)
    return f"emulator::copy_async_wait({number.read('n')});"


def _exponential(match: re.Match[str], instruction: Instruction) -> str:
    (d,), (a,) = instruction.lists(1, 1)
    return f"{d.write('f')} = emulator::ptx::ex2_flushed({a.read('f')});"


_INSTRUCTIONS: list[tuple[str, Callable[[re.Match[str], Instruction], str]]] = [
    (r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16\.f16\.f32", _multiply),
    (r"ldmatrix\.sync\.aligned\.m8n8\.x4(?P<trans>\.trans)?\.shared\.b16", _load_matrices),
    (r"cp\.async\.cg\.shared\.global", _copy),
    (r"cp\.async\.commit_group", _commit),
    (r"cp\.async\.wait_group", _wait),
    (r"ex2\.approx\.ftz\.f32", _exponential),
]
