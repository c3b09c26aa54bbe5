"""Shared code of all tasks: training a model, its parts that a preset describes, and the interface of a task.

A `Task` trains a tokenizer, makes batches, and defines the model, its configuration and its loss. `train_model` does
everything else, in the same way for every task, and returns a `TrainedModel`, whose `load` reads a trained model from a
run's folder.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from ...autograd import Tensor, default_generator, manual_seed, no_grad, ops
from ...autograd.backend import array_module
from ...autograd.backend import constant as device_constant
from ...errors import InputError, near, short
from ...models.hyperparameters import MODEL_FIELDS, Preset, Settings
from ...models.presets import PRESET_NAMES
from ...nn import Module, MultiHeadAttention, checkpoint_activations
from ...tokenizer import Tokenizer, load_tokenizer
from ..callbacks import Callback, EarlyStopping, ProgressBar
from ..data.sources import Batches
from ..distributed import ProcessGroup, find_process_group, local_device, run_of_group
from ..optim.optimizers import SGD, Adam, AdamW, Optimizer
from ..optim.schedules import Plateau, Schedule, constant, cosine, linear, noam
from ..runs.folder import RunFolder
from ..trainer import Trainer
from ..updates import Loss
from .trained import TrainedModel, trained_config

AnyPreset = TypeVar("AnyPreset", bound=Preset)
AnyTrained = TypeVar("AnyTrained", bound=TrainedModel)
AnyModel = TypeVar("AnyModel", bound=Module)


#: Fewer training items than these get the model and the number of steps of Multi30k's preset.
FEW_ITEMS = 60_000
#: How often `TrainedModel.fit` reads each item at most, in a training from the start and in fine-tuning.
MOST_EPOCHS, TUNING_EPOCHS = 30, 3


class TaskBatches(NamedTuple):
    """Training and validation batches, sentences on omitted data, and a description of the data."""

    train: Batches
    valid: Iterable[Any]
    notes: list[str]
    words: str


@dataclass(kw_only=True)
class Task(ABC, Generic[AnyPreset, AnyTrained]):
    """A task: its data, tokenizer, model and loss."""

    preset: AnyPreset
    name: str = ""  # such as "translation from de to en"; a run's model is loaded only for an equal name, or for ""
    notes: Sequence[str] = ()  # sentences about the data

    trained: ClassVar[type[TrainedModel]]  # the class of objects that use the trained model
    unit: ClassVar[str] = "token"  # over which a loss is a mean

    def __init_subclass__(cls) -> None:
        if "trained" in vars(cls):
            cls.trained.task = cls

    @classmethod
    def preset_of(cls, trained: TrainedModel, items: int | None = None, **settings: Any) -> Any:
        """Return the preset for an estimator, chosen by the number of training items if the sizes depend on it."""
        if trained.preset not in PRESET_NAMES:
            raise InputError(f"There is no preset {short(trained.preset)}: choose {', '.join(PRESET_NAMES)}.")
        few = items is not None and items < FEW_ITEMS
        preset = trained.presets.get(f"{trained.preset} multi30k" if few else "", trained.presets[trained.preset])
        names, settings = [field.name for field in fields(preset)], {**trained.settings, **settings}
        for name in settings.keys() - set(names):
            cure = near(name, names, f"Its settings are {', '.join(names)}.")
            raise InputError(f"A {type(trained).__name__} has no setting {name!r}. {cure}")
        try:
            return replace(preset, **settings)
        except ValueError as error:
            raise InputError(f"This setting can't be used: {error}.") from None

    @classmethod
    @abstractmethod
    def of(cls, trained: AnyTrained, data: Any, valid: Any, tokenizer: Tokenizer | None, **settings: Any) -> Self:
        """Return the task for `TrainedModel.fit`, with its data and the changed preset of the estimator `trained`.
        `tokenizer` is given if no new one is needed.
        """

    @classmethod
    def fit(
        cls, trained: AnyTrained, data: Any, valid: Any, out: str | Path | None, settings: dict[str, Any], **run: Any
    ) -> AnyTrained:
        """Train the model of an estimator; see `TrainedModel.fit`. `run` contains arguments of `train_model`."""
        if run["resume"] and out is None:
            raise InputError("A run is resumed from its folder: give out=FOLDER.")
        init = copy.deepcopy(trained) if "model" in vars(trained) else None
        if init is not None:
            for name in sorted(settings.keys() & MODEL_FIELDS):
                raise InputError(f"The setting {name} has no effect: the trained model determines it. Leave it out.")
            if "dropout" in settings:
                init.set_dropout(cls.preset_of(trained, **settings).dropout)
            warmup = min(settings.get("steps", 1000) // 10, 100)
            settings = {"schedule": "linear", "lr": 3e-4, "warmup": warmup, **settings}
        random, resume = default_generator.get_state(), run["resume"]
        with run_of_group(out, {"estimator": repr(trained)}, resume=resume) if out else nullcontext() as folder:
            known = getattr(init or run["teacher"], "tokenizer", None)
            if resume and folder is not None:
                known = load_tokenizer(folder.tokenizer_path)
            task = cls.of(trained, data, valid, known, **settings)
            manual_seed(run["seed"])
            try:
                made = train_model(task, folder, init=init, bounded="steps" not in settings, **run)
            finally:
                default_generator.set_state(random)
        result = trained if init is None else copy.copy(trained)
        named = {*trained.options(), "settings", "name"}
        vars(result).update({**vars(made), **{key: value for key, value in vars(trained).items() if key in named}})
        return result

    def check(self, other: AnyTrained, whose: str) -> None:
        """Raise InputError if an initial model, or a teacher, does not fit the task; `whose` names it."""

    @abstractmethod
    def limited_to(self, init: AnyTrained) -> Self:
        """Return the task with texts limited to the maximum length of the initial model."""

    def advice(self) -> str:
        """Return a sentence about training on few examples, or ""."""
        return ""

    def initial_model(self, init: AnyTrained) -> Module:
        """Return the model from which the training starts. Raises ValueError if the preset does not fit to `init`."""
        return init.model

    @abstractmethod
    def make_tokenizer(self) -> Tokenizer:
        """Train a tokenizer on the training data."""

    @abstractmethod
    def batches(self, tokenizer: Tokenizer, seed: int) -> TaskBatches:
        """Return the data as batches, in an order determined by `seed`."""

    @abstractmethod
    def config(self, tokenizer: Tokenizer) -> Any:
        """Return the configuration of the model."""

    def build(self, config: Any) -> Module:
        """Make the model. Its weights are drawn from the default generator."""
        return self.trained.kinds[self.trained.kind_of(config)][0](config)

    @abstractmethod
    def loss(self, tokenizer: Tokenizer, teacher: Module | None) -> Loss:
        """Return the loss for the Trainer."""

    def saved(self, config: Any) -> dict[str, Any]:
        """Return the values that loading needs in addition to the model's configuration."""
        return {}

    def with_preset(self, **changes: Any) -> Self:
        """Return the same task with changes to its preset."""
        return replace(self, preset=replace(self.preset, **changes))


def train_model(
    task: Task[Any, AnyTrained],
    run: RunFolder | None = None,
    *,
    seed: int = 0,
    device: str = "cpu",
    resume: bool = False,
    stop_at: int | None = None,
    teacher: AnyTrained | None = None,
    init: AnyTrained | None = None,
    callbacks: Sequence[Callback] = (),
    group: ProcessGroup | None = None,
    bounded: bool = False,
    say: Callable[[str], None] = print,
) -> AnyTrained:
    """Train a tokenizer and a model, and save both in the run's folder, if there is one.

    Args:
        bounded: read each training item at most `MOST_EPOCHS` times, or, with `init`, `TUNING_EPOCHS` times, and
            say if there are too few items.
        seed: determines the order of the batches. (`manual_seed` determines initial weights and dropout.)
        device: the device; "cuda" is each process's own GPU.
        resume: continue from the last save in `run`, which was started with the same arguments.
        stop_at: see `Trainer.fit`.
        teacher: a model whose predictions are learned as well; the new model gets its tokenizer.
        init: the initial model, which is changed; its sizes and tokenizer replace those of the preset.
        callbacks: further callbacks of the `Trainer`.
        group: the processes that train together; None means the processes that mpirun started.
        say: receives a line of text about each stage.

    Raises InputError for data, a preset, a teacher or an init that can't be used, DeviceError for a missing device,
    TrainingStopped as `Trainer.fit` does.
    """
    group = find_process_group() if group is None else group
    if init is not None:
        task.check(init, "The initial model")
        task = task.limited_to(init)
    if teacher is not None:
        task.check(teacher, "The teacher")
    preset = task.preset
    tokenizer = group.from_first(lambda: choose_tokenizer(run, resume, init or teacher, task.make_tokenizer))
    batches = task.batches(tokenizer, seed)
    for note in filter(None, (*task.notes, *batches.notes)):
        say(note)
    build, source = (task.build, task.config(tokenizer)) if init is None else (task.initial_model, init)
    model: Any = make_model(preset, build, source, device)
    config = model.config
    if teacher is not None:
        teacher.model.to(local_device(device)).eval()
    steps = preset.steps or getattr(preset, "epochs", 1) * len(batches.train)
    if bounded:
        epochs, batches_of_step = MOST_EPOCHS if init is None else TUNING_EPOCHS, preset.accumulate * group.size
        if (most := -(-epochs * len(batches.train) // batches_of_step)) < steps:
            say(f"{most:,} steps instead of {steps:,}: {epochs} epochs of these data; steps=N sets another number")
            steps = most
        if init is None and not resume and (advice := task.advice()):
            say(advice)
    say(_summary(task, model, tokenizer, batches, steps, group))
    saved = ({} if init is None else init.saved()) | task.saved(config)
    tokens = None if run is None else run.tokenizer_path
    stopping = [] if preset.patience is None else [EarlyStopping(preset.patience)]
    trainer = Trainer(
        model,
        task.loss(tokenizer, None if teacher is None else teacher.model),
        make_optimizer(preset, model),
        make_schedule(preset, steps, say),
        callbacks=[ProgressBar(say), *stopping, *callbacks],
        out=run,
        config=group.from_first(lambda: trained_config(task.name, tokens, config, **saved)),
        higher_is_better=preset.monitor.endswith("accuracy"),
        label=training_label(preset, config.dropout),
        unit=task.unit,
        group=group,
        **{field.name: getattr(preset, field.name) for field in fields(Settings)},
    )
    history = trainer.fit(batches.train, steps=steps, validation=batches.valid, resume=resume, stop_at=stop_at)
    best, step = history.best if history.best is not None else math.inf, f"step {history.best_step:,}"
    step += ", saved" if run else ""
    if preset.monitor == "valid_loss":
        loss = f"{best:.4f} nats per {task.unit} (perplexity {perplexity(best):.2f})"
        say(f"best validation loss {loss} of {step}")
    else:
        say(f"best {preset.monitor}: {best:.4f} of {step}")
    trained: Any = task.trained
    made = trained.of(model.eval(), tokenizer, trainer.config, run.path if run else "memory")
    made.history = history
    return made


def make_model(preset: Preset, build: Callable[[Any], AnyModel], config: Any, device: str) -> AnyModel:
    """Make the model on its device. Raises InputError if the configuration doesn't fit together."""
    try:
        model = build(config).to(local_device(device))
    except ValueError as error:
        raise InputError(f"This model can't be built: {error}. Change the preset, or its settings.") from None
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.deterministic = preset.deterministic
    if preset.checkpoint_activations:
        checkpoint_activations(model)
    return model


def make_optimizer(preset: Preset, model: Module) -> Optimizer:
    """Make the optimiser that the preset names."""
    if preset.optimizer == "sgd":
        return SGD(model.parameters(), momentum=0.9, weight_decay=preset.weight_decay)
    kind = AdamW if preset.optimizer == "adamw" else Adam
    return kind(model.parameters(), betas=preset.betas, eps=preset.eps, weight_decay=preset.weight_decay)


def make_schedule(preset: Preset, steps: int, say: Callable[[str], None] = print) -> Schedule:
    """Make the schedule over `steps` updates. Raises InputError if its learning rate is missing.

    If the schedule depends on the number of steps, its warm-up takes at most half of them, which `say` receives.
    """
    if preset.schedule == "noam":
        return noam(preset.d_model, max(preset.warmup, 1), preset.lr_factor)
    if preset.lr is None:
        raise InputError(f"The schedule {preset.schedule} needs a learning rate: add lr=1e-3, for example.")
    if preset.schedule == "plateau":
        return Plateau(preset.lr, warmup=preset.warmup)
    if preset.schedule == "constant":
        return constant(preset.lr, preset.warmup)
    warmup = min(preset.warmup, steps // 2)
    if warmup < preset.warmup:
        say(f"the warm-up takes {warmup:,} steps, half of all, instead of {preset.warmup:,}")
    return {"linear": linear, "cosine": cosine}[preset.schedule](preset.lr, warmup, steps)


def training_label(preset: Preset, dropout: float) -> str:
    """Return the name of the training loss, which explains why it may exceed the validation loss."""
    smoothing = f", label smoothing {preset.label_smoothing}" if preset.label_smoothing else ""
    return f"training (dropout {dropout}{smoothing})"


def perplexity(loss: float) -> float:
    """Return the exponential of a loss in nats per token; infinity where it is too large for a float."""
    return math.exp(loss) if loss < 709 else math.inf


def choose_tokenizer(
    run: RunFolder | None, resume: bool, known: TrainedModel | None, make: Callable[[], Tokenizer]
) -> Tokenizer:
    """Return the tokenizer of a resumed run or an initial model, or else a new one, and save it in the run's folder."""
    if resume and run is not None:
        if not run.tokenizer_path.exists():
            raise InputError(f"{run.path} ended before its first save, so there is nothing to resume. Start it again.")
        return load_tokenizer(run.tokenizer_path)
    tokenizer = make() if known is None else known.tokenizer
    if run is not None:
        tokenizer.save(run.tokenizer_path)
    return tokenizer


def _summary(
    task: Task[Any, Any], model: Module, tokenizer: Tokenizer, batches: TaskBatches, steps: int, group: ProcessGroup
) -> str:
    """Return one line on the model and its training data."""
    at_most = "" if task.preset.patience is None else "at most "
    epochs = steps * task.preset.accumulate * group.size / len(batches.train)
    return (
        f"model: {model.parameter_count():,} parameters, {tokenizer.vocab_size:,} tokens; "
        f"{at_most}{steps:,} step{'s' if steps > 1 else ''}, {epochs:.1f} epochs{batches.words}"
    )


def distillation_loss(logits: Tensor, teacher_logits: Any, counted: Any, temperature: float = 2.0) -> Tensor:
    """Compute T^2 KL(teacher_T || student_T), in nats per token.

    It measures the distance of the student's distribution from the teacher's distribution. Both are softened by the
    temperature T; the factor keeps the gradient's size independent of it. Source: Hinton et al. 2015, arXiv 1503.02531,
    section 2; per target token as in Kim and Rush 2016, arXiv 1606.07947, section 3.1.

    Args:
        logits, teacher_logits: (..., classes); `teacher_logits` is an array, through which no gradient flows.
        counted: (...) booleans, True where a token counts and is not padding.
        temperature: T, above 0.
    """
    on_host = isinstance(counted, np.ndarray)
    theirs = ops.log_softmax(Tensor(teacher_logits) / temperature).data
    xp = array_module(theirs)
    theirs = xp.maximum(theirs, np.finfo(theirs.dtype).min)  # 0 log 0 is 0 where the teacher rules a class out
    tokens = int(counted.sum()) if on_host else counted.sum().astype(theirs.dtype)
    probabilities = xp.exp(theirs) * (device_constant(xp, counted) if on_host else counted)[..., None]
    divergence = (ops.log_softmax(logits / temperature) * -probabilities).sum() + (probabilities * theirs).sum()
    return divergence * (temperature**2 / tokens)


def with_teacher(loss: Tensor, logits: Tensor, teacher: Module, inputs: Sequence[Any], counted: Any = None) -> Tensor:
    """Return the mean of `loss` and the `distillation_loss` against the logits of `teacher(*inputs)`."""
    with no_grad():
        soft = teacher(*inputs).data
    counted = np.ones(logits.shape[:-1], bool) if counted is None else counted
    return (loss + distillation_loss(logits, soft, counted)) * 0.5
