"""Invented news: a small grammar generates articles with a category, a headline and a description.

A headline is in the present tense. Its description reports the same in the past tense, with place, day and source. Some
words belong to several categories (a deal, a record, a season), and agents may occur in any category, so a single word
seldom determines it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .tables import read_tables, sections


@dataclass(frozen=True)
class Article:
    """One piece of news."""

    category: str
    headline: str
    description: str


class Desk(NamedTuple):
    """The vocabulary of a category: its share of the news, agents, (present, past) verbs, objects, follow-ups."""

    share: int
    agents: list[str]
    verbs: list[list[str]]
    objects: list[str]
    details: list[str]


def _desk(rows: list[list[str]]) -> Desk:
    share, *lists = ("  ".join(cells).split(", ") for cells in rows)
    agents, verbs, objects, details = lists
    return Desk(int(share[0]), agents, [pair.split("/") for pair in verbs], objects, details)


_TABLES = read_tables("news.txt")
DESKS = {category: _desk(rows) for category, rows in sections(_TABLES, "desks").items()}
#: Subjects of every category (only agent and verb show it); places, days, sources.
COMMON, PLACES, DAYS, SOURCES = (_TABLES[name][0][0].split(", ") for name in ("common", "places", "days", "sources"))
ENDINGS = ("", "", "", " Again", " At Last", " After Long Wait")
TAILS = ("", "", "", " once more", " at last", " after a long wait")

#: One article in this many has an agent of another category or a common object: not every headline shows its category.
_STRAY, _COMMON = 8, 4


def articles(seed: int = 0) -> Iterator[Article]:
    """Yield random articles without end. The same seed gives the same articles."""
    rng = random.Random(seed)
    names = list(DESKS)
    shares = [desk.share for desk in DESKS.values()]
    while True:
        (category,) = rng.choices(names, shares)
        desk = DESKS[category]
        agent = rng.choice(DESKS[rng.choice(names)].agents if rng.randrange(_STRAY) == 0 else desk.agents)
        thing = rng.choice(COMMON if rng.randrange(_COMMON) == 0 else desk.objects)
        (present, past), place = rng.choice(desk.verbs), rng.choice(PLACES)
        ending = rng.randrange(len(ENDINGS))
        where = rng.random() < 0.5
        headline = f"{agent} {present} {thing}" + (f" in {place}" if where else "")
        told = (
            f"The {agent} {'in' if where else 'from'} {place} {past} the {thing}{TAILS[ending]} "
            f"on {rng.choice(DAYS)}, {rng.choice(SOURCES)}."
        )
        sentences = [told, rng.choice(desk.details) + "."]
        if rng.random() < 0.3:
            sentences.reverse()
        yield Article(category, _title(headline) + ENDINGS[ending], " ".join(sentences))


def _title(text: str) -> str:
    """Capitalise a text as in headlines."""
    small = {"in", "of", "for", "with"}
    return " ".join(word if word in small else word[0].upper() + word[1:] for word in text.split())
