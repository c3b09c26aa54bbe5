"""Hugging Face's tokenizers reads handloom's tokenizer.json; handloom reads Hugging Face's byte-level BPE files."""

import copy
import itertools
import json
import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handloom.errors import InputError
from handloom.tokenizer import BPETokenizer, CharacterTokenizer, WordTokenizer, load_tokenizer
from handloom.tokenizer.pre_tokenizer import PATTERNS
from handloom.tokenizer.tokenizer_json import bpe_from_json
from tests.support.tokenizer_texts import ALPHABETS, hugging_face, peer_tokenizer, texts, train_peer

CORPUS = [alphabet * 3 for alphabet in ALPHABETS]
DROPPING = {"type": "Split", "pattern": {"Regex": PATTERNS["gpt4"]}, "behavior": "Removed", "invert": False}
PLAIN = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


@pytest.fixture(scope="module")
def trained() -> BPETokenizer:
    return BPETokenizer.train(CORPUS, 500)


@pytest.fixture
def file(trained: BPETokenizer, tmp_path: Path) -> Path:
    trained.save(tmp_path / "tokenizer.json")
    return tmp_path / "tokenizer.json"


def changed(file: Path, change: dict[str, Any], inside: str | None = None) -> Path:
    """Change some entries of the file and return its path."""
    data = json.loads(file.read_text())
    (data[inside] if inside else data).update(change)
    file.write_text(json.dumps(data))
    return file


def test_saving_and_loading_gives_the_same_tokenizer(trained: BPETokenizer, file: Path) -> None:
    loaded = BPETokenizer.load(file)
    assert vars(loaded)["vocab"] == trained.vocab
    assert loaded.merges == trained.merges
    assert loaded.added_tokens == trained.added_tokens
    assert loaded.special_ids == {"<pad>": 0, "<unk>": 1, "<bos>": 2, "<eos>": 3}
    assert loaded.encode_batch(CORPUS) == trained.encode_batch(CORPUS)
    again = file.with_name("again.json")
    loaded.save(again)
    assert again.read_bytes() == file.read_bytes()
    loaded.dropout = 0.1
    loaded.save(again)
    assert BPETokenizer.load(again).dropout == 0.1


def test_the_peer_writes_our_file_back_unchanged(file: Path) -> None:
    peer = hugging_face().Tokenizer.from_file(str(file))
    assert json.loads(peer.to_str()) == json.loads(file.read_text())


@pytest.mark.parametrize("pattern", PATTERNS)
def test_files_of_the_peer_give_the_peers_ids(pattern: str, tmp_path: Path) -> None:
    peer = train_peer(CORPUS, 450, ["<|endoftext|>"], pattern=pattern)
    path = tmp_path / "tokenizer.json"
    peer.save(str(path))
    ours = BPETokenizer.load(path)
    assert ours.vocab_size == peer.get_vocab_size()
    peer.encode_special_tokens = True
    for text in [*CORPUS, "", " ", "a <|endoftext|>b", "<|endoftext|>"]:
        assert ours.encode(text) == peer.encode(text).ids
        assert ours.decode(ours.encode(text)) == peer.decode(peer.encode(text).ids)
    ours.save(path)
    assert hugging_face().Tokenizer.from_file(str(path)).encode(CORPUS[0]).ids == peer.encode(CORPUS[0]).ids


CONTENTS = ["<mask>", "<mask>x", "the", "a", " a b", "  ", "<eos>", "中", "\n"]
added_tokens = st.dictionaries(st.sampled_from(CONTENTS), st.booleans(), min_size=1, max_size=4)


@given(tokens=added_tokens, text=texts(), glue=st.lists(st.sampled_from([" ", "x", "", "\n", "²", "_"]), max_size=6))
@settings(max_examples=100)
def test_added_tokens_are_found_as_the_peer_finds_them(
    tokens: dict[str, bool], text: str, glue: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    for content in tokens:
        text += content + "".join(glue) + content
    peer = peer_tokenizer()
    peer.model = hugging_face().models.BPE(*_model())
    for content, special in tokens.items():
        token = hugging_face().AddedToken(content, normalized=False)
        (peer.add_special_tokens if special else peer.add_tokens)([token])
    path = tmp_path_factory.getbasetemp() / "added.json"
    peer.save(str(path))
    for split in (True, False):
        peer.encode_special_tokens = split
        ours = BPETokenizer(**bpe_from_json(json.loads(path.read_text())), split_special_tokens=split)
        ids = peer.encode(text).ids
        assert ours.encode(text) == ids
        ours.save(path)
        assert BPETokenizer.load(path).encode(text) == ids
    assert ours.decode(ids) == peer.decode(ids)
    assert ours.decode(ids, skip_special_tokens=False) == peer.decode(ids, skip_special_tokens=False)


@cache
def _model() -> tuple[dict[str, int], list[tuple[str, str]]]:
    trained = BPETokenizer.train(CORPUS, 400, special_tokens=[])
    return trained.vocab, trained.merges


def test_merges_can_be_strings_as_in_older_files(trained: BPETokenizer, file: Path) -> None:
    changed(file, {"merges": [" ".join(pair) for pair in trained.merges]}, "model")
    assert BPETokenizer.load(file).merges == trained.merges


def test_ignore_merges_takes_a_word_that_is_a_token(tmp_path: Path) -> None:
    vocab, merges = _model()
    vocab["Ġxyz"] = len(vocab)
    peer = peer_tokenizer()
    peer.model = hugging_face().models.BPE(vocab, merges, ignore_merges=True)
    peer.save(str(tmp_path / "ignore.json"))
    ours = BPETokenizer.load(tmp_path / "ignore.json")
    assert ours.encode("a xyz xyzz") == peer.encode("a xyz xyzz").ids
    assert vocab["Ġxyz"] in ours.encode("a xyz")


# Files that can't be read


def test_files_that_are_missing_or_damaged_are_named(tmp_path: Path, file: Path) -> None:
    text = file.read_bytes()
    cases = [
        ("empty.json", b"", "is not valid JSON: line 1"),
        ("latin.json", "{ö".encode("latin-1"), "byte 2 is not UTF-8"),
        ("cut.json", text[: len(text) // 2], "is not valid JSON: line"),
        ("list.json", b"[]", "contains a JSON list"),
        ("null.json", b"null", "contains a JSON null"),
        ("deep.json", b"[" * 100_000, "nested too deep"),
        ("object.json", b"{}", "not a byte-level BPE tokenizer.json: KeyError: 'model'"),
    ]
    for name, content, message in cases:
        (tmp_path / name).write_bytes(content)
        for load in (BPETokenizer.load, load_tokenizer):
            with pytest.raises(InputError, match=re.escape(message)):
                load(tmp_path / name)
    for path, message in ((tmp_path / "none.json", "does not exist"), (tmp_path, "can't be read")):
        with pytest.raises(InputError, match=message):
            BPETokenizer.load(path)


@pytest.mark.parametrize(
    ("inside", "change", "message"),
    [
        ("model", {"type": "Unigram"}, "has a Unigram model"),
        ("model", {"continuing_subword_prefix": "##"}, "has continuing_subword_prefix"),
        ("model", {"byte_fallback": True}, "has byte_fallback"),
        ("model", {"vocab": {"a": 4}}, "lacks 255 of the 256 bytes"),
        ("model", {"merges": [["a", "zz"]]}, "A merge needs the token 'zz'"),
        ("model", {"merges": [["a", "\033" * 100_000]]}, r"A merge needs the token '\x1b"),
        ("model", {"dropout": 2}, "is not a probability"),
        (None, {"normalizer": {"type": "NFC"}}, "has the normalizer NFC"),
        *((None, {"pre_tokenizer": cutting}, "splits text in an unknown way") for cutting in (
            {"type": "Metaspace"}, PLAIN, {"type": "ByteLevel", "add_prefix_space": True},
            {"type": "Sequence", "pretokenizers": [DROPPING, PLAIN]},
        )),
        (None, {"added_tokens": [{"id": 0, "content": "<pad>", "lstrip": True}]}, "has lstrip"),
        (None, {"added_tokens": [{"id": 0, "content": "<pad>"}, {"id": 0, "content": "<pad>"}]}, "occurs twice"),
        (None, {"added_tokens": [{"id": 4, "content": "<pad>"}]}, "'<pad>' has the id of another token"),
    ],
)  # fmt: skip
def test_files_of_other_tokenizers_are_refused(
    file: Path, inside: str | None, change: dict[str, Any], message: str
) -> None:
    changed(file, change, inside)
    with pytest.raises(InputError, match=re.escape(message)) as one:
        BPETokenizer.load(file)
    assert len(str(one.value)) < 500 + len(str(file))


#: Values of all types and of unusual sizes. At any place in a file, at least one of them is wrong.
WRONG: tuple[Any, ...] = (
    None, True, 0, -1, 10**30, 1.5, math.nan, "", "x", "(", [], [1], ["a"], [["a"]], {}, {"a": 1}, "\ud800", "\0",
)  # fmt: skip


def paths(value: Any, path: tuple = (), most: int = 40) -> Iterator[tuple]:
    """Yield the path to each value in a tree of dicts and lists, for the first `most` entries of a dict or list."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in list(inside)[:most]:
        yield from paths(one, (*path, key), most)


def wrong_values(value: Any, most: int = 40) -> Iterator[tuple[tuple, Any]]:
    """Yield the path to a value, and a copy of the tree in which the value is left out or replaced by one of WRONG."""
    for path in paths(value, most=most):
        for wrong in (*WRONG, ...):
            if not path:
                if wrong is not ...:
                    yield path, wrong
                continue
            changed = copy.deepcopy(value)
            parent = changed
            for key in path[:-1]:
                parent = parent[key]
            if wrong is ...:
                del parent[path[-1]]
            else:
                parent[path[-1]] = wrong
            yield path, changed


@pytest.mark.parametrize("kind", ["bpe", "bpe with a pattern", "character", "word"])
def test_one_wrong_value_anywhere_is_refused_or_does_no_harm(kind: str, tmp_path: Path) -> None:
    texts = ["a b c abc abc"]
    tokenizer = {
        "bpe": lambda: BPETokenizer.train(texts, 265),
        "bpe with a pattern": lambda: BPETokenizer.train(texts, 265, pattern="gpt4"),
        "character": lambda: CharacterTokenizer.train(texts),
        "word": lambda: WordTokenizer.train(texts),
    }[kind]()
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    refused, every = [], 7 if kind.startswith("bpe") else 2  # a BPE file has many values
    for _, changed_file in itertools.islice(wrong_values(json.loads(path.read_text()), most=12), 0, None, every):
        path.write_text(json.dumps(changed_file))
        try:
            loaded = load_tokenizer(path)
            loaded.decode(loaded.encode("abc def é"))
            loaded.save(tmp_path / "again.json")
        except InputError as error:
            refused.append(str(error))
    assert len(refused) > 50
    assert not [message for message in refused if "\n" in message]
