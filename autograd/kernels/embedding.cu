// Rows of a table by id, and their gradient.
#include "scalars.cuh"

// y[i] = scale table[ids[i]]; one block a row.
extern "C" __global__ void __launch_bounds__(256) embedding_forward(
    const scalar* table, const long long* ids, scalar* y, int width, float scale) {
    const scalar* row = table + size_t(ids[blockIdx.x]) * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        y[size_t(blockIdx.x) * width + i] = narrow(scale * widen(row[i]));
}

// dtable[id] = scale times the sum of the rows g whose id it is; the other rows are left alone. `order` sorts the ids: the
// block of the first place of each id adds up all of them, so nothing is added to by two blocks.
extern "C" __global__ void __launch_bounds__(256) embedding_backward(
    const scalar* g, const long long* ids, const long long* order, scalar* dtable, int count, int width, float scale,
    long long padding) {
    int first = blockIdx.x;
    long long id = ids[order[first]];
    if (id == padding || (first > 0 && ids[order[first - 1]] == id)) return;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float sum = 0.0f;
        for (int place = first; place < count && ids[order[place]] == id; ++place)
            sum += widen(g[size_t(order[place]) * width + i]);
        dtable[size_t(id) * width + i] = narrow(scale * sum);
    }
}
