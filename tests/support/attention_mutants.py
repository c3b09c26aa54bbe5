"""Bugs of the attention kernels, for the table in tests/support/kernel_mutant_list.py."""

# ruff: noqa: E501  (one bug a line: its kind, where, what becomes what, who must notice)

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tests.autograd.kernels import test_attention_kernels as _attention
from tests.autograd.kernels import test_attention_limits as _limits
from tests.autograd.kernels import test_far_blocks as _far
from tests.autograd.ops import test_attention_whole_range as _range
from tests.support.attention_cases import RESTRICTIONS, Case, sparse_case
from tests.support.fake_cupy import kernels
from tests.support.mutants import each, kernel_mutant

HALF, SINGLE = np.float16, np.float32


@cache
def attention(dtype: Any, lengths: tuple[int, int], *chosen: str, width: int | tuple[int, int] = 32, seed: int = 7, deterministic: bool = False, stacked: tuple[int, int] = (2, 2), **options: Any) -> Callable[[Any], None]:
    """Return a check of output and gradients of one call against the plain path, or the composed ops with dropout."""

    def check(_device: Any) -> None:
        case = Case(seed, lengths, width if isinstance(width, tuple) else (width, width), frozenset(chosen), stacked=stacked)
        case.options |= {key: value for key, value in options.items() if key != "dropout"}
        if "dropout" in options:
            case.check_dropout(dtype, options["dropout"], method="fused", deterministic=deterministic)
        else:
            case.check(dtype, method="fused", device="cuda", deterministic=deterministic)

    return check


def sparse(_device: Any) -> None:
    """Check a call with a mask that hides most tiles completely."""
    sparse_case(3, (203, 331)).check(HALF, method="fused", device="cuda", deterministic=kernels.seed == 1)


not_loaded = each(_attention.test_what_a_mask_hides_as_a_whole_is_not_even_loaded, (HALF, False), (HALF, True))
PLAIN = attention(HALF, (97, 113))
CAUSAL = attention(HALF, (97, 127), "causal")
BLOCKS = attention(HALF, (65, 200), width=40)
LONG = attention(HALF, (203, 203), window=1)
MASKED = attention(HALF, (40, 70), "mask", seed=12)
EVERYTHING = attention(HALF, (61, 97), *RESTRICTIONS)
NO_KEYS = attention(HALF, (70, 40), "causal")  # the first 30 queries see no key
DROPOUT = attention(HALF, (40, 70), dropout=0.3)
SINGLE_PLAIN = attention(SINGLE, (97, 113), "causal")
FIXED_ORDER = attention(HALF, (97, 113), "causal", deterministic=True)
FAR_ROWS, FAR_ROWS_FIXED_ORDER = (each(_range.test_fused_scores_of_any_size, (11, 32, SINGLE, fixed)) for fixed in (False, True))
FAR_ROWS_WIDE = each(_range.test_fused_scores_of_any_size, (4, 128, HALF, False))
LONG_DROPOUT = each(_limits.test_dropout_over_more_keys_and_queries_than_a_few_blocks)
LARGE, LARGE_EXTRAS = (each(_limits.test_scores_beyond_float16, (HALF, extras)) for extras in ({}, _limits.EXTRAS))
SUMS = each(_limits.test_sums_of_float16_inputs_are_float32, ({},))
FAR_APART, FAR_APART_EXTRAS = (each(_limits.test_rows_that_lie_gigabytes_apart, (extras,)) for extras in (False, True))
PADDING = each(_limits.test_padding_may_hold_anything)
BANKS = each(_limits.test_tiles_are_read_without_bank_conflicts, (32,))
WIDE = attention(HALF, (70, 140), "causal", width=128)
WIDE_FIXED_ORDER = attention(HALF, (70, 40), width=128, deterministic=True)
FORWARD, BACKWARD = "attention_forward.cu", "attention_backward.cu"

# fmt: off
FAR_HEADS = each(_far.test_batch_rows_and_heads_far_down)
ATTENTION_MUTANTS = [
    kernel_mutant("barriers and copies", FORWARD, "__syncthreads();  // this block of K", "// this block of K", BLOCKS),
    kernel_mutant("barriers and copies", FORWARD, "__syncthreads();  // V has arrived", "// V has arrived", BLOCKS),
    kernel_mutant("barriers and copies", FORWARD, "cp_async_wait<0>();\n        __syncthreads();  // this", "__syncthreads();  // this", BLOCKS),
    kernel_mutant("barriers and copies", FORWARD, "cp_async_wait<0>();\n        __syncthreads();  // V has", "__syncthreads();  // V has", BLOCKS),
    kernel_mutant("barriers and copies", FORWARD, "cp_async_wait<0>();\n        __syncthreads();  // V has", "cp_async_wait<1>();\n        __syncthreads();  // V has", BLOCKS),
    kernel_mutant("barriers and copies", FORWARD, "value_dim, aligned);\n        cp_async_commit();", "value_dim, aligned);", BLOCKS),
    kernel_mutant("barriers and copies", FORWARD, "if (next < last) {", "if (next <= last + BLOCK_K) {", BLOCKS),
    kernel_mutant("barriers and copies", FORWARD, "    __syncwarp();\n    put_accumulator<D>(q_tile, warp_row, 0, run.out, inverse);\n    __syncwarp();", "    put_accumulator<D>(q_tile, warp_row, 0, run.out, inverse);", PLAIN),
    kernel_mutant("softmax", FORWARD, "out[m][n][e] *= rescale;", "", BLOCKS),
    kernel_mutant("softmax", FORWARD, "sum[m][e / 2] *= rescale;", "", BLOCKS),
    kernel_mutant("softmax", FORWARD, "return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));", "return x;", PLAIN),
    kernel_mutant("softmax", FORWARD, "return x + __shfl_xor_sync(0xffffffffu, x, 2);", "return 2 * x;", PLAIN),
    kernel_mutant("softmax", FORWARD, "new_top == -INFINITE ? 0.0f : new_top * c", "new_top * c", NO_KEYS),
    kernel_mutant("softmax", FORWARD, "(is_far(base) ? 0.0f : base) + log2f(sum)", "base", PLAIN),
    kernel_mutant("softmax", FORWARD, "base = top * (EXTRAS ? LOG2_E : pairs.scale_log2);", "base = top;", PLAIN),
    kernel_mutant("scores far from 0", FORWARD, "fabsf(base) > 32.0f", "fabsf(base) > 1e6f", FAR_ROWS),
    kernel_mutant("scores far from 0", FORWARD, "fabsf(base) > 32.0f", "false", LARGE),
    kernel_mutant("scores far from 0", FORWARD, "old_top -= new_top;\n", "", FAR_ROWS),
    kernel_mutant("scores far from 0", FORWARD, "if (bias) s += float(bias[i * bias_row + j * bias_column]);", "if (bias) s = fmaf(float(bias[i * bias_row + j * bias_column]), LOG2_E, s * LOG2_E) / LOG2_E;", FAR_ROWS),
    kernel_mutant("scores far from 0", BACKWARD, "if (__any_sync(0xffffffffu, far)) {", "if (far) {", FAR_ROWS),
    kernel_mutant("scores far from 0", BACKWARD, "offset[own + column_of(n, e)]", "offset[column_of(n, e)]", FAR_ROWS_WIDE),
    kernel_mutant("scores far from 0", BACKWARD, "const float* offset = offsets + stage * BLOCK;", "const float* offset = offsets;", FAR_ROWS),
    kernel_mutant("scores far from 0", BACKWARD, "if (offset[i / 2][i % 2] != 0.0f)", "if (false)", FAR_ROWS_FIXED_ORDER),
    kernel_mutant("edges", FORWARD, "row + shift - nearest + 1)", "row + shift - nearest)", CAUSAL),
    kernel_mutant("edges", FORWARD, "low = QUERY_ROWS ? row + shift - farthest :", "low = QUERY_ROWS ? row + shift - farthest + 1 :", LONG),
    kernel_mutant("edges", BACKWARD, "row - shift + farthest + 1)", "row - shift + farthest)", LONG),
    kernel_mutant("edges", FORWARD, "if (row >= (QUERY_ROWS ? queries : keys)) high = low;", "", MASKED),
    kernel_mutant("edges", FORWARD, "i0 + shift - (j1 - 1) >= nearest", "i0 + shift - (j1 - 2) >= nearest", attention(HALF, (40, 166), "causal")),
    kernel_mutant("edges", FORWARD, "min(i1, queries) + shift - nearest", "min(i1, queries) + shift - nearest - 1", attention(HALF, (65, 65), "causal")),
    kernel_mutant("edges", FORWARD, "max(0, i0 + shift - farthest)", "max(0, i0 + shift - farthest + 1)", LONG),
    kernel_mutant("edges", FORWARD, "key_lengths ? min(keys, key_lengths[batch]) : keys", "keys", attention(HALF, (40, 70), "key_lengths")),
    kernel_mutant("edges", FORWARD, "if (first + row >= length) continue;", "", PLAIN),
    kernel_mutant("edges", FORWARD, "first + row + r < end", "first + row + r <= end", PLAIN),
    kernel_mutant("edges", FORWARD, "first + row + r < end", "true", PLAIN),
    kernel_mutant("edges", FORWARD, "(chunk + c) * CHUNK < width ? length : 0", "length", BLOCKS),
    kernel_mutant("edges", FORWARD, "lane / 16 * 8 + lane % 8, lane / 8 % 2);\n#pragma", "lane / 8 % 2 * 8 + lane % 8, lane / 16);\n#pragma", PLAIN),
    kernel_mutant("edges", FORWARD, "(address ^ chunk % AROUND<WIDTH> * 16)", "(address + chunk % AROUND<WIDTH> * 16)", PLAIN),
    kernel_mutant("edges", FORWARD, "+ chunk / AROUND<WIDTH> * AROUND<WIDTH> * 16", "", attention(HALF, (40, 70), width=96)),
    kernel_mutant("options", FORWARD, "bias[i * bias_row + j * bias_column]", "bias[j * bias_row + i * bias_column]", EVERYTHING),
    kernel_mutant("options", FORWARD, "fabsf(float(i + shift - j))", "float(i + shift - j)", attention(HALF, (40, 70), "alibi")),
    kernel_mutant("options", FORWARD, "mask + batch * mask_batch + head * mask_head", "mask + head * mask_head", MASKED),
    kernel_mutant("options", FORWARD, "(EXTRAS ? factor : 1.0f) / sum", "1.0f / sum", DROPOUT),
    kernel_mutant("tiles of the mask", FORWARD, "i0 / MASK_TILE; i <= i_end", "i0 / MASK_TILE + 1; i <= i_end", sparse),
    kernel_mutant("tiles of the mask", FORWARD, "(min(j1, keys) - 1) / MASK_TILE", "(min(j1, keys) - 1) / MASK_TILE - 1", sparse),
    kernel_mutant("tiles of the mask", FORWARD, "tiles[i * tiles_row + j * tiles_column]", "tiles[j * tiles_row + i * tiles_column]", sparse),
    kernel_mutant("tiles of the mask", FORWARD, "any = __any_sync(0xffffffffu, any);", "", sparse),
    kernel_mutant("tiles of the mask", FORWARD, "above % down", "above % across", sparse),
    kernel_mutant("tiles of the mask", FORWARD, "(k0 + BLOCK_K, last, q0, q0 + BLOCK_Q);\n        if", "(k0 + BLOCK_K, last, q0, q0 + 16);\n        if", sparse),
    kernel_mutant("tiles of the mask", FORWARD, "next = pairs.next_keys<BLOCK_K>(k0 + BLOCK_K, last, q0, q0 + BLOCK_Q);", "next = k0 + BLOCK_K;", not_loaded),
    kernel_mutant("tiles of the mask", BACKWARD, "next_queries<BLOCK>(q0 + BLOCK, last, k0, k0 + OWNED)", "next_queries<BLOCK>(q0 + 2 * BLOCK, last, k0, k0 + OWNED)", sparse),
    kernel_mutant("tiles of the mask", BACKWARD, "next_keys<BLOCK>(k0 + BLOCK, last, q0, q0 + OWNED)", "next_keys<BLOCK>(k0 + BLOCK, last, q0, q0 + 16)", sparse),
    kernel_mutant("backward", BACKWARD, "__syncwarp();  // what lay there has been read", "", SINGLE_PLAIN),
    kernel_mutant("backward", BACKWARD, "__syncthreads();  // this block has arrived; the last one", "// the last one", PLAIN),
    kernel_mutant("backward", BACKWARD, "cp_async_wait<0>();\n        __syncthreads();  // this block has arrived", "__syncthreads();  // this block has arrived", PLAIN),
    kernel_mutant("backward", BACKWARD, "__syncthreads();  // dS of all warps is there", "", PLAIN),
    kernel_mutant("backward", BACKWARD, "    __syncthreads();\n    put_accumulator<D>(k_tile", "    put_accumulator<D>(k_tile", PLAIN),
    kernel_mutant("backward", BACKWARD, "atomicAdd(target + i * THREADS, dq[i / (SUM_COLUMNS / 2)][i / 4 % (SUM_COLUMNS / 8)][i % 4]);", "target[i * THREADS] += dq[i / (SUM_COLUMNS / 2)][i / 4 % (SUM_COLUMNS / 8)][i % 4];", BLOCKS),
    kernel_mutant("backward", BACKWARD, "(ds[m][n][i] - of_query.y)", "ds[m][n][i]", PLAIN),
    kernel_mutant("backward", BACKWARD, "key_factor[i / 2][i % 2] = scale,", "key_factor[i / 2][i % 2] = 1.0f,", PLAIN),
    kernel_mutant("backward", FORWARD, "make_float2(0.0f, INFINITE);  // no key", "make_float2(0.0f, -INFINITE);  // no key", NO_KEYS),
    kernel_mutant("backward", BACKWARD, "max(0, j0 - shift + nearest)", "max(0, j0 - shift + nearest + 1)", attention(HALF, (202, 203), "causal")),
    kernel_mutant("backward", BACKWARD, "min(j1, keys) - shift + farthest", "min(j1, keys) - shift + farthest - 1", LONG),
    kernel_mutant("backward", BACKWARD, "right = QUERY_ROWS ? words.y : words.z", "right = QUERY_ROWS ? words.z : words.y", DROPOUT),
    kernel_mutant("backward", BACKWARD, "pairs.dropout_words(r0, c0) : pairs.dropout_words(c0, r0)", "pairs.dropout_words(r0, c0) : pairs.dropout_words(r0, c0)", DROPOUT),
    kernel_mutant("backward", BACKWARD, "drop<TILES, SHARE / 8, false>(p, pairs, row, column, factor);", "", DROPOUT),
    kernel_mutant("backward", BACKWARD, "d_bias + i * i_stride + j * j_stride", "d_bias + j * i_stride + i * j_stride", EVERYTHING),
    kernel_mutant("backward", BACKWARD, "weight * (ds[m][n][e] - row_delta[m][e / 2])", "weight * ds[m][n][e]", FIXED_ORDER),
    kernel_mutant("backward", BACKWARD, "i < queries ? delta[i] : 0.0f", "delta[i]", FIXED_ORDER),
    kernel_mutant("backward", BACKWARD, "for (int bits = 16; bits;", "for (int bits = 8; bits;", PLAIN),
    kernel_mutant("teams of warps", BACKWARD, "left.put<BLOCK>(p_tile, team_row, own);", "left.put<BLOCK>(p_tile, team_row, 0);", WIDE),
    kernel_mutant("teams of warps", BACKWARD, "left.put<BLOCK>(p_tile, team_row, own);", "", WIDE),
    kernel_mutant("teams of warps", BACKWARD, "(member() + i) % TEAM * SHARE", "member() * SHARE", WIDE),
    kernel_mutant("teams of warps", BACKWARD, "(dv, TileOperand<BLOCK>(p_tile", "(dv, TileOperand<BLOCK>(ds_tile", WIDE),
    kernel_mutant("teams of warps", BACKWARD, "q_tile + own * D, member() * WIDTH);", "q_tile + own * D);", WIDE),
    kernel_mutant("teams of warps", BACKWARD, "total[own + column_of(n, e)]", "total[column_of(n, e)]", WIDE),
    kernel_mutant("teams of warps", BACKWARD, "p_tile + (TEAM > 1 ? OWNED * BLOCK : 0)", "p_tile", WIDE),
    kernel_mutant("teams of warps", BACKWARD, "all_see(column, column + SHARE, row", "all_see(q0, q0 + SHARE, row", attention(HALF, (70, 70), window=60, width=128)),
    kernel_mutant("teams of warps", BACKWARD, "__syncthreads();  // dS of all warps is there", "if (sums) __syncthreads();", WIDE_FIXED_ORDER),
    kernel_mutant("teams of warps", BACKWARD, "if (TEAM == 1 && !sums) continue;", "if (!sums) continue;", WIDE_FIXED_ORDER),
    kernel_mutant("teams of warps", BACKWARD, "__syncthreads();  // all columns", "__syncwarp();  // all columns", WIDE_FIXED_ORDER),
    kernel_mutant("limits", FORWARD, "make_uint4(j / 16 * 8 + j % 8,", "make_uint4(j % 128 / 16 * 8 + j % 8,", LONG_DROPOUT),
    kernel_mutant("limits", FORWARD, "i / 16 * 8 + i % 8, head", "i % 256 / 16 * 8 + i % 8, head", LONG_DROPOUT),
    kernel_mutant("limits", FORWARD, "new_top = row_max(new_top);", "new_top = float(half(row_max(new_top)));", LARGE),
    kernel_mutant("limits", FORWARD, "new_top = row_max(new_top);", "new_top = float(half(row_max(new_top)));", LARGE_EXTRAS),
    kernel_mutant("limits", FORWARD, "sum[m][e / 2] += s[m][n][e] + s[m][n][e + 1];", "sum[m][e / 2] = float(half(sum[m][e / 2] + s[m][n][e] + s[m][n][e + 1]));", SUMS),
    kernel_mutant("limits", FORWARD, "(is_far(base) ? 0.0f : base) + log2f(sum)", "float(half((is_far(base) ? 0.0f : base) + log2f(sum)))", SUMS),
    kernel_mutant("limits", FORWARD, "source = matrix + (first + row) * stride", "source = matrix + (first + row) * int(stride)", FAR_APART),
    kernel_mutant("limits", FORWARD, "source = matrix + (first + row) * stride", "source = matrix + (first + row) * unsigned(stride)", FAR_APART),
    kernel_mutant("limits", FORWARD, "key += batch * key_batch + head * key_head;", "key += int(batch * key_batch) + head * key_head;", FAR_APART),
    kernel_mutant("limits", FORWARD, "return mask[i * mask_row + j * mask_column];", "return mask[int(i * mask_row + j * mask_column)];", FAR_APART_EXTRAS),
    kernel_mutant("limits", FORWARD, "bias + batch * bias_batch + head * bias_head", "bias + batch * bias_batch + head * int(bias_head)", FAR_APART_EXTRAS),
    kernel_mutant("limits", BACKWARD, "target = matrix + (first + row) * stride", "target = matrix + int((first + row) * stride)", FAR_APART),
    kernel_mutant("limits", BACKWARD, "head * g_head + i * g_row;", "head * g_head + int(i * g_row);", FAR_APART),
    kernel_mutant("limits", BACKWARD, "if (sums) sums += static_cast<long long>(batch * heads + head) *", "if (sums) sums += (batch * heads + head) *", FAR_HEADS),
    kernel_mutant("limits", BACKWARD, "static_cast<long long>(batch * gridDim.y + head)", "(batch * gridDim.y + head)", FAR_HEADS),
    kernel_mutant("of real kernels", BACKWARD, "pairs.first_key(q0) / BLOCK * BLOCK", "pairs.first_key(q0)", attention(HALF, (203, 203), window=30, dropout=0.3, deterministic=True)),
    kernel_mutant("PTX", FORWARD, "ldmatrix.sync.aligned.m8n8.x4.trans.shared", "ldmatrix.sync.aligned.m8n8.x4.shared", PLAIN),
    kernel_mutant("PTX", FORWARD, "ldmatrix.sync.aligned.m8n8.x4.shared", "ldmatrix.sync.aligned.m8n8.x4.trans.shared", PLAIN),
    kernel_mutant("PTX", FORWARD, "x4.shared.b16 {%0, %1, %2, %3}", "x4.shared.b16 {%0, %2, %1, %3}", PLAIN),
    kernel_mutant("PTX", FORWARD, "x4.trans.shared.b16 {%0, %1, %2, %3}", "x4.trans.shared.b16 {%1, %0, %2, %3}", PLAIN),
    kernel_mutant("PTX", FORWARD, "{%4, %5, %6, %7}", "{%4, %6, %5, %7}", PLAIN),
    kernel_mutant("PTX", FORWARD, '"r"(b0), "r"(b1)', '"r"(b1), "r"(b0)', PLAIN),
    kernel_mutant("PTX", FORWARD, '"+f"(accumulator[0])', '"=f"(accumulator[0])', PLAIN),
    kernel_mutant("PTX", FORWARD, '"+f"(accumulator[1]), "+f"(accumulator[2])', '"+f"(accumulator[2]), "+f"(accumulator[1])', PLAIN),
    kernel_mutant("PTX", FORWARD, "{%0, %1, %2, %3};", "{%1, %0, %2, %3};", PLAIN),
    kernel_mutant("PTX", FORWARD, "[%0], [%1], 16, %2", "[%0], [%1], 16, 16", BLOCKS),
    kernel_mutant("PTX", FORWARD, "[%0], [%1], 16, %2", "[%0], [%1], 16, 8", PLAIN),
    kernel_mutant("PTX", FORWARD, "cp.async.wait_group %0", "cp.async.wait_group 1", PLAIN),
    kernel_mutant("PTX", FORWARD, 'commit_group;\\n" ::: "memory"', 'commit_group;\\n"', PLAIN),
    kernel_mutant("PTX", FORWARD, "ex2.approx.ftz.f32 %0, %1;", "ex2.approx.ftz.f32 %0, %0;", PLAIN),
    kernel_mutant("limits", FORWARD, "(chunk ^ (AROUND<WIDTH> == 8 ? row & 7 : row >> 1 & 3)) * CHUNK", "chunk * CHUNK", BANKS),
    kernel_mutant("limits", BACKWARD, "row & 7 : row >> 1 & 3", "row & 7 : row & 3", BANKS),
    kernel_mutant("of real kernels", FORWARD, "float s[M_TILES][BLOCK_K / 8][4] = {};", "float s[M_TILES][BLOCK_K / 8][4];", PLAIN),
    kernel_mutant("of real kernels", FORWARD, "query += batch * query_batch + head * query_head;\n    key", "query += head * query_batch + batch * query_head;\n    key", PLAIN),
    kernel_mutant("of real kernels", FORWARD, ": keys, shift, nearest", ": keys, 0, nearest", CAUSAL),
    kernel_mutant("of real kernels", FORWARD, "lane_number() % 4 == 0 && i < queries", "lane_number() % 4 == 0", PLAIN),
    kernel_mutant("of real kernels", FORWARD, "(batch * heads + head) * queries + i] =", "(head * heads + batch) * queries + i] =", PLAIN),
    kernel_mutant("of real kernels", FORWARD, "exp2_approx(fmaf(old_top, c, -base));\n                old_top = new_top;", "1.0f;\n                old_top = new_top;", BLOCKS),
    kernel_mutant("of real kernels", FORWARD, "int(gridDim.x - 1 - blockIdx.x) * BLOCK_Q", "int(gridDim.x - blockIdx.x) * BLOCK_Q", PLAIN),
    kernel_mutant("of real kernels", FORWARD, "sum > 0.0f ? (EXTRAS ? factor : 1.0f) / sum : 0.0f", "(EXTRAS ? factor : 1.0f) / sum", NO_KEYS),
    kernel_mutant("of real kernels", FORWARD, "value, value_row, k0, pairs.keys, value_dim", "value, key_row, k0, pairs.keys, value_dim", attention(HALF, (40, 70), width=(24, 8))),
    kernel_mutant("of real kernels", FORWARD, "value, value_row, k0, pairs.keys, value_dim", "value, value_row, k0, pairs.keys, head_dim", attention(HALF, (40, 70), width=(64, 8))),
    kernel_mutant("of real kernels", FORWARD, "q0 + warp_row, queries, value_dim, aligned, q_tile", "q0 + warp_row, queries, head_dim, aligned, q_tile", attention(HALF, (40, 70), width=(24, 8))),
    kernel_mutant("of real kernels", FORWARD, "for (int r = row; r < ROWS; r += DOWN, source", "for (int r = row; r < ROWS - DOWN; r += DOWN, source", attention(HALF, (40, 70), width=(5, 7))),
    kernel_mutant("of real kernels", BACKWARD, "const float2* total = rows + stage * BLOCK;", "const float2* total = rows;", attention(HALF, (97, 113))),
    kernel_mutant("of real kernels", BACKWARD, "g += batch * g_batch + head * g_head + i * g_row;", "g += batch * g_batch + head * g_head + i * out_row;", PLAIN),
    kernel_mutant("of real kernels", BACKWARD, "row = warp_number() * (BLOCK / WARPS);", "row = 0;", PLAIN),
    kernel_mutant("of real kernels", BACKWARD, "own[i * THREADS] * scale,", "own[i * THREADS],", PLAIN),
    kernel_mutant("of real kernels", BACKWARD, "(queries + BLOCK - 1) / BLOCK * BLOCK) * D;", "queries) * D;", PLAIN),
    kernel_mutant("of real kernels", BACKWARD, "left.put<BLOCK>(ds_tile, team_row, own);", "left.put<BLOCK>(ds_tile, 0, own);", PLAIN),
    kernel_mutant("of real kernels", BACKWARD, "further<AW>(above, 2 * m) + 16 * k * AW", "further<AW>(above, 2 * m) + 16 * k * D", attention(HALF, (97, 113), width=64)),
    kernel_mutant("of real kernels", BACKWARD, "i / 16 * 8 + i % 8, head, call);", "i / 16 * 8 + i % 8, head, 0);", DROPOUT),
    kernel_mutant("of real kernels", BACKWARD, "unsigned(batch * heads + head)", "unsigned(head)", DROPOUT),
    kernel_mutant("of real kernels", BACKWARD, "q0 + i < queries ? delta[q0 + i] : 0.0f", "delta[q0 + i]", PLAIN),
    kernel_mutant("of real kernels", BACKWARD, "load_tile<OWNED>(v_tile, value, value_row, k0, pairs.keys, value_dim", "load_tile<OWNED>(v_tile, value, value_row, k0, keys, value_dim", PADDING),
]
