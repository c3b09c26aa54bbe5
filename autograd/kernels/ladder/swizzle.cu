// Fourth rung: the chunks of a row are permuted, so that ldmatrix reads no two of its eight rows from the same banks.
//
// Chunk c of row r is stored at the position of chunk c ^ (r % 8). This is a permutation within a row. Nothing else
// changes.
__device__ __forceinline__ unsigned at(int row, int chunk) { return row * 128 + (chunk ^ row % 8) * 16; }

#include "warp.cuh"

__device__ __forceinline__ void copy(char* tile, const half* matrix, int first, int length) {
#pragma unroll
    for (int i = 0; i < ROWS * 8 / THREADS; ++i) {
        int row = i * (THREADS / 8) + threadIdx.x / 8, chunk = threadIdx.x % 8;
        uint4 data = make_uint4(0, 0, 0, 0);
        if (first + row < length) data = *reinterpret_cast<const uint4*>(matrix + (first + row) * D + chunk * 8);
        *reinterpret_cast<uint4*>(tile + at(row, chunk)) = data;
    }
}

extern "C" __global__ void swizzle(PARAMETERS) {
    OF_THIS_HEAD
    extern __shared__ __align__(128) uint4 memory[];
    char *q_tile = reinterpret_cast<char*>(memory), *k_tile = q_tile + TILE, *v_tile = k_tile + TILE;
    copy(q_tile, query, blockIdx.x * ROWS, queries);
    __syncthreads();
    Warp warp;
    warp.begin(shared_address(q_tile));
    for (int first = 0; first < keys; first += ROWS) {
        copy(k_tile, key, first, keys);
        copy(v_tile, value, first, keys);
        __syncthreads();
        float s[ROWS / 8][4] = {};
        warp.scores(s, shared_address(k_tile));
        warp.weights(s, first, keys, scale * LOG2_E);
        warp.add_values(s, shared_address(v_tile));
        __syncthreads();
    }
    warp.write(out, blockIdx.x * ROWS, queries);
}
