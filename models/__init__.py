"""Whole models, and how to generate text with them."""

from .generation import Hypothesis, beam_search, greedy_search, length_penalty
from .seq2seq import Seq2SeqConfig, Seq2SeqTransformer

__all__ = [
    "Hypothesis",
    "Seq2SeqConfig",
    "Seq2SeqTransformer",
    "beam_search",
    "greedy_search",
    "length_penalty",
]
