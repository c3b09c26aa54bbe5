"""The views of language models and classifiers, and the errors for views that they lack."""

from pathlib import Path
from typing import Any

import pytest

from handloom import models
from handloom.errors import InputError
from handloom.explorer.session import Session
from handloom.models import pretrained
from handloom.models.shipped import MODELS
from handloom.tokenizer import BPETokenizer, CharacterTokenizer, WordTokenizer
from handloom.train.runs.checkpoints import file_digest, save_checkpoint
from handloom.train.runs.folder import RunFolder

TEXT = "the knight sang"


def saved(folder: Path, model: Any, tokenizer: Any, config: dict[str, Any]) -> Session:
    with RunFolder.create(folder, {}) as run:
        tokenizer.save(run.tokenizer_path)
        known = {"model": model.config.to_dict(), "tokenizer": file_digest(run.tokenizer_path)}
        save_checkpoint(run.path, model.state_dict(), {**known, **config})
    return Session(folder)


@pytest.fixture
def writer(tmp_path: Path) -> Session:
    tokenizer = CharacterTokenizer.train([TEXT])
    config = models.LanguageModelConfig(tokenizer.vocab_size, 16, 2, 8, 1, 32, 0.0, max_length=24, positions="alibi")
    return saved(tmp_path / "run", models.LanguageModel(config), tokenizer, {"kind": "transformer", "length": 24})


def test_a_language_model_shows_its_continuation_and_attention(writer: Session) -> None:
    seen = writer.answer("translate", {"text": TEXT})
    assert seen["answer"].startswith(TEXT)
    assert len(seen["tokens"]["text"]) == 24  # 15 given and 9 generated characters
    (layer,) = seen["layers"]
    assert (layer["title"], layer["heads"]) == ("Self-attention", 2)
    given = writer.answer("head", {"text": TEXT, "layer": layer["name"], "head": 1, "query": 3})
    assert given["layer"]["name"] == layer["name"]
    assert writer.answer("tiles", {"text": TEXT, "layer": layer["name"], "head": 0, "query": 5})["trace"]
    assert writer.answer("check", {"text": TEXT, "call": 3})["ok"]
    with pytest.raises(InputError, match="has no merges"):
        writer.answer("bpe", {"text": TEXT})
    for text, said in (("", "no text"), ("the " * 20, "Shorten it"), ("¿¡", "no token")):
        with pytest.raises(InputError, match=said):
            writer.answer("translate", {"text": text})


def test_a_language_models_beam_is_beam_search(writer: Session) -> None:
    shown = writer.answer("beam", {"text": TEXT, "width": 3, "alpha": 0.5})
    search = writer.subject().search(TEXT)
    expected = models.beam_search(search.state, search.rules, width=3, alpha=0.5, n_best=3)[0]
    scores = sorted((node["score"] for node in shown["nodes"] if node["rank"] is not None), reverse=True)
    assert scores == pytest.approx([hypothesis.score for hypothesis in expected], rel=1e-6)


def test_a_classifier_shows_its_classes(tmp_path: Path) -> None:
    tokenizer = WordTokenizer.train([TEXT], 40)
    config = models.ClassifierConfig(tokenizer.vocab_size, 3, 16, 2, 1, 32, 0.0, max_length=12, pad_id=tokenizer.pad_id)
    session = saved(tmp_path / "run", models.TransformerClassifier(config), tokenizer, {"labels": ["A", "B", "C"]})
    seen = session.answer("translate", {"text": TEXT})
    assert sum(share for _, share in seen["shares"]) == pytest.approx(1)
    assert seen["tokens"]["text"] == ["<BOS>", "the", "knight", "sang"]
    assert session.answer("graph", {"text": TEXT})["count"] > 5
    with pytest.raises(InputError, match="generates no text"):
        session.answer("beam", {"text": TEXT})
    with pytest.raises(InputError, match="no text"):
        session.answer("translate", {"text": " "})


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("everyday-de-en", "I get up at half past seven."),
        ("everyday-en-de", "Ich rufe dich an, sobald ich ankomme."),
        ("huffpost-42", "SPORTS"),
        ("gutenberg-15", "The "),
    ],
)
def test_the_example_of_a_model_that_comes_with_handloom_suits_it(name: str, answer: str) -> None:
    session = Session(MODELS[name])
    facts = session.subject().facts()
    seen = session.answer("translate", {"text": facts["example"]})
    assert str(seen["answer"]).startswith(answer)
    for width in (1, facts["beam"]) if "beam" in facts["views"] else ():
        shown = session.answer("beam", {"text": facts["example"], "width": width, "alpha": facts["alpha"]})
        assert any(node["rank"] == 0 for node in shown["nodes"])  # the tree contains the end of the best sequence
        assert width != facts["beam"] or shown["found"][0]["text"] == seen["answer"]
        assert name != "everyday-de-en" or width > 1 or shown["found"][0]["text"] != seen["answer"]  # the tour's card 7
    if facts["kind"] == "translation":  # the tour's card 5: switch off the first head of the last cross-attention
        head = [layer["name"] for layer in seen["layers"] if layer["title"] == "Cross-attention"][-1] + "/0"
        assert session.answer("translate", {"text": facts["example"], "off": [head]})["answer"] != seen["answer"]


def test_a_recurrent_model_says_that_it_has_no_attention(tmp_path: Path) -> None:
    tokenizer = CharacterTokenizer.train([TEXT])
    model = models.RecurrentLanguageModel(models.RecurrentConfig(tokenizer.vocab_size, "gru", 8, dropout=0.0))
    session = saved(tmp_path / "run", model, tokenizer, {"kind": "recurrent", "length": 24})
    assert session.answer("translate", {"text": TEXT})["layers"] == []
    for view in ("head", "beam", "tiles"):
        with pytest.raises(InputError, match="recurrent"):
            session.answer(view, {"text": TEXT})
    assert session.answer("graph", {"text": TEXT})["count"] > 5


@pytest.mark.parametrize("kind", ["marian", "llama", "bert"])
def test_models_of_transformers(tmp_path: Path, kind: str) -> None:
    tokenizer: Any = BPETokenizer.train([TEXT], 270)
    n, sizes = tokenizer.vocab_size, {"d_model": 16, "nhead": 2, "dim_feedforward": 24, "dropout": 0.0}
    if kind == "marian":
        tied = {"share_embeddings": True, "tie_output": True, "pad_id": tokenizer.pad_id, "max_length": 24}
        config: Any = models.Seq2SeqConfig(n, n, **sizes, encoder_layers=1, decoder_layers=1, **tied)
        model: Any = models.Seq2SeqTransformer(config)
    elif kind == "llama":
        own = {"norm": "rms", "positions": "rotary", "activation": "swiglu", "bias": "none", "kv_heads": 1}
        config = models.LanguageModelConfig(n, **sizes, layers=1, max_length=24, output_bias=False, **own)
        model = models.LanguageModel(config)
    else:
        own = {"positions": "learned", "scale_embedding": False, "token_types": 2, "embedding_norm": True}
        more = {**own, "pooler": "tanh", "max_length": 16, "layers": 1}
        model = models.TransformerClassifier(models.ClassifierConfig(n, 2, **sizes, **more))
    pretrained.save(model, tokenizer, tmp_path / kind, **({"labels": ["A", "B"]} if kind == "bert" else {}))
    session = Session(tmp_path / kind)
    layers = session.answer("translate", {"text": TEXT})["layers"]
    assert len(layers) == (3 if kind == "marian" else 1)
    for layer in layers:
        given = {"text": TEXT, "layer": layer["name"], "head": 1, "query": 1}
        assert session.answer("head", given)["layer"]["name"] == layer["name"]
