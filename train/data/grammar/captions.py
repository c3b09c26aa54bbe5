"""Pictures that nobody took: scenes, each told by five captions in other words, from a small grammar."""

from __future__ import annotations

import random
from collections.abc import Iterator

# Each entry lists ways of saying the same; a caption takes one of them.
_ONE = [
    ("a man", "a person", "an older man"),
    ("a woman", "a lady", "a young woman"),
    ("a boy", "a young boy", "a little kid"),
    ("a girl", "a young girl", "a child"),
    ("a dog", "a brown dog", "a small dog"),
    ("a cat", "a gray cat", "a kitten"),
    ("a horse", "a large horse", "a brown horse"),
]
_SOME = [
    ("two men", "a couple of men", "two people"),
    ("two women", "a pair of women", "two ladies"),
    ("several children", "a group of kids", "some children"),
    ("three dogs", "a few dogs", "a group of dogs"),
    ("many people", "a crowd of people", "lots of people"),
]
_PEOPLE = {phrase for group in [*_ONE[:4], *_SOME[:3], _SOME[4]] for phrase in group}
_ACTIONS = [
    ("sitting", "resting", "taking a break"),
    ("standing", "waiting", "posing"),
    ("walking", "strolling", "going for a walk"),
    ("running", "racing", "moving fast"),
    ("playing with a ball", "chasing a ball", "having fun with a ball"),
    ("looking at the camera", "facing the camera", "staring at the camera"),
    ("sleeping", "taking a nap", "lying asleep"),
]
_HUMAN_ACTIONS = [
    ("riding a bike", "cycling", "on a bicycle"),
    ("eating pizza", "having a slice of pizza", "enjoying some pizza"),
    ("holding an umbrella", "carrying an umbrella", "with an umbrella"),
    ("talking on the phone", "making a phone call", "using a cell phone"),
    ("playing a guitar", "making music on a guitar", "with a guitar"),
]
_PLACES = [
    ("on the grass", "in a grassy field", "on a green lawn"),
    ("on the beach", "by the ocean", "on the sand near the water"),
    ("in a kitchen", "inside a small kitchen", "in the kitchen area"),
    ("on a city street", "on a busy road", "in the middle of a street"),
    ("in the snow", "on a snowy hill", "on snow covered ground"),
    ("in a park", "near some trees", "next to a row of trees"),
    ("on a wooden bench", "on top of a bench", "at a park bench"),
    ("in front of a building", "outside of a building", "next to a tall building"),
]
_FRAMES = [
    "{who} {doing} {where}",
    "{who} {be} {doing} {where}",
    "there {be} {who} {doing} {where}",
    "{where}, {who} {be} {doing}",
    "a picture of {who} {doing} {where}",
    "{who} seen {where} {doing}",
]


def scenes(seed: int = 0) -> Iterator[list[str]]:
    """Endless random scenes of five different captions each; the same seed gives the same ones."""
    rng = random.Random(seed)
    while True:
        several = rng.random() < 0.3
        who = rng.choice(_SOME if several else _ONE)
        human = who[0] in _PEOPLE
        doing, where = rng.choice(_ACTIONS + _HUMAN_ACTIONS * human), rng.choice(_PLACES)
        captions: dict[str, None] = {}
        while len(captions) < 5:
            parts = {"who": rng.choice(who), "doing": rng.choice(doing), "where": rng.choice(where)}
            text = rng.choice(_FRAMES).format(be="are" if several else "is", **parts)
            captions[text[0].upper() + text[1:] + "."] = None
        yield list(captions)
