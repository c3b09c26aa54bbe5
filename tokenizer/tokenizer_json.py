"""Read and write byte-level BPE in the file format of Hugging Face's `tokenizers`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import regex

from ..errors import InputError
from .added_tokens import AddedToken
from .base import DAMAGED
from .pre_tokenizer import PATTERNS

if TYPE_CHECKING:
    from .bpe import BPETokenizer

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def bpe_to_json(bpe: "BPETokenizer", expression: str) -> dict[str, Any]:
    """Return the content of a `tokenizer.json` for a tokenizer that splits texts by this regular expression."""
    byte_level = {**_BYTE_LEVEL, "add_prefix_space": bpe.add_prefix_space}
    if bpe.pattern == "gpt2":
        cutting: dict[str, Any] = byte_level
    else:
        split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
        cutting = {"type": "Sequence", "pretokenizers": [split, {**byte_level, "use_regex": False}]}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": token.id, "content": token.content, **plain, "special": token.special}
        for token in sorted(bpe.added_tokens, key=lambda token: token.id)
    ]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": cutting, "post_processor": None, "decoder": _BYTE_LEVEL,
        "model": {
            "type": "BPE", "dropout": bpe.dropout or None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": bpe.ignore_merges,
            "vocab": bpe.vocab, "merges": [list(pair) for pair in bpe.merges],
        },
    }  # fmt: skip


def bpe_from_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `BPETokenizer` from the content of a `tokenizer.json`. Raises InputError if the file is
    damaged, or needs a feature that this byte-level BPE does not have.
    """
    try:
        model = data["model"]
        if model.get("type", "BPE") != "BPE":
            raise InputError(
                f"The tokenizer file contains a {model['type']} model, but only byte-level BPE is supported."
            )
        for name in ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
            if model.get(name):
                raise InputError(f"The tokenizer file sets {name}, but only plain byte-level BPE is supported.")
        if data.get("normalizer") is not None:
            raise InputError(
                f"The tokenizer file normalises text ({data['normalizer'].get('type')}); only files without a "
                "normalizer can be read, because with others decoding does not give the text back."
            )
        if not all(type(id) is int for id in model["vocab"].values()):
            raise TypeError("an id must be an integer")
        ignore_merges, dropout = model.get("ignore_merges", False), model.get("dropout") or 0.0
        if not isinstance(ignore_merges, bool) or type(dropout) not in (int, float):
            raise TypeError("ignore_merges must be true or false, and dropout must be a number")
        return {
            "vocab": model["vocab"],
            "merges": [_merge(entry) for entry in model["merges"]],
            "added_tokens": _added_tokens(data.get("added_tokens", [])),
            "ignore_merges": ignore_merges,
            "dropout": dropout,
            **_pre_tokenizer_from_json(data.get("pre_tokenizer")),
        }
    except InputError:
        raise
    except DAMAGED as error:
        raise InputError(
            f"The tokenizer file is not a byte-level BPE tokenizer.json: {type(error).__name__}: {str(error)[:100]}. "
            "Restore a copy, or train the tokenizer again."
        ) from None


def _merge(entry: str | list[str]) -> tuple[str, str]:
    """Split a merge into its two parts.
    Older files (until 2024) contain a string with a blank between the parts, newer files contain a list.
    """
    left, right = entry.split(" ") if isinstance(entry, str) else entry
    if not isinstance(left, str) or not isinstance(right, str):
        raise TypeError("a merge must consist of two strings")
    return left, right


def _added_tokens(entries: Sequence[Mapping[str, Any]]) -> list[AddedToken]:
    for name in ("single_word", "lstrip", "rstrip"):
        if any(entry.get(name) for entry in entries):
            raise InputError(
                f"The tokenizer file has an added token with {name}, but only plain added tokens are supported."
            )
    if len({entry.get("normalized", False) for entry in entries}) > 1:
        raise InputError(
            "The tokenizer file searches for some added tokens before others, but only one search for all is supported."
        )
    tokens = [AddedToken(entry["id"], entry["content"], entry.get("special", True)) for entry in entries]
    for token in tokens:
        for name, kind in (("id", int), ("content", str), ("special", bool)):
            if type(value := getattr(token, name)) is not kind or value == "":
                raise TypeError(f"{name} of an added token can't be {str(value)[:40]!r}")
    return tokens


def _pre_tokenizer_from_json(value: Mapping[str, Any] | None) -> dict[str, Any]:
    if value is None:
        raise InputError("The tokenizer file has no pre_tokenizer, but only byte-level BPE is supported.")
    steps = value["pretokenizers"] if value["type"] == "Sequence" else [value]
    splits, last = steps[:-1], steps[-1]
    if last["type"] != "ByteLevel" or len(splits) > 1 or (splits and last.get("use_regex", True)):
        kinds = " then ".join(step["type"] for step in steps)
        raise InputError(
            f"The tokenizer file splits text by {kinds}, but only ByteLevel, or Split and then ByteLevel, is supported."
        )
    pattern = PATTERNS["gpt2"]
    if splits:
        pattern = _split_pattern(splits[0])
    elif not last.get("use_regex", True):
        pattern = r"(?s:.+)"
    add_prefix_space = last.get("add_prefix_space", True)
    if not isinstance(add_prefix_space, bool) or not isinstance(pattern, str):
        raise TypeError("add_prefix_space must be true or false, and the pattern must be a string")
    return {"pattern": pattern, "add_prefix_space": add_prefix_space}


def _split_pattern(step: Mapping[str, Any]) -> str:
    if step["type"] != "Split" or (step["behavior"], step["invert"]) not in {("Isolated", False), ("Removed", True)}:
        raise InputError(
            f"The tokenizer file splits text by {step['type']} ({step.get('behavior')}), but only Split with the "
            "behaviour Isolated is supported."
        )
    ((kind, text),) = step["pattern"].items()
    return regex.escape(text) if kind == "String" else text
