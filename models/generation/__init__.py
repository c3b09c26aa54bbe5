"""Generating sequences with a trained model: one interface for encoder-decoders and language models."""

from .decoding import DecodingState, Uncached
from .search import Hypothesis, beam_search, greedy_search, length_penalty

__all__ = [
    "DecodingState",
    "Hypothesis",
    "Uncached",
    "beam_search",
    "greedy_search",
    "length_penalty",
]
