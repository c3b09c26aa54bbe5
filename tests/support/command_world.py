"""The folder in which command lines are tried (small data, a run of each example), and checks of what they did."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from handloom.train.cli.options import OptionParser
from tests.support.in_process import load, run, tree_digest

PAIRS = ("translate_de_en", "translate_en_fr", "summarize_news", "paraphrase_coco")
EXAMPLES = (*PAIRS, "classify_news", "generate_text")
DATA = {
    "translate_de_en": "de_en.tsv", "translate_en_fr": "en_fr.tsv", "summarize_news": "news.jsonl",
    "paraphrase_coco": "captions.tsv", "classify_news": "news.jsonl", "generate_text": "text.txt",
}  # fmt: skip


@dataclass
class Case:
    """A command line.

    Attributes:
        program, arguments: what is typed.
        code: the exit code that is expected; None for 0 or 2.
        says: a part of the error.
        spoil: called with the folder that it runs in, a copy of the world, before it runs.
        stdin: what it reads.
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


def build(folder: Path, programs: Sequence[str] = EXAMPLES) -> None:
    """Small data of every kind, and a run of each of these examples in `folder/EXAMPLE`."""
    for name, lines in small_data().items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    for program in programs:
        done = run(program, *train(program), "--out", program, folder=folder)
        assert done.complaint() == "", done.err


def small_data() -> dict[str, list[str]]:
    """The lines of a file for each example: sentences of three words that can vary."""
    nouns = {"Hund": "dog", "Vogel": "bird", "Fisch": "fish", "Mann": "man", "Baum": "tree", "Ball": "ball"}
    colours = {"rote": "red", "alte": "old", "neue": "new", "kleine": "small"}
    verbs = {"ist hier": "is here", "schläft": "sleeps", "ist weg": "is gone"}
    pairs = [
        (f"Der {a} {n} {v}.", f"The {b} {m} {w}.")
        for (n, m), (a, b), (v, w) in itertools.product(nouns.items(), colours.items(), verbs.items())
    ]
    articles = [
        {"category": ("CATS", "DOGS")[i % 2], "headline": english, "short_description": f"They say: {english}"}
        for i, (_, english) in enumerate(pairs)
    ]
    return {
        "de_en.tsv": ["\t".join(pair) for pair in pairs],
        "en_fr.tsv": [f"{english}\tLe {english.lower()}" for _, english in pairs],
        "news.jsonl": [json.dumps(article) for article in articles],
        "captions.tsv": [f"{i}\t{text}" for i, (_, text) in enumerate(pairs) for text in (text, f"Look: {text}")],
        "text.txt": [english for _, english in pairs] * 4,
    }


def train(program: str) -> list[str]:
    """The options of a training of two updates."""
    few = ["--beam", "1", "--set", "test_size=3"] if program in PAIRS else []
    few += ["--table", "none", "--length", "9", "--set", "length=16"] if program == "generate_text" else []
    return ["--data", DATA[program], "--preset", "smoke", "--steps", "2", *few]


class ParserFoundError(Exception):
    """Carries a parser out of an example."""


def parser_of(program: str) -> OptionParser:
    """The parser of an example."""
    module = load(program)

    def capture(parser: OptionParser) -> NoReturn:
        raise ParserFoundError(parser)

    parse, module.parse_example = module.parse_example, capture  # type: ignore[attr-defined]
    try:
        module.parse_arguments()
    except ParserFoundError as found:
        return found.args[0]
    finally:
        module.parse_example = parse  # type: ignore[attr-defined]
    raise AssertionError(f"{program} makes no parser")


class World:
    """The folder in which command lines run: built once, restored whenever one may have changed it."""

    def __init__(self, folder: Path, programs: Sequence[str] = EXAMPLES):
        self.original, self.folder = folder / "original", folder / "world"
        self.original.mkdir()
        build(self.original, programs)
        self._renew()

    def _renew(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.original, self.folder, symlinks=True)

    def judge(self, case: Case) -> str:
        """What is wrong with the outcome of a command line; "" if nothing is."""
        if case.spoil is not None:
            case.spoil(self.folder)
        before = tree_digest(self.folder)
        done = run(case.program, *case.arguments, folder=self.folder, stdin=case.stdin)
        if done.code in (130, 143):
            raise KeyboardInterrupt  # the signal is for the whole sweep
        touched = tree_digest(self.folder) != before
        if touched or case.spoil is not None:
            self._renew()
        try:
            complaint = done.complaint()
        except AssertionError as error:
            return str(error)
        if case.code is not None and done.code != case.code:
            return f"exit code {done.code} where {case.code} is expected: {complaint or done.out[-300:]}"
        if done.code and case.says not in complaint:
            return f"it does not say {case.says!r}: {complaint}"
        if touched and (done.code or "--checkpoint" in case.arguments):
            return f"files were changed: {complaint}"
        return ""
