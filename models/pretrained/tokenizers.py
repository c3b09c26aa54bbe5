"""Loading and saving tokenizers in the files of Hugging Face's `transformers`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...files import write_json
from ...tokenizer import BPETokenizer, Tokenizer
from ...tokenizer.added_tokens import AddedToken
from ...tokenizer.fallback_bpe import BLANK, FallbackBPETokenizer
from ...tokenizer.sentencepiece import SentencePieceTokenizer
from ...tokenizer.tokenizer_json import bpe_from_json
from ...tokenizer.wordpiece import WordPieceTokenizer
from .files import read_object

#: The names of the special tokens' roles in these files.
ROLES = {
    "pad": ("pad_token",),
    "unk": ("unk_token",),
    "bos": ("bos_token", "cls_token"),
    "eos": ("eos_token", "sep_token"),
}


def load_tokenizer_of(folder: Path, config: Mapping[str, Any], vocab_size: int) -> Tokenizer:
    """The tokenizer in the folder. Raises InputError if there is none, or it can't be used."""
    try:
        tokenizer = _read(folder, config)
    except InputError as error:
        raise InputError(f"The tokenizer in {folder} can't be used: {error} The model alone can be loaded.") from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise InputError(f"The tokenizer in {folder} is damaged ({what}). Fetch it again.") from None
    if tokenizer.vocab_size > vocab_size:
        raise InputError(
            f"The tokenizer in {folder} has {tokenizer.vocab_size:,} tokens, more than the {vocab_size:,} of the "
            "model: they don't belong together. Fetch both again."
        )
    return tokenizer


def _read(folder: Path, config: Mapping[str, Any]) -> Tokenizer:
    said = read_object(folder / "tokenizer_config.json")
    special = {**read_object(folder / "special_tokens_map.json"), **said}
    names = {role: _text(special.get(key)) for role, keys in ROLES.items() for key in keys if special.get(key)}
    if (folder / "source.spm").is_file():
        return _sentencepiece(folder, said, names)
    data = read_object(folder / "tokenizer.json")
    if not data and (folder / "vocab.txt").is_file():
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        return _wordpiece(lines[:-1] if lines[-1] == "" else lines, said, names)
    if not data and (folder / "merges.txt").is_file():
        data = _gpt2_files(folder, said, names)
    if not data:
        raise InputError("it holds none of tokenizer.json, vocab.txt, merges.txt and source.spm.")
    return tokenizer_from_json(data, names, config)


def tokenizer_from_json(data: dict[str, Any], names: dict[str, str], config: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of a tokenizer.json; `names` are the special tokens by role, from other files."""
    model = data["model"]
    if model.get("type") == "WordPiece":
        return _wordpiece_json(data, names)
    added = {token["id"]: token["content"] for token in data.get("added_tokens", [])}
    texts = {id: text for text, id in model["vocab"].items()} | added
    for role in ("bos", "eos"):
        number = config.get(f"{role}_token_id")
        number = number[0] if isinstance(number, list) else number
        if role not in names and number in texts:
            names[role] = texts[number]
    special = {token["content"] for token in data.get("added_tokens", []) if token.get("special", True)}
    names = {role: name for role, name in names.items() if name in special}
    if "eos" in names:  # a decoder needs no other roles
        names = {"pad": names["eos"], "unk": names["eos"], "bos": names["eos"], **names}
    begins = _begins(data.get("post_processor"), names.get("bos"))
    if model.get("byte_fallback"):
        return _fallback(data, names, begins)
    tokenizer = BPETokenizer(**bpe_from_json(data))
    standard = {"pad": "<pad>", "unk": "<unk>", "bos": "<bos>", "eos": "<eos>"}
    tokenizer.roles, tokenizer.begins = ({} if names == standard else names), begins
    return tokenizer


def _text(token: Any) -> str:
    """A special token's text; it is stored as a string, or in an object."""
    return str(token["content"]) if isinstance(token, dict) else str(token)


def _begins(processor: Mapping[str, Any] | None, bos: str | None) -> bool:
    """Whether a tokenizer.json's post_processor puts <bos> before a text."""
    if processor is None:
        return False
    steps = processor["processors"] if processor["type"] == "Sequence" else [processor]
    pieces = [piece for step in steps if step["type"] == "TemplateProcessing" for piece in step["single"]]
    return bool(pieces) and pieces[0].get("SpecialToken", {}).get("id") == bos


def _fallback(data: dict[str, Any], names: dict[str, str], begins: bool) -> Tokenizer:
    """Llama's: blanks are replaced by a normaliser in older files, by a pre-tokeniser in newer ones."""
    cut, normal = data.get("pre_tokenizer"), data.get("normalizer")
    steps = (normal["normalizers"] if normal["type"] == "Sequence" else [normal]) if normal else []
    kinds = [step["type"] for step in steps]
    if cut is None and kinds in (["Prepend", "Replace"], ["Replace"]):
        prepend = "always" if kinds[0] == "Prepend" else "never"
    elif cut is not None and cut["type"] == "Metaspace" and not steps and not cut.get("split", True):
        prepend = {"always": "missing", "first": "first", "never": "never"}[cut.get("prepend_scheme", "always")]
    else:
        raise InputError("its tokenizer.json normalises and splits text in a way that is not supported.")
    pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in data["model"]["merges"])
    merges = [(str(left), str(right)) for left, right in pairs]
    added = [AddedToken(**token) for token in data.get("added_tokens", [])]
    return FallbackBPETokenizer(
        data["model"]["vocab"], merges, added_tokens=added, prepend=prepend, roles=names, begins=begins
    )


def _wordpiece_json(data: dict[str, Any], names: dict[str, str]) -> Tokenizer:
    model, normal = data["model"], data.get("normalizer") or {}
    if normal.get("type") != "BertNormalizer" or (data.get("pre_tokenizer") or {}).get("type") != "BertPreTokenizer":
        raise InputError("its WordPiece splits text differently from BERT's.")
    if model.get("continuing_subword_prefix", "##") != "##":
        raise InputError("pieces within a word do not begin with ##.")
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    if sorted(model["vocab"].values()) != list(range(len(pieces))):
        raise InputError("its vocabulary's ids have a gap or a duplicate.")
    return WordPieceTokenizer(
        pieces,
        lowercase=normal.get("lowercase", True),
        strip_accents=normal.get("strip_accents"),
        chinese=normal.get("handle_chinese_chars", True),
        clean=normal.get("clean_text", True),
        longest_word=model.get("max_input_chars_per_word", 100),
        roles={"pad": "[PAD]", "unk": model.get("unk_token", "[UNK]"), "bos": "[CLS]", "eos": "[SEP]", **names},
        added_tokens=[AddedToken(**token) for token in data.get("added_tokens", [])],
    )


def _wordpiece(pieces: list[str], said: Mapping[str, Any], names: dict[str, str]) -> Tokenizer:
    return WordPieceTokenizer(
        pieces,
        lowercase=said.get("do_lower_case", True),
        strip_accents=said.get("strip_accents"),
        chinese=said.get("tokenize_chinese_chars", True),
        roles={"pad": "[PAD]", "unk": "[UNK]", "bos": "[CLS]", "eos": "[SEP]", **names},
    )


def _gpt2_files(folder: Path, said: Mapping[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """vocab.json and merges.txt as a tokenizer.json."""
    vocab = read_object(folder / "vocab.json", missing="it holds merges.txt and no vocab.json.")
    lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
    merges = [line for line in lines if line and not line.startswith("#version")]
    end = "<|endoftext|>"
    names.setdefault("eos", end)
    special = dict.fromkeys([*names.values()])
    added = [{"id": vocab[name], "content": name, "special": True} for name in special if name in vocab]
    cut = {"type": "ByteLevel", "add_prefix_space": said.get("add_prefix_space", False), "use_regex": True}
    return {"model": {"type": "BPE", "vocab": vocab, "merges": merges}, "added_tokens": added, "pre_tokenizer": cut}


def _sentencepiece(folder: Path, said: Mapping[str, Any], names: dict[str, str]) -> Tokenizer:
    if said.get("separate_vocabs") or (folder / "target_vocab.json").is_file():
        raise InputError("it has a vocabulary for each language; only one for both can be read.")
    models = []
    for name in ("source.spm", "target.spm"):
        if not (folder / name).is_file():
            raise InputError(f"it lacks {name}.")
        models.append((folder / name).read_bytes())
    vocab = read_object(folder / "vocab.json", missing="it lacks vocab.json.")
    roles = {"pad": "<pad>", "eos": "</s>", "unk": "<unk>", **names}
    return SentencePieceTokenizer(models[0], models[1], vocab, {**roles, "bos": roles["pad"]})


def save_tokenizer(
    tokenizer: Tokenizer, folder: Path, max_length: int, *, begins: bool = False, ends: bool = False
) -> None:
    """Write the tokenizer files of `transformers`, which put <bos> before a text if `begins`, and <eos> after it if
    `ends`; or where the tokenizer itself says so.

    Raises InputError for kinds that it does not have: characters and words.
    """
    said: dict[str, Any] = {"model_max_length": max_length}
    said |= {f"{role}_token": name for role, name in role_names(tokenizer).items()}
    if isinstance(tokenizer, SentencePieceTokenizer):
        for name, model in tokenizer.models.items():
            (folder / f"{name}.spm").write_bytes(model)
        write_json(folder / "vocab.json", tokenizer.vocab)
        del said["bos_token"]
        said |= {"tokenizer_class": "MarianTokenizer", "separate_vocabs": False}
    elif isinstance(tokenizer, WordPieceTokenizer):
        (folder / "vocab.txt").write_text("\n".join(tokenizer.vocabulary) + "\n", encoding="utf-8", newline="\n")
        write_json(folder / "tokenizer.json", _wordpiece_to_json(tokenizer))
        said |= {"cls_token": said.pop("bos_token"), "sep_token": said.pop("eos_token")}
        said |= {"tokenizer_class": "BertTokenizer", "do_lower_case": tokenizer.lowercase}
        said |= {"strip_accents": tokenizer.strip_accents, "tokenize_chinese_chars": tokenizer.chinese}
    elif isinstance(tokenizer, (BPETokenizer, FallbackBPETokenizer)):
        data = tokenizer.to_json() if isinstance(tokenizer, BPETokenizer) else _fallback_to_json(tokenizer)
        data["post_processor"] = _template(tokenizer, tokenizer.begins or begins, tokenizer.ends or ends)
        write_json(folder / "tokenizer.json", data)
        said["tokenizer_class"] = "PreTrainedTokenizerFast"
    else:
        raise InputError(
            f"transformers has no tokenizer like a {type(tokenizer).__name__}. Save the model without it (None), or "
            "train one with BPE tokens."
        )
    write_json(folder / "tokenizer_config.json", said)


def role_names(tokenizer: Tokenizer) -> dict[str, str]:
    """The special tokens' texts by role, for the roles that the tokenizer has."""
    texts = {id: text for text, id in tokenizer.special_ids.items()}
    names = {}
    for role in ROLES:
        try:
            names[role] = tokenizer.roles.get(role) or texts[getattr(tokenizer, f"{role}_id")]
        except InputError:
            continue
    return names


def _template(tokenizer: Tokenizer, begins: bool, ends_: bool) -> dict[str, Any] | None:
    """The post_processor that puts <bos> and <eos> around a text."""
    ends = {"bos": begins, "eos": ends_}
    if not any(ends.values()):
        return None
    texts = role_names(tokenizer)
    known = {texts[role]: getattr(tokenizer, f"{role}_id") for role, there in ends.items() if there}

    def piece(role: str, part: int) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": texts[role], "type_id": part}}] if ends[role] else []

    first = [*piece("bos", 0), {"Sequence": {"id": "A", "type_id": 0}}, *piece("eos", 0)]
    return {
        "type": "TemplateProcessing",
        "single": first,
        "pair": [*first, {"Sequence": {"id": "B", "type_id": 1}}, *piece("eos", 1)],
        "special_tokens": {text: {"id": text, "ids": [id], "tokens": [text]} for text, id in known.items()},
    }


def _wordpiece_to_json(tokenizer: WordPieceTokenizer) -> dict[str, Any]:
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [vars(token) for token in sorted(tokenizer.added_tokens, key=lambda token: token.id)],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": tokenizer.clean,
            "handle_chinese_chars": tokenizer.chinese,
            "strip_accents": tokenizer.strip_accents,
            "lowercase": tokenizer.lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": _template(tokenizer, True, True),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": tokenizer.roles["unk"],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": tokenizer.longest_word,
            "vocab": {piece: id for id, piece in enumerate(tokenizer.vocabulary)},
        },
    }


def _fallback_to_json(tokenizer: FallbackBPETokenizer) -> dict[str, Any]:
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}
    scheme = {"missing": "always", "first": "first", "never": "never"}.get(tokenizer.prepend)
    before = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": BLANK}, replace]}
    cut = {"type": "Metaspace", "replacement": BLANK, "prepend_scheme": scheme, "split": False}
    back = [{**replace, "pattern": {"String": BLANK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if tokenizer.prepend != "never":
        back.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [vars(token) for token in sorted(tokenizer.added_tokens, key=lambda token: token.id)],
        "normalizer": None if scheme else before,
        "pre_tokenizer": cut if scheme else None,
        "decoder": {"type": "Sequence", "decoders": back},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": tokenizer.roles.get("unk"),
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": tokenizer.vocab,
            "merges": [list(pair) for pair in tokenizer.merges],
        },
    }
