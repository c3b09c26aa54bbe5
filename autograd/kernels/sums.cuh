// Sums over thread blocks in one launch. Each block stores its partial sums, and the last block to finish adds them.
// The order of additions is fixed, whichever block is last.
#pragma once
#include "scalars.cuh"

// Return to all threads whether this block is the last of `count` to arrive. It then sees all earlier writes of the
// others. `ticket` is 0 before the first call and after the last. `flag`: a separate word of shared memory.
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

// Rows of `partial` that one block adds: few, since no other block shares this work.
#define SUMMED 16

// Last step of a kernel in which block b has stored `width` sums in row b of `partial` (gridDim.x, width). Add the
// rows: the first `half` sums go to `out`, the others to `second`. Each group of sixteen blocks is added first, then
// the groups. `tickets`: 1 + ceil(gridDim.x / 16) words. `flag`: two words of shared memory.
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
