"""Command lines that should fail, or might: for all examples, every option and every kind of damaged file.

    python -m tests.command_sweep                all of them, some 2,300, in ten minutes; what is wrong is printed
    python -m tests.command_sweep --only data    those of one group

The verdict on each: no traceback; exit code 0 or 2, and the expected one where it is known; an error is one line that
begins with "error: " and contains the expected words; a command that is refused leaves every file as it was, and so
does the use of a model. `tests/test_command_sweep.py` runs a selection of them.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import math
import os
import runpy
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom.arguments import Parser, Whole, path
from handloom.models.fields import plain_kind
from handloom.train.cli.options import OfKind, OptionParser, share
from handloom.train.runs.checkpoints import load_checkpoint, save_checkpoint
from tests.support.examples import EXAMPLES as FOLDER
from tests.support.examples import Done, Example

PAIRS = ("translate_de_en", "translate_en_fr", "summarize_news", "paraphrase_coco")
EXAMPLES = (*PAIRS, "classify_news", "generate_text")
MODULES = {"report": "handloom.train.report", "sweep": "handloom.train.sweep"}


@dataclass
class Case:
    """A command line.

    Attributes:
        program, arguments: what is typed.
        code: the expected exit code; None for 0 or 2.
        says: a part of the error.
        spoil: called with the folder that it runs in before it runs.
        stdin: what it reads.
        note: what distinguishes it from others.
    """

    program: str
    arguments: list[str]
    code: int | None = 2
    says: str = ""
    spoil: Callable[[Path], None] | None = None
    stdin: bytes = b""
    note: str = ""

    def __str__(self) -> str:
        shown = " ".join(argument if len(argument) < 40 else f"{argument[:40]}..." for argument in self.arguments)
        return f"{self.program} {shown}{f'   ({self.note})' if self.note else ''}"


def train(program: str) -> list[str]:
    """The options of a training of two updates."""
    few = ["--beam", "1", "--set", "test_size=3"] if program in PAIRS else []
    few += ["--table", "none", "--length", "9", "--set", "length=16"] if program == "generate_text" else []
    return ["--data", f"{program}.txt", "--preset", "smoke", "--steps", "2", *few]


def parser_of(program: str) -> OptionParser:
    """The parser of an example, caught where the example parses."""

    def capture(parser: OptionParser) -> None:
        raise LookupError(parser)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handloom.train.cli.examples.parse_example", capture)
        parse = runpy.run_path(str(FOLDER / f"{program}.py"))["parse_arguments"]
    with pytest.raises(LookupError) as found:
        parse()
    return found.value.args[0]


def each(lines: str) -> list[list[str]]:
    """The options of several command lines, separated by |."""
    return [line.split() for line in lines.split("|")]


def wrong_for(kind: Any) -> tuple[str, ...]:
    """Values that an option's type refuses."""
    if isinstance(kind, Whole):
        return ("x", "", "1.5", "nan", "9" * 30, f"{kind.low - 1}", f"{kind.high + 1}")
    if not isinstance(kind, OfKind):
        return ("",) if kind is path else ()
    _, bounds = plain_kind(kind.kind)
    beyond = (f"{bounds.low - 1:g}", *([] if bounds.high == math.inf else [f"{bounds.high + 1:g}"]))
    return ("x", "", "nan", "1e400", "none", *beyond)


def values() -> Iterator[Case]:
    """Every option of every example with values of other kinds and out of range."""
    for program in EXAMPLES:
        parser, new = parser_of(program), [*train(program), "--out", "new"]
        for name, option in parser._options.items():
            for value in wrong_for(option.type) + (("nonsense", "") if option.choices else ()):
                yield Case(program, [f"{parser.spelled(name)}={value}"], says=parser.spelled(name))
        for typed in each("--nonsense | --set | --lr | --ema=1 | --overwrite | --device=tpu | --teacher=nowhere"):
            yield Case(program, [*new[:-2], *typed])
        # A language model's heads are as wide as they like, and characters as many as there are; nothing is padded.
        for one, idle in ("--set=d_model=7", 0), ("--set=vocab_size=2", 0), ("--pad-to=999999999", 1):
            yield Case(program, [*new, one], None if idle ^ (program == "generate_text") else 2)


def uses() -> Iterator[Case]:
    """Every option where it has no use: with a trained model, without one, for a resumed run; runs of others."""
    named = {"set": "layers=3", "ema": "0.5", "schedule": "linear", "monitor": "valid_loss", "optimizer": "sgd"}
    named |= {"positions": "none", "table": "none"}
    for program in EXAMPLES:
        parser, new = parser_of(program), [*train(program), "--out", "new"]
        for name, option in parser._options.items():
            own = [parser.spelled(name)] if option.option_strings else []
            count = option.nargs if isinstance(option.nargs, int) else 1
            typed = [*own, *[f"{option.default or named.get(name, 1)}"] * count]
            if "checkpoint" not in parser.uses[name]:
                yield Case(program, ["--checkpoint", program, *typed, "--", "The dog"], says="for training")
            asks = parser.shipped and name in ("texts", "interactive")  # the shipped model answers
            if parser.uses[name] == {"checkpoint"} and name != "checkpoint" and not asks:
                yield Case(program, typed, says="add --checkpoint")
            if "resume" not in parser.uses[name]:
                other = "0.5" if option.type is share else "7" if isinstance(option.type, Whole | OfKind) else "other"
                other = list(option.choices)[-1] if option.choices else "layers=3" if name == "set" else other
                yield Case(program, ["--resume", program, *own, *[other] * count])
        for other in sorted({*EXAMPLES} - {program}):
            for typed in (["--checkpoint", other, "A"], ["--resume", other], [*new, "--teacher", other]):
                yield Case(program, typed, says="run")
        yield Case(program, ["--resume", program, "--steps", "1"], says="already made 2 updates")
        yield Case(program, ["--resume", program, "--stop-at", "1"], says="--stop-at 1: the run is at step 2")
        for out, says in {program: "exists already", "en.txt/new": "a file is in the way", ".": "not empty",
                          "x" * 300: "too long"}.items():  # fmt: skip
            yield Case(program, [*train(program), "--out", out], says=says)


def texts() -> Iterator[Case]:
    """Texts for a model to read."""
    latin, utf16 = os.fsdecode("schön".encode("latin-1")), "The dog\n".encode("utf-16-le")
    for program in EXAMPLES:
        use = ["--checkpoint", program]
        yield Case(program, [*use, "The dog", latin], says="not UTF-8")
        for text in ("", "\t", "\u4e2d\u6587", "a" * 2000, "x\ud7ff", "<pad>", "<eos> <bos>", "\u202e\u0301", "A\nB"):
            yield Case(program, [*use, text], None)
        for stdin in (b"sch\xf6n\n", b"\xff\xfe" + utf16, utf16, b"\0", b"\xff" * 99):
            yield Case(program, use, says="standard input", stdin=stdin, note=repr(stdin[:12]))
        for stdin in (b"", b"\n\n \n", b"\xef\xbb\xbfThe dog\r\n"):
            yield Case(program, use, 0, stdin=stdin, note=repr(stdin[:12]))
        yield Case(program, [*use, "--interactive"], 0, stdin=b"The dog\n\n \nThe cat", note="asked")
        yield Case(program, [*use, "--interactive"], stdin=b"The dog\nsch\xf6n\n", note="asked")
        for folder in ("nowhere", "en.txt", ".", "", "x" * 300, f"{program}/config.json"):
            yield Case(program, ["--checkpoint", folder, "The dog"])
    for typed in each("--temperature 1e-300 | --temperature 1e300 | --top-p 1e-300 | --repetition-penalty 100"):
        yield Case("generate_text", ["--checkpoint", "generate_text", "--length", "20", *typed, "The dog"], 0)
    for typed in each("--length-penalty 100 | --coverage-penalty 100 | --beam 1000 | --max-length 999999999"):
        yield Case("translate_de_en", ["--checkpoint", "translate_de_en", *typed, "Der Hund"], 0)


GOOD = b"Hund\tdog\n" * 9
NOISE = np.random.default_rng(0).bytes(5000)
#: The contents of files that are not valid data, by name.
FILES = {
    "empty": b"", "blank": b"\n \n\t\n\n", "one line": b"Hund\tdog\n", "no line end": b"A",
    "latin-1": "schön\tnice\n".encode("latin-1") * 9, "utf-16": GOOD.decode().encode("utf-16"),
    "utf-16 without a mark": GOOD.decode().encode("utf-16-le"), "utf-32": GOOD.decode().encode("utf-32-be"),
    "NUL": GOOD + b"a\0b\tc\n" + GOOD, "noise": NOISE, "cut.gz": gzip.compress(GOOD * 99)[:-9], "no gzip.gz": GOOD,
    "deep.jsonl": b'{"category": "A", "headline": ' + b"[" * 100_000 + b"\n",
    "cut.jsonl": b'{"category": "A", "headline": "x"}\n{"cat',
    "numbers.jsonl": b'{"category": 1, "headline": 2, "de": 3, "en": 4}\n' * 9,
    "escapes.jsonl": b'{"category": "A", "headline": "\\ud800", "de": "\\u0000", "en": "x"}\n' * 9,
    "columns.tsv": b"a\tb\tc\td\te\n" * 9, "same.tsv": GOOD,
    "long.tsv": b"lang " * 20_000 + b"\t" + b"long " * 20_000 + b"\n",
}  # fmt: skip
#: Those that hold text: a language model needs no columns.
TEXT = {"blank", "one line", "no line end", *(name for name in FILES if name.endswith(("jsonl", "tsv")))}


def data() -> Iterator[Case]:
    """Each of `FILES` as the data of every example, and names that are not files."""
    for program in EXAMPLES:
        options = [*train(program)[2:], "--out", "new"]
        for name, content in FILES.items():
            code = None if program == "generate_text" and name in TEXT else 2
            yield Case(program, ["--data", name, *options], code, spoil=put(name, lambda _, c=content: c))
        for name in ("nothing", "", ".", "/dev/null", "/dev/zero", "/proc/self/mem", "loop", "x" * 300, "en.txt/x",
                     os.fsdecode(b"sch\xf6n"), "runs\u2028"):  # fmt: skip
            yield Case(program, ["--data", name, *options], spoil=put("loop", None))
    for name, content in FILES.items():
        typed = [name, "--vocab-size", "270", "--out", "new"]
        code = None if name in TEXT else 2
        yield Case("explore_tokenizer", typed, code, spoil=put(name, lambda _, c=content: c))


def put(name: str, change: Callable[[bytes], bytes] | None) -> Callable[[Path], None]:
    """A function that changes a file below a folder; None makes it a link to itself."""

    def spoil(folder: Path) -> None:
        file = folder / name
        content = file.read_bytes() if file.exists() else b""
        if change is None:
            file.unlink(missing_ok=True)
            file.symlink_to(file.name)
        else:
            file.write_bytes(change(content))

    return spoil


def poison(program: str) -> Callable[[Path], None]:
    """A function that puts NaN into the weights of a run."""

    def spoil(folder: Path) -> None:
        tensors, config = load_checkpoint(folder / program)
        tensors["output.weight"][0, 0] = np.nan
        save_checkpoint(folder / program, tensors, config)

    return spoil


#: A kind of damage -> what becomes of a file's content.
DAMAGES: dict[str, Callable[[bytes], bytes] | None] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "a bit": lambda content: content[: (at := len(content) * 3 // 4)] + bytes([content[at] ^ 4]) + content[at + 1 :],
    "noise": lambda content: NOISE,
    "deep": lambda content: b"[" * 100_000,
    "list": lambda content: b"[1]",
    "pickle": lambda content: b"PK\x03\x04 rubbish",
    "loop": None,
}


def run_files() -> Iterator[Case]:
    """Every file of a run with every kind of damage, for everything that reads it."""
    for program in EXAMPLES:
        files = "config.json", "tokenizer.json", "model.safetensors"
        for name, (kind, change) in itertools.product(files, DAMAGES.items()):
            how: dict[str, Any] = {"spoil": put(f"{program}/{name}", change), "note": f"{name}: {kind}"}
            how["code"] = None if (name, kind) == ("config.json", "a bit") else 2
            yield Case(program, ["--checkpoint", program, "The dog"], **how)
            if name != "model.safetensors":
                yield Case(program, ["--resume", program], **how)
        yield Case(program, ["--checkpoint", program, "The dog"], says="finite", spoil=poison(program), note="NaN")
    program = "classify_news"  # the quickest
    saves = [f"checkpoints/{part}-00000002.safetensors" for part in ("state", "weights")]
    for name, (kind, change) in itertools.product([*saves, "metrics.jsonl", "timings.jsonl"], DAMAGES.items()):
        how = {"spoil": put(f"{program}/{name}", change), "note": f"{name}: {kind}", "code": None}
        yield Case(program, ["--resume", program], **how)
        yield Case("report", [program, "generate_text"], **how)


#: The programs that are not examples of a report: a beginning, and what may follow it.
PROGRAMS = {
    "compare_attention --preset smoke --out new":
        "--steps 0 | --lengths | --lengths 999999999 | --data nothing | --device tpu | --out en.txt | --document 0 | "
        "--out classify_news | --table lengths --steps 3 | --table training --lengths 64 | --batch 999999999",
    "explore_tokenizer en.txt --vocab-size 270 --out new":
        "--pattern ( | --pattern= | --vocab-size 3 | --out en.txt | nothing | . | --out classify_news",
    "report":
        "| nothing | en.txt | . | classify_news --picture en.txt/x.png | classify_news --table . | --nonsense",
    "sweep":
        "| --out s --grid x -- x.py | --out s --grid a=1 -- x | --nonsense | --out en.txt --grid a=1 -- en.txt",
}  # fmt: skip


def programs() -> Iterator[Case]:
    """The programs that are not examples of a report; --help of all."""
    for beginning, ends in PROGRAMS.items():
        name, *options = beginning.split()
        yield from (Case(name, [*options, *typed]) for typed in each(ends))
    for program in (*EXAMPLES, *(beginning.split()[0] for beginning in PROGRAMS)):
        yield Case(program, ["--help"], 0)


GROUPS = {group.__name__: group for group in (values, uses, texts, data, run_files, programs)}


class World:
    """The folder in which command lines run, with small data and a run of each example, restored after changes."""

    def __init__(self, folder: Path, programs: Sequence[str] = EXAMPLES):
        self.original, self.folder = folder / "original", folder / "world"
        self.original.mkdir()
        words = itertools.product(("red", "old", "new", "small"), ("dog", "bird", "fish", "man"), ("sleeps", "is here"))
        english = [f"The {colour} {noun} {verb}." for colour, noun, verb in words] * 2
        news = [{"category": "CATS" if i % 2 else "DOGS", "headline": text} for i, text in enumerate(english)]
        lines = {"classify_news": map(json.dumps, news), "generate_text": english * 4, "en": english}
        for name in {*lines, *EXAMPLES}:
            own = lines.get(name, (f"{i} {text.upper()}\t{text}" for i, text in enumerate(english)))
            (self.original / f"{name}.txt").write_text("\n".join(own) + "\n", encoding="utf-8")
        for program in programs:
            done = self.run(Case(program, [*train(program), "--out", program]), self.original)
            assert done.code == 0, done.err
        self._renew()

    def _renew(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.original, self.folder, symlinks=True)

    def run(self, case: Case, folder: Path) -> Done:
        script = MODULES.get(case.program, f"{case.program}.py")
        return Example(script, folder, pictures=False, warnings="always").run(*case.arguments, stdin=case.stdin)

    def judge(self, case: Case) -> str:
        """What is wrong with the outcome of a command line; "" if nothing is."""
        if case.spoil is not None:
            case.spoil(self.folder)
        before = digest(self.folder)
        done = self.run(case, self.folder)
        touched = digest(self.folder) != before
        if touched or case.spoil is not None:
            self._renew()
        said = [line for line in done.err.splitlines() if line and not line.startswith(("warning: ", "usage: "))]
        if "Traceback" in done.err or done.code not in ((0, 2) if case.code is None else (case.code,)):
            return f"exit code {done.code}: {done.err or done.out[-300:]}"
        if done.code and (len(said) != 1 or len(said[0]) > 900 or not said[0].startswith("error: ")):
            return f"it is not one line: {done.err}"
        if done.code and case.says not in said[0]:
            return f"it does not say {case.says!r}: {said[0]}"
        return f"files were changed: {said}" if touched and (done.code or "--checkpoint" in case.arguments) else ""


def digest(folder: Path) -> str:
    """A checksum of all names, links and bytes below a folder."""
    total = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        content = os.fsencode(os.readlink(file)) if file.is_symlink() else file.read_bytes() if file.is_file() else b""
        total.update(os.fsencode(file.relative_to(folder)) + b"\0%d " % file.is_symlink())
        total.update(hashlib.sha256(content).digest())
    return total.hexdigest()


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--only", choices=GROUPS, action="append", help="run this group")
    cases = [case for name in parser.parse_args().only or GROUPS for case in GROUPS[name]()]
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        problems = [f"{case}\n    {problem}" for case in cases if (problem := world.judge(case))]
    print(*problems, f"{len(cases):,} command lines, {len(problems)} went wrong", sep="\n")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
