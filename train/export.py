"""Takes a trained model out of handloom: a folder that Hugging Face's `transformers` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError
from ..models import Strategy, pretrained
from ..models.pretrained.files import read_object
from ..models.shipped import model_path
from ..tokenizer import BPETokenizer
from .runs.checkpoints import read_config
from .runs.folder import RunFolder
from .tasks.classification import Classifier
from .tasks.language_modelling import Writer
from .tasks.task import TrainedModel
from .tasks.translation import Translator

#: The beam search of the examples as far as `transformers` has it: there a score is divided by length^alpha.
SEARCH = Strategy(beam=5, alpha=1.0, length_norm="power", early_stopping=False)


def export(source: str | Path, folder: str | Path) -> str:
    """Write a trained model as a folder of `transformers`, see `models.pretrained.save`.

    Args:
        source: a run's folder, or the name of a model that comes with handloom.
        folder: where to write; it must be new or empty.

    Returns a line that says what was written. Raises InputError, before anything is written, for a source that is no
    trained model, a model without an equivalent in `transformers`, and a folder that holds files.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} holds files already. Choose a folder that is new or empty.")
    path = model_path(str(source))
    config = read_config(RunFolder.open(path).model_path)
    kind: type[TrainedModel] = Classifier if "labels" in config else Writer if "length" in config else Translator
    found: Any = kind.load(path)
    more: dict[Any, dict[str, Any]] = {Classifier: {"labels": config.get("labels")}, Translator: {"strategy": SEARCH}}
    tokenizer = found.tokenizer if isinstance(found.tokenizer, BPETokenizer) else None
    pretrained.save(found.model, tokenizer, folder, **more.get(kind, {}))
    architecture = read_object(folder / "config.json")["architectures"][0]
    without = f" without a tokenizer: transformers has none like a {type(found.tokenizer).__name__}"
    return f"{folder} holds a {architecture} for transformers{'' if tokenizer else without}"
