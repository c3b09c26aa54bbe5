"""Split a text into words, numbers, punctuation and white space. BPE merges only within these pieces."""

from collections.abc import Callable

import regex

from ..errors import InputError

# Each pattern matches every character of any text, so its matches, joined, give the text. A blank that does not follow
# white space always begins a match.
# gpt2: Radford et al. 2019. gpt4: the pattern published with OpenAI's cl100k_base, without its possessive quantifiers,
# which affect only its speed. whitespace: words between white space, each with the blank before it.
PATTERNS = {
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "gpt4": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "whitespace": r" ?\S+|\s+(?!\S)|\s+",
}

# The characters that \s matches; str.isspace is true for four more control characters.
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"


#: Splits a text into pieces, none of them empty.
Splitter = Callable[[str], list[str]]


def splitter(pattern: str = "gpt2") -> Splitter:
    """Return the function that splits texts by a pattern of `PATTERNS`. Raises InputError for another pattern."""
    if pattern not in PATTERNS:
        raise InputError(f"The pattern {str(pattern)[:60]!r} is not one of {', '.join(PATTERNS)}. Choose one.")
    return regex.compile(PATTERNS[pattern]).findall
