"""Bugs for the kernels, of the kinds that people make: for tests/support/kernel_mutants.py."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tests.support.attention_mutants import ATTENTION_MUTANTS
from tests.support.kernel_mutants import KernelMutant


def _tests(name: str) -> ModuleType:
    """A test module of the kernels, which is in no package."""
    path = Path(__file__).parents[1] / "autograd" / "kernels" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"kernel_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_fused, _update = _tests("test_fused"), _tests("test_update")


def _each(test: Any, *cases: tuple[Any, ...]) -> Any:
    """The test for several cases, as one check."""

    def check(device: Any) -> None:
        for case in cases:
            test(*case, device)

    return functools.wraps(test)(check)


norm = _each(_fused.test_layer_norm, ((7, 97), False, np.float32), ((300, 5), False, np.float16))
residual = _each(_fused.test_layer_norm, ((7, 97), True, np.float32), ((3, 257), "and past", np.float16))
drop = _each(_fused.test_dropout_and_its_sum_with_a_residual, (97, np.float32), (4099, np.float16))
long = _fused.test_dropout_of_more_elements_than_16_bits_count
forward = _each(
    _fused.test_bias_activation_and_dropout,
    *(((97, 13), name, np.float32) for name in ("relu", "gelu", "silu")),
    ((2, 400), "relu", np.float16),
)
loss = _each(_fused.test_cross_entropy, ((5, 97), 0.1, np.float32), ((4, 1013), 0.0, np.float16))
extremes = _fused.test_cross_entropy_of_far_apart_and_infinite_logits
rows = _each(_fused.test_embedding, (97, 11, 33, np.float32), (40, 500, 70, np.float16))
frequent = _fused.test_a_frequent_id_is_summed_with_the_others
outside = _fused.test_ids_and_targets_outside_give_nan_and_touch_nothing
columns = _fused.test_sums_of_columns
update = _each(_update.test_updates_are_those_of_the_optimiser_with_clipping, (97, np.float32), (5000, np.float16))
parts = _each(_update.test_parts_are_added_each_in_its_place, (np.float16,), (np.float32,))
overflow = _update.test_overflow_skips_the_step_and_moves_the_scale

# (file, the test that must notice, [(kind of bug, text, what it becomes)])
_BUGS: list[tuple[str, Any, list[tuple[str, str, str]]]] = [
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
        "columns.cu",
        columns,
        [
            ("missing barrier", "    __syncthreads();\n    if (threadIdx.y", "    if (threadIdx.y"),
            ("wrong bound", "for (int i = 1; i < 8; ++i)", "for (int i = 1; i < 7; ++i)"),
            ("wrong bound", "if (column >= width) return;", "if (column > width) return;"),
            ("lost chunk", "chunk < chunks; ++chunk", "chunk < chunks - 1; ++chunk"),
            ("no bound", "int high = min(low + rows_per_chunk, rows);", "int high = low + rows_per_chunk;"),
        ],
    ),
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
            ("lost rescale", "total = total * __expf(top - z) + 1.0f;", "total = total + 1.0f;"),
            ("lost rescale", "total * __expf(top - highest) : 0.0f", "total : 0.0f"),
            ("missing barrier", "    __syncthreads();  // the loss has read its logit\n", ""),
            ("padding counts", "row[i] = narrow(0.0f);", "row[i] = row[i];"),
            ("wrong smoothing", "(p - each - (i == own", "(p - (i == own"),
            ("wrong smoothing", "(1.0f - smoothing) * (highest - z)", "(highest - z)"),
            ("wrong sign", "= logf(total) +", "= -logf(total) +"),
        ],
    ),
    (
        "cross_entropy.cu",
        extremes,
        [
            ("inf - inf", "} else if (z > -infinity()) {", "} else {"),
        ],
    ),
    (
        "embedding.cu",
        rows,
        [
            ("counted twice", "(first > 0 && ids[order[first - 1]] == id)", "false"),
            ("wrong rank", "rank += tile[k] < own ||", "rank += tile[k] <= own ||"),
            ("lost tie", " || (tile[k] == own && start + k < place)", ""),
            ("missing barrier", "ids[start + threadIdx.x];\n        __syncthreads();", "ids[start + threadIdx.x];"),
            ("missing barrier", "place);\n        __syncthreads();", "place);"),
            ("no bound", "if (place < count) order[rank] = place;", "order[rank] = place;"),
            ("padding counts", "id == padding || ", ""),
            ("no bound", "while (inside + step < count && ", "while ("),
            ("wrong row", "g[size_t(order[place]) * width", "g[size_t(place) * width"),
            ("lost row", "return inside + 1;", "return inside;"),
            ("no bound", "if (column < width) sum +=", "sum +="),
        ],
    ),
    (
        "embedding.cu",
        frequent,
        [
            ("lost row", "place += 8)", "place += 9)"),
            ("lost row", "i < min(8, end - first)", "i < min(7, end - first)"),
            ("lost row", "inside += step, step *= 2;", "inside += 2 * step, step *= 2;"),
            (
                "missing barrier",
                "= sum;\n    __syncthreads();\n    if (threadIdx.y",
                "= sum;\n    if (threadIdx.y",
            ),
            ("uninitialised sum", "i < min(8, end - first)", "i <= min(8, end - first)"),
        ],
    ),
    (
        "embedding.cu",
        outside,
        [
            ("wrong bound", "bool inside = id >= 0 && id < rows;", "bool inside = id >= 0 && id <= rows;"),
            ("no bound", "if (id < 0 || id >= rows || id == padding", "if (id == padding"),
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

MUTANTS = [KernelMutant(kind, file, old, new, check) for file, check, bugs in _BUGS for kind, old, new in bugs]
MUTANTS += ATTENTION_MUTANTS
