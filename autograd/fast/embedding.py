"""The gradient of an embedding, stored as rows, for NumPy arrays. Replaces that of `Embedding` in embedding.py.

The gradients are sorted by id, so that those of equal ids can be summed without a scatter. If few rows of a table were
used, the gradient holds only these rows (`RowGradient`).
"""

from __future__ import annotations

from ..ops.embedding import Embedding
from ..ops.registry import implements, on_cpu
from ..origin import Leaf
from ..row_gradient import sum_rows
from ..tensor import Tensor


@implements(Embedding, "cpu", on_cpu)
class EmbeddingOnCPU(Embedding):
    """Embedding on the CPU: s table[ids]. A table that is a leaf gets a RowGradient."""

    def backward(self, g):
        if isinstance(g, Tensor):
            return Embedding.backward(self, g)
        rows = self.scaled(g).reshape((self.ids.size, self.shape[1]))
        gradient = sum_rows(self.ids.reshape(-1), rows, self.shape)
        gradient = gradient if self.padding_id is None else gradient.without(self.padding_id)
        return gradient if isinstance(self.inputs[0], Leaf) else gradient.dense()
