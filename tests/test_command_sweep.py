"""Run command lines that must or may fail: odd options, texts and damaged files, for the three kinds of tasks.

Each command must end without a traceback and with the expected exit code (0 or 2 if `code` is None). An error is one
line that begins with "error: " and contains the expected words. Refused commands and the use of a model change no file.
"""

import gzip
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.support.examples import Example

pytestmark = pytest.mark.slow

PROGRAMS = ("translate_de_en", "classify_news", "generate_text")
#: For each program, its own options for a training run of two updates.
OWN = {
    "translate_de_en": ["--beam", "1", "--set", "test_size=3"],
    "classify_news": [],
    "generate_text": ["--table", "none", "--length", "9", "--set", "length=16"],
}


class Case(NamedTuple):
    """A command line. If `code` is None, 0 or 2 is expected; the error contains `says`; `file` changes a file first."""

    arguments: list[str]
    code: int | None = 2
    says: str = ""
    file: tuple[str, Callable[[bytes], bytes]] | None = None
    stdin: bytes = b""


def train(program: str, data: str = "") -> list[str]:
    return ["--data", data or f"{program}.txt", "--preset", "smoke", "--steps", "2", *OWN[program]]


def runs(program: str, other: str) -> Iterator[Case]:
    """Yield cases with invalid options, a run of another task, a finished run, and unusable folders."""
    for typed in "--nonsense", "--set", "--ema=1", "--device=tpu", "--teacher=nowhere":
        yield Case([*train(program), typed])
    yield Case(["--checkpoint", other, "A"], says="its task is")
    for arguments in (["--resume", other], [*train(program), "--teacher", other]):
        yield Case(arguments, says="run")
    yield Case(["--resume", program, "--steps", "1"], says="already at step 2")
    for out, says in {program: "exists already", "en.txt/new": "a file has this name", "x" * 300: "too long"}.items():
        yield Case([*train(program), "--out", out], says=says)
    for folder in ("nowhere", "", f"{program}/config.json"):
        yield Case(["--checkpoint", folder, "The dog"])


def texts(program: str) -> Iterator[Case]:
    """Yield cases with texts as the input of a model."""
    use, utf16 = ["--checkpoint", program], "The dog\n".encode("utf-16-le")
    yield Case([*use, "The dog", os.fsdecode("schön".encode("latin-1"))], says="not UTF-8")
    for text in ("", "\u4e2d\u6587", "a" * 2000, "<eos> <bos>", "A\nB"):
        yield Case([*use, text], None)
    for stdin in (b"sch\xf6n\n", utf16, b"\0", b"The dog\rA cat\r"):
        yield Case(use, says="If the file is UTF-16" if b"\0" in stdin else "standard input", stdin=stdin)
    yield Case(use, 0, stdin=b"\xef\xbb\xbfThe dog\r\n\n")
    yield Case([*use, "--interactive"], stdin=b"The dog\nsch\xf6n\n")


GOOD, NOISE = b"Hund\tdog\n" * 9, np.random.default_rng(0).bytes(5000)
#: Contents of files that are not valid data, by file name.
FILES = {
    "empty": b"", "latin-1": "schön\tnice\n".encode("latin-1") * 9, "utf-16": GOOD.decode().encode("utf-16-le"),
    "NUL": GOOD + b"a\0b\tc\n" + GOOD, "noise": NOISE, "cut.gz": gzip.compress(GOOD * 99)[:-9], "no gzip.gz": GOOD,
    "deep.jsonl": b'{"category": "A", "headline": ' + b"[" * 100_000 + b"\n",
    "numbers.jsonl": b'{"category": 1, "headline": 2, "de": 3, "en": 4}\n' * 9, "same.tsv": GOOD,
}  # fmt: skip
#: For each kind of damage, a function that damages a file's content.
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[: len(content) // 2],
    "a bit": lambda content: content[: (at := len(content) * 3 // 4)] + bytes([content[at] ^ 4]) + content[at + 1 :],
    "pickle": lambda content: b"PK\x03\x04 rubbish",
}


def damaged(program: str) -> Iterator[Case]:
    """Yield cases with each of `FILES` as data, with names that are not files, and with damaged files of a run."""
    for name, content in FILES.items():
        code = None if program == "generate_text" and name.endswith(("jsonl", "tsv")) else 2  # it needs no columns
        yield Case([*train(program, name), "--out", "new"], code, file=(name, lambda _, c=content: c))
    for name in ("nothing", ".", "/dev/zero", "loop", os.fsdecode(b"sch\xf6n")):
        yield Case([*train(program, name), "--out", "new"])
    for name, (kind, change) in itertools.product(("config.json", "tokenizer.json"), DAMAGES.items()):
        code = None if (name, kind) == ("config.json", "a bit") else 2
        for use in (["--checkpoint", program, "The dog"], ["--resume", program]):
            yield Case(use, code, file=(f"{program}/{name}", change))
    yield Case(["--checkpoint", program, "A"], file=(f"{program}/model.safetensors", DAMAGES["a bit"]))


class World:
    """A folder for command lines. It contains small data and a run of each example, and is restored after changes."""

    def __init__(self, folder: Path):
        self.original, self.folder = folder / "original", folder / "world"
        self.original.mkdir()
        (self.original / "loop").symlink_to("loop")
        words = itertools.product(("red", "old", "new", "small"), ("dog", "bird", "fish", "man"), ("sleeps", "is here"))
        english = [f"The {colour} {noun} {verb}." for colour, noun, verb in words] * 2
        news = [{"category": "CATS" if i % 2 else "DOGS", "headline": text} for i, text in enumerate(english)]
        lines = {
            "translate_de_en": (f"{i} {text.upper()}\t{text}" for i, text in enumerate(english)),
            "classify_news": map(json.dumps, news), "generate_text": english * 4, "en": english,
        }  # fmt: skip
        for name, own in lines.items():
            (self.original / f"{name}.txt").write_text("\n".join(own) + "\n", encoding="utf-8")
        for program in PROGRAMS:
            Example(f"{program}.py", self.original, pictures=False).succeeds(*train(program), "--out", program)
        self._renew()

    def _renew(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.original, self.folder, symlinks=True)

    def judge(self, program: str, case: Case) -> str:
        """Run a command line and return what is wrong with the outcome, or "" if nothing is wrong."""
        if case.file is not None:
            file, change = self.folder / case.file[0], case.file[1]
            file.write_bytes(change(file.read_bytes() if file.exists() else b""))
        before = digest(self.folder)
        example = Example(f"{program}.py", self.folder, pictures=False, warnings="always")
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
    """Return a checksum of all names, links and bytes below a folder."""
    total = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        content = os.fsencode(os.readlink(file)) if file.is_symlink() else file.read_bytes() if file.is_file() else b""
        total.update(os.fsencode(file.relative_to(folder)) + b"\0%d " % file.is_symlink())
        total.update(hashlib.sha256(content).digest())
    return total.hexdigest()


def test_wrong_command_lines_end_in_one_line_and_change_no_file(tmp_path: Path) -> None:
    """Run every third case of each task, beginning with a different case for each task."""
    world, wrong = World(tmp_path), []
    for number, program in enumerate(PROGRAMS):
        cases = [*runs(program, PROGRAMS[number - 1]), *texts(program), *damaged(program)]
        for case in cases[number::3]:
            if problem := world.judge(program, case):
                wrong.append(f"{program} {case}: {problem}")
    assert not wrong, "\n".join(wrong)
