// Eight neighbouring elements, starting at a multiple of eight: 16 bytes of float16, and one draw of random bits.
#pragma once
#include "philox.cuh"
#include "scalars.cuh"

struct __align__(16) Eight {
    scalar value[8];
};

// Draw which of the eight elements dropout keeps.
__device__ __forceinline__ void draw_eight(bool (&keep)[8], const unsigned long long* seed, unsigned long long call,
                                           size_t group, unsigned threshold) {
    uint4 words = dropout_bits(key_of(seed), call, group);
    unsigned word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) keep[i] = (i % 2 ? word[i / 2] >> 16 : word[i / 2] & 0xffffu) >= threshold;
}

// Load and store the eight elements from `start` on. Only elements in [low, n) are accessed; the others are loaded as
// zero. The arrays start at multiples of 16 bytes.
__device__ __forceinline__ void load_eight(Eight& eight, const scalar* x, size_t start, size_t n, size_t low = 0) {
    if (start >= low && start + 8 <= n) {
        eight = *reinterpret_cast<const Eight*>(x + start);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) eight.value[i] = start + i >= low && start + i < n ? x[start + i] : narrow(0.0f);
}

__device__ __forceinline__ void store_eight(const Eight& eight, scalar* x, size_t start, size_t n, size_t low = 0) {
    if (start >= low && start + 8 <= n) {
        *reinterpret_cast<Eight*>(x + start) = eight;
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (start + i >= low && start + i < n) x[start + i] = eight.value[i];
}
