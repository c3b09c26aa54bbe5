// Third rung: tensor cores. A warp multiplies 16 x 16 by 16 x 8 numbers with one instruction (warp.cuh).
//
// A row of a tile has 128 bytes, which fill all 32 banks of shared memory. ldmatrix reads the same chunk of eight rows
// at a time. These chunks lie in the same four banks: an eight-way bank conflict, eight accesses instead of one.
__device__ __forceinline__ unsigned at(int row, int chunk) { return row * 128 + chunk * 16; }

#include "warp.cuh"

__device__ __forceinline__ void copy(char* tile, const half* matrix, int first, int length) {
#pragma unroll
    for (int i = 0; i < ROWS * 8 / THREADS; ++i) {  // a row has 8 chunks of 16 bytes
        int row = i * (THREADS / 8) + threadIdx.x / 8, chunk = threadIdx.x % 8;
        uint4 data = make_uint4(0, 0, 0, 0);  // beyond the last row: a weight of zero times this must be zero
        if (first + row < length) data = *reinterpret_cast<const uint4*>(matrix + (first + row) * D + chunk * 8);
        *reinterpret_cast<uint4*>(tile + at(row, chunk)) = data;
    }
}

extern "C" __global__ void tensor_cores(PARAMETERS) {
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
        __syncthreads();  // the tile is complete
        float s[ROWS / 8][4] = {};
        warp.scores(s, shared_address(k_tile));
        warp.weights(s, first, keys, scale * LOG2_E);
        warp.add_values(s, shared_address(v_tile));
        __syncthreads();  // all threads have read the tile
    }
    warp.write(out, blockIdx.x * ROWS, queries);
}
