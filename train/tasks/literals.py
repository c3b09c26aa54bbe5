"""What a translation must keep as it is: numbers, addresses, codes and names. A translator often loses or changes them,
but copies `STAND_INS`, which can be put in their places before the translation and replaced after it.
"""

from collections import Counter

import regex

_NUMBER = regex.compile(r"\d++(?:[.,:]\d++)*+")
_GROUPS = regex.compile(r"(?<![\d.,:])\d{1,3}(?:[ '’\u00a0\u202f]\d{3})++(?![\d:])(?:[.,]\d++)?+|" + _NUMBER.pattern)
_TIME = regex.compile(r"\s*(?:Uhr\b|o['’]clock|[ap]\.?\s?m\b)")
_MINUTES = regex.compile(r"(?<![\d.:])(\d?\d)[:.]([0-5]\d)(?![\d:])")
_TIME_WORDS = regex.compile(r"\b(?:half|quarter|past|halb|viertel)", regex.IGNORECASE)
_SIGNS = {"$": r"\$|dollar|usd", "£": "£|pound|pfund|gbp", "€": "€|euro?|cent", "%": "%|per ?cent|prozent"}
_SPELLED = 12  # numbers up to twelve are often written as words

#: Copied letter by letter: addresses of pages, mail and houses, file names, `code`, dates, telephone numbers, codes
#: with digits (B27, LH 452), amounts (250 g, 1½, 75 m²), bank accounts, emoji, and names after a title.
_COPIED = r"""
    \b\p{Lu}\p{Lu}\d\d(?:\ ?\d{4}){3,}(?:\ ?\d{1,3})?\b  |
    \p{Extended_Pictographic}[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f\u200d]*  |
    (?:\w+://|www\.)[^\s<>"]*[\w/]  |  \w[\w.+-]*@[\w-]+(?:\.\w+)+  |  `[^`]+`
  | (?<![\w./])\p{L}[\w-]+(?:\.\p{Ll}[\w-]+)+(?:/[\w./-]*\w)?
  | (?<![\w.,])(?:[12]?\d|0\d|3[01])\.(?:1[0-2]|0?\d)\.(?:\d{4}|\d\d)?(?!,?\d)
  | (?<![\w.,:])(?:\+\d[\d ()/-]{6,}\d|\d+(?:\s?[/-]\s?\d+)+(?:[ ]\d{2,})*|0\d{2,}(?:\ \d{2,})*)(?![\w.,:]\d)
  | \p{Lu}[\p{L}-]*(?:str\.|straße|weg|platz|allee|gasse)\ \d+[a-z]?\b
  | \b\d+[a-z]?\ (?:\p{Lu}\p{L}+\ ){1,3}(?:Street|St\.|Road|Rd\.|Avenue|Ave\.|Lane|Drive)(?!\w)
  | (?<![\w-])(?:\p{Lu}{1,3}\ \d{2,}(?![.,:]?\d)|\p{Lu}[\p{L}-]*\d[\w-]*\w|\p{Lu}\d|\d+[a-f])(?![\w.,:]?\w)
  | (?<![\w.,:])\d+\s?(?:m?g|[cdm]l|[GMk]B)\b
  | (?:€|EUR|USD|CHF|GBP)\s?\d+(?:[.,]\d+)* | \d+(?:[.,]\d+)*\s?(?:€|(?:EUR|USD|CHF|GBP)\b)
  | \d*[½⅓⅔¼¾⅛] | (?<![\w.,:])\d+(?:[.,]\d+)*\s?[kcm]?m[²³]
  | \A\d{5}\ \p{Lu}[\p{L}\ -]+\Z
  | (?<=\b(?:Herrn?|Frau|Familie|Fam\.|Mr\.?|Mrs\.?|Ms\.?|Miss)\s(?:Dr\.\s)?)
    (?!(?:Dr|Prof|Doktor|Präsident|Direktor|Minister|Lehrer|Kollege|President|Teacher)(?:in)?\b)\p{Lu}[\p{L}-]+\p{Ll}
"""
_LITERAL = regex.compile(rf"(?P<copied>{_COPIED})|(?<![\w.,:])\d{{2,4}}(?![\w:]|\.\s?\p{{L}}|[.,]?\d)", regex.VERBOSE)
#: Sets of stand-ins: those of numbers by their digits, and under 0 those of literals and of other numbers.
STAND_INS: tuple[dict[int, str], ...] = (
    {0: "X1 X2 X3 X4 X5 X6 X7 X8 X9", 2: "20 30 40 50 60 70", 3: "200 300 400 500 600", 4: "1990 2010 1980 2020"},
    {0: "X1 X2 X3 X4 X5 X6 X7 X8 X9"},
    {0: "X7 X5 X9 X3 X4 X6 X2", 2: "30 50 40 60 80", 3: "300 500 400 800", 4: "1995 2005 1985 2015"},
)


def literals(text: str) -> list[str]:
    """Return the parts of a text that are copied letter by letter, such as addresses. A text in capitals has none."""
    return [] if text.isupper() else [found[0] for found in _LITERAL.finditer(text) if found["copied"]]


def without_literals(text: str) -> str:
    """Return a text without its literals."""
    return text if text.isupper() else _LITERAL.sub(lambda found: "" if found["copied"] else found[0], text)


def with_stand_ins(text: str, names: dict[int, str]) -> tuple[str, dict[str, str]]:
    """Return a text with stand-ins for its literals and plain numbers, and the literal of each stand-in. `names` is one
    of `STAND_INS`.

    >>> with_stand_ins("Zimmer 723 kostet 88 Euro, siehe www.x.de/a.", STAND_INS[0])
    ('Zimmer 200 kostet 20 Euro, siehe X1.', {'200': '723', '20': '88', 'X1': 'www.x.de/a'})
    """
    free = {digits: [own for own in those.split() if own not in text] for digits, those in names.items()}
    chosen: dict[str, str] = {}

    def replaced(found: "regex.Match[str]") -> str:
        own = (not found["copied"] and free.get(len(found[0]))) or free[0]
        if not own or not (found["copied"] or int(found[0]) > _SPELLED):
            return found[0]
        chosen[own[0]] = found[0]
        return own.pop(0)

    return (text if text.isupper() else _LITERAL.sub(replaced, text)), chosen


def without_stand_ins(text: str, chosen: dict[str, str]) -> str:
    """Return a translation with the literals in the places of their stand-ins, or "" if it lacks one of these."""
    for name, literal in chosen.items():
        text, count = regex.subn(rf"(?<![\w.,:]){name}(?!\w|[.,:]\d)", lambda _, own=literal: own, text, flags=regex.I)
        if count != 1:
            return ""
    return text


def missing(source: str, output: str) -> list[str]:
    """Return the literals, signs and numbers (`missing_numbers`) in `source` that `output` does not have."""
    lost = [literal for literal in literals(source) if not regex.search(r"(?<!\w)\L<it>(?!\w)", output, it=[literal])]
    lost += _missing_signs(source, output)
    return lost + missing_numbers(without_literals(source), f"{output} {without_literals(output)}")


def disagreement(source: str, output: str) -> int:
    """Return how many literals, signs and numbers `output` lacks, or has in excess."""
    counts = [Counter(map(_digits, _NUMBER.findall(text))) for text in (output, source)]
    repeated = sum(max(count - max(counts[1][number], 1), 0) for number, count in counts[0].items())
    excess = _missing_signs(output, source) + missing_numbers(output, source, 0)
    return len(missing(source, output)) + len(excess) + repeated


def _missing_signs(source: str, output: str) -> list[str]:
    return [sign for sign, words in _SIGNS.items() if sign in source and not regex.search(words, output, regex.I)]


def missing_numbers(source: str, output: str, spelled: int = _SPELLED) -> list[str]:
    """Return the numbers above `spelled`, and those with separators, in `source` that `output` does not have.
    Separators may differ, and so may the hour of a time by twelve, or the whole time if it is written in words.

    >>> missing_numbers("Das Zimmer 723 kostet 1.088,50 Euro.", "The room costs 1,088.50 euros.")
    ['723']
    >>> missing_numbers("Um 14:30 Uhr", "At 1:30 p.m.")
    ['14:30']
    """
    given = {_digits(found[0]) for kind in (_NUMBER, _GROUPS) for found in kind.finditer(output)}
    clock = {(int(hour) % 12, minute) for hour, minute in _MINUTES.findall(output)}
    lost = []
    for found in _GROUPS.finditer(source):
        number, time = found[0], _MINUTES.fullmatch(found[0])
        if _TIME.match(source, found.end()):
            in_words = not time or (not clock and (time[2] == "00" or _TIME_WORDS.search(output)))
            is_lost = not in_words and (int(time[1]) % 12, time[2]) not in clock
        else:
            parts = {_digits(number)}, set(regex.findall(r"\d+", number))
            is_lost = (len(number) > 2 or int(number) > spelled) and not any(map(given.issuperset, parts))
        lost += [number] if is_lost else []
    return lost


def _digits(number: str) -> str:
    return regex.sub(r"\D", "", number)
