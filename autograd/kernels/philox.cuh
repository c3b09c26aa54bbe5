// Counter-based random bits: the same (key, counter) gives the same bits in any kernel and order, forward and backward.
// Philox4x32-10. (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.)
#pragma once

__device__ __forceinline__ uint4 philox4x32_10(uint4 counter, uint2 key) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        unsigned high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
        unsigned high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
        counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return counter;
}

// The seed is in device memory, so that each launch of a captured graph can use another seed. A null pointer means 0.
__device__ __forceinline__ uint2 key_of(const unsigned long long* seed) {
    unsigned long long key = seed ? *seed : 0;
    return make_uint2(unsigned(key), unsigned(key >> 32));
}

// Return the words that decide about elements 8 i .. 8 i + 7 of dropout call `call`: sixteen bits for each element. The
// lower half of a word comes first.
__device__ __forceinline__ uint4 dropout_bits(uint2 key, unsigned long long call, unsigned long long i) {
    return philox4x32_10(make_uint4(unsigned(i), unsigned(i >> 32), unsigned(call), unsigned(call >> 32)), key);
}

// Return whether dropout keeps element `index` (its row-major position in the array). An element is kept if its bits
// are at least `threshold`, the probability of dropping times 65536.
__device__ __forceinline__ bool dropout_keeps(uint2 key, unsigned long long call, unsigned long long index,
                                              unsigned threshold) {
    uint4 words = dropout_bits(key, call, index >> 3);
    unsigned pair = unsigned(index >> 1) & 3;
    unsigned word = pair == 0 ? words.x : pair == 1 ? words.y : pair == 2 ? words.z : words.w;
    return (index & 1 ? word >> 16 : word & 0xffffu) >= threshold;
}
