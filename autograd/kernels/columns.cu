// Sums over rows: gradients of biases and of other arrays that all rows share.
#include "eight.cuh"
#include "sums.cuh"

// Add the column sums of the eight warps; warp 0 receives the result. `shared`: 8 x 256 floats.
__device__ __forceinline__ void add_warps(float (&sum)[8], float* shared) {
    float* own = shared + 256 * threadIdx.y + threadIdx.x;
#pragma unroll
    for (int i = 0; i < 8; ++i) own[32 * i] = sum[i];
    __syncthreads();
    if (threadIdx.y) return;
    for (int warp = 1; warp < 8; ++warp)
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] += own[256 * warp + 32 * i];
}

// out[column] = sum of the rows of x. Block (32, 8): a lane adds eight columns, a warp every eighth row of chunk
// blockIdx.y. `partial` (gridDim.y, width): chunk sums. `tickets`: gridDim.x words. Shared memory: 8 x 256 + 1 floats.
extern "C" __global__ void __launch_bounds__(256) column_sums(
    const scalar* x, scalar* out, float* partial, unsigned* tickets, int rows, int width, int rows_per_chunk) {
    extern __shared__ float shared[];
    int column = 8 * (blockIdx.x * 32 + threadIdx.x), low = blockIdx.y * rows_per_chunk;
    int high = min(low + rows_per_chunk, rows);
    float sum[8] = {};
    for (int row = low + threadIdx.y; row < high; row += 8) {
        const scalar* own = x + size_t(row) * width;
        Eight eight;
        if (width % 8 == 0 && column < width) eight = *reinterpret_cast<const Eight*>(own + column);
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (column + i < width) sum[i] += widen(width % 8 ? own[column + i] : eight.value[i]);
    }
    add_warps(sum, shared);
    if (gridDim.y > 1) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (threadIdx.y == 0 && column + i < width) partial[size_t(blockIdx.y) * width + column + i] = sum[i];
        if (!is_last(tickets + blockIdx.x, gridDim.y, shared + 8 * 256)) return;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            sum[i] = 0.0f;
            if (column + i < width)
                for (int chunk = threadIdx.y; chunk < gridDim.y; chunk += 8)
                    sum[i] += __ldcg(partial + size_t(chunk) * width + column + i);
        }
        add_warps(sum, shared);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (threadIdx.y == 0 && column + i < width) out[column + i] = narrow(sum[i]);
}
