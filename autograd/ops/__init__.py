"""The differentiable operations, a file per subject. Array functions have NumPy's names, neural ones PyTorch's."""

from . import attention_blocked
from .activation import elu, gelu, leaky_relu, log_sigmoid, mish, relu, selu, sigmoid, silu, softplus, softsign
from .attention import attention
from .creation import (
    arange,
    cat,
    full,
    gather,
    multinomial,
    ones,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    zeros,
)
from .diagonal import diagonal, trace, tril, triu
from .dropout import dropout, dropout_add
from .einsum import einsum
from .elementwise import (
    abs,
    add,
    astype,
    ceil,
    divide,
    floor,
    floor_divide,
    multiply,
    negative,
    ones_like,
    power,
    reciprocal,
    remainder,
    rint,
    round,
    sign,
    square,
    subtract,
    trunc,
    zeros_like,
)
from .elementwise_loss import binary_cross_entropy, binary_cross_entropy_with_logits, l1_loss, mse_loss
from .embedding import embedding
from .erf import erf
from .exponential import exp, exp2, expm1, log, log1p, log2, log10, logaddexp, rsqrt, sqrt
from .gated import ACTIVATIONS, geglu, glu, reglu, swiglu
from .heads import merge_heads, split_heads
from .indexing import flip, getitem, scatter_add, setitem, take, take_along_axis
from .joining import concatenate, pad, repeat, split, stack, tile
from .linalg import dot, inner, matmul, outer, tensordot
from .linear import linear, linear_activation
from .linear_cross_entropy import linear_cross_entropy
from .loss import cross_entropy
from .normalization import layer_norm, residual_layer_norm, rms_norm
from .recurrence import recurrence
from .reduction import argmax, argmin, max, mean, min, prod, sum
from .registry import OPS
from .selection import clip, masked_fill, maximum, minimum, where
from .shape import broadcast_to, expand_dims, moveaxis, ravel, reshape, roll, squeeze, swapaxes, to_device, transpose
from .softmax import log_softmax, softmax
from .sorting import argsort, sort, topk
from .statistics import cumsum, logsumexp, norm, std, var
from .trigonometric import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    cos,
    cosh,
    hypot,
    sin,
    sinh,
    tan,
    tanh,
)
