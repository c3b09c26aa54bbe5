"""Test that loaded and saved models of `transformers` give the same logits, gradients and generated ids."""

import dataclasses
import json
from typing import Any

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
from handloom.models.pretrained import ARCHITECTURES, generation_config, load, save
from handloom.models.pretrained.layouts import entries
from handloom.tokenizer import BPETokenizer
from handloom.tokenizer.added_tokens import AddedToken

from . import peers
from .peers import CASES, logits, make, torch

RNG = np.random.default_rng(0)


def ids_for(case: str) -> list[np.ndarray]:
    """Return input ids without padding: one array, or a source and a target for an encoder-decoder."""
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
    for entry in entries(ours, module):
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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_read_as_it_is(dtype, tmp_path) -> None:
    make("llama", tmp_path).to(getattr(torch, dtype)).save_pretrained(tmp_path)
    theirs = peers.transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    inputs = ids_for("llama")
    ours = load(tmp_path, with_tokenizer=False).model
    with torch.no_grad(), no_grad():
        np.testing.assert_allclose(ours(*inputs).data, logits(theirs, *inputs).numpy(), atol=1e-5)


def test_several_files_and_base_models(tmp_path) -> None:
    """Weights load from shards, and under the names of a model without its head, as in the oldest folders."""
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


def test_parts_of_a_text(tmp_path) -> None:
    theirs = make("bert", tmp_path)
    ours = load(tmp_path, with_tokenizer=False).model
    (ids,) = ids_for("bert")
    parts = np.repeat([[0] * 4 + [1] * 5], 2, axis=0)
    with torch.no_grad(), no_grad():
        expected = logits(theirs, ids, token_type_ids=torch.tensor(parts)).numpy()
        np.testing.assert_allclose(ours(ids, token_types=parts).data, expected, atol=1e-5)


GENERATIONS: list[dict[str, Any]] = [
    {},
    *({"num_beams": 4, "early_stopping": early, "length_penalty": penalty}
      for early in (True, False, "never") for penalty in (-0.5, 0.0, 1.0, 2.0)),
    *({"num_beams": beams, **options} for beams in (1, 3) for options in (
        {"no_repeat_ngram_size": 1}, {"no_repeat_ngram_size": 2}, {"repetition_penalty": 1.7},
        {"bad_words_ids": [[19]], "suppress_tokens": [3, 7, 11]}, {"min_new_tokens": 5}, {"min_new_tokens": 9},
        {"min_length": 8}, {"max_new_tokens": None, "max_length": 8}, {"eos_token_id": [0, 4, 5]},
        {"eos_token_id": [0, 4], "min_new_tokens": 3}, {"bad_words_ids": [[0], [5]]},
    )),
]  # fmt: skip


@pytest.mark.parametrize("case", ["marian", "llama", "gpt2"])
def test_the_same_ids_are_generated(case, tmp_path) -> None:
    """The strategy is read from generation_config.json. A Marian model may generate its start token again."""
    theirs, translates = make(case, tmp_path, seed=3), case == "marian"
    if translates:
        theirs.final_logits_bias[0, 19] = 2.0
        theirs.save_pretrained(tmp_path)
    model = load(tmp_path, with_tokenizer=False).model
    ids = RNG.integers(1, 19, (6, 5))
    base = {"max_new_tokens": 9, "pad_token_id": 19, "eos_token_id": 0}
    base |= {"forced_eos_token_id": 0, "decoder_start_token_id": 19} if translates else {}
    ended, again_ = set(), False
    for options in GENERATIONS if case != "gpt2" else GENERATIONS[::5]:
        said = {**base, **options}
        (tmp_path / "generation_config.json").write_text(json.dumps(said))
        with torch.no_grad():
            config = peers.transformers.GenerationConfig.from_pretrained(tmp_path)
            inputs = torch.tensor(ids)
            expected = theirs.generate(inputs, config, attention_mask=torch.ones_like(inputs)).tolist()
        strategy = load(tmp_path, with_tokenizer=False).strategy
        if translates:
            found = strategy.generate(model.start(ids), bos_id=19, eos_id=0)
        else:
            found = strategy.generate(model.start(6), bos_id=None, eos_id=0, prefix=ids.tolist())
        for (own, *_), row in zip(found, expected, strict=True):
            row = row[1 if translates else 5 :]
            ends = [at for at, token in enumerate(row) if token in np.atleast_1d(said["eos_token_id"])]
            new = own.ids if translates else own.ids[5:]
            assert new == row[: ends[0] if ends else None], options
            ended.add(bool(ends))
            again_ |= 19 in new
    assert case != "llama" or ended == {True, False}
    assert again_ or not translates


@pytest.mark.parametrize(
    "strategy",
    [
        Strategy(beam=1, rules=Rules(max_total=32, penalise="log-probabilities")),
        Strategy(beam=6, alpha=0.0, early_stopping=True, n_best=2, rules=Rules(max_length=7, forbidden=(19, 4))),
        Strategy(beam=2, alpha=0.7, early_stopping="never", rules=Rules(max_total=9, min_total=3, no_repeat_ngram=2)),
        Strategy(beam=1, sampling=True, temperature=0.5, top_k=0, top_p=0.9, rules=Rules(max_total=9, stop=(0, 3))),
        Strategy(beam=1, sampling=True, top_k=7, n_best=3, rules=Rules(5, max_length=9, min_length=4, forced_last=0)),
    ],
)
def test_the_strategy_of_a_folder(strategy, tmp_path) -> None:
    rules = dataclasses.replace(strategy.rules, bos_id=None, penalise="log-probabilities")
    strategy = dataclasses.replace(strategy, length_norm="power", early_stopping=strategy.early_stopping or False,
                                   rules=rules)  # fmt: skip
    model = LanguageModel(LanguageModelConfig(20, 16, 2, layers=1, tie_output=True, max_length=32))
    save(model, None, tmp_path, strategy=strategy)
    assert load(tmp_path, with_tokenizer=False).strategy == strategy
    assert load(tmp_path, with_tokenizer=False, with_strategy=False).strategy == Strategy(beam=1)


def test_options_of_sampling_that_are_not_said_are_those_of_transformers(tmp_path) -> None:
    make("gpt2", tmp_path)
    (tmp_path / "generation_config.json").write_text('{"do_sample": true}')
    assert load(tmp_path, with_tokenizer=False).strategy.top_k == 50


#: Options that do not change which tokens are generated.
WITHOUT_EFFECT = {
    "_from_model_config", "assistant_confidence_threshold", "assistant_early_exit", "assistant_ensemble_weight",
    "assistant_lookbehind", "bos_token_id", "cache_config", "cache_implementation", "compile_config",
    "continuous_batching_config", "decoder_start_token_id", "disable_compile", "is_assistant", "low_memory",
    "max_cache_len", "max_matching_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule",
    "output_attentions", "output_hidden_states", "output_logits", "output_scores", "pad_token_id", "prefill_chunk_size",
    "prompt_lookup_num_tokens", "remove_invalid_values", "return_dict_in_generate", "speculation_type",
    "target_lookbehind", "transformers_version", "use_cache", "use_mtp",
}  # fmt: skip


def test_every_option_of_generation_is_read_refused_or_without_effect() -> None:
    """This test fails if a release of transformers adds an option."""
    tables = (generation_config.FIELDS, generation_config.TOKENS, generation_config.ABSENT,
              generation_config.ABSENT_IN_SAMPLING, WITHOUT_EFFECT)  # fmt: skip
    assert {*vars(peers.transformers.GenerationConfig())} <= {name for table in tables for name in table}


@pytest.mark.parametrize(
    "said",
    [
        *({name: 0.5} for name in generation_config.ABSENT),
        *({"do_sample": True, name: 2} for name in generation_config.ABSENT_IN_SAMPLING),
        {"bad_words_ids": [[1, 2]]}, {"bad_words_ids": 7}, {"bad_words_ids": [["a"]]}, {"bad_words_ids": [[99]]},
        {"suppress_tokens": "all"}, {"suppress_tokens": [99]}, {"forced_eos_token_id": [0, 1]},
        {"forced_eos_token_id": 99}, {"num_beams": "4"}, {"num_beams": 0}, {"max_length": 10**10},
        {"length_penalty": 1e30}, {"repetition_penalty": 0}, {"do_sample": 1}, {"min_new_tokens": []},
        {"temperature": -1}, {"eos_token_id": "end"}, {"early_stopping": "soon"},
    ],
    ids=str,
)  # fmt: skip
def test_options_of_generation_that_are_not_supported_are_named(said, tmp_path) -> None:
    save(LanguageModel(LanguageModelConfig(20, 16, 2, layers=1, tie_output=True)), None, tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    with pytest.raises(InputError, match=r"generation_config.json has generation options .*with_strategy=False") as one:
        load(tmp_path, with_tokenizer=False)
    assert any(name in str(one.value) for name in (*said, "token 99"))


@pytest.mark.parametrize(
    ("strategy", "match"),
    [
        (Strategy(), "length_norm 'wu'.*early_stopping None"),
        (Strategy(consensus=5), "a consensus"),
        (Strategy(beam=1, coverage=0.5), "a coverage penalty"),
        (Strategy(sampling=True, temperature=0), "temperature 0"),
        (Strategy(alpha=0, early_stopping=True, rules=Rules(repetition_penalty=2)), "penalty of logits"),
    ],
)
def test_strategies_that_transformers_lacks_are_not_saved(strategy, match, tmp_path) -> None:
    model = LanguageModel(LanguageModelConfig(20, 16, 2, layers=1, tie_output=True))
    with pytest.raises(InputError, match=match):
        save(model, None, tmp_path / "new", strategy=strategy)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("case", ["marian", "pegasus"])
def test_a_translator_of_handloom_runs_in_transformers(case, tied, tmp_path) -> None:
    """Saving reorders the features of the residual stream, because `transformers` has another layout of positions."""
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


def test_models_without_an_equivalent_in_transformers_are_refused(tmp_path) -> None:
    def writer(**options: Any) -> LanguageModel:
        return LanguageModel(LanguageModelConfig(9, 16, 2, layers=1, **options))

    for model, reason in (
        (writer(), "the output layer has a bias"),
        (writer(positions="alibi"), "positions is 'alibi'; only 'learned' can be saved"),
        (writer(positions="rotary"), "norm is 'layer'; only 'rms' can be saved"),
        (Seq2SeqTransformer(Seq2SeqConfig(9, 8, 16, 2, 1, 1, norm_first=True)), "separate vocabularies"),
        (TransformerClassifier(ClassifierConfig(9, 2, 16, 2, 1)), "embedding_norm is False; only True can be saved"),
    ):
        with pytest.raises(InputError, match=reason):
            save(model, None, tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


@pytest.mark.parametrize("case", ["bert", "distilbert"])
def test_a_new_head_for_another_task(case, tmp_path) -> None:
    theirs = make(case, tmp_path / "whole")
    getattr(theirs, case).save_pretrained(tmp_path / "base")
    with pytest.raises(InputError, match=r"has no classification layer. Pass labels="):
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
    with pytest.raises(InputError, match="is not a classifier"):
        load(tmp_path / "gpt2", labels=["a"], with_tokenizer=False)


def test_ctranslate2_takes_a_marian(tmp_path) -> None:
    """The converted folder gives the model's greedy translations. The padding token is last; its row is zeros."""
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
