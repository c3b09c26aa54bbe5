"""Split a text into words, numbers, punctuation and white space. BPE merges only within these pieces."""

from collections.abc import Callable

import regex

from ..errors import InputError

# Each pattern matches every character of any text, so its matches, joined, give the text.
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


class PreTokenizer:
    """A splitter of texts by a regular expression. The pieces are the matches and the text between matches.

    Args:
        pattern: a name of `PATTERNS`, or a regular expression in the syntax of the `regex` package. Hugging Face's
            engine (Oniguruma) treats most expressions in the same way. Differences, such as \\w for rare characters,
            are partly due to different versions of Unicode.

    Raises InputError if the regular expression is empty or can't be compiled.
    """

    def __init__(self, pattern: str = "gpt2") -> None:
        if not pattern:
            raise InputError(f"The pattern is empty: give {', '.join(PATTERNS)} or a regular expression.")
        names = {expression: name for name, expression in PATTERNS.items()}
        self.pattern = names.get(pattern, pattern)
        try:
            self._expression = regex.compile(PATTERNS.get(pattern, pattern))
        except (regex.error, RecursionError, OverflowError) as error:
            raise InputError(
                f"The pattern {pattern[:60]!r} is not a regular expression: {error}. Give {', '.join(PATTERNS)} or an "
                "expression in the syntax of the regex package."
            ) from None
        covers_all = self.pattern in PATTERNS
        # The pieces of a text, none of them empty; joined they give the text.
        self.split: Callable[[str], list[str]] = self._expression.findall if covers_all else self._matches_and_gaps
        # True if the text can be split before each blank that does not follow white space: no word has such a blank
        # after its first character, and no match depends on the text on the other side.
        self.begins_words_at_blanks = covers_all

    @property
    def expression(self) -> str:
        """The regular expression."""
        return self._expression.pattern

    def _matches_and_gaps(self, text: str) -> list[str]:
        pieces = []
        end = 0
        for match in self._expression.finditer(text):
            pieces += [text[end : match.start()], match.group()]
            end = match.end()
        pieces.append(text[end:])
        return [piece for piece in pieces if piece]
