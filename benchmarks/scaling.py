"""Measure data-parallel training: tokens per second of one and of several processes, one BLAS thread each.

    python -m benchmarks.scaling
    python -m benchmarks.scaling --ranks 2 4 --json benchmarks/results/scaling.json

Trains the translation model of a preset on the embedded corpus, `mpirun -n N python -m benchmarks.scaling --worker`,
the jobs interleaved. Each measurement is a job of its own; its first steps, which warm up caches and
buffers, are not counted. The ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import conditions, program, worker_environment, write_results

WARM_UP = 5


def worker(preset_name: str, data: str, steps: int) -> None:
    """Train; rank 0 prints its measurements as JSON."""
    from handloom.autograd import manual_seed
    from handloom.models import Seq2SeqTransformer
    from handloom.models.presets import translation_preset
    from handloom.tokenizer import BPETokenizer
    from handloom.train.allocator import keep_freed_memory
    from handloom.train.data.translation import load_translation_data
    from handloom.train.distributed import find_process_group
    from handloom.train.optim.optimizers import Adam
    from handloom.train.optim.schedules import noam
    from handloom.train.runs.folder import RunFolder
    from handloom.train.tasks.translation import translation_batches, translation_loss
    from handloom.train.trainer import Trainer
    from handloom.train.validation import Validation

    group, preset = find_process_group(), translation_preset(preset_name, data)
    pairs = load_translation_data("embedded", train_size=8000).train
    tokenizer = group.from_first(lambda: BPETokenizer.train([t for pair in pairs for t in pair], preset.vocab_size))
    sizes = {"tokens_per_batch": preset.tokens_per_batch, "max_length": preset.max_length}
    batches = translation_batches(pairs, tokenizer, **sizes, seed=0)
    manual_seed(0)
    model = Seq2SeqTransformer(preset.model_config(tokenizer.vocab_size, tokenizer.pad_id))
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder, RunFolder.create(Path(folder, "run"), {}) as run:
        trainer = Trainer(
            model, translation_loss(preset.label_smoothing, tokenizer.pad_id), Adam(model.parameters()),
            noam(preset.d_model, preset.warmup), batches, Validation([]), run, config={}, steps=WARM_UP + steps,
        )  # fmt: skip
        tokens = start = 0.0
        for number, step in enumerate(trainer._updates(), 1):
            if number == WARM_UP + 1:
                group.sum([0.0])  # a barrier
                start = time.perf_counter()
            if number > WARM_UP + steps:
                break
            trainer.update(number, step)
            ((counted, _),) = trainer.updates.read().steps
            tokens += counted if number > WARM_UP else 0
            trainer.progress.advance(group.size, len(batches))
        seconds = max(group.gather(time.perf_counter() - start))
    if group.first:
        figures = {"tokens_per_second": tokens / seconds, "seconds": seconds, "parameters": model.parameter_count()}
        print(json.dumps(figures))


def measure(ranks: int, preset: str, data: str, steps: int) -> dict[str, Any]:
    """The measurements of rank 0 in one job of `ranks` processes."""
    mpirun = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if mpirun is None:
        sys.exit("mpirun was not found: pip install mpi4py mpich brings one")
    own = [sys.executable, "-m", "benchmarks.scaling", "--worker", "--preset", preset, "--data", data]
    line = [mpirun, "-n", str(ranks), *own, "--steps", str(steps)]
    done = subprocess.run(line, capture_output=True, text=True, env=worker_environment(1))
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = program(__doc__)
    parser.add_argument(
        "--ranks", type=int, nargs="+", default=[2], help="numbers of processes to compare with 1 (default: 2)"
    )
    parser.add_argument("--preset", default="laptop", help="sizes of the model (default: laptop)")
    parser.add_argument("--data", default="embedded", help="data set whose preset is used (default: embedded)")
    parser.add_argument("--steps", type=int, default=40, help="updates per measurement (default: 40)")
    parser.add_argument("--repeats", type=int, default=5, help="measurements per number of processes (default: 5)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.preset, arguments.data, arguments.steps)
        return
    speeds: dict[int, list[float]] = {ranks: [] for ranks in (1, *arguments.ranks)}
    figures: dict[str, Any] = {}
    for _ in range(arguments.repeats):
        for ranks, found in speeds.items():
            figures = measure(ranks, arguments.preset, arguments.data, arguments.steps)
            found.append(figures["tokens_per_second"])
    medians = {ranks: statistics.median(found) for ranks, found in speeds.items()}
    print(f"preset {arguments.preset} ({arguments.data}), {figures['parameters']:,} parameters")
    for ranks, median in medians.items():
        print(f"{ranks} process{'es' * (ranks > 1)}: {median:,.0f} tokens/s, {median / medians[1]:.2f} times one")
    if arguments.json:
        result = {
            **conditions("mpi4py", "mpich"),
            "load average before": os.getloadavg()[0],
            "preset": f"{arguments.preset} ({arguments.data})",
            "parameters": figures["parameters"],
            "tokens per second": {str(ranks): found for ranks, found in speeds.items()},
            "ratio of medians": {str(ranks): median / medians[1] for ranks, median in medians.items()},
        }
        write_results(arguments.json, result)


if __name__ == "__main__":
    main()
