// dropout(x), residual + dropout(x) (-DRESIDUAL=1), and dropout(activation(x + bias)) of a feed-forward network.
// A thread handles eight neighbouring elements with one draw of random bits.
#include "eight.cuh"
#include "philox.cuh"
#include "scalars.cuh"

// The activations: 0 none, 1 ReLU, 2 GELU, 3 SiLU. (Hendrycks and Gimpel 2016, arXiv 1606.08415.)
#ifndef ACTIVATION
#define ACTIVATION 0
#endif

__device__ __forceinline__ float activate(float x) {
#if ACTIVATION == 1
    return x <= 0.0f ? 0.0f : x;  // NaN stays NaN
#elif ACTIVATION == 2
    return x * normcdff(x);
#elif ACTIVATION == 3
    return x / (1.0f + __expf(-x));
#else
    return x;
#endif
}

// g activation'(x). ReLU selects: an infinite g times 0 would be NaN.
__device__ __forceinline__ float activate_backward(float g, float x) {
#if ACTIVATION == 1
    return x <= 0.0f ? 0.0f : g;
#elif ACTIVATION == 2
    return g * (normcdff(x) + x * 0.3989422804f * __expf(-0.5f * x * x));
#elif ACTIVATION == 3
    float s = 1.0f / (1.0f + __expf(-x));
    return g * (s * (1.0f + x * (1.0f - s)));
#else
    return g;
#endif
}

// y = dropout(x), plus the residual. Without the residual, the same kernel computes the gradient of x from that of y.
extern "C" __global__ void __launch_bounds__(256) dropout_add(
    const scalar* x, scalar* y, long long n, const unsigned long long* seed, unsigned long long call,
    unsigned threshold, float keep_scale
#if RESIDUAL
    , const scalar* residual
#endif
) {
    size_t group = size_t(blockIdx.x) * blockDim.x + threadIdx.x, start = group * 8;
    if (start >= n) return;
    bool keep[8];
    draw_eight(keep, seed, call, group, threshold);
    Eight eight;
    load_eight(eight, x, start, n);
#if RESIDUAL
    Eight added;
    load_eight(added, residual, start, n);
#endif
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        float value = keep[i] ? widen(eight.value[i]) * keep_scale : 0.0f;
#if RESIDUAL
        value += widen(added.value[i]);
#endif
        eight.value[i] = narrow(value);
    }
    store_eight(eight, y, start, n);
}

// y = dropout(activation(x + bias)). A row of x has `width` elements. A null bias means no bias.
extern "C" __global__ void __launch_bounds__(256) bias_activation_dropout(
    const scalar* x, const scalar* bias, scalar* y, long long n, int width,
    const unsigned long long* seed, unsigned long long call, unsigned threshold, float keep_scale) {
    size_t group = size_t(blockIdx.x) * blockDim.x + threadIdx.x, start = group * 8;
    if (start >= n) return;
    bool keep[8];
    draw_eight(keep, seed, call, group, threshold);
    Eight eight;
    load_eight(eight, x, start, n);
    int column = int(start % width);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        float value = activate(widen(eight.value[i]) + (bias ? widen(bias[column]) : 0.0f));
        eight.value[i] = narrow(keep[i] ? value * keep_scale : 0.0f);
        column = column + 1 == width ? 0 : column + 1;
    }
    store_eight(eight, y, start, n);
}

// dx = dropout(g) activation'(x + bias); the gradient of the bias is the sum of dx over the rows.
extern "C" __global__ void __launch_bounds__(256) bias_activation_dropout_backward(
    const scalar* g, const scalar* x, const scalar* bias, scalar* dx, long long n, int width,
    const unsigned long long* seed, unsigned long long call, unsigned threshold, float keep_scale) {
    size_t group = size_t(blockIdx.x) * blockDim.x + threadIdx.x, start = group * 8;
    if (start >= n) return;
    bool keep[8];
    draw_eight(keep, seed, call, group, threshold);
    Eight eight, gradient;
    load_eight(eight, x, start, n);
    load_eight(gradient, g, start, n);
    int column = int(start % width);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        float change = keep[i] ? widen(gradient.value[i]) * keep_scale : 0.0f;
        eight.value[i] = narrow(activate_backward(change, widen(eight.value[i]) + (bias ? widen(bias[column]) : 0.0f)));
        column = column + 1 == width ? 0 : column + 1;
    }
    store_eight(eight, dx, start, n);
}
