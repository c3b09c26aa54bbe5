"""The training loop: it learns, is reproducible, keeps the best weights, and reports errors."""

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import Parameter, Tensor, manual_seed, ops
from handloom.errors import InputError
from handloom.train.callbacks import EarlyStopping, History, ProgressBar
from handloom.train.optim.optimizers import SGD, Adam
from handloom.train.optim.schedules import constant
from handloom.train.runs.checkpoints import load_checkpoint
from handloom.train.trainer import Trainer
from handloom.train.updates import mean_losses
from tests.support.small_run import log


class Line:
    """Batches of points with targets that are linear in the inputs; the points depend on epoch and batch."""

    def __len__(self) -> int:
        return 5

    def epoch(self, epoch: int, start: int = 0, every: int = 1):
        for index in range(start, 5, every):
            rng = np.random.default_rng([epoch, index])
            x = rng.normal(size=(16, 3)).astype(np.float32)
            yield x, x @ np.array([[1.0], [-2.0], [0.5]], np.float32)


def squared_error(model: nn.Module, batch) -> tuple[Tensor, int]:
    x, y = batch
    error = model(Tensor(x)) - y
    return (error * error).mean(), len(x)


def fitted(
    folder, model, validation, steps, *, loss=squared_error, optimizer=None, rate=0.05, batches=None, **options
) -> tuple[Trainer, History, list[dict]]:
    """Run a trainer. Return the trainer, its history, and the rows of the log."""
    optimizer, batches = optimizer or Adam(model.parameters()), Line() if batches is None else batches
    trainer = Trainer(model, loss, optimizer, constant(rate), out=folder, config={"kind": "line"}, **options)
    return trainer, trainer.fit(batches, steps=steps, validation=validation), log(folder)


def fit(folder, *, steps: int = 40, rate: float = 0.05, seed: int = 0) -> tuple[nn.Module, Trainer]:
    manual_seed(seed)
    model = nn.Sequential(nn.Dropout(0.1), nn.Linear(3, 1))
    options = {"validate_every": 10, "average": 5, "log_every": 5}
    return model, fitted(folder, model, Line().epoch(99), steps, rate=rate, **options)[0]


def test_it_learns_and_leaves_the_best_weights(tmp_path, capsys) -> None:
    model, trainer = fit(tmp_path / "run")
    rows = log(tmp_path / "run")
    losses = [row["loss"] for row in rows if "loss" in row]
    valid = [row["valid_loss"] for row in rows if "valid_loss" in row]
    assert len(losses) == 8
    assert len(valid) == 5
    assert [row.get("averaged") for row in rows if "valid_loss" in row] == [None, None, None, None, 4]
    assert losses[-1] < losses[0] / 2
    assert trainer.progress.best == min(valid)
    tensors, config = load_checkpoint(tmp_path / "run")
    assert config["kind"] == "line"
    np.testing.assert_equal(model.state_dict(), tensors)
    assert mean_losses(model, trainer.loss, trainer.validation)["loss"] == pytest.approx(min(valid), rel=1e-6)
    assert (tmp_path / "run/loss.png").stat().st_size > 1000
    assert "validation loss" in capsys.readouterr().out, "without a terminal, each validation prints a line"


def test_the_mean_of_the_last_weights_is_kept_where_it_is_better(tmp_path) -> None:
    """With a learning rate that is too high, the weights scatter around the solution. Their mean is closer to it."""
    model = nn.Linear(3, 1)
    seen: list[np.ndarray] = []

    def noisy(module: nn.Module, batch) -> tuple[Tensor, int]:
        x, y = batch
        if module.training:
            y = y + np.random.default_rng(int(abs(x).sum() * 1e4)).normal(size=y.shape).astype(np.float32)
        else:
            seen.append(module.weight.data.copy())
        return squared_error(module, (x, y))

    options = {"loss": noisy, "rate": 0.3, "validate_every": 10, "average": 5}
    trainer, _, rows = fitted(tmp_path / "run", model, list(Line().epoch(99))[:1], 200, **options)
    rows = [row for row in rows if "valid_loss" in row]
    assert rows[-1]["averaged"] == 5
    assert rows[-1]["valid_loss"] == trainer.progress.best
    np.testing.assert_allclose(model.weight.data, np.mean(seen[-6:-1], axis=0), rtol=1e-5)


def test_a_scalar_parameter_is_averaged(tmp_path) -> None:
    model = nn.Linear(3, 1)
    model.shift = Parameter(np.float32(0))

    def loss(module: nn.Module, batch) -> tuple[Tensor, int]:
        return squared_error(lambda x: module(x) + module.shift, batch)

    rows = fitted(tmp_path / "run", model, Line().epoch(99), 4, loss=loss, validate_every=2, average=2)[2]
    assert rows[-1]["averaged"] == 2


@pytest.mark.parametrize("missing", ["training", "validation"])
def test_no_batches(tmp_path, missing: str) -> None:
    class Nothing(Line):
        def __len__(self) -> int:
            return 0

    batches, validation = (Nothing(), Line().epoch(99)) if missing == "training" else (Line(), [])
    with pytest.raises(InputError, match="at least one batch"):
        fitted(tmp_path / "run", nn.Linear(3, 1), validation, 1, batches=batches)


@pytest.mark.parametrize("k", [2, 3])
def test_k_accumulated_batches_equal_one_batch_of_them_all(tmp_path, k) -> None:
    """With batches of 4, 8 and 12 points, every point has the same weight."""
    rng = np.random.default_rng(0)
    batches = [(x, x.sum(axis=1, keepdims=True)) for x in (rng.normal(size=(4 * n, 3)) for n in (1, 2, 3))][:k]
    whole = tuple(np.concatenate(side) for side in zip(*batches, strict=True))
    weights, logs = [], []
    for name, data in (("parts", batches), ("whole", [whole])):
        manual_seed(0)
        model = nn.Linear(3, 1).astype(np.float64)

        _, _, rows = fitted(
            tmp_path / name, model, [whole], 6, rate=0.1, batches=data, optimizer=SGD(model.parameters(), momentum=0.5),
            average=0, log_every=1, clip_norm=0.5, accumulate=len(data), validate_every=200,
        )  # fmt: skip
        logs.append([row for row in rows if "loss" in row])
        weights.append(model.weight.data)
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-12)
    for one, other in zip(*logs, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-12)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-12)


def test_early_stopping_on_any_metric(tmp_path, capsys) -> None:
    """Training keeps the weights with the best value of the chosen metric, not with the best loss."""
    model = nn.Linear(3, 1)
    seen: list[np.ndarray] = []

    def score(module: nn.Module) -> dict[str, float]:
        seen.append(module.weight.data.copy())
        return {"score": [np.nan, 0.5, 0.3, 0.4, 0.2][len(seen) - 1]}

    options = {"validate_every": 2, "monitor": "score", "higher_is_better": True, "metrics": score}
    options["callbacks"] = [ProgressBar(), EarlyStopping(3)]
    trainer, history, rows = fitted(tmp_path / "run", model, Line().epoch(99), 100, **options)
    assert (history.best, history.best_step, trainer.progress.step) == (0.5, 4, 10)
    told = "ended after step 10 of at most 100: 3 validations in a row did not improve on the score 0.5 of step 4"
    assert told in capsys.readouterr().out
    assert [row["score"] for row in rows if "score" in row] == [None, 0.5, 0.3, 0.4, 0.2], "any later value beats NaN"
    np.testing.assert_array_equal(model.weight.data, seen[1])


def test_a_metric_that_is_not_there(tmp_path) -> None:
    with pytest.raises(InputError, match=r"no metric 'bleu'.*valid_loss"):
        fitted(tmp_path / "run", nn.Linear(3, 1), Line().epoch(99), 1, monitor="bleu")


@pytest.mark.parametrize(("steps", "said"), [(200, "learning rate"), (1, "validation loss is")])
def test_a_diverged_run_says_so(tmp_path, steps: int, said: str) -> None:
    with pytest.raises(FloatingPointError, match=said), np.errstate(all="ignore"):
        fit(tmp_path / "run", rate=1e30, steps=steps)


@pytest.mark.parametrize(("accumulate", "empty"), [(1, "Batch 2 of epoch 1"), (3, "Batch 2 of"), (1, "A validation")])
def test_a_batch_without_targets_ends_the_run_with_a_word(tmp_path, accumulate: int, empty: str) -> None:
    """The mean loss of a batch of padding is NaN. Among other batches, such a batch would silently add nothing."""
    x = np.ones((4, 3), np.float32)
    full, padding = (x, np.array([0, 1, -100, 1])), (x, np.full(4, -100))

    class Padded(Line):
        def epoch(self, epoch: int, start: int = 0, every: int = 1):
            return iter([full, padding if empty.startswith("Batch") else full, full, full, full][start::every])

    def loss(model: nn.Module, batch) -> tuple[Tensor, int]:
        return ops.cross_entropy(model(Tensor(batch[0])), batch[1]), (batch[1] != -100).sum()

    options = {"loss": loss, "batches": Padded(), "accumulate": accumulate}
    with pytest.raises(InputError, match=f"{empty}.* has no targets"):
        fitted(tmp_path / "run", nn.Linear(3, 2), [full, padding], 2, **options)
