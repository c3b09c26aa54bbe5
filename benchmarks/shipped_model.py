"""Build the translator that comes with handloom from a run, and evaluate it.

    HANDLOOM_DATA=... python -m benchmarks.shipped_model runs/tatoeba

The run's weights are rounded to half precision. The folder models/shipped/tatoeba_de_en receives the files that an
example loads: configuration, weights and tokenizer. It also receives the losses of the first updates, which a test
repeats, and figures.json with the scores in the model's card. The scores are for Tatoeba sentences that are not in the
training data, and for Multi30k's descriptions of pictures, for which the model was not trained.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

FIRST_UPDATES = 20
TESTED_SENTENCES = (
    200  # the tests translate so many test sentences, evenly spaced (they are in order of length)
)


def write_half(run: Path, folder: Path) -> None:
    """Write the run's model, with its weights in half precision, and the losses of its first updates."""
    from handloom.train.runs.checkpoints import read_config, save_checkpoint
    from handloom.train.tasks.translation import Translator

    model = Translator.load(run).model
    tensors = model.state_dict()
    half = {id(tensor): tensor.astype(np.float16) for tensor in tensors.values()}
    assert all(np.isfinite(tensor).all() for tensor in half.values())
    named = {name: half[id(tensor)] for name, tensor in tensors.items()}  # tied tables have several names
    size = save_checkpoint(folder, named, read_config(run)).stat().st_size
    print(f"{model.parameter_count():,} parameters, {size:,} bytes")
    for name in ("config.json", "tokenizer.json"):
        shutil.copyfile(run / name, folder / name)
    with open(run / "metrics.jsonl") as log:
        (folder / "first_updates.jsonl").write_text("".join(itertools.islice(log, FIRST_UPDATES)))


def measure(folder: Path) -> dict[str, Any]:
    """Return the BLEU of the shipped model, by beam search of width 5 and greedy search, and the environment."""
    from numpy._core._multiarray_umath import __cpu_features__

    from handloom.models import Strategy
    from handloom.train.data.translation import load_translation_data
    from handloom.train.tasks.metrics import bleu, chrf
    from handloom.train.tasks.translation import Translator

    translator = Translator.load(folder)
    found_here = (name for name, there in __cpu_features__.items() if there)
    figures: dict[str, Any] = {
        "numpy": np.__version__,
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", ""),
        "simd": sorted(found_here),
    }
    for name in ("tatoeba", "multi30k"):
        data = load_translation_data(name)
        few = len(data.test) // TESTED_SENTENCES
        for what, beam, every in (
            ("beam 5", 5, 1),
            ("greedy", 1, 1),
            (f"beam 5, {TESTED_SENTENCES} sentences", 5, few),
        ):
            test = data.test[::every]
            start = time.perf_counter()
            found = translator.translate(
                [source for source, _ in test], strategy=Strategy(beam=beam), too_long="truncate", progress=True
            )
            score = bleu(found, [target for _, target in test])
            figures[f"{name}, {what}"] = round(score.value, 2)
            print(f"{data.test_name}, {what}: BLEU = {score.value:.2f}, {score.signature}, {len(test):,} sentences")
            print(f"  {chrf(found, [target for _, target in test])}, {time.perf_counter() - start:.0f} s")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the training run")
    parser.add_argument("--out", type=Path, help="folder to write to (default: the package's own)")
    arguments = parser.parse_args()
    from handloom.models.shipped import MODELS

    folder = arguments.out or MODELS["tatoeba-de-en"]
    folder.mkdir(exist_ok=True)
    write_half(arguments.run, folder)
    figures = measure(folder)
    (folder / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
