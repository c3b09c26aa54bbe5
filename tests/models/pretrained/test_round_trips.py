"""Test that a model of any configuration is the same after it was saved and loaded, or is refused by name."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom import models
from handloom.autograd import no_grad
from handloom.errors import InputError
from handloom.models import Rules, Strategy
from handloom.models.fields import Choices, field_kinds, plain_kind
from handloom.models.pretrained import load, save
from handloom.tokenizer import BPETokenizer
from handloom.train.runs.checkpoints import load_checkpoint, save_checkpoint

RNG = np.random.default_rng(0)
MARIAN = models.Seq2SeqConfig(20, 20, 16, 2, 1, 1, 24, dropout=0.0, max_length=12)
#: For each architecture, a model that can be saved.
MODELS: dict[str, tuple[Any, Any]] = {
    "marian": (models.Seq2SeqTransformer, MARIAN),
    "pegasus": (models.Seq2SeqTransformer, dataclasses.replace(MARIAN, norm_first=True)),
    "gpt2": (models.LanguageModel, models.LanguageModelConfig(20, 16, 2, layers=1, dim_feedforward=24, tie_output=True,
                                                              max_length=12)),
    "llama": (models.LanguageModel, models.LanguageModelConfig(
        20, 16, 2, layers=1, dim_feedforward=24, norm="rms", positions="rotary", activation="swiglu", bias="none",
        output_bias=False, max_length=12)),
    "bert": (models.TransformerClassifier, models.ClassifierConfig(
        20, 3, 16, 2, 1, 24, activation="gelu", positions="learned", max_length=12, scale_embedding=False,
        token_types=2, embedding_norm=True, pooler="tanh")),
    "distilbert": (models.TransformerClassifier, models.ClassifierConfig(
        20, 3, 16, 2, 1, 24, activation="gelu", positions="learned", max_length=12, scale_embedding=False,
        embedding_norm=True, pooler="relu", norm_eps=1e-12)),
    "recurrent": (models.RecurrentLanguageModel, models.RecurrentConfig(20, "lstm", 8)),
}  # fmt: skip
#: Values of fields whose annotations do not list them.
VALUES: dict[str, list[Any]] = {
    "pattern": ["full", "local:2", "strided:2"], "max_length": [9, 16], "pad_id": [1, 3], "nhead": [1, 4],
    "source_vocab_size": [20, 24], "target_vocab_size": [20, 24], "vocab_size": [24], "classes": [2, 5],
    "d_model": [8, 24], "head_dim": [4], "kv_heads": [1, 2], "decoder_nhead": [1, 4], "uncopied_id": [2], "size": [6],
    "rotary": [{"base": 50.0}, {"factor": 2.0}, {"factor": 8.0, "low": 1.0, "high": 4.0, "length": 8}],
    "layers": [2, 3], "encoder_layers": [2], "decoder_layers": [2], "dim_feedforward": [12],
    "decoder_dim_feedforward": [12], "token_types": [0, 1],
}  # fmt: skip


def values_of(name: str, kind: Any, own: Any) -> list[Any]:
    """Return values of a field that differ from its own value."""
    plain, rule, optional = plain_kind(kind)
    if name in VALUES:
        found = VALUES[name]
    elif plain is bool:
        found = [True, False]
    elif isinstance(rule, Choices):
        found = list(rule.words)
    elif plain is int:
        found = [1, 2, 3, 7]
    elif plain is float:
        found = [0.25, 0.5]
    else:
        raise AssertionError(f"the test needs values for the field {name}, a {kind}")
    return [value for value in [*found, *([None] if optional else [])] if value != own]


def draw_changes(data: st.DataObject, owner: Any, most: int = 2) -> dict[str, Any]:
    """Draw other values for one to `most` fields of a dataclass instance."""
    kinds = {name: kind for name, kind in field_kinds(type(owner)).items() if name != "rules"}
    names = data.draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=most, unique=True))
    return {name: data.draw(st.sampled_from(values_of(name, kinds[name], getattr(owner, name)))) for name in names}


def random_model(kind: Any, config: Any) -> Any:
    model = kind(config).eval()
    for parameter in model.parameters():
        parameter.data[...] = RNG.normal(size=parameter.shape) * 0.4
    return model


def outputs(model: Any) -> np.ndarray:
    ids = np.random.default_rng(3).integers(5, 20, (2, 8))
    with no_grad():
        return model(ids, ids[:, :6]).data if isinstance(model, models.Seq2SeqTransformer) else model(ids).data


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Any:
    return tmp_path_factory.mktemp("models")


@pytest.mark.search
@given(data=st.data(), name=st.sampled_from(sorted(MODELS)))
def test_a_model_is_the_same_after_each_round_trip(folder, data, name) -> None:
    """The same folder is used again and again, so what an older save left in it must not matter."""
    kind, config = MODELS[name]
    try:
        config = dataclasses.replace(config, **draw_changes(data, config))
        model = random_model(kind, config)
    except ValueError:
        return  # options that can't be combined
    expected = outputs(model)
    save_checkpoint(folder / "run", model.state_dict(), {"model": config.to_dict()})
    tensors, saved = load_checkpoint(folder / "run")
    again = kind(type(config)(**saved["model"])).eval()
    assert again.config == config
    again.load_state_dict(tensors)
    np.testing.assert_array_equal(outputs(again), expected)
    try:
        save(model, None, folder / "export")
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - refused by name is right, too
        return
    found = load(folder / "export", with_tokenizer=False).model
    np.testing.assert_allclose(outputs(found), expected, atol=2e-5)
    same = {"bos", "pad_id", "title_case", "lowercase", "vocab_size", "classes", "dropout"} & set(vars(config))
    assert {one: getattr(found.config, one) for one in same} == {one: getattr(config, one) for one in same}


#: Values of options of generation that their annotations do not list.
OPTIONS: dict[str, list[Any]] = {
    "forbidden": [(), (4,), (0, 5)], "stop": [(), (3,), (3, 6), (0, 7)], "forced_last": [None, 3],
    "functions": [(), (), (lambda ids, scores: scores,)],
    "bos_id": [None], "top_p": [0.6, 1.0],
    "eos_id": [None], "prefix": [None], "alpha": [0.0, 2.0], "temperature": [0.5], "repetition_penalty": [1.0, 1.4],
    "beam": [1, 3], "n_best": [1, 2], "max_length": [None, 5, 7], "max_total": [None, 9, 12], "min_total": [0, 6, 7],
    "coverage": [0.0, 0.5], "early_stopping": [True, False, "never"], "consensus": [0], "seed": [0], "top_k": [0, 3],
    "min_length": [0, 2, 4], "no_repeat_ngram": [0, 2], "length_norm": ["power"], "sampling": [True, False],
    "penalise": ["log-probabilities", "logits"],
}  # fmt: skip


@pytest.mark.search
@given(data=st.data())
def test_the_same_texts_are_generated_with_the_strategy_of_a_folder(folder, data) -> None:
    assert OPTIONS.keys() == (field_kinds(Strategy) | field_kinds(Rules)).keys() - {"rules"}
    tokenizer = BPETokenizer.train(["a text with words"], 264)
    config = models.LanguageModelConfig(tokenizer.vocab_size, 16, 2, layers=1, tie_output=True, max_length=12)
    model = random_model(models.LanguageModel, config)
    chosen = {name: data.draw(st.sampled_from(values), label=name) for name, values in OPTIONS.items()}
    if chosen["max_length"] is None:  # without a maximum, transformers counts the last token as a position
        chosen["max_total"] = chosen["max_total"] or 12
    kinds = field_kinds(Strategy)
    try:
        rules = Rules(**{name: value for name, value in chosen.items() if name not in kinds})
        strategy = Strategy(**{name: value for name, value in chosen.items() if name in kinds}, rules=rules)
    except ValueError:
        return
    if not strategy.sampling and strategy.n_best > strategy.beam:
        return
    try:
        save(model, tokenizer, folder / "writer", strategy=strategy)
        found = load(folder / "writer")
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - refused by name is right, too
        return
    wanted, again = (
        one.generate(model.start(2), bos_id=None, eos_id=tokenizer.eos_id, prefix=[[20, 30, 4], [25, 9, 8]])
        for one in (strategy, found.strategy)
    )
    assert [[one.ids for one in row] for row in wanted] == [[one.ids for one in row] for row in again]


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_embedding_that_source_and_target_share_but_not_the_output(norm_first, tmp_path) -> None:
    config = dataclasses.replace(MARIAN, norm_first=norm_first, share_embeddings=True)
    model = random_model(models.Seq2SeqTransformer, config)
    found = load(save(model, None, tmp_path), with_tokenizer=False).model
    np.testing.assert_allclose(outputs(found), outputs(model), atol=1e-5)


def test_a_single_stop_token_and_the_end_of_the_text(tmp_path) -> None:
    tokenizer = BPETokenizer.train(["a text"], 264)
    config = models.LanguageModelConfig(tokenizer.vocab_size, 16, 2, layers=1, tie_output=True)
    strategy = Strategy(beam=1, rules=Rules(stop=(7,)))
    save(models.LanguageModel(config), tokenizer, tmp_path, strategy=strategy)
    said = json.loads((tmp_path / "generation_config.json").read_text())
    assert said["eos_token_id"] == [tokenizer.eos_id, 7]
    assert {*load(tmp_path).strategy.rules.stop} == {tokenizer.eos_id, 7}


def test_a_model_saved_over_another_one_is_the_new_one(tmp_path) -> None:
    """The folder had shards, another tokenizer and options of generation."""
    kind, config = MODELS["gpt2"]
    old, new = random_model(kind, config), random_model(kind, config)
    save(old, None, tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "model-00001-of-00001.safetensors")
    weight_map = dict.fromkeys(["transformer.wte.weight"], "model-00001-of-00001.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    left = ("source.spm", "target.spm", "vocab.json", "special_tokens_map.json")
    for name in (*left, "README.md"):
        (tmp_path / name).write_text('{"eos_token": "<pad>"}')
    tokenizer = BPETokenizer.train(["a text"], 264)
    writer = dataclasses.replace(config, vocab_size=tokenizer.vocab_size)
    save(random_model(kind, writer), tokenizer, tmp_path)
    found = load(tmp_path)
    assert isinstance(found.tokenizer, BPETokenizer)
    assert found.tokenizer.eos_id == tokenizer.eos_id
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "README.md", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json",
    ]  # fmt: skip
    save(new, None, tmp_path)
    np.testing.assert_array_equal(outputs(load(tmp_path, with_tokenizer=False).model), outputs(new))


def test_a_classifier_whose_texts_do_not_begin_with_bos_is_not_saved(tmp_path) -> None:
    kind, config = MODELS["bert"]
    with pytest.raises(InputError, match="bos is False; only True can be saved"):
        save(kind(dataclasses.replace(config, bos=False)), None, tmp_path)


def test_names_of_classes_in_a_list(tmp_path) -> None:
    kind, config = MODELS["bert"]
    save(kind(config), None, tmp_path)
    path = tmp_path / "config.json"
    for names in (["a", "b", "c"], {"2": "c", "0": "a", "1": "b"}):
        path.write_text(json.dumps({**json.loads(path.read_text()), "id2label": names}))
        assert load(tmp_path, with_tokenizer=False).labels == ["a", "b", "c"]
    path.write_text(json.dumps({**json.loads(path.read_text()), "id2label": {"first": "a", "1": "b", "2": "c"}}))
    with pytest.raises(InputError, match="can't be used"):
        load(tmp_path, with_tokenizer=False)


def test_every_kind_of_field_is_known_here() -> None:
    """The search covers a new field by itself; this test asks for values if its annotation is of another kind."""
    for _, config in MODELS.values():
        for name, kind in field_kinds(type(config)).items():
            assert values_of(name, kind, getattr(config, name)), name
