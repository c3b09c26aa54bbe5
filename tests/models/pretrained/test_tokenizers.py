"""Test that loaded and saved tokenizers of `transformers` give the same ids for hostile text."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from handloom.errors import InputError
from handloom.models.pretrained.tokenizers import load_tokenizer_of, save_tokenizer
from handloom.tokenizer import CharacterTokenizer, load_tokenizer
from handloom.tokenizer.hugging_face import HuggingFaceTokenizer

from .peers import transformers

tokenizers = pytest.importorskip("tokenizers")

TEXT = [
    "The quick brown fox jumps over the lazy dog, again and again; 12,345 times in 2024!",
    "Der schnelle braune Fuchs springt über den faulen Hund. Ça va? El Niño, 日本語 and русский.",
    "don't can't won't it's I'll we're   spaces\t\ttabs\n\nlines",
] * 8
HOSTILE = [
    "", " ", "  two  blanks ", "don't CAN'T it's", "1234567 12 ½ ٣٤ Ⅷ", "über Über ÜBER naïve Ça",
    "日本語のテキスト", "e\u0301 \u1e9e \u0130stanbul", "tabs\t\tand\nlines\r\n\r\nend",
    "\u200b\u00a0\u2028x\u3000y\x00z\x7f",
    "emoji 👩\u200d👩\u200d👧 🇩🇪", "<unk> [CLS] <s> </s> <|endoftext|> [SEP]x", "a" * 150,
    "▁▁ under▁score", "\ufffd\ufeff x", "I am shaking \U0001fae8", "\u0378 \u1c89 \U00016d40",
    "¡hola! ¿qué? «x» —dash– `tick` $5 +1 ^ ~", " leading and trailing ", "a<s>b </s>c", "\U0001d54f math 𝔸",
]  # fmt: skip
ADDED = tokenizers.AddedToken


def _byte_level(cut: Any, special: list[str], template: str | None = None) -> Any:
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer, made.decoder = cut, tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=330, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(TEXT, trainer)
    if template:
        numbers = [(name, made.token_to_id(name)) for name in special]
        made.post_processor = tokenizers.processors.TemplateProcessing(template, special_tokens=numbers)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token=special[0], eos_token=special[-1], clean_up_tokenization_spaces=False
    )


def _gpt2() -> Any:
    return _byte_level(tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])


def _llama3() -> Any:
    pattern = tokenizers.Regex(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+"
    )
    cut = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(pattern, "isolated"),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    return _byte_level(cut, ["<s>", "</s>"], "<s> $A")


def _smol(one_by_one: bool) -> Any:
    cut = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Digits(individual_digits=one_by_one),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])  # fmt: skip
    return _byte_level(cut, ["<s>", "</s>"])


def _llama2() -> Any:
    """Return a tokenizer whose vocabulary contains special tokens, bytes, characters and merges, in this order."""
    plain = tokenizers.Tokenizer(tokenizers.models.BPE())
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(split=True)
    plain.train_from_iterator(TEXT, tokenizers.trainers.BpeTrainer(vocab_size=200, show_progress=False))
    model = json.loads(plain.to_str())["model"]
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *model["vocab"]]
    merges = [tuple(pair) for pair in model["merges"]]
    vocab = {piece: id for id, piece in enumerate(dict.fromkeys(pieces))}
    made = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    replace = tokenizers.decoders.Replace("▁", " ")
    strip = tokenizers.decoders.Strip(" ", 1, 0)
    made.decoder = tokenizers.decoders.Sequence(
        [replace, tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse(), strip]
    )
    made.add_special_tokens([ADDED(name, normalized=False) for name in ("<unk>", "<s>", "</s>")])
    made.post_processor = tokenizers.processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="</s>", clean_up_tokenization_spaces=False
    )


def _bert() -> Any:
    trained = tokenizers.BertWordPieceTokenizer(lowercase=True)
    trained.train_from_iterator(TEXT, vocab_size=250, min_frequency=1, show_progress=False)
    return transformers.BertTokenizer(vocab=trained.get_vocab(), do_lower_case=True)


def _marian() -> Any:
    spm = pytest.importorskip("sentencepiece")
    folder = Path(_marian.folder)  # type: ignore[attr-defined]
    vocab: dict[str, int] = {"</s>": 0, "<unk>": 1}
    for name, texts, kind in (("source", TEXT[:2], "unigram"), ("target", TEXT[1:3], "bpe")):
        with open(folder / f"{name}.spm", "wb") as file:
            spm.SentencePieceTrainer.train(
                sentence_iterator=iter(texts * 5), model_writer=file, vocab_size=95, model_type=kind, minloglevel=2,
                hard_vocab_limit=False, bos_id=-1, pad_id=-1,
            )  # fmt: skip
        model = spm.SentencePieceProcessor(model_file=str(folder / f"{name}.spm"))
        for id in range(model.get_piece_size()):
            vocab.setdefault(model.id_to_piece(id), len(vocab))
    vocab |= {">>fra<<": len(vocab), "<pad>": len(vocab) + 1}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    return transformers.MarianTokenizer(*(str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")))


MADE = {
    "gpt2": _gpt2,
    "llama 3": _llama3,
    "smollm": lambda: _smol(True),
    "digits in groups": lambda: _smol(False),
    "llama 2": _llama2,  # the package tokenizers encodes this case and bert: one case of each kind is enough
    "bert": _bert,
    "marian": _marian,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("kind", MADE)
def test_the_same_ids_and_back(kind, tmp_path) -> None:
    (tmp_path / "spm").mkdir()
    _marian.folder = tmp_path / "spm"  # type: ignore[attr-defined]
    theirs = MADE[kind]()
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load_tokenizer_of(tmp_path / "theirs", {}, 10_000)
    assert ours.vocab_size == len(theirs.get_vocab())
    save_tokenizer(ours, tmp_path / "spm", 64)
    config = transformers.MarianConfig() if isinstance(theirs, transformers.MarianTokenizer) else None
    back = transformers.AutoTokenizer.from_pretrained(tmp_path / "spm", config=config)  # the folder has none
    ours.save(tmp_path / "tokenizer.json")
    kept = load_tokenizer(tmp_path / "tokenizer.json")
    assert (kept.pad_id, kept.unk_id, kept.bos_id, kept.eos_id) == (ours.pad_id, ours.unk_id, ours.bos_id, ours.eos_id)
    for text in [*HOSTILE, *TEXT[:3], *([">>fra<< Hallo", "a >>fra<< b"] if kind == "marian" else [])]:
        expected = theirs(text)["input_ids"]
        assert ours.encode_whole(text) == expected, text
        assert kept.encode_whole(text) == expected, text
        assert back(text)["input_ids"] == expected, text
        if kind != "bert":  # BERT's decoder cleans up spaces
            ids = ours.encode(text)
            assert ours.decode(ids, skip_special_tokens=False).split() == theirs.decode(ids).split(), text


def test_tokenizers_that_can_t_be_used_are_refused(tmp_path) -> None:
    def refused(match: str) -> None:
        with pytest.raises(InputError, match=match) as one:
            load_tokenizer_of(tmp_path, {}, 300)
        assert len(str(one.value)) < 1000
        assert str(one.value).isprintable()

    refused(r"contains no tokenizer.json. AutoTokenizer.from_pretrained\(FOLDER\).save_pretrained\(FOLDER\)")
    _gpt2().save_pretrained(tmp_path)
    refused(r"330 tokens, but the model has only 300")
    data = json.loads((tmp_path / "tokenizer.json").read_text())
    for change, match in (
        ({"normalizer": {"type": "NFX"}}, "tokenizer.json is damaged"),
        ({"model": {**data["model"], "type": "Unigram"}}, "tokenizer.json is damaged"),
        ({"model": {"type": "BPE"}}, "is damaged .*with_tokenizer=False"),
        ({"model": {**data["model"], "merges": ["a" * 100_000]}}, "is damaged"),
    ):
        (tmp_path / "tokenizer.json").write_text(json.dumps({**data, **change}))
        refused(match)
    (tmp_path / "source.spm").write_bytes(b"nothing")
    refused(r"lacks target.spm")
    (tmp_path / "target.spm").write_bytes(b"nothing")
    (tmp_path / "vocab.json").write_text('{"</s>": 0, "<unk>": 1, "<pad>": 2}')
    refused("SentencePiece model is damaged" if find_spec("sentencepiece") else "pip install")
    for kind in ("sentencepiece", "hugging-face"):
        (tmp_path / "kept.json").write_text(json.dumps({"handloom_tokenizer": kind}))
        with pytest.raises(InputError, match=f"is not a {kind} tokenizer file, or it is damaged"):
            load_tokenizer(tmp_path / "kept.json")
    with pytest.raises(InputError, match="no equivalent of a CharacterTokenizer"):
        save_tokenizer(CharacterTokenizer.train(["abc"]), tmp_path, 9)


def test_without_the_package_the_error_says_what_to_install(tmp_path, monkeypatch) -> None:
    """handloom itself implements GPT-2's kind of tokenizer, and needs no package for it."""
    _gpt2().save_pretrained(tmp_path / "gpt2")
    _bert().save_pretrained(tmp_path / "bert")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert load_tokenizer_of(tmp_path / "gpt2", {}, 1000).encode("it")
    with pytest.raises(InputError, match=r"needs the package tokenizers: pip install tokenizers.*Word") as one:
        load_tokenizer_of(tmp_path / "bert", {}, 1000)
    assert "\n" not in str(one.value)


def test_tokens_added_beyond_the_vocabulary_and_pieces_of_a_stream(tmp_path) -> None:
    theirs = _bert()
    theirs.add_tokens(["qqq"])
    theirs.save_pretrained(tmp_path)
    ours = load_tokenizer_of(tmp_path, {}, 1000)
    assert ours.decode(ours.encode("the qqq")) == "the qqq"
    assert ours.vocab_size == len(theirs)
    _llama2().save_pretrained(tmp_path / "llama")
    ours = load_tokenizer_of(tmp_path / "llama", {}, 1000)
    ids = ours.encode("the quick brown")
    assert ours.decode(ids) == "the quick brown"
    assert "".join(ours.decode_more([id]) for id in ids) == " the quick brown"
    assert ours.encode("\ud800 x") == ours.encode("? x")


@pytest.mark.parametrize("name", ["GPT2Tokenizer", "PreTrainedTokenizerFast"])
def test_settings_of_tokenizer_config_are_read(name: str, tmp_path: Path) -> None:
    """Tokens that tokenizer.json lacks, another blank before a text, and special tokens as ordinary text."""
    blank = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=name == "PreTrainedTokenizerFast")
    _byte_level(blank, ["<|endoftext|>"]).save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    plain = json.loads(path.read_text()) | {"tokenizer_class": name}
    token = {"content": "<tool>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    end = {**token, "content": "<|endoftext|>", "special": True}
    size = len(json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"])
    for change in (
        {"added_tokens_decoder": {"0": end, str(size): {**token, "special": False}}},
        {"added_tokens_decoder": {"0": end, str(size): {**token, "special": True, "lstrip": True}}},
        {"add_prefix_space": True},
        {"add_prefix_space": False},
        {"split_special_tokens": True},
    ):
        path.write_text(json.dumps({**plain, **change}))
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
        ours = load_tokenizer_of(tmp_path, {}, 10_000)
        for text in ("Hund", "a <tool> b<tool>", "the <|endoftext|> x"):
            assert ours.encode(text) == theirs(text)["input_ids"], (change, text)
        (tmp_path / "back").mkdir(exist_ok=True)
        save_tokenizer(ours, tmp_path / "back", 64)
        back = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
        assert back("a <tool> <|endoftext|>")["input_ids"] == theirs("a <tool> <|endoftext|>")["input_ids"]


def test_a_panic_of_the_package_is_an_input_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicError(BaseException):
        """Rust's panics are no Exceptions."""

    class Panics:
        def from_str(text: str) -> Any:  # noqa: N805
            raise PanicError("index out of range")

        def get_vocab(self) -> dict[str, int]:
            return {"a": 0}

        def get_added_tokens_decoder(self) -> dict[int, Any]:
            return {}

        def encode(self, text: str, **options: Any) -> Any:
            raise PanicError("retry limit")

    monkeypatch.setattr(tokenizers, "Tokenizer", Panics)
    with pytest.raises(InputError, match=r"tokenizer\.json is damaged"):
        HuggingFaceTokenizer({}, {})
    monkeypatch.setattr(Panics, "from_str", lambda text: Panics())
    with pytest.raises(InputError, match="can't encode the text 'a'"):
        HuggingFaceTokenizer({}, {})
