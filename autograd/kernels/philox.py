"""Counter-based random bits on the CPU, equal to those of `philox.cuh` on a device.

Philox4x32-10. (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.)
"""

from __future__ import annotations

import numpy as np


def philox4x32_10(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Apply ten rounds to each row of `counter` (..., 4) with `key` (..., 2), all uint32. Returns (..., 4)."""
    c = [counter[..., i].astype(np.uint64) for i in range(4)]
    k = [key[..., i].astype(np.uint64) for i in range(2)]
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [second >> shift ^ c[1] ^ k[0], second & low, first >> shift ^ c[3] ^ k[1], first & low]
        k = [k[0] + np.uint64(0x9E3779B9) & low, k[1] + np.uint64(0xBB67AE85) & low]
    return np.stack(np.broadcast_arrays(*c), axis=-1).astype(np.uint32)


def keep_mask(seed: int, call: int, shape: tuple[int, ...], threshold: int) -> np.ndarray:
    """Return a boolean array: the elements that dropout keeps in call number `call` of stream `seed`.

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
