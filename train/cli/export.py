"""handloom export MODEL FOLDER: write a trained model as a folder that `transformers` reads."""

from __future__ import annotations

from pathlib import Path

from ...errors import InputError
from ...models.pretrained import save
from ..tasks.by_name import load
from .options import OptionParser


def main() -> None:
    parser = OptionParser(
        prog="handloom export",
        description="Write a trained model as a folder of transformers: config.json, model.safetensors, "
        "generation_config.json and the tokenizer's files. docs/pretrained.md says which models have a home there.",
    )
    parser.add_argument("model", metavar="MODEL", help="a run's folder, or a model that comes with handloom")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new or an empty folder")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is no empty folder, and nothing is overwritten: choose another one.")
    trained = load(arguments.model)
    labels, strategy = getattr(trained, "labels", None), getattr(trained, "own", None)
    save(trained.model, trained.tokenizer, folder, labels=labels, strategy=strategy)
    print(f"{folder} holds the model for transformers: AutoTokenizer.from_pretrained({str(folder)!r}) and the like")
