"""Tenses and the adverbials of time that go with each: what decides which English tense a German one becomes.

German has fewer tenses in use than English. "Er isst" is "he eats" or "he is eating"; "er hat gegessen" is "he ate" or
"he has eaten". The adverbial decides, so that every German sentence has one English translation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .lexicon import rows


class Tense(Enum):
    """German form and English form."""

    HABIT = ("present", "present")
    NOW = ("present", "progressive")  # with gerade, im Moment
    PAST = ("perfect", "past")
    EXPERIENCE = ("perfect", "perfect")  # with schon, noch nie
    FUTURE = ("future", "future")
    PLAN = ("present", "future")  # with morgen, bald

    @property
    def german(self) -> str:
        """present, perfect or future"""
        return self.value[0]

    @property
    def english(self) -> str:
        """present, progressive, past, perfect or future"""
        return self.value[1]


@dataclass(frozen=True, eq=False, slots=True)
class Time:
    """An adverbial of time. `inner` ones stand where "nicht" would, in English before the main verb: oft, schon."""

    german: str
    english: str
    inner: bool
    may_front: bool
    negative: bool  # nie
    negatable: bool  # whether the clause can have "nicht" as well


# German, English, and flags: `inner`, `negative` as above; `fixed` never opens a sentence,
# `positive` doesn't go with "nicht".
_TIMES = {
    "habit": """
        jeden Tag         every day           positive
        jeden Morgen      every morning       positive
        jeden Abend       every evening       positive
        am Wochenende     at the weekend
        um Mitternacht    at midnight
        bei Vollmond      at full moon
        vor dem Frühstück  before breakfast
        im Sommer         in summer
        im Winter         in winter
        oft               often               inner
        manchmal          sometimes           inner
        immer             always              inner fixed
        selten            rarely              inner fixed negative
        nie               never               inner fixed negative
    """,
    "now": """
        gerade            right now           fixed
        im Moment         at the moment
    """,
    "past": """
        gestern           yesterday
        gestern Abend     yesterday evening
        heute Morgen      this morning
        am Montag         on Monday
        letzten Sonntag   last Sunday
        letzte Woche      last week
        vor drei Tagen    three days ago
        in der Nacht      during the night
        um Mitternacht    at midnight
        vor dem Frühstück  before breakfast
        nach dem Essen    after the meal
        trotz des Regens  despite the rain
        wegen des Sturms  because of the storm
        wegen des Lärms   because of the noise
        trotz des Nebels  despite the fog
        während des Sturms  during the storm
    """,
    "experience": """
        schon             already             inner fixed
        gerade            just                inner fixed
        noch nie          never               inner fixed negative
    """,
    "future": """
        morgen            tomorrow
        bald              soon
        heute Abend       this evening
        nächste Woche     next week
        am Freitag        on Friday
        in zwei Wochen    in two weeks
    """,
    "command": """
        jetzt             now
        sofort            at once
        morgen            tomorrow
    """,
}


def _read_times(name: str) -> list[Time]:
    times = []
    for german, english, *flags in rows(_TIMES[name]):
        flags = " ".join(flags).split()
        inner = "inner" in flags
        negatable = not inner and "positive" not in flags
        times.append(Time(german, english, inner, "fixed" not in flags, "negative" in flags, negatable))
    return times


TIMES = {
    Tense.HABIT: _read_times("habit"),
    Tense.NOW: _read_times("now"),
    Tense.PAST: _read_times("past"),
    Tense.EXPERIENCE: _read_times("experience"),
    Tense.FUTURE: _read_times("future"),
    Tense.PLAN: _read_times("future"),
}
COMMAND_TIMES = _read_times("command")
NOT_YET = Time("noch", "yet", False, False, False, True)  # noch nicht, noch kein
