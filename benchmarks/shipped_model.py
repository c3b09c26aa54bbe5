"""Build the translator that comes with handloom from a run, and evaluate it.

    HANDLOOM_DATA=... python -m benchmarks.shipped_model runs/tatoeba
    python -m benchmarks.shipped_model --everyday tatoeba-de-en

The matrices of the run's model are rounded to 8 bits. Configuration, weights and tokenizer are written to the folder
models/shipped/tatoeba_de_en. The folder also gets the losses of the first updates, which a test repeats, and
figures.json with the scores for the model card. The scores are for Tatoeba sentences that are not in the training data,
and for Multi30k's descriptions of pictures, for which the model was not trained.

With --everyday, a model given by its name or folder translates the 200 sentences of everyday.tsv, which were written
for this test and are in no training text. results/everyday.json receives the translations and their BLEU with two
references each.
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
TESTED_SENTENCES = 200  # sentences that a test translates, evenly spaced in the test set, which is sorted by length


def write_rounded(run: Path, folder: Path) -> None:
    """Write the run's model, with its matrices in 8 bits, and the losses of its first updates."""
    from handloom.train.runs.checkpoints import read_config, rounded_to_8_bits, save_checkpoint
    from handloom.train.tasks.translation import Translator

    model = Translator.load(run).model
    size = save_checkpoint(folder, rounded_to_8_bits(model.state_dict()), read_config(run)).stat().st_size
    print(f"{model.parameter_count():,} parameters, {size:,} bytes")
    for name in ("config.json", "tokenizer.json"):
        shutil.copyfile(run / name, folder / name)
    with open(run / "metrics.jsonl") as log:
        (folder / "first_updates.jsonl").write_text("".join(itertools.islice(log, FIRST_UPDATES)))


def measure(folder: Path) -> dict[str, Any]:
    """Return the shipped model's BLEU with beam search of width 5 and with greedy search, and the environment."""
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


def everyday(model: str) -> None:
    """Write a model's translations of the 200 everyday sentences and their BLEU to results/everyday.json."""
    import handloom
    from handloom.train.tasks.metrics import bleu_of_several

    here = Path(__file__).parent
    rows = [line.split("\t") for line in (here / "everyday.tsv").read_text(encoding="utf-8").splitlines()]
    found = handloom.load(model, "translate").translate([source for source, *_ in rows], too_long="truncate")
    score = bleu_of_several(found, [references for _, *references in rows])
    print(f"{len(rows)} everyday sentences: {score}")
    results = here / "results/everyday.json"
    models = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    models[model] = {"BLEU": round(score.value, 2), "signature": score.signature, "answers": found}
    results.write_text(json.dumps(models, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", help="folder of the training run")
    parser.add_argument("--out", type=Path, help="folder to write to (default: the model's folder in the package)")
    parser.add_argument("--everyday", action="store_true", help="only translate the 200 everyday sentences with RUN")
    arguments = parser.parse_args()
    if arguments.everyday:
        everyday(arguments.run)
        return
    from handloom.models.shipped import MODELS

    folder = arguments.out or MODELS["tatoeba-de-en"]
    folder.mkdir(exist_ok=True)
    write_rounded(Path(arguments.run), folder)
    figures = measure(folder)
    (folder / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
