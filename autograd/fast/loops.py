"""The steps between the matrix products of a training step, each as a loop that Numba compiles.

Arrays are float32 and contiguous. A loop with the arguments `start` and `stop` computes these rows, so that several
threads can share an array; `nogil` releases Python's lock. A mask or a bias that is None takes no time, because Numba
compiles a version for each combination of types. `fused` loops can add in another order and round x * y + z only once,
which allows vector instructions. Their results differ from NumPy's in the last bits. `exact` loops give the same bits
as NumPy.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

try:
    import numba

    njit: Any = numba.njit
except ModuleNotFoundError:  # this module can be imported and read, and no implementation calls it
    njit = None

_F = np.float32
_ZERO, _HALF, _ONE = _F(0), _F(0.5), _F(1)


def _compiled(**options: Any) -> Callable[[Any], Any]:
    def compile_later(function: Any) -> Any:
        if njit is None:
            return function
        try:
            return njit(nogil=True, error_model="numpy", cache=True, **options)(function)
        except RuntimeError:  # no folder can be written: compiled anew in each process
            return njit(nogil=True, error_model="numpy", **options)(function)

    return compile_later


exact = _compiled()
fused = _compiled(fastmath={"contract", "reassoc", "nsz"})  # NaN and infinity keep their meaning
#: Options of loops that other loops call. If they were not inlined, they would be linked to any loaded version: the one
#: compiled in this process or the one optimised within a cached caller, whose last bits differ.
inlined = _compiled(fastmath={"contract", "reassoc", "nsz"}, forceinline=True)


# -- the exponential ---------------------------------------------------------------------------------------------------

#: e^x is 2^n e^r with r = x - n log 2, |r| <= log(2) / 2. log 2 is split into two parts: n times the first is exact.
_LOG2_E, _LOG2_HIGH, _LOG2_LOW = _F(1.44269504), _F(0.693359375), _F(-2.12194440e-4)
_LOWEST = _F(-87.3)  # below it e^x is less than the smallest normal float32, and taken for 0


@inlined
def exponential(x):
    """Compute e^x for x <= 0, by Taylor's polynomial of degree 7 (relative error 2e-7). NaN stays NaN. The function has
    no branches or calls, so the compiler can vectorise the loops that use it, unlike loops that call math.exp.
    """
    y = _LOWEST if x < _LOWEST else x
    n = np.floor(y * _LOG2_E + _F(0.5))
    r = y - n * _LOG2_HIGH - n * _LOG2_LOW
    p = _F(1 / 5040)
    p = p * r + _F(1 / 720)
    p = p * r + _F(1 / 120)
    p = p * r + _F(1 / 24)
    p = p * r + _F(1 / 6)
    p = p * r + _F(1 / 2)
    p = p * r + _ONE
    p = p * r + _ONE
    power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)  # the bits of 2^n
    return _ZERO if x < _LOWEST else p * power


_ROWS = 16  # rows that are added one after another: the rounding error grows with their number


@fused
def erf(x, out, series, tail, scale, shift, start, stop):
    """Compute the error function of elements of a flat array by the series of `ops/erf.py`, which are tuples."""
    for i in range(start, stop):
        size = abs(x[i])
        near, far = (size, _ONE) if size < _ONE else (_ONE, _F(6) if size > _F(6) else size)  # NaN is far
        square, w = near * near, (far - _F(3)) / (far + _F(3)) * scale + shift
        inner, outer = series[0], tail[0]
        for k in range(1, len(series)):
            inner = inner * square + series[k]
        for k in range(1, len(tail)):
            outer = outer * w + tail[k]
        y = inner * near if size < _ONE else _ONE - exponential(-far * far) * outer
        out[i] = math.copysign(y, x[i])


# -- layer norm --------------------------------------------------------------------------------------------------------


@fused
def normalize(x, residual, mask, scale, weight, bias, eps, total, x_hat, rstd, out, start, stop):
    """Write residual + x * mask * scale into `total`, its layer norm into `out`, and also `x_hat` and `rstd`.
    `residual`, `mask` and `total` can be None.
    """
    features = x.shape[1]
    share = _ONE / _F(features)
    for i in range(start, stop):
        row_sum = _ZERO
        for j in range(features):
            t = x[i, j]
            if mask is not None:
                t = t * _F(mask[i, j]) * scale
            if residual is not None:
                t += residual[i, j]
            if total is not None:
                total[i, j] = t
            x_hat[i, j] = t
            row_sum += t
        mean, squares = row_sum * share, _ZERO
        for j in range(features):
            t = x_hat[i, j] - mean
            squares += t * t
        r = _ONE / np.sqrt(squares * share + eps)
        rstd[i, 0] = r
        for j in range(features):
            t = (x_hat[i, j] - mean) * r
            x_hat[i, j] = t
            out[i, j] = t * weight[j] + bias[j]


@fused
def normalize_backward(g, x_hat, rstd, weight, past, mask, scale, d_total, dx, dw, db, start, stop):
    """Compute the gradients of `normalize`; add the gradients of weight and bias to `dw` and `db`.

    With h = g weight, d_total = rstd (h - mean(h) - x_hat mean(h x_hat)) + past and dx = d_total * mask * scale. `past`
    and `mask` can be None. If `mask` is None, `dx` can be None too.
    """
    features = g.shape[1]
    share = _ONE / _F(features)
    block = np.zeros((2, features), np.float32)
    for i in range(start, stop):
        mean_h, mean_hx = _ZERO, _ZERO
        for j in range(features):
            h = g[i, j] * weight[j]
            mean_h += h
            mean_hx += h * x_hat[i, j]
        mean_h *= share
        mean_hx *= share
        r = rstd[i, 0]
        for j in range(features):
            block[0, j] += g[i, j] * x_hat[i, j]
            block[1, j] += g[i, j]
            t = (g[i, j] * weight[j] - mean_h - x_hat[i, j] * mean_hx) * r
            if past is not None:
                t += past[i, j]
            d_total[i, j] = t
            if mask is not None:
                dx[i, j] = t * _F(mask[i, j]) * scale
        if (i - start) % _ROWS == _ROWS - 1 or i == stop - 1:
            for j in range(features):
                dw[j] += block[0, j]
                db[j] += block[1, j]
            block[:] = _ZERO


# -- softmax with cross-entropy ----------------------------------------------------------------------------------------

LANES = 64  # running maxima side by side: as many numbers as a few vector registers hold
_SUMMED = 512  # numbers of a row in a float32 sum; these sums are added in float64


@inlined
def largest(row, lanes):
    """Return the maximum of a row. `lanes` (LANES,) is scratch memory."""
    lanes[:] = _F(-np.inf)
    whole = row.size // LANES
    blocks = row[: whole * LANES].reshape(whole, LANES)
    for i in range(whole):
        for lane in range(LANES):
            lanes[lane] = blocks[i, lane] if blocks[i, lane] > lanes[lane] else lanes[lane]
    top = lanes.max()
    for t in row[whole * LANES :]:
        top = t if t > top else top
    return top


@inlined
def exponentials(row, top):
    """Replace a row by e^(row - top). Return the sum of the exponentials and the sum of row - top."""
    total, shifted = _ZERO, _ZERO
    for j in range(row.size):
        t = row[j] - top
        e = exponential(t)
        row[j] = e
        total += e
        shifted += t
    return total, shifted


@inlined
def sum_of_exponentials(row, top):
    """Compute the sum of e^(row - top)."""
    total = 0.0
    for first in range(0, row.size, _SUMMED):
        numbers, part = row[first : first + _SUMMED], _ZERO
        for j in range(numbers.size):
            part += exponential(numbers[j] - top)
        total += float(part)
    return _F(total)


@fused
def log_sum_exp(flat, stride, columns, out, start, stop):
    """Compute log sum exp of rows. Each row has `columns` numbers, and successive rows begin `stride` numbers apart.
    The result is not finite for a row that contains infinity or NaN.
    """
    lanes = np.empty(LANES, np.float32)
    for i in range(start, stop):
        row = flat[i * stride : i * stride + columns]
        top = largest(row, lanes)
        out[i] = top + np.log(sum_of_exponentials(row, top))


@exact
def largest_numbers(flat, stride, columns, values, ids, start, stop):
    """Write the k largest numbers of rows (see log_sum_exp) and their columns into `values` and `ids` (rows, k).

    The largest number comes first; equal numbers are in the order of their columns. The first value is NaN if the row
    contains NaN. k is at most `columns`.
    """
    for i in range(start, stop):
        row, best, where = flat[i * stride : i * stride + columns], values[i], ids[i]
        best[:] = _F(-np.inf)
        for first in range(0, columns, LANES):
            some = row[first : first + LANES]
            if first < best.size or some.size < LANES or not _all_below(some, best[-1]):
                for j in range(some.size):
                    if first + j < best.size or not some[j] <= best[-1]:
                        _insert(some[j], first + j, best, where)


@exact
def _all_below(some, least):
    """Return whether each of LANES numbers is at most `least`. A loop with an early exit would not be vectorised."""
    below = np.int32(0)
    for j in range(LANES):
        below += np.int32(some[j] <= least)
    return below == LANES


@exact
def _insert(number, column, best, where):
    """Insert the number of a column into `best`, the largest numbers in order. A NaN stays in the first place."""
    if number != number:
        best[0] = number
    elif best[0] == best[0]:
        place = min(column, best.size - 1)
        while place > 0 and best[place - 1] < number:
            best[place], where[place] = best[place - 1], where[place - 1]
            place -= 1
        best[place], where[place] = number, column


@fused
def cross_entropy(z, bias, target, own, each, total_each, count, losses, factor, start, stop):
    """Compute the losses of logits z. Replace z by F, and write k / l / count into `factor`. See
    LinearCrossEntropyOnCPU.

    `bias` can be None. `factor` can be None if only the loss is needed. Class weights are not supported: `each` is s /
    V.
    """
    classes = z.shape[1]
    lanes = np.empty(LANES, np.float32)
    for i in range(start, stop):
        row = z[i]
        if bias is not None:
            for j in range(classes):
                row[j] += bias[j]
        top = largest(row, lanes)
        centred = row[target[i]] - top
        whole, whole_shifted = 0.0, 0.0
        for first in range(0, classes, _SUMMED):
            part, part_shifted = exponentials(row[first : first + _SUMMED], top)
            whole += part
            whole_shifted += part_shifted
        total, shifted = _F(whole), _F(whole_shifted)
        a = own[i]
        k = a + total_each
        losses[i] = -a * centred + k * np.log(total)
        if each != _ZERO:
            losses[i] -= each * shifted
        if factor is not None:
            scale = total / (_ONE if k == _ZERO else k)
            if each != _ZERO:
                for j in range(classes):
                    row[j] -= scale * each
            row[target[i]] -= scale * a
            factor[i, 0] = k / total / count


# -- attention's weights -----------------------------------------------------------------------------------------------


@fused
def attention_weights(scores, scale, factor, mask, dropped):
    """Replace scores (batch, keys, columns) by softmax(scale * scores) over axis 1, times `factor`.
    With a mask, also write the weights times the mask into `dropped`.

    The weights of a column in which all scores are -inf are 0. `mask` and `dropped` can both be None.
    """
    batch, keys, columns = scores.shape
    top = np.empty(columns, np.float32)
    part, total = np.empty(columns, np.float32), np.empty(columns, np.float32)
    for i in range(batch):
        top[:] = _F(-np.inf)
        part[:] = _ZERO
        total[:] = _ZERO
        for k in range(keys):
            for c in range(columns):
                t = scores[i, k, c] * scale
                top[c] = t if t > top[c] else top[c]
        for c in range(columns):
            top[c] = _ZERO if top[c] == _F(-np.inf) else top[c]
        for k in range(keys):
            for c in range(columns):
                e = exponential(scores[i, k, c] * scale - top[c])
                scores[i, k, c] = e
                part[c] += e
            if k % _SUMMED == _SUMMED - 1 or k == keys - 1:
                for c in range(columns):
                    total[c] += part[c]
                    part[c] = _ZERO
        for c in range(columns):
            total[c] = factor / (_ONE if total[c] == _ZERO else total[c])
        for k in range(keys):
            for c in range(columns):
                w = scores[i, k, c] * total[c]
                scores[i, k, c] = w
                if mask is not None:
                    dropped[i, k, c] = w * _F(mask[i, k, c])


@fused
def attention_backward(d_scores, weights, mask, dots, scale, unscaled):
    """Overwrite d_scores = G V^T, of shape (batch, keys, columns), with weights * (d_scores * mask - dots) * scale.

    `dots` is (batch, columns). If `unscaled` is an array, also write the result without the factor `scale` into it. The
    mask may be None.
    """
    batch, keys, columns = d_scores.shape
    for i in range(batch):
        for k in range(keys):
            for c in range(columns):
                t = d_scores[i, k, c]
                if mask is not None:
                    t *= _F(mask[i, k, c])
                t = (t - dots[i, c]) * weights[i, k, c]
                if unscaled is not None:
                    unscaled[i, k, c] = t
                d_scores[i, k, c] = t * scale


# -- LSTM --------------------------------------------------------------------------------------------------------------


@fused
def lstm_scale(a, bias, x, t):
    """Add the bias and x[:, t] to a = W h (rows, 4 features), and halve all but g: s(y) = tanh(y / 2) / 2 + 1 / 2."""
    features = a.shape[1] // 4
    for row in range(len(a)):
        for j in range(a.shape[1]):
            a[row, j] = (a[row, j] + bias[j] + x[row, t, j]) * (_ONE if 2 * features <= j < 3 * features else _HALF)


@fused
def lstm(gates, c, c_next):
    """Make i, f, g and o of the tanh of `lstm_scale`, in place, and c_next = f c + i g."""
    features = c.shape[1]
    for row in range(len(c)):
        i, f, g, o = gates[row].reshape(4, features)
        for j in range(features):
            i[j] = i[j] * _HALF + _HALF
            f[j] = f[j] * _HALF + _HALF
            o[j] = o[j] * _HALF + _HALF
            c_next[row, j] = f[j] * c[row, j] + i[j] * g[j]


@fused
def lstm_backward(d, t, dh, dc, gates, c, tanh_c, before):
    """Compute the gradients d[:, t] of the arguments of the gates, and `before` of c, from those of the next state."""
    features = c.shape[1]
    for row in range(len(c)):
        i, f, g, o = gates[row].reshape(4, features)
        d_i, d_f, d_g, d_o = d[row, t].reshape(4, features)
        for j in range(features):
            y = tanh_c[row, j]
            whole = dc[row, j] + dh[row, j] * o[j] * (_ONE - y) * (_ONE + y)
            d_i[j] = whole * g[j] * i[j] * (_ONE - i[j])
            d_f[j] = whole * c[row, j] * f[j] * (_ONE - f[j])
            d_g[j] = whole * i[j] * (_ONE - g[j]) * (_ONE + g[j])
            d_o[j] = dh[row, j] * y * o[j] * (_ONE - o[j])
            before[row, j] = whole * f[j]


# -- ReLU and dropout --------------------------------------------------------------------------------------------------


@exact
def relu_dropout(y, bias, mask, scale):
    """Compute y = relu(y + bias) * mask * scale in place, for y (rows, features). `bias` and `mask` may be None."""
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            t = y[i, j]
            if bias is not None:
                t += bias[j]
            t = _ZERO if t < _ZERO else t
            if mask is not None:
                t = t * _F(mask[i, j]) * scale
            y[i, j] = t


@exact
def relu_backward(g, out, scale, d):
    """Compute d = g * scale where `out` is above 0 or NaN, else 0."""
    for i in range(g.shape[0]):
        for j in range(g.shape[1]):
            d[i, j] = _ZERO if out[i, j] <= _ZERO else g[i, j] * scale


# -- Adam --------------------------------------------------------------------------------------------------------------


@exact
def adam(w, g, m, v, b1, c1, b2, c2, eps, rate, keep):
    """Apply one step of Adam to flat arrays; see the optimizer `Adam`. c1 = 1 - b1 and c2 = 1 - b2. `eps` and `rate`
    include the bias corrections, and `w` is multiplied by `keep` for the weight decay.
    """
    for i in range(w.size):
        m[i] = m[i] * b1 + g[i] * c1
        v[i] = v[i] * b2 + g[i] * g[i] * c2
        w[i] = w[i] * keep - m[i] / (np.sqrt(v[i]) + eps) * rate


@exact
def adam_rows(w, ids, rows, m, v, b1, c1, b2, c2, eps, rate, keep):
    """Apply one step of Adam to a table in which only the rows `ids`, sorted, have a gradient, `rows`. See `adam`."""
    nearest = 0
    for i in range(w.shape[0]):
        used = nearest < ids.size and ids[nearest] == i
        for j in range(w.shape[1]):
            m[i, j] *= b1
            v[i, j] *= b2
            if used:
                g = rows[nearest, j]
                m[i, j] += g * c1
                v[i, j] += g * g * c2
            w[i, j] = w[i, j] * keep - m[i, j] / (np.sqrt(v[i, j]) + eps) * rate
        nearest += used
