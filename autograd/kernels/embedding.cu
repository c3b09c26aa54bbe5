// Lookup of table rows by id, and the gradient of the table.
#include "eight.cuh"
#include "sums.cuh"

// y[i] = scale table[ids[i]]. One thread block handles one row. A thread handles eight neighbouring elements if rows
// begin at multiples of 16 bytes. An id outside the table gives NaN: no other code on the device checks ids.
extern "C" __global__ void __launch_bounds__(256) embedding_forward(
    const scalar* table, const long long* ids, scalar* y, int rows, int width, float scale) {
    long long id = ids[blockIdx.x];
    bool inside = id >= 0 && id < rows;
    const scalar* row = table + (inside ? size_t(id) * width : 0);
    scalar* own = y + size_t(blockIdx.x) * width;
    float factor = inside ? scale : infinity() - infinity();
    if (width % 8) {
        for (int i = threadIdx.x; i < width; i += blockDim.x) own[i] = narrow(factor * widen(row[i]));
        return;
    }
    for (int start = 8 * threadIdx.x; start < width; start += 8 * blockDim.x) {
        Eight eight = *reinterpret_cast<const Eight*>(row + start);
#pragma unroll
        for (int i = 0; i < 8; ++i) eight.value[i] = narrow(factor * widen(eight.value[i]));
        *reinterpret_cast<Eight*>(own + start) = eight;
    }
}

#define DIGITS 256

// Return the lanes of the warp that have the same digit as this lane. Lanes that are not `valid` have no digit.
__device__ __forceinline__ unsigned same_digit(unsigned digit, bool valid) {
    unsigned same = __ballot_sync(0xffffffffu, valid);
#pragma unroll
    for (int bit = 1; bit < DIGITS; bit *= 2) {
        unsigned having = __ballot_sync(0xffffffffu, digit & bit);
        same &= digit & bit ? having : ~having;
    }
    return same;
}

// Replace each count by the sum of the counts before it (exclusive prefix sum). A thread handles eight neighbouring
// counts; the block has at most 32 warps. `totals`: one word for each warp.
__device__ __forceinline__ void sums_before(unsigned* counts, unsigned* totals) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned own = 0, before = 0;
    for (int i = 0; i < 8; ++i) own += counts[8 * threadIdx.x + i];
    unsigned up_to = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        unsigned other = __shfl_up_sync(0xffffffffu, up_to, step);
        if (lane >= step) up_to += other;
    }
    if (lane == 31) totals[warp] = up_to;
    __syncthreads();
    for (int i = 0; i < warp; ++i) before += totals[i];
    before += up_to - own;
    for (int i = 0; i < 8; ++i) {
        unsigned count = counts[8 * threadIdx.x + i];
        counts[8 * threadIdx.x + i] = before;
        before += count;
    }
    __syncthreads();
}

// Sort the ids: sorted[0] receives the keys in order, sorted[1] their places. Equal keys stay in order. `padding` and
// ids outside the table come last, with key `rows`. One thread block runs a radix sort from the lowest digit on. A warp
// counts the digits of a range of ids, then places each id. The work is linear; unlike in a library's sort, the host
// does not wait. `sorted`: (4, count); the last two rows are workspace. Shared memory: 256 + 1 words a warp.
extern "C" __global__ void __launch_bounds__(1024, 1) embedding_order(
    const long long* ids, unsigned* sorted, int count, int rows, long long padding, int passes) {
    extern __shared__ unsigned counts[];  // (DIGITS, warps)
    int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int stretch = (count + blockDim.x - 1) / blockDim.x * 32, low = warp * stretch, high = min(low + stretch, count);
    for (int pass = 0; pass < passes; ++pass) {
        bool last = (passes - 1 - pass) % 2 == 0;  // this pass writes to the same rows as the last pass
        const unsigned* from = sorted + (last ? 2 * size_t(count) : 0);
        unsigned* to = sorted + (last ? 0 : 2 * size_t(count));
        for (int i = threadIdx.x; i < DIGITS * warps; i += blockDim.x) counts[i] = 0;
        __syncthreads();
        for (int placing = 0; placing < 2; ++placing) {
            for (int start = low; start < high; start += 32) {
                int i = start + lane;
                bool valid = i < high;
                unsigned key = 0, place = i;
                if (valid && pass) {
                    key = from[i];
                    place = from[count + i];
                } else if (valid) {
                    long long id = ids[i];
                    key = id < 0 || id >= rows || id == padding ? rows : unsigned(id);
                }
                unsigned digit = key >> 8 * pass & (DIGITS - 1), same = same_digit(digit, valid);
                unsigned before = __popc(same & ((1u << lane) - 1)), *own = counts + digit * warps + warp;
                unsigned target = valid ? *own + before : 0;
                __syncwarp();
                if (valid && before == 0) *own += __popc(same);
                __syncwarp();
                if (!valid || !placing) continue;
                to[target] = key;
                to[count + target] = place;
            }
            __syncthreads();
            if (!placing) sums_before(counts, counts + DIGITS * warps);
        }
    }
}

// Return how many of the sorted keys are below `key`. The warp compares 32 keys at a time.
__device__ __forceinline__ int count_below(const unsigned* keys, int count, unsigned key) {
    int low = 0, size = count;
    while (size > 0) {
        int step = (size + 31) / 32, probe = low + threadIdx.x % 32 * step;
        bool below = probe < low + size && keys[probe] < key;
        int found = __popc(__ballot_sync(0xffffffffu, below));  // number of probes below `key`: the first ones
        if (found == 0) break;
        int end = low + size;
        low += (found - 1) * step + 1;
        size = min(step - 1, end - low);
    }
    return low;
}

// All additions of the backward pass use this function.
__device__ __forceinline__ float plus(float a, float b) { return a + b; }

// Add eight columns of a row of g to `sum`.
__device__ __forceinline__ void add_row(float (&sum)[8], const scalar* g, size_t row, int column, int width) {
    const scalar* own = g + row * width;
    if (width % 8 == 0) {
        if (column >= width) return;
        Eight eight = *reinterpret_cast<const Eight*>(own + column);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] = plus(sum[i], widen(eight.value[i]));
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (column + i < width) sum[i] = plus(sum[i], widen(own[column + i]));
}

// Add the sums of warps 0 .. warps - 1; warp 0 receives the result. `shared`: 8 x 256 floats.
__device__ __forceinline__ void add_warps(float (&sum)[8], int warps, float* shared) {
    float* own = shared + 256 * threadIdx.y + threadIdx.x;
#pragma unroll
    for (int i = 0; i < 8; ++i) own[32 * i] = sum[i];
    __syncthreads();
    for (int warp = 1; warp < warps && threadIdx.y == 0; ++warp)
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] = plus(sum[i], own[256 * warp + 32 * i]);
    __syncthreads();
}

// Number of sorted ids in a piece. One thread block adds the rows of one piece.
#define PIECE 64

// dtable[id] = scale times the sum of the rows of g with this id. embedding_order computes `sorted`. In block (32, 8) a
// lane handles eight columns; blockIdx.y selects 256 columns. In the first ceil(rows / 8) blocks of the grid's x, a
// warp handles one row of the table, which is zero if its id does not occur. Each other block handles a piece of 64
// sorted ids. It adds the rows of those ids that occur more than 64 times: a frequent id must not be summed one row at
// a time. The last block of such an id adds the sums of its pieces, in `partial` (pieces, 2, width). The order of
// additions is fixed. `tickets`: (pieces, gridDim.y). Shared memory: 8 x 256 + 1 floats.
extern "C" __global__ void __launch_bounds__(256, 1) embedding_backward(
    const scalar* g, const unsigned* sorted, scalar* dtable, float* partial, unsigned* tickets, int count, int rows,
    int width, float scale) {
    extern __shared__ float shared[];
    int column = 8 * (blockIdx.y * 32 + threadIdx.x), row_blocks = (rows + 7) / 8, piece = blockIdx.x - row_blocks;
    const unsigned* order = sorted + count;
    float sum[8] = {};
    if (piece < 0) {
        int row = blockIdx.x * 8 + threadIdx.y;
        if (row >= rows) return;
        int low = count_below(sorted, count, row), high = low + count_below(sorted + low, count - low, row + 1);
        if (high - low > PIECE) return;
        for (int place = low; place < high; ++place) add_row(sum, g, order[place], column, width);
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (column + i < width) dtable[size_t(row) * width + column + i] = narrow(scale * sum[i]);
        return;
    }
    int begin = piece * PIECE, end = min(begin + PIECE, count);
    for (int slot = 0; slot < 2; ++slot) {  // slot 0: the first id of the piece; slot 1: the last id
        unsigned id = sorted[slot ? end - 1 : begin];
        int low = count_below(sorted, count, id), high = low + count_below(sorted + low, count - low, id + 1);
        if (id >= rows || high - low <= PIECE || (slot && low <= begin)) continue;
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] = 0.0f;
        for (int place = max(low, begin) + threadIdx.y; place < min(high, end); place += 8)
            add_row(sum, g, order[place], column, width);
        add_warps(sum, 8, shared);
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (threadIdx.y == 0 && column + i < width) partial[size_t(2 * piece + slot) * width + column + i] = sum[i];
        int first = low / PIECE, pieces = (high - 1) / PIECE - first + 1;
        if (!is_last(tickets + first * gridDim.y + blockIdx.y, pieces, shared + 8 * 256)) continue;
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] = 0.0f;
        for (int k = threadIdx.y; k < pieces; k += 8) {
            // In its first piece the id is in slot 1, unless the piece begins with it. In other pieces it is in slot 0.
            const float* own = partial + size_t(2 * (first + k) + (k == 0 && low % PIECE)) * width + column;
#pragma unroll
            for (int i = 0; i < 8; ++i)
                if (column + i < width) sum[i] = plus(sum[i], __ldcg(own + i));
        }
        add_warps(sum, min(pieces, 8), shared);
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (threadIdx.y == 0 && column + i < width) dtable[size_t(id) * width + column + i] = narrow(scale * sum[i]);
    }
}
