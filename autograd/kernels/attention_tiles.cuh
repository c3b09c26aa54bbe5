// Tiles in shared memory and their products by one warp, for float16 (tensor cores) and float32 (plain arithmetic).
//
// Constants: HALF (1: float16, 0: float32), D (head dimension padded to 32, 64, 96 or 128), WARPS (per thread block).
// Both types use the accumulator layout of mma.m16n8k16. With g = lane / 4 and t = lane % 4, element e of
// accumulator[m][n] is at row 16 m + g + 8 (e / 2) and column 8 n + 2 t + e % 2. Masks, softmax and dropout use only
// row and column numbers, so both types share their code.
#pragma once
#include <cuda_fp16.h>

#include "ptx.cuh"

#ifndef HALF
#define HALF 1
#endif
#ifndef D
#define D 64
#endif
#ifndef WARPS
#define WARPS 4
#endif
#ifndef EXTRAS
#define EXTRAS 1
#endif

constexpr int THREADS = 32 * WARPS;
#if HALF
using element = half;
#else
using element = float;
#endif
constexpr int CHUNK = 16 / sizeof(element);  // elements in 16 bytes, the unit of copies and of the swizzle

__device__ __forceinline__ int lane_number() { return computed_here(threadIdx.x) % 32; }
__device__ __forceinline__ int warp_number() { return computed_here(threadIdx.x) / 32; }
__device__ __forceinline__ int row_of(int m, int e) { return 16 * m + lane_number() / 4 + 8 * (e / 2); }
__device__ __forceinline__ int column_of(int n, int e) { return 8 * n + 2 * (lane_number() % 4) + e % 2; }

// The number of adjacent chunks of a row that the swizzle permutes among themselves.
template <int WIDTH>
constexpr int AROUND = WIDTH / CHUNK % 8 == 0 ? 8 : 4;

// Return the offset of chunk `chunk` of row `row` in a tile with rows of WIDTH elements. Unswizzled, the same chunk of
// eight rows would lie in the same banks. The exclusive or uses all 32 banks, so ldmatrix and 16-byte reads have no
// bank conflicts. Every other row of 64 or 192 bytes starts at other banks, so two bits of the row number suffice.
template <int WIDTH>
__device__ __forceinline__ int place_of(int row, int chunk) {
    static_assert(WIDTH / CHUNK % 4 == 0, "a row of a tile is a multiple of 64 bytes");
    return row * WIDTH + (chunk ^ (AROUND<WIDTH> == 8 ? row & 7 : row >> 1 & 3)) * CHUNK;
}

// Start the copy of rows first .. first + ROWS - 1 of a matrix (length x width, rows `stride` apart) to a tile of width
// D. Rows and columns beyond the matrix become zero, whatever the memory contains. `aligned`: every row starts and ends
// at a multiple of 16 bytes. A thread copies the same chunks of every DOWN-th row. DOWN is a multiple of 8, so the
// offset of a chunk in the tile grows by a constant from row to row, and a thread advances only one pointer.
template <int ROWS>
__device__ __forceinline__ void load_tile(element* tile, const element* matrix, long long stride, int first, int length,
                                          int width, bool aligned) {
    constexpr int CHUNKS = D / CHUNK, ACROSS = AROUND<D>, DOWN = THREADS / ACROSS;
    static_assert(DOWN % 8 == 0, "rows of one thread lie alike");
    int thread = computed_here(threadIdx.x), row = thread / ACROSS, chunk = thread % ACROSS;
    element* target = tile + place_of<D>(row, chunk);
    const element* source = matrix + (first + row) * stride + chunk * CHUNK;
    if (aligned) {
        unsigned address = shared_address(target);
#pragma unroll
        for (int r = 0; r < ROWS; r += DOWN, source += DOWN * stride) {
            if (DOWN > ROWS && row >= ROWS) break;
#pragma unroll
            for (int c = 0; c < CHUNKS; c += ACROSS) {
                int end = (chunk + c) * CHUNK < width ? length : 0;
                cp_async_16(address + (r * D + c * CHUNK) * sizeof(element), source + c * CHUNK, first + row + r < end);
            }
        }
    } else {
#pragma unroll 1
        for (int r = row; r < ROWS; r += DOWN, source += DOWN * stride, target += DOWN * D)
#pragma unroll 1
            for (int c = 0; c < D; c += ACROSS * CHUNK)
                for (int i = 0; i < CHUNK; ++i) {
                    bool inside = first + r < length && chunk * CHUNK + c + i < width;
                    target[c + i] = inside ? source[c + i] : element(0.0f);
                }
    }
}

// Write two adjacent elements into a tile. `column` is even.
template <int WIDTH>
__device__ __forceinline__ void put_pair(element* tile, int row, int column, float x, float y) {
    element* target = tile + place_of<WIDTH>(row, column / CHUNK) + column % CHUNK;
#if HALF
    *reinterpret_cast<half2*>(target) = __floats2half2_rn(x, y);
#else
    *reinterpret_cast<float2*>(target) = make_float2(x, y);
#endif
}

// Multiply each row of an accumulator by its factor and write the result into a tile, starting at (`row`, `column`).
template <int WIDTH, int M, int N>
__device__ __forceinline__ void put_accumulator(element* tile, int row, int column, const float (&x)[M][N][4],
                                                const float (&factor)[M][2]) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int e = 0; e < 4; e += 2)
                put_pair<WIDTH>(tile, row + row_of(m, e), column + column_of(n, 0), x[m][n][e] * factor[m][e / 2],
                                x[m][n][e + 1] * factor[m][e / 2]);
}

// One warp copies ROWS rows, starting at row `tile_row` of a tile of width D, to a matrix, starting at row `first`.
template <int ROWS>
__device__ __forceinline__ void store_rows(element* matrix, long long stride, int first, int length, int width,
                                           bool aligned, const element* tile, int tile_row) {
    constexpr int CHUNKS = D / CHUNK;
    for (int i = lane_number(); i < ROWS * CHUNKS; i += 32) {
        int row = i / CHUNKS, chunk = i % CHUNKS;
        if (first + row >= length) continue;
        int valid = min(width - chunk * CHUNK, CHUNK);
        const element* source = tile + place_of<D>(tile_row + row, chunk);
        element* target = matrix + (first + row) * stride + chunk * CHUNK;
        if (aligned && valid == CHUNK) {
            *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(source);
        } else {
            for (int c = 0; c < valid; ++c) target[c] = source[c];
        }
    }
}

// -- products of one warp --------------------------------------------------------------------------------------------
// A left operand has 16 M rows. A TileOperand is rows of a tile; a PairOperand is an accumulator that becomes the left
// operand of the next product.

#if HALF

// ldmatrix takes row addresses. A lane computes one address, of the first or the second chunk of a pair. An exclusive
// or and a constant move this address `chunk` (an even number) chunks to the right. A constant moves it 16 rows down.
template <int WIDTH>
__device__ __forceinline__ unsigned further(unsigned address, int chunk) {
    return (address ^ chunk % AROUND<WIDTH> * 16) + chunk / AROUND<WIDTH> * AROUND<WIDTH> * 16;
}
template <int WIDTH>
__device__ __forceinline__ unsigned lane_address(const element* tile, int row, int chunk) {
    return computed_here(shared_address(tile) + place_of<WIDTH>(row, chunk) * int(sizeof(element)));
}

// The operand starts at row `row` and column `column`, a multiple of the number of columns that are read.
template <int WIDTH>
struct TileOperand {
    unsigned address;
    __device__ __forceinline__ TileOperand(const element* tile, int row, int column = 0)
        : address(lane_address<WIDTH>(tile, row + lane_number() % 16, column / CHUNK + lane_number() / 16)) {}
    __device__ __forceinline__ void fragment(unsigned (&a)[4], int m, int k) const {
        ldmatrix_x4(a, further<WIDTH>(computed_here(address), 2 * k) + 16 * m * WIDTH * int(sizeof(element)));
    }
};

// An accumulator rounded to float16 has the register layout of a left operand: no data moves between lanes.
template <int M, int WIDTH>
struct PairOperand {
    unsigned held[M][WIDTH / 16][4];
    __device__ __forceinline__ void set(const float (&x)[M][WIDTH / 8][4], element*, int) {
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int k = 0; k < WIDTH / 16; ++k)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    half2 pair = __floats2half2_rn(x[m][2 * k + i / 2][i % 2 * 2], x[m][2 * k + i / 2][i % 2 * 2 + 1]);
                    held[m][k][i] = *reinterpret_cast<unsigned*>(&pair);
                }
    }
    // Write the operand into a tile, starting at (`row`, `column`), for other warps to read.
    template <int TILE_WIDTH>
    __device__ __forceinline__ void put(element* tile, int row, int column) const {
        int place = place_of<TILE_WIDTH>(row + lane_number() / 4, column / CHUNK) + lane_number() % 4 * 2;
        char* own = reinterpret_cast<char*>(tile);
        unsigned offset = computed_here(place * int(sizeof(element)));
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int k = 0; k < WIDTH / 16; ++k)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    int down = (16 * m + i % 2 * 8) * TILE_WIDTH * int(sizeof(element));
                    *reinterpret_cast<unsigned*>(own + further<TILE_WIDTH>(offset, 2 * k + i / 2) + down) = held[m][k][i];
                }
    }
    __device__ __forceinline__ void fragment(unsigned (&a)[4], int m, int k) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = held[m][k][i];
    }
};

// accumulator += A B^T, summed over D. B is N rows of a tile.
template <int M, int N>
__device__ __forceinline__ void add_product_nt(float (&accumulator)[M][N / 8][4], const TileOperand<D>& a,
                                               const element* b) {
    int lane = lane_number();
    unsigned address = lane_address<D>(b, lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        unsigned left[M][4];
#pragma unroll
        for (int m = 0; m < M; ++m) a.fragment(left[m], m, k);
#pragma unroll
        for (int n = 0; n < N / 16; ++n) {
            unsigned right[4];
            ldmatrix_x4(right, further<D>(address, 2 * k) + 16 * n * D * int(sizeof(element)));
#pragma unroll
            for (int m = 0; m < M; ++m) {
                mma_m16n8k16(accumulator[m][2 * n], left[m], right[0], right[1]);
                mma_m16n8k16(accumulator[m][2 * n + 1], left[m], right[2], right[3]);
            }
        }
    }
}

// accumulator += A B, summed over K. B is K rows of a tile, starting at column `first`. `first` is 0 or a multiple of
// AROUND chunks.
template <int K, int M, int N, class Left>
__device__ __forceinline__ void add_product_nn(float (&accumulator)[M][N][4], const Left& a, const element* b,
                                               int first = 0) {
    unsigned address = lane_address<D>(b, lane_number() % 16, first / CHUNK + lane_number() / 16);
#pragma unroll
    for (int k = 0; k < K / 16; ++k) {
        unsigned left[M][4];
#pragma unroll
        for (int m = 0; m < M; ++m) a.fragment(left[m], m, k);
#pragma unroll
        for (int n = 0; n < N / 2; ++n) {
            unsigned right[4];
            ldmatrix_x4_trans(right, further<D>(address, 2 * n) + 16 * k * D * int(sizeof(element)));
#pragma unroll
            for (int m = 0; m < M; ++m) {
                mma_m16n8k16(accumulator[m][2 * n], left[m], right[0], right[1]);
                mma_m16n8k16(accumulator[m][2 * n + 1], left[m], right[2], right[3]);
            }
        }
    }
}

// accumulator += A^T B, summed over K. A is K rows and 16 M columns of a tile of width AW, starting at column `column`,
// a multiple of 16 M. B is K rows and N columns of a tile of width D, starting at column `first`.
template <int K, int AW, int M, int N>
__device__ __forceinline__ void add_product_tn(float (&accumulator)[M][N / 8][4], const element* a, int column,
                                               const element* b, int first) {
    int lane = lane_number();
    unsigned above = lane_address<AW>(a, lane / 16 * 8 + lane % 8, column / CHUNK + lane / 8 % 2), beside[N / 16];
#pragma unroll
    for (int n = 0; n < N / 16; ++n) beside[n] = lane_address<D>(b, lane % 16, first / CHUNK + 2 * n + lane / 16);
#pragma unroll
    for (int k = 0; k < K / 16; ++k) {
        unsigned left[M][4];
#pragma unroll
        for (int m = 0; m < M; ++m)
            ldmatrix_x4_trans(left[m], further<AW>(above, 2 * m) + 16 * k * AW * int(sizeof(element)));
#pragma unroll
        for (int n = 0; n < N / 16; ++n) {
            unsigned right[4];
            ldmatrix_x4_trans(right, beside[n] + 16 * k * D * int(sizeof(element)));
#pragma unroll
            for (int m = 0; m < M; ++m) {
                mma_m16n8k16(accumulator[m][2 * n], left[m], right[0], right[1]);
                mma_m16n8k16(accumulator[m][2 * n + 1], left[m], right[2], right[3]);
            }
        }
    }
}

#else  // float32: each lane computes the elements of its accumulator from the tiles

template <int WIDTH>
struct TileOperand {
    const element* tile;
    int row;
    __device__ __forceinline__ TileOperand(const element* tile, int row) : tile(tile), row(row) {}
};

// A lane needs elements of other lanes, so the operand is stored in rows of shared memory that only this warp uses.
template <int M, int WIDTH>
struct PairOperand {
    const element* tile;
    int row;
    __device__ __forceinline__ void set(const float (&x)[M][WIDTH / 8][4], element* room, int first_row) {
        float one[M][2];
#pragma unroll
        for (int m = 0; m < M; ++m) one[m][0] = one[m][1] = 1.0f;
        __syncwarp();  // what lay there has been read
        put_accumulator<WIDTH>(room, first_row, 0, x, one);
        __syncwarp();
        tile = room;
        row = first_row;
    }
    template <int TILE_WIDTH>
    __device__ __forceinline__ void put(element*, int, int) const {}  // `set` wrote the operand
};

__device__ __forceinline__ float4 read_chunk(const element* place) { return *reinterpret_cast<const float4*>(place); }

__device__ __forceinline__ float dot(float4 a, float4 b, float sum) {
    return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, sum))));
}

template <int M, int N>
__device__ __forceinline__ void add_product_nt(float (&accumulator)[M][N / 8][4], const TileOperand<D>& a,
                                               const element* b) {
#pragma unroll 1
    for (int k = 0; k < D / CHUNK; ++k) {
        float4 left[M][2];
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int e = 0; e < 4; e += 2) left[m][e / 2] = read_chunk(a.tile + place_of<D>(a.row + row_of(m, e), k));
#pragma unroll
        for (int n = 0; n < N / 8; ++n)
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                float4 right = read_chunk(b + place_of<D>(column_of(n, c), k));
#pragma unroll
                for (int m = 0; m < M; ++m) {
                    accumulator[m][n][c] = dot(left[m][0], right, accumulator[m][n][c]);
                    accumulator[m][n][2 + c] = dot(left[m][1], right, accumulator[m][n][2 + c]);
                }
            }
    }
}

// accumulator += left (elements of rows g and g + 8) times this lane's pairs of columns in row `row` of B.
template <int M, int N>
__device__ __forceinline__ void add_outer(float (&accumulator)[M][N / 8][4], const float (&left)[M][2], const element* b,
                                          int row, int first) {
#pragma unroll
    for (int n = 0; n < N / 8; ++n) {
        int column = first + column_of(n, 0);
        float2 right = *reinterpret_cast<const float2*>(b + place_of<D>(row, column / CHUNK) + column % CHUNK);
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                accumulator[m][n][e] = fmaf(left[m][e / 2], e % 2 ? right.y : right.x, accumulator[m][n][e]);
    }
}

template <int K, int M, int N>
__device__ __forceinline__ void add_product_nn(float (&accumulator)[M][N][4], const PairOperand<M, K>& a,
                                               const element* b, int first = 0) {
#pragma unroll 1
    for (int k = 0; k < K; ++k) {
        float left[M][2];
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int e = 0; e < 4; e += 2)
                left[m][e / 2] = a.tile[place_of<K>(a.row + row_of(m, e), k / CHUNK) + k % CHUNK];
        add_outer<M, 8 * N>(accumulator, left, b, k, first);
    }
}

template <int K, int AW, int M, int N>
__device__ __forceinline__ void add_product_tn(float (&accumulator)[M][N / 8][4], const element* a, int column,
                                               const element* b, int first) {
#pragma unroll 1
    for (int k = 0; k < K; ++k) {
        float left[M][2];
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int e = 0; e < 4; e += 2) {
                int c = column + row_of(m, e);
                left[m][e / 2] = a[place_of<AW>(k, c / CHUNK) + c % CHUNK];
            }
        add_outer<M, N>(accumulator, left, b, k, first);
    }
}

#endif
