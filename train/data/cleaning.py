"""Removes unsuitable sentence pairs and counts the reasons. Also undoes Moses tokenisation and makes Title Case."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

Pair = tuple[str, str]

_FIRST_LETTER = re.compile(r"(?<!\w)(?<!\w['’])[^\W\d_]")


@dataclass
class Cleaned:
    """The pairs that were kept, in order, and the number of dropped pairs for each reason."""

    pairs: list[Pair]
    dropped: dict[str, int] = field(default_factory=dict)

    def note(self) -> str:
        """Return a sentence about the dropped pairs, or "" if there are none."""
        if not self.dropped:
            return ""
        total = sum(self.dropped.values())
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items())
        return f"Clean-up dropped {total:,} of {total + len(self.pairs):,} pairs: {reasons}."


def clean_pairs(
    pairs: Iterable[Pair], *, max_words: int = 200, max_ratio: float = 3.0, min_letters: float = 0.5
) -> Cleaned:
    """Return the pairs without those that are useless or harmful for training. One reason is counted per dropped pair.

    Args:
        max_words: maximum number of words in a source or target.
        max_ratio: maximum ratio of the lengths of source and target, in characters. A difference of up to 20 characters
            is always allowed, for pairs such as "Ja." and "Yes, I do.".
        min_letters: minimum fraction of letters and blanks in a source or target. Tables and mark-up have fewer.
    """
    cleaned, seen = Cleaned([]), set()
    for pair in pairs:
        reason = _reason(pair, max_words, max_ratio, min_letters) or ("repeated" if pair in seen else "")
        if reason:
            cleaned.dropped[reason] = cleaned.dropped.get(reason, 0) + 1
        else:
            seen.add(pair)
            cleaned.pairs.append(pair)
    return cleaned


def _reason(pair: Pair, max_words: int, max_ratio: float, min_letters: float) -> str:
    source, target = (side.strip() for side in pair)
    if not source or not target:
        return "with an empty side"
    if source.casefold() == target.casefold() and len(source.split()) > 2:  # the same name can be a translation
        return "not translated"
    if "\N{REPLACEMENT CHARACTER}" in source + target or any(
        unicodedata.category(c) == "Cc" and c != "\t" for c in source + target
    ):
        return "with broken characters"
    if max(len(source.split()), len(target.split())) > max_words:
        return f"longer than {max_words} words"
    short, long = sorted((len(source), len(target)))
    if long > max_ratio * short and long - short > 20:
        return f"with lengths {max_ratio:g} times apart"
    if min(map(_letters, (source, target))) < min_letters:
        return "with few letters"
    return ""


def _letters(text: str) -> float:
    """Return the fraction of letters, combining marks and blanks in a text."""
    return sum(unicodedata.category(c)[0] in "LMZ" for c in text) / len(text)


def detokenized(text: str) -> str:
    """Return a text without the blanks and escapes that the Moses tokeniser has added.

    >>> detokenized('He said : &quot; Don &apos;t ( ever ) ! &quot;')
    'He said: "Don\\'t (ever)!"'
    """
    text = " ".join(html.unescape(text).split())
    text = re.sub(r'" ([^"]*?) ?"', r'"\1"', text)
    text = re.sub(r" (?=[,;:.!?)\]%]|'(?:s|t|re|ve|m|ll|d)\b)|(?<=[(\[]) ", "", text)
    return text


def title_case(text: str) -> str:
    """Return the text with the first letter of every word in upper case, as in many headlines.

    >>> title_case("they don't say what the GOP's e-mails cost")
    "They Don't Say What The GOP's E-Mails Cost"
    """
    return _FIRST_LETTER.sub(lambda found: found[0].title(), text)
