"""Split texts into sentences for a translator, which was trained on single sentences and often leaves out the second.

The rules need no model. They know the abbreviations and ordinals of English and German; a wrong cut gives two parts of
a sentence, which are translated one by one.
"""

from collections.abc import Callable, Iterable

import regex

from .literals import without_literals

_CLOSING, _OPENING = "\"'”“’»«)\\]", "\"'„“‚‘»«(\\[¿¡"
# A mark at the end of a sentence, and closing quotation marks; then blanks and the beginning of another sentence.
_END = regex.compile(
    rf"(?<![.!?…])[.!?…؟۔]++[{_CLOSING}]*+(?=\s++[{_OPENING}]*+[\p{{Lu}}\p{{Lt}}\p{{Lo}}\d])|[。！？।॥]++[」』）”]*+"
)
_ORDINAL = r"\s*(?:Jan|Feb|M[äa]r|Apr|Ma[iy]|Jun|Jul|Aug|Sep|O[kc]t|Nov|De[zc]|Jahrhundert|Klasse|Stock|Platz|Etage)"
# What is not translated at the beginning of a line: blanks, the sign of an entry of a list, and marks of Markdown, of
# HTML and of a postscript, and emoji. At its end, marks of Markdown and HTML, and emoji.
_EMOJI = r"[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f\u200d]"
_TAG = rf"</?+[a-zA-Z][^<>]*+>|\*\*|{_EMOJI}|!?\[(?=[^\]]*+\]\()|\]\([^()\s]*+\)"
_MARK = rf"[-–—*•·▪◦‣>]|#{{1,6}}|\(?(?:\d++|\p{{L}})\)|\d{{1,2}}\.(?!{_ORDINAL})|\[[ xX]\]|P\.?\s?S[.:]++"
_HEAD = regex.compile(rf"\s*+(?:(?:(?:{_MARK})\s++)|(?:{_TAG})\s*+)*+")
_INNER = regex.compile(r"</?[a-zA-Z][^<>]*+>|\*\*|__")
_TAIL = regex.compile(rf"(?:{_TAG}|\s)*+$")
_LETTER = regex.compile(r"\p{L}")  # nothing else is translated
_LONGEST = 40  # characters in which two words before a mark are looked for, and of a line that may be filled
_ENDED = regex.compile(rf"[.!?:…][{_CLOSING}]*\s*$")
_FEED = r"[ \t]*\r?\n[ \t]*"
_BLANKS = regex.compile(r"\s+")
_CLAUSE = regex.compile(
    r"(?<=[,;:])\s+|\s+(?=[-–—(])|\s+(?=(?:und|oder|aber|denn|weil|dass|wenn|and|or|but|because|that|which|who|when)\b)"
)

_ABBREVIATION = regex.compile(
    r"\w*str|abb|allg|aufl|bd|betr|bspw|bzgl|bzw|ca|dr|evtl|fam|fr|geb|gegr|ggf|hr|hrsg|inkl|jh|kap|mio|mr|mrd|mrs|ms|nr|"
    r"dipl|habil|ing|jur|med|nat|phil|rer|prof|sog|st|std|tel|ungef|usf|vgl|vs|ziff|zzgl|approx|capt|col|dept|est|gov|inc|jr|lt|ltd|messrs|pres|rev|"
    r"sgt|sr",
    regex.IGNORECASE,
)
_BEFORE_NUMBERS = regex.compile(r"(?i:no|art|abs|pp?|vol|fig|jan|feb|mar|apr|aug|sept?|o[ck]t|nov|de[cz])")
_BEFORE_ORDINALS = regex.compile(
    r"am|an|ab|bis|dem|den|der|des|die|das|dieser|im|vom|zum|und|seit|oder|erst", regex.IGNORECASE
)


def split_text(text: str) -> list[str]:
    """Return the text in pieces: those at odd indices are sentences, all others are what is between them. `"".join` of
    the pieces is the text.

    A sentence ends with its line, unless the line is filled or the next one goes on with a small letter (`_joined`).

    >>> split_text("Am 3. Mai kam Dr. Ohm. Er blieb.")
    ['', 'Am 3. Mai kam Dr. Ohm.', ' ', 'Er blieb.', '']
    """
    pieces = [""]
    for line in _joined(text):
        start, stop = _HEAD.match(line).end(), _TAIL.search(line).start()
        ends = [found.end() for found in _END.finditer(line, start) if not _is_inside(line, found.start())]
        pieces[-1] += line[:start]
        for end in [*(end for end in ends if end < stop), max(start, stop)]:
            sentence = line[start:end].strip()
            if _LETTER.search(without_literals(sentence)):
                before, _, behind = line[start:end].partition(sentence)
                pieces[-1] += before
                pieces += [sentence, behind]
            else:
                pieces[-1] += line[start:end]
            start = end
        pieces[-1] += line[start:]
    return pieces


def _joined(text: str) -> list[str]:
    """Return the lines of a text, with their line ends. Lines are joined if the first word of one would not have fitted
    in the line before, or a line of three words begins with a capital and the next one with a small letter.
    """
    lines: list[str] = []
    last = ""
    given = text.splitlines(keepends=True)
    width = max(map(len, given), default=0)
    for line in given:
        words, before = line.split(), last.split()
        begins = words and not regex.match(rf"\s*(?:{_MARK})\s", line)
        first = _HEAD.sub("", lines[-1], 1)[:1] if lines else ""
        goes_on = begins and len(before) > 2 and words[0][0].islower() and not first.islower()
        filled = begins and _LONGEST < 0.9 * width < len(last) + len(words[0]) + 1
        if (goes_on or filled) and last.endswith("\n") and not _ENDED.search(last):
            lines[-1] += line
        else:
            lines.append(line)
        last = line
    return lines


def _is_inside(line: str, mark: int) -> bool:
    """Return whether the mark at this index is no end: it follows an abbreviation, an initial or an ordinal number."""
    words = line[max(0, mark - _LONGEST) : mark].split()
    if line[mark : mark + 2].strip() != "." or not words or line[mark - 1].isspace():
        return False
    if _BEFORE_NUMBERS.fullmatch(words[-1]) and line[mark + 1 :].lstrip()[:1].isdigit():
        return True
    word = words[-1].lstrip("\"'„“‚‘»«([")
    if word.isdigit():
        begins = len(words) < 2 or _BEFORE_ORDINALS.fullmatch(words[-2])
        return len(word) <= 2 and bool(begins or regex.match(_ORDINAL, line[mark + 1 :]))
    parts = word.split(".")
    letters = all(len(part) == 1 and part.isalpha() for part in parts) and word not in ("I", "a")  # an initial, z.B
    return letters or bool(_ABBREVIATION.fullmatch(parts[-1]))


def clauses(sentence: str, fits: Callable[[str], bool], cuts: "regex.Pattern[str]" = _CLAUSE) -> list[str]:
    """Return a sentence in pieces, of which those at odd indices fit, and all others are the blanks between them. It is
    cut at its clauses, and a clause that does not fit between words.
    """
    pieces = ["", ""]
    start = 0
    for cut in [*cuts.finditer(sentence), None]:
        clause = sentence[start : cut.start() if cut else len(sentence)]
        if pieces[-1] and not fits(pieces[-1] + clause):
            part = pieces.pop()
            pieces += [part.rstrip(), part[len(part.rstrip()) :], ""]
        pieces[-1] += clause + (cut[0] if cut else "")
        start = cut.end() if cut else start
    if cuts is not _BLANKS:
        for index in range(len(pieces) - 1, 0, -2):
            if not fits(pieces[index]):
                pieces[index : index + 1] = clauses(pieces[index], fits, _BLANKS)[1:-1]
    return [*pieces, ""]


def as_one_line(sentence: str) -> str:
    """Return a sentence of `split_text` without its line ends, the hyphens of words that were divided there, and marks
    of HTML and Markdown.
    """
    sentence = _INNER.sub("", sentence)
    return regex.sub(_FEED, " ", regex.sub(rf"-{_FEED}(?=\p{{Ll}})|(?<=-){_FEED}", "", sentence))


def join_text(pieces: list[str], translations: Iterable[str]) -> str:
    """Return the text of `split_text` with translations in the places of the sentences. A translation has the line ends
    of its sentence, at those blanks that divide it most nearly as they did.
    """
    translations = iter(translations)
    return "".join([_in_lines(piece, next(translations)) if i % 2 else piece for i, piece in enumerate(pieces)])


def _in_lines(sentence: str, translation: str) -> str:
    behind = ""
    for end in reversed([*regex.finditer(_FEED, sentence)] if "\n" in sentence else []):
        wanted = end.start() / len(sentence) * (len(translation) + len(behind))
        blanks = [blank.start() for blank in regex.finditer(" ", translation)] or [len(translation)]
        place = min(blanks, key=lambda blank: abs(blank - wanted))
        translation, behind = translation[:place], end[0] + translation[place + 1 :] + behind
    return translation + behind
