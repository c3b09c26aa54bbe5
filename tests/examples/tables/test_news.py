"""The news report's figures next to handloom's, and training means of the updates between two validations."""

import pytest

from handloom.examples.tables import news
from handloom.examples.tables.news import EPOCHS, epoch_rows


def test_training_means_are_of_the_updates_between_two_validations() -> None:
    """A training row covers 4 updates, and an epoch has 6: half of the second row belongs to each epoch."""
    metrics = [
        {"step": 4, "epoch": 0, "loss": 4.0, "accuracy": 0.1},
        {"step": 6, "epoch": 0, "valid_loss": 3.0, "valid_accuracy": 0.2},
        {"step": 8, "epoch": 1, "loss": 1.0, "accuracy": 0.4},
        {"step": 12, "epoch": 1, "loss": 0.5, "accuracy": 0.7},
        {"step": 12, "epoch": 1, "valid_loss": 2.0, "valid_accuracy": 0.5},
        {"step": 12, "epoch": 1, "valid_loss": 1.9, "valid_accuracy": 0.5, "averaged": 2},
    ]
    first, second = epoch_rows(metrics, report=False)
    assert (first["epoch"], first["step"], second["epoch"], second["step"]) == (1, 6, 2, 12)
    assert first["train_loss"] == pytest.approx((4 * 4.0 + 2 * 1.0) / 6)
    assert second["train_loss"] == pytest.approx((2 * 1.0 + 4 * 0.5) / 6)
    assert second["train_accuracy"] == pytest.approx((2 * 0.4 + 4 * 0.7) / 6)

    rows = {row["epoch"]: row for row in epoch_rows(metrics)}
    assert list(rows) == [1, 2, 5, 10, 15, 20], "epochs that the run has not reached have only the report's figures"
    assert (rows[1]["report_loss"], rows[1]["report_train"], rows[1]["report_valid"]) == EPOCHS[1]
    assert rows[1]["valid_accuracy"] == 0.2
    assert "report_loss" not in rows[2]
    assert rows[20] == {"epoch": 20, "report_loss": 0.987, "report_train": 0.734, "report_valid": 0.678}


def test_an_epoch_without_a_training_row_has_no_training_mean() -> None:
    (row,) = epoch_rows([{"step": 3, "epoch": 0, "valid_loss": 1.0, "valid_accuracy": 0.5}], report=False)
    assert "train_loss" not in row


def test_baselines_of_many_classes_are_left_out(monkeypatch, capsys) -> None:
    """Their tables have a number for each word and class."""
    labelled = [(f"word{number} and", f"class {number % 5}") for number in range(40)]
    assert len(news.baselines(labelled, labelled, labelled)) == 3
    monkeypatch.setattr(news, "MOST_NUMBERS", 100)
    (row,) = news.baselines(labelled, labelled, labelled)
    assert (row["cell"], row["accuracy"]) == ("always class 0", 0.2)
    assert "are left out: 5 classes need too much memory" in capsys.readouterr().out
