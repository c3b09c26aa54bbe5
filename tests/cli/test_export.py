"""Exported models give the same ids in `transformers` and the same tokens in CTranslate2."""

import json
from typing import Any

import pytest

from handloom.cli.export import export
from handloom.errors import InputError
from handloom.models.shipped import MODELS
from handloom.train.tasks.translation import Translator

SENTENCES = [
    "Wo ist der Bahnhof?",
    "Ich habe gestern meinen Bruder gesehen.",
    "Das Wetter ist heute schön, aber morgen soll es regnen.",
    "Er steht jeden Tag um sechs Uhr auf.",
    "Tom hat mir nicht gesagt, dass er nach Boston fährt.",
    "Kannst du mir bitte helfen, den Tisch in die Küche zu tragen?",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Any:
    folder = tmp_path_factory.mktemp("exported") / "model"
    assert "PegasusForConditionalGeneration" in export("tatoeba-de-en", folder)
    return folder


def test_an_export_that_was_interrupted_can_be_repeated(tmp_path, monkeypatch) -> None:
    def interrupted(model, tokenizer, folder, **options):
        folder.mkdir(parents=True)
        (folder / "config.json").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("handloom.cli.export.pretrained.save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export("tatoeba-de-en", tmp_path / "model")
    monkeypatch.undo()
    export("tatoeba-de-en", tmp_path / "model")
    assert Translator.load(tmp_path / "model").translate(["Hallo."]) == ["Hello."]
    with pytest.raises(InputError, match="already holds files"):
        export("tatoeba-de-en", tmp_path / "model")


def test_it_is_read_back(folder) -> None:
    found, original = Translator.load(folder), Translator.load(MODELS["tatoeba-de-en"])
    assert found.source_ids(SENTENCES) == original.source_ids(SENTENCES)
    assert found.translate(SENTENCES, strategy=found.own) == original.translate(SENTENCES, strategy=found.own)


def test_transformers_gives_the_same_ids(folder) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    ours = Translator.load(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    for sentence, found in zip(SENTENCES, ours.hypotheses(SENTENCES), strict=True):
        inputs = tokenizer(sentence, return_tensors="pt")
        assert inputs["input_ids"].tolist() == ours.source_ids([sentence])
        with torch.no_grad():
            ids = model.generate(**inputs)[0].tolist()
        assert ids == [ours.tokenizer.bos_id, *found[0].ids, ours.tokenizer.eos_id]


def test_ctranslate2_gives_the_same_tokens(folder, tmp_path) -> None:
    """The converter assumes that every Pegasus model starts with <pad>; docs/pretrained.md describes the remedy."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    pytest.importorskip("transformers")
    path = ctranslate2.converters.TransformersConverter(str(folder)).convert(str(tmp_path / "converted"))
    config = tmp_path / "converted" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "decoder_start_token": "<bos>"}))
    ours = Translator.load(folder)
    tokenizer: Any = ours.tokenizer
    names = {id: name for name, id in (tokenizer.vocab | tokenizer.special_ids).items()}
    sources = [[names[id] for id in ids] for ids in ours.source_ids(SENTENCES)]
    for one, found in zip(
        ctranslate2.Translator(path).translate_batch(sources, beam_size=5), ours.hypotheses(SENTENCES), strict=True
    ):
        assert one.hypotheses[0] == [names[id] for id in found[0].ids]


def test_what_can_t_be_exported_is_refused(folder, tmp_path) -> None:
    with pytest.raises(InputError, match=r"already holds files, which are not overwritten"):
        export("tatoeba-de-en", folder)
    with pytest.raises(InputError, match="There is no model"):
        export(tmp_path / "nothing", tmp_path / "new")
    assert not (tmp_path / "new").exists()
