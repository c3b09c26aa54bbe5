"""Command lines that should fail, or might: for all examples, odd texts and every kind of damaged file.

    python -m tests.command_sweep                all of them, some 700; what is wrong is printed
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
import os
import runpy
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from handloom.arguments import Parser
from handloom.train.cli.options import OptionParser
from tests.support.examples import EXAMPLES as FOLDER
from tests.support.examples import Example

PAIRS = ("translate_de_en", "translate_en_fr", "summarize_news", "paraphrase_coco")
EXAMPLES = (*PAIRS, "classify_news", "generate_text")


class Case(NamedTuple):
    """A command line; `code` None means 0 or 2, `says` is a part of the error, `file` a file's new content."""

    program: str
    arguments: list[str]
    code: int | None = 2
    says: str = ""
    file: tuple[str, Callable[[bytes], bytes]] | None = None
    stdin: bytes = b""


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


def runs(program: str) -> Iterator[Case]:
    """Options without sense, runs of other examples, runs that have ended, and folders that can't be written."""
    for typed in "--nonsense", "--set", "--lr", "--ema=1", "--overwrite", "--device=tpu", "--teacher=nowhere":
        yield Case(program, [*train(program), typed])
    for other in sorted({*EXAMPLES} - {program}):
        for typed in (["--checkpoint", other, "A"], ["--resume", other], [*train(program), "--teacher", other]):
            yield Case(program, typed, says="run")
    yield Case(program, ["--resume", program, "--steps", "1"], says="already made 2 updates")
    outs = {program: "exists already", "en.txt/new": "a file has this name", ".": "not empty", "x" * 300: "too long"}
    for out, says in outs.items():
        yield Case(program, [*train(program), "--out", out], says=says)
    for folder in ("nowhere", "en.txt", ".", "", "x" * 300, f"{program}/config.json"):
        yield Case(program, ["--checkpoint", folder, "The dog"])


def texts(program: str) -> Iterator[Case]:
    """Texts for a model to read."""
    use, utf16 = ["--checkpoint", program], "The dog\n".encode("utf-16-le")
    yield Case(program, [*use, "The dog", os.fsdecode("schön".encode("latin-1"))], says="not UTF-8")
    for text in ("", "\t", "\u4e2d\u6587", "a" * 2000, "x\ud7ff", "<pad>", "<eos> <bos>", "\u202e\u0301", "A\nB"):
        yield Case(program, [*use, text], None)
    for stdin in (b"sch\xf6n\n", b"\xff\xfe" + utf16, utf16, b"\0", b"\xff" * 99):
        yield Case(program, use, says="standard input", stdin=stdin)
    for stdin in (b"", b"\n\n \n", b"\xef\xbb\xbfThe dog\r\n"):
        yield Case(program, use, 0, stdin=stdin)
    yield Case(program, [*use, "--interactive"], 0, stdin=b"The dog\n\n \nThe cat")
    yield Case(program, [*use, "--interactive"], stdin=b"The dog\nsch\xf6n\n")


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


def data(program: str) -> Iterator[Case]:
    """Each of `FILES` as data, and names that are not files."""
    options = [*train(program)[2:], "--out", "new"]
    for name, content in FILES.items():
        code = None if program == "generate_text" and name in TEXT else 2
        yield Case(program, ["--data", name, *options], code, file=(name, lambda _, c=content: c))
    for name in ("nothing", "", ".", "/dev/null", "/dev/zero", "/proc/self/mem", "loop", "x" * 300, "en.txt/x",
                 os.fsdecode(b"sch\xf6n"), "runs\u2028"):  # fmt: skip
        yield Case(program, ["--data", name, *options])


#: A kind of damage -> what becomes of a file's content.
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "a bit": lambda content: content[: (at := len(content) * 3 // 4)] + bytes([content[at] ^ 4]) + content[at + 1 :],
    "noise": lambda content: NOISE,
    "deep": lambda content: b"[" * 100_000,
    "list": lambda content: b"[1]",
    "pickle": lambda content: b"PK\x03\x04 rubbish",
}


def run_files(program: str) -> Iterator[Case]:
    """Every file of a run with every kind of damage, for everything that reads it."""
    files = "config.json", "tokenizer.json", "model.safetensors"
    for name, (kind, change) in itertools.product(files, DAMAGES.items()):
        code, file = None if (name, kind) == ("config.json", "a bit") else 2, (f"{program}/{name}", change)
        yield Case(program, ["--checkpoint", program, "The dog"], code, file=file)
        if name != "model.safetensors":
            yield Case(program, ["--resume", program], code, file=file)


GROUPS = {group.__name__: group for group in (runs, texts, data, run_files)}


class World:
    """The folder in which command lines run, with small data and a run of each example, restored after changes."""

    def __init__(self, folder: Path, programs: Sequence[str] = EXAMPLES):
        self.original, self.folder = folder / "original", folder / "world"
        self.original.mkdir()
        (self.original / "loop").symlink_to("loop")
        words = itertools.product(("red", "old", "new", "small"), ("dog", "bird", "fish", "man"), ("sleeps", "is here"))
        english = [f"The {colour} {noun} {verb}." for colour, noun, verb in words] * 2
        news = [{"category": "CATS" if i % 2 else "DOGS", "headline": text} for i, text in enumerate(english)]
        lines = {"classify_news": map(json.dumps, news), "generate_text": english * 4, "en": english}
        for name in {*lines, *EXAMPLES}:
            own = lines.get(name, (f"{i} {text.upper()}\t{text}" for i, text in enumerate(english)))
            (self.original / f"{name}.txt").write_text("\n".join(own) + "\n", encoding="utf-8")
        for program in programs:
            Example(f"{program}.py", self.original, pictures=False).succeeds(*train(program), "--out", program)
        self._renew()

    def _renew(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.original, self.folder, symlinks=True)

    def judge(self, case: Case) -> str:
        """What is wrong with the outcome of a command line; "" if nothing is."""
        if case.file is not None:
            file, change = self.folder / case.file[0], case.file[1]
            file.write_bytes(change(file.read_bytes() if file.exists() else b""))
        before = digest(self.folder)
        example = Example(f"{case.program}.py", self.folder, pictures=False, warnings="always")
        done = example.run(*case.arguments, stdin=case.stdin)
        touched = digest(self.folder) != before
        if touched or case.file is not None:
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
    groups = parser.parse_args().only or GROUPS
    cases = [case for name in groups for program in EXAMPLES for case in GROUPS[name](program)]
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        problems = [f"{case}\n    {problem}" for case in cases if (problem := world.judge(case))]
    print(*problems, f"{len(cases):,} command lines, {len(problems)} went wrong", sep="\n")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
