"""Training: data sets, optimisers, the training loop, checkpoints, metrics and pictures."""

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from . import optim
    from .callbacks import Callback, EarlyStopping, History, ProgressBar
    from .cells import compare, grid, markdown_table
    from .data.batches import TokenBatches, join_neighbours
    from .data.captions import CAPTION_NAMES, caption_pairs, load_captions
    from .data.files import iter_lines
    from .data.grammar import build_corpus
    from .data.news import NEWS_NAMES, denoising, load_news, unlabelled_texts
    from .data.running_text import TEXT_NAMES, load_text_data
    from .data.sources import Batches
    from .data.translation import data_names, load_translation_data
    from .distributed import find_process_group
    from .optim.loss_scaling import HalfPrecision, LossScaler
    from .optim.optimizers import SGD, Adam, AdamW, ExponentialAverage, Optimizer, clip_grad_norm
    from .optim.schedules import Plateau, constant, cosine, linear, noam
    from .runs.folder import RunFolder
    from .runs.plots import plot_attention, plot_confusion, plot_lines, plot_losses, plot_shares
    from .runs.progress import TrainingStopped
    from .runs.results import checksum, write_results
    from .tasks.classification import Classification, MeanClassifier
    from .tasks.language_modelling import TOKENIZERS, LanguageModelling, learn_tokens, tokenize
    from .tasks.metrics import (
        Score,
        accuracy,
        bleu,
        chrf,
        class_scores,
        confusion_matrix,
        macro_f1,
        rouge,
        rows_text,
        samples_text,
    )
    from .tasks.translation import Translation, back_translate, round_trips, translation_loss
    from .trainer import Trainer
    from .updates import mean_losses

__all__ = [
    "CAPTION_NAMES", "NEWS_NAMES", "SGD", "TEXT_NAMES", "TOKENIZERS", "Adam", "AdamW", "Batches", "Callback",
    "Classification", "EarlyStopping", "ExponentialAverage", "HalfPrecision", "History", "LanguageModelling",
    "LossScaler", "MeanClassifier", "Optimizer", "Plateau", "ProgressBar", "RunFolder", "Score", "TokenBatches",
    "Trainer", "TrainingStopped", "Translation", "accuracy", "back_translate", "bleu", "build_corpus", "caption_pairs",
    "checksum", "chrf", "class_scores", "clip_grad_norm", "compare", "confusion_matrix", "constant", "cosine",
    "data_names", "denoising", "find_process_group", "grid", "iter_lines", "join_neighbours", "learn_tokens", "linear",
    "load_captions", "load_news", "load_text_data", "load_translation_data", "macro_f1", "markdown_table",
    "mean_losses", "noam", "optim", "plot_attention", "plot_confusion", "plot_lines", "plot_losses", "plot_shares",
    "rouge", "round_trips", "rows_text", "samples_text", "tokenize", "translation_loss", "unlabelled_texts",
    "write_results",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
