"""Training: data sets, optimisers, the training loop, checkpoints, metrics and pictures."""

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from . import optim
    from .callbacks import Callback, EarlyStopping, History, ProgressBar
    from .data.batches import TokenBatches
    from .data.captions import load_captions
    from .data.news import load_news
    from .data.running_text import load_text_data
    from .data.sources import Batches
    from .data.translation import load_translation_data
    from .optim import (
        SGD,
        Adam,
        AdamW,
        ExponentialAverage,
        HalfPrecision,
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
    from .runs.plots import plot_attention, plot_confusion, plot_lines, plot_losses, plot_shares
    from .runs.progress import TrainingStopped
    from .tasks.classification import MeanClassifier
    from .tasks.metrics import Score, accuracy, bleu, chrf, confusion_matrix, macro_f1, rouge
    from .tasks.translation import back_translate, round_trips
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
    "HalfPrecision",
    "History",
    "LossScaler",
    "MeanClassifier",
    "Optimizer",
    "Plateau",
    "ProgressBar",
    "RunFolder",
    "Score",
    "TokenBatches",
    "Trainer",
    "TrainingStopped",
    "accuracy",
    "back_translate",
    "bleu",
    "chrf",
    "clip_grad_norm",
    "confusion_matrix",
    "constant",
    "cosine",
    "linear",
    "load_captions",
    "load_news",
    "load_text_data",
    "load_translation_data",
    "macro_f1",
    "mean_losses",
    "noam",
    "optim",
    "plot_attention",
    "plot_confusion",
    "plot_lines",
    "plot_losses",
    "plot_shares",
    "rouge",
    "round_trips",
]

_MODULES = {
    ".callbacks": "Callback EarlyStopping History ProgressBar",
    ".data.batches": "TokenBatches",
    ".data.captions": "load_captions",
    ".data.news": "load_news",
    ".data.running_text": "load_text_data",
    ".data.sources": "Batches",
    ".data.translation": "load_translation_data",
    ".optim": "SGD Adam AdamW ExponentialAverage HalfPrecision LossScaler Optimizer Plateau clip_grad_norm constant "
    "cosine linear noam",
    ".runs.folder": "RunFolder",
    ".runs.plots": "plot_attention plot_confusion plot_lines plot_losses plot_shares",
    ".runs.progress": "TrainingStopped",
    ".tasks.classification": "MeanClassifier",
    ".tasks.metrics": "Score accuracy bleu chrf confusion_matrix macro_f1 rouge",
    ".tasks.translation": "back_translate round_trips",
    ".trainer": "Trainer",
    ".updates": "mean_losses",
}
__getattr__, __dir__ = lazy_names(
    __name__, {"optim": ""} | {name: module for module, names in _MODULES.items() for name in names.split()}
)
