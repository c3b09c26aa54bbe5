"""The differentiable operations, one subject a file. Array functions carry NumPy's names, neural ones PyTorch's."""

from .activation import relu
from .attention import attention
from .dropout import dropout
from .elementwise import abs, add, astype, divide, exp, log, multiply, negative, power, sign, sqrt, subtract, where
from .embedding import embedding
from .heads import merge_heads, split_heads
from .indexing import getitem, setitem, setitem_
from .linalg import linear, matmul
from .loss import cross_entropy
from .normalization import layer_norm
from .reduction import max, mean, min, sum
from .registry import OPS
from .shape import broadcast_to, concatenate, reshape, swapaxes, to_device, transpose
from .softmax import log_softmax, softmax
