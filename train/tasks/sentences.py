"""Split texts into sentences for a translator, which was trained on single sentences and often leaves out the second.

The rules need no model. They know the abbreviations and ordinals of English and German; a wrong cut gives two parts of
a sentence, which are translated one by one.
"""

from collections.abc import Iterable

import regex

_CLOSING, _OPENING = "\"'”“’»«)\\]", "\"'„“‚‘»«(\\[¿¡"
# A mark at the end of a sentence, and closing quotation marks; then blanks and the beginning of another sentence.
_END = regex.compile(
    rf"(?<![.!?…])[.!?…؟۔]++[{_CLOSING}]*+(?=\s++[{_OPENING}]*+[\p{{Lu}}\p{{Lt}}\p{{Lo}}\d])|[。！？।॥]++[」』）”]*+"
)
# What is not translated at the beginning of a line: blanks, and the sign of an entry of a list.
_HEAD = regex.compile(r"\s*+(?:(?:[-–—*•·▪◦‣>]|\(?(?:\d++|\p{L})\))\s++)*+")
_WORDLESS = regex.compile(r"[\p{P}\p{Sm}\s]*")  # such as a line of dashes
_LONGEST = 40  # characters in which two words before a mark are looked for

_ABBREVIATION = regex.compile(
    r"abb|allg|aufl|bd|betr|bspw|bzgl|bzw|ca|dr|evtl|fam|fr|geb|gegr|ggf|hr|hrsg|inkl|jh|kap|mio|mr|mrd|mrs|ms|nr|"
    r"dipl|habil|ing|jur|med|nat|phil|rer|prof|sog|st|std|str|tel|ungef|usf|vgl|vs|ziff|zzgl|approx|capt|col|dept|est|gov|inc|jr|lt|ltd|messrs|pres|rev|"
    r"sgt|sr",
    regex.IGNORECASE,
)
_AFTER_ORDINALS = regex.compile(
    r"\s*(?:Jan|Feb|M[äa]r|Apr|Ma[iy]|Jun|Jul|Aug|Sep|O[kc]t|Nov|De[zc]|Jahrhundert|Klasse|Stock|Platz|Etage)"
)
_BEFORE_ORDINALS = regex.compile(
    r"am|an|ab|bis|dem|den|der|des|die|das|dieser|im|vom|zum|und|seit|oder|erst", regex.IGNORECASE
)


def split_text(text: str) -> list[str]:
    """Return the text in pieces: those at odd indices are sentences, all others are what is between them. Each line
    has its own sentences. `"".join` of the pieces is the text.

    >>> split_text("Am 3. Mai kam Dr. Ohm. Er blieb.")
    ['', 'Am 3. Mai kam Dr. Ohm.', ' ', 'Er blieb.', '']
    """
    pieces = [""]
    for line in text.splitlines(keepends=True):
        start = 0 if _WORDLESS.fullmatch(line) else _HEAD.match(line).end()
        pieces[-1] += line[:start]
        ends = [found.end() for found in _END.finditer(line, start) if not _is_inside(line, found.start())]
        for end in [*ends, len(line)]:
            sentence = line[start:end].strip()
            if _WORDLESS.fullmatch(sentence):
                pieces[-1] += line[start:end]
            else:
                before, _, behind = line[start:end].partition(sentence)
                pieces[-1] += before
                pieces += [sentence, behind]
            start = end
    return pieces


def _is_inside(line: str, mark: int) -> bool:
    """Return whether the mark at this index is no end: it follows an abbreviation, an initial or an ordinal number."""
    words = line[max(0, mark - _LONGEST) : mark].split()
    if line[mark : mark + 2].strip() != "." or not words or line[mark - 1].isspace():
        return False
    word = words[-1].lstrip("\"'„“‚‘»«([")
    if word.isdigit():
        ordinal = len(words) < 2 or _BEFORE_ORDINALS.fullmatch(words[-2]) or _AFTER_ORDINALS.match(line, mark + 1)
        return len(word) <= 2 and bool(ordinal)
    parts = word.split(".")
    letters = all(len(part) == 1 and part.isalpha() for part in parts) and word not in ("I", "a")  # an initial, z.B
    return letters or bool(_ABBREVIATION.fullmatch(parts[-1]))


def join_text(pieces: list[str], translations: Iterable[str]) -> str:
    """Return the text of `split_text` with translations in the places of the sentences."""
    translations = iter(translations)
    return "".join([next(translations) if index % 2 else piece for index, piece in enumerate(pieces)])


_NUMBER = regex.compile(r"\d++(?:[.,:]\d++)*+")
_GROUPS = regex.compile(r"(?<![\d.,:])\d{1,3}(?:[ '’\u00a0\u202f]\d{3})++(?![\d:])(?:[.,]\d++)?+|" + _NUMBER.pattern)
_TIME = regex.compile(r"\s*(?:Uhr\b|o['’]clock|[ap]\.?\s?m\b)")
_MINUTES = regex.compile(r"(?<![\d.:])(\d?\d)[:.]([0-5]\d)(?![\d:])")
_SPELLED = 12  # numbers up to twelve are often written as words


def missing_numbers(source: str, output: str) -> list[str]:
    """Return the numbers above twelve, and those with separators, in `source` that `output` does not have. Separators
    may differ, and so may the hour of a time by twelve, or the whole time if it is written in words.

    >>> missing_numbers("Das Zimmer 723 kostet 1.088,50 Euro.", "The room costs 1,088.50 euros.")
    ['723']
    >>> missing_numbers("Um 14:30 Uhr", "At 1:30 p.m.")
    ['14:30']
    """
    given = {_digits(found[0]) for kind in (_NUMBER, _GROUPS) for found in kind.finditer(output)}
    clock = {(int(hour) % 12, minute) for hour, minute in _MINUTES.findall(output)}
    missing = []
    for found in _GROUPS.finditer(source):
        number, time = found[0], _MINUTES.fullmatch(found[0])
        if _TIME.match(source, found.end()):
            lost = bool(time and clock) and (int(time[1]) % 12, time[2]) not in clock
        else:
            parts = {_digits(number)}, set(regex.findall(r"\d+", number))
            lost = (len(number) > 2 or int(number) > _SPELLED) and not any(map(given.issuperset, parts))
        missing += [number] if lost else []
    return missing


def _digits(number: str) -> str:
    return regex.sub(r"\D", "", number)
