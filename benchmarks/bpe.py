"""Compare byte-level BPE with Hugging Face's tokenizers (Rust): training time, encoding speed and memory.

    python -m benchmarks.bpe --vocab-size 30000 FILE...
    HANDLOOM_DATA=folder python -m benchmarks.bpe --hard --large --json benchmarks/results/bpe.json

Each measurement runs in its own process (`bpe_subject`), the two sides interleaved. Ratios are those of the medians;
the ratios of the shortest times and of processor time (all threads and processes together) are more reliable while
other programs run. `--wait` waits up to that many seconds for an idle machine before each measurement.
Files may be compressed with gzip; without files the corpus is the books, the German and
English sentence pairs and the image descriptions of the folder HANDLOOM_DATA.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import statistics
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bpe_corpora import CORPORA, variations
from benchmarks.side_by_side import write_results
from handloom.train.runs.machine import machine, versions

Result = dict[str, Any]
Measure = Callable[..., Result]

# Labels: which tokenizer, with how many processes (handloom) or threads (tokenizers).
TRAINERS = [("handloom", 2), ("tokenizers", 2), ("handloom", 1), ("tokenizers", 1)]
ENCODERS = [("handloom", 1), ("tokenizers", 2), ("tokenizers", 1), ("tokenizers-fast", 2)]
LARGE = [25, 50, 100, 200]  # MB


def busy(seconds: float = 1.0) -> float:
    """The share of the processors' time that all programs of the machine use now, from 0 to 1 (Linux)."""

    def ticks() -> list[int]:
        return [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]

    before = ticks()
    time.sleep(seconds)
    spent = [now - then for now, then in zip(ticks(), before, strict=True)]
    return 1 - (spent[3] + spent[4]) / sum(spent)  # idle, and waiting for a disk


def measure(wait: float, task: str, name: str, workers: int, *arguments: str | int | Path) -> Result:
    """Run one measurement in a new process; first wait up to `wait` seconds for a quiet machine."""
    begin = time.monotonic()
    while time.monotonic() - begin < wait and busy() > 0.1:
        pass
    command = [sys.executable, "-m", "benchmarks.bpe_subject", task, name, str(workers), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    result: Result = json.loads(done.stdout)
    return result


def label(name: str, workers: int) -> str:
    unit = "process" if name == "handloom" else "thread"
    return f"{name}, {workers} {unit}{'' if workers == 1 else 'es' if unit == 'process' else 's'}"


def merges_of(model: Path) -> list[tuple[str, str]]:
    return [tuple(pair) for pair in json.loads(model.read_text(encoding="utf-8"))["model"]["merges"]]


def compare_training(run: Measure, files: Sequence[Path], vocab_size: int, repeat: int, folder: Path) -> Result:
    """Train with both alternately, and leave the models in the folder."""
    runs: dict[str, list[Result]] = {}
    for _ in range(repeat):
        for name, workers in TRAINERS:
            model = folder / f"{name}-{workers}.json"
            runs.setdefault(label(name, workers), []).append(run("train", name, workers, vocab_size, model, *files))
    ours, theirs = merges_of(folder / "handloom-2.json"), merges_of(folder / "tokenizers-2.json")
    assert ours == merges_of(folder / "handloom-1.json"), "one and two processes gave different merges"
    same = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    seconds, processor = (
        {who: [result[kind] for result in of_who] for who, of_who in runs.items()} for kind in ("seconds", "processor")
    )
    memory = {
        who: statistics.median(result["megabytes"] + result.get("megabytes_children", 0) for result in results)
        for who, results in runs.items()
    }
    return {
        "megabytes": sum(file.stat().st_size for file in files) / 1e6,
        "seconds": seconds,
        "processor seconds": processor,
        **{f"ratio {n} against {n}": ratios(seconds, processor, n) for n in (2, 1)},
        "peak memory MB": memory,
        "memory ratio": memory[label("handloom", 2)] / memory[label("tokenizers", 2)],
        "merges equal": f"{same} of {max(len(ours), len(theirs))}",
    }


def ratios(seconds: dict[str, list[float]], processor: dict[str, list[float]], workers: int) -> Result:
    """Our time divided by theirs."""
    ours, theirs = label("handloom", workers), label("tokenizers", workers)
    return {
        "of medians": statistics.median(seconds[ours]) / statistics.median(seconds[theirs]),
        "of shortest": min(seconds[ours]) / min(seconds[theirs]),
        "of processor time": statistics.median(processor[ours]) / statistics.median(processor[theirs]),
    }


def compare_encoding(run: Measure, files: Sequence[Path], model: Path, repeat: int) -> Result:
    """Encode all lines with both alternately, with the same model."""
    runs: dict[str, list[Result]] = {}
    for _ in range(repeat):
        for name, workers in ENCODERS:
            runs.setdefault(label(name, workers), []).append(run("encode", name, workers, model, *files))
    speeds = {
        who: {kind: [result[kind] for result in results] for kind in ("cold", "warm", "processor")}
        for who, results in runs.items()
    }
    ours = speeds[label("handloom", 1)]
    return {
        "MB/s (cold: with an empty cache; processor: cold, by processor time)": speeds,
        **{
            f"times as fast, cold, as {label(name, workers)}": {
                "of medians": statistics.median(ours["cold"]) / statistics.median(theirs["cold"]),
                "of best": max(ours["cold"]) / max(theirs["cold"]),
            }
            for name, workers in ENCODERS[1:]
            for theirs in [speeds[label(name, workers)]]
        },
        "ids equal": len({result["ids"] for results in runs.values() for result in results}) == 1,
        "note": "encode_batch of tokenizers builds offsets too; its encode_batch_fast leaves them out.",
    }


def long_word(run: Measure, model: Path, files: Sequence[Path], folder: Path) -> Result:
    """One word of 1 MB: the letters of the corpus and nothing else, random letters, one letter."""
    text = "".join(filter(str.isalpha, "".join(file.read_text(encoding="utf-8")[:200_000] for file in files)))
    random_letters = "".join(random.Random(0).choices(string.ascii_lowercase, k=10**6))
    words = {"letters of the corpus": text[: 10**6], "random letters": random_letters, "one letter": "a" * 10**6}
    results: Result = {}
    for kind, word in words.items():
        path = folder / "word.txt"
        path.write_text(word, encoding="utf-8")
        runs = {name: run("encode", name, 1, model, path) for name in ("handloom", "tokenizers")}
        results[kind] = {
            **{f"{name}, seconds": path.stat().st_size / 1e6 / result["cold"] for name, result in runs.items()},
            "ids equal": runs["handloom"]["ids"] == runs["tokenizers"]["ids"],
        }
    return results


def growth(run: Measure, files: Sequence[Path], folder: Path) -> Result:
    """50,000 entries from 25 to 200 MB: the corpus repeated with letters exchanged. Seconds and memory."""
    whole = variations(files, max(LARGE))
    result: Result = {}
    for megabytes in LARGE:
        path = folder / "large.txt"
        path.write_bytes(whole[: whole.index(b"\n", megabytes * 10**6 - 10**4) + 1])
        trained = run("train", "handloom", 2, 50_000, folder / "large.json", path)
        result[f"{megabytes} MB"] = {
            "seconds": trained["seconds"],
            "processor seconds per MB": trained["processor"] / megabytes,
            "peak memory MB": trained["megabytes"] + trained["megabytes_children"],
        }
    return result


def default_corpus(folder: Path) -> list[Path]:
    data = os.environ.get("HANDLOOM_DATA")
    if not data:
        raise SystemExit("Name files to train on, or set HANDLOOM_DATA to the folder of data sets.")
    files = [
        *sorted(Path(data, "gutenberg").glob("*.gz")),
        *(Path(data, "multi30k", f"train.{x}.gz") for x in ("de", "en")),
    ]
    pairs = gzip.decompress(Path(data, "tatoeba_en_de", "eng-deu.tsv.gz").read_bytes()).decode()
    for column, language in enumerate(("en", "de")):
        files.append(folder / f"tatoeba.{language}")
        lines = [line.split("\t")[column] for line in pairs.split("\n") if line]
        files[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    return files


def unpacked(files: Sequence[Path], folder: Path) -> list[Path]:
    result = []
    for file in files:
        data = file.read_bytes()
        if data[:2] == b"\x1f\x8b":
            file = folder / file.stem
            file.write_bytes(gzip.decompress(data))
        result.append(file)
    return result


def report(result: Result, indent: int = 0) -> None:
    """Print nested results as lines."""
    for name, value in result.items():
        if isinstance(value, dict):
            print(f"{'  ' * indent}{name}")
            report(value, indent + 1)
        elif isinstance(value, list):
            figures = ", ".join(f"{figure:.2f}" for figure in value)
            print(f"{'  ' * indent}{name}: {statistics.median(value):.2f} (median of {figures})")
        else:
            print(f"{'  ' * indent}{name}: {f'{value:.3f}' if isinstance(value, float) else value}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="text files (default: those in HANDLOOM_DATA)"
    )
    parser.add_argument("--vocab-size", type=int, default=30_000, help="vocabulary size (default: 30000)")
    parser.add_argument("--repeat", type=int, default=5, help="measurements of each kind (default: 5)")
    parser.add_argument("--hard", action="store_true", help="also train on texts that are slow to train on")
    parser.add_argument("--large", action="store_true", help="also train on texts of 25 to 200 MB")
    parser.add_argument("--wait", type=float, default=0, metavar="SECONDS", help="wait this long for an idle machine")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results to this file")
    arguments = parser.parse_args()
    run = partial(measure, arguments.wait)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = unpacked(arguments.files or default_corpus(folder), folder)
        results: Result = {
            "machine": {**machine(), **versions("handloom", "numpy", "regex", "tokenizers")},
            "how": f"medians of {arguments.repeat}, the two sides alternately, each measurement in a separate process",
            "load average before": os.getloadavg()[0],
        }
        report(results)
        results["training"] = compare_training(run, files, arguments.vocab_size, arguments.repeat, folder)
        report({"training": results["training"]})
        model = folder / "model.json"
        (folder / "tokenizers-2.json").rename(model)
        results["encoding"] = compare_encoding(run, files, model, arguments.repeat)
        results["a word of 1 MB"] = long_word(run, model, files, folder)
        report({name: results[name] for name in ("encoding", "a word of 1 MB")})
        if arguments.hard:
            results["hard texts"] = {}
            for kind, make in CORPORA.items():
                path = folder / "hard.txt"
                path.write_bytes(make(files))
                hard = compare_training(run, [path], arguments.vocab_size, min(arguments.repeat, 3), folder)
                results["hard texts"][kind] = hard
                report({kind: hard})
        if arguments.large:
            results["growth, 50,000 entries"] = growth(run, files, folder)
            report({"growth, 50,000 entries": results["growth, 50,000 entries"]})
        results["load average after"] = os.getloadavg()[0]
        if arguments.json:
            write_results(arguments.json, results)


if __name__ == "__main__":
    main()
