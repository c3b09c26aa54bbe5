// Layer normalisation of rows, alone or (-DRESIDUAL=1) of residual + dropout(x). (Ba, Kiros, Hinton 2016, 1607.06450.)
#include "philox.cuh"
#include "scalars.cuh"

// One block a row: z = x or residual + dropout(x), y = (z - mean) rstd weight + bias. The row waits in shared memory
// (width floats, then 32 of scratch), rounded as it is stored: the backward pass reads the same numbers.
extern "C" __global__ void __launch_bounds__(256) layer_norm_forward(
    const scalar* x, const scalar* weight, const scalar* bias, scalar* y, float* mean, float* rstd, int width, float eps
#if RESIDUAL
    , const scalar* residual, scalar* z, const unsigned long long* seed, unsigned long long call, unsigned threshold,
    float keep_scale
#endif
) {
    extern __shared__ float shared[];
    float *row = shared, *scratch = shared + width;
    size_t start = size_t(blockIdx.x) * width;
    float sum = 0.0f;
#if RESIDUAL
    uint2 key = key_of(seed);
#endif
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float value = widen(x[start + i]);
#if RESIDUAL
        value = dropout_keeps(key, call, start + i, threshold) ? value * keep_scale : 0.0f;
        scalar stored = narrow(widen(residual[start + i]) + value);
        z[start + i] = stored;
        value = widen(stored);
#endif
        row[i] = value;
        sum += value;
    }
    float middle = block_sum(sum, scratch) / width;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float centred = row[i] - middle;
        squares += centred * centred;
    }
    float inverse = rsqrtf(block_sum(squares, scratch) / width + eps);
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = middle;
        rstd[blockIdx.x] = inverse;
    }
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        y[start + i] = narrow((row[i] - middle) * inverse * widen(weight[i]) + widen(bias[i]));
}

// With h = g weight and x_hat = (z - mean) rstd: dz = rstd (h - mean(h) - x_hat mean(h x_hat)), plus what reaches z
// past the normalisation, if `past` is not null; dx = dropout(dz) with the mask of the forward pass. A block takes every
// gridDim-th row and leaves its sums of g x_hat and g over them in row blockIdx of `partial` (2, gridDim, width).
// Shared memory: 2 width + 32 floats.
extern "C" __global__ void __launch_bounds__(256) layer_norm_backward(
    const scalar* g, const scalar* z, const scalar* weight, const float* mean, const float* rstd, scalar* dz,
    float* partial, int rows, int width
#if RESIDUAL
    , const scalar* past, scalar* dx, const unsigned long long* seed, unsigned long long call, unsigned threshold,
    float keep_scale
#endif
) {
    extern __shared__ float shared[];
    float *weight_sum = shared, *bias_sum = shared + width, *scratch = shared + 2 * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) weight_sum[i] = bias_sum[i] = 0.0f;
#if RESIDUAL
    uint2 key = key_of(seed);
#endif
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        size_t start = size_t(row) * width;
        float middle = mean[row], inverse = rstd[row], first = 0.0f, second = 0.0f;
        for (int i = threadIdx.x; i < width; i += blockDim.x) {
            float gradient = widen(g[start + i]), x_hat = (widen(z[start + i]) - middle) * inverse;
            weight_sum[i] += gradient * x_hat;
            bias_sum[i] += gradient;
            float h = gradient * widen(weight[i]);
            first += h;
            second += h * x_hat;
        }
        first = block_sum(first, scratch) / width;
        second = block_sum(second, scratch) / width;
        for (int i = threadIdx.x; i < width; i += blockDim.x) {
            float x_hat = (widen(z[start + i]) - middle) * inverse;
            float change = inverse * (widen(g[start + i]) * widen(weight[i]) - first - x_hat * second);
#if RESIDUAL
            if (past) change += widen(past[start + i]);
            dx[start + i] = narrow(dropout_keeps(key, call, start + i, threshold) ? change * keep_scale : 0.0f);
#endif
            dz[start + i] = narrow(change);
        }
    }
    float* own = partial + size_t(blockIdx.x) * width;
    size_t other = size_t(gridDim.x) * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        own[i] = weight_sum[i];
        own[other + i] = bias_sum[i];
    }
}
