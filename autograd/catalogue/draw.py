"""Random inputs for ops. The tests draw them by the library hypothesis, and the command line draws them from a seed.

`spec` enters a function that draws axes, arrays and options from a `Draw`. Arrays avoid kinks, poles and ties, because
difference quotients are meaningless there; other tests cover kinks, poles and ties.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import numpy as np

from ..ops import OPS
from ..random import Generator

T = TypeVar("T")
Arguments = Callable[["Draw", tuple[int, ...]], Any]
CLEARANCE = 0.1  # minimum distance from a kink or between values whose order matters


@dataclass
class Sample:
    """The arguments of one call of an op; its arrays are NumPy arrays. `differentiable` lists the indices in `args` of
    the arguments whose gradients are checked. By default these are all floating point arrays.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    differentiable: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.differentiable is None:
            self.differentiable = tuple(
                i for i, value in enumerate(self.args) if isinstance(value, np.ndarray) and value.dtype.kind == "f"
            )


class Draw:
    """A source of random choices and arrays.

    Args:
        integer: a function; integer(low, high) returns a random integer from low to high, including both bounds.
        rng: the generator of the numbers in the arrays.
        dtype: dtype of the floating point arrays.

    For each label of a choice, `seen` records the number of options and the indices of the options chosen so far.
    """

    def __init__(self, integer: Callable[[int, int], int], rng: np.random.Generator, dtype: Any = np.float64):
        self.integer = integer
        self.rng = rng
        self.dtype = np.dtype(dtype)
        self.seen: dict[str, tuple[int, set[int]]] = {}

    @classmethod
    def seeded(cls, rng: np.random.Generator, dtype: Any = np.float64) -> Self:
        """Return a Draw that takes its choices, as well as its arrays, from `rng`."""
        return cls(lambda low, high: int(rng.integers(low, high + 1)), rng, dtype)

    # -- choices ---------------------------------------------------------------------------------------------------

    def choice(self, label: str, options: Sequence[T]) -> T:
        chosen = self.integer(0, len(options) - 1)
        self.seen.setdefault(label, (len(options), set()))[1].add(chosen)
        return options[chosen]

    def flag(self, label: str) -> bool:
        return self.choice(label, (False, True))

    def maybe(self, **option: Any) -> dict[str, Any]:
        """Draw whether to pass a keyword argument: return it, or an empty dictionary."""
        return dict(option) if self.flag(f"{', '.join(option)} given") else {}

    # -- shapes and axes -------------------------------------------------------------------------------------------

    def shape(self, least: int = 0, most: int = 3, *, empty: bool = True) -> tuple[int, ...]:
        """Draw a shape of `least` to `most` axes with sizes 1 to 3. If `empty` is true, one axis can have size 0."""
        sides = [self.integer(1, 3) for _ in range(self.choice(f"{least} to {most} axes", range(least, most + 1)))]
        if empty and sides and self.choice("empty", (False, False, False, False, False, True)):
            sides[self.integer(0, len(sides) - 1)] = 0
        return tuple(sides)

    def narrowed(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Draw a shape that broadcasts to `shape`: some leading axes are dropped, some others have size 1."""
        dropped = self.choice("dropped axes", (0, 0, 1, len(shape)))
        return tuple(1 if self.choice("stretched axis", (False, False, True)) else side for side in shape[dropped:])

    def axis(self, shape: tuple[int, ...], *, none: bool = True, many: bool = True) -> Any:
        """Draw an argument `axis` for an array of `shape`: None, an axis counted from either end, or a tuple."""
        ndim = len(shape)
        kinds = ["one", "one"] * bool(ndim) + ["none"] * none + ["many"] * many
        kind = self.choice(f"axis of {min(ndim, 1)} or more dimensions", kinds)
        if kind == "one":
            return self.position(shape)
        if kind == "none":
            return None
        picked = [a for a in range(ndim) if self.flag("axis in tuple")]
        return tuple(a - ndim if self.flag("negative axis in tuple") else a for a in picked)

    def position(self, shape: tuple[int, ...]) -> int:
        """Draw one axis of an array of `shape`, counted from either end."""
        return self.integer(-len(shape), len(shape) - 1)

    # -- arrays ----------------------------------------------------------------------------------------------------

    def array(self, shape: tuple[int, ...], low: float = -2.0, high: float = 2.0, avoid: Sequence[float] = ()) -> Any:
        """Draw numbers uniformly from [low, high].
        Numbers near a value in `avoid` are moved to a distance of at least CLEARANCE from this value, even beyond the
        bounds.
        """
        values = self.rng.uniform(low, high, shape)
        for point in avoid:
            distance = values - point
            pushed = point + np.where(distance < 0, distance - CLEARANCE, distance + CLEARANCE)
            values = np.where(np.abs(distance) < CLEARANCE, pushed, values)
        return np.asarray(values, dtype=self.dtype)

    def distinct(self, *shapes: tuple[int, ...]) -> Any:
        """Draw an array of each shape; the values of all arrays are at least CLEARANCE apart."""
        sizes = [int(np.prod(shape)) for shape in shapes]
        grid = self.rng.permutation(sum(sizes)) - sum(sizes) / 2 + self.rng.uniform(-0.2, 0.2, sum(sizes))
        pieces = np.split(2.5 * CLEARANCE * grid, np.cumsum(sizes)[:-1])
        arrays = [np.asarray(p.reshape(s), dtype=self.dtype) for p, s in zip(pieces, shapes, strict=True)]
        return arrays[0] if len(arrays) == 1 else arrays

    def indices(self, shape: tuple[int, ...], size: int, *, negative: bool = False) -> np.ndarray:
        """Draw indices into `size` elements. If `negative` is true, some indices are negative."""
        low = -size if negative else 0
        return np.asarray(self.rng.integers(low, size, shape) if size else np.zeros(shape, int), dtype=np.int64)

    def mask(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.asarray(self.rng.random(shape) < 0.5)


@dataclass
class OpSpec:
    """The properties of one public op that gradcheck and the tests need.

    Attributes:
        draw: a function from a Draw to a Sample.
        function: the op, called with the sample's arguments; the result is a Tensor or a tuple of them.
        reference: the same function, written in NumPy without regard to speed.
        analytic: whether the reference accepts complex numbers and is analytic in the differentiable arguments. The
            gradient of an analytic function is checked by complex step.
        second_order: whether the gradient can be differentiated again.
        views: whether the result may share memory with an input.
        ulps: tolerated difference from the reference, in units in the last place (ulp) of the reference's largest
            element.
    """

    name: str
    draw: Callable[[Draw], Sample]
    function: Callable[..., Any]
    reference: Callable[..., Any]
    analytic: bool = True
    second_order: bool = True
    views: bool = False
    ulps: float = 32.0

    def samples(self, rng: np.random.Generator, dtype: Any = np.float64, count: int = 10) -> Iterator[Sample]:
        """Yield `count` random samples. The state of `rng` determines them."""
        for _ in range(count):
            yield self.draw(Draw.seeded(rng, dtype))


CATALOGUE: dict[str, OpSpec] = {}


def spec(
    name: str,
    *,
    least: int = 0,
    most: int = 3,
    empty: bool = True,
    adapt: Callable[[Any], Any] = lambda function: function,
    **facts: Any,
) -> Callable[[Arguments], Arguments]:
    """Return a decorator that enters the inputs of the op `name` into CATALOGUE.

    The decorated function draws the arguments of a call from a Draw and a shape. It returns a tuple, in which a
    dictionary at the end has the keyword arguments, or a Sample.

    Args:
        least, most, empty: the arguments of `Draw.shape` for the shape.
        adapt: function that converts the op, and its reference, to one that accepts the drawn arguments.
        facts: other attributes of OpSpec.
    """

    def enter(arguments: Arguments) -> Arguments:
        def draw(d: Draw) -> Sample:
            found = arguments(d, d.shape(least, most, empty=empty))
            if isinstance(found, Sample):
                return found
            return Sample(found[:-1], found[-1]) if isinstance(found[-1], dict) else Sample(found)

        op = OPS[name]
        callables = {"function": adapt(op.function), "reference": adapt(facts.pop("reference", op.reference))}
        CATALOGUE[name] = OpSpec(name, draw, **callables, **facts)
        return arguments

    return enter


def with_seed(function: Any) -> Any:
    """Return `function` with an argument `seed` instead of `generator`, so that every call draws the same numbers."""
    return lambda *args, seed=0, **kwargs: function(*args, generator=Generator(seed), **kwargs)
