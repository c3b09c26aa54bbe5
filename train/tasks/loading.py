"""`handloom.load`: loads trained models of every task."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from ...errors import InputError
from ...models.shipped import MODELS, model_path
from ...nn import Module
from ..runs.checkpoints import read_config
from ..runs.folder import RunFolder
from .trained import is_foreign

if TYPE_CHECKING:
    from .classification import Classifier
    from .language_modelling import Writer
    from .translation import Paraphraser, Summarizer, Translator

TaskName = Literal["translate", "generate", "classify", "summarize", "paraphrase"]
#: Module and class of each task's models. Importing only one of the modules saves time.
_CLASSES = {
    "translate": ("translation", "Translator"), "summarize": ("translation", "Summarizer"),
    "paraphrase": ("translation", "Paraphraser"), "generate": ("language_modelling", "Writer"),
    "classify": ("classification", "Classifier"),
}  # fmt: skip

#: The names of the tasks in the programs of the reports.
_TASKS_OF_RUNS = {"headlines of articles": "summarize", "paraphrases": "paraphrase"}
_PAIRS = ("translate", "summarize", "paraphrase")


@overload
def load(name: str | Path, task: Literal["translate"], *, model: Module | None = None) -> Translator: ...
@overload
def load(name: str | Path, task: Literal["generate"], *, model: Module | None = None) -> Writer: ...
@overload
def load(name: str | Path, task: Literal["classify"], *, model: Module | None = None) -> Classifier: ...
@overload
def load(name: str | Path, task: Literal["summarize"], *, model: Module | None = None) -> Summarizer: ...
@overload
def load(name: str | Path, task: Literal["paraphrase"], *, model: Module | None = None) -> Paraphraser: ...
@overload
def load(name: str | Path, task: TaskName | None = None, *, model: Module | None = None) -> Any: ...
def load(name: str | Path, task: TaskName | None = None, *, model: Module | None = None) -> Any:
    """Load a trained model with its tokenizer.

    Args:
        name: a model that comes with handloom, such as "everyday-de-en"; the folder of a run; or a model of
            `transformers`: its folder, or its name on the Hub such as "OWNER/MODEL".
        task: the required task. None means the task for which the model was trained; a `transformers` model that turns
            texts into texts does not state its task and counts as a translator.
        model: for a run with layers of one's own, a model that has them, into which the run's weights are loaded.

    Returns a `Translator` (method `translate`), `Writer` (`generate`), `Classifier` (`classify`), `Summarizer`
    (`summarize`) or `Paraphraser` (`paraphrase`), in evaluation mode. Raises InputError for a model that can't be found
    or read, or that has another task.
    """
    path = model_path(str(name))
    if not is_foreign(path) and not os.path.exists(path):
        raise InputError(
            f"There is no model {str(name)[:80]}. Give the folder of a run, the folder of a model or its name on the "
            f"Hub (OWNER/MODEL), or a model that comes with handloom: {', '.join(MODELS)}."
        )
    own, certain = task_of(path)
    asked = task or own
    if asked not in get_args(TaskName):
        raise InputError(f"There is no task {asked!r}: choose {', '.join(get_args(TaskName))}.")
    if asked != own and (certain or not {asked, own} <= {*_PAIRS}):
        raise InputError(f"{name} can't {asked}: its task is {own}. Use another model, or the command {own}.")
    module, name_of_class = _CLASSES[asked]
    return getattr(import_module(f".{module}", __package__), name_of_class).load(path, model=model)


def task_of(path: Path) -> tuple[str, bool]:
    """Return the task of a model, a run or one of `transformers`, and whether the model supports no other task."""
    if is_foreign(path):
        return _task_of_transformers(path)
    config = read_config(RunFolder.open(path).path)
    if "labels" in config:
        return "classify", True
    if "length" in config:
        return "generate", True
    learnt = str(config.get("task", ""))
    return _TASKS_OF_RUNS.get(learnt, "translate"), bool(learnt)


def _task_of_transformers(folder_or_name: Path) -> tuple[str, bool]:
    from ...models.pretrained.files import find_folder, read_object
    from ...models.pretrained.loading import ARCHITECTURES
    from ...models.seq2seq import Seq2SeqTransformer

    kind = read_object(find_folder(folder_or_name) / "config.json").get("model_type")
    if kind in ("bert", "distilbert"):
        return "classify", True
    model = getattr(ARCHITECTURES.get(kind), "MODEL", None) if isinstance(kind, str) else None
    return ("translate", False) if model is Seq2SeqTransformer else ("generate", True)
