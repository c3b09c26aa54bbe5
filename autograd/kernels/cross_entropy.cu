// Softmax cross-entropy of rows of logits, its gradient written over them: no second array of their size, and none of
// float32. Label smoothing: Szegedy et al. 2016, arXiv 1512.00567, section 7.
#include "scalars.cuh"

// One block a row, z = logits + bias: loss = lse - (1 - s) z_t - (s / V) sum z, and with -DGRADIENT=1
// logits = factor (softmax(z) - (1 - s) onehot(t) - s / V). A row whose target is `ignored` gets zeros. `factor` is one
// number on the device: the gradient that arrives, over the number of rows that count. Shared memory: 32 floats.
extern "C" __global__ void __launch_bounds__(256) cross_entropy_rows(
    scalar* logits, const scalar* bias, const long long* target, float* loss, const float* factor, int classes,
    long long ignored, float smoothing) {
    extern __shared__ float scratch[];
    scalar* row = logits + size_t(blockIdx.x) * classes;
    long long own = target[blockIdx.x];
    if (own == ignored) {  // the same for all threads of the block
        if (threadIdx.x == 0) loss[blockIdx.x] = 0.0f;
#if GRADIENT
        for (int i = threadIdx.x; i < classes; i += blockDim.x) row[i] = narrow(0.0f);
#endif
        return;
    }
    // Maximum and sum of exponentials in one pass: the sum is rescaled whenever the maximum grows.
    float top = -infinity(), total = 0.0f, sum = 0.0f;
    for (int i = threadIdx.x; i < classes; i += blockDim.x) {
        float z = widen(row[i]) + widen(bias[i]);
        sum += z;
        if (z > top) {
            total = total * __expf(top - z) + 1.0f;
            top = z;
        } else if (z > -infinity()) {
            total += __expf(z - top);
        }
    }
    float highest = block_max(top, scratch);
    total = block_sum(top > -infinity() ? total * __expf(top - highest) : 0.0f, scratch);
    sum = block_sum(sum, scratch);
    // A target outside makes the loss NaN, and the gradient.
    bool inside = own >= 0 && own < classes;
    float nan = infinity() - infinity();
    if (threadIdx.x == 0) {
        float z = inside ? widen(row[own]) + widen(bias[own]) : nan, each = smoothing / classes;
        float smoothed = smoothing > 0.0f ? smoothing * highest - each * sum : 0.0f;
        loss[blockIdx.x] = logf(total) + (1.0f - smoothing) * (highest - z) + smoothed;
    }
#if GRADIENT
    __syncthreads();  // the loss has read its logit
    float scale = inside ? *factor : nan, inverse = 1.0f / total, each = smoothing / classes;
    for (int i = threadIdx.x; i < classes; i += blockDim.x) {
        float p = __expf(widen(row[i]) + widen(bias[i]) - highest) * inverse;
        row[i] = narrow(scale * (p - each - (i == own ? 1.0f - smoothing : 0.0f)));
    }
#endif
}
