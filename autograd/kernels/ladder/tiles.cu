// Second rung: a thread block copies a tile of keys and values to shared memory, and all of its threads read this tile.
//
// Memory is now read once per thread block instead of once per thread, 16 bytes at a time. The arithmetic is that of
// the first rung: one thread per row, one instruction per product.
#include "common.cuh"

constexpr int ROWS = 64;  // queries per thread block, one per thread; also keys per tile

__device__ __forceinline__ void copy(half* tile, const half* matrix, int first, int length) {
    for (int i = threadIdx.x; i < ROWS * D / 8; i += ROWS)  // 8 elements have 16 bytes
        if (first + i * 8 / D < length)
            reinterpret_cast<uint4*>(tile)[i] = reinterpret_cast<const uint4*>(matrix + first * D)[i];
}

extern "C" __global__ void tiles(PARAMETERS) {
    OF_THIS_HEAD
    extern __shared__ __align__(128) uint4 memory[];
    half *k_tile = reinterpret_cast<half*>(memory), *v_tile = k_tile + ROWS * D;
    int i = blockIdx.x * ROWS + threadIdx.x;
    bool here = i < queries;  // a thread without a query still copies, and takes part in barriers
    float q[D], o[D] = {}, top = -INFINITE, sum = 0.0f;
#pragma unroll
    for (int d = 0; d < D; ++d) q[d] = here ? float(query[i * D + d]) * scale * LOG2_E : 0.0f;
    for (int first = 0; first < keys; first += ROWS) {
        copy(k_tile, key, first, keys);
        copy(v_tile, value, first, keys);
        __syncthreads();  // the tile is complete
        for (int j = 0; j < min(ROWS, keys - first); ++j) {
            float s = 0.0f;
#pragma unroll
            for (int d = 0; d < D; ++d) s += q[d] * float(k_tile[j * D + d]);
            float new_top = fmaxf(top, s), rescale = exp2f(top - new_top), p = exp2f(s - new_top);
            top = new_top;
            sum = sum * rescale + p;
#pragma unroll
            for (int d = 0; d < D; ++d) o[d] = o[d] * rescale + p * float(v_tile[j * D + d]);
        }
        __syncthreads();  // all threads have read the tile
    }
#pragma unroll
    for (int d = 0; here && d < D; ++d) out[i * D + d] = half(o[d] / sum);
}
