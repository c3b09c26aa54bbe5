"""The ladder of attention kernels for learners (autograd/kernels/ladder), and the launch of each rung."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from handloom.autograd.kernels.loading import read_source

D, ROWS = 64, 64


@dataclass(frozen=True)
class Rung:
    """A kernel in the file of that name: threads per block, tiles of 64 rows in shared memory, what the rung adds."""

    name: str
    threads: int
    tiles: int
    new: str

    @property
    def file(self) -> str:
        return f"ladder/{self.name}.cu"

    @property
    def source(self) -> str:
        return read_source(self.file)

    @property
    def uses_tensor_cores(self) -> bool:
        return self.threads == 128

    def run(self, module: Any, query: Any, key: Any, value: Any, scale: float) -> np.ndarray:
        """Compute attention with a compiled module. The arrays are (heads, length, 64) in float16."""
        heads, queries, _ = query.shape
        out = np.empty_like(query)
        arguments = (query, key, value, out, np.int32(queries), np.int32(key.shape[1]), np.float32(scale))
        grid = math.ceil(queries / ROWS), heads
        module.get_function(self.name)(grid, (self.threads,), arguments, shared_mem=self.tiles * ROWS * D * 2)
        return out


RUNGS = (
    Rung("thread_a_row", ROWS, 0, "the running softmax; every thread reads all keys"),
    Rung("tiles", ROWS, 2, "keys and values are read once per block, into shared memory"),
    Rung("tensor_cores", 128, 3, "a warp multiplies 16 x 16 by 16 x 8 numbers at once"),
    Rung("swizzle", 128, 3, "no two rows that are read at a time lie in the same banks"),
    Rung("pipelined", 128, 3, "a tile is copied while another one is multiplied"),
)
