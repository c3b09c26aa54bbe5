"""Complete models, and text generation with them."""

from typing import TYPE_CHECKING

from ..lazy import lazy_names
from .baselines import (
    BigramLanguageModel,
    NGramLanguageModel,
    RandomLanguageModel,
    RecurrentConfig,
    RecurrentLanguageModel,
)
from .classifier import ClassifierConfig, TransformerClassifier
from .generation import (
    Hypothesis,
    Rules,
    Sampler,
    Strategy,
    beam_search,
    generate,
    greedy_search,
    length_penalty,
    sample,
    stream,
)
from .language_model import LanguageModel, LanguageModelConfig
from .presets import (
    classifier_preset,
    en_fr_preset,
    language_model_preset,
    paraphrase_preset,
    summary_preset,
    translation_preset,
)
from .seq2seq import Seq2SeqConfig, Seq2SeqTransformer
from .text_baselines import WordForWord

if TYPE_CHECKING:
    from . import pretrained

__all__ = [
    "BigramLanguageModel", "ClassifierConfig", "Hypothesis", "LanguageModel", "LanguageModelConfig",
    "NGramLanguageModel", "RandomLanguageModel", "RecurrentConfig", "RecurrentLanguageModel", "Rules", "Sampler",
    "Seq2SeqConfig", "Seq2SeqTransformer", "Strategy", "TransformerClassifier", "WordForWord", "beam_search",
    "classifier_preset", "en_fr_preset", "generate", "greedy_search", "language_model_preset", "length_penalty",
    "paraphrase_preset", "pretrained", "sample", "stream", "summary_preset", "translation_preset",
]  # fmt: skip

__getattr__, _ = lazy_names(__name__)
