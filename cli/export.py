"""handloom export MODEL FOLDER: save a trained model in the format of Hugging Face transformers."""

import shutil
from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from ..files import temporary_name
from ..models import Strategy, pretrained
from ..models.pretrained.files import read_object
from ..tokenizer import CharacterTokenizer, WordTokenizer
from ..train.tasks.loading import load
from .options import OptionParser

#: The options of the examples' beam search in `transformers`, which divides a score by length^alpha.
SEARCH = Strategy(beam=5, alpha=1.0, length_norm="power", early_stopping=False)


def export(source: str | Path, folder: str | Path) -> str:
    """Save a run's model, or one that comes with handloom, as a new folder for `transformers`, and return a line that
    describes it. An error is raised before anything is written.
    """
    folder = Path(folder)
    part = folder / temporary_name("export")  # an export that was interrupted leaves only this folder
    if folder.exists() and (not folder.is_dir() or any(entry != part for entry in folder.iterdir())):
        raise InputError(f"{folder} already holds files, which are not overwritten. Choose one that is new or empty.")
    found = load(source)
    search = getattr(found, "own", None)
    if search is not None and search.length_norm != "power":  # it comes from a run, not from transformers
        search = replace(SEARCH, rules=search.rules)
    only_here = isinstance(found.tokenizer, (CharacterTokenizer, WordTokenizer))
    tokenizer = None if only_here else found.tokenizer
    shutil.rmtree(part, ignore_errors=True)
    pretrained.save(found.model, tokenizer, part, labels=getattr(found, "labels", None), strategy=search)
    for file in part.iterdir():
        file.rename(folder / file.name)
    part.rmdir()
    architecture = read_object(folder / "config.json")["architectures"][0]
    without = f" without a tokenizer: transformers has no equivalent of a {type(found.tokenizer).__name__}"
    return f"{folder} holds a {architecture} for transformers{without if only_here else ''}"


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
