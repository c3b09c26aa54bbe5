"""Read and write byte-level BPE in the file format of Hugging Face's `tokenizers`."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError
from .added_tokens import AddedToken
from .base import DAMAGED
from .normalizer import NORMALIZER
from .pre_tokenizer import PATTERNS

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
#: Features of other tokenizers.
_OF_MODELS = ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
_OF_ADDED_TOKENS = ("single_word", "lstrip", "rstrip")


def bpe_to_json(bpe: Any) -> dict[str, Any]:
    """Return the content of a `tokenizer.json` for a `BPETokenizer`."""
    cutting: dict[str, Any] = _BYTE_LEVEL
    if bpe.pattern != "gpt2":
        expression = {"Regex": PATTERNS[bpe.pattern]}
        split = {"type": "Split", "pattern": expression, "behavior": "Isolated", "invert": False}
        cutting = {"type": "Sequence", "pretokenizers": [split, {**_BYTE_LEVEL, "use_regex": False}]}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": token.id, "content": token.content, **plain, "special": token.special}
        for token in sorted(bpe.added_tokens, key=lambda token: token.id)
    ]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": NORMALIZER if bpe.normalize else None,
        "pre_tokenizer": cutting, "post_processor": None, "decoder": _BYTE_LEVEL,
        "model": {
            "type": "BPE", "dropout": bpe.dropout or None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": bpe.ignore_merges,
            "vocab": bpe.vocab, "merges": [list(pair) for pair in bpe.merges],
        },
    }  # fmt: skip


def bpe_from_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `BPETokenizer` from the content of a `tokenizer.json`."""
    try:
        model, added = data["model"], data.get("added_tokens", [])
        odd = [] if model.get("type", "BPE") == "BPE" else [f"a {model['type']} model"]
        odd += [name for name in _OF_MODELS if model.get(name)]
        odd += [name for name in _OF_ADDED_TOKENS if any(token.get(name) for token in added)]
        normalizer = data.get("normalizer")
        if normalizer not in (None, NORMALIZER):
            odd.append(f"the normalizer {normalizer.get('type')}")
        if len({token.get("normalized", False) for token in added}) > 1:
            odd.append("added tokens that are searched for before others")
        if odd:
            raise InputError(f"The tokenizer file has {odd[0]}, but only plain byte-level BPE is supported.")
        if not all(type(id) is int for id in model["vocab"].values()):
            raise TypeError("an id must be an integer")
        ignore_merges, dropout = model.get("ignore_merges", False), model.get("dropout") or 0.0
        return {
            "vocab": model["vocab"],
            "merges": [_merge(entry) for entry in model["merges"]],
            "added_tokens": _added_tokens(added),
            "ignore_merges": ignore_merges,
            "dropout": dropout,
            "normalize": normalizer is not None,
            "pattern": _pattern(data["pre_tokenizer"]),
        }
    except InputError:
        raise
    except DAMAGED as error:
        raise InputError(
            f"The tokenizer file is not a byte-level BPE tokenizer.json: {type(error).__name__}: {str(error)[:100]}. "
            "Restore a copy, or train the tokenizer again."
        ) from None


def _merge(entry: str | list[str]) -> tuple[str, str]:
    """Split a merge, a list of two parts, or in older files (until 2024) a string, into its parts."""
    left, right = entry.split(" ") if isinstance(entry, str) else entry
    if not isinstance(left, str) or not isinstance(right, str):
        raise TypeError("a merge must consist of two strings")
    return left, right


def _added_tokens(entries: Sequence[Mapping[str, Any]]) -> list[AddedToken]:
    tokens = [AddedToken(entry["id"], entry["content"], entry.get("special", True)) for entry in entries]
    for token in tokens:
        for name, kind in (("id", int), ("content", str), ("special", bool)):
            if type(value := getattr(token, name)) is not kind or value == "":
                raise TypeError(f"{name} of an added token can't be {str(value)[:40]!r}")
    return tokens


def _pattern(pre_tokenizer: Mapping[str, Any]) -> str:
    """Return the name of the pattern by which a file's pre_tokenizer splits text."""
    *splits, last = pre_tokenizer["pretokenizers"] if pre_tokenizer["type"] == "Sequence" else [pre_tokenizer]
    if last["type"] == "ByteLevel" and last.get("add_prefix_space", True) is False:
        if not splits and last.get("use_regex", True) is True:
            return "gpt2"
        for name, expression in PATTERNS.items():
            split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
            if splits == [split] and last.get("use_regex", True) is False:
                return name
    raise InputError(
        "The tokenizer file splits text in an unknown way; only ByteLevel without a prefix space is supported, alone "
        f"or after Split by the pattern {' or '.join(list(PATTERNS)[1:])}."
    )
