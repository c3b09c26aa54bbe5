// Layer normalisation of rows of x, or (-DRESIDUAL=1) of residual + dropout(x). One warp handles one row. The width is
// a multiple of 8, at most 256 EIGHTS. A lane holds every 32nd group of eight elements. The row is read once, 16 bytes
// at a time; one draw of random bits per group. Rows need no block barrier. (Ba, Kiros, Hinton 2016, arXiv 1607.06450.)
#include "eight.cuh"
#include "sums.cuh"

__device__ __forceinline__ const Eight& eight_of(const scalar* x, size_t number) {
    return reinterpret_cast<const Eight*>(x)[number];
}

__device__ __forceinline__ Eight& eight_of(scalar* x, size_t number) { return reinterpret_cast<Eight*>(x)[number]; }

// z = x or residual + dropout(x), y = (z - mean) rstd weight + bias. y is computed from z as rounded for the store.
extern "C" __global__ void __launch_bounds__(128) layer_norm_forward(
    const scalar* x, const scalar* weight, const scalar* bias, scalar* y, float* mean, float* rstd, int rows, int width,
    float eps
#if RESIDUAL
    , const scalar* residual, scalar* z, const unsigned long long* seed, unsigned long long call, unsigned threshold,
    float keep_scale
#endif
) {
    int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32, eights = width / 8;
    if (row >= rows) return;
    size_t first = size_t(row) * eights;
    Eight own[EIGHTS];
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int k = 0; k < EIGHTS; ++k) {
        int place = lane + 32 * k;
        if (place >= eights) continue;
        own[k] = eight_of(x, first + place);
#if RESIDUAL
        Eight other = eight_of(residual, first + place);
        bool keep[8];
        draw_eight(keep, seed, call, first + place, threshold);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            float value = keep[i] ? widen(own[k].value[i]) * keep_scale : 0.0f;
            own[k].value[i] = narrow(widen(other.value[i]) + value);
        }
        eight_of(z, first + place) = own[k];
#endif
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += widen(own[k].value[i]);
    }
    float middle = warp_sum(sum) / width;
#pragma unroll
    for (int k = 0; k < EIGHTS; ++k) {
        if (lane + 32 * k >= eights) continue;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            float centred = widen(own[k].value[i]) - middle;
            squares += centred * centred;
        }
    }
    float inverse = rsqrtf(warp_sum(squares) / width + eps);
    if (lane == 0) {
        mean[row] = middle;
        rstd[row] = inverse;
    }
#pragma unroll
    for (int k = 0; k < EIGHTS; ++k) {
        int place = lane + 32 * k;
        if (place >= eights) continue;
        Eight factor = eight_of(weight, place), shift = eight_of(bias, place);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            float x_hat = (widen(own[k].value[i]) - middle) * inverse;
            own[k].value[i] = narrow(x_hat * widen(factor.value[i]) + widen(shift.value[i]));
        }
        eight_of(y, first + place) = own[k];
    }
}

// Compute the results of layer_norm_backward in normalization.cu. A warp handles every (8 gridDim)-th row; a lane holds
// the sums of g x_hat and g for its columns. `partial`: (gridDim, 2 width). Shared memory: 2 width + 2 floats.
extern "C" __global__ void __launch_bounds__(256, 1) layer_norm_backward(
    const scalar* g, const scalar* z, const scalar* weight, const float* mean, const float* rstd, scalar* dz,
    scalar* dweight, scalar* dbias, float* partial, unsigned* tickets, int rows, int width
#if RESIDUAL
    , const scalar* past, scalar* dx, const unsigned long long* seed, unsigned long long call, unsigned threshold,
    float keep_scale
#endif
) {
    extern __shared__ float shared[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, eights = width / 8;
    float weight_sum[EIGHTS][8] = {}, bias_sum[EIGHTS][8] = {};
    for (int row = blockIdx.x * 8 + warp; row < rows; row += 8 * gridDim.x) {
        size_t start = size_t(row) * eights;
        float middle = mean[row], inverse = rstd[row], first = 0.0f, second = 0.0f;
        Eight gradient[EIGHTS], stored[EIGHTS];
#pragma unroll
        for (int k = 0; k < EIGHTS; ++k) {
            int place = lane + 32 * k;
            if (place >= eights) continue;
            Eight factor = eight_of(weight, place);
            gradient[k] = eight_of(g, start + place);
            stored[k] = eight_of(z, start + place);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                float x_hat = (widen(stored[k].value[i]) - middle) * inverse, own = widen(gradient[k].value[i]);
                weight_sum[k][i] += own * x_hat;
                bias_sum[k][i] += own;
                own *= widen(factor.value[i]);
                first += own;
                second += own * x_hat;
            }
        }
        first = warp_sum(first) / width;
        second = warp_sum(second) / width;
#pragma unroll
        for (int k = 0; k < EIGHTS; ++k) {
            int place = lane + 32 * k;
            if (place >= eights) continue;
            Eight factor = eight_of(weight, place), change;
#if RESIDUAL
            Eight beside = {}, dropped;
            bool keep[8];
            if (past) beside = eight_of(past, start + place);
            draw_eight(keep, seed, call, start + place, threshold);
#endif
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                float x_hat = (widen(stored[k].value[i]) - middle) * inverse;
                float own = inverse * (widen(gradient[k].value[i]) * widen(factor.value[i]) - first - x_hat * second);
#if RESIDUAL
                if (past) own += widen(beside.value[i]);
                dropped.value[i] = narrow(keep[i] ? own * keep_scale : 0.0f);
#endif
                change.value[i] = narrow(own);
            }
#if RESIDUAL
            eight_of(dx, start + place) = dropped;
#endif
            eight_of(dz, start + place) = change;
        }
    }
    // Add the sums of the warps, one warp after the other: the order of additions is fixed.
    for (int turn = 0; turn < 8; ++turn) {
        if (warp == turn)
#pragma unroll
            for (int k = 0; k < EIGHTS; ++k)
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    int column = 8 * (lane + 32 * k) + i;
                    if (column >= width) continue;
                    shared[column] = weight_sum[k][i] + (turn ? shared[column] : 0.0f);
                    shared[width + column] = bias_sum[k][i] + (turn ? shared[width + column] : 0.0f);
                }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < 2 * width; i += blockDim.x) partial[size_t(blockIdx.x) * 2 * width + i] = shared[i];
    sum_blocks(partial, dweight, dbias, tickets, 2 * width, width, shared + 2 * width);
}
