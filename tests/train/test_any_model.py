"""The Trainer with models, losses and batches of one's own: without a folder, with one, and what is refused."""

import contextlib
import itertools
import math
import random
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handloom import Parameter, Tensor, nn
from handloom.autograd import Generator, default_generator, manual_seed, no_grad
from handloom.errors import InputError
from handloom.train import (
    SGD,
    Adam,
    AdamW,
    Callback,
    EarlyStopping,
    History,
    Plateau,
    ProgressBar,
    Trainer,
    TrainingStopped,
    constant,
    noam,
)
from handloom.train.runs.checkpoints import load_checkpoint
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.saves import SavedStates

pytestmark = pytest.mark.usefixtures("quick_pictures")


def batches(epoch: int = 0, count: int = 5) -> list[tuple[np.ndarray, np.ndarray]]:
    draw = np.random.default_rng([epoch, 7])
    inputs = [draw.normal(size=(8, 3)).astype(np.float32) for _ in range(count)]
    return [(x, x @ np.array([[1.0], [-2.0], [0.5]], np.float32)) for x in inputs]


def squared_error(model: Any, batch: Any) -> Tensor:
    error = model(Tensor(batch[0])) - batch[1]
    return (error * error).mean()


def trainer(model: nn.Module | None = None, loss: Any = squared_error, **options: Any) -> Trainer:
    manual_seed(0)
    model = model or nn.Sequential(nn.Dropout(0.1), nn.Linear(3, 1))
    options = {"validate_every": 4, "log_every": 3, "average": 3, "callbacks": [], **options}
    return Trainer(model, loss, options.pop("optimizer", Adam)(model.parameters(), 0.1), **options)


def test_without_a_folder_a_training_writes_nothing_and_gives_the_same_numbers(tmp_path, monkeypatch) -> None:
    """The best weights, and the mean of the last weights, are then kept in memory."""
    monkeypatch.chdir(tmp_path)
    for name, options in (("plain", {}), ("ema", {"ema": 0.8}), ("alone", {"average": 1})):
        alone = trainer(**options)
        history = alone.fit(batches, steps=21, validation=batches(9))
        assert not (tmp_path / name).exists()
        written = trainer(out=name, **options)
        same = written.fit(batches, steps=21, validation=batches(9))
        assert isinstance(history, History)
        assert history.rows == same.rows == RunFolder.open(tmp_path / name).metrics()
        assert (history.best, history.best_step) == (same.best, same.best_step)
        assert history.best == min(row["valid_loss"] for row in history.rows if "valid_loss" in row)
        np.testing.assert_equal(alone.model.state_dict(), written.model.state_dict())
        assert alone.scaler is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "ema", "plain"]


def test_a_history_draws_its_losses() -> None:
    one = trainer()
    history = one.fit(batches, steps=8, validation=batches(9))
    figure = history.plot()
    assert [axis.get_ylabel() for axis in figure.axes] == ["loss", "learning rate"]
    assert repr(history).startswith("History(6 rows, best ")
    with pytest.raises(ValueError, match="no row of the metrics"):
        History().plot()


class Readable:
    """An iterable that can be read again, without a length."""

    def __iter__(self) -> Any:
        return iter(batches())


class Items:
    """A data set as PyTorch's: without an iterator, and without an end of its own."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Any:
        return batches()[index % 5]


class Epochs:
    def __len__(self) -> int:
        return 5

    def epoch(self, epoch: int, start: int = 0, every: int = 1) -> Any:
        return itertools.islice(batches(), start, None, every)


def test_batches_are_a_list_an_iterable_a_function_of_the_epoch_or_an_object_with_epochs() -> None:
    sources = [
        batches(),
        tuple(batches()),
        Readable(),
        lambda epoch: batches(),
        lambda epoch: iter(batches()),
        Epochs(),
        Items(),
    ]
    found = [trainer().fit(source, steps=12, validation=valid).rows for source in sources for valid in (batches(9),)]
    assert trainer().fit(batches(), steps=12, validation=Items()).rows[-1]["valid_loss"] > 0
    assert all(rows == found[0] for rows in found)
    seen: list[int] = []
    trainer(average=1).fit(lambda epoch: seen.append(epoch) or batches(epoch), epochs=3)
    assert seen == [0, 0, 1, 2], "epoch 0 is counted first"


def test_epochs_are_updates_of_all_batches() -> None:
    for accumulate, steps in ((1, 10), (2, 5), (4, 3)):
        one = trainer(accumulate=accumulate)
        one.fit(batches, epochs=2, validation=Epochs())
        assert one.progress.step == one.steps == steps


@pytest.mark.parametrize(("counts", "word"), [((5, 4), "fewer"), ((5, 6), "more"), ((5, 0), "fewer")])
def test_epochs_of_another_length_end_the_training_with_a_word(counts, word) -> None:
    """A source that ended early was asked again for ever, and batches beyond the length were lost."""
    with pytest.raises(InputError, match=f"Epoch 2 of the training batches has {word} than 5 batches"):
        trainer().fit(lambda epoch: batches(epoch, counts[min(epoch, 1)]), steps=100, validation=batches(9))


def test_without_validation_the_model_ends_with_its_last_weights(tmp_path) -> None:
    one = trainer(average=1, out=tmp_path / "run")
    history = one.fit(batches(), steps=10)
    assert history.best is None
    assert [row["step"] for row in history.rows] == [3, 6, 9, 10]
    np.testing.assert_equal(one.model.state_dict(), SavedStates(tmp_path / "run/checkpoints").load().weights)


def test_a_loss_may_return_what_it_counts_and_further_means() -> None:
    """Numbers of NumPy and Tensors are like Python's; they ended a run at its first save."""

    def loss(form: Any) -> Any:
        def found(model: Any, batch: Any) -> Any:
            value = squared_error(model, batch)
            return value, form(len(batch[0])), {"half": form(0.5), "loss of mean": value.detach()}

        return found

    rows = []
    for form in (float, np.float32, np.int64, np.array, Tensor):
        one = trainer(loss=loss(form), metrics=lambda model: {"score": form(0.25)}, monitor="score")  # noqa: B023
        rows.append(one.fit(batches, steps=8, validation=batches(9)).rows)
    assert all(row["score"] == (0.25 if number != 2 else 0) for number, found in enumerate(rows) for row in found[-1:])
    assert rows[0] == rows[1] == rows[3] == rows[4]
    for wrong in (1.0, None, (Tensor(1.0),), (Tensor(1.0), "8"), (Tensor(1.0), 8, 3), Tensor([1.0, 2.0])):
        with pytest.raises(TypeError, match=r"^the loss( must return a Tensor|: its number of items)"):
            trainer(loss=lambda model, batch: wrong).fit(batches, steps=1, validation=batches(9))  # noqa: B023
    with pytest.raises(TypeError, match="the metric 'score' is 'high', but it must be a number"):
        trainer(metrics=lambda model: {"score": "high"}).fit(batches, steps=1, validation=batches(9))


class Watching(Callback):
    """Keeps what it is called with."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.rows: list[Any] = []

    def on_start(self, trainer: Trainer) -> None:
        self.calls.append("start")

    def on_update(self, trainer: Trainer) -> None:
        self.calls.append(f"{trainer.progress.step}")

    def on_log(self, trainer: Trainer, row: Any, times: Any) -> None:
        self.rows.append(row)
        assert times.keys() == ({"tokens_per_second", "processor_seconds"} if "loss" in row else set())

    def on_message(self, trainer: Trainer, text: str) -> None:
        self.calls.append(text)

    def on_end(self, trainer: Trainer, error: Any) -> None:
        self.calls.append(f"end {error}")


class Stopping(Callback):
    def on_update(self, trainer: Trainer) -> None:
        if trainer.progress.step == 2:
            trainer.stop("enough")


def test_callbacks_are_called_with_updates_rows_and_messages_and_can_end_the_training(tmp_path) -> None:
    watching = Watching()
    history = trainer(callbacks=[watching, Stopping()], out=tmp_path / "run").fit(
        batches, steps=9, validation=batches(9)
    )
    assert watching.calls == ["start", "1", "2", "ended after step 2 of at most 9: enough", "end None"]
    assert history.rows == watching.rows
    assert [row["step"] for row in history.rows] == [2]
    with pytest.raises(
        TrainingStopped, match=r"after step 3 of 9, all saved\. Continue with fit\(\.\.\., resume=True\)"
    ):
        trainer(callbacks=[watching], out=tmp_path / "run").fit(
            batches, steps=9, validation=batches(9), resume=True, stop_at=3
        )
    kept = "the result of the first 2 steps is kept as model-2.safetensors"
    assert watching.calls[-5:-1] == ["resumed after step 2", kept, "start", "3"]
    with pytest.raises(TrainingStopped, match=r"after step 3 of 9\. The model has the weights of this step"):
        trainer().fit(batches, steps=9, validation=batches(9), stop_at=3)


def test_a_progress_bar_is_there_by_default(capsys) -> None:
    trainer(callbacks=None).fit(batches, steps=4, validation=batches(9))
    assert "step 4/4, epoch 1: validation loss " in capsys.readouterr().out


class Counting(nn.Module):
    """A layer with a running mean of its inputs and a dropout of its own."""

    def __init__(self, buffer: bool = True, own: Any = None, fixed: Any = None):
        self.linear = nn.Linear(3, 1)
        if buffer:
            self.register_buffer("mean", Tensor(np.zeros(3, np.float32)))
        else:
            self.mean = Tensor(np.zeros(3, np.float32))
        self.rngs, self.fixed = own, fixed

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            with no_grad():
                self.mean = self.mean * 0.9 + x.mean(axis=0) * 0.1
            if isinstance(self.rngs, list):
                x = x + self.rngs[0].numpy.normal(size=x.shape).astype(np.float32)
        return self.linear(x - self.mean)


class Dropping(nn.Module):
    def __init__(self) -> None:
        self.dropout, self.linear = nn.Dropout(0.2), nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.dropout(x))


def test_buffers_and_generators_in_lists_are_part_of_a_run(tmp_path) -> None:
    """A running statistic and the state of a generator in a list were lost at a resume."""
    for name, stops in (("whole", []), ("parts", [3, 6, 9])):
        for number, stop in enumerate([*stops, None]):
            with contextlib.suppress(TrainingStopped):
                manual_seed(0)
                one = trainer(Counting(own=[Generator(number)], fixed=np.ones(2)), out=tmp_path / name)
                one.fit(batches, steps=11, validation=batches(9), resume=number > 0, stop_at=stop)
    logs = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "parts")]
    assert logs[0] == logs[1]
    saved = SavedStates(tmp_path / "parts/checkpoints").load().weights
    assert np.abs(saved["mean"]).max() > 0


def test_changed_batches_are_not_resumed_and_changed_numbers_are_named(tmp_path) -> None:
    """Batches of one's own were known by their number alone, and other numbers of the optimiser had no message."""

    def resumed(factor: float = 1.0, betas: tuple[float, float] = (0.9, 0.99), **options: Any) -> list[str]:
        listed, looker = [(x * factor, {"y": y}) for x, y in batches()], Watching()
        model = nn.Linear(3, 1)
        one = Trainer(
            model, lambda model, batch: squared_error(model, (batch[0], batch[1]["y"])),
            Adam(model.parameters(), 0.01, betas), out=tmp_path / "run", callbacks=[looker], **options,
        )  # fmt: skip
        with contextlib.suppress(TrainingStopped):
            there = (tmp_path / "run").exists()
            one.fit(listed, steps=9, validation=listed, stop_at=None if there else 2, resume=there)
        return [call for call in looker.calls if " " in call]

    resumed()
    with pytest.raises(InputError, match="The training data are not those that"):
        resumed(factor=1.001)
    note, *_ = resumed(betas=(0.8, 0.99), clip_norm=np.float32(0.5))
    assert note.endswith("clip_norm was 1.0 and is 0.5, betas was [0.9, 0.99] and is [0.8, 0.99]")


def test_names_that_the_log_uses_are_refused_for_further_numbers() -> None:
    """A mean called loss replaced the loss of the log, and a metric called valid_loss that of the best weights."""
    for name in ("loss", "tokens"):
        one = trainer(loss=lambda model, batch, name=name: (squared_error(model, batch), 8, {name: 1.0}), average=1)
        with pytest.raises(ValueError, match=f"the loss: the name '{name}' has another meaning in the log"):
            one.fit(batches, steps=3)
    for name in ("valid_loss", "step", "epoch", "loss"):
        with pytest.raises(ValueError, match=f"metrics: the name '{name}' has another meaning in the log"):
            trainer(metrics=lambda model, name=name: {name: 1.0}).fit(batches, steps=3, validation=batches(9))


def test_a_loss_with_axes_trains_and_a_mean_that_is_nan_leaves_the_others_in_the_log() -> None:
    def loss(model: Any, batch: Any) -> Any:
        return squared_error(model, batch).reshape(1, 1), 8, {"share": math.nan}

    history = trainer(loss=loss, log_every=1, average=1).fit(batches, steps=3)
    assert all(row["loss"] > 0 and row["share"] is None for row in history.rows)


def test_an_error_of_a_callback_is_the_one_that_is_raised() -> None:
    class Wrong(Callback):
        def on_start(self, trainer: Trainer) -> None:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        trainer(callbacks=[Wrong(), ProgressBar()], average=1).fit(batches, steps=3)


def test_state_that_no_save_would_hold_is_refused_at_the_start() -> None:
    with pytest.raises(TypeError, match=r"^mean was changed by an update, but it is neither.*register_buffer"):
        trainer(Counting(buffer=False)).fit(batches, steps=9, validation=batches(9))
    for own in (np.random.default_rng(), [random.Random()], {"a": (np.random.RandomState(),)}):
        with pytest.raises(TypeError, match=r"^rngs is a \w+, whose state is not saved: use a handloom"):
            trainer(Counting(own=own))
    model = nn.Linear(3, 1)
    with pytest.raises(ValueError, match="parameters that are not the model's, which no save would hold"):
        Trainer(model, squared_error, SGD([*model.parameters(), Parameter(np.ones(2, np.float32))]))


MODEL = nn.Linear(3, 1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model": [MODEL]}, r"Trainer: model is \[Linear.*must be a Module"),
        ({"model": nn.Linear}, "Trainer: model is .*must be a Module"),
        ({"loss": None}, "Trainer: loss is None, but it must be a function"),
        ({"loss": Tensor(1.0)}, "Trainer: loss is .*must be a function"),
        ({"optimizer": MODEL.parameters()}, "Trainer: optimizer is .*must be an Optimizer"),
        ({"optimizer": SGD}, "Trainer: optimizer is .*must be an Optimizer"),
        ({"schedule": 0.1}, r"Trainer: schedule is 0\.1, but it must be a function"),
        ({"callbacks": [ProgressBar]}, "Trainer: callbacks is .*must be a list of Callbacks"),
        ({"callbacks": print}, "Trainer: callbacks is .*must be a list"),
        ({"metrics": {"a": 1}}, "Trainer: metrics is .*must be a function"),
        ({"out": 3}, "Trainer: out is 3, but it must be a string, a path, a RunFolder or None"),
        ({"higher_is_better": "no"}, "Trainer: higher_is_better is 'no', but it must be True or False"),
        ({"config": [1]}, r"Trainer: config is \[1\], but it must be a dict"),
        ({"accumulat": 2}, "no setting 'accumulat'; did you mean accumulate"),
        ({"validation": [1]}, "no setting 'validation'"),
        ({"accumulate": 0}, "accumulate is 0, but it must be a whole number from 1"),
        ({"validate_every": 0}, "validate_every is 0"),
        ({"log_every": 0}, "log_every is 0"),
        ({"precision": "int8"}, "precision is 'int8', but it must be one of fp32, fp16, bf16"),
    ],
)  # fmt: skip
def test_wrong_arguments_of_a_trainer_have_one_clear_error(wrong, message) -> None:
    right = {"model": MODEL, "loss": squared_error, "optimizer": SGD(MODEL.parameters()), "schedule": None}
    with pytest.raises((TypeError, ValueError), match=message):
        Trainer(**{**right, **wrong})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batches": (one for one in batches())}, "which can be read only once: give a list of batches"),
        ({"batches": iter(batches())}, "which can be read only once"),
        ({"batches": 3}, "the batches are a int, 3: give a list"),
        ({"batches": None}, "the batches are a NoneType"),
        ({"batches": {"x": 1}}, "the batches are a dict"),
        ({"batches": "train.txt"}, "the batches are a str"),
        ({"batches": Tensor([1.0])}, "the batches are a Tensor"),
        ({"batches": Epochs}, "the batches are a type"),
        ({"batches": lambda epoch: 3}, "must return the batches of the epoch, not 3"),
        ({"batches": []}, "at least one batch to train on"),
        ({"batches": lambda epoch: iter([])}, "at least one batch to train on"),
        ({"validation": []}, "at least one batch to validate with"),
        ({"validation": 3}, "validation batches are a list or another iterable, not a int"),
        ({"steps": None}, "give either steps or epochs"),
        ({"epochs": 2}, "give either steps or epochs"),
        ({"steps": 0}, "fit: steps is 0, but it must be a whole number from 1"),
        ({"steps": 1.5}, "fit: steps is 1.5"),
        ({"steps": "9"}, "fit: steps is '9'"),
        ({"stop_at": 0}, "fit: stop_at is 0"),
        ({"stop_at": 10}, "the run is at step 0 of 9. Use 1 to 9"),
        ({"resume": True}, "needs the folder of the run"),
        ({"validation": None}, "metrics and average need validations"),
    ],
)  # fmt: skip
def test_wrong_arguments_of_fit_have_one_clear_error(wrong, message) -> None:
    right = {"batches": batches, "steps": 9, "validation": batches(9)}
    with pytest.raises((TypeError, ValueError, InputError), match=message):
        trainer().fit(**{**right, **wrong})


def test_early_stopping_needs_validations_and_a_trainer_trains_once() -> None:
    with pytest.raises(ValueError, match="EarlyStopping needs validations"):
        trainer(average=1, callbacks=[EarlyStopping(2)]).fit(batches, steps=9)
    one = trainer()
    one.fit(batches, steps=2, validation=batches(9))
    with pytest.raises(ValueError, match="this Trainer has made its 2 updates: make a new one"):
        one.fit(batches, steps=4, validation=batches(9))


def test_a_folder_that_is_there_is_refused_and_the_random_numbers_of_others_stay(tmp_path) -> None:
    trainer(out=tmp_path / "run").fit(batches, steps=2, validation=batches(9))
    with pytest.raises(InputError, match="exists already; nothing was overwritten"):
        trainer(out=tmp_path / "run").fit(batches, steps=2, validation=batches(9))
    with pytest.raises(InputError, match="is not a run"):
        trainer(out=Path(tmp_path / "other")).fit(batches, steps=2, validation=batches(9), resume=True)
    assert default_generator in trainer().generators


RUNS = st.fixed_dictionaries(
    {
        "log_every": st.integers(1, 7),
        "validate_every": st.one_of(st.none(), st.integers(1, 9)),
        "average": st.integers(0, 4),
        "ema": st.sampled_from([None, None, 0.5]),
        "accumulate": st.integers(1, 3),
        "clip_norm": st.sampled_from([None, 0.1, 1.0]),
        "precision": st.sampled_from(["fp32", "fp16", "bf16"]),
        "name_overflows": st.booleans(),
        "gradient_norms": st.booleans(),
        "keep": st.integers(1, 3),
        "monitor": st.sampled_from(["valid_loss", "score"]),
        "higher_is_better": st.booleans(),
        "patience": st.one_of(st.none(), st.integers(1, 4)),
        "schedule": st.sampled_from(["none", "constant", "noam", "plateau"]),
        "optimizer": st.sampled_from(["sgd", "momentum", "adam", "adamw"]),
        "buffers": st.booleans(),
    }
)
SCHEDULES: dict[str, Any] = {
    "none": lambda: None,
    "constant": lambda: constant(0.03, warmup=15),
    "noam": lambda: noam(16, 9, 0.2),
    "plateau": lambda: Plateau(0.05, 0.25, patience=1, threshold=0.01, floor=0.01, warmup=2),
}
OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda own: SGD(own, 0.02),
    "momentum": lambda own: SGD(own, 0.02, momentum=0.7, nesterov=True, weight_decay=0.1),
    "adam": lambda own: Adam([{"params": own, "lr_scale": 0.5}], 0.1, (0.8, 0.9), 1e-6),
    "adamw": lambda own: AdamW(own, 0.1, (0.7, 0.95), 1e-5, 0.2),
}


def score(model: nn.Module) -> dict[str, float]:
    """A number that goes up and down."""
    return {"score": float(np.sin(40 * model.linear.weight.data.sum()))}


def run(folder: Path, options: dict[str, Any], steps: int, resume: bool = False, stop_at: int | None = None) -> None:
    """Start or resume a run."""
    options = dict(options)
    schedule, optimizer, patience = (options.pop(name) for name in ("schedule", "optimizer", "patience"))
    manual_seed(1)
    model = Counting(own=[Generator(2)]) if options.pop("buffers") else Dropping()
    options |= {"metrics": score, "out": folder, "callbacks": [] if patience is None else [EarlyStopping(patience)]}
    one = Trainer(model, squared_error, OPTIMIZERS[optimizer](model.parameters()), SCHEDULES[schedule](), **options)
    with contextlib.suppress(TrainingStopped):
        one.fit(batches, steps=steps, validation=batches(9, 2), resume=resume, stop_at=stop_at)


def content(folder: Path) -> list[Any]:
    """Return what a run has left: log, model, and the last save."""
    saved = SavedStates(folder / "checkpoints").load()
    weights, config = load_checkpoint(folder)
    return [(folder / "metrics.jsonl").read_text(), weights, config, saved.step, saved.weights, saved.state]


@pytest.mark.search
@settings(max_examples=settings.default.max_examples // 4)
@given(RUNS, st.lists(st.integers(1, 14), min_size=2, max_size=3, unique=True), st.booleans())
def test_a_run_in_parts_equals_one_in_a_piece(options: dict[str, Any], steps: list[int], longer: bool) -> None:
    """Its parts are ended by an interruption, or are runs of fewer steps that were extended."""
    quiet = np.errstate(over="ignore", invalid="ignore")
    with tempfile.TemporaryDirectory() as name, quiet, mock.patch("os.fsync"):  # which takes longer than the training
        folder, last = Path(name), max(steps)
        run(folder / "whole", options, last)
        for number, step in enumerate(sorted(steps)):
            stop = None if longer or step == last else step
            run(folder / "parts", options, step if longer else last, resume=number > 0, stop_at=stop)
        np.testing.assert_equal(content(folder / "parts"), content(folder / "whole"))
