"""A tokenizer of single characters, with a clean-up of texts that reduces the number of different characters."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence

from .base import SPECIAL_TOKENS
from .vocabulary import VocabularyTokenizer

# The characters that a language model of English and German books needs.
DEFAULT_ALPHABET = "\n " + string.ascii_letters + string.digits + "!\"#$%&'()*+,-./:;=?@[]_" + "ÄÖÜäöüß"

# Each mark gets one form. A small model would have to learn typographic variants one by one.
_SAME = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′`´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        "…": "...",
        **dict.fromkeys("\t\xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))), " "),
        **dict.fromkeys("\r\v\f\x85\u2028\u2029", "\n"),
        **dict.fromkeys("\xad\u200b\u200c\u200d\u2060\ufeff", None),  # soft hyphen and zero-width characters
    }
)


def clean_text(text: str, alphabet: str = DEFAULT_ALPHABET) -> str:
    """Replace or remove the characters of `text` that are not in `alphabet`.

    The variants of each quotation mark, dash and white-space character are replaced by one character, and line ends by
    a line feed. Then runs of blanks become one blank, runs of empty lines become one empty line, and blanks at the end
    of a line are removed. A character outside the alphabet is replaced by its plain letters (`é` by `e`, `ﬁ` by `fi`),
    or removed if the alphabet does not contain them. Characters of the alphabet, including typographic marks, are
    unchanged.
    """
    text = unicodedata.normalize("NFC", text.replace("\r\n", "\n"))
    text = text.translate({code: mark for code, mark in _SAME.items() if chr(code) not in alphabet})
    outside = set(text) - set(alphabet)
    text = text.translate({ord(character): _in_letters(character, alphabet) for character in outside})
    text = re.sub(" *\n", "\n", re.sub("  +", " ", text))
    return re.sub("\n{3,}", "\n\n", text)


def without_special(text: str, alphabet: str = DEFAULT_ALPHABET) -> str:
    """Return `text` without the characters that `clean_text` would transliterate or remove.

    >>> without_special("Kōsaku – “Ksaku”")
    'Ksaku – “Ksaku”'
    """
    text = unicodedata.normalize("NFC", text)
    special = {ord(character) for character in set(text) - set(alphabet)} - _SAME.keys()
    return text.translate(dict.fromkeys(special))


def is_cleaned(text: str) -> bool:
    """Return whether a language model reads this text cleaned: `clean_text` changes at most 1 % of its characters, not
    counting white space and typographic marks. A text of another alphabet would lose its words.
    """
    return len(without_special(text)) >= 0.99 * len(unicodedata.normalize("NFC", text))


def lost_characters(text: str, alphabet: str = DEFAULT_ALPHABET) -> Counter[str]:
    """Count the characters that `clean_text` removes without a replacement."""
    text = unicodedata.normalize("NFC", text)
    known = {*alphabet, *map(chr, _SAME)}
    lost = {character for character in set(text) - known if not _in_letters(character, alphabet)}
    return Counter(filter(lost.__contains__, text)) if lost else Counter()


def _in_letters(character: str, alphabet: str) -> str:
    """Return the plain letters of an accented letter or a ligature, or "" if one of them is not in the alphabet."""
    parts = unicodedata.normalize("NFKD", character)
    letters = "".join(part for part in parts if not unicodedata.combining(part))
    return letters if all(letter in alphabet for letter in letters) else ""


class CharacterTokenizer(VocabularyTokenizer):
    """A tokenizer with one token for each character.

    Args:
        vocabulary: the characters, without the special tokens.
        special_tokens: special tokens, which get the first ids.
        alphabet: the characters to which `clean_text` reduces texts; None means no clean-up.

    Raises InputError if a character occurs twice.
    """

    kind = "character"
    in_order = True
    settings = ("alphabet",)

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        special_tokens: Sequence[str] = SPECIAL_TOKENS,
        alphabet: str | None = DEFAULT_ALPHABET,
    ) -> None:
        super().__init__(vocabulary, special_tokens=special_tokens)
        self.alphabet = alphabet

    def split(self, text: str) -> list[str]:
        return list(text if self.alphabet is None else clean_text(text, self.alphabet))

    def join(self, units: list[str]) -> str:
        return "".join(units)
