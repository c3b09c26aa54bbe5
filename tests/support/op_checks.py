"""Checks that every op must pass, on samples drawn from its specification.

The checks raise AssertionError with the op, the sample and the numbers. The op tests and the mutant tests use them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from handloom.autograd import Tensor, grad, no_grad, ops
from handloom.autograd.catalogue import Draw, OpSpec, Sample
from tests.support.derivatives import as_tuple, complex_step, contracted, difference_quotient, five_point

LAYOUTS = ("contiguous", "transposed", "strided", "reversed", "read-only")
ANALYTIC_TOLERANCE = 1e-8
# The error of a difference quotient is about 1e-11 of the largest intermediate value; the gradient may be smaller.
QUOTIENT_TOLERANCE = 1e-7
SECOND_ORDER_TOLERANCE = 1e-6
# Gradients in less than float64, in units in the last place (ulps) of their largest element.
GRADIENT_ULPS = 400


def laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    """Return a copy of the array with this memory layout."""
    if not array.ndim:
        layout = "read-only" if layout == "read-only" else "contiguous"
    if layout == "transposed":
        return np.array(array.T, order="C").T
    if layout == "strided":
        wide = np.full(tuple(2 * side for side in array.shape), 99, dtype=array.dtype)
        wide[(slice(None, None, 2),) * array.ndim] = array
        return wide[(slice(None, None, 2),) * array.ndim]
    if layout == "reversed":
        backwards = (slice(None, None, -1),) * array.ndim
        return np.array(array[backwards], order="C")[backwards]
    copy = array.copy()
    copy.flags.writeable = layout != "read-only"
    return copy


def arranged(sample: Sample, layout: str) -> Sample:
    args = tuple(laid_out(a, layout) if isinstance(a, np.ndarray) else a for a in sample.args)
    return Sample(args, sample.kwargs, sample.differentiable)


def widened(sample: Sample) -> list[Any]:
    """Return the arguments of the sample, with floating point arrays in float64."""
    return [a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in sample.args]


def tensors_of(sample: Sample, wanted: Sequence[int]) -> list[Any]:
    """Return the arguments with floating point arrays as Tensors. Tensors at the indices `wanted` require gradients."""
    return [
        Tensor(a, requires_grad=i in wanted) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a
        for i, a in enumerate(sample.args)
    ]


def close(actual: Any, expected: Any, tolerance: float, what: str, least_scale: float = 1e-3) -> None:
    """Assert that errors are at most `tolerance` times the largest expected element, or `least_scale` if larger."""
    actual, expected = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    scale = np.abs(expected).max(initial=least_scale)  # NaN if an element is NaN
    assert np.isfinite(scale), what
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale, err_msg=what, strict=True)


def float_outputs(result: Any) -> list[Tensor]:
    return [out for out in as_tuple(result) if out.dtype.kind == "f"]


def cotangents_for(result: Any, rng: np.random.Generator) -> list[np.ndarray]:
    return [
        np.asarray(rng.uniform(0.5, 1.5, out.shape) * rng.choice([-1, 1], out.shape), dtype=out.dtype)
        for out in float_outputs(result)
    ]


def check_value(spec: OpSpec, sample: Sample) -> None:
    """Compare value, shape, dtype with the reference. Inputs must not change; only ops with `views` share memory."""
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in sample.args]
    with no_grad():
        results = as_tuple(spec.function(*tensors_of(sample, ()), **sample.kwargs))
    recorded = as_tuple(spec.function(*tensors_of(sample, sample.differentiable), **sample.kwargs))
    expected = as_tuple(spec.reference(*widened(sample), **sample.kwargs))
    floats = [a for a in sample.args if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
    assert len(results) == len(expected), f"{spec.name}: {len(results)} results, expected {len(expected)}"
    for result, again, truth in zip(results, recorded, expected, strict=True):
        truth = np.asarray(truth)
        kind = truth.dtype.kind
        dtype = np.result_type(*floats) if kind == "f" else truth.dtype
        assert result.dtype == dtype, f"{spec.name}: {result.dtype} from {[a.dtype for a in floats]}, expected {dtype}"
        assert isinstance(result.data, np.ndarray)
        assert not result.requires_grad
        assert again.requires_grad == (kind == "f" and bool(sample.differentiable))
        np.testing.assert_array_equal(again.data, result.data, err_msg=f"{spec.name}: recording changes the value")
        if kind != "f":
            np.testing.assert_array_equal(result.data, truth, err_msg=spec.name)
            continue
        close(result.data, truth, spec.ulps * float(np.finfo(dtype).eps), spec.name, least_scale=1.0)
        if not spec.views and result.size:
            assert not any(np.shares_memory(out.data, a) for a in floats for out in (result, again)), (
                f"{spec.name}: the result shares memory with an input"
            )
    for a, old in zip(sample.args, before, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, old, err_msg=f"{spec.name}: an input was changed")


def first_gradients(
    spec: OpSpec, sample: Sample, cotangents: Sequence[np.ndarray], wanted: Sequence[int]
) -> list[np.ndarray]:
    """Return the gradients of the arguments `wanted`, computed on arrays without recording a graph."""
    tensors = tensors_of(sample, wanted)
    outputs = float_outputs(spec.function(*tensors, **sample.kwargs))
    if len(outputs) == 1:
        outputs[0].backward(cotangents[0])
        for i, tensor in enumerate(tensors):
            if isinstance(tensor, Tensor) and i not in wanted:
                assert tensor.grad is None, f"{spec.name}: input {i} got a gradient that was not requested"
        found = [tensors[i].grad for i in wanted]
        # If the output doesn't depend on an input (no element selected, an empty slice), the input gets no gradient.
        return [np.zeros_like(sample.args[i]) if g is None else g for i, g in zip(wanted, found, strict=True)]
    return [g.data for g in grad(outputs, [tensors[i] for i in wanted], cotangents)]


def true_gradient(spec: OpSpec, sample: Sample, cotangents: Sequence[np.ndarray], position: int) -> np.ndarray:
    number = contracted(
        lambda *args: spec.reference(*args, **sample.kwargs), [g.astype(np.float64) for g in cotangents]
    )
    return (complex_step if spec.analytic else difference_quotient)(number, widened(sample), position)


def check_gradient(spec: OpSpec, sample: Sample, rng: np.random.Generator) -> None:
    """Compare the gradients for a random output gradient with numerical derivatives."""
    differentiable = sample.differentiable or ()
    with no_grad():
        result = spec.function(*tensors_of(sample, ()), **sample.kwargs)
    cotangents = cotangents_for(result, rng)
    if not cotangents or not differentiable:
        return
    found = first_gradients(spec, sample, cotangents, differentiable)
    tolerance = ANALYTIC_TOLERANCE if spec.analytic else QUOTIENT_TOLERANCE
    for position, gradient in zip(differentiable, found, strict=True):
        x = sample.args[position]
        what = f"{spec.name}, gradient of argument {position}, {sample}"
        assert isinstance(gradient, np.ndarray), what
        assert (gradient.shape, gradient.dtype) == (x.shape, x.dtype), f"{what}: {gradient.dtype}{gradient.shape}"
        assert not any(np.shares_memory(gradient, other) for other in (x, *cotangents)), f"{what}: shares memory"
        truth = true_gradient(spec, sample, cotangents, position)
        if x.dtype == np.float64:
            close(gradient, truth, tolerance, what)
        else:  # output gradients are about 1; a small gradient may be a difference of such numbers
            close(gradient, truth, GRADIENT_ULPS * float(np.finfo(x.dtype).eps), what, least_scale=1.0)


def check_second_order(spec: OpSpec, sample: Sample, rng: np.random.Generator) -> None:
    """Compare the derivative of v . gradient(x, g) in a random direction of (x, g) with differences of the gradient."""
    wanted = sample.differentiable or ()
    inputs = tensors_of(sample, wanted)
    outputs = float_outputs(spec.function(*inputs, **sample.kwargs))
    if not outputs or not wanted:
        return
    cotangents = cotangents_for(outputs, rng)
    weights = [rng.uniform(-1, 1, sample.args[i].shape) for i in wanted]
    leaves = [inputs[i] for i in wanted]
    upstream = [Tensor(g, requires_grad=True) for g in cotangents]
    gradients = grad(outputs, leaves, upstream, create_graph=True)
    first = first_gradients(spec, sample, cotangents, wanted)
    for recorded, plain in zip(gradients, first, strict=True):
        close(recorded.data, plain, 1e-12, f"{spec.name}: the recorded gradient, {sample}")
    total = sum((ops.sum(g * v) for g, v in zip(gradients, weights, strict=True)), Tensor(np.zeros(())))
    points = [leaf.data for leaf in leaves] + cotangents
    if total.requires_grad:
        second = [g.data for g in grad(total, [*leaves, *upstream])]
    else:
        second = [np.zeros(p.shape) for p in points]
    direction = [rng.uniform(-1, 1, p.shape) for p in points]

    def moved(t: float) -> float:
        args = list(sample.args)
        at = [p + t * u for p, u in zip(points, direction, strict=True)]
        for number, i in enumerate(wanted):
            args[i] = np.asarray(at[number])
        found = first_gradients(spec, Sample(tuple(args), sample.kwargs, wanted), at[len(wanted) :], wanted)
        return float(sum((g * v).sum() for g, v in zip(found, weights, strict=True)))

    parts = [float((g * u).sum()) for g, u in zip(second, direction, strict=True)]
    scale = max(1.0, sum(float(np.abs(g * u).sum()) for g, u in zip(second, direction, strict=True)))
    expected = five_point(moved)
    assert abs(sum(parts) - expected) <= SECOND_ORDER_TOLERANCE * scale, (
        f"{spec.name}: second derivative {sum(parts):.12g}, by differences {expected:.12g}, {sample}"
    )


def check_all(spec: OpSpec, draw: Draw, layout: str = "contiguous") -> None:
    """Draw a sample and check everything that its dtype allows."""
    sample = arranged(spec.draw(draw), layout)
    check_value(spec, sample)
    check_gradient(spec, sample, draw.rng)
    if spec.second_order and draw.dtype == np.float64:
        check_second_order(spec, sample, draw.rng)
