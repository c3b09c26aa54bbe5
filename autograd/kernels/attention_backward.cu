// Attention, backward pass: FlashAttention-2 (Dao 2023, arXiv 2307.08691, algorithm 2). ops/attention_blocked.py
// contains the same algorithm in NumPy. The weights are recomputed from the numbers `offset` and L that the forward pass
// wrote for each query. If all queries of a tile have the offset 0, it is not subtracted:
//
//     S = Q K^T    P = exp2(c (S - offset) - L)   dV = P^T G    dP = G V^T    dS = P (dP - delta)
//     delta = rowsum(G O)
//     dK = scale dS^T Q    dQ = scale dS K                   (with dropout factors F: dV = (P F)^T G, dP = (G V^T) F)
//
// attention_delta runs first. In attention_backward_keys, a thread block owns keys and iterates over queries. This
// kernel can sum dQ by atomic additions, whose order is not fixed; then attention_query_gradient writes the sums.
// Alternatively, attention_backward_queries computes dQ separately in a fixed order. In this kernel, a thread block
// owns queries and iterates over keys.
//
// Constants: HALF, D, EXTRAS, M_TILES, WARPS, BLOCK (queries or keys per iteration), TEAM.
#include "attention_pairs.cuh"
#include "attention_tiles.cuh"

constexpr int OWNED = 16 * M_TILES * WARPS;  // keys or queries of a thread block, 16 M_TILES per warp

// In attention_backward_keys, TEAM warps own the same keys. Each warp computes the weights of its share of the queries,
// and sums its share of the columns of dK and dV. A fragment of Q or G is used for TEAM times as many rows, and the
// sums need no additional registers. A warp reads the weights and dS of the other warps from shared memory.
constexpr int TILES = M_TILES * TEAM, SHARE = BLOCK / TEAM, WIDTH = D / TEAM;
static_assert(TEAM == 1 || HALF && WARPS % TEAM == 0 && SHARE % 16 == 0 && WIDTH % (AROUND<D> * CHUNK) == 0,
              "a share is whole fragments, and its chunks change places among themselves");

// A warp sums 16 SUM_TILES rows and SUM_COLUMNS columns of the BLOCK x D tile of dQ. In memory, the sums of all warps
// have the register layout, thread by thread: atomic additions have constant distances and need no bounds check.
constexpr int SUM_TILES = BLOCK % 32 == 0 && D * BLOCK / 32 / WARPS % 32 == 0 ? 2 : 1;
constexpr int SUM_COLUMNS = D * BLOCK / (16 * SUM_TILES) / WARPS;
static_assert(SUM_COLUMNS % 16 == 0 && BLOCK % (16 * SUM_TILES) == 0, "a warp owns whole fragments of dQ");
__device__ __forceinline__ int team_number() { return warp_number() / TEAM; }
__device__ __forceinline__ int member() { return warp_number() % TEAM; }
__device__ __forceinline__ int sum_row() { return warp_number() % (BLOCK / (16 * SUM_TILES)) * 16 * SUM_TILES; }
__device__ __forceinline__ int sum_column() { return warp_number() / (BLOCK / (16 * SUM_TILES)) * SUM_COLUMNS; }

// Return offset and L of a query. Beyond the last query, L is infinity, which makes all weights zero.
__device__ __forceinline__ float2 total_of(const float2* totals, int i, int queries) {
    return i < queries ? totals[i] : make_float2(0.0f, INFINITE);
}

#if EXTRAS
// Add dS to the gradient of the bias. If the bias was broadcast, add to the element that was broadcast to the pair.
template <int M, int N, bool QUERY_ROWS>
__device__ __forceinline__ void add_to_bias(float* d_bias, long long i_stride, long long j_stride, const Pairs& pairs,
                                            const float (&ds)[M][N][4], int row, int column) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int r = row + row_of(m, e), c = column + column_of(n, e);
                int i = QUERY_ROWS ? r : c, j = QUERY_ROWS ? c : r;
                if (i < pairs.queries && j < pairs.keys) atomicAdd(d_bias + i * i_stride + j * j_stride, ds[m][n][e]);
            }
}
#endif

// Compute delta = rowsum(G O). One warp handles one query.
extern "C" __global__ void attention_delta(const element* g, const element* out, float* delta, long long g_batch,
                                           long long g_head, long long g_row, long long out_batch, long long out_head,
                                           long long out_row, int heads, int queries, int value_dim, long long rows) {
    long long row = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    if (row >= rows) return;
    long long batch = row / queries / heads, head = row / queries % heads, i = row % queries;
    g += batch * g_batch + head * g_head + i * g_row;
    out += batch * out_batch + head * out_head + i * out_row;
    float sum = 0.0f;
    for (int c = lane_number(); c < value_dim; c += 32) sum = fmaf(float(g[c]), float(out[c]), sum);
    for (int bits = 16; bits; bits /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, bits);
    if (lane_number() == 0) delta[row] = sum;
}

// Compute dK and dV. The rows of the products are keys, so P^T and dS^T are already left operands for dV and dK. dQ
// sums over the keys of all warps, so warps write dS to shared memory. Teams also exchange P and dS there.
extern "C" __global__ void __launch_bounds__(THREADS, 1) attention_backward_keys(
    const element* query, const element* key, const element* value, const element* g, const float2* totals,
    const float* delta, element* d_key, element* d_value, float* sums, float* d_bias, long long query_batch,
    long long query_head, long long query_row, long long key_batch, long long key_head, long long key_row,
    long long value_batch, long long value_head, long long value_row, long long g_batch, long long g_head,
    long long g_row, long long d_key_batch, long long d_key_head, long long d_key_row, long long d_value_batch,
    long long d_value_head, long long d_value_row, long long d_bias_batch, long long d_bias_head, long long d_bias_row,
    long long d_bias_column, int aligned, PAIR_PARAMETERS) {
    extern __shared__ __align__(128) uint4 memory[];
    element* k_tile = reinterpret_cast<element*>(memory);  // OWNED x D
    element* v_tile = k_tile + OWNED * D;                  // OWNED x D
    element* q_tiles = v_tile + OWNED * D;                 // two tiles of BLOCK x D
    element* g_tiles = q_tiles + 2 * BLOCK * D;            // two tiles of BLOCK x D
    element* ds_tile = g_tiles + 2 * BLOCK * D;            // dS^T, OWNED x BLOCK
    element* p_tile = ds_tile + OWNED * BLOCK;             // P^T, OWNED x BLOCK, only for teams
    float2* rows = reinterpret_cast<float2*>(p_tile + (TEAM > 1 ? OWNED * BLOCK : 0));  // L and delta of two blocks
    float* offsets = reinterpret_cast<float*>(rows + 2 * BLOCK);                         // of two blocks

    int k0 = int(blockIdx.x) * OWNED, head = blockIdx.y, batch = blockIdx.z;
    Pairs pairs = PAIRS_OF(batch, head);
    query += batch * query_batch + head * query_head;
    key += batch * key_batch + head * key_head;
    value += batch * value_batch + head * value_head;
    g += batch * g_batch + head * g_head;
    totals += static_cast<long long>(batch * heads + head) * queries;
    delta += static_cast<long long>(batch * heads + head) * queries;
    if (sums) sums += static_cast<long long>(batch * heads + head) * ((queries + BLOCK - 1) / BLOCK * BLOCK) * D;

    float dk[TILES][WIDTH / 8][4] = {}, dv[TILES][WIDTH / 8][4] = {};
    const int last = k0 < pairs.keys ? pairs.last_query(k0 + OWNED) : 0;
    int first = pairs.next_queries<BLOCK>(pairs.first_query(k0) / BLOCK * BLOCK, last, k0, k0 + OWNED);
    auto load = [&](int stage, int q0) {
        load_tile<BLOCK>(q_tiles + stage * BLOCK * D, query, query_row, q0, queries, head_dim, aligned);
        load_tile<BLOCK>(g_tiles + stage * BLOCK * D, g, g_row, q0, queries, value_dim, aligned);
        cp_async_commit();
        for (int i = threadIdx.x; i < BLOCK; i += THREADS) {
            float2 total = total_of(totals, q0 + i, queries);
            offsets[stage * BLOCK + i] = total.x;
            rows[stage * BLOCK + i] = make_float2(total.y, q0 + i < queries ? delta[q0 + i] : 0.0f);
        }
    };
    if (first < last) {
        load_tile<OWNED>(k_tile, key, key_row, k0, pairs.keys, head_dim, aligned);
        load_tile<OWNED>(v_tile, value, value_row, k0, pairs.keys, value_dim, aligned);
        load(0, first);
    }
    int stage = 0;
    for (int q0 = first, next; q0 < last; q0 = next, stage ^= 1) {
        cp_async_wait<0>();
        __syncthreads();  // this block has arrived; the last one and its dS have been read by all
        next = pairs.next_queries<BLOCK>(q0 + BLOCK, last, k0, k0 + OWNED);
        if (next < last) load(stage ^ 1, next);
        const element *q_tile = q_tiles + stage * BLOCK * D, *g_tile = g_tiles + stage * BLOCK * D;
        const float2* total = rows + stage * BLOCK;
        const float* offset = offsets + stage * BLOCK;
        int team_row = team_number() * 16 * TILES, row = k0 + team_row, own = member() * SHARE, column = q0 + own;
        bool all = pairs.all_see(column, column + SHARE, row, row + 16 * TILES);
        float p[TILES][SHARE / 8][4] = {}, ds[TILES][SHARE / 8][4] = {};
        add_product_nt<TILES, SHARE>(p, TileOperand<D>(k_tile, team_row), q_tile + own * D);
        finish_scores<TILES, SHARE / 8, false>(p, pairs, row, column, all);
        bool far = false;
        for (int i = lane_number(); i < SHARE; i += 32) far |= offset[own + i] != 0.0f;
        if (__any_sync(0xffffffffu, far)) {
#pragma unroll
            for (int n = 0; n < SHARE / 8; ++n)
#pragma unroll
                for (int e = 0; e < 4; ++e)
#pragma unroll
                    for (int m = 0; m < TILES; ++m) p[m][n][e] -= offset[own + column_of(n, e)];
        }
        add_product_nt<TILES, SHARE>(ds, TileOperand<D>(v_tile, team_row), g_tile + own * D);
#if EXTRAS
        drop<TILES, SHARE / 8, false>(ds, pairs, row, column, factor);
#endif
#pragma unroll
        for (int n = 0; n < SHARE / 8; ++n)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float2 of_query = total[own + column_of(n, e)];  // L and delta
#pragma unroll
                for (int m = 0; m < TILES; ++m)
#pragma unroll
                    for (int i = e; i < 4; i += 2) {
                        p[m][n][i] = exp2_approx(fmaf(p[m][n][i], EXTRAS ? LOG2_E : pairs.scale_log2, -of_query.x));
                        ds[m][n][i] = p[m][n][i] * (ds[m][n][i] - of_query.y);
                    }
            }
#if EXTRAS
        drop<TILES, SHARE / 8, false>(p, pairs, row, column, factor);
        if (d_bias)
            add_to_bias<TILES, SHARE / 8, false>(d_bias + batch * d_bias_batch + head * d_bias_head, d_bias_row,
                                                 d_bias_column, pairs, ds, row, column);
#endif
        PairOperand<TILES, SHARE> left;
        left.set(p, ds_tile, team_row);
        if (TEAM > 1) left.put<BLOCK>(p_tile, team_row, own);
        add_product_nn<SHARE>(dv, left, g_tile + own * D, member() * WIDTH);
        left.set(ds, ds_tile, team_row);
        if (TEAM > 1 || sums) left.put<BLOCK>(ds_tile, team_row, own);
        add_product_nn<SHARE>(dk, left, q_tile + own * D, member() * WIDTH);
        if (TEAM == 1 && !sums) continue;  // attention_backward_queries computes dQ
        __syncthreads();  // dS of all warps is there
#if HALF  // teams: add the products over the queries of the other warps
#pragma unroll
        for (int i = 1; i < TEAM; ++i) {
            int other = (member() + i) % TEAM * SHARE;
            add_product_nn<SHARE>(dv, TileOperand<BLOCK>(p_tile, team_row, other), g_tile + other * D, member() * WIDTH);
            add_product_nn<SHARE>(dk, TileOperand<BLOCK>(ds_tile, team_row, other), q_tile + other * D, member() * WIDTH);
        }
        if (!sums) continue;
#endif
        float dq[SUM_TILES][SUM_COLUMNS / 8][4] = {};
        add_product_tn<OWNED, BLOCK, SUM_TILES, SUM_COLUMNS>(dq, ds_tile, sum_row(), k_tile, sum_column());
        float* target = sums + static_cast<long long>(q0) * D + computed_here(threadIdx.x);
#pragma unroll
        for (int i = 0; i < SUM_TILES * SUM_COLUMNS / 2; ++i)
            atomicAdd(target + i * THREADS, dq[i / (SUM_COLUMNS / 2)][i / 4 % (SUM_COLUMNS / 8)][i % 4]);
    }

    // Write dK and dV through the tiles of K and V, after all warps have read K.
    int team_row = team_number() * 16 * TILES, warp_row = warp_number() * 16 * M_TILES;
    float key_factor[TILES][2], one[TILES][2];
#pragma unroll
    for (int i = 0; i < 2 * TILES; ++i) key_factor[i / 2][i % 2] = scale, one[i / 2][i % 2] = 1.0f;
    __syncthreads();
    put_accumulator<D>(k_tile, team_row, member() * WIDTH, dk, key_factor);
    put_accumulator<D>(v_tile, team_row, member() * WIDTH, dv, one);
    __syncthreads();  // all columns of these rows are in shared memory
    store_rows<16 * M_TILES>(d_key + batch * d_key_batch + head * d_key_head, d_key_row, k0 + warp_row, keys, head_dim,
                             aligned, k_tile, warp_row);
    store_rows<16 * M_TILES>(d_value + batch * d_value_batch + head * d_value_head, d_value_row, k0 + warp_row, keys,
                             value_dim, aligned, v_tile, warp_row);
}

// Write dQ from the sums, which have the register layout of attention_backward_keys. A thread block owns BLOCK queries.
extern "C" __global__ void attention_query_gradient(const float* sums, element* d_query, long long d_query_batch,
                                                    long long d_query_head, long long d_query_row, int aligned,
                                                    int queries, int head_dim, float scale) {
    extern __shared__ __align__(128) uint4 memory[];
    element* tile = reinterpret_cast<element*>(memory);  // BLOCK x D
    int q0 = int(blockIdx.x) * BLOCK, head = blockIdx.y, batch = blockIdx.z;
    long long before = (static_cast<long long>(batch * gridDim.y + head) * gridDim.x + blockIdx.x) * (BLOCK * D);
    const float* own = sums + before + threadIdx.x;
#pragma unroll
    for (int i = 0; i < SUM_TILES * SUM_COLUMNS / 2; i += 2) {
        int m = i / (SUM_COLUMNS / 2), n = i / 4 % (SUM_COLUMNS / 8);
        put_pair<D>(tile, sum_row() + row_of(m, i % 4), sum_column() + column_of(n, 0), own[i * THREADS] * scale,
                    own[(i + 1) * THREADS] * scale);
    }
    __syncthreads();
    int row = warp_number() * (BLOCK / WARPS);
    store_rows<BLOCK / WARPS>(d_query + batch * d_query_batch + head * d_query_head, d_query_row, q0 + row, queries,
                              head_dim, aligned, tile, row);
}

// Compute dQ. The sum over the keys has a fixed order.
extern "C" __global__ void __launch_bounds__(THREADS, 1) attention_backward_queries(
    const element* query, const element* key, const element* value, const element* g, const float2* totals,
    const float* delta, element* d_query, long long query_batch, long long query_head, long long query_row,
    long long key_batch, long long key_head, long long key_row, long long value_batch, long long value_head,
    long long value_row, long long g_batch, long long g_head, long long g_row, long long d_query_batch,
    long long d_query_head, long long d_query_row, int aligned, PAIR_PARAMETERS) {
    extern __shared__ __align__(128) uint4 memory[];
    element* q_tile = reinterpret_cast<element*>(memory);  // OWNED x D
    element* g_tile = q_tile + OWNED * D;                  // OWNED x D
    element* k_tiles = g_tile + OWNED * D;                 // two tiles of BLOCK x D
    element* v_tiles = k_tiles + 2 * BLOCK * D;            // two tiles of BLOCK x D
    element* ds_tile = v_tiles + 2 * BLOCK * D;            // OWNED x BLOCK, only for float32

    int q0 = int(gridDim.x - 1 - blockIdx.x) * OWNED, head = blockIdx.y, batch = blockIdx.z;
    int warp_row = threadIdx.x / 32 * 16 * M_TILES;
    const Pairs pairs = PAIRS_OF(batch, head);
    query += batch * query_batch + head * query_head;
    key += batch * key_batch + head * key_head;
    value += batch * value_batch + head * value_head;
    g += batch * g_batch + head * g_head;
    totals += static_cast<long long>(batch * heads + head) * queries;
    delta += static_cast<long long>(batch * heads + head) * queries;

    float offset[M_TILES][2], total[M_TILES][2], row_delta[M_TILES][2];
#pragma unroll
    for (int m = 0; m < M_TILES; ++m)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            int i = q0 + warp_row + row_of(m, 2 * e);
            float2 of_query = total_of(totals, i, queries);
            offset[m][e] = of_query.x, total[m][e] = of_query.y;
            row_delta[m][e] = i < queries ? delta[i] : 0.0f;
        }
    float dq[M_TILES][D / 8][4] = {};
    int last = pairs.last_key(q0 + OWNED);
    int first = pairs.next_keys<BLOCK>(pairs.first_key(q0) / BLOCK * BLOCK, last, q0, q0 + OWNED);
    auto load = [&](int stage, int k0) {
        load_tile<BLOCK>(k_tiles + stage * BLOCK * D, key, key_row, k0, pairs.keys, head_dim, aligned);
        load_tile<BLOCK>(v_tiles + stage * BLOCK * D, value, value_row, k0, pairs.keys, value_dim, aligned);
        cp_async_commit();
    };
    if (first < last) {
        load_tile<OWNED>(q_tile, query, query_row, q0, queries, head_dim, aligned);
        load_tile<OWNED>(g_tile, g, g_row, q0, queries, value_dim, aligned);
        load(0, first);
    }
    int stage = 0;
    for (int k0 = first, next; k0 < last; k0 = next, stage ^= 1) {
        cp_async_wait<0>();
        __syncthreads();
        next = pairs.next_keys<BLOCK>(k0 + BLOCK, last, q0, q0 + OWNED);
        if (next < last) load(stage ^ 1, next);
        const element *k_tile = k_tiles + stage * BLOCK * D, *v_tile = v_tiles + stage * BLOCK * D;
        int row = q0 + warp_row;
        bool all = pairs.all_see(row, row + 16 * M_TILES, k0, k0 + BLOCK);
        float p[M_TILES][BLOCK / 8][4] = {}, ds[M_TILES][BLOCK / 8][4] = {};
        add_product_nt<M_TILES, BLOCK>(p, TileOperand<D>(q_tile, warp_row), k_tile);
        finish_scores<M_TILES, BLOCK / 8, true>(p, pairs, row, k0, all);
        add_product_nt<M_TILES, BLOCK>(ds, TileOperand<D>(g_tile, warp_row), v_tile);
#pragma unroll
        for (int i = 0; i < 2 * M_TILES; ++i)
            if (offset[i / 2][i % 2] != 0.0f)
#pragma unroll
                for (int n = 0; n < BLOCK / 8; ++n) {
                    p[i / 2][n][i % 2 * 2] -= offset[i / 2][i % 2];
                    p[i / 2][n][i % 2 * 2 + 1] -= offset[i / 2][i % 2];
                }
#if EXTRAS
        drop<M_TILES, BLOCK / 8, true>(ds, pairs, row, k0, factor);
#endif
#pragma unroll
        for (int m = 0; m < M_TILES; ++m)
#pragma unroll
            for (int n = 0; n < BLOCK / 8; ++n)
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    float weight = exp2_approx(fmaf(p[m][n][e], EXTRAS ? LOG2_E : pairs.scale_log2, -total[m][e / 2]));
                    ds[m][n][e] = weight * (ds[m][n][e] - row_delta[m][e / 2]);
                }
        PairOperand<M_TILES, BLOCK> left;
        left.set(ds, ds_tile, warp_row);
        add_product_nn<BLOCK>(dq, left, k_tile);
    }
    float query_factor[M_TILES][2];
#pragma unroll
    for (int i = 0; i < 2 * M_TILES; ++i) query_factor[i / 2][i % 2] = scale;
    __syncwarp();
    put_accumulator<D>(q_tile, warp_row, 0, dq, query_factor);
    __syncwarp();
    store_rows<16 * M_TILES>(d_query + batch * d_query_batch + head * d_query_head, d_query_row, q0 + warp_row, queries, head_dim,
                   aligned, q_tile, warp_row);
}
