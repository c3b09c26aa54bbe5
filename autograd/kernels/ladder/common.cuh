// What the rungs of the ladder share: attention of one head per blockIdx.y, out = softmax(scale Q K^T) V, float16
// rows of 64 numbers one after the other, any number of queries and keys.
#pragma once
#include <cuda_fp16.h>

constexpr int D = 64;  // the head dimension
constexpr float LOG2_E = 1.4426950408889634f;
#define INFINITE __int_as_float(0x7f800000)

#define PARAMETERS                                                                                                    \
    const half *query, const half *key, const half *value, half *out, int queries, int keys, float scale

// The rows of this block's head.
#define OF_THIS_HEAD                                                     \
    long long own = blockIdx.y * D;                                      \
    query += own * queries, out += own * queries, key += own * keys, value += own * keys;
