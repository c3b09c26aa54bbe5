"""Models included in handloom, usable without training or a network.

Each is the folder of a run with its matrices in 8 bits. Its card, README.md, describes the training data, the
training command, the scores and the limits of the model. `python -m benchmarks.shipped_model RUN` makes such a folder.
"""

import os
from pathlib import Path

#: The folder of each model, by the name under which the model is loaded.
MODELS = {"tatoeba-de-en": Path(__file__).parent / "tatoeba_de_en"}

#: The default model of each task.
DEFAULTS = {"translate": "tatoeba-de-en"}

#: For each model, a bound on the mean log-probability (nats) of a translation's tokens. Below it, a sentence is unlike
#: the training data. 2 % of held-out Tatoeba sentences lie below; `benchmarks.outside` measures the rate for others.
MIN_LOG_PROBABILITY = {"tatoeba-de-en": -0.66}


def min_log_probability(name: str | Path | None) -> float:
    """Return the bound in `MIN_LOG_PROBABILITY` of a model, given by name or folder; -inf for other models."""
    found = (MIN_LOG_PROBABILITY[own] for own, path in MODELS.items() if name and model_path(str(name)) == path)
    return next(found, float("-inf"))


def model_path(text: str) -> Path:
    """Return the folder of the shipped model called `text`, or else `text` as a path.
    If a file or folder has this name, `text` is a path, too.
    """
    path = Path(text)
    return path if os.path.exists(path) else MODELS.get(text, path)
