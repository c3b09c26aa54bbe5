"""Comparing runs, and the options that say how to train."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from handloom.errors import InputError
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer
from handloom.models.presets import SMOKE
from handloom.nn import MultiHeadAttention
from handloom.train.cli.options import OptionParser
from handloom.train.cli.training import add_regime_options, changed, regime_of
from handloom.train.optim.optimizers import SGD, AdamW
from handloom.train.optim.schedules import Plateau
from handloom.train.report import compare, summary
from handloom.train.runs.folder import RunFolder
from handloom.train.tasks.regimes import Regime


def make_run(path, seed: int, losses: list[float]) -> None:
    with RunFolder.create(path, {"options": {"seed": seed, "preset": "smoke", "sentences": []}}) as run:
        for number, loss in enumerate(losses, 1):
            step = 10 * number
            run.log({"step": step, "loss": loss + 1, "learning_rate": 0.1}, {"tokens_per_second": 10.0 * step})
            run.log({"step": step, "valid_loss": loss, "valid_accuracy": 1 - loss / 10})


def test_a_table_and_a_picture(tmp_path) -> None:
    make_run(tmp_path / "a", 0, [3.0, 2.0, 2.5])
    make_run(tmp_path / "b", 1, [3.0, 1.0])
    command = [sys.executable, "-W", "error", "-m", "handloom.train.report", "a", "b", "--table", "t.md"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "t.md").read_text()
    assert table in done.stdout
    assert table.splitlines()[0].split(" | ") == [
        "| run", "seed", "steps", "training loss", "best validation loss", "at step", "accuracy there", "tokens/s |"
    ]  # fmt: skip
    cells = [cell.strip() for cell in table.splitlines()[2].strip("|").split("|")]
    assert cells == ["a", "0", "30", "3.5000", "2.0000", "20", "0.8000", "200"]
    assert (tmp_path / "comparison.png").stat().st_size > 5000


def test_averaged_weights_and_runs_of_different_scripts(tmp_path) -> None:
    for name, options in (("a", {"seed": 0, "reverse": True}), ("b", {"seed": 1, "what": "texts"})):
        with RunFolder.create(tmp_path / name, {"options": {"preset": "smoke", **options}}) as run:
            run.log({"step": 10, "valid_loss": 2.0})
            run.log({"step": 10, "valid_loss": 1.5, "averaged": 3})
    table, lines = compare([tmp_path / "a", tmp_path / "b"])
    assert table.splitlines()[0].split(" | ")[:3] == ["| run", "seed", "steps"]
    assert "1.5000" in table
    assert lines["a"] == ([10], [2.0])
    assert lines["a, averaged weights"] == ([10], [1.5]), "what the table calls best is in the picture"


def test_runs_of_one_name_and_runs_without_rows(tmp_path) -> None:
    make_run(tmp_path / "x/run", 0, [3.0])
    make_run(tmp_path / "y/run", 0, [2.0])
    table, lines = compare([tmp_path / "x/run", tmp_path / "y/run"])
    assert set(lines) == {str(tmp_path / "x/run"), str(tmp_path / "y/run")}
    assert "seed" not in table, "only options that differ have a column"
    with pytest.raises(InputError, match="has logged nothing yet"):
        summary(RunFolder.create(tmp_path / "z", {}))


class TestRegime:
    def parsed(self, *options: str) -> Regime:
        parser = OptionParser()
        add_regime_options(parser)
        return regime_of(parser.parse_args(options))

    def test_the_options_default_to_the_regimes_own_values(self) -> None:
        assert self.parsed() == Regime()

    def test_sums_in_a_fixed_order_are_asked_of_every_attention(self) -> None:
        for options, wanted in (((), False), (("--deterministic",), True)):
            model = self.parsed(*options).make_model(Seq2SeqTransformer, Seq2SeqConfig(9, 9, 8, 2, 1, 1, 8), "cpu")
            found = [module.deterministic for module in model.modules() if isinstance(module, MultiHeadAttention)]
            assert found == [wanted] * 3

    def test_what_the_options_make(self) -> None:
        config = Seq2SeqConfig(9, 9, 8, 2, 1, 1, 8)
        model = Seq2SeqTransformer(config)
        options = ["--optimizer", "adamw", "--schedule", "plateau", "--lr", "0.1", "--monitor", "valid_accuracy"]
        regime = self.parsed(*options)
        optimizer = regime.make_optimizer(model, SMOKE)
        assert isinstance(optimizer, AdamW)
        assert optimizer.betas == SMOKE.betas
        assert isinstance(regime.make_schedule(SMOKE, 100), Plateau)
        assert regime.trainer_options()["higher_is_better"]
        assert isinstance(self.parsed("--optimizer", "sgd").make_optimizer(model, SMOKE), SGD)
        for name in ("constant", "linear", "cosine"):
            schedule = self.parsed("--schedule", name, "--lr", "0.1").make_schedule(SMOKE, 1000)
            assert schedule(SMOKE.warmup) == pytest.approx(0.1)

    def test_the_presets_schedule_unless_another_is_asked_for(self) -> None:
        falling = dataclasses.replace(SMOKE, schedule="linear", lr=0.1)
        schedule = self.parsed().make_schedule(falling, 100)
        assert schedule(SMOKE.warmup) == pytest.approx(0.1)
        assert schedule(100) == 0
        noam = self.parsed("--schedule", "noam").make_schedule(falling, 100)
        assert noam(100) == pytest.approx(SMOKE.d_model**-0.5 * 0.1)

    def test_a_rate_too_many_or_too_few(self) -> None:
        with pytest.raises(InputError, match="leave out --lr"):
            self.parsed("--lr", "0.1").make_schedule(SMOKE, 10)
        with pytest.raises(InputError, match="add --lr"):
            self.parsed("--schedule", "cosine").make_schedule(SMOKE, 10)

    def test_changing_a_preset(self) -> None:
        preset = changed(SMOKE, ["dropout=0.25", "layers=2", "norm_first=true"])
        assert (preset.dropout, preset.layers, preset.norm_first) == (0.25, 2, True)
        with pytest.raises(InputError, match=r"no 'dropuot'. It has .*dropout"):
            changed(SMOKE, ["dropuot=1"])
        with pytest.raises(InputError, match=r"must be a whole number from 1 to 1,000. The preset has 1\."):
            changed(SMOKE, ["layers=many"])

    def test_values_of_other_kinds(self) -> None:
        preset = changed(SMOKE, ["clip_norm=none", "betas=0.8,0.9", "test_size=7", "pattern=local:3", "lr=1e-3"])
        assert (preset.clip_norm, preset.betas, preset.test_size, preset.pattern) == (None, (0.8, 0.9), 7, "local:3")
        assert changed(preset, ["test_size=none"]) == changed(preset, ["test_size=None"])
        assert changed(SMOKE, ["warmup=0"]).warmup == 0
        with pytest.raises(InputError, match="must be a whole number from 1"):
            changed(SMOKE, ["layers=0"])
        for wrong in ("betas=0.9", "betas=a,b", "layers=none", "norm_first=1", "lr="):
            with pytest.raises(InputError, match=f"--set {wrong}: it must be"):
                changed(SMOKE, [wrong])

    def test_the_tasks_metric_and_patience_unless_others_are_asked_for(self) -> None:
        own = self.parsed().trainer_options("valid_accuracy", 3)
        assert (own["monitor"], own["patience"], own["higher_is_better"]) == ("valid_accuracy", 3, True)
        asked = self.parsed("--monitor", "valid_loss", "--patience", "5").trainer_options("valid_accuracy", 3)
        assert (asked["monitor"], asked["patience"], asked["higher_is_better"]) == ("valid_loss", 5, False)

    def test_a_model_that_cannot_be_built_says_why(self) -> None:
        config = changed(SMOKE, ["nhead=7"]).model_config(9, 0)
        with pytest.raises(InputError, match=r"can't be built: embed_dim 32 is not divisible.*--set"):
            Regime().make_model(Seq2SeqTransformer, config, "cpu")
        with pytest.raises(InputError, match="must be full, local:SIZE"):
            changed(SMOKE, ["pattern=lokal:3"])

    def test_an_unknown_schedule_of_a_preset(self) -> None:
        with pytest.raises(InputError, match="must be one of noam, constant"):
            changed(SMOKE, ["schedule=kosine"])
