// Softmax cross-entropy of rows of logits. The gradient overwrites the logits: no second array of this size is needed,
// and no float32 array. Label smoothing: Szegedy et al. 2016, arXiv 1512.00567, section 7.
#include "eight.cuh"
#include "scalars.cuh"

// Load eight logits from `start` on and add the bias (null: none) of their columns. Outside the row z is -inf.
__device__ __forceinline__ void load_logits(float (&z)[8], const scalar* logits, const scalar* bias, size_t start,
                                            size_t low, size_t high) {
    Eight own, shift;
    load_eight(own, logits, start, high, low);
    bool whole = start >= low && start + 8 <= high && (start - low) % 8 == 0;
    if (bias && whole) load_eight(shift, bias, start - low, high - low);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        bool inside = start + i >= low && start + i < high;
        float more = !bias || !inside ? 0.0f : widen(whole ? shift.value[i] : bias[start + i - low]);
        z[i] = inside ? widen(own.value[i]) + more : -infinity();
    }
}

// One thread block handles one row; z = logits + bias. loss = lse - (1 - s) z_t - (s / V) sum z. With -DGRADIENT=1,
// logits = softmax(z) - (1 - s) onehot(t) - s / V, multiplied by `factor` unless it is null. If the target is
// `ignored`, the result is zero. A thread handles eight neighbouring elements, 16 bytes at a time, even if a row begins
// inside a group of eight. `logits` and `bias` start at multiples of 16 bytes. Shared memory: 32 floats.
extern "C" __global__ void __launch_bounds__(256, 1) cross_entropy_rows(
    scalar* logits, const scalar* bias, const long long* target, float* loss, const float* factor, int classes,
    long long ignored, float smoothing) {
    extern __shared__ float scratch[];
    size_t low = size_t(blockIdx.x) * classes, high = low + classes, first = low / 8 + threadIdx.x;
    long long own = target[blockIdx.x];
    if (own == ignored) {  // the same for all threads of the block
        if (threadIdx.x == 0) loss[blockIdx.x] = 0.0f;
#if GRADIENT
        Eight nothing;
#pragma unroll
        for (int i = 0; i < 8; ++i) nothing.value[i] = narrow(0.0f);
        for (size_t group = first; 8 * group < high; group += blockDim.x) store_eight(nothing, logits, 8 * group, high, low);
#endif
        return;
    }
    // Compute the maximum and the sums of exp(z - top) and of z - top in one pass: when the maximum grows, the sums
    // change. (A sum of z itself, beside a large common part of all z, would lose its digits.)
    float top = -infinity(), total = 0.0f, sum = 0.0f, seen = 0.0f, z[8];
    for (size_t group = first; 8 * group < high; group += blockDim.x) {
        load_logits(z, logits, bias, 8 * group, low, high);
        float before = top;
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (z[i] > top) top = z[i];
        if (top > before) {
            total *= __expf(before - top);
            if (seen > 0.0f) sum -= seen * (top - before);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (!(z[i] <= -infinity())) total += __expf(z[i] - top);  // also true for NaN
            if (8 * group + i >= low && 8 * group + i < high) sum += z[i] - (top > -infinity() ? top : 0.0f), seen += 1.0f;
        }
    }
    float highest = block_max(top, scratch);
    total = block_sum(top > -infinity() || total != total ? total * __expf(top - highest) : 0.0f, scratch);
    sum = block_sum(seen > 0.0f ? sum - seen * (highest - top) : 0.0f, scratch);
    // A target outside the classes makes the loss and the gradient NaN.
    bool inside = own >= 0 && own < classes;
    float nan = infinity() - infinity();
    if (threadIdx.x == 0) {
        float z_own = inside ? widen(logits[low + own]) + (bias ? widen(bias[own]) : 0.0f) : nan;
        float smoothed = smoothing > 0.0f ? -smoothing / classes * sum : 0.0f;
        loss[blockIdx.x] = logf(total) + (1.0f - smoothing) * (highest - z_own) + smoothed;
    }
#if GRADIENT
    __syncthreads();  // the loss has read its logit
    float scale = !inside ? nan : factor ? *factor : 1.0f, inverse = 1.0f / total, each = smoothing / classes;
    for (size_t group = first; 8 * group < high; group += blockDim.x) {
        load_logits(z, logits, bias, 8 * group, low, high);
        Eight gradient;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            float p = __expf(z[i] - highest) * inverse;
            bool hit = 8 * group + i == low + own;
            gradient.value[i] = narrow(scale * (p - each - (hit ? 1.0f - smoothing : 0.0f)));
        }
        store_eight(gradient, logits, 8 * group, high, low);
    }
#endif
}

// One thread block adds the losses of the rows. Unless `count` is null, it divides by the number of targets that are
// not `ignored` and sets *count = max(number, 1). No target: loss 0 / 0 = NaN, gradient 0. Shared memory: 32 floats.
extern "C" __global__ void __launch_bounds__(256) total_loss(
    const float* loss, const long long* target, scalar* total, float* count, int rows, long long ignored) {
    extern __shared__ float scratch[];
    float sum = 0.0f;
    int real = 0;
    for (int row = threadIdx.x; row < rows; row += blockDim.x) {
        sum += loss[row];
        real += target[row] != ignored;
    }
    sum = block_sum(sum, scratch);
    float number = block_sum(float(real), scratch);  // exact below 2^24
    if (threadIdx.x) return;
    *total = narrow(count ? sum / number : sum);
    if (count) *count = fmaxf(number, 1.0f);
}

// Multiply up to three gradients by g / count (`count` null: by g) and round to the arrays' type. Part blockIdx.y has
// `n` elements, in float32 if `wide` is nonzero. The part is changed in place unless `out` is another array.
struct Part {
    const void* x;
    scalar* out;
    long long n;
    int wide;
};

__device__ __forceinline__ void scale_part(Part part, float factor) {
    size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t group = size_t(blockIdx.x) * blockDim.x + threadIdx.x; 8 * group < part.n; group += step) {
        Eight eight;
        if (part.wide) {
            const float* wide = static_cast<const float*>(part.x);
#pragma unroll
            for (int i = 0; i < 8; ++i)
                if (8 * group + i < part.n) eight.value[i] = narrow(wide[8 * group + i] * factor);
        } else {
            load_eight(eight, static_cast<const scalar*>(part.x), 8 * group, part.n);
#pragma unroll
            for (int i = 0; i < 8; ++i) eight.value[i] = narrow(widen(eight.value[i]) * factor);
        }
        store_eight(eight, part.out, 8 * group, part.n);
    }
}

extern "C" __global__ void __launch_bounds__(256) scale_gradients(
    const float* g, const float* count, const void* x0, scalar* y0, long long n0, int wide0, const void* x1, scalar* y1,
    long long n1, int wide1, const void* x2, scalar* y2, long long n2, int wide2) {
    float factor = count ? *g / *count : *g;
    if (blockIdx.y == 0) scale_part({x0, y0, n0, wide0}, factor);
    if (blockIdx.y == 1) scale_part({x1, y1, n1, wide1}, factor);
    if (blockIdx.y == 2) scale_part({x2, y2, n2, wide2}, factor);
}
