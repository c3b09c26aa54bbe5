// Code shared by the rungs of the ladder. Each blockIdx.y computes attention of one head, out = softmax(scale Q K^T) V.
// Rows are contiguous and have 64 elements in float16. The numbers of queries and keys are arbitrary.
#pragma once
#include <cuda_fp16.h>

constexpr int D = 64;  // the head dimension
constexpr float LOG2_E = 1.4426950408889634f;
#define INFINITE __int_as_float(0x7f800000)

#define PARAMETERS                                                                                                    \
    const half *query, const half *key, const half *value, half *out, int queries, int keys, float scale

// Advance the pointers to the head of this thread block.
#define OF_THIS_HEAD                                                     \
    long long own = blockIdx.y * D;                                      \
    query += own * queries, out += own * queries, key += own * keys, value += own * keys;
