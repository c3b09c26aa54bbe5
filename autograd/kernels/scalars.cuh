// The element type of arrays: float16 (-DHALF=1) or float32. Arithmetic is in float32. Sums and maxima over a block.
#pragma once
#include <cuda_fp16.h>

#if HALF
typedef __half scalar;
__device__ __forceinline__ float widen(scalar x) { return __half2float(x); }
__device__ __forceinline__ scalar narrow(float x) { return __float2half_rn(x); }
#else
typedef float scalar;
__device__ __forceinline__ float widen(scalar x) { return x; }
__device__ __forceinline__ scalar narrow(float x) { return x; }
#endif

// (INFINITY is defined only in the host's headers.)
__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int step = 16; step; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

// Return the sum over all threads of the block to every thread. The block size is a multiple of 32. `scratch` holds 32
// floats; the caller may reuse it immediately.
__device__ __forceinline__ float block_sum(float x, float* scratch) {
    int warps = blockDim.x / 32;
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
    __syncthreads();
    float total = 0.0f;
    for (int warp = 0; warp < warps; ++warp) total += scratch[warp];
    __syncthreads();
    return total;
}

__device__ __forceinline__ float block_max(float x, float* scratch) {
    int warps = blockDim.x / 32;
    x = warp_max(x);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
    __syncthreads();
    float top = scratch[0];
    for (int warp = 1; warp < warps; ++warp) top = fmaxf(top, scratch[warp]);
    __syncthreads();
    return top;
}
