"""Invented pictures: a small grammar describes each scene by five different captions."""

from __future__ import annotations

import random
from collections.abc import Iterator

from .tables import read_tables

# Each row of a table lists expressions for the same thing; a caption uses one of them.
_TABLES = read_tables("captions.txt")
_ANIMALS = {"a dog", "a cat", "a horse", "three dogs"}  # which begin their rows
_FRAMES = [row[0] for row in _TABLES["frames"]]


def scenes(seed: int = 0) -> Iterator[list[str]]:
    """Yield random scenes without end, each with five different captions. The same seed gives the same scenes."""
    rng = random.Random(seed)
    while True:
        several = rng.random() < 0.3
        who = rng.choice(_TABLES["several" if several else "one"])
        human = who[0] not in _ANIMALS
        doing, where = rng.choice(_TABLES["actions"] + _TABLES["human actions"] * human), rng.choice(_TABLES["places"])
        captions: dict[str, None] = {}
        while len(captions) < 5:
            parts = {"who": rng.choice(who), "doing": rng.choice(doing), "where": rng.choice(where)}
            text = rng.choice(_FRAMES).format(be="are" if several else "is", **parts)
            captions[text[0].upper() + text[1:] + "."] = None
        yield list(captions)
