"""Compare training on Multi30k's real batches with an equal PyTorch loop: padding, masks, clipping and schedule.

    HANDLOOM_DATA=folder python -m benchmarks.train_multi30k --json benchmarks/results/train_multi30k_cpu.json

The model is the preset `laptop` (pre-norm, one table for both languages and the output, label smoothing, dropout). The
batches are those of the first epoch, of many lengths; a round goes once through the same batches on each side.
Everything else is as in `benchmarks.train_step`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import (
    Disturbance,
    Worker,
    compare_gradients,
    merge_rows,
    require_equal,
    selecting_variables,
    summary,
    take_turns,
    worker_environment,
)
from benchmarks.train_multi30k_worker import save_batches
from benchmarks.train_step_profile import print_profile
from benchmarks.train_step_sizes import Size
from benchmarks.train_step_worker import SIDES
from handloom.train.runs.machine import machine, versions

MODULE = "benchmarks.train_multi30k_worker"


def prepare(data: str, preset_name: str, count: int, file: Path) -> dict[str, Any]:
    """Write the first `count` batches of a run's first epoch to `file`; returns a description."""
    from handloom.errors import InputError
    from handloom.models.presets import translation_preset
    from handloom.tokenizer import BPETokenizer
    from handloom.train.data.batches import TokenBatches
    from handloom.train.data.translation import load_translation_data

    try:
        pairs = load_translation_data(data).train
    except InputError as error:
        raise SystemExit(str(error)) from None
    preset = translation_preset(preset_name, data)
    tokenizer = BPETokenizer.train([text for pair in pairs for text in pair], preset.vocab_size)
    batches = TokenBatches(
        tokenizer.encode_batch([source for source, _ in pairs], add_eos=True),
        tokenizer.encode_batch([target for _, target in pairs]),
        tokens_per_batch=preset.tokens_per_batch, seed=0, max_length=preset.max_length,
        pad_id=tokenizer.pad_id, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id,
    )  # fmt: skip
    if tokenizer.pad_id != 0:
        raise SystemExit("the tokenizer's padding is not token 0, which the other side assumes")
    chosen = [batches.batch(indices) for indices in batches.plan(0)[:count]]
    size = Size(
        "seq2seq", 0, 0, 0, tokenizer.vocab_size, preset.d_model, preset.dim_feedforward, preset.layers, preset.nhead,
        preset.dropout, norm_first=preset.norm_first, tied=preset.tied, label_smoothing=preset.label_smoothing,
        max_length=preset.max_length,
    )  # fmt: skip
    save_batches(file, size, chosen)
    return {
        "batches": len(chosen),
        "target_tokens": sum(batch.target_tokens for batch in chosen) / len(chosen),
        "lengths": [min(b.source.shape[1] for b in chosen), max(b.source.shape[1] for b in chosen)],
        "padding": round(batches.padding_fraction, 3),
        "vocabulary": tokenizer.vocab_size,
    }


def prove_equal(threads: int, environment: Mapping[str, str], batches: Path, folder: Path) -> dict[str, Any]:
    """As in `train_step`, on the first batch, with label smoothing, after clipping."""
    weights, found = folder / "weights.npz", {}
    for side in SIDES:
        with Worker(MODULE, [side, str(threads), str(batches)], environment) as worker:
            worker.ask(f"{'save' if side == 'handloom' else 'load'} {weights}")
            worker.ask(f"gradients {folder / side}.npz")
        if side != "handloom":
            found[side] = compare_gradients(folder / "handloom.npz", folder / f"{side}.npz")
            require_equal(found[side])
    return found


def measure(rounds: int, count: int, threads: int, environment: Mapping[str, str], batches: Path, weights: Path) -> Any:
    """Each side goes through all `count` batches once to warm up, then `rounds` times."""
    with Disturbance() as disturbance, contextlib.ExitStack() as stack:
        workers = {
            side: stack.enter_context(Worker(MODULE, [side, str(threads), str(batches)], environment)) for side in SIDES
        }
        for side, worker in workers.items():
            if side != "handloom":
                worker.ask(f"load {weights}")
            worker.ask("reset")
            worker.ask(f"steps {count}")
        steps = take_turns(workers, rounds * count, at_once=count)
        means = {
            side: [statistics.fmean(seconds[start : start + count]) for start in range(0, len(seconds), count)]
            for side, seconds in steps.items()
        }
        found = summary(means, {side: worker.ask("memory") for side, worker in workers.items()})
        found["products_ms"] = round(workers["handloom"].ask("products") * 1e3, 3)
        found["limit"] = round(found["median_ms"][found["ruler"]] / found["products_ms"], 3)
        found["libraries"] = {side: workers[side].ask("about") for side in ("handloom", "torch-lean")}
    found["others_load"] = disturbance.share
    return found


def show_profile(threads: int, count: int, batches: Path) -> None:
    with Worker(MODULE, ["handloom", str(threads), str(batches)], worker_environment(threads)) as worker:
        worker.ask(f"steps {count}")
        print_profile(worker.ask(f"profile {count}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", default="multi30k", help="data set: multi30k, embedded, or a path (default: multi30k)"
    )
    parser.add_argument(
        "--preset", default="laptop", choices=["laptop", "smoke"], help="sizes of the model (default: laptop)"
    )
    parser.add_argument("--batches", type=int, default=20, help="batches per round (default: 20)")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds, after one warm-up round (default: 3)")
    here = machine()
    parser.add_argument("--threads", type=int, default=min(2, here["cores"]), help="threads of each side (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add the row to this file, or replace it there")
    parser.add_argument("--profile", action="store_true", help="only profile handloom, op by op")
    arguments = parser.parse_args()
    if min(arguments.batches, arguments.rounds) < 1 or not 1 <= arguments.threads <= here["cores"]:
        parser.error(f"--batches and --rounds must be at least 1, --threads between 1 and {here['cores']}")
    if not arguments.profile and find_spec("torch") is None:
        sys.exit("The other side is missing: pip install '.[oracles]' (PyTorch). --profile works without it.")
    if hasattr(os, "sched_setaffinity"):  # for the workers, which inherit it
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
    threads, set_here = arguments.threads, selecting_variables(os.environ)
    environment = worker_environment(threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        batches, weights = folder / "batches.npz", folder / "weights.npz"
        what = prepare(arguments.data, arguments.preset, arguments.batches, batches)
        if arguments.profile:
            show_profile(threads, what["batches"], batches)
            return
        equal = prove_equal(threads, environment, batches, folder)
        found = measure(arguments.rounds, what["batches"], threads, environment, batches, weights)
        if set_here:
            kept = worker_environment(threads, keep_selecting=True)
            found["with_environment"] = measure(arguments.rounds, what["batches"], threads, kept, batches, weights)
    row = {
        "config": f"{arguments.data}, {arguments.preset}",
        **found,
        "tokens_per_second": {s: round(what["target_tokens"] / ms * 1e3) for s, ms in found["median_ms"].items()},
        "data": what,
        "equal_work": equal,
        "threads": threads,
        "unset": set_here,
        "versions": versions("handloom", "numpy", "torch"),
        "machine": here,
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }
    report(row)
    if arguments.json:
        merge_rows(arguments.json, [row])


def report(row: Mapping[str, Any]) -> None:
    what, ruler = row["data"], row["ruler"]
    print(
        f"{row['config']}: {what['batches']} batches of {what['target_tokens']:.0f} target tokens, source lengths "
        f"{what['lengths'][0]} to {what['lengths'][1]}, {what['padding']:.0%} padding\n"
        f"mean ms a step (median of the rounds): "
        + ", ".join(f"{side} {milliseconds:.1f}" for side, milliseconds in row["median_ms"].items())
        + f"\nratio to {ruler}: {row['ratio']:.2f} ({row['tokens_per_second']['handloom']:,} target tokens/s against "
        f"{row['tokens_per_second'][ruler]:,})\npeak memory: {row['peak_mb']['handloom']:,} against "
        f"{row['peak_mb'][ruler]:,} MB, ratio {row['memory_ratio']:.2f}\nmatrix products alone: "
        f"{row['products_ms']:.1f} ms, so no ratio above {row['limit']:.2f} with this library\n"
        f"other programs took {row['others_load']:.0%} of the processors meanwhile"
    )
    if other := row.get("with_environment"):
        print(f"with {row['unset']}, which was unset above: ratio {other['ratio']:.2f}, {other['median_ms']}")


if __name__ == "__main__":
    main()
