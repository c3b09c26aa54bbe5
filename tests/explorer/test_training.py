"""Watching and controlling training: a growing log, commands between updates, checkpoints, gradient norms by layer."""

import copy
import shutil
from pathlib import Path

import numpy as np
import pytest

from handloom.errors import InputError
from handloom.explorer import training
from handloom.explorer.asking import Ask
from handloom.explorer.session import Session
from handloom.explorer.subject import load_subject
from handloom.explorer.training import Training
from handloom.train import SGD, Callback, Trainer
from handloom.train.runs.folder import RunFolder, read_metrics
from tests.support.explorer_run import SENTENCE
from tests.support.small_run import small_run


def test_the_log_is_sent_as_it_grows(run_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(run_folder, run)
    session, rows = Session(run), read_metrics(run / "metrics.jsonl")
    first = session.progress()
    assert (first["rows"], first["state"]) == (rows, "watched")
    assert session.progress() == first
    with open(run / "metrics.jsonl", "a", encoding="utf-8") as log:
        log.write('{"step": 7, "loss": 1.5}\n{"step": 8, "lo')
    assert session.progress() == {**first, "rows": [*rows, {"step": 7, "loss": 1.5}]}
    (run / "metrics.jsonl").write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 1"):
        session.progress()
    with pytest.raises(InputError, match="can be watched but not controlled"):
        session.answer("train", {"order": "pause"})
    with pytest.raises(InputError, match="order must be one of"):
        session.answer("train", {"order": "rm"})


def test_a_training_can_be_started_paused_and_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one = Training()
    try:
        assert one.state == "running"
        one.command("pause")
        assert one.state == "paused"
        one.command("stop")
        one._process.wait(timeout=300)
        assert one.state == "stopped"
        assert RunFolder.open(one.run).metrics()[0]["step"] == 1
        assert list(RunFolder.open(one.run).metrics()[0]["gradient_norms"])
        with pytest.raises(InputError, match="has ended"):
            one.command("go")
    finally:
        one.close()


def test_attention_over_the_saves_ends_with_the_weights_of_the_last(run_folder: Path) -> None:
    subject = load_subject(run_folder)
    before = copy.deepcopy(subject.model.state_dict())
    name = "decoder.layers.0.multihead_attn"
    shown = training.saves(subject, Ask({"text": SENTENCE, "layer": name, "head": 1}))
    assert [save["step"] for save in shown["saves"]] == [3, 6]
    np.testing.assert_equal(subject.model.state_dict(), before)
    shapes = {tuple(save["weights"]["shape"]) for save in shown["saves"]}
    assert shapes == {(1, len(shown["rows"]), len(shown["columns"]))}
    assert shown["saves"][0]["weights"] != shown["saves"][1]["weights"]
    with pytest.raises(InputError, match="another model"):
        subject.with_weights({}, subject.watched(SENTENCE), name)


def test_the_trainer_logs_gradient_norms_by_layer_and_is_observed(tmp_path: Path) -> None:
    seen: list[int] = []
    options = {"steps": 4, "log_every": 1, "validate_every": 4, "accumulate": 1, "average": 0}

    class Watching(Callback):
        def on_update(self, trainer: Trainer) -> None:
            seen.append(trainer.progress.step)

    watched = {"gradient_norms": True, "callbacks": [Watching()]}
    small_run(tmp_path / "a", **options, **watched)
    small_run(tmp_path / "b", **options)
    assert seen == [1, 2, 3, 4]
    rows = [row for row in read_metrics(tmp_path / "a" / "metrics.jsonl") if "loss" in row]
    for row in rows:
        norms = row.pop("gradient_norms")
        assert set(norms) == {"source_embedding", "encoder.layers.0", "decoder.layers.0", "output"}
        assert np.sqrt(sum(norm**2 for norm in norms.values())) == pytest.approx(row["gradient_norm"])
    assert rows == [row for row in read_metrics(tmp_path / "b" / "metrics.jsonl") if "loss" in row]
    small_run(tmp_path / "c", **options, gradient_norms=True, optimizer=lambda model: SGD(model.decoder.parameters()))
    for row in filter(lambda row: "loss" in row, read_metrics(tmp_path / "c" / "metrics.jsonl")):
        assert row["gradient_norms"] == {"decoder.layers.0": pytest.approx(row["gradient_norm"])}
