"""Typical bugs of all kernels except the attention kernels, and KERNEL_MUTANTS, the table of all planted bugs."""

# ruff: noqa: E501  (one bug a line: its kind, what becomes what)

from typing import Any

import numpy as np

from tests.autograd.kernels import test_far_blocks as _far
from tests.autograd.kernels import test_fused as _fused
from tests.autograd.kernels import test_update as _update
from tests.support.attention_mutants import ATTENTION_MUTANTS
from tests.support.host_mutants import HOST_MUTANTS
from tests.support.mutants import each, kernel_mutant

HALF, SINGLE = np.float16, np.float32

# fmt: off
drop = each(_fused.test_dropout_and_its_sum_with_a_residual, (97, SINGLE), (4099, HALF))
forward = each(
    _fused.test_bias_activation_and_dropout,
    *(((97, 13), name, SINGLE) for name in ("relu", "gelu", "silu")), ((2, 400), "relu", HALF),
)
loss = each(_fused.test_cross_entropy, ((5, 97), 0.1, SINGLE), ((4, 1013), 0.0, HALF), ((3, 2056), 0.0, HALF))
total = each(_fused.test_the_total_loss_and_its_gradients_factor, (0, SINGLE), (33, HALF), (700, SINGLE))
extremes = _fused.test_cross_entropy_of_far_apart_and_infinite_logits
smoothed = each(_fused.test_a_common_offset_of_the_logits_does_not_change_the_smoothed_loss, (1e6,))
rows = each(_fused.test_embedding, *((*sizes, SINGLE) for sizes in ((97, 11, 33), (40, 500, 70), (130, 9, 264))))
order = each(_fused.test_ids_are_sorted_and_equal_ones_stay_in_order, (31, 300), (129, 255), (1000, 256), (700, 70000), (5000, 40))
frequent = _fused.test_a_frequent_id_is_summed_with_the_others
outside = _fused.test_ids_and_targets_outside_give_nan_and_touch_nothing
update = each(_update.test_updates_are_those_of_the_optimiser_with_clipping, (97, SINGLE), (5000, HALF))
parts = each(_update.test_parts_are_added_each_in_its_place, (HALF,), (SINGLE,))
overflow = _update.test_overflow_skips_the_step_and_moves_the_scale
norm = each(_fused.test_layer_norm, ((7, 97), False, SINGLE), ((300, 5), False, HALF))
warps = each(_fused.test_layer_norm, ((13, 264), False, SINGLE), ((150, 8), False, HALF), ((4, 1000), False, HALF))
residual_warps = each(_fused.test_layer_norm, ((13, 264), "and past", HALF), ((150, 8), True, SINGLE))
residual = each(_fused.test_layer_norm, ((7, 97), True, SINGLE), ((3, 257), "and past", HALF))
many = each(_fused.test_layer_norm_of_more_rows_than_are_taken_at_a_time, (8,))
far_from_zero = each(_fused.test_the_variance_of_rows_far_from_zero, (96,), (97,))
long = _fused.test_dropout_of_more_elements_than_16_bits_count
columns = _fused.test_sums_of_columns
far, far_id = each(_far.test_rows_far_down), each(_far.test_an_id_far_down_the_table)

# (file, test that must notice the bugs, [(kind of bug, old text, new text)])
_BUGS: list[tuple[str, Any, list[tuple[str, str, str]]]] = [
    ("dropout.cu", drop, [
        ("wrong half of a word", "i % 2 ? word", "i % 2 == 0 ? word"),
        ("off by one", "word[i / 2] & 0xffffu) >= threshold", "word[i / 2] & 0xffffu) > threshold + 100"),
        ("no tail", "if (start >= low && start + 8 <= n) {\n        eight", "if (start <= n) {\n        eight"),
        ("no tail", "if (start >= low && start + 8 <= n) {\n        *rein", "if (start <= n) {\n        *rein"),
    ]),
    ("dropout.cu", long, [
        ("limits", "key_of(seed), call, group)", "key_of(seed), call, group % 8192)"),
    ]),
    ("dropout.cu", forward, [
        ("wrong column", "value * keep_scale : 0.0f);\n        column = column + 1 == width ? 0 : column + 1;", "value * keep_scale : 0.0f);\n        column = column + 1;"),
        ("mask not replayed", "float change = keep[i] ? widen(gradient.value[i]) * keep_scale : 0.0f;", "float change = widen(gradient.value[i]) * keep_scale;"),
        ("wrong slope", "normcdff(x) + x * 0.3989422804f", "normcdff(x) + 0.3989422804f"),
        ("wrong slope", "s * (1.0f + x * (1.0f - s))", "s * (1.0f + x * s)"),
    ]),
    ("cross_entropy.cu", loss, [
        ("lost rescale", "total * __expf(top - highest) : 0.0f", "total : 0.0f"),
        ("missing barrier", "    __syncthreads();  // the loss has read its logit\n", ""),
        ("padding counts", "store_eight(nothing, logits, 8 * group, high, low);", ";"),
        ("wrong smoothing", "(p - each - (hit", "(p - (hit"),
        ("wrong smoothing", "(1.0f - smoothing) * (highest - z_own)", "(highest - z_own)"),
        ("wrong sign", "= logf(total) +", "= -logf(total) +"),
        ("lost head", "first = low / 8 + threadIdx.x;", "first = (low + 7) / 8 + threadIdx.x;"),
        ("lost tail", "bool inside = start + i >= low && start + i < high;", "bool inside = start + 8 <= high;"),
        ("a neighbour's logits", "if (8 * group + i >= low && 8 * group + i < high) sum +=", "sum +="),
        ("a neighbour's logits", "+ more : -infinity();", "+ more : 0.0f;"),
        ("misaligned", "&& (start - low) % 8 == 0;", ";"),
        ("wrong column", "if (bias && whole) load_eight(shift, bias, start - low", "if (bias && whole) load_eight(shift, bias, start"),
        ("written too far", "store_eight(gradient, logits, 8 * group, high, low);", "store_eight(gradient, logits, 8 * group, high);"),
        ("wrong hit", "8 * group + i == low + own;", "8 * group + i == own;"),
    ]),
    ("cross_entropy.cu", smoothed, [
        ("lost shift", "if (seen > 0.0f) sum -= seen * (top - before);", ""),
        ("lost shift", "sum - seen * (highest - top) : 0.0f", "sum : 0.0f"),
    ]),
    ("cross_entropy.cu", extremes, [
        ("lost rescale", "total *= __expf(before - top);", ""),
        ("inf - inf", "if (!(z[i] <= -infinity())) total", "total"),
        ("no number unseen", "if (!(z[i] <= -infinity())) total", "if (z[i] > -infinity()) total"),
    ]),
    ("cross_entropy.cu", total, [
        ("padding counts", "real += target[row] != ignored;", "real += 1;"),
        ("division by 0", "*count = fmaxf(number, 1.0f);", "*count = number;"),
        ("hidden 0 / 0", "sum / number : sum", "sum / fmaxf(number, 1.0f) : sum"),
        ("no bound", "if (8 * group + i < part.n) eight", "eight"),
        ("wrong part", "if (blockIdx.y == 2) scale_part({x2, y2, n2, wide2}", "if (blockIdx.y == 2) scale_part({x1, y1, n2, wide1}"),
        ("not divided", "*g / *count : *g", "*g : *g"),
    ]),
    ("cross_entropy.cu", outside, [
        ("no bound", "own >= 0 && own < classes", "own < classes"),
    ]),
    ("embedding.cu", rows, [
        ("lost tail", "start < width; start += 8 * blockDim.x", "start + 8 < width; start += 8 * blockDim.x"),
        ("misaligned", "    if (width % 8) {", "    if (width % 2 && width % 8) {"),
        ("no bound", "if (row >= rows) return;", ""),
        ("wrong place", "add_row(sum, g, order[place], column, width);\n#pragma", "add_row(sum, g, place, column, width);\n#pragma"),
        ("lost row", "place = low; place < high; ++place", "place = low + 1; place < high; ++place"),
        ("no bound", "if (column >= width) return;", ""),
        ("misaligned", "if (width % 8 == 0) {", "if (true) {"),
        ("lost probe", "low += (found - 1) * step + 1;", "low += found * step;"),
        ("lost probe", "size = min(step - 1, end - low);", "size = step - 2;"),
        ("unscaled", "narrow(scale * sum[i]);\n        return;", "narrow(sum[i]);\n        return;"),
    ]),
    ("embedding.cu", order, [
        ("unstable", "same & ((1u << lane) - 1)", "same & ~((2u << lane) - 1)"),
        ("lost digit", "bit < DIGITS; bit *= 2", "bit < DIGITS / 2; bit *= 2"),
        ("invalid lanes count", "unsigned same = __ballot_sync(0xffffffffu, valid);", "unsigned same = 0xffffffffu;"),
        ("padding counts", " || id == padding ? rows", " ? rows"),
        ("no bound", "id < 0 || id >= rows ||", "id >= rows ||"),
        ("wrong digit", "key >> 8 * pass &", "key >> 4 * pass &"),
        ("lost warp", "for (int i = 0; i < warp; ++i) before", "for (int i = 1; i < warp; ++i) before"),
        ("lost lane", "if (lane >= step) up_to += other;", "if (lane > step) up_to += other;"),
        ("wrong room", "(passes - 1 - pass) % 2 == 0", "pass % 2 == 0"),
        ("missing barrier", "    if (lane == 31) totals[warp] = up_to;\n    __syncthreads();", "    if (lane == 31) totals[warp] = up_to;"),
        ("missing barrier", "target = valid ? *own + before : 0;\n                __syncwarp();", "target = valid ? *own + before : 0;"),
        ("missing barrier", "            __syncthreads();\n            if (!placing)", "            if (!placing)"),
        ("counts left over", "counts[i] = 0;", "counts[i] = counts[i];"),
    ]),
    ("embedding.cu", frequent, [
        ("added twice", "if (high - low > PIECE) return;", ""),
        ("added twice", "(slot && low <= begin)) continue;", "false) continue;"),
        ("lost row", "place < min(high, end); place += 8", "place < min(high, end) - 1; place += 8"),
        ("lost row", "place = max(low, begin) + threadIdx.y", "place = begin + threadIdx.y"),
        ("lost warp", "add_warps(sum, 8, shared);", "add_warps(sum, 7, shared);"),
        ("lost piece", "add_warps(sum, min(pieces, 8), shared);", "add_warps(sum, 1, shared);"),
        ("lost piece", "(high - 1) / PIECE - first + 1;", "high / PIECE - first + 1;"),
        ("wrong slot", "(k == 0 && low % PIECE)", "(k == 0)"),
        ("one ticket for all", "is_last(tickets + first * gridDim.y", "is_last(tickets + 0 * gridDim.y"),
        ("sum not begun anew", "++i) sum[i] = 0.0f;\n        for (int k", "++i) sum[i] = sum[i];\n        for (int k"),
        ("missing barrier", "own[32 * i] = sum[i];\n    __syncthreads();", "own[32 * i] = sum[i];"),
        ("missing fence", "        __threadfence();\n        *last", "        *last"),
    ]),
    ("embedding.cu", outside, [
        ("wrong bound", "bool inside = id >= 0 && id < rows;", "bool inside = id >= 0 && id <= rows;"),
    ]),
    ("adam.cu", parts, [
        ("wrong part", "places + 2 * (first + blockIdx.y)", "places + 2 * blockIdx.y"),
        ("written, not added", "narrow(widen(own[i]) + widen(part[i]))", "part[i]"),
        ("wrong bound", "i < place[1]; i +=", "i <= place[1]; i +="),
        ("no part", "if (!part) return;", ""),
    ]),
    ("adam.cu", update, [
        ("wrong correction", "lr * root / (1.0f - powf(b1, t))", "lr * root"),
        ("wrong correction", "small = eps * root", "small = eps * root + 1e-3f"),
        ("wrong decay", "i < decayed ?", "i <= decayed ?"),
        ("scale not undone", "widen(g[i]) * multiplier;", "widen(g[i]);"),
        ("no clipping", "norm > max_norm ?", "norm < 0.0f ?"),
        ("wrong stride", "float value = widen(g[i]);\n        sum", "float value = widen(g[i / 2]);\n        sum"),
    ]),
    ("adam.cu", overflow, [
        ("skipped step counts", "        now.skipped += 1;", "        now.skipped += 1;\n        now.steps += 1;"),
        ("overflow unnoticed", "bool finite = sum < infinity();", "bool finite = !(sum == infinity());"),
        ("failure unnoticed", "now.failed += now.loss_scale <= least;", ""),
        ("failure too early", "now.failed += now.loss_scale <= least;", "now.failed += 1;"),
        ("scale below least", "fmaxf(now.loss_scale * 0.5f, least)", "now.loss_scale * 0.5f"),
        ("good steps not reset", "        now.good = 0;\n        now.loss_scale = fmaxf", "        now.loss_scale = fmaxf"),
    ]),
    ("normalization.cu", norm, [
        ("wrong statistic", "block_sum(squares, scratch) / width + eps", "block_sum(squares, scratch) / width"),
        ("wrong statistic", "/ width + eps", "/ (width - 1) + eps"),
        ("lost neighbours", "first = start / 8 + threadIdx.x;", "first = (start + 7) / 8 + threadIdx.x;"),
        ("wrong column", "size_t column = 8 * group + i - start;  //", "size_t column = 8 * threadIdx.x + i;  //"),
        ("scratch out of bounds", "scratch = shared + 2 * width;", "scratch = shared + 2 * width + 32;"),
        ("missing barrier", "if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;\n    __syncthreads();\n    float total", "if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;\n    float total"),
        ("lost warp", "for (int warp = 0; warp < warps; ++warp) total", "for (int warp = 1; warp < warps; ++warp) total"),
        ("lost term", " - first - x_hat * second", " - x_hat * second"),
        ("lost term", " - first - x_hat * second", " - first"),
        ("wrong stride", "row += gridDim.x", "row += gridDim.x + 1"),
        ("wrong sum", "weight_sum[i] += gradient * x_hat;", "weight_sum[i] += gradient;"),
        ("uninitialised sum", "weight_sum[i] = bias_sum[i] = 0.0f;", "weight_sum[i] = 0.0f;"),
    ]),
    ("normalization.cu", residual, [
        ("missing barrier", "total += scratch[warp];\n    __syncthreads();", "total += scratch[warp];"),
        ("wrong replay", "draw_eight(keep, seed, call, group, threshold);\n#endif", "draw_eight(keep, seed, call, group - start / 8, threshold);\n#endif"),
        ("wrong replay", "keep[i] ? own * keep_scale : 0.0f", "keep[i] ? own : 0.0f"),
        ("lost term", "if (past) own += widen(beside.value[i]);", ""),
        ("unrounded statistics", "sum += widen(own.value[i]);", "sum += widen(own.value[i]) + 0.01f;"),
        ("written too far", "if (start + i >= low && start + i < n) x", "if (start + i < n) x"),
    ]),
    ("normalization.cu", long, [
        ("limits", "draw_eight(keep, seed, call, group, threshold);\n#pragma", "draw_eight(keep, seed, call, group % 8192, threshold);\n#pragma"),
    ]),
    ("normalization_warps.cu", warps, [
        ("lost rows", "blockIdx.x * 4 + threadIdx.x / 32", "blockIdx.x * 3 + threadIdx.x / 32"),
        ("no bound", "    if (row >= rows) return;\n", ""),
        ("lost lane", "warp_sum(sum) / width", "(warp_sum(sum) - __shfl_sync(0xffffffffu, sum, 31)) / width"),
        ("lost step of a warp's sum", "for (int step = 16; step; step /= 2) x +=", "for (int step = 8; step; step /= 2) x +="),
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
    ]),
    ("normalization_warps.cu", many, [
        ("lost rows", "row += 8 * gridDim.x", "row += 9 * gridDim.x"),
    ]),
    ("normalization_warps.cu", residual_warps, [
        ("off by one", "draw_eight(keep, seed, call, first + place, threshold);", "draw_eight(keep, seed, call, first + place + 1, threshold);"),
        ("wrong replay", "draw_eight(keep, seed, call, start + place, threshold);", "draw_eight(keep, seed, call, place, threshold);"),
        ("wrong replay", "keep[i] ? own * keep_scale : 0.0f", "keep[i] ? own : 0.0f"),
        ("lost term", "if (past) own += widen(beside.value[i]);", ""),
        ("unrounded statistics", "sum += widen(own[k].value[i]);", "sum += widen(own[k].value[i]) + 0.01f;"),
        ("sum not stored", "        eight_of(z, first + place) = own[k];\n", ""),
    ]),
    ("normalization_warps.cu", long, [
        ("limits", "call, first + place, threshold", "call, (first + place) % 8192, threshold"),
    ]),
    ("columns.cu", columns, [
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
        ("missing fence", "        __threadfence();\n    }", "    }"),
        ("missing barrier", "    __syncthreads();\n    if (threadIdx.x == 0 && threadIdx.y == 0) {\n", "    if (threadIdx.x == 0 && threadIdx.y == 0) {\n"),
        ("a count of its own", "atomicInc(ticket, count - 1)", "(*ticket)++"),
    ]),
    ("cross_entropy.cu", far, [("limits", "low = size_t(blockIdx.x) * classes", "low = blockIdx.x * classes")]),
    ("normalization.cu", far, [("limits", "start = size_t(blockIdx.x) * width, end = start + width, first", "start = blockIdx.x * width, end = start + width, first")]),
    ("normalization_warps.cu", far, [("limits", "size_t first = size_t(row) * eights;\n    Eight own[EIGHTS];\n    float sum", "size_t first = row * eights;\n    Eight own[EIGHTS];\n    float sum")]),
    ("dropout.cu", far, [("limits", "threadIdx.x, start = group * 8;\n    if (start >= n) return;\n    bool keep[8];\n    draw_eight(keep, seed, call, group, threshold);\n    Eight eight;\n    load_eight(eight, x, start, n);\n#if RESIDUAL", "threadIdx.x, start = unsigned(group * 8);\n    if (start >= n) return;\n    bool keep[8];\n    draw_eight(keep, seed, call, group, threshold);\n    Eight eight;\n    load_eight(eight, x, start, n);\n#if RESIDUAL")]),
    ("embedding.cu", far, [("limits", "own = y + size_t(blockIdx.x) * width", "own = y + blockIdx.x * width")]),
    ("embedding.cu", far_id, [("limits", "(inside ? size_t(id) * width : 0);\n    scalar* own", "(inside ? int(id) * width : 0);\n    scalar* own")]),
    ("normalization.cu", far_from_zero, [("cancellation", "squares += centred * centred;", "squares += (centred + middle) * (centred + middle) - middle * middle;")]),
    ("normalization_warps.cu", far_from_zero, [("cancellation", "squares += centred * centred;", "squares += (centred + middle) * (centred + middle) - middle * middle;")]),
    ("columns.cu", columns, [("a stale read", "__ldcg(partial + size_t(chunk) * width + column + i)", "partial[size_t(chunk) * width + column + i]")]),
    ("normalization_warps.cu", warps, [("a stale read", "__ldcg(partial + size_t(row) * SUMMED * width + i)", "partial[size_t(row) * SUMMED * width + i]")]),
]
# fmt: on

KERNEL_MUTANTS = [kernel_mutant(kind, file, old, new, check) for file, check, bugs in _BUGS for kind, old, new in bugs]
KERNEL_MUTANTS += ATTENTION_MUTANTS + HOST_MUTANTS
