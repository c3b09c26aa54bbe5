"""Windows contain each token once, evaluation has the right units, and generation is reproducible."""

import math

import numpy as np
import pytest

from handloom.autograd import manual_seed
from handloom.errors import InputError
from handloom.models import (
    BigramLanguageModel,
    LanguageModel,
    LanguageModelConfig,
    RandomLanguageModel,
    Rules,
    Strategy,
)
from handloom.tokenizer import CharacterTokenizer
from handloom.train.data.running_text import TextData
from handloom.train.tasks.language_modelling import (
    WindowBatches,
    Writer,
    all_windows,
    evaluate,
    language_model_loss,
    learn_tokens,
    tokenize,
)
from handloom.train.tasks.task import distillation_loss


def test_training_windows_tile_the_text_and_targets_follow() -> None:
    batches = WindowBatches(np.arange(103), length=10, batch_size=3, seed=0)
    offsets = set()
    for epoch in range(4):
        windows = list(batches.epoch(epoch))
        assert len(windows) == len(batches) == 3
        inputs = np.concatenate([w.inputs for w in windows])
        assert inputs.shape == (9, 10)
        assert len(np.unique(inputs)) == inputs.size, "no token occurs twice"
        for w in windows:
            np.testing.assert_array_equal(w.targets, w.inputs + 1)
        offsets.add(int(inputs[0, 0] % 10))
    assert len(offsets) > 1


def test_training_windows_can_be_repeated_and_entered_anywhere() -> None:
    batches = WindowBatches(np.arange(500), length=7, batch_size=4, seed=3)
    whole = [w.inputs for w in batches.epoch(2)]
    np.testing.assert_array_equal([w.inputs for w in batches.epoch(2, 1, 3)], whole[1::3])
    assert any((w.inputs != v).any() for w, v in zip(batches.epoch(3), whole, strict=True))


def test_texts_of_the_same_length_are_distinguished() -> None:
    """Otherwise a run could resume with another text without an error."""
    options = {"length": 10, "batch_size": 3, "seed": 0}
    one, other = np.arange(103), np.arange(103)
    other[70] = 3
    prints = [WindowBatches(ids, **options).fingerprint() for ids in (one, other, one.copy())]
    prints.append(WindowBatches(one, **{**options, "seed": 1}).fingerprint())
    assert prints[0] == prints[2]
    assert len(set(prints)) == 3


def test_characters_that_the_alphabet_lacks_are_counted(capsys) -> None:
    text = "Ein Satz \u2013 \u201eso\u201c \xe9 \u0416\u0416 \u4e2d \x07." + "\nNoch ein Satz." * 50
    data = TextData(text, "ein Satz", "ein Satz", "name")
    tokenize(data, learn_tokens(data, "character", 0))
    said = f"name: left out 4 of {len(text)} characters that the alphabet lacks: \u0416 \u4e2d \\x07\n"
    assert capsys.readouterr().out == said
    data = TextData("Ein Satz \u2013 \xe9." + "Noch ein Satz." * 50, "ein Satz", "ein Satz", "name")
    tokenize(data, learn_tokens(data, "character", 0))
    assert capsys.readouterr().out == "", "replaced characters are not left out"


@pytest.mark.parametrize(
    "text", ["Все счастливые семьи – похожи. ", "人人生而自由，在尊严和权利上。", "L’été, elle était fatiguée. "]
)
def test_a_text_of_another_alphabet_keeps_its_characters(text: str, capsys) -> None:
    data = TextData(text * 9, text * 2, text * 2, "name")
    for kind in ("character", "bpe"):
        tokenizer = learn_tokens(data, kind, 300)
        known = tokenize(data, tokenizer)
        assert tokenizer.decode(known.train) == text * 9
        assert known.characters["train"] == len(text * 9)
    assert capsys.readouterr().out == ""
    english = TextData("The cat sat on the mat. " * 9, "The cat.", "The mat.", "name")
    with pytest.raises(InputError, match="name: the model's tokenizer lacks more than 1 % of the text's characters"):
        tokenize(data, learn_tokens(english, "character", 0))
    if text[0] != "L":
        with pytest.raises(InputError, match="lacks more than 1 %"):
            tokenize(english, learn_tokens(data, "character", 0))


def test_a_curriculum_begins_with_frequent_tokens() -> None:
    rng = np.random.default_rng(0)
    ids = np.concatenate([rng.integers(0, 3, 40) if n % 2 else rng.integers(3, 60, 40) for n in range(20)])
    batches = WindowBatches(ids, length=20, batch_size=5, seed=0, curriculum=1)
    rarity = -np.log(np.bincount(ids, minlength=60).clip(1) / len(ids))
    sums = [rarity[w.inputs].sum(axis=1) for w in batches.epoch(0)]
    assert (np.diff(np.concatenate(sums)) >= -1e-9).all()
    later = [rarity[w.inputs].sum(axis=1) for w in batches.epoch(1)]
    assert (np.diff(np.concatenate(later)) < 0).any()


def test_smoothing_and_a_teacher_count_in_training_alone() -> None:
    config = LanguageModelConfig(9, 8, 2, layers=1, dim_feedforward=8, dropout=0.0, max_length=6)
    student, teacher = LanguageModel(config), LanguageModel(config)
    batch = next(all_windows(np.random.default_rng(0).integers(0, 9, 13), 6, 2))
    plain, smoothed, taught = language_model_loss(), language_model_loss(0.2), language_model_loss(0.0, teacher)
    student.eval()
    assert plain(student, batch)[0].item() == smoothed(student, batch)[0].item() == taught(student, batch)[0].item()
    student.train()
    own = plain(student, batch)[0].item()
    assert smoothed(student, batch)[0].item() != own
    divergence = distillation_loss(student(batch.inputs), teacher(batch.inputs).data, np.ones((2, 6), bool)).item()
    assert taught(student, batch)[0].item() == pytest.approx((own + divergence) / 2, rel=1e-6)
    themselves = language_model_loss(0.0, student)(student, batch)[0].item()
    assert themselves == pytest.approx(own / 2, rel=1e-5), "a student that equals its teacher has no divergence"


def test_a_text_too_short_for_a_batch_is_refused() -> None:
    with pytest.raises(InputError, match="longer text"):
        WindowBatches(np.arange(30), length=10, batch_size=3, seed=0)


@pytest.mark.parametrize("tokens", [2, 10, 11, 12, 40, 41, 47])
def test_validation_windows_predict_every_token_once(tokens: int) -> None:
    targets = np.concatenate([w.targets.ravel() for w in all_windows(np.arange(tokens), 10, 2)])
    np.testing.assert_array_equal(np.sort(targets), np.arange(1, tokens))


def test_units_of_the_figures() -> None:
    ids = np.random.default_rng(0).integers(0, 8, 301)
    values = evaluate(RandomLanguageModel(8), ids, characters=600, length=16)
    assert values["loss"] == pytest.approx(math.log(8), rel=1e-6)
    assert values["perplexity"] == pytest.approx(8, rel=1e-5)
    assert values["bits_per_character"] == pytest.approx(3 * 300 / 600, rel=1e-6), "two characters and 3 bits per token"


def test_guesses_are_never_special_tokens() -> None:
    ids = np.random.default_rng(0).integers(4, 12, 4001)
    values = evaluate(RandomLanguageModel(12, special=4), ids, 4000, length=16)
    assert values["loss"] == pytest.approx(math.log(8), rel=1e-6)
    assert values["accuracy"] == pytest.approx(1 / 8, abs=0.02), "the guesses are not all right or all wrong"


def test_evaluation_does_not_depend_on_windows_where_the_model_does_not() -> None:
    ids = np.random.default_rng(0).integers(0, 8, 300)
    model = BigramLanguageModel(8).fit(ids)
    short, long = (evaluate(model, ids, 300, length) for length in (3, 128))
    assert short == pytest.approx(long, rel=1e-6)
    right = (model.logits.weight.data[ids[:-1]].argmax(axis=1) == ids[1:]).mean()
    assert short["accuracy"] == pytest.approx(right)


@pytest.mark.parametrize("kind", ["character", "bpe"])
def test_tokens_are_learnt_from_the_training_part_alone(kind: str) -> None:
    data = TextData("abc abc " * 50, "abd — abd ", "ab “cd”", "x")
    text = tokenize(data, learn_tokens(data, kind, 300))
    assert text.characters == {"train": 400, "valid": 10, "test": 7}, "dashes and quotes are one character each"
    if kind == "character":
        assert text.tokenizer.vocab_size == 4 + 4
        assert text.tokenizer.unk_id in text.valid
    else:
        assert text.tokenizer.decode(text.test) == 'ab "cd"'


def writer(length: int = 12) -> Writer:
    manual_seed(0)
    tokenizer = CharacterTokenizer.train(["abcdefgh "])
    config = LanguageModelConfig(tokenizer.vocab_size, 16, 2, None, 1, 32, max_length=length)
    return Writer(LanguageModel(config), tokenizer, length)


def test_writing_goes_on_beyond_the_context_and_leaves_special_tokens_out() -> None:
    text = writer().write("abc", length=100)
    assert len(text) == 103
    assert set(text) <= set("abcdefgh ")
    assert text.startswith("abc")
    long_prompt = "abcdefgh " * 5
    assert writer().write(long_prompt, 5).startswith(long_prompt)
    with pytest.raises(InputError, match="Text 1 is None, of type NoneType"):
        writer().write(None)


def test_a_strategy_ends_the_text_and_chooses_by_consensus() -> None:
    whole = writer().write("abc", 40, seed=1)
    (stop,) = writer().tokenizer.encode(whole[5])
    strategy = Strategy(sampling=True, temperature=0.7, seed=1, rules=Rules(stop=(stop,)))
    assert writer().write("abc", 40, strategy=strategy) == whole[: 3 + whole[3:].index(whole[5])]
    strategy = Strategy(sampling=True, consensus=5)
    assert writer().write("abc", 9, strategy=strategy) == writer().best("abc", 9, strategy)[0][0]
    with pytest.raises(InputError, match=r"or consensus .* sample one text"):
        writer().write("abc", 40, strategy=strategy)


def test_temperature_zero_takes_the_likeliest_and_a_seed_repeats() -> None:
    one = writer()
    assert one.write("a", 20, temperature=0, seed=1) == one.write("a", 20, temperature=0, seed=2)
    assert one.write("a", 20, seed=1) == one.write("a", 20, seed=1)
    assert one.write("a", 20, seed=1) != one.write("a", 20, seed=2)
    ids = one.tokenizer.encode("ab")
    following = one.model(np.array([ids])).data[0, -1].copy()
    following[:4] = -np.inf
    assert one.write("ab", 1, temperature=0)[-1] == one.tokenizer.decode([int(following.argmax())])
