"""Byte-level BPE beside Hugging Face's tokenizers (Rust): training time, encoding speed, memory, and equal results.

    python -m benchmarks.bpe --vocab-size 30000 FILE...
    HANDLOOM_DATA=folder python -m benchmarks.bpe --hard --large --json benchmarks/results/bpe.json

Each measurement runs in a process of its own (`bpe_subject`), the two sides by turns; the figures are medians, and the
ratio is that of the medians. Files may be compressed with gzip; without files the corpus is the books, the German and
English sentence pairs and the image descriptions of the folder HANDLOOM_DATA.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import random
import statistics
import string
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.bpe_corpora import CORPORA, variations

Result = dict[str, Any]

# Names as people read them: who, with how many processes (handloom) or threads (tokenizers).
TRAINERS = [("handloom", 2), ("tokenizers", 2), ("handloom", 1), ("tokenizers", 1)]
ENCODERS = [("handloom", 1), ("tokenizers", 2), ("tokenizers", 1), ("tokenizers-fast", 2)]
LARGE = [25, 50, 100, 200]  # MB


def measure(task: str, name: str, workers: int, *arguments: str | int | Path) -> Result:
    """Run one measurement in a new process."""
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


def compare_training(files: Sequence[Path], vocab_size: int, repeat: int, folder: Path) -> Result:
    """Train with both, by turns. The models are left in the folder."""
    runs: dict[str, list[Result]] = {}
    for _ in range(repeat):
        for name, workers in TRAINERS:
            model = folder / f"{name}-{workers}.json"
            runs.setdefault(label(name, workers), []).append(measure("train", name, workers, vocab_size, model, *files))
    ours, theirs = merges_of(folder / "handloom-2.json"), merges_of(folder / "tokenizers-2.json")
    assert ours == merges_of(folder / "handloom-1.json"), "one and two processes gave different merges"
    same = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    seconds = {who: [run["seconds"] for run in results] for who, results in runs.items()}
    memory = {
        who: statistics.median(run["megabytes"] + run.get("megabytes_children", 0) for run in results)
        for who, results in runs.items()
    }
    return {
        "megabytes": sum(file.stat().st_size for file in files) / 1e6,
        "seconds": seconds,
        **{
            f"ratio {workers} against {workers}": ratio(
                seconds, label("handloom", workers), label("tokenizers", workers)
            )
            for workers in (2, 1)
        },
        "peak memory MB": memory,
        "memory ratio": memory[label("handloom", 2)] / memory[label("tokenizers", 2)],
        "merges equal": f"{same} of {max(len(ours), len(theirs))}",
    }


def ratio(seconds: dict[str, list[float]], one: str, other: str) -> float:
    return statistics.median(seconds[one]) / statistics.median(seconds[other])


def compare_encoding(files: Sequence[Path], model: Path, repeat: int) -> Result:
    """Encode all lines with both, by turns, with the same model."""
    runs: dict[str, list[Result]] = {}
    for _ in range(repeat):
        for name, workers in ENCODERS:
            runs.setdefault(label(name, workers), []).append(measure("encode", name, workers, model, *files))
    speeds = {
        who: {kind: statistics.median(run[kind] for run in results) for kind in ("cold", "warm")}
        for who, results in runs.items()
    }
    ours = speeds[label("handloom", 1)]["cold"]
    return {
        "MB/s": speeds,
        "times as fast, cold, as tokenizers with 2 threads": ours / speeds[label("tokenizers", 2)]["cold"],
        "times as fast, cold, as encode_batch_fast with 2 threads": ours / speeds[label("tokenizers-fast", 2)]["cold"],
        "ids equal": len({run["ids"] for results in runs.values() for run in results}) == 1,
        "note": "encode_batch of tokenizers builds offsets too; its encode_batch_fast leaves them out.",
    }


def long_word(model: Path, files: Sequence[Path], folder: Path) -> Result:
    """One word of 1 MB: the letters of the corpus without what stands between them, random letters, one letter."""
    text = "".join(filter(str.isalpha, "".join(file.read_text(encoding="utf-8")[:200_000] for file in files)))
    random_letters = "".join(random.Random(0).choices(string.ascii_lowercase, k=10**6))
    words = {"letters of the corpus": text[: 10**6], "random letters": random_letters, "one letter": "a" * 10**6}
    result: Result = {}
    for kind, word in words.items():
        path = folder / "word.txt"
        path.write_text(word, encoding="utf-8")
        runs = {name: measure("encode", name, 1, model, path) for name in ("handloom", "tokenizers")}
        result[kind] = {
            **{f"{name}, seconds": path.stat().st_size / 1e6 / run["cold"] for name, run in runs.items()},
            "ids equal": runs["handloom"]["ids"] == runs["tokenizers"]["ids"],
        }
    return result


def growth(files: Sequence[Path], folder: Path) -> Result:
    """50,000 entries on 25 to 200 MB: the corpus repeated with letters exchanged. Seconds and memory."""
    whole = variations(files, max(LARGE))
    result: Result = {}
    for megabytes in LARGE:
        path = folder / "large.txt"
        path.write_bytes(whole[: whole.index(b"\n", megabytes * 10**6 - 10**4) + 1])
        run = measure("train", "handloom", 2, 50_000, folder / "large.json", path)
        result[f"{megabytes} MB"] = {
            "seconds": run["seconds"],
            "seconds per MB": run["seconds"] / megabytes,
            "peak memory MB": run["megabytes"] + run["megabytes_children"],
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


def machine() -> Result:
    model = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return {
        "cpu": model[0] if model else platform.processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("handloom", "numpy", "regex", "tokenizers")},
    }


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
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--vocab-size", type=int, default=30_000)
    parser.add_argument("--repeat", type=int, default=5, help="measurements of each kind")
    parser.add_argument("--hard", action="store_true", help="train on texts that are hard on a trainer, too")
    parser.add_argument("--large", action="store_true", help="train on 25 to 200 MB, too")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results to this file")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = unpacked(arguments.files or default_corpus(folder), folder)
        results: Result = {
            "machine": machine(),
            "how": f"medians of {arguments.repeat}, the two sides by turns, each measurement in a process of its own",
            "load average before": os.getloadavg()[0],
        }
        report(results)
        results["training"] = compare_training(files, arguments.vocab_size, arguments.repeat, folder)
        report({"training": results["training"]})
        model = folder / "tokenizers-2.json"
        results["encoding"] = compare_encoding(files, model, arguments.repeat)
        results["a word of 1 MB"] = long_word(model, files, folder)
        report({name: results[name] for name in ("encoding", "a word of 1 MB")})
        if arguments.hard:
            results["hard texts"] = {}
            for kind, make in CORPORA.items():
                path = folder / "hard.txt"
                path.write_bytes(make(files))
                hard = compare_training([path], arguments.vocab_size, min(arguments.repeat, 3), folder)
                results["hard texts"][kind] = hard
                report({kind: hard})
        if arguments.large:
            results["growth, 50,000 entries"] = growth(files, folder)
            report({"growth, 50,000 entries": results["growth, 50,000 entries"]})
        results["load average after"] = os.getloadavg()[0]
        if arguments.json:
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
