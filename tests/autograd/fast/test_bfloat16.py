"""Products in bfloat16: the rounding, the product by the processor's instructions and its plain form, and the ops."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Tensor, bfloat16_products, ops, plain
from handloom.autograd.bfloat16 import bfloat16_carried_out, rounded
from handloom.autograd.fast import products
from handloom.autograd.fast.parallel import get_num_threads, set_num_threads

EPS = 2.0**-24  # the largest relative error of a float32 operation
SMALLEST = 2.0**-126  # the instructions take smaller numbers for zero
needs_instructions = pytest.mark.skipif(products.no_instructions() is not None, reason=str(products.no_instructions()))


@pytest.fixture(params=["instructions", "hidden"])
def carrier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compute the products by the processor's instructions, or as where it has none."""
    if request.param == "instructions" and (why := products.no_instructions()):
        pytest.skip(why)
    if request.param == "hidden":
        monkeypatch.setattr(products, "no_instructions", lambda: "this processor has no AVX512-BF16")
    return str(request.param)


def test_numbers_are_rounded_to_the_nearest_bfloat16_and_ties_to_even(carrier: str) -> None:
    """The instructions show their rounding by a product with 1, in which subnormal numbers become 0."""
    expected = {
        0x3F80_0000: 0x3F80, 0x3F80_7FFF: 0x3F80, 0x3F80_8000: 0x3F80, 0x3F80_8001: 0x3F81, 0x3F81_8000: 0x3F82,
        0xBF81_8000: 0xBF82, 0x3FFF_FFFF: 0x4000, 0x0000_0000: 0x0000, 0x0000_8000: 0x0000, 0x7F7F_FFFF: 0x7F80,
        0x007F_FFFF: 0x0080, 0x7F7F_7FFF: 0x7F7F, 0x7F80_0000: 0x7F80, 0xFF80_0000: 0xFF80,
    }  # fmt: skip
    subnormal = {0x0000_8001: 0x0001, 0x0001_8000: 0x0002, 0x8001_8000: 0x8002}
    nans = np.array([0x7F80_0001, 0x7FFF_FFFF, 0xFFFF_FFFF], np.uint32).view(np.float32)

    def by_products(x: np.ndarray) -> list[np.ndarray]:
        one, out = np.ones((1, 1), np.float32), [np.empty((len(x), 1), np.float32), np.empty((1, len(x)), np.float32)]
        with bfloat16_products(), np.errstate(invalid="ignore"):
            products.multiply(x[:, None], one, out[0])
            products.multiply(one, x[None], out[1])
        return [array.reshape(-1) for array in out]

    for table in (expected, subnormal):
        bits, right = np.array(list(table), np.uint32), list(table.values())
        found = by_products(bits.view(np.float32))
        for numbers in [rounded(bits.view(np.float32)), *(found if table is expected else [])]:
            np.testing.assert_array_equal(numbers.view(np.uint32), np.array(right, np.uint32) << 16)
        assert all((abs(numbers) <= SMALLEST).all() for numbers in found if table is subnormal)
    assert np.isnan([rounded(nans), *by_products(nans)]).all()


def operands(m: int, k: int, n: int, turned: tuple[bool, bool]) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(m + 3 * k + 7 * n)

    def matrix(rows: int, columns: int, turn: bool) -> np.ndarray:
        return matrix(columns, rows, False).T if turn else generator.standard_normal((rows, columns), np.float32)

    return matrix(m, k, turned[0]), matrix(k, n, turned[1])


def exact_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact product of the rounded operands, and a bound for the error of float32 sums."""
    a, b = rounded(a).astype(np.float64), rounded(b).astype(np.float64)
    return a @ b, 1.01 * EPS * (a.shape[1] + 2) * (abs(a) @ abs(b))


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 1, 1),
        (6, 2, 64),
        (7, 5, 3),
        (96, 64, 64),
        (97, 129, 65),
        (113, 203, 130),
        (3, 2051, 70),
        (3, 0, 4),
        (0, 3, 4),
        (3, 4, 0),
    ],
)
def test_a_product_of_any_shape_has_the_error_of_float32_sums(
    sizes: tuple[int, int, int], turned: tuple[bool, bool], carrier: str
) -> None:
    a, b = operands(*sizes, turned)
    exact, bound = exact_product(a, b)
    out = np.full(exact.shape, np.nan, np.float32)
    with bfloat16_products():
        products.multiply(a, products.right_operand(b), out)
        assert (abs(out - exact) <= bound).all()
        products.multiply(a, b, out, add=True)
    assert (abs(out - 2 * exact) <= 3 * bound).all()


def test_parts_of_larger_arrays_are_multiplied_and_nothing_else_is_written(carrier: str) -> None:
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal((60, 150), np.float32) for _ in range(2))
    out = np.zeros((60, 150), np.float32)
    with bfloat16_products():
        products.multiply(a[1:41:2, 3:103], b[::-1, 2:142:2][:40].T[:70].T[:, ::-1].repeat(3, 0)[:100], out[5:25, 7:77])
    exact, bound = exact_product(a[1:41:2, 3:103], b[::-1, 2:142:2][:40][:, ::-1].repeat(3, 0)[:100])
    assert (abs(out[5:25, 7:77] - exact) <= bound).all()
    out[5:25, 7:77] = 0
    assert not out.any()


@needs_instructions
def test_the_bits_of_a_product_do_not_depend_on_the_threads() -> None:
    a, b = operands(260, 515, 200, (False, True))
    found = []
    before = get_num_threads()
    try:
        for threads in (1, 2, 3, 7):
            set_num_threads(threads)
            with bfloat16_products():
                found.append((a @ Tensor(b)).numpy().tobytes())
    finally:
        set_num_threads(before)
    assert len(set(found)) == 1


def test_infinities_and_nans_come_out_where_they_must_and_subnormals_count_for_little(carrier: str) -> None:
    a, b = operands(14, 9, 70, (False, False))
    a[0, 0], a[1, 1], a[2, 2], b[4, 5] = np.inf, -np.inf, np.nan, np.inf
    a[3] *= np.float32(1e-39)
    with np.errstate(invalid="ignore"), bfloat16_products():
        found = ops.matmul(a, b).numpy()
        exact, _ = exact_product(a, b)
    others, fine = np.arange(14) != 3, np.arange(70) != 5  # for the instructions a subnormal times infinity is NaN
    np.testing.assert_array_equal(np.isnan(found[others]), np.isnan(exact[others]))
    np.testing.assert_array_equal(np.isinf(found[others]), np.isinf(exact[others]))
    assert (abs(found[3, fine] - exact[3, fine]) <= 9 * 4 * SMALLEST).all()


def test_where_the_instructions_are_missing_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "no_instructions", lambda: "this processor has no AVX512-BF16")
    assert bfloat16_carried_out() == (
        "rounds the operands and multiplies in float32, which is slower than fp32 (this processor has no AVX512-BF16)"
    )
    monkeypatch.setattr(products, "no_instructions", lambda: None)
    assert bfloat16_carried_out() == "multiplies by the processor's AVX512-BF16 instructions"


# -- ops ---------------------------------------------------------------------------------------------------------------

Loss = Callable[..., Any]
TARGET = np.random.default_rng(1).integers(0, 150, (9, 11))
#: Ops and the shapes of their operands.
OPS: dict[str, tuple[Loss, list[tuple[int, ...]]]] = {
    "linear": (ops.linear, [(9, 11, 70), (150, 70), (150,)]),
    "linear of one row": (ops.linear, [(1, 70), (150, 70)]),
    "linear_activation": (ops.linear_activation, [(9, 11, 70), (190, 70), (190,)]),
    "gelu": (lambda *x: ops.linear_activation(*x, activation="gelu"), [(9, 11, 70), (190, 70), (190,)]),
    "linear_cross_entropy": (
        lambda *x: ops.linear_cross_entropy(*x, TARGET, label_smoothing=0.1, block_rows=40),
        [(9, 11, 70), (150, 70), (150,)],
    ),
    "matmul": (ops.matmul, [(99, 70), (70, 150)]),
    "matmul of a stack with a matrix": (ops.matmul, [(3, 20, 70), (70, 30)]),
}  # fmt: skip


def gradients(op: Loss, arrays: list[np.ndarray], g: np.ndarray, **blocks: bool) -> list[np.ndarray]:
    tensors = [Tensor(array, requires_grad=True) for array in arrays]
    with bfloat16_products(**blocks):
        out = op(*tensors)
        out.backward(g.astype(out.dtype).reshape(out.shape))
    return [out.numpy(), *(tensor.grad for tensor in tensors)]


@pytest.mark.parametrize("name", OPS)
def test_results_and_gradients_err_at_most_twice_as_much_as_by_plain_rounding(name: str, carrier: str) -> None:
    op, shapes = OPS[name]
    generator = np.random.default_rng(len(name))
    arrays = [generator.standard_normal(shape) / shape[-1] ** 0.5 for shape in shapes]
    with bfloat16_products(False):
        shape = op(*map(Tensor, arrays)).shape
    g = generator.standard_normal(shape)
    exact = gradients(op, arrays, g)  # float64 isn't rounded
    narrow = [array.astype(np.float32) for array in arrays]
    with plain():
        by_rounding = gradients(op, narrow, g)
    found, unrounded = gradients(op, narrow, g), gradients(op, narrow, g, on=False)
    for mine, plainly, true, without in zip(found, by_rounding, exact, unrounded, strict=True):
        error, allowed = (float(np.linalg.norm(x - true) / np.linalg.norm(true)) for x in (mine, plainly))
        assert error <= 2 * allowed + 1e-6
        assert error < 2**-4  # a unit near 0 may pass ReLU on one side only
        assert mine.ndim == 1 or name == "linear_cross_entropy" or np.any(mine != without)  # it was rounded


def test_stacks_of_matrices_and_other_numbers_than_float32_are_not_rounded() -> None:
    x, y = (np.random.default_rng(0).standard_normal((3, 20, 20), np.float32) for _ in range(2))
    a, b = (np.random.default_rng(0).standard_normal((20, 20)) for _ in range(2))
    with bfloat16_products():
        np.testing.assert_array_equal(ops.matmul(a, b).numpy(), a @ b)
        np.testing.assert_array_equal(ops.matmul(x, y).numpy(), x @ y)
        half = ops.matmul(a.astype(np.float16), b.astype(np.float16)).numpy()
    np.testing.assert_array_equal(half, a.astype(np.float16) @ b.astype(np.float16))
