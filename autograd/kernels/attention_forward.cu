// Attention, forward pass: FlashAttention-2 (Dao 2023, arXiv 2307.08691, algorithm 1; Milakov & Gimelshein 2018, arXiv
// 1805.02867, for the running softmax). ops/attention_blocked.py contains the same algorithm in NumPy.
//
// A thread block owns BLOCK_Q = 16 M_TILES WARPS queries of one head, 16 M_TILES per warp, and iterates over blocks of
// BLOCK_K keys and values. V is copied to shared memory during the first product, the next K during the second:
//
//     S = Q K^T                       scores, in registers
//     m' = max(m, rowmax(S))          P = exp2(c S - c m')          c = scale log2(e)
//     l' = 2^(c m - c m') l + rowsum(P)
//     O' = 2^(c m - c m') O + P V
//
// EXTRAS = 0: S are bare products, and c = scale log2(e). EXTRAS = 1: S are scores with bias and ALiBi, and c = log2(e).
// c s - c m is one instruction, fma(c, s, -(c m)), but c m is rounded and may overflow. Where a row's c m lies far from 0
// (`is_far`), the kernel therefore subtracts m from the scores first: (s - m) is exact where it matters.
//
// At the end, the kernel writes only O / l and two numbers for each query, so that P = exp2(c (s - offset) - L): near 0,
// offset = 0 and L = c m + log2(l); far from 0, where that sum would lose log2(l), offset = m and L = log2(l).
//
// Constants: HALF, D, EXTRAS, M_TILES, WARPS, BLOCK_K.
#include "attention_pairs.cuh"
#include "attention_tiles.cuh"

constexpr int BLOCK_Q = 16 * M_TILES * WARPS;

// The maximum and the sum over the four lanes that share a row.
__device__ __forceinline__ float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// The running values of a warp's queries, kept from block to block. `sum` holds this lane's share of a row's sum.
struct Running {
    float out[M_TILES][D / 8][4], top[M_TILES][2], sum[M_TILES][2];

    // Update the running values with a block of scores `s`, and set `s` to the weights. `c` converts to units of log 2.
    __device__ __forceinline__ void advance(float (&s)[M_TILES][BLOCK_K / 8][4], float c) {
#pragma unroll
        for (int m = 0; m < M_TILES; ++m)
#pragma unroll
            for (int e = 0; e < 4; e += 2) {
                float& old_top = top[m][e / 2];
                float new_top = old_top;
#pragma unroll
                for (int n = 0; n < BLOCK_K / 8; ++n) new_top = fmaxf(new_top, fmaxf(s[m][n][e], s[m][n][e + 1]));
                new_top = row_max(new_top);
                float base = new_top == -INFINITE ? 0.0f : new_top * c;  // no key so far: all weights are zero
                if (is_far(base)) {
                    old_top -= new_top;
                    base = 0.0f;
#pragma unroll
                    for (int n = 0; n < BLOCK_K / 8; ++n) {
                        s[m][n][e] -= new_top;
                        s[m][n][e + 1] -= new_top;
                    }
                }
                float rescale = exp2_approx(fmaf(old_top, c, -base));
                old_top = new_top;
                sum[m][e / 2] *= rescale;
#pragma unroll
                for (int n = 0; n < D / 8; ++n) {
                    out[m][n][e] *= rescale;
                    out[m][n][e + 1] *= rescale;
                }
#pragma unroll
                for (int n = 0; n < BLOCK_K / 8; ++n) {
                    s[m][n][e] = exp2_approx(fmaf(s[m][n][e], c, -base));
                    s[m][n][e + 1] = exp2_approx(fmaf(s[m][n][e + 1], c, -base));
                    sum[m][e / 2] += s[m][n][e] + s[m][n][e + 1];
                }
            }
    }
};

// Write for each tile of the mask whether any element is true. One warp handles one tile.
extern "C" __global__ void attention_mask_tiles(const bool* mask, bool* tiles, long long mask_batch,
                                                long long mask_head, long long mask_row, long long mask_column,
                                                int heads, int rows, int columns, long long count) {
    long long tile = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    if (tile >= count) return;
    int across = (columns + MASK_TILE - 1) / MASK_TILE, down = (rows + MASK_TILE - 1) / MASK_TILE;
    long long above = tile / across, head = above / down % heads, batch = above / down / heads;
    int i0 = int(above % down) * MASK_TILE, j = int(tile % across) * MASK_TILE + lane_number();
    mask += batch * mask_batch + head * mask_head + j * mask_column;
    bool any = false;
    for (int i = i0; i < min(i0 + MASK_TILE, rows) && j < columns; ++i) any |= mask[i * mask_row];
    any = __any_sync(0xffffffffu, any);
    if (lane_number() == 0) tiles[tile] = any;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_forward(const element* query, const element* key, const element* value, element* out, float2* totals,
                      long long query_batch, long long query_head, long long query_row, long long key_batch,
                      long long key_head, long long key_row, long long value_batch, long long value_head,
                      long long value_row, long long out_batch, long long out_head, long long out_row, int aligned,
                      PAIR_PARAMETERS) {
    extern __shared__ __align__(128) uint4 memory[];
    element* q_tile = reinterpret_cast<element*>(memory);  // BLOCK_Q x D
    element* k_tile = q_tile + BLOCK_Q * D;                // BLOCK_K x D
    element* v_tile = k_tile + BLOCK_K * D;                // BLOCK_K x D
    element* p_tile = v_tile + BLOCK_K * D;                // BLOCK_Q x BLOCK_K, only for float32

    int q0 = int(gridDim.x - 1 - blockIdx.x) * BLOCK_Q;  // the longest rows of a causal mask come first
    int head = blockIdx.y, batch = blockIdx.z;
    Pairs pairs = PAIRS_OF(batch, head);
    query += batch * query_batch + head * query_head;
    key += batch * key_batch + head * key_head;
    value += batch * value_batch + head * value_head;

    Running run = {};
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) run.top[m][0] = run.top[m][1] = -INFINITE;

    const int last = pairs.keys = pairs.last_key(q0 + BLOCK_Q);  // this thread block ignores all further keys
    int first = pairs.next_keys<BLOCK_K>(pairs.first_key(q0) / BLOCK_K * BLOCK_K, last, q0, q0 + BLOCK_Q);
    if (first < last) {
        load_tile<BLOCK_Q>(q_tile, query, query_row, q0, queries, head_dim, aligned);
        load_tile<BLOCK_K>(k_tile, key, key_row, first, pairs.keys, head_dim, aligned);
        cp_async_commit();
    }
    // K and V have one tile each: one tile is copied while the other is multiplied.
    for (int k0 = first, next; k0 < last; k0 = next) {
        cp_async_wait<0>();
        __syncthreads();  // this block of K has arrived, and all warps have read the previous block of V
        load_tile<BLOCK_K>(v_tile, value, value_row, k0, pairs.keys, value_dim, aligned);
        cp_async_commit();
        float s[M_TILES][BLOCK_K / 8][4] = {};
        add_product_nt<M_TILES, BLOCK_K>(s, TileOperand<D>(q_tile, warp_number() * 16 * M_TILES), k_tile);
        int row = q0 + warp_number() * 16 * M_TILES;
        bool all = pairs.all_see(row, row + 16 * M_TILES, k0, k0 + BLOCK_K);
        finish_scores<M_TILES, BLOCK_K / 8, true>(s, pairs, row, k0, all);
        run.advance(s, EXTRAS ? LOG2_E : pairs.scale_log2);
#if EXTRAS
        drop<M_TILES, BLOCK_K / 8, true>(s, pairs, row, k0, 1.0f);  // `factor` is applied at the end
#endif
        PairOperand<M_TILES, BLOCK_K> weights;
        weights.set(s, p_tile, warp_number() * 16 * M_TILES);
        cp_async_wait<0>();
        __syncthreads();  // V has arrived, and all warps have read K
        next = pairs.next_keys<BLOCK_K>(k0 + BLOCK_K, last, q0, q0 + BLOCK_Q);
        if (next < last) {
            load_tile<BLOCK_K>(k_tile, key, key_row, next, pairs.keys, head_dim, aligned);
            cp_async_commit();
        }
        add_product_nn<BLOCK_K>(run.out, weights, v_tile);
    }

    int warp_row = warp_number() * 16 * M_TILES;
    float inverse[M_TILES][2];
#pragma unroll
    for (int m = 0; m < M_TILES; ++m)
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
            float sum = row_sum(run.sum[m][e / 2]);
            float top = run.top[m][e / 2], base = top * (EXTRAS ? LOG2_E : pairs.scale_log2);
            inverse[m][e / 2] = sum > 0.0f ? (EXTRAS ? factor : 1.0f) / sum : 0.0f;
            int i = q0 + warp_row + row_of(m, e);
            if (lane_number() % 4 == 0 && i < queries)
                totals[static_cast<long long>(batch * heads + head) * queries + i] =
                    sum > 0.0f ? make_float2(is_far(base) ? top : 0.0f, (is_far(base) ? 0.0f : base) + log2f(sum))
                               : make_float2(0.0f, INFINITE);  // no key: infinity makes all weights zero
        }
    // Stage the output in the warp's own rows of the tile of Q, to write 16 bytes at a time.
    out += batch * out_batch + head * out_head;
    __syncwarp();
    put_accumulator<D>(q_tile, warp_row, 0, run.out, inverse);
    __syncwarp();
    store_rows<16 * M_TILES>(out, out_row, q0 + warp_row, queries, value_dim, aligned, q_tile, warp_row);
}
