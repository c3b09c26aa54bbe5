"""A translator that copies: training, saving, loading, the shares in its picture, and options that are refused."""

from pathlib import Path

import numpy as np
import pytest

from handloom.errors import InputError
from handloom.train.data.pairs import title_case
from handloom.train.tasks.translation import Translator

from .test_task import trained, translation

pytestmark = pytest.mark.usefixtures("quick_pictures")


def test_a_run_with_copying(tmp_path: Path) -> None:
    made, _ = trained(translation(copy=True, coverage_loss=0.5), tmp_path / "run")
    loaded = Translator.load(tmp_path / "run")
    assert loaded.model.config.copy
    assert loaded.model.config.uncopied_id == loaded.tokenizer.eos_id
    np.testing.assert_array_equal(loaded.model.copy_gate.weight.data, made.model.copy_gate.weight.data)
    assert loaded.translate(["red dog"]) == made.translate(["red dog"])

    shares, source, written = loaded.copied("red dog", loaded.tokenizer.encode("green dog"))
    assert shares.shape == (len(written), len(source))
    assert (shares[np.array(written)[:, None] != np.array(source)] == 0).all(), "only equal tokens are copied"
    assert ((shares.sum(axis=1) > 0) == [token in source[:-1] for token in written]).all()
    assert (shares.sum(axis=1) < 1).all()


def test_the_loss_of_coverage_is_added_in_training_alone(tmp_path: Path) -> None:
    made, _ = trained(translation(copy=True), tmp_path / "run")
    tasks = [translation(copy=True, coverage_loss=weight) for weight in (0.0, 1.0)]
    batch = next(iter(tasks[0].batches(made.tokenizer, 0).train.epoch(0)))
    training, validation = (
        [task.loss(made.tokenizer, None)(made.model.train(mode), batch)[0].item() for task in tasks]
        for mode in (True, False)
    )
    assert training[0] < training[1] < training[0] + 1
    assert validation[0] == validation[1]


def test_sources_in_title_case(tmp_path: Path) -> None:
    made, _ = trained(translation(title_case=True), tmp_path / "run")
    batches = translation(title_case=True).batches(made.tokenizer, 0)
    batch = next(iter(batches.valid))
    texts = [made.tokenizer.decode(ids) for ids in batch.source.tolist()]
    assert texts
    assert all(text == title_case(text) != text.lower() for text in texts)

    loaded = Translator.load(tmp_path / "run")
    titled = [[*loaded.tokenizer.encode("Red Dog"), 3]]
    assert loaded.source_ids(["red dog"]) == loaded.source_ids(["Red Dog"]) == titled
    again, _ = trained(translation(title_case=False), tmp_path / "init", init=loaded)
    assert again.model.config.title_case, "an initial model keeps the case of its training"
    assert again.source_ids(["RED DOG"]) == loaded.source_ids(["RED DOG"]) == titled


def test_both_sides_in_lower_case(tmp_path: Path) -> None:
    task = translation(lowercase=True)
    made, _ = trained(task, tmp_path / "run")
    batch = next(iter(task.batches(made.tokenizer, 0).valid))
    texts = made.tokenizer.decode_batch([*batch.source.tolist(), *batch.target_output.tolist()])
    assert any(texts)
    assert all(text == text.lower() for text in texts)

    loaded = Translator.load(tmp_path / "run")
    assert loaded.source_ids(["Red DOG"]) == loaded.source_ids(["red dog"])
    assert loaded.as_written(["Red DOG"]) == ["red dog"]
    again, _ = trained(translation(lowercase=False), tmp_path / "init", init=loaded)
    assert again.model.config.lowercase, "an initial model keeps the case of its training"


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="add copy=True"):
        trained(translation(coverage_loss=0.5), tmp_path / "a")
    plain, _ = trained(translation(), tmp_path / "plain")
    with pytest.raises(InputError, match="add copy=True"):
        trained(translation(coverage_loss=0.5), tmp_path / "b", init=plain)
    with pytest.raises(InputError, match="has no effect with a teacher"):
        trained(translation(copy=True, coverage_loss=0.5), tmp_path / "c", teacher=plain)
