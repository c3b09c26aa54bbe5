// Rows of a table by id, and their gradient.
#include "scalars.cuh"

// y[i] = scale table[ids[i]]; one block a row. An id outside the table gives NaN: nobody else looks at ids on the device.
extern "C" __global__ void __launch_bounds__(256) embedding_forward(
    const scalar* table, const long long* ids, scalar* y, int rows, int width, float scale) {
    long long id = ids[blockIdx.x];
    bool inside = id >= 0 && id < rows;
    const scalar* row = table + (inside ? size_t(id) * width : 0);
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        y[size_t(blockIdx.x) * width + i] = narrow(inside ? scale * widen(row[i]) : infinity() - infinity());
}

// order[k] = the place of the k-th smallest id, of equal ones the first: a thread counts the ids that stand before its
// own. The quadratic work is little for the ids of a batch, and no host waits as with a library's sort. Shared memory:
// an id a thread.
extern "C" __global__ void __launch_bounds__(64) embedding_order(const long long* ids, long long* order, int count) {
    extern __shared__ long long tile[];
    int place = blockIdx.x * blockDim.x + threadIdx.x, rank = 0;
    long long own = place < count ? ids[place] : 0;
    for (int start = 0; start < count; start += blockDim.x) {
        int length = min(count - start, int(blockDim.x));
        if (threadIdx.x < length) tile[threadIdx.x] = ids[start + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < length; ++k) rank += tile[k] < own || (tile[k] == own && start + k < place);
        __syncthreads();
    }
    if (place < count) order[rank] = place;
}

// Where the run of the id at order[first] ends: in steps that double, then by halves. Most ids stand once or twice, and of
// one that stands a thousand times twenty are looked at.
__device__ __forceinline__ int end_of_run(const long long* ids, const long long* order, int first, int count) {
    long long id = ids[order[first]];
    int inside = first, step = 1;
    while (inside + step < count && ids[order[inside + step]] == id) inside += step, step *= 2;
    for (; step; step /= 2)
        if (inside + step < count && ids[order[inside + step]] == id) inside += step;
    return inside + 1;
}

// dtable[id] = scale times the sum of the rows g whose id it is; the other rows are left alone. `order` sorts the ids: the
// block of the first place of each id adds up all of them, so nothing is added to by two blocks. Block (32, 8): a column a
// lane, blockIdx.y for the next 32, and every eighth row of the run a warp, for a frequent id must not be summed one by
// one. The order of additions is fixed. Shared memory: 8 x 32 floats.
extern "C" __global__ void __launch_bounds__(256) embedding_backward(
    const scalar* g, const long long* ids, const long long* order, scalar* dtable, int count, int rows, int width,
    float scale, long long padding) {
    extern __shared__ float sums[];
    int first = blockIdx.x, column = blockIdx.y * 32 + threadIdx.x;
    long long id = ids[order[first]];
    if (id < 0 || id >= rows || id == padding || (first > 0 && ids[order[first - 1]] == id)) return;
    int end = end_of_run(ids, order, first, count);
    float sum = 0.0f;
#pragma unroll 4
    for (int place = first + threadIdx.y; place < end; place += 8)
        if (column < width) sum += widen(g[size_t(order[place]) * width + column]);
    sums[threadIdx.y * 32 + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || column >= width) return;
    for (int i = 1; i < min(8, end - first); ++i) sum += sums[i * 32 + threadIdx.x];
    dtable[size_t(id) * width + column] = narrow(scale * sum);
}
