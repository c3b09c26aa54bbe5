"""Text generation with a trained model. Encoder-decoders and language models share one interface."""

from ...autograd.quick import PLAIN
from .beam import BeamStep, beam_search
from .consensus import by_consensus
from .decoding import DecodingState, Uncached
from .greedy import greedy_search, likeliest, stream
from .penalties import coverage_penalty, length_penalty
from .rules import Hypothesis, Rules
from .sampling import Sampler, sample
from .strategy import Strategy, generate

if not PLAIN:
    from . import fast

__all__ = [
    "BeamStep", "DecodingState", "Hypothesis", "Rules", "Sampler", "Strategy", "Uncached", "beam_search",
    "by_consensus", "coverage_penalty", "generate", "greedy_search", "length_penalty", "likeliest", "sample", "stream",
]  # fmt: skip
