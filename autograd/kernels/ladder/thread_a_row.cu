// First rung: each thread computes one row of the output.
//
// The kernel is only a running softmax: the largest score m so far, the sum l of the weights, and the weighted sum of
// the values. A larger score rescales both sums. The kernel is slow because every thread reads all keys and values from
// memory, one element at a time, and because each of its 128 products per key is one instruction.
#include "common.cuh"

extern "C" __global__ void thread_a_row(PARAMETERS) {
    OF_THIS_HEAD
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= queries) return;
    float q[D], o[D] = {}, top = -INFINITE, sum = 0.0f;
#pragma unroll
    for (int d = 0; d < D; ++d) q[d] = float(query[i * D + d]) * scale * LOG2_E;
    for (int j = 0; j < keys; ++j) {
        float s = 0.0f;
#pragma unroll
        for (int d = 0; d < D; ++d) s += q[d] * float(key[j * D + d]);
        float new_top = fmaxf(top, s), rescale = exp2f(top - new_top), p = exp2f(s - new_top);
        top = new_top;
        sum = sum * rescale + p;
#pragma unroll
        for (int d = 0; d < D; ++d) o[d] = o[d] * rescale + p * float(value[j * D + d]);
    }
#pragma unroll
    for (int d = 0; d < D; ++d) out[i * D + d] = half(o[d] / sum);
}
