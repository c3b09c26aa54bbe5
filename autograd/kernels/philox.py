"""Counter-based random bits on the CPU, equal to those of `philox.cuh` on a device.

Philox4x32-10. (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.)
"""

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
