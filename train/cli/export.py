"""handloom export MODEL FOLDER: save a trained model in the format of Hugging Face transformers."""

from __future__ import annotations

from pathlib import Path

from ..export import export
from .options import OptionParser


def main() -> None:
    parser = OptionParser(
        prog="handloom export",
        description="Save a trained model in the format of Hugging Face transformers: config.json, model.safetensors, "
        "generation_config.json and the tokenizer's files. docs/pretrained.md lists the supported models.",
    )
    parser.add_argument("model", metavar="MODEL", help="folder of a run, or name of a model that comes with handloom")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="new or empty folder to write to")
    arguments = parser.parse_args()
    print(export(arguments.model, arguments.folder))
