// The work of a warp on the upper rungs: it multiplies 16 queries by a tile of 64 keys, with tensor cores.
//
// The instruction determines which lane holds which element of a product (ptx.cuh). With g = lane / 4 and t = lane % 4,
// a lane holds columns 2t and 2t + 1 of rows g and g + 8 of each 16 x 8 block of scores. Two adjacent blocks, rounded
// to float16, form the left operand of the next product, so the weights never leave the registers.
//
// The including file must define `at(row, chunk)`, which returns the byte offset of a 16-byte chunk in a tile.
#pragma once
#include "../ptx.cuh"
#include "common.cuh"

constexpr int ROWS = 64, WARPS = 4, THREADS = 32 * WARPS;  // queries per thread block, keys per tile; 16 queries a warp
constexpr int TILE = ROWS * D * 2;                         // bytes

struct Warp {
    unsigned q[D / 16][4];  // the queries, as left operands
    float o[D / 8][4], top[2], sum[2];
    int lane, row;

    __device__ __forceinline__ void begin(unsigned q_tile) {
        lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16;
        top[0] = top[1] = -INFINITE, sum[0] = sum[1] = 0.0f;
        for (int n = 0; n < D / 8; ++n)
            for (int e = 0; e < 4; ++e) o[n][e] = 0.0f;
        for (int k = 0; k < D / 16; ++k) ldmatrix_x4(q[k], q_tile + at(row + lane % 16, 2 * k + lane / 16));
    }

    // S = Q K^T. The rows of K are the columns of the right operand, so no transpose is needed.
    __device__ __forceinline__ void scores(float (&s)[ROWS / 8][4], unsigned k_tile) {
#pragma unroll
        for (int k = 0; k < D / 16; ++k)
#pragma unroll
            for (int n = 0; n < ROWS / 16; ++n) {
                unsigned b[4];
                ldmatrix_x4(b, k_tile + at(16 * n + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
                mma_m16n8k16(s[2 * n], q[k], b[0], b[1]);
                mma_m16n8k16(s[2 * n + 1], q[k], b[2], b[3]);
            }
    }

    // The running softmax of rows g (half_of = 0) and g + 8 (half_of = 2). Four lanes compute a row's maximum together.
    __device__ __forceinline__ void weights(float (&s)[ROWS / 8][4], int first, int keys, float c) {
#pragma unroll
        for (int half_of = 0; half_of < 4; half_of += 2) {
            float &m = top[half_of / 2], &l = sum[half_of / 2], new_m = m;
#pragma unroll
            for (int n = 0; n < ROWS / 8; ++n)
#pragma unroll
                for (int e = half_of; e < half_of + 2; ++e) {
                    if (first + 8 * n + lane % 4 * 2 + e % 2 >= keys) s[n][e] = -INFINITE;
                    new_m = fmaxf(new_m, s[n][e]);
                }
            new_m = fmaxf(new_m, __shfl_xor_sync(0xffffffffu, new_m, 1));
            new_m = fmaxf(new_m, __shfl_xor_sync(0xffffffffu, new_m, 2));
            float rescale = exp2_approx((m - new_m) * c);
            m = new_m, l *= rescale;
#pragma unroll
            for (int n = 0; n < D / 8; ++n) o[n][half_of] *= rescale, o[n][half_of + 1] *= rescale;
#pragma unroll
            for (int n = 0; n < ROWS / 8; ++n)
#pragma unroll
                for (int e = half_of; e < half_of + 2; ++e) l += s[n][e] = exp2_approx((s[n][e] - new_m) * c);
        }
    }

    // O += P V. The rows of V are the rows of the right operand, so they are transposed while they are loaded.
    __device__ __forceinline__ void add_values(const float (&p)[ROWS / 8][4], unsigned v_tile) {
#pragma unroll
        for (int k = 0; k < ROWS / 16; ++k) {
            unsigned a[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                half2 pair = __floats2half2_rn(p[2 * k + i / 2][i % 2 * 2], p[2 * k + i / 2][i % 2 * 2 + 1]);
                a[i] = *reinterpret_cast<unsigned*>(&pair);
            }
#pragma unroll
            for (int n = 0; n < D / 16; ++n) {
                unsigned b[4];
                ldmatrix_x4_trans(b, v_tile + at(16 * k + lane % 16, 2 * n + lane / 16));
                mma_m16n8k16(o[2 * n], a, b[0], b[1]);
                mma_m16n8k16(o[2 * n + 1], a, b[2], b[3]);
            }
        }
    }

    __device__ __forceinline__ void write(half* out, int first, int queries) {
#pragma unroll
        for (int half_of = 0; half_of < 4; half_of += 2) {
            float l = sum[half_of / 2];
            l += __shfl_xor_sync(0xffffffffu, l, 1);
            l += __shfl_xor_sync(0xffffffffu, l, 2);
            int i = first + row + lane / 4 + half_of * 4;
            if (i >= queries) continue;
#pragma unroll
            for (int n = 0; n < D / 8; ++n)
                *reinterpret_cast<half2*>(out + i * D + 8 * n + lane % 4 * 2) =
                    __floats2half2_rn(o[n][half_of] / l, o[n][half_of + 1] / l);
        }
    }
};
