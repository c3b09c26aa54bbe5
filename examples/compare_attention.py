"""Compare the methods of attention: train the same model with each, and measure time and memory for several lengths.

python examples/compare_attention.py                    embedded corpus, some minutes
python examples/compare_attention.py --preset smoke     takes a few seconds
python examples/compare_attention.py --table training --data multi30k  documents of 1,024 tokens
python examples/compare_attention.py --device cuda --data multi30k     the report's model, batches of 512 sentences

The training table repeats Table 2 of the German-English report: one Transformer is trained with each method, with the
same seed and batches. The losses agree, because the methods compute the same function. On a CPU, sentences are joined
into documents, because the speed of the methods differs only for sequences longer than a sentence. The table of lengths
measures attention alone. The standard method stores all weights, so its memory grows with the square of the length.
"""

import argparse
import dataclasses
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from handloom import models, train
from handloom.autograd import Tensor, grad, manual_seed, no_grad, ops
from handloom.cli import OptionParser, length, path, positive, results_folder, run_main, whole
from handloom.examples.tables import layer_cost
from handloom.nn import MultiHeadAttention
from handloom.tokenizer import BPETokenizer

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"steps": 60, "batch": 512, "document": None, "lengths": [2**n for n in range(6, 14)]},
    "laptop": {"steps": 12, "batch": 4, "document": 1024, "lengths": [2**n for n in range(6, 14)]},
    "smoke": {"steps": 4, "batch": 4, "document": 64, "lengths": [64, 256]},
}
TABLES = ("training", "lengths")
SENTENCE = 16  # tokens, about
#: Table 2 of the German-English report: an A100, batches of 512, 80,000 pairs, 5 epochs. The second row is for
#: FlashAttention. The report does not say how it averages the validation loss.
REPORT = (
    {"report_seconds_a_batch": 0.98, "report_seconds": 931.0, "report_gb": 46, "report_loss": 16.15},
    {"report_seconds_a_batch": 0.168, "report_seconds": 368.61, "report_gb": 32, "report_loss": 14.38},
)
TRAINING_COLUMNS = {
    "method": "attention",
    "seconds_a_batch": "s a batch:.3f",
    "report_seconds_a_batch": "report:.3f",
    "seconds": "seconds:.1f",
    "report_seconds": "report:.1f",
    "processor": "processor time, s:.1f",
    "peak_mb": "peak, MB:,.0f",
    "report_gb": "report, GB:d",
    "loss": "validation loss:.4f",
    "report_loss": "report:.2f",
}
LENGTH_COLUMNS = {
    "length": "length:,",
    "method": "attention",
    "ms": "forward and backward, ms:,.1f",
    "peak_mb": "peak, MB:,.1f",
    "output_error": "error of the output:.1e",
    "gradient_error": "of the gradients:.1e",
}


def parse_arguments() -> argparse.Namespace:
    parser = OptionParser(description=__doc__)
    words = "sizes of the model and of the measurements (default: laptop on a CPU, paper on a GPU)"
    parser.add_argument("--preset", choices=PRESETS, help=words)
    words = "data set; the choices are those of translate_de_en.py (default: embedded)"
    parser.add_argument("--data", default="embedded", help=words)
    parser.add_argument("--device", default="cpu", help="device: cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--table", choices=TABLES, help="produce only this table (default: both tables)")
    parser.add_argument("--steps", type=positive, help="number of updates per method (default: the preset's value)")
    words = "sequence lengths, in tokens, that the table of lengths measures (default: the preset's value)"
    parser.add_argument("--lengths", type=length, nargs="+", help=words)
    parser.add_argument("--seed", type=whole, default=0, help="random seed (default: 0)")
    parser.add_argument("--out", type=path, help="new folder for the results (default: a new folder in runs/)")
    given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    idle: dict[str, tuple[str, ...]] = {"training": ("lengths",), "lengths": ("steps", "data")}
    for name in idle.get(given.get("table", ""), ()):
        if given.get(name, parser.get_default(name)) != parser.get_default(name):
            parser.error(f"--{name} has no effect: it applies to the other table. Leave it out, or leave out --table.")
    preset = given.get("preset") or ("laptop" if given["device"] == "cpu" else "paper")
    return argparse.Namespace(**{"out": None, "table": None, "preset": preset, **PRESETS[preset], **given})


def train_with(options: argparse.Namespace, method: str, data: Any, tokenizer: BPETokenizer) -> dict[str, Any]:
    """Train with one method. Return a row of the table: time, memory and validation loss."""
    preset = models.translation_preset(options.preset, data.name)
    longest = options.document or preset.max_length
    tokens = options.batch * (options.document or SENTENCE)
    preset = dataclasses.replace(preset, tokens_per_batch=max(tokens, longest), max_length=longest)
    manual_seed(options.seed)
    model = models.Seq2SeqTransformer(preset.model_config(tokenizer.vocab_size, tokenizer.pad_id)).to(options.device)
    for layer in model.modules():
        if isinstance(layer, MultiHeadAttention):
            layer.method = method
    optimizer, loss_of = train.Adam(model.parameters(), lr=1e-3), train.translation_loss(0.0, tokenizer.pad_id)

    def batches(pairs: Any) -> list[Any]:
        sources, targets = (tokenizer.encode_batch([pair[side] for pair in pairs]) for side in (0, 1))
        if options.document:
            sources, targets = train.join_neighbours(sources, targets, options.document)
        return list(train.TokenBatches(
            [[*source, tokenizer.eos_id] for source in sources], targets,
            tokens_per_batch=preset.tokens_per_batch, seed=options.seed, max_length=preset.max_length,
            pad_id=tokenizer.pad_id, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id,
        ).epoch(0))  # fmt: skip

    def update(batch: Any) -> None:
        model.zero_grad()
        loss_of(model, batch)[0].backward()
        optimizer.step()

    training, seconds, processor = batches(data.train), [], time.process_time()
    for step in tqdm(range(options.steps), desc=method, disable=None):
        start = time.perf_counter()
        update(training[step % len(training)])
        seconds.append(time.perf_counter() - start)
    processor = time.process_time() - processor
    widest = max(training, key=lambda batch: batch.source.size)
    peak = layer_cost.peak_bytes(lambda: update(widest), options.device)
    with no_grad():
        found = [loss_of(model.eval(), batch) for batch in batches(data.valid)]
    return {
        "method": method,
        "seconds_a_batch": float(np.mean(seconds[1:] or seconds)),  # the first batch on a GPU compiles the kernels
        "seconds": sum(seconds),
        "processor": processor if options.device == "cpu" else None,
        "peak_mb": peak / 1e6,
        "loss": sum(loss.item() * n for loss, n, _ in found) / sum(n for _, n, _ in found),
    }


def results(arrays: list[Any], method: str) -> list[np.ndarray]:
    """Return the output of causal attention and its three gradients, from query, key, value and the output gradient."""
    leaves = [Tensor(array, requires_grad=True) for array in arrays[:3]]
    out = ops.attention(*leaves, causal=True, method=method)
    return [out.data, *(gradient.data for gradient in grad(out, leaves, arrays[3]))]


def on(device: str, array: Any) -> Any:
    """Return an array on a device."""
    return Tensor(array).to(device).data


def at_length(options: argparse.Namespace, methods: Sequence[str], tokens: int) -> list[dict[str, Any]]:
    """Return time, peak memory and errors of attention (4 heads of 64 features) and its gradient by each method."""
    rng = np.random.default_rng(0)
    given = rng.standard_normal((4, 1, 4, tokens, 64)).astype(np.float16 if options.device != "cpu" else np.float32)
    truth, arrays = results(list(given.astype(np.float64)), "blocked"), [on(options.device, a) for a in given]
    rows = []
    for method in methods:

        def run(method: str = method) -> list[Any]:
            return results(arrays, method)

        errors = [float(abs(on("cpu", a) - b).max()) for a, b in zip(run(), truth, strict=True)]
        times = max(1, min(9, 4096 // tokens))
        rows.append({
            "length": tokens, "method": method, "ms": 1e3 * layer_cost.seconds(run, times, options.device),
            "peak_mb": layer_cost.peak_bytes(run, options.device) / 1e6,
            "output_error": errors[0], "gradient_error": max(errors[1:]),
        })  # fmt: skip
    return rows


def draw(rows: list[dict[str, Any]], out: Path) -> None:
    """Draw time and memory over the length, a line for each method, as time.png and memory.png."""
    found = {row["method"]: [own for own in rows if own["method"] == row["method"]] for row in rows}
    for what, file, label in (
        ("ms", "time", "ms, forward and backward"),
        ("peak_mb", "memory", "peak memory in MB"),
    ):
        lines = {name: ([row["length"] for row in own], [row[what] for row in own]) for name, own in found.items()}
        train.plot_lines(lines, out / f"{file}.png", x_label="length of the sequence", y_label=label, log_x=True)


def main() -> None:
    options = parse_arguments()
    methods = layer_cost.methods_on(options.device)
    data = train.load_translation_data(options.data)
    size = models.translation_preset(options.preset, data.name).vocab_size
    out = results_folder(options.out, "compare_attention")
    tables: dict[str, list[dict[str, Any]]] = {"lengths": [], "training": []}
    if options.table != "training":
        for tokens in options.lengths:  # measured first, because it needs the most memory
            tables["lengths"] += at_length(options, methods, tokens)
            print(f"measured length {tokens:,}", flush=True)  # because the whole table takes minutes
        draw(tables["lengths"], out)
    if options.table != "lengths":
        tokenizer = BPETokenizer.train([text for pair in data.train for text in pair], size)
        for method, stated in zip(methods, REPORT, strict=True):
            row = train_with(options, method, data, tokenizer)
            tables["training"].append({**row, **stated})
            print(f"trained with {method} attention: {row['seconds']:.1f} s", flush=True)
    write(options, data, tables, out)


def write(options: argparse.Namespace, data: Any, tables: dict[str, list[dict[str, Any]]], out: Path) -> None:
    """Write results.json and tables.md, and print the tables."""
    texts = f"documents of {options.document:,} tokens" if options.document else "sentences"
    training = f"Training, {options.steps} updates of {options.batch} {texts}; the report: an A100, batches of 512"
    titles = {
        "lengths": ("Attention alone, forward and backward", LENGTH_COLUMNS),
        "training": (training, TRAINING_COLUMNS),
    }
    made = {name: rows for name, rows in tables.items() if rows}
    parts = [f"{titles[name][0]}\n\n{train.markdown_table(rows, titles[name][1])}\n" for name, rows in made.items()]
    text = "\n".join(parts)
    (out / "tables.md").write_text(text, encoding="utf-8")
    command = shlex.join(["python", "examples/compare_attention.py", *sys.argv[1:]])
    about = {"data": data.summary(), "notes": list(data.notes), "data_sha256": train.checksum(data)}
    train.write_results(out / "results.json", {"command": command, "options": {"seed": options.seed}, **about}, made)
    print(f"\n{text}\n{out} holds the tables")


if __name__ == "__main__":
    run_main(main)
