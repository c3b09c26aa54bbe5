"""Bugs for the kernels that work on rows: layer norm and sums of columns; in the table of kernel_mutant_list.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.kernel_mutants import each, tests_of

_fused = tests_of("test_fused")

norm = each(_fused.test_layer_norm, ((7, 97), False, np.float32), ((300, 5), False, np.float16))
warps = each(
    _fused.test_layer_norm,
    ((13, 264), False, np.float32),
    ((150, 8), False, np.float16),
    ((4, 1000), False, np.float16),
)
residual_warps = each(_fused.test_layer_norm, ((13, 264), "and past", np.float16), ((150, 8), True, np.float32))
many = each(_fused.test_layer_norm_of_more_rows_than_are_taken_at_a_time, (8,))
residual = each(_fused.test_layer_norm, ((7, 97), True, np.float32), ((3, 257), "and past", np.float16))
long = _fused.test_dropout_of_more_elements_than_16_bits_count
columns = _fused.test_sums_of_columns

ROW_BUGS: list[tuple[str, Any, list[tuple[str, str, str]]]] = [
    (
        "normalization.cu",
        norm,
        [
            ("wrong statistic", "block_sum(squares, scratch) / width + eps", "block_sum(squares, scratch) / width"),
            ("wrong statistic", "/ width + eps", "/ (width - 1) + eps"),
            ("lost neighbours", "first = start / 8 + threadIdx.x;", "first = (start + 7) / 8 + threadIdx.x;"),
            ("wrong column", "size_t column = 8 * group + i - start;  //", "size_t column = 8 * threadIdx.x + i;  //"),
            ("scratch out of bounds", "scratch = shared + 2 * width;", "scratch = shared + 2 * width + 32;"),
            (
                "missing barrier",
                "if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;\n    __syncthreads();\n    float total",
                "if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;\n    float total",
            ),
        ],
    ),
    (
        "normalization.cu",
        residual,
        [
            ("missing barrier", "total += scratch[warp];\n    __syncthreads();", "total += scratch[warp];"),
        ],
    ),
    (
        "normalization.cu",
        norm,
        [
            (
                "lost warp",
                "for (int warp = 0; warp < warps; ++warp) total",
                "for (int warp = 1; warp < warps; ++warp) total",
            ),
            ("lost term", " - first - x_hat * second", " - x_hat * second"),
            ("lost term", " - first - x_hat * second", " - first"),
            ("wrong stride", "row += gridDim.x", "row += gridDim.x + 1"),
            ("wrong sum", "weight_sum[i] += gradient * x_hat;", "weight_sum[i] += gradient;"),
        ],
    ),
    (
        "normalization.cu",
        residual,
        [
            (
                "wrong replay",
                "draw_eight(keep, seed, call, group, threshold);\n#endif",
                "draw_eight(keep, seed, call, group - start / 8, threshold);\n#endif",
            ),
            ("wrong replay", "keep[i] ? own * keep_scale : 0.0f", "keep[i] ? own : 0.0f"),
            ("lost term", "if (past) own += widen(beside.value[i]);", ""),
            ("unrounded statistics", "sum += widen(own.value[i]);", "sum += widen(own.value[i]) + 0.01f;"),
            ("written too far", "if (start + i >= low && start + i < n) x", "if (start + i < n) x"),
        ],
    ),
    (
        "normalization.cu",
        norm,
        [
            ("uninitialised sum", "weight_sum[i] = bias_sum[i] = 0.0f;", "weight_sum[i] = 0.0f;"),
        ],
    ),
    (
        "normalization_warps.cu",
        warps,
        [
            ("lost rows", "blockIdx.x * 4 + threadIdx.x / 32", "blockIdx.x * 3 + threadIdx.x / 32"),
            ("no bound", "    if (row >= rows) return;\n", ""),
            ("lost lane", "warp_sum(sum) / width", "(warp_sum(sum) - __shfl_sync(0xffffffffu, sum, 31)) / width"),
            (
                "lost step of a warp's sum",
                "for (int step = 16; step; step /= 2) x +=",
                "for (int step = 8; step; step /= 2) x +=",
            ),
            ("wrong statistic", "warp_sum(squares) / width + eps", "warp_sum(squares) / width"),
            ("wrong statistic", "warp_sum(squares) / width + eps", "warp_sum(squares) / (width - 1) + eps"),
            ("tail counted", "if (lane + 32 * k >= eights) continue;", ""),
            ("lost term", " - first - x_hat * second)", " - x_hat * second)"),
            ("wrong sum", "weight_sum[k][i] += own * x_hat;", "weight_sum[k][i] += own;"),
            ("lost warp", "for (int turn = 0; turn < 8; ++turn)", "for (int turn = 0; turn < 7; ++turn)"),
            ("sum not begun", "(turn ? shared[column] : 0.0f)", "shared[column]"),
            ("missing barrier", "                }\n        __syncthreads();\n", "                }\n"),
            ("no bound", "if (column >= width) continue;", ""),
            ("one sixteenth", "row < groups; ++row", "row < 1; ++row"),
            ("wrong member", "size_t(first + row) * width + i", "size_t(row) * width + i"),
            ("lost member", "min(unsigned(SUMMED), gridDim.x - first)", "unsigned(SUMMED)"),
            ("one flag for both", "is_last(tickets, groups, flag + 1)", "is_last(tickets + 1, groups, flag + 1)"),
        ],
    ),
    ("normalization_warps.cu", many, [("lost rows", "row += 8 * gridDim.x", "row += 9 * gridDim.x")]),
    (
        "normalization_warps.cu",
        residual_warps,
        [
            (
                "off by one",
                "draw_eight(keep, seed, call, first + place, threshold);",
                "draw_eight(keep, seed, call, first + place + 1, threshold);",
            ),
            (
                "wrong replay",
                "draw_eight(keep, seed, call, start + place, threshold);",
                "draw_eight(keep, seed, call, place, threshold);",
            ),
            ("wrong replay", "keep[i] ? own * keep_scale : 0.0f", "keep[i] ? own : 0.0f"),
            ("lost term", "if (past) own += widen(beside.value[i]);", ""),
            ("unrounded statistics", "sum += widen(own[k].value[i]);", "sum += widen(own[k].value[i]) + 0.01f;"),
            ("sum not stored", "        eight_of(z, first + place) = own[k];\n", ""),
        ],
    ),
    (
        "columns.cu",
        columns,
        [
            ("missing barrier", "    __syncthreads();\n    if (threadIdx.y", "    if (threadIdx.y"),
            ("lost warp", "for (int warp = 1; warp < 8; ++warp)", "for (int warp = 1; warp < 7; ++warp)"),
            ("lost chunk", "chunk < gridDim.y; chunk += 8", "chunk < gridDim.y - 1; chunk += 8"),
            ("lost chunk", "int chunk = threadIdx.y; chunk", "int chunk = 8 + threadIdx.y; chunk"),
            ("sum not begun anew", "            sum[i] = 0.0f;\n", ""),
            ("no bound", "int high = min(low + rows_per_chunk, rows);", "int high = low + rows_per_chunk;"),
            ("no bound", "if (column + i < width) sum[i] += widen", "sum[i] += widen"),
            ("misaligned", "if (width % 8 == 0 && column < width) eight", "if (column < width) eight"),
            ("wrong lane", "own[256 * warp + 32 * i];", "own[256 * warp + 8 * i];"),
            ("one ticket for all", "is_last(tickets + blockIdx.x,", "is_last(tickets,"),
            ("missing barrier", "    __syncthreads();\n    return *last != 0;", "    return *last != 0;"),
            ("ticket off by one", "count - 1) == count - 1", "count) == count - 1"),
            ("missing fence", "        __threadfence();\n        *last", "        *last"),
        ],
    ),
    (
        "normalization_warps.cu",
        long,
        [("limits", "call, first + place, threshold", "call, (first + place) % 8192, threshold")],
    ),
    (
        "normalization.cu",
        long,
        [
            (
                "limits",
                "draw_eight(keep, seed, call, group, threshold);\n#pragma",
                "draw_eight(keep, seed, call, group % 8192, threshold);\n#pragma",
            )
        ],
    ),
]
