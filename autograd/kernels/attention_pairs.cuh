// Pairs of a query and a key: which pairs are allowed, what positions add to a score, and which weights are dropped.
//
// EXTRAS = 0 supports only causal masks, windows and key lengths, which are applied only in a few blocks at an edge.
// EXTRAS = 1 also supports a boolean mask, an additive bias, ALiBi and dropout, which are applied to every pair.
#pragma once
#include "attention_tiles.cuh"
#include "philox.cuh"

constexpr float LOG2_E = 1.4426950408889634f;
#define INFINITE __int_as_float(0x7f800000)
// Whether c m, in units of log 2, is so large that rounding it, or adding log2(l) to it, would change the weights.
__device__ __forceinline__ bool is_far(float base) { return fabsf(base) > 32.0f; }
constexpr int MASK_TILE = 32;  // rows and columns of a tile of the mask; `tiles` marks tiles with a true element

// The options of one (batch row, head). Query i has the position i + shift, with shift = key length - query length.
struct Pairs {
    int queries, keys;     // lengths; `keys` counts only the keys that are not ignored
    int shift;
    int nearest, farthest;  // bounds of the distance from a query back to a key that it may attend to
    float scale, scale_log2;  // scale, scale * log2(e): exponents are in units of log 2: exp2 is one instruction
    const bool* mask;       // null, or mask[i * mask_row + j * mask_column] is the element of pair (i, j)
    long long mask_row, mask_column;
    const bool* tiles;  // null, or whether any element of each tile of the mask is true; indexed like `mask`, by tile
    long long tiles_row, tiles_column;
    const element* bias;    // null, or indexed like `mask`
    long long bias_row, bias_column;
    float slope;  // ALiBi's
    // Dropout keeps a weight if its 32 random bits are at least `threshold`, and multiplies kept weights by `factor`.
    unsigned threshold;
    float factor;
    uint2 key;
    unsigned call;  // the number of the dropout call with this key
    unsigned head;  // batch row * heads + head

    // Compute `low` and `high`: lengths and distances allow the pairs of `row` with columns `low` to `high` - 1. Rows
    // are queries and columns are keys; with QUERY_ROWS = false, rows are keys and columns are queries.
    template <bool QUERY_ROWS>
    __device__ __forceinline__ void columns(int row, int& low, int& high) const {
        low = QUERY_ROWS ? row + shift - farthest : row - shift + nearest;
        high = QUERY_ROWS ? min(keys, row + shift - nearest + 1) : min(queries, row - shift + farthest + 1);
        if (row >= (QUERY_ROWS ? queries : keys)) high = low;
    }

    // Return true if lengths and distances allow all pairs i0 <= i < i1, j0 <= j < j1, and if there is no mask.
    __device__ __forceinline__ bool all_see(int i0, int i1, int j0, int j1) const {
        bool may = i1 <= queries && j1 <= keys && i0 + shift - (j1 - 1) >= nearest && i1 - 1 + shift - j0 <= farthest;
#if EXTRAS
        may = may && !mask;
#endif
        return may;
    }

    // Allowed pairs of i0 <= i < i1 and j0 <= j < j1 have first_key <= j < last_key, first_query <= i < last_query.
    __device__ __forceinline__ int first_key(int i0) const { return max(0, i0 + shift - farthest); }
    __device__ __forceinline__ int last_key(int i1) const { return min(keys, min(i1, queries) + shift - nearest); }
    __device__ __forceinline__ int first_query(int j0) const { return max(0, j0 - shift + nearest); }
    __device__ __forceinline__ int last_query(int j1) const { return min(queries, min(j1, keys) - shift + farthest); }

    // Return the first block of STEP keys, from j0 on, whose pairs with queries i0 <= i < i1 touch a tile of the mask
    // with a true element, or at least `last` if no block does. Skipped blocks are neither loaded nor computed.
    template <int STEP>
    __device__ __forceinline__ int next_keys(int j0, int last, int i0, int i1) const {
#if EXTRAS
        if (tiles)
            while (j0 < last && !any_tile(i0, i1, j0, j0 + STEP)) j0 += STEP;
#endif
        return j0;
    }
    template <int STEP>
    __device__ __forceinline__ int next_queries(int i0, int last, int j0, int j1) const {
#if EXTRAS
        if (tiles)
            while (i0 < last && !any_tile(i0, i0 + STEP, j0, j1)) i0 += STEP;
#endif
        return i0;
    }

#if EXTRAS
    __device__ __forceinline__ bool unmasked(int i, int j) const { return mask[i * mask_row + j * mask_column]; }

    // Return true if any tile of the mask that these pairs touch has a true element.
    __device__ __forceinline__ bool any_tile(int i0, int i1, int j0, int j1) const {
        int i_end = (min(i1, queries) - 1) / MASK_TILE, j_end = (min(j1, keys) - 1) / MASK_TILE;
        for (int i = i0 / MASK_TILE; i <= i_end; ++i)
            for (int j = j0 / MASK_TILE; j <= j_end; ++j)
                if (tiles[i * tiles_row + j * tiles_column]) return true;
        return false;
    }

    // Return a score with bias and ALiBi. In units of log 2, a bias near the largest float32 number would overflow.
    __device__ __forceinline__ float score(float product, int i, int j) const {
        float s = product * scale;
        if (i < queries && j < keys) {
            if (bias) s += float(bias[i * bias_row + j * bias_column]);
            s = fmaf(-slope, fabsf(float(i + shift - j)), s);
        }
        return s;
    }

    // Return random bits for the four pairs (i, j), (i, j + 8), (i + 8, j), (i + 8, j + 8). Bit 3 of i and j must be 0.
    // One lane holds all four pairs, whether the rows of a product are queries or keys, so no bits are drawn twice.
    __device__ __forceinline__ uint4 dropout_words(int i, int j) const {
        uint4 counter = make_uint4(j / 16 * 8 + j % 8, i / 16 * 8 + i % 8, head, call);
        return philox4x32_10(counter, key);
    }
#endif
};

// Convert products to scores: add bias and ALiBi and, unless `all` pairs are allowed, set forbidden pairs to -infinity.
// Rows start at `row`, columns at `column`. Rows are queries and columns keys; with QUERY_ROWS = false, vice versa.
template <int M, int N, bool QUERY_ROWS>
__device__ __forceinline__ void finish_scores(float (&s)[M][N][4], const Pairs& pairs, int row, int column, bool all) {
#if EXTRAS
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int r = row + row_of(m, e), c = column + column_of(n, e);
                s[m][n][e] = QUERY_ROWS ? pairs.score(s[m][n][e], r, c) : pairs.score(s[m][n][e], c, r);
            }
#endif
    if (all) return;
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int half_of = 0; half_of < 4; half_of += 2) {
            int r = row + row_of(m, half_of), low, high;
            pairs.columns<QUERY_ROWS>(r, low, high);
#pragma unroll
            for (int n = 0; n < N; ++n)
#pragma unroll
                for (int e = half_of; e < half_of + 2; ++e) {
                    int c = column + column_of(n, e);
                    bool may = low <= c && c < high;
#if EXTRAS
                    if (may && pairs.mask) may = QUERY_ROWS ? pairs.unmasked(r, c) : pairs.unmasked(c, r);
#endif
                    if (!may) s[m][n][e] = -INFINITE;
                }
        }
}

#if EXTRAS
// Apply dropout: multiply each element by 0 or `factor`. N is even.
template <int M, int N, bool QUERY_ROWS>
__device__ __forceinline__ void drop(float (&x)[M][N][4], const Pairs& pairs, int row, int column, float factor) {
    if (!pairs.threshold) return;
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < N; n += 2)
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                int r0 = row + row_of(m, 0), c0 = column + column_of(n, c);
                uint4 words = QUERY_ROWS ? pairs.dropout_words(r0, c0) : pairs.dropout_words(c0, r0);
                // the words of (i, j), (i, j + 8), (i + 8, j), (i + 8, j + 8)
                unsigned right = QUERY_ROWS ? words.y : words.z, below = QUERY_ROWS ? words.z : words.y;
                x[m][n][c] *= words.x >= pairs.threshold ? factor : 0.0f;
                x[m][n + 1][c] *= right >= pairs.threshold ? factor : 0.0f;
                x[m][n][2 + c] *= below >= pairs.threshold ? factor : 0.0f;
                x[m][n + 1][2 + c] *= words.w >= pairs.threshold ? factor : 0.0f;
            }
}
#endif

// The parameters that the kernels with Pairs have in common, and the initializer of Pairs.
#define PAIR_PARAMETERS                                                                                             \
    int heads, int queries, int keys, int shift, int head_dim, int value_dim, float scale, int nearest, int farthest, \
        const int *key_lengths, const bool *mask, long long mask_batch, long long mask_head, long long mask_row,     \
        long long mask_column, const bool *tiles, long long tiles_batch, long long tiles_head, long long tiles_row,  \
        long long tiles_column, const element *bias, long long bias_batch, long long bias_head, long long bias_row,  \
        long long bias_column, const float *slopes, unsigned threshold, float factor,                                \
        const unsigned long long *seed, unsigned call
#define PAIRS_OF(batch, head)                                                                                       \
    {                                                                                                               \
        queries, key_lengths ? min(keys, key_lengths[batch]) : keys, shift, nearest, farthest,              \
            scale, scale * LOG2_E, mask ? mask + batch * mask_batch + head * mask_head : mask, mask_row, mask_column, \
            tiles ? tiles + batch * tiles_batch + head * tiles_head : tiles, tiles_row, tiles_column,                \
            bias ? bias + batch * bias_batch + head * bias_head : bias, bias_row, bias_column,                       \
            slopes ? slopes[head] : 0.0f, threshold, factor, key_of(seed), call,                          \
            unsigned(batch * heads + head)                                                                          \
    }
