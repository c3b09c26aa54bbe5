"""News that nobody wrote: articles with a category, a headline and a description, from a small grammar.

A description tells in the past tense, with place, day and source, what its headline says in the present. Some words are
at home in several categories (a deal, a record, a season), and agents may turn up anywhere: one word alone seldom
decides.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Article:
    """One piece of news."""

    category: str
    headline: str
    description: str


@dataclass(frozen=True)
class Desk:
    """What one category writes about: its share of the news, agents, (present, past) verbs, objects, follow-ups."""

    share: int
    agents: tuple[str, ...]
    verbs: tuple[tuple[str, str], ...]
    objects: tuple[str, ...]
    details: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


def _verbs(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((present, past) for present, _, past in (pair.partition("/") for pair in text.split(", ")))


DESKS = {
    "SPORTS": Desk(
        4,
        _words("goalkeeper, young swimmer, coach, home team, veteran striker, sprinter, captain, rookie"),
        _verbs("wins/won, loses/lost, misses/missed, breaks/broke, celebrates/celebrated, prepares for/prepared for"),
        _words("season opener, title match, record, cup final, relay, training camp, derby, medal ceremony"),
        _words("The crowd sang until midnight, The referee added four minutes, Two players left with injuries"),
    ),
    "POLITICS": Desk(
        8,
        _words("minister, mayor, opposition leader, senator, young candidate, parliament, council, ambassador"),
        _verbs("rejects/rejected, signs/signed, defends/defended, delays/delayed, proposes/proposed"),
        _words("budget deal, election, border treaty, tax reform, vote of confidence, housing law, record deficit"),
        _words("The vote was close, Critics asked for more time, A second debate follows next week"),
    ),
    "SCIENCE": Desk(
        3,
        _words("astronomer, research team, young chemist, laboratory, geologist, university, physicist, robot"),
        _verbs("discovers/discovered, measures/measured, explains/explained, tests/tested, breaks/broke, maps/mapped"),
        _words("distant planet, ancient fossil, record temperature, new vaccine, strange signal, glacier, deep cave"),
        _words("The results were checked twice, Other groups will repeat the experiment, The data are public"),
    ),
    "FOOD": Desk(
        2,
        _words("baker, young chef, market, family restaurant, farmer, food critic, cheese maker, canteen"),
        _verbs("tests/tested, shares/shared, sells/sold, wins with/won with"),
        _words("pumpkin soup, sourdough recipe, summer menu, apple harvest, chocolate cake, record cheese"),
        _words("The secret is patience, Guests waited in the rain, A pinch of salt is enough"),
    ),
    "TRAVEL": Desk(
        3,
        _words("airline, hiker, railway, island hotel, tour guide, young couple, ferry captain, hostel"),
        _verbs("opens/opened, explores/explored, cancels/cancelled, recommends/recommended, delays/delayed"),
        _words("night train, mountain trail, beach season, old harbour, summer flights, coastal road, quiet island"),
        _words("Tickets go on sale soon, The view is worth the climb, Visitors should bring warm clothes"),
    ),
    "BUSINESS": Desk(
        4,
        _words("bank, car maker, start-up, union, young founder, supermarket, airline, investor"),
        _verbs("sells/sold, signs/signed, cuts/cut, buys/bought, reports/reported, rejects/rejected"),
        _words("merger deal, record profit, factory, pension plan, chain of shops, new share offer, wage demand"),
        _words("Shares rose slightly, Analysts had expected more, Hundreds of jobs depend on it"),
    ),
    "WEATHER": Desk(
        2,
        _words("storm, heat wave, cold front, thick fog, heavy snow, river flood, thunderstorm, drought"),
        _verbs("hits/hit, delays/delayed, threatens/threatened, breaks/broke, reaches/reached, closes/closed"),
        _words("coast, apple harvest, summer flights, temperature record, mountain villages, night train"),
        _words("Schools stayed closed, More rain is expected, Fire crews worked all night"),
    ),
    "CULTURE": Desk(
        2,
        _words("novelist, opera house, young pianist, museum, film director, orchestra, painter, theatre"),
        _verbs("opens/opened, presents/presented, celebrates/celebrated, cancels/cancelled"),
        _words("jazz season, lost portrait, first novel, premiere, film festival, record collection, ballet"),
        _words("The applause lasted ten minutes, Tickets were gone in an hour, The critics were divided"),
    ),
}  # fmt: skip

#: What every desk writes about now and then: who does it, and how, must tell the category.
COMMON = _words("new deal, big question, first prize, old plan, surprise, long dispute, anniversary, second chance")
PLACES = _words("Norwick, Elmstadt, Port Marin, Lowbridge, Castel Verde, Sandhaven, Oakfield, Rivona")
DAYS = _words("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday")
SOURCES = _words("a spokesman said, officials said, the paper reported, witnesses said, the agency confirmed")
ENDINGS = ("", "", "", " Again", " At Last", " After Long Wait")
TAILS = ("", "", "", " once more", " at last", " after a long wait")

#: One article in so many has an agent of another desk, or a common object: not every headline says where it belongs.
_STRAY, _COMMON = 8, 4


def articles(seed: int = 0) -> Iterator[Article]:
    """Endless random articles; the same seed gives the same ones."""
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
    """Capital letters as headlines have them."""
    small = {"in", "of", "for", "with"}
    return " ".join(word if word in small else word[0].upper() + word[1:] for word in text.split())
