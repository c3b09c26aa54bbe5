"""The examples with folders of `transformers` models: applying a model, and starting training from it."""

from pathlib import Path

import numpy as np
import pytest

from handloom import models
from handloom.cli.export import export
from handloom.cli.generation import without_controls
from handloom.errors import InputError
from handloom.models.pretrained import load, save
from handloom.tokenizer import BPETokenizer
from handloom.train.tasks.classification import Classifier
from handloom.train.tasks.language_modelling import Writer
from handloom.train.tasks.loading import is_foreign
from handloom.train.tasks.translation import Translator

from ..support.examples import Example

TEXTS = [f"Der {a} Hund sieht {b} Katze.\tThe {a} dog sees {b} cat." for a in "abcde" for b in "vwxyz"]
SIZES = {"d_model": 16, "nhead": 2, "dim_feedforward": 24, "dropout": 0.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder with a translator, two decoders and a classifier, and with data to continue training."""
    folder = tmp_path_factory.mktemp("pretrained")
    tokenizer = BPETokenizer.train(TEXTS, 300)
    n = tokenizer.vocab_size
    config = models.Seq2SeqConfig(
        n, n, **SIZES, encoder_layers=1, decoder_layers=1, max_length=32, pad_id=tokenizer.pad_id,
        share_embeddings=True, tie_output=True,
    )  # fmt: skip
    rules = models.Rules(forbidden=(tokenizer.pad_id,), penalise="log-probabilities")
    strategy = models.Strategy(beam=2, length_norm="power", early_stopping=True, rules=rules)
    save(models.Seq2SeqTransformer(config), tokenizer, folder / "marian", strategy=strategy)
    gpt2 = models.LanguageModelConfig(n, **SIZES, layers=1, max_length=32, tie_output=True)
    save(models.LanguageModel(gpt2), tokenizer, folder / "gpt2")
    llama = models.LanguageModelConfig(
        n, **SIZES, layers=1, max_length=32, norm="rms", positions="rotary", activation="swiglu", bias="none",
        kv_heads=1, output_bias=False,
    )  # fmt: skip
    save(models.LanguageModel(llama), tokenizer, folder / "llama")
    bert = models.ClassifierConfig(
        n, 2, **SIZES, layers=1, positions="learned", max_length=16, scale_embedding=False, token_types=2,
        embedding_norm=True, pooler="tanh", norm_eps=1e-12,
    )  # fmt: skip
    save(models.TransformerClassifier(bert), tokenizer, folder / "bert", labels=["CATS", "DOGS"])
    (folder / "pairs.tsv").write_text("\n".join(TEXTS * 6) + "\n", encoding="utf-8")
    (folder / "text.txt").write_text("\n".join(TEXTS * 40) + "\n", encoding="utf-8")
    news = [f"{label}\t{a}{b} {word} {a}\t" for label, word in (("ONE", "hot"), ("TWO", "cold"), ("SIX", "dear"))
            for a in "abcdelnorst" for b in "aeio"]  # fmt: skip
    (folder / "news.tsv").write_text("\n".join(news) + "\n", encoding="utf-8")
    return folder


def test_translating(folder) -> None:
    told = Example("translate_de_en.py", folder).succeeds("--checkpoint", "marian", "--show-attention", "a Hund")
    translator = Translator.load(folder / "marian")
    assert translator.own.beam == 2
    own = models.Strategy()
    assert told.splitlines()[0] == translator.translate(["a Hund"], strategy=own, split=False)[0].splitlines()[0]
    assert "|" in told
    maps, _, written = translator.attention_maps("a Hund")
    assert maps["decoder.layers.0.multihead_attn"].shape[1] == len(written)


def test_going_on_with_a_translator(folder) -> None:
    options = ("--init", "marian", "--data", "pairs.tsv", "--preset", "smoke", "--steps", 3, "--out", "fine")
    Example("translate_de_en.py", folder).succeeds(*options, "--schedule", "constant", "--lr", "1e-6")
    before, after = Translator.load(folder / "marian"), Translator.load(folder / "fine")
    assert (folder / "fine/attention.png").exists()
    pairs = [(array, before.model.state_dict()[name]) for name, array in after.model.state_dict().items()]
    for array, old in pairs:
        np.testing.assert_allclose(array, old, atol=1e-5)
    assert any((array != old).any() for array, old in pairs)
    # The trained model can be exported again.
    export(folder / "fine", folder / "again")
    again = Translator.load(folder / "again")
    assert again.translate(["a Hund"]) == after.translate(["a Hund"])
    for one in (before, after, again):
        assert one.own.rules.forbidden == (after.tokenizer.pad_id,)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_writing(folder, name) -> None:
    text = Writer.load(folder / name).write("The dog", 12, temperature=0)
    assert text.startswith("The dog")
    if name == "llama":
        arguments = ("--checkpoint", name, "--temperature", 0, "--length", 12, "The dog")
        assert Example("generate_text.py", folder).succeeds(*arguments) == f"{without_controls(text)}\n"


def test_going_on_with_a_writer(folder) -> None:
    options = ("--init", "gpt2", "--data", "text.txt", "--preset", "smoke", "--steps", 3, "--out", "text")
    Example("generate_text.py", folder).succeeds(*options, "--table", "none", "--length", 5)
    after = Writer.load(folder / "text")
    assert after.model.config == load(folder / "gpt2").model.config
    assert after.tokenizer.vocab == Writer.load(folder / "gpt2").tokenizer.vocab


def test_telling_and_going_on_with_a_classifier(folder) -> None:
    assert Example("classify_news.py", folder).succeeds("--checkpoint", "bert", "hot cats").count("%") == 2
    options = ("--init", "bert", "--data", "news.tsv", "--preset", "smoke", "--steps", 3, "--out", "classes")
    Example("classify_news.py", folder).succeeds(*options)
    after = Classifier.load(folder / "classes")
    assert after.labels == ["ONE", "SIX", "TWO"]
    np.testing.assert_allclose(after.probabilities(["hot"]).sum(), 1, rtol=1e-5)
    save(after.model, after.tokenizer, folder / "classes again", labels=after.labels)
    again = Classifier.load(folder / "classes again")
    assert again.labels == after.labels
    np.testing.assert_array_equal(again.probabilities(["hot day"]), after.probabilities(["hot day"]))


def test_the_wrong_kind_is_said(folder) -> None:
    with pytest.raises(InputError, match="holds no translator: its model is a LanguageModel"):
        Translator.load(folder / "gpt2")
    with pytest.raises(InputError, match="holds no language model: its model is a TransformerClassifier"):
        Writer.load(folder / "bert")
    with pytest.raises(InputError, match="holds no classifier: its model is a Seq2SeqTransformer"):
        Classifier.load(folder / "marian")


def test_what_is_a_name_and_what_a_path(folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    assert is_foreign("marian")
    assert is_foreign("Helsinki-NLP/opus-mt-de-en")
    for path in ("nothing", "runs/de_en", "marian/other", "/nowhere/model", "a/b/c", "../x", "."):
        assert not is_foreign(path), path
