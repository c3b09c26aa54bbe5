"""Normalise texts, so that the spellings of a text that look the same get the same token ids.

The steps have the purpose of SentencePiece's rule nmt_nfkc (Kudo and Richardson 2018, arXiv 1808.06226): a letter and
its accent become one character (NFKC), ligatures and full-width forms become plain letters, characters without a
picture are removed, white space becomes single blanks, and none is left at both ends. An acute accent that is typed as
an apostrophe becomes one; NFKC would make a blank of it. In scripts that need them, zero-width joiners remain.
"""

import unicodedata
from typing import Any

import regex

_BLANKS = r"[\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
_HIDDEN = r"\u0000-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e"
_HIDDEN += r"\u2060-\u2064\u2066-\u206f\ufeff"
_REMOVED = rf"(?<=\p{{Latin}})[\u200c\u200d{_HIDDEN}]+|[{_HIDDEN}]"
_FIND_BLANKS, _FIND_REMOVED = regex.compile(_BLANKS), regex.compile(_REMOVED)

#: The same steps in a `tokenizer.json` of Hugging Face's tokenizers.
NORMALIZER: dict[str, Any] = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Replace", "pattern": {"String": "´"}, "content": "'"},
        {"type": "NFKC"},
        {"type": "Replace", "pattern": {"Regex": _REMOVED}, "content": ""},
        {"type": "Replace", "pattern": {"Regex": _BLANKS}, "content": " "},
        {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "NFC"},
    ],
}


def normalized(text: str) -> str:
    """Return the text without invisible characters, with single blanks, and in the normal form NFKC."""
    visible = text.isprintable() and "  " not in text and text[:1] != " " != text[-1:]
    if visible and (text.isascii() or ("´" not in text and unicodedata.is_normalized("NFKC", text))):
        return text  # the usual case, without a regular expression
    text = unicodedata.normalize("NFKC", text.replace("´", "'"))
    text = _FIND_BLANKS.sub(" ", _FIND_REMOVED.sub("", text)).strip(" ")
    return unicodedata.normalize("NFC", text)
