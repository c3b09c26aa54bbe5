"""Specifications of the elementwise ops: the interval from which an op's inputs are drawn, and the points to avoid."""

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
    return lambda d, shape: (d.array(shape, low, high, avoid),)


for _low, _high, _avoid, _analytic, _names in RANGES:
    for _name in _names.split():
        spec(_name, analytic=_analytic)(_unary(_low, _high, _avoid))


def pair(d: Draw, shape: tuple[int, ...], low: float = -2, high: float = 2, avoid: tuple[float, ...] = ()) -> Any:
    """Draw two operands that broadcast to `shape` or less. One of the operands can be a Python number."""
    x, y = (d.array(d.narrowed(shape), low, high, avoid) for _ in range(2))
    kind = d.choice("operand", ("arrays", "arrays", "arrays", "number left", "number right"))
    return (x.item(0) if kind == "number left" and x.size else x), (
        y.item(0) if kind == "number right" and y.size else y
    )


for _name in ("add", "subtract", "multiply", "logaddexp"):
    spec(_name)(pair)
for _name in ("divide", "hypot"):
    spec(_name)(lambda d, shape: pair(d, shape, avoid=ZERO))
for _name in ("maximum", "minimum"):
    spec(_name)(lambda d, shape: tuple(d.distinct(d.narrowed(shape), d.narrowed(shape))))
spec("arctan2")(lambda d, shape: tuple(d.array(d.narrowed(shape), avoid=ZERO) for _ in range(2)))


@spec("power")
def _power(d: Draw, shape: tuple[int, ...]) -> Any:
    if not d.flag("whole exponent"):
        return pair(d, shape, 0.3, 2)
    # Negative bases need an integer exponent. The gradient with respect to the exponents is not defined for them.
    exponents: Any = d.choice("exponent", (0, 1, 2, 3, -1, -2, 0.0, 2.0, "array"))
    if exponents == "array":
        exponents = d.rng.integers(-2, 4, d.narrowed(shape)).astype(d.dtype)
    return Sample((d.array(shape, avoid=ZERO), exponents), differentiable=(0,))


@spec("round", analytic=False)
def _round(d: Draw, shape: tuple[int, ...]) -> Any:
    """Draw inputs that are not near the jumps of rounding, half-way between two results."""
    decimals, whole = d.integer(-1, 2), d.rng.integers(-8, 8, shape)
    return np.asarray((whole + d.rng.uniform(-0.3, 0.3, shape)) / 10**decimals, d.dtype), decimals


@spec("floor_divide", analytic=False)
@spec("remainder", analytic=False)
def _remainder(d: Draw, shape: tuple[int, ...]) -> Any:
    """Draw y and x = (quotient + fraction) y, so that x / y is not near an integer, where the ops jump."""
    y = d.array(d.narrowed(shape), 0.5, 2) * (-1 if d.flag("negative divisor") else 1)
    quotient = d.rng.integers(-2, 3, shape) + d.rng.uniform(0.3, 0.7, shape)
    return np.asarray(quotient * y, dtype=d.dtype), y


@spec("clip")
def _clip(d: Draw, shape: tuple[int, ...]) -> Any:
    bounds = d.choice("bounds", ("numbers", "low number", "high number", "arrays", "low array", "high array"))
    if bounds.endswith(("number", "numbers")):
        low, high = -0.8, 0.7
        x = d.array(shape, avoid=(low, high))
    else:
        x, low, high = d.distinct(shape, d.narrowed(shape), d.narrowed(shape))
    return x, None if bounds.startswith("high") else low, None if bounds.startswith("low") else high


spec("where")(lambda d, shape: (d.mask(d.narrowed(shape)), *(d.array(d.narrowed(shape)) for _ in range(2))))
spec("masked_fill")(
    lambda d, shape: (
        d.array(d.narrowed(shape)), d.mask(d.narrowed(shape)), d.array(()) if d.flag("a tensor as value") else 0.5,
    )
)  # fmt: skip
# A cast to the same dtype. Casts between precisions have another test.
spec("astype", reference=lambda x, dtype: x)(lambda d, shape: (d.array(shape), d.dtype))
spec("leaky_relu")(lambda d, shape: (d.array(shape, avoid=ZERO), d.maybe(negative_slope=0.3)))
spec("elu")(lambda d, shape: (d.array(shape, avoid=ZERO), d.maybe(alpha=0.7)))
# Below -2.5, F(x) is a small difference of large numbers.
spec("gelu", analytic=False)(
    lambda d, shape: (d.array(shape, -2.5, 4), d.choice("how", ({}, {"approximate": "none"}, {"approximate": "tanh"})))
)


def _halves(d: Draw, shape: tuple[int, ...]) -> Any:
    axis = d.position(shape)
    sides = tuple(2 * side if i == axis % len(shape) else side for i, side in enumerate(shape))
    # Zero is avoided, since relu has its kink there; it is applied to the second half, the gate.
    return d.array(sides, avoid=ZERO), {} if axis == -1 and d.flag("axis left out") else {"axis": axis}


for _name in ("glu", "reglu", "geglu", "swiglu"):
    spec(_name, least=1, analytic=_name != "geglu")(_halves)
