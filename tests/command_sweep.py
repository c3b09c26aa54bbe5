"""Command lines that should fail, or might: for all examples, every kind of file and of option.

    python -m tests.command_sweep                all of them, some 2,700, in ten minutes; what is wrong is printed
    python -m tests.command_sweep --only data    those of one group; --list prints them without running them

The verdict on each: no traceback; exit code 0 or 2, and the one that is expected where it is known; an error is one
line that begins with "error: ", and says what is expected; a command that is refused leaves every file as it was, and
so does the use of a model; what has no effect is refused. `tests/test_command_sweep.py` runs a selection of them.
"""

from __future__ import annotations

import gzip
import itertools
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from handloom.arguments import Parser, Whole, path
from handloom.models.fields import plain_kind
from handloom.train.cli.options import OfKind, share
from handloom.train.runs.checkpoints import load_checkpoint, save_checkpoint
from tests.support.command_world import EXAMPLES, Case, World, parser_of, train


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
    settings = (
        "| = | x=1 | d_model | d_model= | d_model=0 | d_model=-1 | d_model=1e3 | layers=10000000 | eps=0 | dropout=1 | "
        "dropout=nan | clip_norm=0 | lr_factor=0 | warmup=-1 | betas=1,1 | betas=0.9 | activation=x | positions=x | "
        "pattern=local:x | norm_first=2 | vocab_size=0 | schedule=x"
    )
    together = (
        "--set d_model=8 --set d_model=16 | --set lr=0.1 --schedule noam | --schedule cosine --set lr=0 | "
        "--set lr_factor=2 --schedule cosine --lr 1 | --lr 5 --schedule noam | --steps 3 --set steps=3 | --monitor=x | "
        "--device=tpu | --device=cuda:99 | --graphs | --stop-at=9 | --teacher=nowhere"
    )
    for program in EXAMPLES:
        parser, new = parser_of(program), [*train(program), "--out", "new"]
        for name, option in parser._options.items():
            for value in wrong_for(option.type) + (("nonsense", "") if option.choices else ()):
                yield Case(program, [f"{parser.spelled(name)}={value}"], says=parser.spelled(name))
        for typed in each("--nonsense | --set | --lr | --ema=1 | --lr=0 | --overwrite | a text"):
            if typed != ["a", "text"] or not parser.shipped:  # the shipped model translates it
                yield Case(program, typed)
        for setting in settings.split("|"):
            yield Case(program, [*new, "--set", setting.strip()], says="--set")
        for typed in each(together):
            yield Case(program, [*new, *typed])
        # A language model's heads are as wide as they like, and characters as many as there are; nothing is padded.
        for typed, idle in ("--set=d_model=7", 0), ("--set=vocab_size=2", 0), ("--pad-to=999999999", 1):
            yield Case(program, [*new, typed], None if idle ^ (program == "generate_text") else 2)


def uses() -> Iterator[Case]:
    """Every option where it has no use: with a trained model, without one, for a resumed run."""
    named = {"set": "layers=3", "ema": "0.5", "schedule": "linear", "monitor": "valid_loss", "optimizer": "sgd"}
    named |= {"positions": "none", "table": "none"}
    translates = (
        "--temperature 1 | --top-k 0 | --top-p 1 | --seed 0 | --sample --beam 5 | --nbest 6 | --interactive | "
        "--sample --length-penalty 1 | --beam 1 --length-penalty 1 | --sample --coverage-penalty 1 | --beam 10000 | "
        "--min-length 9 --max-length 8 | --min-length 100000 | --repetition-penalty 0"
    )
    writes = "--beam 2 --temperature 1 | --beam 2 --top-k 0 | --beam 2 --top-p 1 | --beam 2 --seed 0 | --nbest 0 | "
    useless = {"generate_text": writes + "--length-penalty 2 | --beam 2 --length 400 | --augment-share 1"}
    useless |= {"classify_news": "--interactive | --beam 1 | --seed 1"}
    asking = ("texts", "interactive")  # the shipped model answers
    for program in EXAMPLES:
        parser, new = parser_of(program), [*train(program), "--out", "new"]
        for name, option in parser._options.items():
            own = [parser.spelled(name)] if option.option_strings else []
            count = option.nargs if isinstance(option.nargs, int) else 1
            typed = [*own, *[f"{option.default or named.get(name, 1)}"] * count]
            if "checkpoint" not in parser.uses[name]:
                yield Case(program, ["--checkpoint", program, *typed, "--", "The dog"], says="for training")
            if parser.uses[name] == {"checkpoint"} and name != "checkpoint" and not (parser.shipped and name in asking):
                yield Case(program, typed, says="add --checkpoint")
            if "resume" not in parser.uses[name]:
                other = "0.5" if option.type is share else "7" if isinstance(option.type, Whole | OfKind) else "other"
                other = list(option.choices)[-1] if option.choices else "layers=3" if name == "set" else other
                yield Case(program, ["--resume", program, *own, *[other] * count])
        for typed in each(useless.get(program, translates)):
            yield Case(program, ["--checkpoint", program, *typed, "The dog"])
        for other in set(EXAMPLES) - {program}:
            yield Case(program, ["--checkpoint", other, "A"], says="run")
            yield Case(program, ["--resume", other], says="run")
            yield Case(program, [*new, "--teacher", other], says="run")
        yield Case(program, ["--checkpoint", program, "--resume", program], says="--resume is for training")
        yield Case(program, ["--resume", program, "--steps", "1"], says="updates already")
        yield Case(program, ["--resume", program, "--stop-at", "1"], says="--stop-at 1: the run is at step 2")
        for out, says in {
            program: "exists already", "text.txt": "a file is in the way", "text.txt/new": "a file is in the way",
            ".": "not empty", "x" * 300: "too long",
        }.items():  # fmt: skip
            yield Case(program, [*train(program), "--out", out], says=says)
    for program, typed, says in (
        ("translate_de_en", "--reverse --teacher translate_de_en", "translation from de to en"),
        ("translate_de_en", "--back-translate translate_de_en text.txt", "a run for translation from en to de"),
        ("generate_text", "--augment translate_en_fr translate_en_fr", "a run for translation from fr to en"),
        ("generate_text", "--teacher generate_text --tokenizer character", ""),
    ):
        yield Case(program, [*train(program), "--out", "new", *typed.split()], says=says)


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
        for folder in ("nowhere", "text.txt", ".", "", "x" * 300, f"{program}/config.json"):
            yield Case(program, ["--checkpoint", folder, "The dog"])
    extremes = (
        "--temperature 1e-300 | --temperature 1e300 | --temperature 0 | --top-k 1000000000 | --top-p 1e-300 | "
        "--repetition-penalty 100 | --repetition-penalty 0.01 | --no-repeat-ngram 1000000000 | "
        "--seed 1000000000"
    )
    for typed in each(extremes):
        yield Case("generate_text", ["--checkpoint", "generate_text", "--length", "20", *typed, "The dog"], 0)
        yield Case("translate_de_en", ["--checkpoint", "translate_de_en", "--sample", *typed, "Der Hund"], 0)
    for typed in each("--length-penalty 100 | --coverage-penalty 100 | --beam 1000 | --max-length 999999999"):
        yield Case("translate_de_en", ["--checkpoint", "translate_de_en", *typed, "Der Hund"], 0)


GOOD = b"Hund\tdog\n" * 9
NOISE = np.random.default_rng(0).bytes(5000)
#: The contents of files that are not valid data, by name.
FILES = {
    "empty": b"",
    "blank": b"\n \n\t\n\n",
    "one line": b"Hund\tdog\n",
    "no line end": b"A",
    "latin-1": "schön\tnice\n".encode("latin-1") * 9,
    "utf-16": GOOD.decode().encode("utf-16"),
    "utf-16 without a mark": GOOD.decode().encode("utf-16-le"),
    "utf-32": GOOD.decode().encode("utf-32-be"),
    "NUL": GOOD + b"a\0b\tc\n" + GOOD,
    "noise": NOISE,
    "cut.gz": gzip.compress(GOOD * 99)[:-9],
    "no gzip.gz": GOOD,
    "deep.jsonl": b'{"category": "A", "headline": ' + b"[" * 100_000 + b"\n",
    "cut.jsonl": b'{"category": "A", "headline": "x"}\n{"cat',
    "numbers.jsonl": b'{"category": 1, "headline": 2, "de": 3, "en": 4}\n' * 9,
    "escapes.jsonl": b'{"category": "A", "headline": "\\ud800", "de": "\\u0000", "en": "x"}\n' * 9,
    "columns.tsv": b"a\tb\tc\td\te\n" * 9,
    "long.tsv": b"lang " * 20_000 + b"\t" + b"long " * 20_000 + b"\n",
    "same.tsv": GOOD,
}
#: Those that hold text: a language model needs no columns.
TEXT = {"blank", "one line", "no line end", *(name for name in FILES if name.endswith(("jsonl", "tsv")))}


def data() -> Iterator[Case]:
    """Each of `FILES` as the data of every example, and names that are not files."""
    for program in EXAMPLES:
        options = [*train(program)[2:], "--out", "new"]
        for name, content in FILES.items():
            code = None if program == "generate_text" and name in TEXT else 2
            yield Case(program, ["--data", name, *options], code, spoil=put(name, lambda _, c=content: c))
        for name in ("nothing", "", ".", "/dev/null", "/dev/zero", "/proc/self/mem", "loop", "x" * 300, "text.txt/x",
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
    lines = '{} | {"step": "x"} | {"step": 1, "valid_loss": "x"} | {"loss": 1} | {"step": 1, "loss": [1]} | '
    lines += '{"step": null, "loss": 1} | {"step": 1e400, "loss": 1} | {"tokens_per_second": "x"} | {"step": true}'
    changes: dict[str, Any] = {line: lambda content, end=line: content + end.encode() for line in lines.split(" | ")}
    saves = [f"checkpoints/{part}-00000002.safetensors" for part in ("state", "weights")]
    logs = ["metrics.jsonl", "timings.jsonl"]
    damaged = [*itertools.product([*saves, *logs], DAMAGES.items()), *itertools.product(logs, changes.items())]
    for name, (kind, change) in damaged:
        how = {"spoil": put(f"{program}/{name}", change), "note": f"{name}: {kind}", "code": None}
        yield Case(program, ["--resume", program], **how)
        yield Case("report", [program, "generate_text"], **how)


def poison(program: str) -> Callable[[Path], None]:
    """A function that puts NaN into the weights of a run."""

    def spoil(folder: Path) -> None:
        tensors, config = load_checkpoint(folder / program)
        tensors["output.weight"][0, 0] = np.nan
        save_checkpoint(folder / program, tensors, config)

    return spoil


#: The programs that are not examples of a report: a beginning, and what may follow it.
PROGRAMS = {
    "compare_attention --preset smoke --out new":
        "--seed -1 | --seed x | --steps 0 | --batch 0 | --lengths 0 | --lengths | --lengths x | --lengths 999999999 | "
        "--data nothing | --device tpu | --preset x | --nonsense | --out text.txt | --out classify_news | --out= | "
        "--document 0 | --table x | --table lengths --steps 3 | --table training --lengths 64 | --batch 999999999",
    "explore_tokenizer text.txt --vocab-size 270 --out new":
        "--pattern ( | --pattern= | --vocab-size 0 | --vocab-size -5 | --vocab-size x | --vocab-size 3 | "
        "--out text.txt | nothing | . | --out classify_news | --nonsense",
    "report":
        "| nothing | text.txt | . | classify_news --picture text.txt/x.png | classify_news --picture nowhere/x.png | "
        "classify_news --table . | --nonsense",
    "sweep":
        "| --out s | --out s --grid x -- x.py | --out s --grid a=1 -- x | --nonsense | "
        "--out text.txt --grid a=1 -- text.txt",
}  # fmt: skip


def programs() -> Iterator[Case]:
    """The programs that are not examples of a report; --help of all."""
    for beginning, ends in PROGRAMS.items():
        name, *options = beginning.split()
        yield from (Case(name, [*options, *typed]) for typed in each(ends))
    small = ["text.txt", "--vocab-size", "270", "--out", "new"]
    yield Case("explore_tokenizer", [*small, "--pattern", "(" * 9999])
    yield Case("explore_tokenizer", [*small, "--show", os.fsdecode(b"\xf6")])
    for typed in each(" | --show= | --pattern x* | --pattern . | --show \u4e2d"):
        yield Case("explore_tokenizer", [*small, *typed], 0)
    for program in (*EXAMPLES, *(beginning.split()[0] for beginning in PROGRAMS)):
        yield Case(program, ["--help"], 0)


GROUPS = {group.__name__: group for group in (values, uses, texts, data, run_files, programs)}


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--only", choices=GROUPS, action="append", help="run this group")
    parser.add_argument("--list", action="store_true", help="print the command lines and run none")
    arguments = parser.parse_args()
    cases = [case for name in arguments.only or GROUPS for case in GROUPS[name]()]
    if arguments.list:
        print(*cases, sep="\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        problems = [f"{case}\n    {problem}" for case in cases if (problem := world.judge(case))]
    print(*problems, f"{len(cases):,} command lines, {len(problems)} went wrong", sep="\n")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
