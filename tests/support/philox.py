"""The mask of the dropout kernels, computed on the CPU."""

import numpy as np

from handloom.autograd.kernels.philox import philox4x32_10


def keep_mask(seed: int, call: int, shape: tuple[int, ...], threshold: int) -> np.ndarray:
    """Return a boolean array of the elements that dropout keeps in call number `call` of stream `seed`.

    In CUDA, `dropout_keeps` computes the same value for each element. `threshold` is the probability of dropping times
    65536.
    """
    size = int(np.prod(shape))
    i = np.arange((size + 7) // 8, dtype=np.uint64)
    counter = np.empty((len(i), 4), dtype=np.uint32)
    counter[:, 0], counter[:, 1] = i & np.uint64(0xFFFFFFFF), i >> np.uint64(32)
    counter[:, 2], counter[:, 3] = call & 0xFFFFFFFF, call >> 32
    key = np.array([seed & 0xFFFFFFFF, seed >> 32], dtype=np.uint32)
    bits = philox4x32_10(counter, key).astype("<u4").view("<u2").ravel()[:size]
    return (bits >= threshold).reshape(shape)
