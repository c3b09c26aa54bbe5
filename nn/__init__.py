"""Layers. Parameter names, layouts and initial values are PyTorch's, so that weights from PyTorch can be loaded."""

from ..autograd import Parameter
from ..autograd.quick import PLAIN
from . import functional, init
from .activation import (
    GELU,
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    Flatten,
    Identity,
    L1Loss,
    LeakyReLU,
    MSELoss,
    NLLLoss,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
from .attention import AttentionCall, MultiHeadAttention, attention_maps, observe_attention
from .containers import ModuleDict, ModuleList, ParameterList, Sequential
from .dropout import Dropout
from .einops_backend import use_einops
from .embedding import Embedding
from .linear import Linear
from .module import Module, functional_call
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

if not PLAIN:
    from . import fast

__all__ = [
    "GELU", "GRU", "LSTM", "NORMS", "POSITIONS", "RNN", "AttentionCall", "BCELoss", "BCEWithLogitsLoss",
    "CrossEntropyLoss", "Dropout", "Embedding", "Flatten", "Identity", "L1Loss", "LayerNorm", "LeakyReLU",
    "LearnedPositions", "Linear", "MSELoss", "Module", "ModuleDict", "ModuleList", "MultiHeadAttention", "NLLLoss",
    "Parameter", "ParameterList", "RMSNorm", "ReLU", "Sequential", "SiLU", "Sigmoid", "SinusoidalPositions", "Softmax",
    "Tanh", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
    "attention_maps", "checkpoint_activations", "embedding_positions", "functional", "functional_call", "init",
    "make_norm", "observe_attention", "sinusoidal_table", "use_einops",
]  # fmt: skip
