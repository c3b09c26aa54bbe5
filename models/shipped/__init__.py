"""Models included in handloom, usable without training or a network.

Each is the folder of a run with its matrices in 8 bits. Its card, README.md, describes the training data, the
training command, the scores and the limits of the model. `python -m benchmarks.shipped_model RUN` makes one.
"""

import os
from pathlib import Path

#: The name by which a model is loaded -> its folder.
MODELS = {"tatoeba-de-en": Path(__file__).parent / "tatoeba_de_en"}

#: The task -> the default model for it.
DEFAULTS = {"translate": "tatoeba-de-en"}

#: A model -> the mean log-probability (nats) of its translation's tokens below which a sentence is outside of what it
#: knows. Of held-out Tatoeba sentences 2 % lie below; `benchmarks.outside` has the hit rate on other ones.
MIN_LOG_PROBABILITY = {"tatoeba-de-en": -0.66}


def min_log_probability(name: str | Path | None) -> float:
    """Return the bound in `MIN_LOG_PROBABILITY` of a model, given by name or folder; -inf for other models."""
    found = (MIN_LOG_PROBABILITY[own] for own, path in MODELS.items() if name and model_path(str(name)) == path)
    return next(found, float("-inf"))


def model_path(text: str) -> Path:
    """Return the folder of the shipped model called `text`, or else `text` as a path.
    It is a path too if a file or folder has this name.
    """
    path = Path(text)
    return path if os.path.exists(path) else MODELS.get(text, path)
