"""Bugs for the kernels, of the kinds that people make: for tests/support/kernel_mutants.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.attention_mutants import ATTENTION_MUTANTS
from tests.support.kernel_mutants import KernelMutant, each, tests_of
from tests.support.row_mutants import ROW_BUGS, long

_fused, _update = tests_of("test_fused"), tests_of("test_update")


drop = each(_fused.test_dropout_and_its_sum_with_a_residual, (97, np.float32), (4099, np.float16))
forward = each(
    _fused.test_bias_activation_and_dropout,
    *(((97, 13), name, np.float32) for name in ("relu", "gelu", "silu")),
    ((2, 400), "relu", np.float16),
)
loss = each(
    _fused.test_cross_entropy, ((5, 97), 0.1, np.float32), ((4, 1013), 0.0, np.float16), ((3, 2056), 0.0, np.float16)
)
total = each(_fused.test_the_total_loss_and_its_gradients_factor, (0, np.float32), (33, np.float16), (700, np.float32))
extremes = _fused.test_cross_entropy_of_far_apart_and_infinite_logits
rows = each(_fused.test_embedding, *((*sizes, np.float32) for sizes in ((97, 11, 33), (40, 500, 70), (130, 9, 264))))
order = each(
    _fused.test_ids_are_sorted_and_equal_ones_stay_in_order,
    (31, 300),
    (129, 255),
    (1000, 256),
    (700, 70000),
    (5000, 40),
)
frequent = _fused.test_a_frequent_id_is_summed_with_the_others
outside = _fused.test_ids_and_targets_outside_give_nan_and_touch_nothing
update = each(_update.test_updates_are_those_of_the_optimiser_with_clipping, (97, np.float32), (5000, np.float16))
parts = each(_update.test_parts_are_added_each_in_its_place, (np.float16,), (np.float32,))
overflow = _update.test_overflow_skips_the_step_and_moves_the_scale

# (file, the test that must notice, [(kind of bug, text, what it becomes)])
_BUGS: list[tuple[str, Any, list[tuple[str, str, str]]]] = [
    (
        "dropout.cu",
        drop,
        [
            ("wrong half of a word", "i % 2 ? word", "i % 2 == 0 ? word"),
            ("off by one", "word[i / 2] & 0xffffu) >= threshold", "word[i / 2] & 0xffffu) > threshold + 100"),
            ("no tail", "if (start >= low && start + 8 <= n) {\n        eight", "if (start <= n) {\n        eight"),
            ("no tail", "if (start >= low && start + 8 <= n) {\n        *rein", "if (start <= n) {\n        *rein"),
        ],
    ),
    ("dropout.cu", long, [("limits", "key_of(seed), call, group)", "key_of(seed), call, group % 8192)")]),
    (
        "dropout.cu",
        forward,
        [
            (
                "wrong column",
                "value * keep_scale : 0.0f);\n        column = column + 1 == width ? 0 : column + 1;",
                "value * keep_scale : 0.0f);\n        column = column + 1;",
            ),
            (
                "mask not replayed",
                "float change = keep[i] ? widen(gradient.value[i]) * keep_scale : 0.0f;",
                "float change = widen(gradient.value[i]) * keep_scale;",
            ),
            ("wrong slope", "normcdff(x) + x * 0.3989422804f", "normcdff(x) + 0.3989422804f"),
            ("wrong slope", "s * (1.0f + x * (1.0f - s))", "s * (1.0f + x * s)"),
        ],
    ),
    (
        "cross_entropy.cu",
        loss,
        [
            ("lost rescale", "total * __expf(top - highest) : 0.0f", "total : 0.0f"),
            ("missing barrier", "    __syncthreads();  // the loss has read its logit\n", ""),
            ("padding counts", "store_eight(nothing, logits, 8 * group, high, low);", ";"),
            ("wrong smoothing", "(p - each - (hit", "(p - (hit"),
            ("wrong smoothing", "(1.0f - smoothing) * (highest - z_own)", "(highest - z_own)"),
            ("wrong sign", "= logf(total) +", "= -logf(total) +"),
            ("lost head", "first = low / 8 + threadIdx.x;", "first = (low + 7) / 8 + threadIdx.x;"),
            ("lost tail", "bool inside = start + i >= low && start + i < high;", "bool inside = start + 8 <= high;"),
            (
                "a neighbour's logits",
                "if (8 * group + i >= low && 8 * group + i < high) sum += z[i];",
                "if (z[i] > -infinity()) sum += z[i] + 1.0f;",
            ),
            ("a neighbour's logits", "+ more : -infinity();", "+ more : 0.0f;"),
            ("misaligned", "&& (start - low) % 8 == 0;", ";"),
            (
                "wrong column",
                "if (bias && whole) load_eight(shift, bias, start - low",
                "if (bias && whole) load_eight(shift, bias, start",
            ),
            (
                "written too far",
                "store_eight(gradient, logits, 8 * group, high, low);",
                "store_eight(gradient, logits, 8 * group, high);",
            ),
            ("wrong hit", "8 * group + i == low + own;", "8 * group + i == own;"),
        ],
    ),
    (
        "cross_entropy.cu",
        extremes,
        [
            ("lost rescale", "if (top > before) total *= __expf(before - top);", ""),
            ("inf - inf", "if (!(z[i] <= -infinity())) total", "total"),
            ("no number unseen", "if (!(z[i] <= -infinity())) total", "if (z[i] > -infinity()) total"),
        ],
    ),
    (
        "cross_entropy.cu",
        total,
        [
            ("padding counts", "real += target[row] != ignored;", "real += 1;"),
            ("division by 0", "*count = fmaxf(number, 1.0f);", "*count = number;"),
            ("hidden 0 / 0", "sum / number : sum", "sum / fmaxf(number, 1.0f) : sum"),
            ("no bound", "if (8 * group + i < part.n) eight", "eight"),
            (
                "wrong part",
                "if (blockIdx.y == 2) scale_part({x2, y2, n2, wide2}",
                "if (blockIdx.y == 2) scale_part({x1, y1, n2, wide1}",
            ),
            ("not divided", "*g / *count : *g", "*g : *g"),
        ],
    ),
    (
        "embedding.cu",
        rows,
        [
            ("lost tail", "start < width; start += 8 * blockDim.x", "start + 8 < width; start += 8 * blockDim.x"),
            ("misaligned", "    if (width % 8) {", "    if (width % 2 && width % 8) {"),
            ("no bound", "if (row >= rows) return;", ""),
            (
                "wrong place",
                "add_row(sum, g, order[place], column, width);\n#pragma",
                "add_row(sum, g, place, column, width);\n#pragma",
            ),
            ("lost row", "place = low; place < high; ++place", "place = low + 1; place < high; ++place"),
            ("no bound", "if (column >= width) return;", ""),
            ("misaligned", "if (width % 8 == 0) {", "if (true) {"),
            ("lost probe", "low += (found - 1) * step + 1;", "low += found * step;"),
            ("lost probe", "size = min(step - 1, end - low);", "size = step - 2;"),
            ("unscaled", "narrow(scale * sum[i]);\n        return;", "narrow(sum[i]);\n        return;"),
        ],
    ),
    (
        "embedding.cu",
        order,
        [
            ("unstable", "same & ((1u << lane) - 1)", "same & ~((2u << lane) - 1)"),
            ("lost digit", "bit < DIGITS; bit *= 2", "bit < DIGITS / 2; bit *= 2"),
            (
                "invalid lanes count",
                "unsigned same = __ballot_sync(0xffffffffu, valid);",
                "unsigned same = 0xffffffffu;",
            ),
            ("padding counts", " || id == padding ? rows", " ? rows"),
            ("no bound", "id < 0 || id >= rows ||", "id >= rows ||"),
            ("wrong digit", "key >> 8 * pass &", "key >> 4 * pass &"),
            ("lost warp", "for (int i = 0; i < warp; ++i) before", "for (int i = 1; i < warp; ++i) before"),
            ("lost lane", "if (lane >= step) up_to += other;", "if (lane > step) up_to += other;"),
            ("wrong room", "(passes - 1 - pass) % 2 == 0", "pass % 2 == 0"),
            (
                "missing barrier",
                "    if (lane == 31) totals[warp] = up_to;\n    __syncthreads();",
                "    if (lane == 31) totals[warp] = up_to;",
            ),
            (
                "missing barrier",
                "target = valid ? *own + before : 0;\n                __syncwarp();",
                "target = valid ? *own + before : 0;",
            ),
            ("missing barrier", "            __syncthreads();\n            if (!placing)", "            if (!placing)"),
            ("counts left over", "counts[i] = 0;", "counts[i] = counts[i];"),
        ],
    ),
    (
        "embedding.cu",
        frequent,
        [
            ("added twice", "if (high - low > PIECE) return;", ""),
            ("added twice", "(slot && low <= begin)) continue;", "false) continue;"),
            ("lost row", "place < min(high, end); place += 8", "place < min(high, end) - 1; place += 8"),
            ("lost row", "place = max(low, begin) + threadIdx.y", "place = begin + threadIdx.y"),
            ("lost warp", "add_warps(sum, 8, shared);", "add_warps(sum, 7, shared);"),
            ("lost piece", "add_warps(sum, min(pieces, 8), shared);", "add_warps(sum, 1, shared);"),
            ("lost piece", "(high - 1) / PIECE - first + 1;", "high / PIECE - first + 1;"),
            ("wrong slot", "(k == 0 && low % PIECE)", "(k == 0)"),
            ("one ticket for all", "is_last(tickets + first * gridDim.y", "is_last(tickets + 0 * gridDim.y"),
            (
                "sum not begun anew",
                "++i) sum[i] = 0.0f;\n        for (int k",
                "++i) sum[i] = sum[i];\n        for (int k",
            ),
            ("missing barrier", "own[32 * i] = sum[i];\n    __syncthreads();", "own[32 * i] = sum[i];"),
            ("missing fence", "        __threadfence();\n        *last", "        *last"),
        ],
    ),
    (
        "embedding.cu",
        outside,
        [
            ("wrong bound", "bool inside = id >= 0 && id < rows;", "bool inside = id >= 0 && id <= rows;"),
        ],
    ),
    ("cross_entropy.cu", outside, [("no bound", "own >= 0 && own < classes", "own < classes")]),
    (
        "adam.cu",
        parts,
        [
            ("wrong part", "places + 2 * (first + blockIdx.y)", "places + 2 * blockIdx.y"),
            ("written, not added", "narrow(widen(own[i]) + widen(part[i]))", "part[i]"),
            ("wrong bound", "i < place[1]; i +=", "i <= place[1]; i +="),
            ("no part", "if (!part) return;", ""),
        ],
    ),
    (
        "adam.cu",
        update,
        [
            ("wrong correction", "lr * root / (1.0f - powf(b1, t))", "lr * root"),
            ("wrong correction", "small = eps * root", "small = eps * root + 1e-3f"),
            ("wrong decay", "i < decayed ?", "i <= decayed ?"),
            ("scale not undone", "widen(g[i]) * multiplier;", "widen(g[i]);"),
            ("no clipping", "norm > max_norm ?", "norm < 0.0f ?"),
        ],
    ),
    (
        "adam.cu",
        overflow,
        [
            ("skipped step counts", "        now.skipped += 1;", "        now.skipped += 1;\n        now.steps += 1;"),
            ("overflow unnoticed", "bool finite = sum < infinity();", "bool finite = !(sum == infinity());"),
            ("failure unnoticed", "now.failed += now.loss_scale <= least;", ""),
            ("failure too early", "now.failed += now.loss_scale <= least;", "now.failed += 1;"),
            ("scale below least", "fmaxf(now.loss_scale * 0.5f, least)", "now.loss_scale * 0.5f"),
            (
                "good steps not reset",
                "        now.good = 0;\n        now.loss_scale = fmaxf",
                "        now.loss_scale = fmaxf",
            ),
        ],
    ),
    (
        "adam.cu",
        update,
        [
            ("wrong stride", "float value = widen(g[i]);\n        sum", "float value = widen(g[i / 2]);\n        sum"),
        ],
    ),
]

MUTANTS = [
    KernelMutant(kind, file, old, new, check) for file, check, bugs in [*_BUGS, *ROW_BUGS] for kind, old, new in bugs
]
MUTANTS += ATTENTION_MUTANTS
