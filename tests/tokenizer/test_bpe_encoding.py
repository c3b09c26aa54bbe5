"""BPE encoding gives Hugging Face's ids, for characters that both know, and is lossless for all texts and bytes."""

import random
import sys
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from handloom.errors import InputError
from handloom.tokenizer import BPETokenizer
from handloom.tokenizer import bpe_encoder as encoders
from handloom.tokenizer.pre_tokenizer import splitter
from tests.support.tokenizer_texts import ALPHABETS, peer_tokenizer, texts, train_peer
from tests.support.work import calls_in

pytestmark = pytest.mark.slow

CORPUS = [alphabet * 3 + alphabet[::-1] for alphabet in ALPHABETS] + ["the cat sat on the mat, didn't she? " * 3]
ANY_TEXT = st.text(st.characters(exclude_categories=()))  # every code point, lone surrogates too


@pytest.fixture(scope="module", params=["gpt2", "gpt4", "whitespace"])
def tokenizer(request: pytest.FixtureRequest) -> BPETokenizer:
    return BPETokenizer.train(CORPUS, 700, pattern=request.param)


@pytest.fixture(scope="module")
def peer(tokenizer: BPETokenizer, tmp_path_factory: pytest.TempPathFactory) -> object:
    path = tmp_path_factory.mktemp("peer") / "tokenizer.json"
    tokenizer.save(path)
    found = type(peer_tokenizer()).from_file(str(path))
    found.encode_special_tokens = True  # as text, which is handloom's default
    return found


@given(batch=st.lists(texts(), min_size=1, max_size=5))
@settings(max_examples=100)
@example(batch=["", " ", "  ", "   a", "a   ", "a \t \n b", "\0a \0a", "x <eos> y<eos>"])
def test_ids_and_decoded_text_equal_the_peers(tokenizer: BPETokenizer, peer: object, batch: list[str]) -> None:
    ours = tokenizer.encode_batch(batch)
    assert ours == [encoding.ids for encoding in peer.encode_batch(batch)]  # type: ignore[attr-defined]
    for skip in (True, False):
        decoded = tokenizer.decode_batch(ours, skip_special_tokens=skip)
        assert decoded == peer.decode_batch(ours, skip_special_tokens=skip)  # type: ignore[attr-defined]
    assert tokenizer.decode_batch(ours, skip_special_tokens=False) == batch


def test_every_assigned_character_is_of_the_same_kind_to_the_peer() -> None:
    """Both agree on letter, digit or neither for some 150,000 characters of Python's Unicode. Newer ones may differ."""
    known = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) not in ("Cn", "Cs", "Co")]
    text = "\n".join(f"a{character}1" for character in known)
    pieces = peer_tokenizer().pre_tokenizer.pre_tokenize_str(text)
    assert splitter()(text) == [text[first:last] for _, (first, last) in pieces]


@given(text=ANY_TEXT)
@settings(max_examples=100)
@example(text="\ud800")
@example(text="\ud83d\ude00 \0")
def test_every_text_comes_back(tokenizer: BPETokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=False) == text


@given(data=st.binary(max_size=80))
@settings(max_examples=100)
def test_all_bytes_come_back(tokenizer: BPETokenizer, data: bytes) -> None:
    assert tokenizer.decode_bytes(tokenizer.encode_bytes(data)) == data
    assert tokenizer.encode_bytes(b"the cat") == tokenizer.encode("the cat")


@given(ids=st.lists(st.integers(0, 500), max_size=20))
def test_ids_that_are_not_utf8_decode_as_the_peers(tokenizer: BPETokenizer, peer: object, ids: list[int]) -> None:
    data = tokenizer.decode_bytes([id for id in ids if id > 3])
    if b"\xed" not in data:  # handloom decodes lone surrogates, and the peer has none
        assert tokenizer.decode(ids) == peer.decode(ids)  # type: ignore[attr-defined]


# Words: two algorithms give the same result


def test_list_and_heap_give_the_same_ids(tokenizer: BPETokenizer) -> None:
    generator = random.Random(0)
    for alphabet in ALPHABETS:
        for length in (0, 1, 2, 7, 60, 300):
            word = "".join(generator.choices(alphabet, k=length)).encode()
            by_list = tokenizer._encoder._encode_short(word)
            assert tokenizer._encoder.encode_with_dropout(word, 0.0, generator) == by_list
            assert tokenizer.decode_bytes(by_list) == word


def test_merges_out_of_order_are_applied_by_rank_as_the_peer_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file of another trainer, a merge can precede the merges that make its parts."""
    monkeypatch.setattr(encoders, "_HEAP", 0)
    trained = BPETokenizer.train(CORPUS, 700, special_tokens=[])
    letters = {token: id for token, id in trained.vocab.items() if id < 256}
    shuffled = random.Random(1).sample(trained.merges, len(trained.merges))
    for vocab, merges in (
        ({**letters, "aba": 256, "ab": 257}, [("ab", "a"), ("a", "b")]),  # in abab, the first ab merges with the a
        (trained.vocab, shuffled),
    ):
        ours = BPETokenizer(vocab, merges)
        peer = peer_tokenizer()
        peer.model = type(peer.model)(vocab, merges)
        for text in ["abab", *CORPUS, "".join(CORPUS).replace(" ", "")]:
            assert ours.encode(text) == peer.encode(text).ids


@pytest.mark.parametrize("unit", ["a", "random", "中文"])
def test_a_long_text_without_a_blank_takes_no_quadratic_time(unit: str) -> None:
    trained = train_peer(CORPUS, 700, [])
    ours = BPETokenizer.train(CORPUS, 700, special_tokens=[])
    letters = "".join(random.Random(0).choices("abcdefgh", k=10**5)) if unit == "random" else unit * 20_000
    ids: list[int] = []
    assert calls_in(lambda: ids.extend(ours.encode(letters))) < 40 * len(letters.encode())
    assert ids == trained.encode(letters).ids


def test_full_caches_are_emptied(tokenizer: BPETokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tokenizer.encode_batch(CORPUS * 2)
    monkeypatch.setattr("handloom.tokenizer.text_encoder._ENTRIES", 3)
    tokenizer.encode_batch([f"{text} x{i}" for i, text in enumerate(CORPUS)])
    assert tokenizer.encode_batch(CORPUS * 2) == expected
    assert len(tokenizer._texts._words) <= 3


# Beginning, end, and wrong ids


def test_beginning_and_end_are_added_on_request(tokenizer: BPETokenizer) -> None:
    plain = tokenizer.encode("the cat")
    assert tokenizer.encode("the cat", add_bos=True, add_eos=True) == [2, *plain, 3]
    assert tokenizer.encode_batch(["the cat", ""], add_eos=True) == [[*plain, 3], [3]]
    assert tokenizer.decode([2, *plain, 3, 0]) == "the cat"
    assert tokenizer.decode([2, *plain, 3], skip_special_tokens=False) == "<bos>the cat<eos>"
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)


def test_wrong_ids_and_missing_roles_are_named(tokenizer: BPETokenizer) -> None:
    for ids in ([5, tokenizer.vocab_size], [-1]):
        with pytest.raises(InputError, match=f"ids go from 0 to {tokenizer.vocab_size - 1}"):
            tokenizer.decode(ids)
    without = BPETokenizer.train(["text"], 300, special_tokens=["<|end|>"])
    with pytest.raises(InputError, match=r"no special token <bos> \(it has: <\|end\|>\)"):
        without.encode("text", add_bos=True)


def test_tokens_are_printable() -> None:
    tokenizer = BPETokenizer.train(["the the\n the\n"], 300)
    assert tokenizer.token_strings([*tokenizer.encode("the the\n\té"), tokenizer.eos_id]) == [
        "the", " the", "\\n", "\\t", "\\xc3", "\\xa9", "<eos>",
    ]  # fmt: skip


# BPE-dropout


def test_dropout_leaves_out_merges_at_random_and_keeps_the_text() -> None:
    tokenizer = BPETokenizer.train(CORPUS, 700)
    text = "the cat sat on the mat, didn't she? 中文字 <eos>"
    plain = tokenizer.encode(text)
    tokenizer.dropout = 0.3
    variants = {tuple(tokenizer.encode(text)) for _ in range(50)}
    assert len(variants) > 25
    assert {tokenizer.decode(ids, skip_special_tokens=False) for ids in variants} == {text}
    tokenizer.dropout = 1.0
    assert len(tokenizer.encode("the cat")) == len(b"the cat")
    tokenizer.dropout = 0.0
    assert tokenizer.encode(text) == plain
    with pytest.raises(InputError, match=r"dropout=1\.5 is not a probability"):
        BPETokenizer(tokenizer.vocab, tokenizer.merges, dropout=1.5)


def test_dropout_is_seeded_and_its_state_can_be_restored() -> None:
    trained = BPETokenizer.train(CORPUS, 700)
    first, second = (BPETokenizer(trained.vocab, trained.merges, dropout=0.2, seed=5) for _ in range(2))
    state = first.generator.getstate()
    drawn = first.encode_batch(CORPUS)
    assert drawn == second.encode_batch(CORPUS) != first.encode_batch(CORPUS)
    first.generator.setstate(state)
    assert first.encode_batch(CORPUS) == drawn


def test_dropout_leaves_out_each_merge_with_its_probability() -> None:
    """In "ab", the only merge is left out with probability p. In "aba", ab is tried before ba: the merge ab has the
    probability 1 - p, and the merge ba has p (1 - p)."""
    letters = BPETokenizer.train(["ab"], 260).vocab
    size = len(letters)
    tokenizer = BPETokenizer({**letters, "ab": size, "ba": size + 1}, [("a", "b"), ("b", "a")], dropout=0.25)
    draws = 8000
    left_out = sum(len(tokenizer.encode("ab")) == 2 for _ in range(draws)) / draws
    assert left_out == pytest.approx(0.25, abs=0.02)
    outcomes = [tokenizer.encode("aba") for _ in range(draws)]
    assert outcomes.count([size, letters["a"]]) / draws == pytest.approx(0.75, abs=0.02)
    assert outcomes.count([letters["a"], size + 1]) / draws == pytest.approx(0.25 * 0.75, abs=0.02)
