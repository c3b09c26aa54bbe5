"""Models of `transformers`, loaded and saved: the same logits, gradients and generated ids."""

from __future__ import annotations

import json

import numpy as np
import pytest

from handloom.autograd import no_grad
from handloom.errors import InputError
from handloom.models import (
    ClassifierConfig,
    LanguageModel,
    LanguageModelConfig,
    Rules,
    Seq2SeqConfig,
    Seq2SeqTransformer,
    Strategy,
    TransformerClassifier,
    greedy_search,
)
from handloom.models.pretrained import ARCHITECTURES, load, save
from handloom.nn import attention_maps
from handloom.tokenizer import BPETokenizer
from handloom.tokenizer.added_tokens import AddedToken

from . import peers
from .peers import CASES, logits, make, torch

RNG = np.random.default_rng(0)


def ids_for(case: str) -> list[np.ndarray]:
    """Input ids of the model, without padding: a source and a target for an encoder-decoder."""
    shapes = [(2, 9), (2, 7)] if case.startswith(("marian", "pegasus")) else [(2, 9)]
    return [RNG.integers(1, 19, shape) for shape in shapes]


@pytest.mark.parametrize("case", CASES)
def test_the_same_logits_and_gradients_and_back(case, tmp_path) -> None:
    theirs = make(case, tmp_path / "theirs")
    ours = load(tmp_path / "theirs", with_tokenizer=False).model
    inputs = ids_for(case)
    expected = logits(theirs, *inputs)
    found = ours(*inputs)
    np.testing.assert_allclose(found.data, expected.detach().numpy(), atol=1e-5)
    assert np.abs(found.data).max() > 0.5

    g = RNG.normal(size=found.shape).astype(np.float32)
    found.backward(g)
    expected.backward(torch.tensor(g))
    gradients = {name: parameter.grad for name, parameter in ours.named_parameters()}
    module = ARCHITECTURES[theirs.config.model_type]
    parameters = {name: parameter for name, parameter in theirs.named_parameters() if parameter.grad is not None}
    compared = set()
    for entry in module.entries(ours.config):
        for name, gradient in entry.write(gradients[entry.own]).items():
            if name in parameters:
                compared.add(name)
                own = parameters[name].grad.numpy()
                np.testing.assert_allclose(gradient, own, atol=1e-5 * max(1, np.abs(own).max()), err_msg=name)
    assert compared == set(parameters)

    save(ours, None, tmp_path / "ours")
    back = peers.again(case, tmp_path / "ours")
    with torch.no_grad():
        np.testing.assert_array_equal(logits(back, *inputs).numpy(), logits(theirs, *inputs).numpy())
    said, original = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("ours", "theirs"))
    assert {key: said[key] for key in ("model_type", "architectures")} == {
        key: original[key] for key in ("model_type", "architectures")
    }


# Llama's norms and rotary angles are float32 in `transformers`, whatever the model's dtype.
@pytest.mark.parametrize("case", ["marian", "pegasus", "gpt2", "bert", "distilbert"])
def test_in_double_precision(case, tmp_path) -> None:
    theirs = make(case, tmp_path).double()
    ours = load(tmp_path, dtype=np.float64, with_tokenizer=False).model
    inputs = ids_for(case)
    with torch.no_grad(), no_grad():
        np.testing.assert_allclose(ours(*inputs).data, logits(theirs, *inputs).numpy(), atol=1e-10)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_read_as_it_is(dtype, tmp_path) -> None:
    make("llama", tmp_path).to(getattr(torch, dtype)).save_pretrained(tmp_path)
    theirs = peers.transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    inputs = ids_for("llama")
    ours = load(tmp_path, with_tokenizer=False).model
    with torch.no_grad(), no_grad():
        np.testing.assert_allclose(ours(*inputs).data, logits(theirs, *inputs).numpy(), atol=1e-5)


def test_several_files_and_base_models(tmp_path) -> None:
    """Weights in shards, under the names of a model without its head, as the oldest folders have them."""
    theirs = make("gpt2", tmp_path / "one")
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="5KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    theirs.transformer.save_pretrained(tmp_path / "base")
    states = [load(tmp_path / name, with_tokenizer=False).model.state_dict() for name in ("one", "shards", "base")]
    for state in states[1:]:
        assert all((state[name] == array).all() for name, array in states[0].items())


@pytest.mark.parametrize("case", ["bert", "distilbert", "marian", "pegasus"])
def test_padding_on_the_right(case, tmp_path) -> None:
    theirs = make(case, tmp_path)
    ours = load(tmp_path, with_tokenizer=False).model
    inputs = ids_for(case)
    inputs[0][1, 4:] = ours.config.pad_id
    mask = torch.tensor(inputs[0] != ours.config.pad_id)
    with torch.no_grad(), no_grad():
        expected = logits(theirs, *inputs, attention_mask=mask).numpy()
        np.testing.assert_allclose(ours(*inputs).data, expected, atol=1e-5)


@pytest.mark.parametrize("case", ["gpt2", "llama"])
def test_padding_on_the_left(case, tmp_path) -> None:
    theirs = make(case, tmp_path)
    ours = load(tmp_path, with_tokenizer=False).model
    (ids,) = ids_for(case)
    mask = np.ones_like(ids)
    mask[1, :4] = 0
    positions = np.maximum(mask.cumsum(axis=1) - 1, 0)
    with torch.no_grad(), no_grad():
        more = {"attention_mask": torch.tensor(mask), "position_ids": torch.tensor(positions)}
        expected = logits(theirs, ids, **more).numpy()
        found = ours(ids, [0, 4]).data
    np.testing.assert_allclose(found[0], expected[0], atol=1e-5)
    np.testing.assert_allclose(found[1, 4:], expected[1, 4:], atol=1e-5)


def test_parts_of_a_text(tmp_path) -> None:
    theirs = make("bert", tmp_path)
    ours = load(tmp_path, with_tokenizer=False).model
    (ids,) = ids_for("bert")
    parts = np.repeat([[0] * 4 + [1] * 5], 2, axis=0)
    with torch.no_grad(), no_grad():
        expected = logits(theirs, ids, token_type_ids=torch.tensor(parts)).numpy()
        np.testing.assert_allclose(ours(ids, token_types=parts).data, expected, atol=1e-5)


GENERATIONS = [
    {},
    *({"num_beams": 4, "early_stopping": early, "length_penalty": penalty}
      for early in (True, False, "never") for penalty in (-0.5, 0.0, 1.0, 2.0)),
    {"no_repeat_ngram_size": 2},
    {"num_beams": 3, "no_repeat_ngram_size": 2},
    {"repetition_penalty": 1.7},
    {"num_beams": 3, "repetition_penalty": 1.7},
    {"num_beams": 3, "suppress_tokens": [3, 7, 11]},
    {"num_beams": 3, "min_new_tokens": 5},
]  # fmt: skip


@pytest.mark.parametrize("case", ["marian", "llama", "gpt2"])
def test_the_same_ids_are_generated(case, tmp_path) -> None:
    theirs = make(case, tmp_path, seed=3)
    pretrained = load(tmp_path, with_tokenizer=False)
    model, translates = pretrained.model, case == "marian"
    ids = RNG.integers(1, 19, (6, 5))
    ended = set()
    for options in GENERATIONS if case != "gpt2" else GENERATIONS[::5]:
        said = {"max_new_tokens": 9, "bad_words_ids": [[19]], **options}
        if translates:
            said["forced_eos_token_id"] = 0
        with torch.no_grad():
            more = {"pad_token_id": 19, "do_sample": False, "attention_mask": torch.ones(6, 5, dtype=torch.long)}
            expected = theirs.generate(torch.tensor(ids), **more, **said).tolist()
        strategy = Strategy(
            beam=options.get("num_beams", 1),
            alpha=options.get("length_penalty", 1.0),
            length_norm="power",
            early_stopping=options.get("early_stopping", False),
            min_length=options.get("min_new_tokens", -1) + 1,
            max_length=9,
            repetition_penalty=options.get("repetition_penalty", 1.0),
            no_repeat_ngram=options.get("no_repeat_ngram_size", 0),
            forbidden=(19, *options.get("suppress_tokens", [])),
            forced_last=0 if translates else None,
            penalise="log-probabilities",
        )
        if translates:
            found = strategy.generate(model.start(ids), bos_id=19, eos_id=0)
        else:
            found = strategy.generate(model.start(6), bos_id=None, eos_id=0, prefix=ids.tolist())
        for own, row in zip(found, expected, strict=True):
            row = [token for token in row[1 if translates else 5 :] if token != 19]
            ended.add(len(row) < 9)
            mine = own[0].ids if translates else own[0].ids[5:]
            assert mine == (row[: row.index(0)] if 0 in row else row), options
    assert ended == {True, False} or case == "gpt2"


def test_the_strategy_of_a_folder(tmp_path) -> None:
    make("marian", tmp_path)
    said = json.loads((tmp_path / "generation_config.json").read_text())
    said |= {"num_beams": 6, "bad_words_ids": [[19]], "suppress_tokens": [4], "length_penalty": 0.0}
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    first = load(tmp_path, with_tokenizer=False)
    assert (first.strategy.beam, first.strategy.alpha, first.strategy.forced_last) == (6, 0.0, 0)
    assert first.strategy.forbidden == (19, 4)
    save(first.model, None, tmp_path / "back", strategy=first.strategy)
    assert load(tmp_path / "back", with_tokenizer=False).strategy == first.strategy


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("case", ["marian", "pegasus"])
def test_a_translator_of_handloom_runs_in_transformers(case, tied, tmp_path) -> None:
    """With positions in handloom's layout: the stream's features are reordered as in `transformers`."""
    config = Seq2SeqConfig(
        21, 21, 16, 2, 1, 2, 24, dropout=0.0, max_length=16, share_embeddings=tied, tie_output=tied,
        norm_first=case == "pegasus",
    )  # fmt: skip
    model = Seq2SeqTransformer(config).eval()
    for parameter in model.parameters():
        parameter.data[...] += RNG.normal(size=parameter.shape) * 0.2
    inputs = [RNG.integers(1, 20, (2, 8)), RNG.integers(1, 20, (2, 6))]
    with torch.no_grad(), no_grad():
        expected = model(*inputs).data
        there = peers.again(case, save(model, None, tmp_path))
        np.testing.assert_allclose(logits(there, *inputs).numpy(), expected, atol=1e-5)
        np.testing.assert_allclose(load(tmp_path, with_tokenizer=False).model(*inputs).data, expected, atol=1e-5)


def test_a_language_model_of_handloom_runs_in_transformers(tmp_path) -> None:
    model = LanguageModel(LanguageModelConfig(20, 16, 2, layers=1, dim_feedforward=24, tie_output=True)).eval()
    (ids,) = ids_for("gpt2")
    with torch.no_grad(), no_grad():
        there = peers.again("gpt2", save(model, None, tmp_path))
        np.testing.assert_allclose(logits(there, ids).numpy(), model(ids).data, atol=1e-5)


def test_models_without_an_equivalent_in_transformers_are_refused(tmp_path) -> None:
    for model, reason in (
        (LanguageModel(LanguageModelConfig(9, 16, 2, layers=1)), "the output layer has a bias"),
        (LanguageModel(LanguageModelConfig(9, 16, 2, layers=1, positions="alibi")), "positions are alibi"),
        (LanguageModel(LanguageModelConfig(9, 16, 2, layers=1, positions="rotary")), "norms are layer, not rms"),
        (Seq2SeqTransformer(Seq2SeqConfig(9, 8, 16, 2, 1, 1, norm_first=True)), "vocabularies of their own"),
        (TransformerClassifier(ClassifierConfig(9, 2, 16, 2, 1)), "no norm after the embeddings"),
    ):
        with pytest.raises(InputError, match=reason):
            save(model, None, tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


@pytest.mark.parametrize("case", ["bert", "distilbert"])
def test_a_new_head_for_another_task(case, tmp_path) -> None:
    theirs = make(case, tmp_path / "whole")
    getattr(theirs, case).save_pretrained(tmp_path / "base")
    with pytest.raises(InputError, match=r"classifier.weight is missing"):
        load(tmp_path / "base", with_tokenizer=False)
    for name in ("whole", "base"):
        found = load(tmp_path / name, labels=["a", "b"], with_tokenizer=False)
        assert found.labels == ["a", "b"]
        assert found.model.output.weight.shape == (2, 16)
        if case == "bert" or name == "whole":
            pooler = theirs.bert.pooler.dense if case == "bert" else theirs.pre_classifier
            np.testing.assert_array_equal(found.model.pooler.weight.data, pooler.weight.detach())
        save(found.model, None, tmp_path / "back", labels=found.labels)
        assert load(tmp_path / "back", with_tokenizer=False).labels == ["a", "b"]
    make("gpt2", tmp_path / "gpt2")
    with pytest.raises(InputError, match="holds no classifier"):
        load(tmp_path / "gpt2", labels=["a"], with_tokenizer=False)


def test_attention_maps_of_loaded_models(tmp_path) -> None:
    theirs = make("llama", tmp_path)
    ours = load(tmp_path, with_tokenizer=False).model
    (ids,) = ids_for("llama")
    with torch.no_grad(), no_grad(), attention_maps(ours) as maps:
        ours(ids)
        expected = theirs(input_ids=torch.tensor(ids), output_attentions=True).attentions
    for layer, weights in enumerate(expected):
        np.testing.assert_allclose(maps[f"decoder.layers.{layer}.self_attn"][0], weights.numpy(), atol=1e-5)


def test_ctranslate2_takes_a_marian(tmp_path) -> None:
    """Greedy translations of the converted folder are those of the model: padding is last, and its row is zeros."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    tokenizer = BPETokenizer.train(["some text to learn from"], 270, special_tokens=["<unk>", "</s>"])
    size = tokenizer.vocab_size
    tokenizer = BPETokenizer(
        tokenizer.vocab, tokenizer.merges, added_tokens=[*tokenizer.added_tokens, AddedToken(size, "<pad>")]
    )
    tokenizer.roles = {"pad": "<pad>", "bos": "<pad>", "eos": "</s>", "unk": "<unk>"}
    config = Seq2SeqConfig(
        size + 1, size + 1, 16, 2, 1, 1, 24, max_length=32, pad_id=size, share_embeddings=True, tie_output=True
    )
    model = Seq2SeqTransformer(config).eval()
    save(model, tokenizer, tmp_path / "folder")
    ctranslate2.converters.TransformersConverter(str(tmp_path / "folder")).convert(str(tmp_path / "converted"))
    ids = tokenizer.encode("some text", add_eos=True)
    tokens = {id: token for token, id in tokenizer.vocab.items()} | {1: "</s>"}
    found = ctranslate2.Translator(str(tmp_path / "converted")).translate_batch(
        [[tokens[id] for id in ids]], beam_size=1, max_decoding_length=9
    )
    rules = Rules(size, tokenizer.eos_id, max_length=9, forbidden=(size,))
    expected = greedy_search(model.start(np.array([ids])), rules)[0].ids
    assert found[0].hypotheses[0] == [tokens[id] for id in expected]
