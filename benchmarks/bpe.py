"""Compare byte-level BPE with Hugging Face's tokenizers (Rust): training time, encoding speed and memory.

    python -m benchmarks.bpe --vocab-size 30000 FILE...
    HANDLOOM_DATA=folder python -m benchmarks.bpe --json benchmarks/results/bpe.json

Each measurement runs in its own process, and the two libraries are measured alternately. The table shows medians. If
other programs run at the same time, the ratio of processor times (of all threads) is more reliable than the ratio of
times. Texts are encoded with an empty cache. Files may be compressed with gzip. Without files the corpus
consists of the books, the German and English sentence pairs and the image descriptions in the folder HANDLOOM_DATA.
"""

import gzip
import hashlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import Worker, conditions, peak_memory, processor_time, program, write_results
from handloom.train.cells import markdown_table

Result = dict[str, Any]

#: (task, threads of tokenizers): the comparisons, a row of the table each; handloom has one thread.
COMPARISONS = (("train", 2), ("train", 1), ("encode", 2))
COLUMNS = {
    "cell": "task",
    "handloom": "handloom, s:.2f",
    "tokenizers": "tokenizers, s:.2f",
    "ratio": "ratio:.2f",
    "processor": "ratio of processor times:.2f",
    "memory": "ratio of peak memory:.2f",
    "speed": "handloom, MB/s:.1f",
}


class Subject:
    """One of the two tokenizers, with a number of threads (tokenizers), in its own process."""

    def __init__(self, name: str, threads: int):
        self.name = name
        if name != "handloom":
            os.environ["RAYON_NUM_THREADS"] = str(threads)
            os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"

    def train(self, model: str, files: list[str], vocab_size: int) -> Result:
        """Train and save a tokenizer. Return the seconds, processor seconds, peak memory in MB, and the merges."""
        prepare = self._handloom_trainer if self.name == "handloom" else self._tokenizers_trainer
        tokenizer, result = _timed(prepare(vocab_size, files))
        result["memory"] = peak_memory()
        tokenizer.save(model)
        merges = [tuple(pair) for pair in json.loads(Path(model).read_text(encoding="utf-8"))["model"]["merges"]]
        return {**result, "digest": _digest(merges), "merges": len(merges)}

    def _handloom_trainer(self, vocab_size: int, files: list[str]) -> Callable[[], Any]:
        from handloom.tokenizer import BPETokenizer

        lines = (line for file in files for line in open(file, encoding="utf-8", newline="\n"))  # noqa: SIM115
        return lambda: BPETokenizer.train(lines, vocab_size, special_tokens=["<unk>"])

    def _tokenizers_trainer(self, vocab_size: int, files: list[str]) -> Callable[[], Any]:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, special_tokens=["<unk>"], initial_alphabet=alphabet, show_progress=False
        )
        return lambda: tokenizer.train(files, trainer) or tokenizer

    def encode(self, model: str, files: list[str]) -> Result:
        """Encode all lines. Return the seconds, processor seconds, MB/s, and a digest of the ids."""
        lines = [line for file in files for line in Path(file).read_bytes().decode().split("\n")]
        if self.name == "handloom":
            from handloom.tokenizer import BPETokenizer

            own = BPETokenizer.load(model)
            encoded, times = _timed(lambda: own.encode_batch(lines))
        else:
            from tokenizers import Tokenizer

            tokenizer = Tokenizer.from_file(model)
            encodings, times = _timed(lambda: tokenizer.encode_batch(lines))
            encoded = [encoding.ids for encoding in encodings]
        megabytes = sum(len(line.encode()) for line in lines) / 1e6
        return {**times, "speed": megabytes / times["seconds"], "digest": _digest(encoded)}


def _timed(run: Callable[[], Any]) -> tuple[Any, Result]:
    begin, used = time.perf_counter(), processor_time()
    found = run()
    return found, {"seconds": time.perf_counter() - begin, "processor": processor_time() - used}


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def compare(task: str, threads: int, arguments: Sequence[Any], repeat: int) -> Result:
    """Measure the two tokenizers alternately. Return a row of the table, with all single measurements."""
    runs: dict[str, list[Result]] = {"handloom": [], "tokenizers": []}
    for _ in range(repeat):
        for name, found in runs.items():
            with Worker(Subject, name, threads) as worker:
                found.append(worker.ask(task, *arguments))

    def ratio(kind: str) -> float | None:
        ours, theirs = ([run[kind] for run in runs[name] if kind in run] for name in ("handloom", "tokenizers"))
        return statistics.median(ours) / statistics.median(theirs) if ours else None

    speeds = [run["speed"] for run in runs["handloom"] if "speed" in run]
    return {
        "cell": f"{task}, threads of tokenizers: {threads}",
        **{name: statistics.median(run["seconds"] for run in found) for name, found in runs.items()},
        "ratio": ratio("seconds"),
        "processor": ratio("processor"),
        "memory": ratio("memory"),
        "speed": statistics.median(speeds) if speeds else None,
        "same merges or ids": len({run.pop("digest") for found in runs.values() for run in found}) == 1,
        "runs": runs,
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


def unpacked(files: Sequence[Path], folder: Path) -> list[str]:
    result = []
    for file in files:
        data = file.read_bytes()
        if data[:2] == b"\x1f\x8b":
            file = folder / file.stem
            file.write_bytes(gzip.decompress(data))
        result.append(str(file))
    return result


def main() -> None:
    parser = program(__doc__)
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="text files (default: the texts in HANDLOOM_DATA)"
    )
    parser.add_argument("--vocab-size", type=int, default=30_000, help="vocabulary size (default: 30000)")
    parser.add_argument("--repeat", type=int, default=5, help="measurements of each kind (default: 5)")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files, model = unpacked(arguments.files or default_corpus(folder), folder), str(folder / "model.json")
        for task, threads in COMPARISONS:
            given = [model, files] + ([arguments.vocab_size] if task == "train" else [])
            rows.append(compare(task, threads, given, arguments.repeat))
            print(f"{rows[-1]['cell']}: same merges or ids: {rows[-1]['same merges or ids']}", flush=True)
    print(markdown_table(rows, COLUMNS))
    note = "encode_batch of tokenizers also computes offsets."
    write_results(arguments.json, {**conditions("regex", "tokenizers"), "rows": rows, "note": note})


if __name__ == "__main__":
    main()
