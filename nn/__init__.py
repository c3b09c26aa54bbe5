"""Layers. Parameter names, layouts and initial values are PyTorch's, so that weights from PyTorch can be loaded."""

from . import init
from .attention import AttentionCall, MultiHeadAttention, attention_maps, observe_attention
from .dropout import Dropout
from .embedding import Embedding
from .linear import Linear
from .module import Module, ModuleList, Sequential
from .normalization import NORMS, LayerNorm, RMSNorm, make_norm
from .positional import POSITIONS, LearnedPositions, SinusoidalPositions, embedding_positions, sinusoidal_table
from .recurrent import GRU, LSTM, RNN
from .transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
    checkpoint_activations,
)

__all__ = [
    "GRU",
    "LSTM",
    "NORMS",
    "POSITIONS",
    "RNN",
    "AttentionCall",
    "Dropout",
    "Embedding",
    "LayerNorm",
    "LearnedPositions",
    "Linear",
    "Module",
    "ModuleList",
    "MultiHeadAttention",
    "RMSNorm",
    "Sequential",
    "SinusoidalPositions",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "attention_maps",
    "checkpoint_activations",
    "embedding_positions",
    "init",
    "make_norm",
    "observe_attention",
    "sinusoidal_table",
]
