"""Clean-up, title case and the order of a curriculum."""

import pytest

from handloom.tokenizer import BPETokenizer, CharacterTokenizer
from handloom.train.data.batches import TokenBatches
from handloom.train.data.pairs import clean_pairs, title_case, truecased
from tests.support.small_run import small_batches


def test_every_reason_is_counted_and_good_pairs_stay_in_order() -> None:
    good = [("Der Hund läuft.", "The dog runs."), ("Ja.", "Yes, of course I do."), ("Berlin", "Berlin")]
    bad = {
        "with an empty side": (" ", "The dog."),
        "not translated": ("The dog is here.", "the dog is here."),
        "with broken characters": ("Der H\N{REPLACEMENT CHARACTER}nd", "The dog"),
        "longer than 10 words": ("wort " * 11, "word " * 11),
        "with lengths 3 times apart": ("Der Hund.", "The dog that we saw in the park."),
        "with few letters": ("12 | 34 | 56", "12 | 34 | 56 |"),
        "repeated": good[0],
    }
    cleaned, note = clean_pairs([*good, *bad.values(), bad["with an empty side"]], max_words=10)
    assert cleaned == good
    reasons = ", ".join(f"{2 if reason == 'with an empty side' else 1} {reason}" for reason in bad)
    assert note == f"Clean-up dropped 8 of 11 pairs: {reasons}."
    assert clean_pairs(good) == (good, "")


@pytest.mark.parametrize(
    ("text", "titled"),
    [
        ("they don't, he says, 'know'", "They Don't, He Says, 'Know'"),
        ("the GOP’s “pro-life” e-mails", "The GOP’s “Pro-Life” E-Mails"),
        ("über 20 ängste in 5g, u.s. _ok_", "Über 20 Ängste In 5g, U.S. _ok_"),
        ("", ""),
    ],
)
def test_title_case(text: str, titled: str) -> None:
    assert title_case(text) == title_case(titled) == titled


def test_capitals_get_the_case_of_the_tokenizers_training() -> None:
    texts = ["Ich sehe den Hund. Er sieht mich.", "Ich mag DNA-Tests und den Bär."] * 9
    known = BPETokenizer.train(texts, vocab_size=400)
    assert [truecased(text.upper(), known) for text in texts] == texts
    assert truecased("ER MAG DEN HUND", CharacterTokenizer.train(["Er mag den Hund"])) == "Er mag den Hund"
    assert truecased("„MAG 2 BÄR’S?“ 7 MICH", known) == "„Mag 2 Bär’s?“ 7 mich"
    assert [truecased(text, known) for text in ("", "42!", "DNA-Tests", "ich")] == ["", "42!", "DNA-Tests", "ich"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("USA", "USA"),
        ("IN DEN USA", "In den USA"),
        ("in den USA", "in den USA"),
        ("DIE EU UND DIE NATO", "Die EU und die NATO"),
        ("WIE GROß IST DER BÄR?", "Wie groß ist der Bär?"),
        ("WIE GRO\u00df IST DER BA\u0308R?", "Wie groß ist der Ba\u0308r?"),
    ],
)
def test_acronyms_stay_and_letters_without_capitals_do_not_matter(text: str, read: str) -> None:
    known = BPETokenizer.train(["Wie groß ist der Bär? In den und die."] * 9, vocab_size=400, normalize=True)
    assert truecased(text, known) == read


def test_a_curriculum_goes_from_short_to_long_at_first() -> None:
    def lengths(batches: TokenBatches, epoch: int) -> list[int]:
        return [batch.source.shape[1] for batch in batches.epoch(epoch)]

    plain, taught = small_batches(), small_batches(curriculum=2)
    for epoch in (0, 1):
        assert lengths(taught, epoch) == sorted(lengths(plain, epoch))
    assert lengths(taught, 2) != sorted(lengths(taught, 2))
    members = [next(taught.epoch(epoch)).indices.tolist() for epoch in (0, 1)]
    assert members[0] != members[1], "batches have new members in each epoch"
    assert taught.fingerprint() != plain.fingerprint()
