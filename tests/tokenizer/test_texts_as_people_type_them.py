"""The same text in other spellings gives the same ids; special tokens that are written in a text are ordinary text."""

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handloom.errors import InputError
from handloom.models.shipped import MODELS
from handloom.tokenizer import BPETokenizer, CharacterTokenizer, Tokenizer, WordTokenizer, load_tokenizer
from handloom.tokenizer.added_tokens import AddedToken
from handloom.tokenizer.normalizer import NORMALIZER, normalized
from handloom.tokenizer.word import preprocess
from tests.support.tokenizer_texts import ALPHABETS, hugging_face

CORPUS = [alphabet * 3 for alphabet in ALPHABETS] + ["Über größere Äpfel läuft ein Käfer. "] * 3
SPECIALS = ("<pad>", "<unk>", "<bos>", "<eos>")
#: How people's programs change a text, and its reader does not see it.
SPELLINGS: dict[str, Callable[[str], str]] = {
    "decomposed, as macOS does": lambda text: unicodedata.normalize("NFD", text),
    "no-break spaces": lambda text: text.replace(" ", "\xa0"),
    "narrow no-break spaces": lambda text: text.replace(" ", "\u202f"),
    "double blanks": lambda text: text.replace(" ", "  "),
    "tabs": lambda text: text.replace(" ", "\t"),
    "line ends of Windows": lambda text: text.replace(" ", "\r\n"),
    "blanks at the ends": lambda text: f"  {text}\n",
    "soft hyphens": lambda text: text.replace("e", "\xade"),
    "zero-width spaces": lambda text: text.replace(" ", " \u200b"),
    "zero-width joiners": lambda text: text.replace("r", "r\u200d"),
    "a byte order mark": lambda text: f"\ufeff{text}",
    "left-to-right marks": lambda text: f"\u200e{text}\u200e",
    "control characters": lambda text: text.replace("e", "e\x00\x1b"),
    "ligatures": lambda text: text.replace("fi", "ﬁ"),
    "full-width letters": lambda text: "".join(chr(ord(c) + 0xFEE0) if c in "abcXYZ" else c for c in text),
    "an acute accent for an apostrophe": lambda text: text.replace("'", "´"),
}
TEXT = "Größe: finde XYZ, wie geht's? Käfer läuft über Äpfel."


@pytest.fixture(scope="module")
def bpe() -> BPETokenizer:
    return BPETokenizer.train(CORPUS, 500, normalize=True)


@pytest.fixture(scope="module")
def lossless() -> BPETokenizer:
    return BPETokenizer.train(CORPUS, 500)


@pytest.fixture(scope="module")
def peer(bpe: BPETokenizer) -> Any:
    found = hugging_face().Tokenizer.from_str(json.dumps(bpe.to_json()))
    found.encode_special_tokens = True
    return found


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_that_look_the_same_have_the_same_ids(bpe: BPETokenizer, spelling: str) -> None:
    text = SPELLINGS[spelling](TEXT)
    assert text != TEXT
    assert bpe.encode(text) == bpe.encode(TEXT)
    assert bpe.decode(bpe.encode(text)) == TEXT
    words = WordTokenizer.train([TEXT])
    assert words.encode(text) == words.encode(TEXT)
    assert words.unk_id not in words.encode(text)


@pytest.mark.parametrize("name", ["everyday-de-en", "everyday-en-de", "tatoeba-de-en"])
def test_the_shipped_translators_read_each_spelling(name: str) -> None:
    tokenizer = load_tokenizer(MODELS[name] / "tokenizer.json")
    for spelling in SPELLINGS.values():
        assert tokenizer.encode(spelling(TEXT)) == tokenizer.encode(TEXT)


def test_a_normalised_text_is_learnt_as_it_is(bpe: BPETokenizer) -> None:
    plain = BPETokenizer.train([TEXT] * 3, 300)
    for spelled in SPELLINGS.values():
        assert BPETokenizer.train([spelled(TEXT)] * 3, 300, normalize=True).merges == plain.merges
    assert plain.decode(plain.encode(" a\u0308\xa0\r\n ")) == " a\u0308\xa0\r\n ", "a language model keeps any text"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("नमस्ते क्\u200dष", "नमस्ते क्\u200dष"),  # the joiner makes another picture
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("👩\u200d👩\u200d👧", "👩\u200d👩\u200d👧"),
        ("5 m²", "5 m2"),
        ("\ud800", "\ud800"),
        ("", ""),
        (" \t ", ""),
    ],
)
def test_what_changes_the_picture_or_the_meaning_stays(text: str, kept: str) -> None:
    assert normalized(text) == kept


SCRIPTS = "abzÄößéñçÅ ΑάБйї אָبّ हिन्दी கொ ก็ำ 中かが각ᄀ가 0٣½²'´\"“«.,!?-–…"
MARKS = (
    "\u0301\u0308\u0323\u093f\u200b\u200c\u200d\u00ad\ufeff\u202f\u00a0\u2028\x00\x07\x1b\x1c\x7f\x85\t\n\r\v \u3000"
)
hostile = st.lists(
    st.one_of(st.text(st.sampled_from(SCRIPTS + MARKS), max_size=6), st.sampled_from(SPECIALS), st.text(max_size=3)),
    max_size=8,
).map("".join)


@pytest.mark.search
@given(text=hostile)
@example(text="a\xad\u200db")
@example(text=" x <eos> ＜eos＞")
def test_normalised_ids_are_the_peers_and_the_same_for_each_form(bpe: BPETokenizer, peer: Any, text: str) -> None:
    once = normalized(text)
    assert normalized(once) == once
    ids = bpe.encode(text)
    assert ids == bpe.encode(once) == bpe.encode(unicodedata.normalize("NFD", text))
    assert ids == bpe.encode(text.replace(" ", " \xa0 ")) == bpe.encode(f" {text}\n") or "\u200c" in text + "\u200d"
    assert bpe.decode(ids, skip_special_tokens=False) == once
    if text.isascii() or not any(unicodedata.category(c) in ("Cn", "Cs") for c in text):  # unknown to one of both
        assert ids == peer.encode(text).ids
    bpe.dropout = 1e-9
    try:
        assert bpe.encode(text) == ids
    finally:
        bpe.dropout = 0.0


@pytest.mark.search
@given(text=hostile)
def test_no_text_has_special_tokens_and_words_do_not_depend_on_the_form(lossless: BPETokenizer, text: str) -> None:
    assert lossless.decode(lossless.encode(text), skip_special_tokens=False) == text
    assert lossless.decode_bytes(lossless.encode_bytes(text.encode())) == text.encode()
    tokenizers: list[Tokenizer] = [lossless]
    units = text or "x"
    for punctuation in (True, False):
        if WordTokenizer([], punctuation=punctuation).split(units):
            tokenizers.append(WordTokenizer.train([units], punctuation=punctuation))
            decomposed = unicodedata.normalize("NFD", units)
            assert tokenizers[-1].encode(decomposed) == tokenizers[-1].encode(units)
    tokenizers.append(CharacterTokenizer.train([units], alphabet=None))
    assert tokenizers[-1].decode(tokenizers[-1].encode(units)) == units
    for tokenizer in tokenizers:
        assert not set(tokenizer.encode(text)) & set(tokenizer.special_ids.values())


@pytest.mark.parametrize("text", ["हिन्दी में समाचार", "தமிழ் செய்தி", "ภาษาไทยก็ดี", "עִבְרִית", "größe läuft", "ไม่ เป็น"])
def test_a_combining_mark_is_a_part_of_its_word(text: str) -> None:
    for form in ("NFC", "NFD"):
        written = unicodedata.normalize(form, text)
        assert preprocess(written).split() == unicodedata.normalize("NFKC", text).split()
        assert WordTokenizer([]).split(written) == unicodedata.normalize("NFKC", text).split()


# Special tokens


def test_a_special_token_in_a_text_is_ordinary_text(lossless: BPETokenizer, bpe: BPETokenizer) -> None:
    text = "a <eos> b<pad><unk>c"
    for tokenizer in (lossless, bpe):
        ids = tokenizer.encode(text, add_eos=True)
        assert min(ids[:-1]) > 3
        assert ids[-1] == tokenizer.eos_id
        assert tokenizer.decode(ids) == text
    found = BPETokenizer(
        lossless.vocab, lossless.merges, added_tokens=lossless.added_tokens, split_special_tokens=False
    )
    assert set(found.encode(text)) > {0, 1, 3}
    assert found.decode(found.encode(text)) == "a  bc"
    characters = CharacterTokenizer.train(["a|b"], special_tokens=["|", "<unk>"], alphabet=None)
    assert characters.encode("a|b") == [2, 1, 3]
    words = WordTokenizer.train(["unk or pad"], special_tokens=["pad", "<unk>"])
    assert words.encode("unk pad") == [3, 1]


def test_a_setting_that_finds_special_tokens_is_saved(lossless: BPETokenizer, tmp_path: Any) -> None:
    found = BPETokenizer(
        lossless.vocab, lossless.merges, added_tokens=lossless.added_tokens, split_special_tokens=False
    )
    found.save(tmp_path / "tokenizer.json")
    assert load_tokenizer(tmp_path / "tokenizer.json").encode("<eos>") == [3]


@pytest.mark.parametrize("token", ["<é>", "<ÄÖÜ>", "Ġx", "¡fin!", "<中>"])
def test_a_special_token_with_any_letters_comes_back(token: str) -> None:
    tokenizer = BPETokenizer.train(["a b"], 262, special_tokens=[token])
    assert tokenizer.decode([0, *tokenizer.encode("ä")], skip_special_tokens=False) == f"{token}ä"
    again = BPETokenizer(tokenizer.vocab, tokenizer.merges, added_tokens=[AddedToken(0, token, special=False)])
    assert again.decode(again.encode(f"x{token}y")) == f"x{token}y"


def test_only_this_normalizer_is_read(bpe: BPETokenizer, tmp_path: Any) -> None:
    bpe.save(tmp_path / "tokenizer.json")
    assert load_tokenizer(tmp_path / "tokenizer.json").encode("a\u0308") == bpe.encode("ä")
    for other in ({"type": "NFKC"}, {**NORMALIZER, "normalizers": NORMALIZER["normalizers"][1:]}):
        (tmp_path / "tokenizer.json").write_text(json.dumps({**bpe.to_json(), "normalizer": other}))
        with pytest.raises(InputError, match="has the normalizer"):
            load_tokenizer(tmp_path / "tokenizer.json")


# Decoding


@pytest.mark.search
@given(text=st.text(max_size=12), cuts=st.lists(st.integers(1, 6), max_size=60), broken=st.binary(max_size=4))
@example(text="😀" * 20, cuts=[2, *[4] * 19], broken=b"")
@example(text="\ufffd" * 6, cuts=[], broken=b"\xff\xf0")
def test_a_stream_gives_whole_characters_and_the_whole_text(text: str, cuts: list[int], broken: bytes) -> None:
    """Tokens may end within characters again and again: here each of the `cuts` bytes of the text is one token."""
    data, pieces = text.encode() + broken, []
    for size in [*cuts, *[1] * len(data)]:
        pieces, data = [*pieces, data[:size]], data[size:]
    pieces = [piece for piece in dict.fromkeys(pieces) if piece]
    data = text.encode() + broken
    ids, rest = [], data
    for size in [*cuts, *[1] * len(data)]:
        if rest:
            ids.append(pieces.index(rest[:size]))
            rest = rest[size:]

    class Pieces(CharacterTokenizer):
        def decode(self, ids: Any, *, skip_special_tokens: bool = True) -> str:
            return b"".join(pieces[id] for id in ids).decode("utf-8", "replace")

    given_pieces = list(Pieces([]).decode_stream(ids))
    assert "".join(given_pieces) == data.decode("utf-8", "replace")
    if not broken and "\ufffd" not in text:
        assert "\ufffd" not in "".join(given_pieces)


def test_ids_that_a_padded_model_generates_have_no_text(lossless: BPETokenizer) -> None:
    for tokenizer in (lossless, CharacterTokenizer.train(["ab"]), WordTokenizer.train(["a b"])):
        size = tokenizer.vocab_size
        tokenizer.unused = 3
        try:
            ids = tokenizer.encode("a b")
            assert tokenizer.decode([size, *ids, size + 2]) == tokenizer.decode(ids)
            assert tokenizer.token_strings([size + 1]) == [""]
            with pytest.raises(InputError, match=f"Id {size + 3} is not a token"):
                tokenizer.decode([size + 3])
        finally:
            tokenizer.unused = 0
