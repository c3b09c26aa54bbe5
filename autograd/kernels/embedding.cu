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

// dtable[id] = scale times the sum of the rows g whose id it is; the other rows are left alone. `order` sorts the ids: the
// block of the first place of each id adds up all of them, so nothing is added to by two blocks.
extern "C" __global__ void __launch_bounds__(256) embedding_backward(
    const scalar* g, const long long* ids, const long long* order, scalar* dtable, int count, int rows, int width,
    float scale, long long padding) {
    int first = blockIdx.x;
    long long id = ids[order[first]];
    if (id < 0 || id >= rows || id == padding || (first > 0 && ids[order[first - 1]] == id)) return;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float sum = 0.0f;
        for (int place = first; place < count && ids[order[place]] == id; ++place)
            sum += widen(g[size_t(order[place]) * width + i]);
        dtable[size_t(id) * width + i] = narrow(scale * sum);
    }
}
