"""handloom export MODEL FOLDER: write a trained model as a folder that `transformers` reads."""

from __future__ import annotations

from pathlib import Path

from ..export import export
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
    print(export(arguments.model, arguments.folder))
