// The matrix operations of a warp, with the fragment layouts of the PTX ISA (sections on mma.m16n8k16 and ldmatrix).
#include "include/cuda_fp16.h"

namespace emulator {

// Fragments of lane `4 g + t`: A (rows g and g + 8) x (columns 2t, 2t + 1, 2t + 8, 2t + 9); B (rows 2t, 2t + 1, 2t + 8,
// 2t + 9) x (column g); C and D (rows g and g + 8) x (columns 2t, 2t + 1).
void combine_mma_m16n8k16(LaneCall* const* calls) {
    float a[16][16], b[8][16];
    for (int lane = 0; lane < 32; ++lane) {
        if (!calls[lane]) fail("divergent warp", "mma.sync needs all 32 lanes; lane %d takes no part", lane);
        const auto& call = *static_cast<MmaCall*>(calls[lane]->data);
        int group = lane / 4, column = lane % 4 * 2;
        for (int half = 0; half < 2; ++half) {
            for (int part = 0; part < 4; ++part)
                a[group + part % 2 * 8][column + part / 2 * 8 + half] = half_to_float(call.a[part] >> 16 * half & 0xffff);
            for (int part = 0; part < 2; ++part)
                b[group][column + part * 8 + half] = half_to_float(call.b[part] >> 16 * half & 0xffff);
        }
    }
    for (int lane = 0; lane < 32; ++lane) {
        auto& call = *static_cast<MmaCall*>(calls[lane]->data);
        for (int i = 0; i < 4; ++i) {
            const float *row = a[lane / 4 + i / 2 * 8], *column = b[lane % 4 * 2 + i % 2];
            float sum = 0;
            for (int k = 0; k < 16; ++k) sum += row[k] * column[k];
            call.accumulator[i] += sum;
        }
    }
}

// Lane i addresses row i % 8 of 8 x 8 matrix i / 8. Lane 4 g + t receives elements (g, 2t), (g, 2t + 1) of each matrix.
void combine_ldmatrix(LaneCall* const* calls) {
    const unsigned short* rows[32] = {};
    for (int lane = 0; lane < 32; ++lane) {
        if (!calls[lane]) fail("divergent warp", "ldmatrix needs all 32 lanes; lane %d takes no part", lane);
        const auto& call = *static_cast<MatrixCall*>(calls[lane]->data);
        rows[lane] = static_cast<const unsigned short*>(call.row);
    }
    for (int lane = 0; lane < 32; ++lane) {
        const auto& call = *static_cast<MatrixCall*>(calls[lane]->data);
        int group = lane / 4, column = lane % 4 * 2;
        for (int matrix = 0; matrix < 4; ++matrix) {
            const unsigned short* const* block = rows + 8 * matrix;
            unsigned low = call.transposed ? block[column][group] : block[group][column];
            unsigned high = call.transposed ? block[column + 1][group] : block[group][column + 1];
            call.registers[matrix] = high << 16 | low;
        }
    }
}

}  // namespace emulator
