"""The small translation model that the tests of the explorer show."""

import dataclasses
import itertools
from pathlib import Path

from handloom.autograd import manual_seed
from handloom.models.presets import SMOKE
from handloom.train.data.grammar import generate
from handloom.train.runs.folder import RunFolder
from handloom.train.tasks.task import train_model
from handloom.train.tasks.translation import Translation

SENTENCE = "Gestern hat der Ritter das Lied gesungen."


def train_small(folder: Path) -> None:
    """Train a translation model with two layers of two heads for 6 steps, and write the run to `folder`."""
    preset = dataclasses.replace(SMOKE, layers=2, vocab_size=330, steps=6, validate_every=3)
    pairs = [(sentence.german, sentence.english) for sentence in itertools.islice(generate(0), 400)]
    manual_seed(1)
    with RunFolder.create(folder, {"program": "tests"}) as run:
        train_model(Translation(pairs[:360], pairs[360:], preset=preset), run, seed=1, say=lambda line: None)
