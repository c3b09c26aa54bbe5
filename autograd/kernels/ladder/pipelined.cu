// Fifth rung: the next tile is copied while a tile is multiplied.
//
// cp.async starts a copy that bypasses the registers, and the thread continues. V is copied during the product with K,
// and the next K during the product with V. A barrier follows each wait, because a thread can wait only for its own
// copies, and because all threads must have read a tile before it is overwritten. (attention_forward.cu adds 32 queries
// per warp, addresses that are computed once, edges and options.)
__device__ __forceinline__ unsigned at(int row, int chunk) { return row * 128 + (chunk ^ row % 8) * 16; }

#include "warp.cuh"

__device__ __forceinline__ void copy(unsigned tile, const half* matrix, int first, int length) {
#pragma unroll
    for (int i = 0; i < ROWS * 8 / THREADS; ++i) {
        int row = i * (THREADS / 8) + threadIdx.x / 8, chunk = threadIdx.x % 8;
        cp_async_16(tile + at(row, chunk), matrix + (first + row) * D + chunk * 8, first + row < length);
    }
    cp_async_commit();
}

extern "C" __global__ void pipelined(PARAMETERS) {
    OF_THIS_HEAD
    extern __shared__ __align__(128) uint4 memory[];
    unsigned q_tile = shared_address(memory), k_tile = q_tile + TILE, v_tile = k_tile + TILE;
    copy(q_tile, query, blockIdx.x * ROWS, queries);
    copy(k_tile, key, 0, keys);
    cp_async_wait<1>();
    __syncthreads();  // Q has arrived, K is still being copied
    Warp warp;
    warp.begin(q_tile);
    for (int first = 0; first < keys; first += ROWS) {
        cp_async_wait<0>();
        __syncthreads();  // K has arrived, and all warps have read the previous V
        copy(v_tile, value, first, keys);
        float s[ROWS / 8][4] = {};
        warp.scores(s, k_tile);
        warp.weights(s, first, keys, scale * LOG2_E);
        cp_async_wait<0>();
        __syncthreads();  // V has arrived, and all warps have read K
        if (first + ROWS < keys) copy(k_tile, key, first + ROWS, keys);
        warp.add_values(s, v_tile);
    }
    warp.write(out, blockIdx.x * ROWS, queries);
}
