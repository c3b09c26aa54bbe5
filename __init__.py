"""handloom: a Transformer written from scratch, including its reverse-mode autograd engine."""

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and f"-m {__name__}." in " ".join(sys.orig_argv):
    del sys.path[0]  # the current folder: a learner's random.py there would replace the library's module

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import autograd, models, nn, tokenizer, train
    from .autograd import Parameter, Tensor, enable_grad, grad, manual_seed, no_grad, ops
    from .errors import InputError
    from .train.tasks.classification import Classifier
    from .train.tasks.language_modelling import Writer
    from .train.tasks.loading import load
    from .train.tasks.translation import Paraphraser, Summarizer, Translator

__version__ = "0.2.0"

__all__ = [
    "Classifier",
    "InputError",
    "Parameter",
    "Paraphraser",
    "Summarizer",
    "Tensor",
    "Translator",
    "Writer",
    "autograd",
    "enable_grad",
    "grad",
    "load",
    "manual_seed",
    "models",
    "nn",
    "no_grad",
    "ops",
    "tokenizer",
    "train",
]

if __package__:  # pytest also imports this file alone, where the folder's name is no identifier
    from .lazy import lazy_names

    __getattr__, __dir__ = lazy_names(__name__)
