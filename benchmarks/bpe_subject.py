"""One measurement of one tokenizer in a process of its own: `benchmarks.bpe` starts it and reads the JSON it prints.

    python -m benchmarks.bpe_subject train handloom 2 30000 MODEL.json FILE...
    python -m benchmarks.bpe_subject encode tokenizers 2 MODEL.json FILE...

The number after the name is that of processes (handloom) or threads (tokenizers).
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import sys
import time
from pathlib import Path
from typing import Any


def peak_memory() -> float:
    """The largest resident memory of this process so far, in MB (Linux)."""
    return _from_proc("self/status", ["VmHWM"])


def own_memory(child: int) -> float:
    """The peak memory of a forked child, without what it now shares with its parent, in MB (Linux)."""
    return _from_proc(f"{child}/status", ["VmHWM"]) - _from_proc(
        f"{child}/smaps_rollup", ["Shared_Clean", "Shared_Dirty"]
    )


def _from_proc(file: str, names: list[str]) -> float:
    lines = [line.split() for line in Path("/proc", file).read_text().splitlines()]
    return sum(int(fields[1]) for fields in lines if fields[0].rstrip(":") in names) / 1000


def processor_time() -> float:
    """Seconds of all threads of this process and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def train_handloom(processes: int, vocab_size: int, model: str, files: list[str]) -> dict[str, float]:
    from handloom.tokenizer import BPETokenizer, parallel

    children: list[float] = []
    finish = parallel._finish

    def note_memory_and_finish(child: int, reader: int) -> tuple[str | None, Any]:
        select.select([reader], [], [])  # the child has its answer and begins to write it
        children.append(own_memory(child))
        return finish(child, reader)

    parallel._finish = note_memory_and_finish
    begin, used = time.perf_counter(), processor_time()
    tokenizer = BPETokenizer.train(
        [Path(file) for file in files], vocab_size, special_tokens=["<unk>"], processes=processes
    )
    seconds, used = time.perf_counter() - begin, processor_time() - used
    tokenizer.save(model)
    memory = {"megabytes": peak_memory(), "megabytes_children": sum(children)}
    return {"seconds": seconds, "processor": used, **memory}


def train_tokenizers(threads: int, vocab_size: int, model: str, files: list[str]) -> dict[str, float]:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    begin, used = time.perf_counter(), processor_time()
    tokenizer.train(files, trainer)
    seconds, used = time.perf_counter() - begin, processor_time() - used
    tokenizer.save(model)
    return {"seconds": seconds, "processor": used, "megabytes": peak_memory()}


def encode(name: str, model: str, files: list[str]) -> dict[str, Any]:
    """Encode all lines as one batch with an empty cache, then again; the digest identifies the ids."""
    lines = [line for file in files for line in Path(file).read_bytes().decode().split("\n")]
    batch: Any
    if name == "handloom":
        from handloom.tokenizer import BPETokenizer

        batch = BPETokenizer.load(model).encode_batch
    else:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(model)
        batch = tokenizer.encode_batch if name == "tokenizers" else tokenizer.encode_batch_fast
    seconds, used = [], []
    for _ in range(2):
        begin, before = time.perf_counter(), processor_time()
        encoded = batch(lines)
        seconds.append(time.perf_counter() - begin)
        used.append(processor_time() - before)
    digest = hashlib.sha256()
    for ids in encoded:
        digest.update(repr(ids if name == "handloom" else ids.ids).encode())
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    speeds = {"cold": megabytes / seconds[0], "warm": megabytes / seconds[1], "processor": megabytes / used[0]}
    return {**speeds, "ids": digest.hexdigest()}


def main() -> None:
    task, name, workers, *rest = sys.argv[1:]
    if name != "handloom":
        os.environ["RAYON_NUM_THREADS"] = workers
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if workers != "1" else "false"
    result: dict[str, Any]
    if task == "train":
        vocab_size, model, *files = rest
        train = train_handloom if name == "handloom" else train_tokenizers
        result = train(int(workers), int(vocab_size), model, files)
    else:
        model, *files = rest
        result = encode(name, model, files)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
