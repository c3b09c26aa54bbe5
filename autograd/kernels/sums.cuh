// Sums that blocks make together, in one launch: each leaves its part, and the last one to be done adds the parts up, in
// an order that never changes, whichever block that is.
#pragma once
#include "scalars.cuh"

// Whether this block is the last of `count` to come here, for all its threads: they then see what the others wrote
// before. `ticket` is 0 at first, and again after the last. `flag` is a word of shared memory for nothing else.
__device__ __forceinline__ bool is_last(unsigned* ticket, unsigned count, float* flag) {
    unsigned* last = reinterpret_cast<unsigned*>(flag);
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        __threadfence();
        *last = atomicInc(ticket, count - 1) == count - 1;
        __threadfence();
    }
    __syncthreads();
    return *last != 0;
}

// Rows of `partial` that one block adds up: few, since it is a block alone.
#define SUMMED 16

// The end of a kernel whose block b has left `width` sums in row b of `partial` (gridDim.x, width): the sums of the rows,
// the first `half` of them in `out`, the others in `second`. Every sixteen blocks add theirs up, then all sixteens.
// `tickets`: 1 + gridDim.x / 16 of them; `flag`: two words of shared memory.
__device__ __forceinline__ void sum_blocks(
    float* partial, scalar* out, scalar* second, unsigned* tickets, int width, int half, float* flag) {
    unsigned group = blockIdx.x / SUMMED, groups = (gridDim.x + SUMMED - 1) / SUMMED;
    unsigned first = group * SUMMED, members = min(unsigned(SUMMED), gridDim.x - first);
    if (!is_last(tickets + 1 + group, members, flag)) return;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float sum = 0.0f;
        for (unsigned row = 0; row < members; ++row) sum += __ldcg(partial + size_t(first + row) * width + i);
        partial[size_t(first) * width + i] = sum;
    }
    if (!is_last(tickets, groups, flag + 1)) return;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float sum = 0.0f;
        for (unsigned row = 0; row < groups; ++row) sum += __ldcg(partial + size_t(row) * SUMMED * width + i);
        (i < half ? out[i] : second[i - half]) = narrow(sum);
    }
}
