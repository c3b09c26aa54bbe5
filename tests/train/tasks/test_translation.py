"""The translation task at a small size: a Translator with an untrained model, and training."""

import numpy as np
import pytest

from handloom.autograd import no_grad
from handloom.errors import InputError
from handloom.models import Rules, Seq2SeqConfig, Seq2SeqTransformer, Strategy
from handloom.models.presets import SMOKE, en_fr_preset, translation_preset
from handloom.tokenizer import BPETokenizer
from handloom.train.data.batches import TokenBatches
from handloom.train.tasks.translation import Translator, back_translate, round_trips, split_sentences, translation_loss

pytestmark = pytest.mark.slow

TEXTS = ["Der Hund läuft.", "Die Katze schläft.", "The dog runs.", "The cat sleeps."]


@pytest.fixture
def translator() -> Translator:
    tokenizer = BPETokenizer.train(TEXTS, 280)
    size = tokenizer.vocab_size
    config = Seq2SeqConfig(size, size, 8, 2, 1, 2, 12, 0.0, max_length=24, share_embeddings=True, tie_output=True)
    return Translator(Seq2SeqTransformer(config).eval(), tokenizer)


def test_attention_has_a_row_for_each_target_token(translator: Translator) -> None:
    weights, source, target = translator.attention("Der Hund schläft.")
    assert weights.shape == (len(target), len(source))
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
    assert source[-1] == "<eos>"


def test_order_and_batching_do_not_matter(translator: Translator) -> None:
    sentences = ["Die Katze läuft.", "Der Hund", "Der Hund läuft.", "Die Katze schläft. Der Hund läuft."]
    together = translator.translate(sentences, beam=2)
    assert together == [translator.translate([sentence], beam=2)[0] for sentence in sentences]
    assert together[::-1] == translator.translate(sentences[::-1], beam=2)


def test_every_choice_of_a_strategy_reaches_the_search(translator: Translator) -> None:
    """The coverage penalty is never positive, and needs the model's attention."""
    rules = Rules(max_length=2)
    plain, covered = (
        translator.hypotheses(["Der Hund läuft."], strategy=Strategy(beam=200, coverage=weight, n_best=5, rules=rules))
        for weight in (0.0, 0.5)
    )
    assert covered[0][0].score < plain[0][0].score


def test_what_cannot_be_translated_is_refused(translator: Translator) -> None:
    for texts, says in (
        (["Der Hund", "  "], "Sentence 2 is empty"), (["läuft" * 20], "takes at most 24"),
        ("Hallo", "a list of texts, not the single text 'Hallo'"), (None, "Give a list of texts, not None"),
        (["Hund", b"a"], "Text 2 is b'a', of type bytes. Give texts of type str"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=says):
            translator.translate(texts)
    with pytest.raises(ValueError, match="too_long is 'cut', but it must be one of 'error', 'truncate'"):
        translator.translate(["Hund"], too_long="cut")  # type: ignore[arg-type]
    saved = translator.model, translator.tokenizer, {"rules": {"forbidden": [4, 999]}}
    with pytest.raises(InputError, match="in runs/a can't be used: a rule contains the token 999, but the model has"):
        Translator.of(*saved, "runs/a")


def test_the_loss_is_per_token_without_padding_and_smoothed_only_in_training(translator: Translator) -> None:
    tokenizer, model = translator.tokenizer, translator.model
    special = {"pad_id": tokenizer.pad_id, "bos_id": tokenizer.bos_id, "eos_id": tokenizer.eos_id}

    def batch_of(pairs: list[tuple[str, str]]):
        source = tokenizer.encode_batch([s for s, _ in pairs], add_eos=True)
        target = tokenizer.encode_batch([t for _, t in pairs])
        return TokenBatches(source, target, tokens_per_batch=999, seed=0, shuffle=False, **special).batch(
            np.arange(len(pairs))
        )

    loss = translation_loss(0.1, tokenizer.pad_id)
    pairs = [("Der Hund läuft.", "The dog runs."), ("Die Katze", "The cat sleeps. The dog runs.")]
    with no_grad():
        model.eval()
        total, count, further = loss(model, batch_of(pairs))
        alone = [loss(model, batch_of([pair])) for pair in pairs]
        assert count == sum(n for _, n, _ in alone)
        assert total.item() == pytest.approx(sum(value.item() * n for value, n, _ in alone) / count, rel=1e-5)
        right = sum(more["accuracy"] * n for _, n, more in alone)
        assert further["accuracy"] == pytest.approx(right / count)
        model.train()
        assert loss(model, batch_of(pairs))[0].item() != pytest.approx(total.item(), rel=1e-4)


def test_presets() -> None:
    assert translation_preset("smoke", "embedded") is SMOKE
    laptop = [translation_preset("laptop", data) for data in ("embedded", "multi30k", "tatoeba", "my.tsv")]
    assert len(set(laptop)) == 3
    assert laptop[2] == laptop[3] == en_fr_preset("laptop", "tatoeba")
    assert laptop[1] == en_fr_preset("laptop", "multi30k")


TEXT = "The dog sleeps. The cat\nsleeps, too!\n\nA bird sings? A fish swims.\n"


class Stub(Translator):
    """A rule-based translator."""

    def __init__(self, rule):
        super().__init__()
        self.rule = rule

    def translate(self, sentences, **_):
        return [self.rule(sentence) for sentence in sentences]


FORTH = Stub(lambda text: f"<{text}>")


def back_by(rule) -> Stub:
    return Stub(lambda text: rule(text[1:-1]))


def test_sentences_of_hard_wrapped_paragraphs() -> None:
    sentences = ["The dog sleeps.", "The cat sleeps, too!", "A bird sings?", "A fish swims."]
    assert split_sentences(TEXT) == sentences


def test_a_round_trip_through_both_translators() -> None:
    more, note = round_trips(TEXT, FORTH, back_by(lambda text: text.replace("sleeps", "sings")))
    assert more == "The dog sings. The cat sings, too!\n"
    assert note.startswith("2 of 4 sentences")
    assert f"{len('The dog sings.') + len('The cat sings, too!')} characters" in note


def test_what_is_left_out() -> None:
    more, _ = round_trips(TEXT, FORTH, back_by(lambda text: {"A": "A Žebra.", "T": text[:-1]}[text[0]]))
    assert more == "The dog sleeps The cat sleeps, too\n", "no new sentence has a character that the text lacks"
    with pytest.raises(InputError, match="changed no sentence"):
        round_trips(TEXT, FORTH, back_by(lambda text: text))
    with pytest.raises(InputError, match="changed no sentence"):
        round_trips(TEXT, Stub(lambda text: " "), back_by(str.upper))
    with pytest.raises(InputError, match="changed no sentence"):
        round_trips("word " * 41 + ".", FORTH, back_by(lambda text: text[:-1]))


def test_back_translation_keeps_the_real_side() -> None:
    pairs = back_translate(Stub(lambda text: "" if "cat" in text else text.upper()), ["a dog", " ", "a cat"])
    assert pairs == [("A DOG", "a dog")]
