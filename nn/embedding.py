"""Token embeddings."""

import math
from typing import Any

import numpy as np

from ..autograd import Parameter, Tensor, ops
from . import init
from .module import Module


class Embedding(Module):
    """A layer that maps ids (...) to vectors (..., embedding_dim).

    The vectors are the rows of `weight` (num_embeddings, embedding_dim). The initial weight is standard normal, as in
    PyTorch. Row `padding_idx` is initially zero and gets no gradient. `scale_by_sqrt_dim` multiplies the vectors by
    sqrt(embedding_dim) (Vaswani et al. 2017, section 3.4). The initial weight then has standard deviation
    1/sqrt(embedding_dim), so that the vectors have variance 1 with and without this option.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        scale_by_sqrt_dim: bool = False,
    ):
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.scale = math.sqrt(embedding_dim) if scale_by_sqrt_dim else 1.0
        self.weight = Parameter(np.empty((num_embeddings, embedding_dim), np.float32))
        init.normal_(self.weight, 0.0, 1 / self.scale)
        if padding_idx is not None:
            self.weight.data[padding_idx] = 0

    def forward(self, ids: Any) -> Tensor:
        return ops.embedding(ids, self.weight, self.padding_idx, self.scale)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, padding_idx={self.padding_idx}"
