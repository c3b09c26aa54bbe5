"""Compare the methods of attention: the same translation model trained with each, then time and memory by length.

python examples/compare_attention.py                    embedded corpus, one to three minutes
python examples/compare_attention.py --preset smoke     a few seconds
python examples/compare_attention.py --device cuda --data multi30k     the report's model, batches of 512

For table 1 a German-English Transformer is trained with the same seed and batches, once with each method: the losses
agree, since the methods compute the same function. Table 2 is attention alone at several sequence lengths: the standard
method holds all weights, so its memory grows with the square of the length. Both go to a folder, with a picture.
"""

from __future__ import annotations

from handloom.train.cli.start import run_main  # first: from here on Ctrl-C ends the program with one line

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from handloom.autograd import compare_attention, manual_seed, no_grad
from handloom.autograd.backend import to_device
from handloom.models import Seq2SeqTransformer
from handloom.models.fields import Length
from handloom.models.presets import translation_preset
from handloom.nn import MultiHeadAttention
from handloom.tokenizer import BPETokenizer
from handloom.train.cli.command_line import positive, results_folder, whole
from handloom.train.cli.options import OfKind, OptionParser
from handloom.train.data.batches import TokenBatches
from handloom.train.data.translation import load_translation_data
from handloom.train.optim.optimizers import Adam
from handloom.train.tasks.translation import translation_loss

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"steps": 60, "batch": 512, "lengths": [2**n for n in range(6, 14)]},
    "laptop": {"steps": 60, "batch": 64, "lengths": [2**n for n in range(6, 14)]},
    "smoke": {"steps": 4, "batch": 16, "lengths": [64, 256]},
}


def parse_arguments() -> argparse.Namespace:
    parser = OptionParser(description=__doc__)
    parser.add_argument("--preset", choices=PRESETS, help="default: laptop on a CPU, paper on a GPU")
    parser.add_argument("--data", default="embedded", help="as for translate_de_en.py (default: embedded)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--steps", type=positive, help="updates for each method")
    parser.add_argument("--batch", type=positive, help="sentence pairs an update, about")
    parser.add_argument("--lengths", type=OfKind(Length), nargs="+", help="sequence lengths of table 2")
    parser.add_argument("--seed", type=whole, default=0)
    parser.add_argument("--out", type=Path, help="new folder for the results (default: one under runs/)")
    given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    preset = given.get("preset") or ("laptop" if given["device"] == "cpu" else "paper")
    return argparse.Namespace(**{"out": None, "preset": preset, **PRESETS[preset], **given})


def train(options: argparse.Namespace, method: str, data: Any, tokenizer: BPETokenizer) -> dict[str, Any]:
    """Train with one method; returns the row of table 1: time, memory and validation loss."""
    preset = dataclasses.replace(translation_preset(options.preset, data.name), tokens_per_batch=16 * options.batch)
    manual_seed(options.seed)
    model = Seq2SeqTransformer(preset.model_config(tokenizer.vocab_size, tokenizer.pad_id)).to(options.device)
    for layer in model.modules():
        if isinstance(layer, MultiHeadAttention):
            layer.method = method
    optimizer, loss_of = Adam(model.parameters(), lr=1e-3), translation_loss(0.0, tokenizer.pad_id)

    def batches(pairs: Any) -> list[Any]:
        sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
        return list(TokenBatches(
            tokenizer.encode_batch(sources, add_eos=True), tokenizer.encode_batch(targets),
            tokens_per_batch=preset.tokens_per_batch, seed=options.seed, max_length=preset.max_length,
            pad_id=tokenizer.pad_id, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id,
        ).epoch(0))  # fmt: skip

    def update(batch: Any) -> None:
        model.zero_grad()
        loss_of(model, batch)[0].backward()
        optimizer.step()

    training, seconds = batches(data.train), []
    for step in tqdm(range(options.steps), desc=method, disable=None):
        start = time.perf_counter()
        update(training[step % len(training)])
        seconds.append(time.perf_counter() - start)
    widest = max(training, key=lambda batch: batch.source.size)
    peak = compare_attention.peak_bytes(lambda: update(widest), options.device)
    with no_grad():
        found = [loss_of(model.eval(), batch) for batch in batches(data.valid)]
    return {
        "method": method,
        "ms a batch": 1e3 * float(np.mean(seconds[1:] or seconds)),  # the first one on a GPU compiles the kernels
        "seconds": sum(seconds),
        "peak MB": peak / 2**20,
        "validation loss": sum(loss.item() * n for loss, n, _ in found) / sum(n for _, n, _ in found),
    }


def at_length(options: argparse.Namespace, methods: list[str], length: int) -> list[dict[str, Any]]:
    """Time and peak bytes of attention forward and backward, 4 heads of 64 features, with each method."""
    setting = compare_attention.Setting(length=length, causal=True, device=options.device)
    dtype = np.float16 if options.device != "cpu" else np.float32
    arrays = [to_device(array.astype(dtype), options.device) for array in setting.inputs()]
    rows = []
    for method in methods:
        _, both, peak = compare_attention.costs(setting, method, arrays, repeats=max(1, min(9, 4096 // length)))
        rows.append({"length": length, "method": method, "ms": both * 1e3, "peak MB": peak / 2**20})
    return rows


def as_table(rows: list[dict[str, Any]]) -> str:
    cells = [list(rows[0])] + [[f"{v:,.3f}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    return "\n".join("  ".join(f"{cell:>15}" for cell in line) for line in cells)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure  # nobody waits for it before the tables are there

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    labels = {"ms": "milliseconds, forward and backward", "peak MB": "peak memory in MB"}
    for axes, (what, label) in zip(figure.subplots(1, 2), labels.items(), strict=True):
        for method in dict.fromkeys(row["method"] for row in rows):
            points = [(row["length"], row[what]) for row in rows if row["method"] == method]
            axes.loglog(*zip(*points, strict=True), marker="o", label=method)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.set(xlabel="length of the sequence", ylabel=label)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    options = parse_arguments()
    methods = ["standard", compare_attention.methods_on(options.device)[0][-1]]
    data = load_translation_data(options.data)
    size = translation_preset(options.preset, data.name).vocab_size
    with results_folder(options.out, "compare_attention") as out:
        trained, rows = [], []  # what is done is said at once: all of it takes minutes
        for length in options.lengths:  # first: it needs the most bytes
            rows += at_length(options, methods, length)
            print(f"measured length {length:,}", flush=True)
        tokenizer = BPETokenizer.train([text for pair in data.train for text in pair], size)
        for method in methods:
            trained.append(train(options, method, data, tokenizer))
            print(f"trained with {method} attention: {trained[-1]['seconds']:.1f} s", flush=True)
        draw(rows, out / "lengths.png")
        text = f"Training, {options.steps} updates\n{as_table(trained)}\n\n"
        text += f"Attention alone, forward and backward\n{as_table(rows)}\n"
        (out / "tables.txt").write_text(text, encoding="utf-8")
        print(f"\n{text}\n{out} holds the tables and their picture, lengths.png")


if __name__ == "__main__":
    run_main(main)
