// Sums over rows: gradients of biases and of what all rows share. Two launches, so that no thread waits for another
// block and the order of the additions never changes.
#include "scalars.cuh"

// partial[c, column] = sum of the rows of chunk c. Blocks of 32 columns x 8; shared memory: 256 floats.
extern "C" __global__ void __launch_bounds__(256) column_sums(
    const scalar* x, float* partial, int rows, int width, int rows_per_chunk) {
    extern __shared__ float shared[];
    int column = blockIdx.x * 32 + threadIdx.x, low = blockIdx.y * rows_per_chunk;
    int high = min(low + rows_per_chunk, rows);
    float sum = 0.0f;
    if (column < width)
        for (int row = low + threadIdx.y; row < high; row += 8) sum += widen(x[size_t(row) * width + column]);
    shared[threadIdx.y * 32 + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < width) {
        for (int i = 1; i < 8; ++i) sum += shared[i * 32 + threadIdx.x];
        partial[size_t(blockIdx.y) * width + column] = sum;
    }
}

// out[column] = sum over the chunks of partial[0, chunk, column], second[column] that of partial[1, chunk, column]. A
// thread a column, blockIdx.y is 0 or 1.
extern "C" __global__ void __launch_bounds__(256) sum_chunks(
    const float* partial, scalar* out, scalar* second, int chunks, int width) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const float* own = partial + size_t(blockIdx.y) * chunks * width;
    float sum = 0.0f;
    for (int chunk = 0; chunk < chunks; ++chunk) sum += own[size_t(chunk) * width + column];
    (blockIdx.y ? second : out)[column] = narrow(sum);
}
