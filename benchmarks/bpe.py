"""Compare byte-level BPE with Hugging Face's tokenizers (Rust): training time, encoding speed and memory.

    python -m benchmarks.bpe --vocab-size 30000 FILE...
    HANDLOOM_DATA=folder python -m benchmarks.bpe --json benchmarks/results/bpe.json

Each measurement runs in its own process, and the two libraries are measured alternately. The ratios compare medians. If
other programs run at the same time, ratios of the shortest times, or of processor time (the sum over all threads and
processes), are more reliable. Files may be compressed with gzip. Without files the corpus consists of the books, the
German and English sentence pairs and the image descriptions in the folder HANDLOOM_DATA.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import select
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import Worker, conditions, peak_memory, processor_time, program, write_results

Result = dict[str, Any]

# Labels: the tokenizer, and the number of processes (handloom) or threads (tokenizers) that it uses.
TRAINERS = [("handloom", 2), ("tokenizers", 2), ("handloom", 1), ("tokenizers", 1)]
ENCODERS = [("handloom", 1), ("tokenizers", 2), ("tokenizers", 1), ("tokenizers-fast", 2)]


class Subject:
    """One of the two tokenizers, measured in a separate process."""

    def __init__(self, name: str, workers: int):
        self.name, self.workers = name, workers
        if name != "handloom":
            os.environ["RAYON_NUM_THREADS"] = str(workers)
            os.environ["TOKENIZERS_PARALLELISM"] = "true" if workers > 1 else "false"

    def train(self, vocab_size: int, model: str, *files: str) -> Result:
        """Train and save a tokenizer. Return the seconds, processor seconds and MB that training takes."""
        prepare = self._handloom_trainer if self.name == "handloom" else self._tokenizers_trainer
        run, children = prepare(vocab_size, list(files))
        begin, used = time.perf_counter(), processor_time()
        tokenizer = run()
        result = {"seconds": time.perf_counter() - begin, "processor": processor_time() - used}
        tokenizer.save(model)
        return {**result, "megabytes": peak_memory() + sum(children)}

    def _handloom_trainer(self, vocab_size: int, files: list[str]) -> tuple[Callable[[], Any], list[float]]:
        from handloom.tokenizer import BPETokenizer, parallel

        children: list[float] = []
        finish = parallel._finish

        def note_memory_and_finish(child: int, reader: int) -> tuple[str | None, Any]:
            select.select([reader], [], [])  # wait until the child begins to write its result
            children.append(own_memory(child))
            return finish(child, reader)

        parallel._finish = note_memory_and_finish
        paths, options = [Path(file) for file in files], {"special_tokens": ["<unk>"], "processes": self.workers}
        return lambda: BPETokenizer.train(paths, vocab_size, **options), children

    def _tokenizers_trainer(self, vocab_size: int, files: list[str]) -> tuple[Callable[[], Any], list[float]]:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, special_tokens=["<unk>"], initial_alphabet=alphabet, show_progress=False
        )
        return lambda: tokenizer.train(files, trainer) or tokenizer, []

    def encode(self, model: str, *files: str) -> Result:
        """Encode all lines twice; return the MB/s with an empty and with a filled cache, and a digest of the ids."""
        lines = [line for file in files for line in Path(file).read_bytes().decode().split("\n")]
        batch: Any
        if self.name == "handloom":
            from handloom.tokenizer import BPETokenizer

            batch = BPETokenizer.load(model).encode_batch
        else:
            from tokenizers import Tokenizer

            tokenizer = Tokenizer.from_file(model)
            batch = tokenizer.encode_batch if self.name == "tokenizers" else tokenizer.encode_batch_fast
        seconds, used = [], []
        for _ in range(2):
            begin, before = time.perf_counter(), processor_time()
            encoded = batch(lines)
            seconds.append(time.perf_counter() - begin)
            used.append(processor_time() - before)
        digest = hashlib.sha256()
        for ids in encoded:
            digest.update(repr(ids if self.name == "handloom" else ids.ids).encode())
        megabytes = sum(len(line.encode()) for line in lines) / 1e6
        speeds = {"cold": megabytes / seconds[0], "warm": megabytes / seconds[1], "processor": megabytes / used[0]}
        return {**speeds, "ids": digest.hexdigest()}


def own_memory(child: int) -> float:
    """Return the peak memory of a forked child in MB, without the memory shared with its parent (Linux)."""

    def total(file: str, *names: str) -> int:
        lines = [line.split() for line in Path(f"/proc/{child}", file).read_text().splitlines()]
        return sum(int(fields[1]) for fields in lines if fields[0].rstrip(":") in names)

    return (total("status", "VmHWM") - total("smaps_rollup", "Shared_Clean", "Shared_Dirty")) / 1000


def run(task: str, name: str, workers: int, *arguments: str | int | Path) -> Result:
    """Make one measurement in a new process."""
    with Worker(Subject, [name, workers], os.environ) as worker:
        result: Result = worker.ask(task, *(str(x) if isinstance(x, Path) else x for x in arguments))
    return result


def label(name: str, workers: int) -> str:
    unit = "process" if name == "handloom" else "thread"
    return f"{name}, {workers} {unit}{'' if workers == 1 else 'es' if unit == 'process' else 's'}"


def merges_of(model: Path) -> list[tuple[str, str]]:
    return [tuple(pair) for pair in json.loads(model.read_text(encoding="utf-8"))["model"]["merges"]]


def compare_training(files: Sequence[Path], vocab_size: int, repeat: int, folder: Path) -> Result:
    """Train the two tokenizers alternately. The models are saved in the folder."""
    runs: dict[str, list[Result]] = {}
    for _ in range(repeat):
        for name, workers in TRAINERS:
            model = folder / f"{name}-{workers}.json"
            runs.setdefault(label(name, workers), []).append(run("train", name, workers, vocab_size, model, *files))
    ours, theirs = merges_of(folder / "handloom-2.json"), merges_of(folder / "tokenizers-2.json")
    assert ours == merges_of(folder / "handloom-1.json"), "one and two processes gave different merges"
    same = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    seconds, processor, memory = (
        {who: [result[kind] for result in results] for who, results in runs.items()}
        for kind in ("seconds", "processor", "megabytes")
    )
    peak = {who: statistics.median(values) for who, values in memory.items()}
    return {
        "megabytes": sum(file.stat().st_size for file in files) / 1e6,
        "seconds": seconds,
        "processor seconds": processor,
        **{f"ratio {n} against {n}": ratios(seconds, processor, n) for n in (2, 1)},
        "peak memory MB": peak,
        "memory ratio": peak[label("handloom", 2)] / peak[label("tokenizers", 2)],
        "merges equal": f"{same} of {max(len(ours), len(theirs))}",
    }


def ratios(seconds: dict[str, list[float]], processor: dict[str, list[float]], workers: int) -> Result:
    """Return handloom's times divided by the other library's times."""
    ours, theirs = label("handloom", workers), label("tokenizers", workers)
    return {
        "of medians": statistics.median(seconds[ours]) / statistics.median(seconds[theirs]),
        "of shortest": min(seconds[ours]) / min(seconds[theirs]),
        "of processor time": statistics.median(processor[ours]) / statistics.median(processor[theirs]),
    }


def compare_encoding(files: Sequence[Path], model: Path, repeat: int) -> Result:
    """Encode all lines with the two tokenizers alternately, using the same model."""
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
        "note": "encode_batch of tokenizers also computes offsets; its encode_batch_fast does not.",
    }


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
    parser = program(__doc__)
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="text files (default: the texts in HANDLOOM_DATA)"
    )
    parser.add_argument("--vocab-size", type=int, default=30_000, help="vocabulary size (default: 30000)")
    parser.add_argument("--repeat", type=int, default=5, help="measurements of each kind (default: 5)")
    arguments = parser.parse_args()
    results: Result = {**conditions("regex", "tokenizers"), "load average before": os.getloadavg()[0]}

    def add(name: str, result: Result) -> None:
        results[name] = result
        report({name: result})

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = unpacked(arguments.files or default_corpus(folder), folder)
        add("training", compare_training(files, arguments.vocab_size, arguments.repeat, folder))
        model = folder / "model.json"
        (folder / "tokenizers-2.json").rename(model)
        add("encoding", compare_encoding(files, model, arguments.repeat))
    results["load average after"] = os.getloadavg()[0]
    if arguments.json:
        write_results(arguments.json, results)


if __name__ == "__main__":
    main()
