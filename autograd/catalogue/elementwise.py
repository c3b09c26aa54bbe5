"""Specifications of the elementwise ops: the interval from which an op's inputs are drawn, and the points to avoid."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import Draw, Sample, spec

ZERO = (0.0,)
HALVES = tuple(k / 2 for k in range(-8, 9))

# The ops of one argument: lowest value, highest value, points to avoid, analytic or not, and the ops' names.
RANGES: tuple[tuple[float, float, tuple[float, ...], bool, str], ...] = (
    (-2, 2, (), True, "negative square exp exp2 expm1 arctan sinh cosh tanh arcsinh"),
    (-2, 2, ZERO, True, "reciprocal abs relu selu softsign"),
    (-2, 2, ZERO, False, "sign"),
    (-3, 3, HALVES, False, "floor ceil trunc rint"),
    (0.2, 3, (), True, "log log2 log10 sqrt rsqrt"),
    (-0.7, 3, (), True, "log1p"),
    (1.3, 3, (), True, "arccosh"),
    (-3, 3, (), True, "sin cos"),
    (-3, 3, (), False, "erf"),
    (-1.2, 1.2, (), True, "tan"),
    (-0.8, 0.8, (), True, "arcsin arccos arctanh"),
    (-4, 4, (), True, "sigmoid silu"),
    (-4, 4, ZERO, True, "softplus log_sigmoid mish"),
)
UNARY = [name for *_, names in RANGES for name in names.split()]


def _unary(low: float, high: float, avoid: tuple[float, ...]) -> Any:
    return lambda d: Sample((d.array(d.shape(), low, high, avoid),))


for _low, _high, _avoid, _analytic, _names in RANGES:
    for _name in _names.split():
        spec(_name, analytic=_analytic)(_unary(_low, _high, _avoid))


def pair(d: Draw, low: float = -2, high: float = 2, avoid: tuple[float, ...] = ()) -> tuple[Any, Any]:
    """Draw two operands that broadcast against each other. One of the operands can be a Python number."""
    shape = d.shape()
    x, y = (d.array(d.narrowed(shape), low, high, avoid) for _ in range(2))
    kind = d.choice("operand", ("arrays", "arrays", "arrays", "number left", "number right"))
    return (x.item(0) if kind == "number left" and x.size else x), (
        y.item(0) if kind == "number right" and y.size else y
    )


for _name in ("add", "subtract", "multiply", "logaddexp"):
    spec(_name)(lambda d: Sample(pair(d)))
for _name in ("divide", "hypot"):
    spec(_name)(lambda d: Sample(pair(d, avoid=ZERO)))


@spec("power")
def _power(d: Draw) -> Sample:
    if d.flag("whole exponent"):
        # Negative bases need an integer exponent. The gradient with respect to the exponents is not defined for them.
        shape = d.shape()
        exponents: Any = d.choice("exponent", (0, 1, 2, 3, -1, -2, 0.0, 2.0, "array"))
        if exponents == "array":
            exponents = d.rng.integers(-2, 4, d.narrowed(shape)).astype(d.dtype)
        return Sample((d.array(shape, avoid=(0.0,)), exponents), differentiable=(0,))
    return Sample(pair(d, 0.3, 2))


@spec("arctan2")
def _arctan2(d: Draw) -> Sample:
    shape = d.shape()
    y, x = d.array(d.narrowed(shape), avoid=(0.0,)), d.array(d.narrowed(shape), avoid=(0.0,))
    return Sample((y, x))


@spec("round", analytic=False)
def _round(d: Draw) -> Sample:
    """Draw inputs that are not near the jumps of rounding, half-way between two results."""
    decimals = d.integer(-1, 2)
    whole = d.rng.integers(-8, 8, d.shape())
    return Sample((np.asarray((whole + d.rng.uniform(-0.3, 0.3, whole.shape)) / 10**decimals, d.dtype), decimals))


@spec("floor_divide", analytic=False)
@spec("remainder", analytic=False)
def _remainder(d: Draw) -> Sample:
    """Draw y and x = (quotient + fraction) y, so that x / y is not near an integer, where the ops jump."""
    shape = d.shape()
    y = d.array(d.narrowed(shape), 0.5, 2) * (-1 if d.flag("negative divisor") else 1)
    quotient = d.rng.integers(-2, 3, shape) + d.rng.uniform(0.3, 0.7, shape)
    return Sample((np.asarray(quotient * y, dtype=d.dtype), y))


def ordered_pair(d: Draw) -> Sample:
    shape = d.shape()
    return Sample(tuple(d.distinct(d.narrowed(shape), d.narrowed(shape))))


spec("maximum")(ordered_pair)
spec("minimum")(ordered_pair)


@spec("clip")
def _clip(d: Draw) -> Sample:
    shape = d.shape()
    bounds = d.choice("bounds", ("numbers", "low number", "high number", "arrays", "low array", "high array"))
    if bounds.endswith(("number", "numbers")):
        low, high = -0.8, 0.7
        x = d.array(shape, avoid=(low, high))
    else:
        x, low, high = d.distinct(shape, d.narrowed(shape), d.narrowed(shape))
    return Sample((x, None if bounds.startswith("high") else low, None if bounds.startswith("low") else high))


@spec("where")
def _where(d: Draw) -> Sample:
    shape = d.shape()
    return Sample((d.mask(d.narrowed(shape)), *pair_of(d, shape)))


def pair_of(d: Draw, shape: tuple[int, ...]) -> tuple[Any, Any]:
    return d.array(d.narrowed(shape)), d.array(d.narrowed(shape))


@spec("masked_fill")
def _masked_fill(d: Draw) -> Sample:
    shape = d.shape()
    value = d.choice("value", (0.5, "tensor"))
    return Sample((d.array(d.narrowed(shape)), d.mask(d.narrowed(shape)), d.array(()) if value == "tensor" else value))


@spec("astype", reference=lambda x, dtype: x)
def _astype(d: Draw) -> Sample:
    """Draw a cast to the same dtype. Casts between precisions have another test."""
    return Sample((d.array(d.shape()), d.dtype))


@spec("leaky_relu")
def _leaky_relu(d: Draw) -> Sample:
    return Sample((d.array(d.shape(), avoid=(0.0,)),), d.choice("slope", ({}, {"negative_slope": 0.3})))


@spec("elu")
def _elu(d: Draw) -> Sample:
    return Sample((d.array(d.shape(), avoid=(0.0,)),), d.choice("alpha", ({}, {"alpha": 0.7})))


@spec("gelu", analytic=False)
def _gelu(d: Draw) -> Sample:
    x = d.array(d.shape(), -2.5, 4)  # below, F(x) is a small difference of large numbers
    return Sample((x,), d.choice("approximate", ({}, {"approximate": "none"}, {"approximate": "tanh"})))


def _halves(d: Draw) -> Sample:
    shape = list(d.shape(1))
    axis = d.integer(-len(shape), len(shape) - 1)
    shape[axis] *= 2
    # Zero is avoided, since relu has its kink there; it is applied to the second half, the gate.
    return Sample(
        (d.array(tuple(shape), avoid=(0.0,)),), {} if axis == -1 and d.flag("axis left out") else {"axis": axis}
    )


spec("glu")(_halves)
spec("reglu")(_halves)
spec("geglu", analytic=False)(_halves)
spec("swiglu")(_halves)
