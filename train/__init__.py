"""Training: data sets, optimisers, the training loop, checkpoints, metrics and pictures."""

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from . import optim
    from .callbacks import Callback, EarlyStopping, ProgressBar
    from .data.batches import TokenBatches
    from .data.sources import Batches
    from .history import History
    from .optim import (
        SGD,
        Adam,
        AdamW,
        ExponentialAverage,
        LossScaler,
        Optimizer,
        Plateau,
        clip_grad_norm,
        constant,
        cosine,
        linear,
        noam,
    )
    from .runs.folder import RunFolder
    from .runs.progress import TrainingStopped
    from .trainer import Trainer
    from .updates import mean_losses

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Batches",
    "Callback",
    "EarlyStopping",
    "ExponentialAverage",
    "History",
    "LossScaler",
    "Optimizer",
    "Plateau",
    "ProgressBar",
    "RunFolder",
    "TokenBatches",
    "Trainer",
    "TrainingStopped",
    "clip_grad_norm",
    "constant",
    "cosine",
    "linear",
    "mean_losses",
    "noam",
    "optim",
]

_OPTIM = ("LossScaler", "SGD", "Adam", "AdamW", "ExponentialAverage", "Optimizer", "clip_grad_norm")
__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(("Callback", "EarlyStopping", "ProgressBar"), ".callbacks")
    | dict.fromkeys((*_OPTIM, "Plateau", "constant", "cosine", "linear", "noam"), ".optim")
    | {"Batches": ".data.sources", "TokenBatches": ".data.batches", "History": ".history", "Trainer": ".trainer"}
    | {"RunFolder": ".runs.folder", "TrainingStopped": ".runs.progress", "mean_losses": ".updates", "optim": ""},
)
