"""Complete models, and text generation with them."""

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
from .seq2seq import Seq2SeqConfig, Seq2SeqTransformer

__all__ = [
    "BigramLanguageModel",
    "ClassifierConfig",
    "Hypothesis",
    "LanguageModel",
    "LanguageModelConfig",
    "NGramLanguageModel",
    "RandomLanguageModel",
    "RecurrentConfig",
    "RecurrentLanguageModel",
    "Rules",
    "Sampler",
    "Seq2SeqConfig",
    "Seq2SeqTransformer",
    "Strategy",
    "TransformerClassifier",
    "beam_search",
    "generate",
    "greedy_search",
    "length_penalty",
    "sample",
    "stream",
]
