"""Models included in handloom, usable without training or a network.

Each is the folder of a run with its matrices in 8 bits or fewer. Its card, README.md, describes the training data, the
training command, the scores and the limits of the model. `python -m benchmarks.shipped_model RUN NAME` makes such a
folder.
"""

import os
from pathlib import Path

from ...errors import InputError

#: The folder of each model, by the name under which the model is loaded.
MODELS = {
    name: Path(__file__).parent / name.replace("-", "_")
    for name in ("everyday-de-en", "everyday-en-de", "gutenberg-15", "huffpost-42", "tatoeba-de-en")
}

#: The default translator for each target language.
TRANSLATORS = {"en": "everyday-de-en", "de": "everyday-en-de"}
#: The default model of each task.
DEFAULTS = {"translate": TRANSLATORS["en"], "generate": "gutenberg-15", "classify": "huffpost-42"}

#: For each translator, a bound on the mean log-probability (nats) of a translation's tokens. Below it, a sentence is
#: unlike the training data. Some 8 % of held-out Tatoeba sentences lie below the bound; `benchmarks.outside` measures
#: the rate for other texts.
MIN_LOG_PROBABILITY = {"everyday-de-en": -0.42, "everyday-en-de": -0.42, "tatoeba-de-en": -0.66}


def min_log_probability(name: str | Path | None) -> float:
    """Return the bound in `MIN_LOG_PROBABILITY` of a model, given by name or folder; -inf for other models."""
    found = (MIN_LOG_PROBABILITY[own] for own in MIN_LOG_PROBABILITY if name and model_path(str(name)) == MODELS[own])
    return next(found, float("-inf"))


def model_path(text: str) -> Path:
    """Return the folder of the shipped model called `text`, or else `text` as a path.
    If a file or folder has this name, `text` is a path, too. Raises InputError for an empty text.
    """
    if not text.strip():
        raise InputError("The name of the model is empty. Give the folder of a run, or the name of a model.")
    path = Path(text)
    if os.path.exists(path) or text not in MODELS:
        return path
    if not MODELS[text].is_dir():
        raise InputError(f"{text} comes with handloom, but can't be read from a zip archive: install it with pip.")
    return MODELS[text]


def model_name(path: Path) -> str:
    """Return the inverse of `model_path`: the name of a shipped model, or else the path as text."""
    return next((name for name, folder in MODELS.items() if folder == path), str(path))
