"""Build a model that comes with handloom from a run, and evaluate it.

    HANDLOOM_DATA=... python -m benchmarks.shipped_model runs/tatoeba tatoeba-de-en
    python -m benchmarks.shipped_model --everyday everyday-de-en

The run's matrices are rounded to 8 bits, or to --bits. The model's folder in models/shipped receives the files that an
example loads: configuration, weights and tokenizer. It also receives the losses of the first updates, which a test
repeats, and figures.json with the scores in the model's card. A translator is scored on Tatoeba sentences and
Multi30k's descriptions of pictures that are not in the training data, a classifier on the test articles of its data, a
language model on the validation and test parts of its text.

With --everyday, a translator given by its name or folder translates the 200 sentences of everyday.tsv, which were
written for this test and are in no training text. results/everyday.json receives the translations and their BLEU: with
two references each from German, or with one reference from English.
"""

import argparse
import itertools
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy._core._multiarray_umath import __cpu_features__

import handloom
from handloom.cli.command_line import run_main
from handloom.cli.translation import translation_task
from handloom.examples.tables import language_models
from handloom.models.shipped import MODELS, model_name, model_path
from handloom.train.data.news import load_news
from handloom.train.data.running_text import load_text_data
from handloom.train.data.translation import load_translation_data
from handloom.train.runs.checkpoints import read_config, rounded, save_checkpoint
from handloom.train.runs.folder import RunFolder
from handloom.train.tasks.classification import Classifier
from handloom.train.tasks.language_modelling import Writer, tokenize
from handloom.train.tasks.metrics import bleu, chrf, class_scores

FIRST_UPDATES = 20
TESTED_SENTENCES = 200  # sentences that a test translates, evenly spaced in the test set, which is sorted by length


def write_rounded(run: Path, folder: Path, bits: int) -> bool:
    """Write the run's model, with its matrices rounded to `bits`, and the losses of the first updates.

    If `run` began with the model of another run (--init), the configuration and the first updates are those of the run
    with which the training began. If a run began with the model that it replaces, both files are left unchanged, and
    False is returned.
    """
    model = handloom.load(run).model
    size = save_checkpoint(folder, rounded(model.state_dict(), bits), read_config(run)).stat().st_size
    print(f"{model.parameter_count():,} parameters, {size:,} bytes")
    shutil.copyfile(run / "tokenizer.json", folder / "tokenizer.json")
    while (Path(RunFolder.open(run).config["options"]["init"] or "") / "metrics.jsonl").exists():
        run = Path(RunFolder.open(run).config["options"]["init"])
    config = {name: value for name, value in RunFolder.open(run).config.items() if name != "command"}
    if config["options"]["init"]:
        config["options"]["init"] = model_name(Path(config["options"]["init"]))
    if config["options"]["init"] == model_name(folder):
        return False
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    with open(run / "metrics.jsonl") as log:
        (folder / "first_updates.jsonl").write_text("".join(itertools.islice(log, FIRST_UPDATES)))
    return True


def environment() -> dict[str, Any]:
    """Return what determines the last bits of the first updates."""
    simd = sorted(name for name, there in __cpu_features__.items() if there)
    return {"numpy": np.__version__, "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", ""), "simd": simd}


def measure(folder: Path) -> dict[str, Any]:
    """Return the scores of the shipped model."""
    model = handloom.load(folder)
    options = json.loads((folder / "config.json").read_text(encoding="utf-8"))["options"]
    scores = {Classifier: classifier_scores, Writer: language_model_scores}.get(type(model), translator_scores)
    return scores(model, options)


def translator_scores(translator: Any, options: dict[str, Any]) -> dict[str, float]:
    """Return the BLEU by beam search of width 5 and by greedy search, for each test set."""
    source, target = ("en", "de") if options["reverse"] else ("de", "en")
    figures = {}
    for name in ("tatoeba", "multi30k"):
        data = load_translation_data(name, source=source, target=target)
        few = f"beam 5, {TESTED_SENTENCES} sentences", 5, len(data.test) // TESTED_SENTENCES
        for what, beam, every in (("beam 5", 5, 1), ("greedy", 1, 1), few):
            sources, references = (list(side) for side in zip(*data.test[::every], strict=True))
            start = time.perf_counter()
            found = translator.translate(sources, beam=beam, too_long="truncate", progress=True, split=False)
            score = bleu(found, references)
            figures[f"{name}, {what}"] = round(score.value, 2)
            print(f"{data.test_name}, {what}: BLEU = {score.value:.2f}, {score.signature}, {len(found):,} sentences")
            print(f"  {chrf(found, references)}, {time.perf_counter() - start:.0f} s")
    return figures


def classifier_scores(classifier: Any, options: dict[str, Any]) -> dict[str, float]:
    """Return the accuracy and the macro F1 in percent: all test articles, those with a description, and by headline."""
    articles = load_news(options["data"], descriptions=True, categories=True).test
    parts = {"all": articles, "with a description": [article for article in articles if article.description]}
    texts = {name: [f"{article.headline} {article.description}" for article in part] for name, part in parts.items()}
    parts["headline only"], texts["headline only"] = articles, [article.headline for article in articles]
    found = {}
    for name, part in parts.items():
        scores = class_scores(classifier.predict(texts[name]), [article.category for article in part])
        found |= {f"{name}, {score}": round(100 * value, 2) for score, value in scores.items()}
        print(f"{name}, {len(part):,} articles: {scores}")
    return found


def language_model_scores(writer: Any, options: dict[str, Any]) -> dict[str, float]:
    """Return the loss (nats per token), the bits per character and the accuracy (percent) on both held-out texts."""
    scores = language_models.figures(writer, tokenize(load_text_data(options["data"]), writer.tokenizer))
    found = {}
    for part in ("valid", "test"):
        found[f"{part}, loss"] = round(scores[f"{part}_loss"], 3)
        found[f"{part}, bits per character"] = round(scores[f"{part}_bits_per_character"], 3)
        found[f"{part}, accuracy"] = round(100 * scores[f"{part}_accuracy"], 1)
    print(found)
    return found


def everyday(model: str) -> None:
    """Write a model's translations of the 200 everyday sentences and their BLEU to results/everyday.json."""
    here = Path(__file__).parent
    rows = [line.split("\t") for line in (here / "everyday.tsv").read_text(encoding="utf-8").splitlines()]
    if read_config(model_path(model)).get("task") == translation_task("en", "de"):
        rows = [[english, german] for german, english, _ in rows]
    sources = [source for source, *_ in rows]
    found = handloom.load(model, "translate").translate(sources, too_long="truncate", split=False)
    score = bleu(found, [references for _, *references in rows])
    print(f"{len(rows)} everyday sentences: {score}")
    results = here / "results/everyday.json"
    models = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    models[model] = {"BLEU": round(score.value, 2), "signature": score.signature, "answers": found}
    results.write_text(json.dumps(models, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", nargs="?", help="folder of the training run")
    parser.add_argument("name", metavar="NAME", nargs="?", choices=MODELS, help=f"model to build: {', '.join(MODELS)}")
    parser.add_argument("--out", type=Path, help="folder to write to (default: the model's folder in the package)")
    parser.add_argument("--bits", type=int, choices=range(2, 9), default=8, help="bits of a weight (default: 8)")
    parser.add_argument("--everyday", metavar="MODEL", help="only translate the 200 everyday sentences with MODEL")
    arguments = parser.parse_args()
    if arguments.everyday:
        everyday(arguments.everyday)
        return
    if arguments.name is None:
        parser.error("RUN and NAME are needed, or --everyday")
    folder = arguments.out or MODELS[arguments.name]
    folder.mkdir(exist_ok=True)
    file = folder / "figures.json"
    recorded = environment()
    if not write_rounded(Path(arguments.run), folder, arguments.bits):
        old = json.loads(file.read_text(encoding="utf-8"))
        recorded = {name: old[name] for name in recorded}
    file.write_text(json.dumps(recorded | measure(folder), indent=1) + "\n")


if __name__ == "__main__":
    run_main(main)
