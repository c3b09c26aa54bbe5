"""What all trained models have in common: loading, `fit`, saving."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

from ...errors import InputError, short
from ...files import read_json
from ...kinds import argument, checked
from ...models.own_layers import saved_note
from ...models.shipped import model_path
from ...nn import Dropout, Module, MultiHeadAttention
from ...nn.init import skip_init
from ...tensor_files import check_finite
from ...tokenizer import Tokenizer, load_tokenizer
from ..runs.checkpoints import file_digest, load_checkpoint, save_checkpoint
from ..runs.folder import RunFolder

_OWN_MODEL = "Build the model and load the weights into it: handloom.load(RUN, model=MODEL)."


class TrainedModel(ABC):
    """A trained model and its tokenizer, or an estimator from which `fit` makes one.

    Args:
        model, tokenizer: the trained model; None for an estimator that has yet to be fitted.
        preset: the name of the sizes and training options that `fit` uses: "smoke", "laptop" or "paper".
        settings: changes to this preset, such as `d_model=256`; `models.hyperparameters` lists the fields.
    """

    task: ClassVar[Any]  # the class of tasks that trains such a model, which enters itself
    what: ClassVar[str]  # a description of the model for messages
    #: For each "kind" in a run's configuration, the classes of the model and of its configuration; `models.pretrained`
    #: must load the first model class.
    kinds: ClassVar[Mapping[str, tuple[Any, Any]]]
    searches: ClassVar[bool] = False  # whether the generation options in a transformers folder are used
    model: Any
    tokenizer: Tokenizer
    history: Any = None  # the rows of the training log, if `fit` trained the model
    name = ""  # of the task in the configuration of a saved model, see `load`

    def __init__(self, model: Any = None, tokenizer: Tokenizer | None = None, preset: str = "laptop", **settings: Any):
        self.preset, self.settings = preset, settings
        if (model is None) is not (tokenizer is None):
            raise InputError("Give both a model and its tokenizer, or neither; a preset is given as preset=NAME.")
        if model is not None and tokenizer is not None:
            self.model, self.tokenizer = model.eval(), tokenizer
        else:
            self.task.preset_of(self)  # a wrong name or value raises an error here

    def __getattr__(self, name: str) -> Any:
        if name in ("model", "tokenizer"):
            cure = "call fit(data), or load a trained one with handloom.load"
            raise AttributeError(f"This {type(self).__name__} has no model yet: {cure}.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        name = type(self).__name__
        if "model" not in vars(self):
            return f"{name}({', '.join(f'{key}={value!r}' for key, value in self.options().items())})"
        sizes = f"{self.model.parameter_count():,} parameters, {self.tokenizer.vocab_size:,} tokens"
        return f"<{name}: {self.name + ', ' if self.name else ''}{sizes}>"

    def options(self) -> dict[str, Any]:
        """Return the arguments with which an estimator of the same settings can be made."""
        return {"preset": self.preset, **self.settings}

    @classmethod
    @checked
    def load(
        cls, folder: str | Path, tasks: Collection[str] | None = None, *, model: Module | None = None, **options: Any
    ) -> Self:
        """Load the model that a run left in `folder`, one of `models.shipped` by name, or one that `models.pretrained`
        loads by folder or name.

        A run must have been trained for one of `tasks`; None accepts any task. If `model` is given, the weights of the
        run are loaded into it: this is needed for a model with layers of one's own. `options` are passed to
        `pretrained.load`. Raises InputError as `pretrained.load` does, and if the folder is not a run of such a model,
        or a file in it is missing, changed or damaged.
        """
        folder = model_path(str(folder))
        if not is_foreign(folder):
            model, tokenizer, config = cls._load_run(folder, tasks, model)
            made = cls.of(model, tokenizer, config, folder)
            made.name = config.get("task") or cls.name
            return made
        if model is not None:
            raise InputError(f"{folder} is not a run of handloom, whose weights could be loaded into a model.")
        from ...models import pretrained

        found = pretrained.load(folder, with_strategy=cls.searches, **options)
        wanted = next(iter(cls.kinds.values()))[0]
        if not isinstance(found.model, wanted):
            raise InputError(f"{folder} holds no {cls.what}: its model is a {type(found.model).__name__}.")
        assert found.tokenizer is not None
        known = {"labels": found.labels, "length": found.model.config.max_length, "strategy": found.strategy}
        return cls.of(found.model, found.tokenizer, known, folder)

    @classmethod
    def _load_run(
        cls, folder: Path, tasks: Collection[str] | None, model: Any = None
    ) -> tuple[Module, Tokenizer, dict[str, Any]]:
        """Return the model of a run in evaluation mode, its tokenizer, and the configuration saved with the weights."""
        run = RunFolder.open(folder)
        tensors, config = load_checkpoint(run.path)
        task = config.get("task")
        if tasks is not None and task and task not in tasks:
            needed = f"a run for {' or '.join(tasks)} is needed"
            raise InputError(f"The run {run.path} was trained for {short(task)}; {needed}.")
        if model is None and (own := config.get("own_layers")):
            more = f", and {len(own) - 1} more" if len(own) > 1 else ""
            raise InputError(
                f"The model in {run.path} has layers that are not handloom's: {own[0]}{more}. {_OWN_MODEL}"
            )
        try:
            build, read = cls.kinds[config.get("kind", "")]
            sizes = read(**config["model"])
            if model is None:
                with skip_init():
                    model = build(sizes)
        except (ArithmeticError, KeyError, MemoryError, TypeError, ValueError) as error:
            raise InputError(
                f"{run.model_path} does not say which {cls.what} it holds ({error}). Give the folder of a run that "
                "trained one with this version of handloom."
            ) from None
        counters = {name for name, x in model.state_dict().items() if x.dtype.kind != "f"}  # buffers of integers
        check_finite({name: x for name, x in tensors.items() if name not in counters}, run.model_path)
        try:
            model.load_state_dict(tensors)
        except ValueError as error:  # not a damaged file, whose checksum would be wrong
            raise InputError(f"{run.model_path} was saved from another model: {error}. {_OWN_MODEL}") from None
        return model.eval(), checked_tokenizer(run, config, sizes), config

    @classmethod
    @abstractmethod
    def of(cls, model: Any, tokenizer: Tokenizer, config: dict[str, Any], folder: str | Path) -> Self:
        """Return the object for the model in `folder`. Raises InputError if the configuration lacks what it needs."""

    @classmethod
    def kind_of(cls, config: Any) -> str:
        """Return the key of `kinds` for a model's configuration."""
        return next(kind for kind, (_, described) in cls.kinds.items() if isinstance(config, described))

    def fit(
        self,
        data: Any,
        valid: Any = None,
        *,
        steps: int | None = None,
        seed: int = 0,
        device: str = "cpu",
        out: str | Path | None = None,
        resume: bool = False,
        teacher: Self | None = None,
        stop_at: int | None = None,
        say: Callable[[str], None] = print,
        **settings: Any,
    ) -> Self:
        """Train on `data`. An estimator without a model gets one and is returned. A model is fine-tuned: a new object
        with the trained copy is returned, and this one is unchanged.

        Args:
            data: the training data: see the class, or the path of a file.
            valid: validation data of the same form. None: the validation set of the file or data set, or else a part
                of `data`, all items with the same text together. A test set of `data` is not trained on.
            steps: number of updates; None: those of the preset, but at most so many that each item is read
                `task.MOST_EPOCHS` times, or `task.TUNING_EPOCHS` times in fine-tuning.
            seed: determines initial weights, order of the batches and dropout. The default generator is unchanged.
            device: "cpu", "cuda" or "cuda:N".
            out: folder of the run, from which it can be resumed exactly. None: no file is written.
            resume: continue the run in `out`.
            teacher: a model whose predictions are learned as well (knowledge distillation).
            stop_at: see `Trainer.fit`.
            say: receives a line of text about each stage.
            settings: changes to the preset, such as `lr=1e-4`. The learning rate of fine-tuning falls from 3e-4 to 0.

        Raises InputError for data or options that can't be used, and the errors of `Trainer.fit`.
        """
        argument(f"{type(self).__name__}.fit: teacher", teacher, TrainedModel | None)
        run = {"seed": seed, "device": device, "resume": resume, "teacher": teacher, "stop_at": stop_at, "say": say}
        return self.task.fit(self, data, valid, out, settings | ({} if steps is None else {"steps": steps}), **run)

    @checked
    def save(self, folder: str | Path) -> None:
        """Save the model in a new folder, from which `load` loads it. Raises InputError if the folder is not empty."""
        with RunFolder.create(folder, {}) as run:
            self.tokenizer.save(run.tokenizer_path)
            more = {**self.saved(), **saved_note(self.model)}
            config = trained_config(self.name, run.tokenizer_path, self.model.config, **more)
            save_checkpoint(run.path, self.model.state_dict(), config)

    def saved(self) -> dict[str, Any]:
        """Return the values that loading needs in addition to the model's configuration."""
        return {}

    @abstractmethod
    def score(self, data: Any) -> dict[str, Any]:
        """Return the scores of the model on held-out data of the form that `fit` takes; on a test set if it has one."""

    def set_dropout(self, probability: float) -> None:
        """Use another dropout probability in training. Weights and `token_dropout` do not change."""
        for module in self.model.modules():
            if isinstance(module, Dropout) and module is not getattr(self.model, "token_dropout", None):
                module.p = probability
            elif isinstance(module, MultiHeadAttention):
                module.dropout = probability
        self.model.config = replace(self.model.config, dropout=probability)


def is_foreign(folder_or_name: str | Path) -> bool:
    """Return whether `models.pretrained` must load this: a folder with its config.json, or a name such as OWNER/MODEL.

    Absolute paths, paths under `runs` and existing folders are not names on the Hub.
    """
    path = Path(folder_or_name)
    if os.path.isdir(path):
        try:
            config = read_json(path / "config.json")
        except InputError:
            return False
        return "format" not in config and "model_type" in config
    parts = path.parts
    if len(parts) != 2 or parts[0] in ("runs", "~", path.anchor):
        return False
    return not os.path.exists(path) and not os.path.exists(parts[0])


def trained_config(task: str, tokenizer: str | Path | None, model: Any, **more: Any) -> dict[str, Any]:
    """Return what a run saves in addition to its weights, for `TrainedModel.load`: the task, such as "translation from
    de to en", the checksum of the tokenizer's file, the model's configuration, and what else loading needs.
    """
    return {"task": task, "tokenizer": tokenizer and file_digest(tokenizer), "model": model.to_dict(), **more}


def checked_tokenizer(run: RunFolder, config: Mapping[str, Any], sizes: Any) -> Tokenizer:
    """Return the run's tokenizer. Raises InputError if the model was trained with another one."""
    tokenizer = load_tokenizer(run.tokenizer_path)
    tokens = getattr(sizes, "vocab_size", None) or sizes.source_vocab_size
    if tokenizer.vocab_size > tokens or config.get("tokenizer") != file_digest(run.tokenizer_path):
        raise InputError(
            f"{run.tokenizer_path} is not the tokenizer that the model in {run.model_path} was trained with: it was "
            f"changed, or the files come from two runs. Copy both from the same run."
        )
    tokenizer.unused = tokens - tokenizer.vocab_size
    return tokenizer
