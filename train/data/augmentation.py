"""Makes more German-English training pairs: changes names, numbers and the case, and joins sentences.

The changed pairs teach a small model to copy unknown words, such as names, amounts and times. Each change is made in
both languages, so the pairs remain translations of each other. A seed determines all random choices.
"""

import re
from random import Random

from .files import Pair, read_tables

_TABLES = read_tables(__file__, "grammar/names.txt")
MEN, WOMEN, SURNAMES, CITIES, SYLLABLES = (
    " ".join(row[0] for row in _TABLES[name]).split() for name in ("men", "women", "surnames", "cities", "syllables")
)
_OTHERS = {
    kind: [(name, name) for name in names]
    for kind, names in (("men", MEN), ("women", WOMEN), ("surnames", SURNAMES), ("cities", CITIES))
}
_OTHERS["cities"] = [(german, english) for german, english in _TABLES["foreign"]] + _OTHERS["cities"]
#: Maps each (German, English) name in the sentences to the names that can replace it.
NAMES = {(german, english): _OTHERS[kind] for german, english, kind in _TABLES["replaced"]}

DIGITS = re.compile(r"(?<![\w.,:-])\d+(?:[.,:]\d+)*(?![\w-]|\. \w)")  # without ordinals
SPELLED = dict(_TABLES["numbers"])
NUMBER = re.compile(rf"\d|\b({'|'.join(SPELLED)})\b")
#: First words of clauses that can follow a conjunction with a small letter, in German and in English.
OPENINGS = {(german, english) for german, english in _TABLES["openings"]}
CONJUNCTIONS = [("und", "and"), ("aber", "but"), ("denn", "because")]


def augmented(pairs: list[Pair], seed: int = 0) -> list[Pair]:
    """Return the pairs, followed by changed copies of some pairs.

    Only pairs of at most 100 characters are changed. Half of the pairs with a name in `NAMES` are copied with other
    names. Pairs with a number are copied five times with other numbers. For every eight pairs, two random pairs are
    joined. Finally, one sixth of all these pairs is copied with another case or without final punctuation.
    """
    random = Random(seed)
    short = [pair for pair in pairs if max(map(len, pair)) <= 100]
    more = [exchange_names(pair, random) for pair in short if random.random() < 0.5]
    more += [exchange_number(pair, random) for pair in short if NUMBER.search(pair[0]) for _ in range(5)]
    more += [join(random.choice(short), random.choice(short), random) for _ in range(len(short) // 8)]
    known = set(pairs)
    more = [pair for pair in dict.fromkeys(more) if pair not in known]
    return pairs + more + [change_case(pair, random) for pair in short + more if random.random() < 1 / 6]


def exchange_names(pair: Pair, random: Random) -> Pair:
    """Return the pair with each name in `NAMES` replaced; every fourth new name is invented."""
    german, english = pair
    for (old, in_english), others in NAMES.items():
        if old not in german:
            continue
        if len(re.findall(rf"\b{old}s?\b", german)) == len(re.findall(rf"\b{in_english}\b", english)) > 0:
            invented = "".join(random.choices(SYLLABLES, k=random.randint(2, 3))).capitalize()
            new = random.choice(others) if random.random() < 0.75 else (invented, invented)
            genitive = new[0] + ("'" if new[0][-1] in "sxzß" else "s")
            german = _replaced(_replaced(german, old + "s", genitive), old, new[0])
            english = _replaced(english, in_english, new[1])
    return german, english


def exchange_number(pair: Pair, random: Random) -> Pair:
    """Return the pair with another number if each side has one number and both are equal, else unchanged."""
    german, english = pair
    digits = [DIGITS.findall(side) for side in pair]
    if [len(found) for found in digits] == [1, 1] and digits[0][0] in _in_german(digits[1][0]):
        old = digits[0][0], digits[1][0]
    else:
        words = [found[0] for found in NUMBER.finditer(german)]
        old = (words[0], SPELLED[words[0]]) if len(words) == 1 and words[0] in SPELLED else ("", "")
        if len(re.findall(rf"\b{old[1]}\b", english)) != 1 or not old[0]:
            return pair
    clock = re.search(rf"\b{old[0]} Uhr\b", german)
    if clock:
        english = re.sub(rf"\b{old[1]} o'clock", old[1], english)
    new = _time(random) if clock or ":" in old[1] else _number(random, year=len(old[1]) == 4 and old[1].isdigit())
    return _replaced(german, old[0], new[0]), _replaced(english, old[1], new[1])


def _replaced(text: str, old: str, new: str) -> str:
    return re.sub(rf"\b{re.escape(old)}\b", new, text)


def _in_german(number: str) -> tuple[str, ...]:
    """Return the German spellings of an English number: 2:30 or 2.30 for 2:30, 1.000 for 1,000, 1,5 for 1.5."""
    return number, number.replace(":", "."), number.translate(str.maketrans(",.", ".,")), number.replace(",", "")


def _time(random: Random) -> Pair:
    hour, minute = random.randint(0, 23), random.choice([*range(0, 60, 5), random.randint(0, 59)])
    english = f"{hour}:{minute:02}"
    return (english if random.random() < 0.6 else f"{hour}.{minute:02}"), english


def _number(random: Random, year: bool = False) -> Pair:
    """Return a random number in German and in English notation: a year, an amount, or another number."""
    if year or random.random() < 0.1:
        return (str(random.randint(1500, 2040)),) * 2
    kind = random.random()
    if kind < 0.35:
        amount = f"{random.randint(0, 999) / random.choice([1, 10]):.0f}.{random.randint(0, 99):02}"
        amount = amount if random.random() < 0.7 else amount[:-1]
        return amount.replace(".", ","), amount
    if kind < 0.5:
        large = f"{random.randint(1000, 10 ** random.randint(4, 7)):,}"
        return (large.replace(",", "."), large) if random.random() < 0.7 else (large.replace(",", ""),) * 2
    return (str(random.randint(2, 10 ** random.randint(1, 4))),) * 2


def join(first: Pair, second: Pair, random: Random) -> Pair:
    """Return one pair with the text of two: two clauses if `second` begins with an opening, else two sentences."""
    german, english = (re.split(r"\W", side)[0] for side in second)
    if (german, english) in OPENINGS and first[0][-1] == first[1][-1] == ".":
        conjunctions = random.choice(CONJUNCTIONS)
        clauses = _small(second[0]), second[1] if german == "Ich" else _small(second[1])
        (a, b), (c, d) = zip(first, clauses, strict=True)
        return f"{a[:-1]}, {conjunctions[0]} {b}", f"{c[:-1]}, {conjunctions[1]} {d}"
    return f"{first[0]} {second[0]}", f"{first[1]} {second[1]}"


def change_case(pair: Pair, random: Random) -> Pair:
    """Return the pair in upper case, in lower case, with a lower-case first letter, or without final punctuation."""
    change = random.choice([str.upper, str.upper, str.lower, str.lower, _small, _bare])
    return change(pair[0]), change(pair[1])


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]


def _bare(text: str) -> str:
    return text.rstrip(".!?") or text
