"""`handloom.load`: loads any trained model by its name or folder."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from ...errors import InputError
from ...models.shipped import MODELS, model_path
from ..runs.checkpoints import read_config
from ..runs.folder import RunFolder
from .loading import is_foreign

if TYPE_CHECKING:
    from .classification import Classifier
    from .language_modelling import Writer
    from .translator import Paraphraser, Summarizer, Translator

Task = Literal["translate", "generate", "classify", "summarize", "paraphrase"]

#: For each task: its module in this folder, and the class of its trained models.
CLASSES = {
    "translate": ("translator", "Translator"),
    "generate": ("language_modelling", "Writer"),
    "classify": ("classification", "Classifier"),
    "summarize": ("translator", "Summarizer"),
    "paraphrase": ("translator", "Paraphraser"),
}
#: The names of the tasks in the programs of the reports.
_TASKS_OF_RUNS = {"headlines of articles": "summarize", "paraphrases": "paraphrase"}
_PAIRS = ("translate", "summarize", "paraphrase")


@overload
def load(name: Literal["everyday-de-en", "everyday-en-de", "tatoeba-de-en"]) -> Translator: ...
@overload
def load(name: Literal["gutenberg-15"]) -> Writer: ...
@overload
def load(name: Literal["huffpost-42"]) -> Classifier: ...
@overload
def load(name: str | Path, task: Literal["translate"]) -> Translator: ...
@overload
def load(name: str | Path, task: Literal["generate"]) -> Writer: ...
@overload
def load(name: str | Path, task: Literal["classify"]) -> Classifier: ...
@overload
def load(name: str | Path, task: Literal["summarize"]) -> Summarizer: ...
@overload
def load(name: str | Path, task: Literal["paraphrase"]) -> Paraphraser: ...
@overload
def load(name: str | Path, task: Task | None = None) -> Any: ...
def load(name: str | Path, task: Task | None = None) -> Any:
    """Load a trained model with its tokenizer.

    Args:
        name: a model that comes with handloom, such as "everyday-de-en"; the folder of a run; or a model of
            `transformers`: its folder, or its name on the Hub such as "OWNER/MODEL".
        task: the required task. None means the task for which the model was trained; a `transformers` model that turns
            texts into texts does not state its task and counts as a translator.

    Returns a `Translator` (method `translate`), `Writer` (`generate`), `Classifier` (`classify`), `Summarizer`
    (`summarize`) or `Paraphraser` (`paraphrase`), in evaluation mode. Raises InputError for a model that can't be found
    or read, or that has another task.
    """
    path = model_path(str(name))
    foreign = is_foreign(path)
    if not foreign and not os.path.exists(path):
        raise InputError(
            f"There is no model {str(name)[:80]}. Give the folder of a run, the folder of a model or its name on the "
            f"Hub (OWNER/MODEL), or a model that comes with handloom: {', '.join(MODELS)}."
        )
    own, certain = _of_transformers(path) if foreign else _of_run(path)
    asked = task or own
    if asked not in CLASSES:
        raise InputError(f"There is no task {asked!r}: choose {', '.join(CLASSES)}.")
    if asked != own and (certain or not {asked, own} <= {*_PAIRS}):
        raise InputError(f"{name} can't {asked}: its task is {own}. Use another model, or the command {own}.")
    module, kind = CLASSES[asked]
    return getattr(importlib.import_module(f".{module}", __package__), kind).load(path)


def _of_run(path: Path) -> tuple[str, bool]:
    """Return the task of a run's model, and whether it is the only task that the model supports."""
    config = read_config(RunFolder.open(path).model_path)
    if "labels" in config:
        return "classify", True
    if "length" in config:
        return "generate", True
    learnt = str(config.get("task", ""))
    return _TASKS_OF_RUNS.get(learnt, "translate"), bool(learnt)


def _of_transformers(folder_or_name: Path) -> tuple[str, bool]:
    from ...models.pretrained.files import find_folder, read_object
    from ...models.pretrained.loading import ARCHITECTURES
    from ...models.seq2seq import Seq2SeqTransformer

    kind = read_object(find_folder(folder_or_name) / "config.json").get("model_type")
    if kind in ("bert", "distilbert"):
        return "classify", True
    model = getattr(ARCHITECTURES.get(kind), "MODEL", None) if isinstance(kind, str) else None
    return ("translate", False) if model is Seq2SeqTransformer else ("generate", True)
