// One update of all parameters. The parameters, their gradients and their moments are each contiguous in one array.
// Includes the loss scale of fp16 training and gradient norm clipping. No value is copied to the host.
#include "scalars.cuh"

// State that the device keeps between steps.
struct State {
    float loss_scale;  // factor of the loss
    float multiplier;  // factor of the gradients in this step; 0 skips the step
    float norm;        // norm of the gradient, before clipping
    int good;          // good steps since the scale last changed
    int steps;         // number of updates
    int skipped;       // number of skipped updates
    int failed;        // skipped updates whose loss scale was already the minimum
};

// Settings that change from step to step. They are in device memory, so that a captured graph reads the new values.
struct Settings {
    float learning_rate;
    float average;  // factor that gives the gradient of the mean loss, without the loss scale
};

#define PARTS 32

// Add up to thirty-two parts to `flat`; a null part adds nothing. Part k = blockIdx.y has places[2 (first + k) + 1]
// elements and is added to `flat` from element places[2 (first + k)] on.
extern "C" __global__ void __launch_bounds__(256) add_parts(
    scalar* flat, const long long* places, int first, const scalar* p0, const scalar* p1, const scalar* p2,
    const scalar* p3, const scalar* p4, const scalar* p5, const scalar* p6, const scalar* p7, const scalar* p8,
    const scalar* p9, const scalar* p10, const scalar* p11, const scalar* p12, const scalar* p13, const scalar* p14,
    const scalar* p15, const scalar* p16, const scalar* p17, const scalar* p18, const scalar* p19, const scalar* p20,
    const scalar* p21, const scalar* p22, const scalar* p23, const scalar* p24, const scalar* p25, const scalar* p26,
    const scalar* p27, const scalar* p28, const scalar* p29, const scalar* p30, const scalar* p31) {
    const scalar* part = nullptr;
// Select by comparisons: an array of the pointers would be in local memory, for every thread.
#define TAKE(k) part = blockIdx.y == k ? p##k : part;
    TAKE(0) TAKE(1) TAKE(2) TAKE(3) TAKE(4) TAKE(5) TAKE(6) TAKE(7) TAKE(8) TAKE(9) TAKE(10)
    TAKE(11) TAKE(12) TAKE(13) TAKE(14) TAKE(15) TAKE(16) TAKE(17) TAKE(18) TAKE(19) TAKE(20)
    TAKE(21) TAKE(22) TAKE(23) TAKE(24) TAKE(25) TAKE(26) TAKE(27) TAKE(28) TAKE(29) TAKE(30) TAKE(31)
    if (!part) return;
    const long long* place = places + 2 * (first + blockIdx.y);
    scalar* own = flat + place[0];
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < place[1]; i += size_t(gridDim.x) * blockDim.x)
        own[i] = narrow(widen(own[i]) + widen(part[i]));
}

// partial[block] = sum of the squares of the block's part of g. Infinities and NaN propagate. Shared memory: 32 floats.
extern "C" __global__ void __launch_bounds__(256) squared_norm(const scalar* g, float* partial, long long n) {
    extern __shared__ float scratch[];
    float sum = 0.0f;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
        float value = widen(g[i]);
        sum += value * value;
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One thread block. Compute norm = sqrt(sum) average / loss_scale and clip the gradient to `max_norm`. After an
// overflow, skip the step and halve the loss scale, but not below `least`. After `interval` good steps, double the loss
// scale. (Micikevicius et al. 2018, arXiv 1710.03740.)
extern "C" __global__ void __launch_bounds__(256) prepare_update(
    const float* partial, int count, State* state, const Settings* settings, float max_norm, int interval, float least) {
    extern __shared__ float scratch[];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum += partial[i];
    sum = block_sum(sum, scratch);
    if (threadIdx.x != 0) return;
    State now = *state;
    float undo = settings->average / now.loss_scale, norm = sqrtf(sum) * undo;
    bool finite = sum < infinity();  // also false for NaN
    now.norm = norm;
    now.multiplier = !finite ? 0.0f : norm > max_norm ? undo * (max_norm / norm) : undo;
    if (finite) {
        now.steps += 1;
        now.good += 1;
        if (now.good == interval) {
            now.loss_scale *= 2.0f;
            now.good = 0;
        }
    } else {
        now.skipped += 1;
        now.failed += now.loss_scale <= least;
        now.good = 0;
        now.loss_scale = fmaxf(now.loss_scale * 0.5f, least);
    }
    *state = now;
}

// m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps). Before this,
// weight decay subtracts lr weight_decay w from the first `decayed` elements. `copy` receives w in the type of the
// gradients. (Kingma and Ba 2015, arXiv 1412.6980; Loshchilov and Hutter 2019, arXiv 1711.05101.)
extern "C" __global__ void __launch_bounds__(256) adam(
    float* w, const scalar* g, float* m, float* v, scalar* copy, const State* state, const Settings* settings,
    long long n, long long decayed, float b1, float b2, float eps, float weight_decay) {
    float multiplier = state->multiplier, lr = settings->learning_rate;
    if (multiplier == 0.0f) return;
    float t = float(state->steps), root = sqrtf(1.0f - powf(b2, t));
    float rate = lr * root / (1.0f - powf(b1, t)), small = eps * root, keep = 1.0f - lr * weight_decay;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
        float gradient = widen(g[i]) * multiplier;
        float mean = b1 * m[i] + (1.0f - b1) * gradient;
        float square = b2 * v[i] + (1.0f - b2) * gradient * gradient;
        float weight = (i < decayed ? w[i] * keep : w[i]) - rate * mean / (sqrtf(square) + small);
        m[i] = mean;
        v[i] = square;
        w[i] = weight;
        copy[i] = narrow(weight);
    }
}
