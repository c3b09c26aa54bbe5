"""Command lines that should fail, or might, in groups; `tests/command_sweep.py` runs them."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from handloom.arguments import Whole, path
from handloom.models.fields import plain_kind, short
from handloom.train.cli.options import OfKind, share
from handloom.train.runs.checkpoints import load_checkpoint, save_checkpoint
from tests.support.command_world import EXAMPLES, Case, parser_of, train
from tests.support.wrong_json import WRONG


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
        parser = parser_of(program)
        for name, option in parser._options.items():
            wrong = wrong_for(option.type)
            wrong += ("nonsense", "") if option.choices else ()
            for value in wrong:
                yield Case(program, [f"{parser.spelled(name)}={value}"], says=parser.spelled(name))
        for typed in ("--nonsense", "--set", "--lr", "--ema=1", "--lr=0", "--overwrite", "a text"):
            yield Case(program, [typed])
        for setting in (
            "", "=", "x=1", "d_model", "d_model=", "d_model=0", "d_model=-1", "d_model=1e3", "layers=10000000", "eps=0",
            "dropout=1", "dropout=nan", "clip_norm=0", "lr_factor=0", "warmup=-1", "betas=1,1", "betas=0.9",
            "activation=x", "positions=x", "pattern=local:0", "norm_first=2", "vocab_size=0", "schedule=x",
        ):  # fmt: skip
            yield Case(program, [*train(program), "--out", "new", "--set", setting], says="--set")
        for typed in each(
            "--set d_model=8 --set d_model=16 | --set lr=0.1 --schedule noam | --schedule cosine --set lr=0 | "
            "--set lr_factor=2 --schedule cosine --lr 1 | --lr 5 --schedule noam | --steps 3 --set steps=3"
        ):
            yield Case(program, [*train(program), "--out", "new", *typed])
        for (typed,) in each(
            "--monitor=x | --set=d_model=7 | --set=vocab_size=2 | --device=tpu | --device=cuda:99 | --graphs | "
            "--stop-at=9 | --teacher=nowhere | --pad-to=999999999"
        ):
            # A language model's heads are as wide as they like, and characters as many as there are; its windows have
            # nothing to pad.
            harmless = typed.startswith("--set" if program == "generate_text" else "--pad-to")
            yield Case(program, [*train(program), "--out", "new", typed], None if harmless else 2)


def uses() -> Iterator[Case]:
    """Every option where it has no use: with a trained model, without one, for a resumed run."""
    for program in EXAMPLES:
        parser = parser_of(program)
        for name, option in parser._options.items():
            named = {"set": "layers=3", "ema": "0.5", "schedule": "linear", "monitor": "valid_loss"}
            named |= {"positions": "none", "table": "none"}
            default = option.default or named.get(name, 1)
            typed = [parser.spelled(name)] if option.option_strings else []
            typed += [f"{default}"] * (option.nargs if isinstance(option.nargs, int) else 1)
            if "checkpoint" not in parser.uses[name]:
                yield Case(program, ["--checkpoint", program, *typed, "--", "The dog"], says="for training")
            if parser.uses[name] == {"checkpoint"} and name != "checkpoint":
                yield Case(program, typed, says="add --checkpoint")
            if "resume" not in parser.uses[name]:
                other = "0.5" if option.type is share else "7" if isinstance(option.type, Whole | OfKind) else "other"
                other = option.choices[-1] if option.choices else other  # type: ignore[index]
                typed = [one if one != f"{default}" or name == "set" else other for one in typed]
                yield Case(program, ["--resume", program, *typed])
        useless = "--temperature 1 | --top-k 0 | --top-p 1 | --seed 0 | --sample --beam 5 | --nbest 6 | "
        useless += "--interactive | --sample --length-penalty 1 | --beam 1 --length-penalty 1 | "
        useless += "--sample --coverage-penalty 1 | "
        useless += "--min-length 9 --max-length 8 | --min-length 100000 | --beam 10000 | --repetition-penalty 0"
        if program == "generate_text":
            useless = "--beam 2 --temperature 1 | --beam 2 --top-k 0 | --beam 2 --top-p 1 | --beam 2 --seed 0 | "
            useless += "--nbest 0 | --length-penalty 2 | --beam 2 --length 400 | --augment-share 1"
        for typed in each(useless if program != "classify_news" else "--interactive | --beam 1 | --seed 1"):
            yield Case(program, ["--checkpoint", program, *typed, "The dog"])
        if program == "generate_text":
            yield Case(program, [*train(program), "--teacher", program, "--tokenizer", "character", "--out", "new"])
        for other in EXAMPLES:
            if other != program:
                yield Case(program, ["--checkpoint", other, "A"], says="run")
                yield Case(program, ["--resume", other], says="run")
                yield Case(program, [*train(program), "--teacher", other, "--out", "new"], says="run")
        yield Case(program, ["--checkpoint", program, "--resume", program], says="--resume is for training")
        yield Case(program, ["--resume", program, "--steps", "1"], says="updates already")
        yield Case(program, ["--resume", program, "--stop-at", "1"], says="--stop-at 1: the run is at step 2")
        yield Case(program, [*train(program), "--out", program], says="exists already")
        yield Case(program, [*train(program), "--out", "text.txt"], says="a file is in the way")
        yield Case(program, [*train(program), "--out", "text.txt/new"], says="a file is in the way")
        yield Case(program, [*train(program), "--out", "."], says="not empty")
        yield Case(program, [*train(program), "--out", "x" * 300], says="too long")
    turned = ["--reverse", *train("translate_de_en"), "--out", "new", "--teacher", "translate_de_en"]
    yield Case("translate_de_en", turned, says="translation from de to en")
    back = [*train("translate_de_en"), "--back-translate", "translate_de_en", "text.txt", "--out", "new"]
    yield Case("translate_de_en", back, says="a run for translation from en to de is needed")
    augment = ["--augment", "translate_en_fr", "translate_en_fr", *train("generate_text"), "--out", "new"]
    yield Case("generate_text", augment, says="a run for translation from fr to en is needed")


def texts() -> Iterator[Case]:
    """Texts for a model to read."""
    latin = os.fsdecode("schön".encode("latin-1"))
    for program in EXAMPLES:
        use = ["--checkpoint", program]
        for text in ("", " ", "\t", latin):
            yield Case(program, [*use, "The dog", text], says="Text 2 is" if text != latin else "not UTF-8")
        for text in ("\u4e2d\u6587", "a" * 2000, "x\ud7ff", "<pad>", "<eos> <bos>", "\u202e\u0301", "1 2", "The\ndog"):
            yield Case(program, [*use, text], None)
        utf16 = "The dog\n".encode("utf-16-le")
        for stdin in (b"sch\xf6n\n", b"\xff\xfe" + utf16, utf16, b"\0", b"\xff" * 99):
            yield Case(program, use, says="standard input", stdin=stdin, note=repr(stdin[:12]))
        for stdin in (b"", b"\n\n \n", b"\xef\xbb\xbfThe dog\r\n"):
            yield Case(program, use, 0, stdin=stdin, note=repr(stdin[:12]))
        yield Case(program, [*use, "--interactive"], 0, stdin=b"The dog\n\n \nThe cat", note="asked")
        yield Case(program, [*use, "--interactive"], stdin=b"The dog\nsch\xf6n\n", note="asked")
        for folder in ("nowhere", "text.txt", ".", "", "x" * 300, f"{program}/config.json"):
            yield Case(program, ["--checkpoint", folder, "The dog"])
    for typed in each(
        "--temperature 1e-300 | --temperature 1e300 | --temperature 0 | --top-k 999999999999999999 | --top-p 1e-300 | "
        "--repetition-penalty 100 | --repetition-penalty 0.01 | --no-repeat-ngram 999999999999999999 | "
        "--seed 999999999999999999"
    ):
        yield Case("generate_text", ["--checkpoint", "generate_text", "--length", "20", *typed, "The dog"], 0)
        yield Case("translate_de_en", ["--checkpoint", "translate_de_en", "--sample", *typed, "Der Hund"], 0)
    for typed in each(
        "--length-penalty 100 | --coverage-penalty 100 | --beam 1000 | --repetition-penalty 100 | "
        "--no-repeat-ngram 1 | --max-length 999999999"
    ):
        yield Case("translate_de_en", ["--checkpoint", "translate_de_en", *typed, "Der Hund"], 0)
    pictures = ["--checkpoint", "translate_de_en", "--attention-pictures", "text.txt", "Der Hund"]
    yield Case("translate_de_en", pictures, says="No folder for pictures could be made")


def files() -> dict[str, bytes]:
    """The contents of files that are not valid data, by name."""
    good = b"Hund\tdog\n" * 9
    packed = bytearray(gzip.compress(np.random.default_rng(0).bytes(2000).hex().encode() + b"\n"))
    packed[len(packed) // 2] ^= 0x55
    return {
        "empty": b"",
        "blank": b"\n \n\t\n\n",
        "one line": b"Hund\tdog\n",
        "no line end": b"A",
        "latin-1": "schön\tnice\n".encode("latin-1") * 9,
        "utf-16": good.decode().encode("utf-16"),
        "utf-16 without a mark": good.decode().encode("utf-16-le"),
        "utf-32": good.decode().encode("utf-32-be"),
        "NUL": good + b"a\0b\tc\n" + good,
        "noise": np.random.default_rng(0).bytes(5000),
        "cut.gz": gzip.compress(good * 99)[:-9],
        "damaged.gz": bytes(packed),
        "no gzip.gz": good,
        "deep.jsonl": b'{"category": "A", "headline": ' + b"[" * 100_000 + b"\n",
        "deeper.jsonl": b"[" * 100_000 + b"\n",
        "cut.jsonl": b'{"category": "A", "headline": "x"}\n{"cat',
        "numbers.jsonl": b'{"category": 1, "headline": 2, "de": 3, "en": 4}\n' * 9,
        "escapes.jsonl": b'{"category": "A", "headline": "\\ud800", "de": "\\u0000", "en": "x"}\n' * 9,
        "columns.tsv": b"a\tb\tc\td\te\n" * 9,
        "long.tsv": b"lang " * 20_000 + b"\t" + b"long " * 20_000 + b"\n",
        "same.tsv": good,
    }


#: Those of `files` that hold text: a language model needs no columns.
GOOD_TEXT = {
    "blank", "one line", "no line end", "deep.jsonl", "deeper.jsonl", "cut.jsonl", "numbers.jsonl", "escapes.jsonl",
    "columns.tsv", "long.tsv", "same.tsv",
}  # fmt: skip


def data() -> Iterator[Case]:
    """Each of `files` as the data of every example, and names that are not files."""
    for program in EXAMPLES:
        options = train(program)[2:]
        for name, content in files().items():

            def spoil(folder: Path, name: str = name, content: bytes = content) -> None:
                (folder / name).write_bytes(content)

            code = None if program == "generate_text" and name in GOOD_TEXT else 2
            yield Case(program, ["--data", name, *options, "--out", "new"], code, spoil=spoil)
        for name in ("nothing", "", ".", "/dev/null", "/dev/zero", "/proc/self/mem", "loop", "x" * 300, "text.txt/x",
                     os.fsdecode(b"sch\xf6n"), "runs\u2028"):  # fmt: skip
            yield Case(program, ["--data", name, *options, "--out", "new"], spoil=loop)
    for name, content in files().items():

        def spoil(folder: Path, name: str = name, content: bytes = content) -> None:
            (folder / name).write_bytes(content)

        code = None if name in GOOD_TEXT else 2
        yield Case("explore_tokenizer", [name, "--vocab-size", "270", "--out", "new"], code, spoil=spoil)


def loop(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")


def damage(path: str, kind: str) -> Callable[[Path], None]:
    """A function that damages a file below a folder."""

    def spoil(folder: Path) -> None:
        file = folder / path
        content = file.read_bytes()
        if kind == "missing":
            file.unlink()
        elif kind == "empty":
            file.write_bytes(b"")
        elif kind == "cut":
            file.write_bytes(content[: len(content) // 2])
        elif kind == "a bit":
            changed = bytearray(content)
            changed[len(content) * 3 // 4] ^= 4
            file.write_bytes(changed)
        elif kind == "noise":
            file.write_bytes(np.random.default_rng(0).bytes(3000))
        elif kind == "deep":
            file.write_bytes(b"[" * 100_000)
        elif kind == "list":
            file.write_bytes(b"[1]")
        elif kind == "pickle":
            file.write_bytes(b"PK\x03\x04 rubbish")
        elif kind == "folder":
            file.unlink()
            file.mkdir()
        elif kind == "loop":
            file.unlink()
            file.symlink_to(file.name)

    return spoil


DAMAGES = ("missing", "empty", "cut", "a bit", "noise", "deep", "list", "pickle", "folder", "loop")


def run_files() -> Iterator[Case]:
    """Every file of a run with every kind of damage, for everything that reads it."""
    for program in EXAMPLES:
        for name, kind in itertools.product(("config.json", "tokenizer.json", "model.safetensors"), DAMAGES):
            spoil, note = damage(f"{program}/{name}", kind), f"{name}: {kind}"
            code = None if (name, kind) == ("config.json", "a bit") else 2
            yield Case(program, ["--checkpoint", program, "The dog"], code, spoil=spoil, note=note)
            if name != "model.safetensors":
                yield Case(program, ["--resume", program], code, spoil=spoil, note=note)
        teach = [*train(program), "--teacher", program, "--out", "new"]
        yield Case(program, teach, spoil=damage(f"{program}/tokenizer.json", "a bit"), note="tokenizer.json: a bit")
    program = "classify_news"  # the quickest
    for kind in DAMAGES:
        for name in ("state-00000002.safetensors", "weights-00000002.safetensors"):
            spoil, note = damage(f"{program}/checkpoints/{name}", kind), f"{name}: {kind}"
            if kind != "folder":  # goes on from the save before, until it comes to this one
                yield Case(program, ["--resume", program], None, spoil=spoil, note=note)
        for name in ("metrics.jsonl", "timings.jsonl"):
            spoil, note = damage(f"{program}/{name}", kind), f"{name}: {kind}"
            yield Case(program, ["--resume", program], None, spoil=spoil, note=note)
            yield Case("report", [program, "generate_text"], None, spoil=spoil, note=note)
        yield Case("report", [program], spoil=damage(f"{program}/config.json", kind), note=kind, code=None)
    lines = '{} | {"step": "x"} | {"step": 1, "valid_loss": "x"} | {"loss": 1} | {"step": 1, "loss": [1]} | '
    lines += '{"step": null, "loss": 1} | {"step": 1e400, "loss": 1} | {"tokens_per_second": "x"} | {"step": true}'
    for line, name in itertools.product(lines.split(" | "), ("metrics.jsonl", "timings.jsonl")):
        spoil, note = line_in(f"{program}/{name}", line), f"{name}: {line}"
        yield Case("report", [program], None, spoil=spoil, note=note)
        yield Case(program, ["--resume", program], None, spoil=spoil, note=note)


def headers() -> Iterator[Case]:
    """Model files whose configuration doesn't fit their tensors, with a correct checksum."""
    changes: list[tuple[str, Any]] = [
        ("encoder_layers", 10**7), ("decoder_layers", 999), ("layers", 10**7), ("layers", 999), ("d_model", 10**6),
        ("d_model", 0), ("dim_feedforward", 10**6), ("source_vocab_size", 10**9), ("vocab_size", 10**8),
        ("dropout", "x"), ("pad_id", 10**6), ("max_length", 10**9), ("nhead", 999_999), ("head_dim", 999_999),
        ("classes", 10**9),
    ]  # fmt: skip
    for program, (name, value) in itertools.product(EXAMPLES, changes):

        def spoil(folder: Path, program: str = program, name: str = name, value: Any = value) -> None:
            tensors, config = load_checkpoint(folder / program)
            config["model"][name] = value
            save_checkpoint(folder / program, tensors, config)

        yield Case(program, ["--checkpoint", program, "The dog"], spoil=spoil, note=f"{name}={value}")
    for program, value in itertools.product(EXAMPLES, (np.nan, np.inf)):

        def poison(folder: Path, program: str = program, value: float = value) -> None:
            tensors, config = load_checkpoint(folder / program)
            tensors["output.weight"][0, 0] = value
            save_checkpoint(folder / program, tensors, config)

        note = f"{value} in a weight"
        yield Case(program, ["--checkpoint", program, "The dog"], says="finite", spoil=poison, note=note)


def stored() -> Iterator[Case]:
    """config.json with one wrong value anywhere."""
    program = "classify_news"  # the quickest
    kept = [f"options/{name}" for name, uses in parser_of(program).uses.items() if "train" in uses]
    names = "format", "version", "program", "data", "options", *kept
    for name, wrong in itertools.product(names, (*WRONG[::2], ...)):

        def spoil(folder: Path, name: str = name, wrong: Any = wrong) -> None:
            file = folder / program / "config.json"
            config = json.loads(file.read_text(encoding="utf-8"))
            *parents, last = name.split("/")
            holder = config[parents[0]] if parents else config
            holder[last] = wrong
            if wrong is ...:
                del holder[last]
            file.write_text(json.dumps(config), encoding="utf-8")

        yield Case(program, ["--resume", program], None, spoil=spoil, note=f"{name} is {short(wrong)}")


def programs() -> Iterator[Case]:
    """The programs that are not examples of a report."""
    for typed in each(
        "--seed -1 | --seed x | --steps 0 | --batch 0 | --lengths 0 | --lengths | --lengths x | --lengths 999999999 | "
        "--data nothing | --device tpu | --preset x | --nonsense | --out text.txt | --out classify_news | "
        "--document 0 | --table x | --table lengths --steps 3 | --table training --lengths 64"
    ):
        yield Case("compare_attention", ["--preset", "smoke", "--out", "new", *typed])
    explore, small = "explore_tokenizer", ["text.txt", "--vocab-size", "270", "--out", "new"]
    for typed in each(
        "--pattern ( | --vocab-size 0 | --vocab-size -5 | --vocab-size x | --vocab-size 3 | --out text.txt | nothing | "
        ". | --out classify_news | --nonsense"
    ):
        yield Case(explore, [*small, *typed])
    for typed in (["--pattern", ""], ["--pattern", "(" * 9999], ["--show", os.fsdecode(b"\xf6")]):
        yield Case(explore, [*small, *typed])
    for typed in ([], ["--show", ""], *each("--pattern x* | --pattern . | --show \u4e2d")):
        yield Case(explore, [*small, *typed], 0)
    for typed in each(
        "nothing | text.txt | . | classify_news --picture text.txt/x.png | classify_news --picture nowhere/x.png | "
        "classify_news --table . | --nonsense"
    ):
        yield Case("report", typed)
    for typed in each(
        "--out s | --out s --grid x -- x.py | --out s --grid a=1 -- x | --nonsense | "
        "--out text.txt --grid a=1 -- text.txt"
    ):
        yield Case("sweep", typed)
    yield from (Case(program, []) for program in ("report", "sweep"))
    for program in (*EXAMPLES, explore, "compare_attention", "report", "sweep"):
        yield Case(program, ["--help"], 0)


def each(lines: str) -> list[list[str]]:
    """The options of several command lines, separated by |."""
    return [line.split() for line in lines.split("|")]


def line_in(path: str, line: str) -> Callable[[Path], None]:
    """A function that adds a line to a file below a folder."""

    def spoil(folder: Path) -> None:
        with open(folder / path, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    return spoil


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    group.__name__: group for group in (values, uses, texts, data, run_files, headers, stored, programs)
}
