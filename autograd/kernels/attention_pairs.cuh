// Pairs of a query and a key: who may attend to whom, what position adds to a score, which weights are dropped.
//
// EXTRAS (0 or 1): with 0 only causal, window and key lengths are known, as few blocks at an edge need them; with 1 also a
// boolean mask, an additive bias, ALiBi and dropout, which every pair needs.
#pragma once
#include "attention_tiles.cuh"
#include "philox.cuh"

constexpr float LOG2_E = 1.4426950408889634f;
#define INFINITE __int_as_float(0x7f800000)
constexpr int MASK_TILE = 32;  // rows and columns of a tile of the mask, of which is known whether all of it is false

// The conditions of one (batch row, head). Query i has position i + shift, shift = key length - query length.
struct Pairs {
    int queries, keys;     // lengths; of the keys those that count
    int shift;
    int nearest, farthest;  // the distance from a query back to a key that it may attend to
    float scale_log2;       // scale * log2(e): scores are handled in units of log 2, whose exponential is one instruction
    const bool* mask;       // null, or at pair (i, j): mask[i * mask_row + j * mask_column]
    long long mask_row, mask_column;
    const bool* tiles;  // null, or of each tile of the mask whether anything in it is true: as `mask`, by tiles
    long long tiles_row, tiles_column;
    const element* bias;    // null, or likewise
    long long bias_row, bias_column;
    float slope_log2;  // ALiBi's slope * log2(e)
    // Dropout: a weight is kept if its 32 random bits reach `threshold`; those kept grow by `factor`.
    unsigned threshold;
    float factor;
    uint2 key;
    unsigned call;  // of dropout, with this key
    unsigned head;  // batch row * heads + head

    // Who may attend as far as lengths and distances go: of the keys (the queries, with QUERY_ROWS = false) those from `low`
    // to `high` - 1, for a row that is a query (a key).
    template <bool QUERY_ROWS>
    __device__ __forceinline__ void columns(int row, int& low, int& high) const {
        low = QUERY_ROWS ? row + shift - farthest : row - shift + nearest;
        high = QUERY_ROWS ? min(keys, row + shift - nearest + 1) : min(queries, row - shift + farthest + 1);
        if (row >= (QUERY_ROWS ? queries : keys)) high = low;
    }

    // Whether every query i0 <= i < i1 may attend to every key j0 <= j < j1 as far as lengths and distances go.
    __device__ __forceinline__ bool all_see(int i0, int i1, int j0, int j1) const {
        bool may = i1 <= queries && j1 <= keys && i0 + shift - (j1 - 1) >= nearest && i1 - 1 + shift - j0 <= farthest;
#if EXTRAS
        may = may && !mask;
#endif
        return may;
    }

    // The keys that queries i0 <= i < i1 may attend to lie in first_key <= j < last_key, and the other way round.
    __device__ __forceinline__ int first_key(int i0) const { return max(0, i0 + shift - farthest); }
    __device__ __forceinline__ int last_key(int i1) const { return min(keys, min(i1, queries) + shift - nearest); }
    __device__ __forceinline__ int first_query(int j0) const { return max(0, j0 - shift + nearest); }
    __device__ __forceinline__ int last_query(int j1) const { return min(queries, min(j1, keys) - shift + farthest); }

    // The first block of STEP keys from j0 on of which the mask lets a query i0 <= i < i1 see any, `last` or more if
    // there is none; and the other way round. What the mask hides as a whole is neither loaded nor computed.
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

    // Whether one of the mask's tiles that these pairs touch has anything in it.
    __device__ __forceinline__ bool any_tile(int i0, int i1, int j0, int j1) const {
        int i_end = (min(i1, queries) - 1) / MASK_TILE, j_end = (min(j1, keys) - 1) / MASK_TILE;
        for (int i = i0 / MASK_TILE; i <= i_end; ++i)
            for (int j = j0 / MASK_TILE; j <= j_end; ++j)
                if (tiles[i * tiles_row + j * tiles_column]) return true;
        return false;
    }

    // A score in units of log 2, with bias and ALiBi.
    __device__ __forceinline__ float score(float product, int i, int j) const {
        float s = product * scale_log2;
        if (i < queries && j < keys) {
            if (bias) s = fmaf(float(bias[i * bias_row + j * bias_column]), LOG2_E, s);
            s = fmaf(-slope_log2, fabsf(float(i + shift - j)), s);
        }
        return s;
    }

    // Random bits for the four pairs (i, j), (i, j + 8), (i + 8, j), (i + 8, j + 8); i and j have bit 3 clear. One lane holds
    // all four, whether a product's rows are queries (forward) or keys (backward), so no bits are drawn twice.
    __device__ __forceinline__ uint4 dropout_words(int i, int j) const {
        uint4 counter = make_uint4(j / 16 * 8 + j % 8, i / 16 * 8 + i % 8, head, call);
        return philox4x32_10(counter, key);
    }
#endif
};

// Scores from products: bias and ALiBi, and -infinity where a pair may not attend, unless `all` may. Rows from `row` and
// columns from `column` on are queries and keys, or with QUERY_ROWS = false keys and queries.
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
// Multiplies by dropout's 0 or `factor`. N is even.
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
                // words are those of (i, j), (i, j + 8), (i + 8, j), (i + 8, j + 8)
                unsigned right = QUERY_ROWS ? words.y : words.z, below = QUERY_ROWS ? words.z : words.y;
                x[m][n][c] *= words.x >= pairs.threshold ? factor : 0.0f;
                x[m][n + 1][c] *= right >= pairs.threshold ? factor : 0.0f;
                x[m][n][2 + c] *= below >= pairs.threshold ? factor : 0.0f;
                x[m][n + 1][2 + c] *= words.w >= pairs.threshold ? factor : 0.0f;
            }
}
#endif

// The parameters that every kernel of attention takes, and their place in Pairs.
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
            scale * LOG2_E, mask ? mask + batch * mask_batch + head * mask_head : mask, mask_row, mask_column,       \
            tiles ? tiles + batch * tiles_batch + head * tiles_head : tiles, tiles_row, tiles_column,                \
            bias ? bias + batch * bias_batch + head * bias_head : bias, bias_row, bias_column,                       \
            slopes ? slopes[head] * LOG2_E : 0.0f, threshold, factor, key_of(seed), call,                          \
            unsigned(batch * heads + head)                                                                          \
    }
