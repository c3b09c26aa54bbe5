"""Files of a run that don't fit each other, or were changed, are refused."""

import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import handloom
from handloom import models, nn
from handloom.autograd import Parameter, ops
from handloom.errors import InputError
from handloom.models.own_layers import saved_note
from handloom.tokenizer import BPETokenizer
from handloom.train import Adam, Trainer
from handloom.train.runs.checkpoints import load_checkpoint, save_checkpoint
from handloom.train.runs.folder import RunFolder
from handloom.train.tasks.classification import Classifier
from handloom.train.tasks.language_modelling import Writer
from handloom.train.tasks.trained import trained_config
from handloom.train.tasks.translation import Translator

TASK = "translation from de to en"


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """Return a run's folder with a small translation model, as training writes it."""
    tokenizer = BPETokenizer.train(["a b c"], 262)
    sizes = models.Seq2SeqConfig(262, 262, 8, 2, 1, 1, 16, max_length=20, share_embeddings=True, tie_output=True)
    with RunFolder.create(tmp_path_factory.mktemp("loading") / "run", {}) as run:
        tokenizer.save(run.tokenizer_path)
        config = trained_config(TASK, run.tokenizer_path, sizes)
        save_checkpoint(run.path, models.Seq2SeqTransformer(sizes).state_dict(), config)
    return run.path


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved, tmp_path / "run")


def refusal(folder: Path, tasks: Any = None) -> str:
    with pytest.raises(InputError) as caught:
        Translator.load(folder, tasks)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    return str(caught.value)


def resave(folder: Path, **changes: Any) -> None:
    """Save the model again with a changed configuration. A dictionary `model` changes only the given entries."""
    tensors, config = load_checkpoint(folder)
    for name, value in changes.items():
        config[name] = {**config["model"], **value} if name == "model" and isinstance(value, dict) else value
    save_checkpoint(folder, tensors, config)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("encoder_layers", 10**7),
        ("max_length", 10**9),
        ("pad_id", 10**6),
        ("pad_id", -1),
        ("dropout", "x"),
        ("dropout", float(10**30)),
        ("d_model", 8.0),
        ("d_model", None),
        ("norm_first", "yes"),
        ("activation", []),
        ("positions", "somewhere"),
        ("pattern", "local:-1"),
        ("wings", 2),
    ],
)
def test_sizes_that_no_model_has_are_never_built(folder: Path, name: str, value: Any, monkeypatch) -> None:
    resave(folder, model={name: value, "share_embeddings": False})

    forbidden = Mock(side_effect=AssertionError("a model was about to be built"))
    monkeypatch.setattr(Translator, "kinds", {"": (forbidden, models.Seq2SeqConfig)})
    with pytest.raises(InputError, match=f"does not say which translator it holds .*{name}"):
        Translator.load(folder)


def test_a_model_that_does_not_fit_into_memory(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(Translator, "kinds", {"": (lambda config: np.empty(1 << 50), models.Seq2SeqConfig)})
    with pytest.raises(InputError, match=r"does not say which translator it holds \(Unable to allocate"):
        Translator.load(folder)


@pytest.mark.parametrize(("name", "value"), [("decoder_layers", 3), ("source_vocab_size", 300), ("dim_feedforward", 9)])
def test_sizes_that_the_tensors_do_not_have(folder: Path, name: str, value: int) -> None:
    resave(folder, model={name: value, "share_embeddings": False})
    assert "these weights don't fit this model" in refusal(folder)


@pytest.mark.parametrize("model", [None, 3, [], {}, "x", {"a": {}}])
def test_a_configuration_of_another_kind(folder: Path, model: Any) -> None:
    tensors, config = load_checkpoint(folder)
    save_checkpoint(folder, tensors, {**config, "model": model})
    assert "does not say which translator it holds" in refusal(folder)
    save_checkpoint(folder, tensors, {**config, "kind": model})
    assert "does not say which translator it holds" in refusal(folder)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite(folder: Path, value: float) -> None:
    tensors, config = load_checkpoint(folder)
    tensors["source_embedding.weight"][3, 3] = value
    save_checkpoint(folder, tensors, config)
    assert "source_embedding.weight contains values that are not finite numbers" in refusal(folder)
    tensors["source_embedding.weight"] = np.zeros(tensors["output.weight"].shape, np.int32)
    save_checkpoint(folder, tensors, config)
    assert "source_embedding.weight contains values that are not finite numbers" in refusal(folder)


def test_a_model_for_something_else(folder: Path) -> None:
    assert Translator.load(folder, [TASK]).tokenizer.vocab_size == 262
    assert refusal(folder, ["headlines of articles"]).endswith(
        "was trained for 'translation from de to en'; a run for headlines of articles is needed."
    )
    resave(folder, task=["x"])
    assert "was trained for ['x']" in refusal(folder, [TASK])
    for load in (Classifier.load, Writer.load):
        with pytest.raises(InputError, match="does not say which"):
            load(folder)


def test_a_changed_tokenizer(folder: Path) -> None:
    path = folder / "tokenizer.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    vocab = data["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    assert "is not the tokenizer that the model" in refusal(folder)
    BPETokenizer.train(["x y z x y z"], 262).save(folder / "tokenizer.json")
    assert "is not the tokenizer that the model" in refusal(folder)
    BPETokenizer.train(["a b c"], 261).save(folder / "tokenizer.json")
    assert "files come from two runs" in refusal(folder)


def test_labels_and_context_of_another_kind(tmp_path: Path) -> None:
    tokenizer = BPETokenizer.train(["a b c"], 262)
    classifier = models.ClassifierConfig(262, 2, 8, 2, 1, 16)
    writer = models.LanguageModelConfig(262, 8, 2, layers=1, dim_feedforward=16, max_length=9)
    with RunFolder.create(tmp_path / "run", {}) as run:
        tokenizer.save(run.tokenizer_path)
        for labels in (None, ["a"], ["a", "a"], ["a", 2], "ab", [["a"], "b"], {"a": 1, "b": 2}):
            config = trained_config("", run.tokenizer_path, classifier, labels=labels)
            save_checkpoint(run.path, models.TransformerClassifier(classifier).state_dict(), config)
            with pytest.raises(InputError, match="does not name its 2 classes"):
                Classifier.load(run.path)
        for length in (None, "9", 0, 10, 10**9, 9.0):
            config = trained_config("", run.tokenizer_path, writer, kind="transformer", length=length)
            save_checkpoint(run.path, models.LanguageModel(writer).state_dict(), config)
            with pytest.raises(InputError, match="does not record its context length"):
                Writer.load(run.path)


class Halved(nn.Linear):
    """A linear layer with half its output, and a parameter of its own."""

    def __init__(self, *sizes: int):
        super().__init__(*sizes)
        self.scale = Parameter(np.full(1, 0.5, np.float32))

    def forward(self, x: Any) -> Any:
        return super().forward(x) * self.scale


class OtherResidual(models.Seq2SeqTransformer):
    """A model with the same parameters that computes something else."""

    def forward(self, *inputs: Any) -> Any:
        return super().forward(*inputs) * 0.5


def test_a_run_with_own_layers_is_loaded_only_into_their_model(folder: Path) -> None:
    sizes = models.Seq2SeqConfig(**load_checkpoint(folder).config["model"])
    config = load_checkpoint(folder).config
    own, other, hooked = (kind(sizes) for kind in (models.Seq2SeqTransformer, OtherResidual, models.Seq2SeqTransformer))
    own.decoder.layers[0].linear1 = Halved(8, 16)
    hooked.register_forward_hook(lambda module, args, output: None)
    assert saved_note(own) == {"own_layers": ["decoder.layers.0.linear1 (Halved)"]}
    assert saved_note(other) == {"own_layers": ["the model (OtherResidual)"]}
    assert saved_note(hooked) == {}
    for model, name in ((own, "decoder.layers.0.linear1 (Halved)"), (other, "the model (OtherResidual)")):
        save_checkpoint(folder, model.state_dict(), {**config, **saved_note(model)})
        message = refusal(folder)
        assert f"has layers that are not handloom's: {name}. Build the model" in message
        assert "handloom.load(RUN, model=MODEL)" in message
        fresh = type(model)(sizes)
        if model is own:
            with pytest.raises(
                InputError, match=r"saved from another model: .* decoder.layers.0.linear1.scale is not part"
            ):
                Translator.load(folder, model=fresh)
            fresh.decoder.layers[0].linear1 = Halved(8, 16)
        with pytest.warns(UserWarning, match="is not handloom's"):
            found = handloom.load(folder, model=fresh).translate(["a b"])
        assert len(found) == 1
        source, target = np.array([[4, 5, 2]]), np.array([[1, 6]])
        assert np.array_equal(fresh(source, target).numpy(), model.eval()(source, target).numpy())
    save_checkpoint(folder, own.state_dict(), config)  # as older versions saved it
    assert "decoder.layers.0.linear1.scale is not part of this Seq2Seq" in refusal(folder)


def test_a_trained_run_names_the_layers_that_are_not_handlooms(tmp_path: Path) -> None:
    language_model = models.LanguageModel(models.LanguageModelConfig(9, 8, 2, layers=1, dim_feedforward=8))
    language_model.decoder.layers[0].linear1 = Halved(8, 8)
    for name, model, found in (
        ("own", language_model, ["decoder.layers.0.linear1 (Halved)"]),
        ("chain", nn.Sequential(nn.Embedding(9, 4), nn.ReLU(), nn.Linear(4, 9)), None),
    ):
        batches = [np.array([[3, 4, 5]])]

        def loss(model: Any, ids: np.ndarray) -> Any:
            return ops.cross_entropy(model(ids[:, :-1]), ids[:, 1:])

        Trainer(model, loss, Adam(model.parameters(), 0.1), out=tmp_path / name, callbacks=[]).fit(batches, steps=1)
        assert load_checkpoint(tmp_path / name).config.get("own_layers") == found
