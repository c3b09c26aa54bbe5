"""For all float16 numbers, up to 65,504, every op gives the rounded float32 result of the same numbers.

If the float32 result fits into float16, no intermediate result may be NaN or infinite or warn of an overflow. For
float32 numbers from 1e-36 to 1e36, values and gradients are those in float64.
"""

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handloom.autograd import Parameter, Tensor, grad, ops
from handloom.autograd.catalogue import CATALOGUE, Draw, OpSpec, Sample
from handloom.autograd.catalogue.elementwise import UNARY
from handloom.autograd.ops.registry import plain
from handloom.train.optim.optimizers import clip_grad_norm
from tests.support.derivatives import called

LARGEST = 65504.0
EPS = 2.0**-10
DRAWS = 40

# These ops have a float16 intermediate result, which may overflow or underflow: x W^T before the activation, x +
# residual before the norm, the gradient of each product in a stack, of a scalar times an array, or of a gate. Inputs
# between 2^-n and 2^n keep this result in range.
GATES = ("glu", "reglu", "geglu", "swiglu")
EXPONENTS = {"linear_activation": 6, "residual_layer_norm": 13, "matmul": 6, "dot": 8}
EXPONENTS |= dict.fromkeys(GATES, 9)
# These ops round an intermediate result to float16 (the gate; attention's output, for backward): errors grow with x.
ROUNDED = ("attention", *GATES)


class WholeRange(Draw):
    """Draw float16 numbers of any magnitude, with the sign that the specification asks for."""

    lowest, highest = -24.0, 16.0  # exponents

    def array(self, shape: tuple[int, ...], low: float = -2.0, high: float = 2.0, avoid: Sequence[float] = ()) -> Any:
        if low >= 0 and high <= 1:  # probabilities
            near_0, near_1 = 2.0 ** -self.rng.uniform(0, 25, shape), 1 - 2.0 ** -self.rng.uniform(1, 12, shape)
            return np.asarray(np.where(self.rng.random(shape) < 0.5, near_0, near_1), self.dtype)
        size = np.minimum(2.0 ** self.rng.uniform(self.lowest, self.highest, shape), LARGEST)
        return np.asarray(size * np.where((self.rng.random(shape) < 0.5) & (low < 0), -1, 1), self.dtype)

    def distinct(self, *shapes: tuple[int, ...]) -> Any:
        arrays = [self.array(shape) for shape in shapes]
        return arrays[0] if len(arrays) == 1 else arrays


def drawn(name: str, draw: WholeRange) -> Sample:
    sample = CATALOGUE[name].draw(draw)
    if name == "attention":  # float32 must resolve the scores as finely as float16 weights need
        scales = (2.0**-10, 2.0**-10, 1.0, 2.0**-6)
        args = tuple((x * s).astype(np.float16) for x, s in zip(sample.args, scales, strict=False))
        return Sample(args, sample.kwargs)
    return sample


def cast(value: Any, dtype: Any) -> Any:
    return value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def computed(spec: OpSpec, sample: Sample, dtype: Any, rng: np.random.Generator) -> tuple[list[Any], list[Any], float]:
    """Return values and gradients in a precision, and the magnitude of the largest output gradient."""
    args = [cast(a, dtype) for a in sample.args]
    kwargs = {key: cast(value, dtype) for key, value in sample.kwargs.items()}
    leaves, results = called(spec.function, args, sample.differentiable or (), kwargs)
    outputs = [out for out in results if out.dtype.kind == "f"]
    recorded = [out for out in outputs if out.requires_grad]
    cotangents = [
        (2.0 ** rng.integers(-6, 7, out.shape) * rng.choice([-1, 1], out.shape)).astype(dtype) for out in recorded
    ]
    gradients = grad(recorded, leaves, cotangents) if recorded else []
    largest = max((float(np.abs(g).max()) for g in cotangents if g.size), default=1.0)
    return [out.data for out in outputs], [g.data for g in gradients], largest


def compare(what: str, found: np.ndarray, truth: np.ndarray, scale: Any) -> None:
    """Check that `found` equals `truth`, within four ulps of `scale`, wherever `truth` fits into float16."""
    with np.errstate(over="ignore", invalid="ignore"):
        fits = np.abs(truth) < LARGEST * (1 - 8 * EPS)
        wrong = fits & ~(np.abs(found.astype(np.float64) - truth) <= 4 * EPS * scale)
        wrong |= np.isnan(found) & ~np.isnan(truth) & fits
    assert not wrong.any(), f"{what}: {found[wrong][:3]} instead of {truth[wrong][:3]}"


@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - set(UNARY)))
def test_float16_is_float32_rounded(name: str) -> None:
    compared = 0
    for seed in range(DRAWS):
        draw = WholeRange.seeded(np.random.default_rng([zlib.crc32(name.encode()), seed]), np.float16)
        if name in EXPONENTS:
            draw.lowest, draw.highest = -EXPONENTS[name], EXPONENTS[name]
        with np.errstate(over="ignore"):  # some inputs are products, which may overflow
            sample = drawn(name, draw)
        floats = [a for a in sample.args if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
        if not all(np.isfinite(a).all() for a in floats):
            continue
        with np.errstate(all="ignore"):
            truth = computed(CATALOGUE[name], sample, np.float32, np.random.default_rng(seed))
        numbers = np.concatenate([np.zeros(1), *(np.ravel(a) for a in (*truth[0], *truth[1]))])
        fits = bool((np.abs(numbers) < LARGEST * (1 - 8 * EPS)).all())
        with np.errstate(over="raise" if fits else "ignore", invalid="raise" if fits else "ignore", divide="ignore"):
            found = computed(CATALOGUE[name], sample, np.float16, np.random.default_rng(seed))
        largest = [1.0, found[2], *(float(np.abs(a).max()) * found[2] for a in floats if a.size and name in ROUNDED)]
        for kind, ours, theirs in zip(("value", "gradient"), found, truth, strict=False):
            for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
                finite = np.abs(b[np.isfinite(b)]).max(initial=0)
                compare(f"{name}, {kind} {number}, {sample}", a, b, max(finite, *largest))
            if not fits and kind == "value" and any((np.abs(b) >= LARGEST * (1 - 8 * EPS)).any() for b in theirs):
                break  # a value that overflows has no meaningful gradient
        compared += 1
    assert compared > DRAWS / 2


@pytest.mark.parametrize("name", [*UNARY, "leaky_relu", "elu", "gelu", "gelu tanh"])
def test_every_float16_number(name: str) -> None:
    """Elementwise ops are correct for all 63,488 finite float16 numbers."""
    kwargs = {"approximate": "tanh"} if name.endswith("tanh") and name.startswith("gelu") else {}
    function = getattr(ops, name.partition(" ")[0])
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)]
    found = []
    for dtype in (np.float16, np.float32):
        leaf = Tensor(x.astype(dtype), requires_grad=True)
        with np.errstate(all="ignore"):
            out = function(leaf, **kwargs)
            out.backward(np.ones(x.shape, dtype))
        found.append((out.data, leaf.grad))
    (value, gradient), (true_value, true_gradient) = found
    compare(f"{name}, value", value, true_value, np.maximum(1, np.abs(true_value)))
    inside = np.isfinite(value)
    compare(f"{name}, gradient", gradient[inside], true_gradient[inside], np.maximum(1, np.abs(true_gradient[inside])))
    # Where neither value nor gradient overflows, no intermediate result overflows.
    fits = inside & (np.abs(true_gradient) < LARGEST * (1 - 8 * EPS))
    leaf = Tensor(x[fits], requires_grad=True)
    with np.errstate(over="raise", invalid="raise"):
        function(leaf, **kwargs).backward(np.ones(leaf.shape, np.float16))


@pytest.mark.parametrize("name", [*UNARY, "leaky_relu", "elu", "gelu", "gelu tanh"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_number_is_too_large_or_too_small(name: str, dtype: Any) -> None:
    """For numbers of any magnitude, the gradient is NaN only where the value is NaN."""
    kwargs = {"approximate": "tanh"} if name == "gelu tanh" else {}
    info = np.finfo(dtype)
    size = np.exp(np.linspace(np.log(float(info.smallest_subnormal)), np.log(float(info.max)), 2001)).astype(dtype)
    size = size[np.isfinite(size)]
    leaf = Tensor(np.concatenate([-size, size]), requires_grad=True)
    with np.errstate(all="ignore"):
        out = getattr(ops, name.partition(" ")[0])(leaf, **kwargs)
        out.backward(np.ones(leaf.shape, dtype))
    assert not (np.isnan(leaf.grad) & ~np.isnan(out.data)).any(), leaf.data[np.isnan(leaf.grad)]


@pytest.mark.parametrize(
    ("function", "inputs", "g"),
    [
        (ops.divide, ([4.2e-6], [1.1e-5]), 0.5),  # g / y overflows float16, but g / y * x / y does not
        (ops.square, ([0.1],), 4e4),
        (ops.hypot, ([6e-8], [6e-8]), 1.0),  # float16 rounds the value by almost half an ulp
        (ops.arctan2, ([8e-5], [1e-5]), 1.0),
        (ops.prod, ([300.0, 300.0, 0.01],), 0.1),
        (ops.logsumexp, ([1e4, 1e4],), 1.0),  # float16 rounds the value by 0.7
        (ops.std, ([1.2e-7, 2.4e-7],), 0.001),
        (ops.mse_loss, ([300.0, 1.0, 2.0], [0.0, 0.0, 0.0]), 1.0),
        (ops.l1_loss, ([6e4, 1.0], [-6e4, 1.0]), 1.0),
        (ops.binary_cross_entropy, ([0.0, 1.0], [0.001, 0.999]), 1e-8),  # p (1 - p) is at least 1e-12
        (lambda x, y, z: ops.einsum("i,i,i->i", x, y, z), ([1e3], [1e3], [1e-2]), 0.01),
    ],
)
def test_float16_where_a_step_on_the_way_would_overflow_or_round(function: Any, inputs: Any, g: float) -> None:
    found = []
    for dtype in (np.float16, np.float32):
        leaves = [Tensor(np.asarray(x, np.float16).astype(dtype), requires_grad=True) for x in inputs]
        out = function(*leaves)
        gradient = np.full(out.shape, g, np.float16).astype(dtype)
        found.append([out.data, *(leaf.data for leaf in grad(out, leaves, gradient))])
    for half, single in zip(*found, strict=True):
        np.testing.assert_allclose(half, single, rtol=4 * EPS, atol=1e-7)


# -- float32 against float64 -------------------------------------------------------------------------------------------

ROWS: dict[str, Any] = {
    "layer_norm": lambda x, w: ops.layer_norm(x, w, w),
    "residual_layer_norm": lambda x, w: ops.residual_layer_norm(x, x * 0, w, w),
    "residual_layer_norm, both": lambda x, w: ops.residual_layer_norm(x, x * 0, w, w, both=True)[0],
    "rms_norm": lambda x, w: ops.rms_norm(x, w),
    "std": lambda x, w: ops.std(x, axis=-1) * w[0],
    "norm": lambda x, w: ops.norm(x, axis=-1) * w[0],
    "norm, 3": lambda x, w: ops.norm(x, ord=3, axis=-1) * w[0],
    "norm, -2": lambda x, w: ops.norm(x, ord=-2, axis=-1) * w[0],
    "mean": lambda x, w: ops.mean(x, axis=-1) * w[0],
    "divided by the norm": lambda x, w: x / ops.norm(x, axis=-1, keepdims=True) * w,
}


@pytest.mark.search
@given(
    st.sampled_from(sorted(ROWS)),
    st.lists(st.floats(-37, 37.5), min_size=1, max_size=4),
    st.sampled_from([3, 5, 64, 300]),  # of two normalised features the gradient is a difference of equal numbers
    st.booleans(),
    st.integers(0, 1 << 30),
)
@settings(deadline=None)
def test_rows_of_any_magnitude(name: str, exponents: list[float], features: int, plainly: bool, seed: int) -> None:
    """Each row has its own magnitude. Output gradients are as small as they must be for gradients that float32 has."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((len(exponents), features)).clip(-3, 3) + 0.01
    most = features if name == "mean" else features**0.5  # a sum or a norm must not overflow
    x = (rows * 10.0 ** np.array(exponents)[:, None] / most).astype(np.float32)
    w = np.linspace(0.5, 1.5, features).astype(np.float32)
    found = []
    for dtype in (np.float32, np.float64):
        leaves = [Tensor(x.astype(dtype), requires_grad=True), Tensor(w.astype(dtype), requires_grad=True)]
        with plain(plainly):
            out = ROWS[name](*leaves)
            g = np.random.default_rng(seed).uniform(0.5, 1.5, out.shape).astype(dtype)
            found.append([out.data, *(each.data for each in grad(out, leaves, g))])
    for which, ours, exact in zip(("value", "dx", "dw"), *found, strict=True):
        scale = np.abs(exact).max(axis=-1, keepdims=True, initial=0)
        if which == "dx":  # what cancels is of the size of g / norm
            scale = np.maximum(scale, 1.5 * np.abs(x.astype(np.float64)).max(axis=-1, keepdims=True) ** -1)
            scale = np.where(name == "mean", 1, scale)
        elif name == "mean":  # the terms cancel
            terms = np.abs(x.astype(np.float64)).max(axis=-1)
            scale = terms if which == "value" else 1.5 * terms.sum()
        wrong = np.abs(ours - exact) > 2e-5 * scale + 1e-38
        wrong &= np.abs(exact) < 1e38
        assert not wrong.any(), (which, ours[wrong][:3], exact[wrong][:3])


# Ops whose result or gradient has factors or terms that may overflow although it does not: scores and logits, products
# of three, and a gate times a large number. Their numbers are between 2^-n and 2^n; those of other ops reach 2^+-118.
EXPONENTS_32 = {"prod": 12, "attention": 18, "linear_cross_entropy": 18, "layer_norm": 60, "residual_layer_norm": 40}
PRODUCTS = ("matmul", "linear", "linear_activation", "inner", "dot", "einsum", "outer", "tensordot")
EXPONENTS_32 |= dict.fromkeys((*GATES, *PRODUCTS), 30)
EXPONENTS_32 |= dict.fromkeys(("divide", "rms_norm", "var", "mse_loss", "hypot", "power"), 40)
EXPONENTS_32 |= {"binary_cross_entropy_with_logits": 20, "cross_entropy": 40, "nll_loss": 40, "arctanh": 20}
EXPONENTS_32 |= {"recurrence": 3}  # sigmoids of sigmoids saturate
# In these, numbers of the size of the inputs times the output gradient cancel: where a sigmoid saturates, for example.
CANCELLING = {"attention", "cross_entropy", "linear_cross_entropy", "binary_cross_entropy_with_logits", "layer_norm"}
CANCELLING |= {"residual_layer_norm", "rms_norm", "softmax", "log_softmax", "sigmoid", "tanh", "expm1", "gelu", "silu"}
CANCELLING |= {*GATES, "recurrence"}


class WholeFloat32(WholeRange):
    """Draw float32 numbers that are all of one magnitude, or of magnitudes that differ by up to 2^60."""

    def array(self, shape: tuple[int, ...], low: float = -2.0, high: float = 2.0, avoid: Sequence[float] = ()) -> Any:
        if low >= 0 and high <= 1:
            return super().array(shape, low, high)
        middle, spread = self.rng.uniform(self.lowest, self.highest), self.rng.choice([0, 2, 30])
        size = 2.0 ** np.clip(middle + self.rng.uniform(-spread, spread, shape), self.lowest, self.highest)
        return np.asarray(size * np.where((self.rng.random(shape) < 0.5) & (low < 0), -1, 1), self.dtype)


def changed(spec: OpSpec, sample: Sample, change: Any, size: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return values and gradients for arrays to which `change` is applied. Output gradients are of this size."""

    def fit(value: Any) -> Any:
        return change(value) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value

    leaves, results = called(
        spec.function, [fit(a) for a in sample.args], sample.differentiable or (),
        {key: fit(value) for key, value in sample.kwargs.items()},
    )  # fmt: skip
    rng = np.random.default_rng(0)
    outputs = [out for out in results if out.dtype.kind == "f"]
    recorded = [out for out in outputs if out.requires_grad]
    cotangents = [fit((size * rng.uniform(-2, 2, out.shape)).astype(np.float32)) for out in recorded]
    gradients = grad(recorded, leaves, cotangents) if recorded else []
    return [out.data for out in outputs], [g.data for g in gradients]


def largest_product(sample: Sample) -> float:
    """Return the product of the largest elements, at least 1 each, of all arrays."""
    arrays = [a for a in (*sample.args, *sample.kwargs.values()) if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
    return float(np.prod([max(np.abs(a).max(initial=0), 1) for a in arrays], dtype=np.float64))


@pytest.mark.search
@given(st.sampled_from(sorted(CATALOGUE)), st.integers(0, 1 << 30), st.booleans())
@settings(deadline=None)
def test_float32_is_float64_rounded(name: str, seed: int, plainly: bool) -> None:
    """Values and gradients of every op differ from those in float64 by what rounding the inputs changes, or by the
    rounding of the largest element.
    """
    rng, spec = np.random.default_rng([zlib.crc32(name.encode()), seed]), CATALOGUE[name]
    draw = WholeFloat32.seeded(rng, np.float32)
    draw.highest = EXPONENTS_32.get(name, 118)
    draw.lowest = -draw.highest
    with np.errstate(all="ignore"), plain(plainly):
        sample = spec.draw(draw)
        if not all(np.isfinite(a).all() for a in sample.args if isinstance(a, np.ndarray) and a.dtype.kind == "f"):
            return
        size = 2.0 ** rng.uniform(-30, 30)
        found = changed(spec, sample, lambda a: a, size)
        truth = changed(spec, sample, lambda a: a.astype(np.float64), size)
        nearby = [
            changed(spec, sample, lambda a: a * (1 + 2.0**-23 * rng.uniform(-1, 1, a.shape)), size) for _ in range(3)
        ]
        for kind, (ours, exact) in enumerate(zip(found, truth, strict=True)):
            for number, (a, b) in enumerate(zip(ours, exact, strict=True)):
                moved = np.max([np.abs(other[kind][number] - b) for other in nearby], axis=0)
                fits = (np.abs(b) < 1e36) & np.isfinite(moved)
                largest = np.abs(b[fits]).max(initial=0)
                if name in CANCELLING:
                    largest = max(largest, largest_product(sample) * max(size, 1))
                wrong = fits & ~(np.abs(a - b) <= 200 * moved + 1e-4 * np.abs(b) + 1e-5 * largest + 1e-34)
                assert not wrong.any(), f"{name} {kind} {number}: {a[wrong][:3]}, not {b[wrong][:3]}, {sample}"
            if any((np.abs(b) >= 1e36).any() for b in exact):
                return  # a value that overflows has no meaningful gradient


@pytest.mark.parametrize("value", [1e-25, 1e19, 3e38, 1e-200, 1e200])
def test_the_norm_of_gradients_of_any_magnitude(value: float) -> None:
    parameter = Parameter(np.zeros(3000, np.float64 if value in (1e-200, 1e200) else np.float32))
    parameter.grad = np.full(3000, value, parameter.dtype)
    assert clip_grad_norm(parameter, 1.0) == pytest.approx(value * np.sqrt(3000))
    if value > 1:
        assert np.linalg.norm(parameter.grad.astype(np.float64)) == pytest.approx(1, rel=1e-4)


def test_small_numbers_beside_the_largest_keep_their_digits() -> None:
    assert ops.logsumexp(np.array([0.0, -40])).item() == pytest.approx(np.exp(-40))
    assert ops.logsumexp(np.array([0.0, 0.0, -40])).item() == np.log(2)
    assert ops.logsumexp(np.array([-np.inf, -np.inf])).item() == -np.inf
    assert ops.logsumexp(np.array([np.inf, 0.0])).item() == np.inf


def test_norms_of_other_orders() -> None:
    x = Tensor(np.array([0.0, 1.0, 2.0]), requires_grad=True)
    out = ops.norm(x, ord=-2)
    out.backward()
    assert (out.item(), x.grad.tolist()) == (0, [0, 0, 0])
    second = []
    for dtype in (np.float16, np.float32):
        x = Tensor(np.array([0.1, 30.0, 2.0], np.float16).astype(dtype), requires_grad=True)
        (first,) = grad(ops.norm(x, ord=0.5), [x], create_graph=True)
        second.append(grad(first.sum(), x).data)
    np.testing.assert_allclose(second[0], second[1], rtol=2e-2)
