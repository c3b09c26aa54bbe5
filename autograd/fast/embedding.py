"""The gradient of an embedding, stored as rows of the table, for NumPy arrays. It replaces the gradient of `Embedding`
in embedding.py. The output gradients are sorted by id, so that rows of equal ids can be summed without a scatter. If
few rows of a table were used, the gradient consists of only these rows (`RowGradient`).
"""

from ..ops.embedding import Embedding
from ..ops.registry import implements, on_cpu
from ..origin import Leaf
from ..row_gradient import sum_rows
from ..tensor import Tensor


@implements(Embedding, "cpu", on_cpu)
class EmbeddingOnCPU(Embedding):
    """Embedding on the CPU: s table[ids]. The gradient of a table that is a leaf is a RowGradient."""

    def backward(self, g):
        if isinstance(g, Tensor):
            return Embedding.backward(self, g)
        rows = self.scaled(g).reshape((self.ids.size, self.shape[1]))
        gradient = sum_rows(self.ids.reshape(-1), rows, self.shape)
        gradient = gradient if self.padding_id is None else gradient.without(self.padding_id)
        return gradient if isinstance(self.inputs[0], Leaf) else gradient.dense()
