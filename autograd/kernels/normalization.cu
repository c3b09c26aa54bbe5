// Layer normalisation of rows of x, or (-DRESIDUAL=1) of residual + dropout(x). One thread block handles one row. Any
// width: a row may begin between two multiples of 16 bytes. (Ba, Kiros, Hinton 2016, arXiv 1607.06450.)
#include "eight.cuh"
#include "sums.cuh"

// z = x or residual + dropout(x), y = (z - mean) rstd weight + bias. A thread handles groups of eight elements with one
// draw of random bits each. Each step reads the stored z again: the rounded values that the backward pass reads. If a
// row begins inside a group, this group holds its first elements. Shared memory: 32 floats.
extern "C" __global__ void __launch_bounds__(256) layer_norm_forward(
    const scalar* x, const scalar* weight, const scalar* bias, scalar* y, float* mean, float* rstd, int rows, int width,
    float eps
#if RESIDUAL
    , const scalar* residual, scalar* z, const unsigned long long* seed, unsigned long long call, unsigned threshold,
    float keep_scale
#endif
) {
    extern __shared__ float scratch[];
    size_t start = size_t(blockIdx.x) * width, end = start + width, first = start / 8 + threadIdx.x;
    float sum = 0.0f, squares = 0.0f;
    Eight own;
    for (size_t group = first; 8 * group < end; group += blockDim.x) {
        load_eight(own, x, 8 * group, end, start);
#if RESIDUAL
        Eight other;
        bool keep[8];
        load_eight(other, residual, 8 * group, end, start);
        draw_eight(keep, seed, call, group, threshold);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            float value = keep[i] ? widen(own.value[i]) * keep_scale : 0.0f;
            own.value[i] = narrow(widen(other.value[i]) + value);
        }
        store_eight(own, z, 8 * group, end, start);
#endif
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (8 * group + i >= start && 8 * group + i < end) sum += widen(own.value[i]);
    }
#if !RESIDUAL
    const scalar* z = x;
#endif
    float middle = block_sum(sum, scratch) / width;
    for (size_t group = first; 8 * group < end; group += blockDim.x) {
        load_eight(own, z, 8 * group, end, start);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            float centred = widen(own.value[i]) - middle;
            if (8 * group + i >= start && 8 * group + i < end) squares += centred * centred;
        }
    }
    float inverse = rsqrtf(block_sum(squares, scratch) / width + eps);
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = middle;
        rstd[blockIdx.x] = inverse;
    }
    for (size_t group = first; 8 * group < end; group += blockDim.x) {
        load_eight(own, z, 8 * group, end, start);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            size_t column = 8 * group + i - start;  // unsigned wraparound: >= width for an element before the row
            if (column < width)
                own.value[i] = narrow((widen(own.value[i]) - middle) * inverse * widen(weight[column]) + widen(bias[column]));
        }
        store_eight(own, y, 8 * group, end, start);
    }
}

// With h = g weight and x_hat = (z - mean) rstd: dz = rstd (h - mean(h) - x_hat mean(h x_hat)) + past. `past` is the
// gradient of z that bypasses the normalisation, or null. dx = dropout(dz) with the mask of the forward pass. A thread
// block handles every gridDim-th row. dweight and dbias are the sums of g x_hat and g over all rows. `partial`
// (gridDim, 2 width) holds the sums of the blocks. Shared memory: 2 width + 34 floats.
extern "C" __global__ void __launch_bounds__(256) layer_norm_backward(
    const scalar* g, const scalar* z, const scalar* weight, const float* mean, const float* rstd, scalar* dz,
    scalar* dweight, scalar* dbias, float* partial, unsigned* tickets, int rows, int width
#if RESIDUAL
    , const scalar* past, scalar* dx, const unsigned long long* seed, unsigned long long call, unsigned threshold,
    float keep_scale
#endif
) {
    extern __shared__ float shared[];
    float *weight_sum = shared, *bias_sum = shared + width, *scratch = shared + 2 * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) weight_sum[i] = bias_sum[i] = 0.0f;
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
        size_t end = start + width;
        for (size_t group = start / 8 + threadIdx.x; 8 * group < end; group += blockDim.x) {
            Eight gradient, stored, change;
            load_eight(gradient, g, 8 * group, end, start);
            load_eight(stored, z, 8 * group, end, start);
#if RESIDUAL
            Eight beside = {}, dropped;
            bool keep[8];
            if (past) load_eight(beside, past, 8 * group, end, start);
            draw_eight(keep, seed, call, group, threshold);
#endif
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                size_t column = 8 * group + i - start;
                float x_hat = (widen(stored.value[i]) - middle) * inverse;
                float scaled = column < width ? widen(gradient.value[i]) * widen(weight[column]) : 0.0f;
                float own = inverse * (scaled - first - x_hat * second);
#if RESIDUAL
                if (past) own += widen(beside.value[i]);
                dropped.value[i] = narrow(keep[i] ? own * keep_scale : 0.0f);
#endif
                change.value[i] = narrow(own);
            }
#if RESIDUAL
            store_eight(dropped, dx, 8 * group, end, start);
#endif
            store_eight(change, dz, 8 * group, end, start);
        }
    }
    float* own = partial + size_t(blockIdx.x) * 2 * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        own[i] = weight_sum[i];
        own[width + i] = bias_sum[i];
    }
    sum_blocks(partial, dweight, dbias, tickets, 2 * width, width, scratch + 32);
}
