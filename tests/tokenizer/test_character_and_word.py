"""The character and the word tokenizer: clean-up, vocabulary, and the interface that all tokenizers share."""

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.errors import InputError
from handloom.tokenizer import BPETokenizer, CharacterTokenizer, Tokenizer, WordTokenizer, load_tokenizer
from handloom.tokenizer.character import DEFAULT_ALPHABET, clean_text
from handloom.tokenizer.word import preprocess


@pytest.fixture
def nltk() -> object:
    return pytest.importorskip("nltk", reason="nltk is not installed")


# Characters


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("“Hello” – ‘it’s’ «fine»…", '"Hello" - \'it\'s\' "fine"...'),
        ("a\u00a0b\u2003\tc", "a b c"),
        ("one\r\ntwo\rthree\u2028four", "one\ntwo\nthree\nfour"),
        ("blanks  \n\n\n\nbefore", "blanks\n\nbefore"),
        ("naïve café ﬁre ²", "naive cafe fire 2"),
        ("Ärger, Straße", "Ärger, Straße"),
        ("A\u0308rger", "Ärger"),  # a letter and a combining mark
        ("soft\u00adhyphen\ufeff", "softhyphen"),
        ("中文 😀 ok", " ok"),
        ("", ""),
    ],
)
def test_clean_text(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned


@given(text=st.text())
def test_cleaned_text_holds_nothing_else_and_is_clean(text: str) -> None:
    cleaned = clean_text(text)
    assert set(cleaned) <= set(DEFAULT_ALPHABET)
    assert clean_text(cleaned) == cleaned
    assert clean_text("Ärger – née", "abcdefghijklmnopqrstuvwxyzAÄ–é ") == "Ärger – née", "marks of the alphabet stay"
    assert clean_text("Ärger – née", "abcdefghijklmnopqrstuvwxyzA ") == "Arger nee"


def test_characters_come_back() -> None:
    tokenizer = CharacterTokenizer.train(["Hello, world!\n"])
    assert tokenizer.vocabulary == ["<pad>", "<unk>", "<bos>", "<eos>", *sorted(set("Hello, world!\n"))]
    ids = tokenizer.encode("low\nword", add_bos=True, add_eos=True)
    assert tokenizer.decode(ids) == "low\nword"
    assert tokenizer.token_strings(ids) == ["<bos>", "l", "o", "w", "\\n", "w", "o", "r", "d", "<eos>"]
    assert tokenizer.encode("zoo")[0] == tokenizer.unk_id == 1


def test_characters_without_clean_up_and_with_a_limit() -> None:
    assert CharacterTokenizer.train(["aé中"], alphabet=None).decode([4, 5, 6]) == "aé中"
    assert CharacterTokenizer.train(["aaabbc"], 6).vocabulary[4:] == ["a", "b"]
    assert CharacterTokenizer.train(["aaabbc"], min_frequency=3).vocabulary[4:] == ["a"]


# Words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Breaking:  NEWS\tat 10!", "breaking news at 10"),
        ("See https://t.co/x?y=(1) or www.example.org now", "see or now"),
        ("<p>Bold &amp; <b class='x'>brave</b></p><!-- note -->", "bold brave"),
        ("3 < 4 and 5 > 2", "3 4 and 5 2"),
        ("Don’t 'quote' rock'n'roll'", "don't quote rock'n'roll"),
        ("snake_case", "snake case"),
        ("Café Ærø 東京", "café ærø 東京"),
    ],
)
def test_preprocess(text: str, words: str) -> None:
    assert preprocess(text) == words


def test_preprocess_can_keep_case_and_punctuation() -> None:
    assert preprocess("Oh, <b>No</b>!", lowercase=False, punctuation=True) == "Oh, No !"


def test_words_are_nltks(nltk: object) -> None:
    tokenizer = WordTokenizer.train(["I can't stop, don't you know? Stop stop it."])
    assert tokenizer.split("I can't stop!") == ["i", "ca", "n't", "stop"]
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)
    assert tokenizer.vocabulary[:6] == ["<PAD>", "<UNK>", "<BOS>", "<EOS>", "stop", "n't"]  # by count, then by alphabet
    ids = tokenizer.encode("Stop the news", add_bos=True, add_eos=True)
    assert ids == [2, 4, 1, 1, 3]
    assert tokenizer.decode(ids) == "stop"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "<BOS> stop <UNK> <UNK> <EOS>"
    kept = WordTokenizer.train(["Stop, please!"], lowercase=False, punctuation=True)
    assert kept.tokens("Stop, please!") == ["Stop", ",", "please", "!"]


PIECES = [*"a'1_’Éİſ .", "can", "not", "cannot", "gonna", "wanna", "gımme", "'s", "n't", "'tis", "more'n"]


@given(st.lists(st.sampled_from(PIECES)))
def test_a_text_is_split_word_by_word_as_nltk_splits_the_whole(pieces: list[str]) -> None:
    nltk = pytest.importorskip("nltk.tokenize", reason="nltk is not installed")
    text = "".join(pieces)
    assert WordTokenizer([]).split(text) == nltk.NLTKWordTokenizer().tokenize(preprocess(text))


# What both tokenizers, and all three, have in common


def test_files_keep_everything(nltk: object, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    for tokenizer in (
        CharacterTokenizer.train(["ab\n é"], special_tokens=["<unk>"], alphabet="ab\né "),
        CharacterTokenizer.train(["ab中"], alphabet=None),
        WordTokenizer.train(["One two, three."], lowercase=False, punctuation=True),
    ):
        tokenizer.save(path)
        for loaded in (type(tokenizer).load(path), load_tokenizer(path)):
            assert type(loaded) is type(tokenizer)
            assert vars(loaded) == vars(tokenizer)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"vocabulary": ["a"], "alphabet": "a"}, "not a word tokenizer file, or it is damaged"),
        ({"vocabulary": "ab"}, "vocabulary is 'ab', but it must be a list of strings"),
        ({"vocabulary": [1]}, "tokenizer.json is not a word.*vocabulary is one with 1 at index 0, but"),
        ({"vocabulary": ["a"], "special_tokens": 3}, "special_tokens is 3, but it must be a list"),
        ({"vocabulary": ["a", "a"]}, "contains 'a' twice"),
    ],
)
def test_damaged_and_foreign_files_are_named(tmp_path: Path, data: dict, said: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"handloom_tokenizer": "word", **data}))
    with pytest.raises(InputError, match=said):
        WordTokenizer.load(path)


def test_texts_and_sizes_that_cannot_be_used_are_named() -> None:
    with pytest.raises(InputError, match="texts are empty"):
        CharacterTokenizer.train(["", "中"])
    with pytest.raises(InputError, match="vocab_size=4 is too small for 4 special tokens"):
        CharacterTokenizer.train(["text"], 4)
    with pytest.raises(InputError, match="ids go from 0 to 4"):
        CharacterTokenizer.train(["t"]).decode([5])
    with pytest.raises(InputError, match="no special token <unk>"):
        CharacterTokenizer.train(["t"], special_tokens=["<pad>"]).encode("x")


def test_all_tokenizers_share_the_interface(nltk: object) -> None:
    tokenizers: list[Tokenizer] = [
        BPETokenizer.train(["one two"], 300),
        CharacterTokenizer.train(["one two"]),
        WordTokenizer.train(["one two"]),
    ]
    for tokenizer in tokenizers:
        batch = tokenizer.encode_batch(["one", "two one"], add_bos=True, add_eos=True)
        assert [ids[0] for ids in batch] == [tokenizer.bos_id] * 2
        assert [ids[-1] for ids in batch] == [tokenizer.eos_id] * 2
        assert tokenizer.decode_batch(batch) == ["one", "two one"]
        sent = pickle.loads(pickle.dumps(tokenizer))  # as for another training process
        assert sent.encode("two one") == tokenizer.encode("two one")
        with pytest.raises(InputError, match="a list of texts, not the single text 'one'"):
            tokenizer.encode_batch("one")
        assert "".join(tokenizer.tokens("one")) == "one"
        assert max(max(ids) for ids in batch) < tokenizer.vocab_size
        assert tokenizer.encode("") == []
        assert tokenizer.decode([]) == ""
