"""Test screened logits: the bounds hold, and greedy search finds the same tokens as with all logits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handloom.autograd import manual_seed
from handloom.autograd.fast import mkl
from handloom.models import Rules, Seq2SeqConfig, Seq2SeqTransformer, greedy_search
from handloom.models.generation.fast import affine, screening
from handloom.models.generation.fast.screening import Screen, logit_bounds, quantise
from tests.support.decoding import needs_numba


def weights(vocabulary: int, features: int, seed: int, outliers: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return float32 weights (vocabulary, features) and biases (vocabulary,), some much larger with `outliers`."""
    rng = np.random.default_rng(seed)
    weight, bias = rng.normal(size=(vocabulary, features)), rng.normal(size=vocabulary)
    if outliers:
        weight *= np.exp(rng.normal(size=(vocabulary, 1)))
        weight[rng.random(weight.shape) < 0.02] *= 30
    return weight.astype(np.float32), bias.astype(np.float32)


@given(
    features=st.sampled_from([1, 3, 64]),
    scale=st.sampled_from([1e-30, 1e-3, 1.0, 1e4]),
    outliers=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_bounds_hold(features, scale, outliers, seed) -> None:
    """The bounds hold for logits in float64 and for logits in float32."""
    plain = getattr(logit_bounds, "py_func", logit_bounds)
    weight, bias = weights(70, features, seed, outliers)
    x = (scale * weights(3, features, seed + 1, outliers)[0]).astype(np.float32)
    screen, (q, t, u) = Screen(weight, bias), quantise(x)
    assert np.abs(x - (q * t[:, None] + u)).max() <= 1e-6 * np.abs(x).max()
    sizes = np.stack([t, np.linalg.norm(x, axis=1), np.linalg.norm(u, axis=1) + 1e-6 * np.linalg.norm(x, axis=1)])
    products = (q.astype(np.int32) + screening.OFFSET) @ screen.integers.T.astype(np.int32)
    upper, lower, one = np.empty((3, 70), np.float32), np.full(3, -np.inf, np.float32), np.empty(3, np.float32)
    layer = screen.added, screen.layer
    plain(products, *layer, np.zeros(70, np.float32), sizes.astype(np.float32), upper, lower)
    for logits in (x.astype(np.float64) @ weight.T + bias, x @ weight.T + bias):
        assert (upper >= logits).all()
        assert (lower <= logits.max(axis=1)).all()
    for token in range(0, 70, 9):
        one[:], counts = -np.inf, np.full(70, -np.inf, np.float32)
        counts[token] = 0
        plain(products, *layer, counts, sizes.astype(np.float32), upper, one)
        assert (one <= x @ weight[token] + bias[token]).all()


@pytest.fixture(params=["loop", "MKL"])
def products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Select the code that multiplies the integers. Without MKL, a compiled function replaces MKL's."""
    if request.param == "loop":
        monkeypatch.setattr(mkl, "multiplies_bytes", lambda: False)
        monkeypatch.setattr(screening, "MAX_ROWS", 40)
        return request.param
    if mkl.multiplies_bytes():
        return request.param
    from numba import carray, cfunc, types

    whole, byte, real = types.int32, types.int8, types.float32
    operand = types.CPointer(types.uint8), whole, byte, types.CPointer(byte), whole, byte
    kinds = [*[whole] * 7, real, *operand, real, types.CPointer(whole), whole, types.CPointer(whole)]

    @cfunc(types.void(*kinds))
    def gemm(layout, trans_a, trans_b, offset, m, n, k, alpha, a, lda, ao, b, ldb, bo, beta, c, ldc, co):
        right = layout == 101 and trans_a == 111 and trans_b == 112 and offset == 173 and alpha == 1 and beta == 0
        right = right and ao == 0 and bo == 0 and co[0] == 0
        x, w, y = carray(a, (m, lda)), carray(b, (n, ldb)), carray(c, (m, ldc))
        for i in range(m):
            for j in range(n):
                total = 0
                for t in range(k):
                    total += types.int32(x[i, t]) * types.int32(w[j, t])
                y[i, j] = total if right else 0

    monkeypatch.setattr(mkl, "multiplies_bytes", lambda: True)
    monkeypatch.setattr(mkl, "address", lambda name: gemm.address)
    return request.param


def check(screen: Screen, x: np.ndarray, may_ban: tuple[int, ...] = ()) -> np.ndarray:
    """Compare screened logits, in rows with gaps, with all logits; return how many per row are not -inf."""
    expected = x @ screen.weight.T + screen.bias
    buffer = np.full((len(x), len(screen.bias) + 5), 7, np.float32)
    found = buffer[:, :-5]
    assert screen(x, found, may_ban)
    assert (buffer[:, -5:] == 7).all()
    kept = np.isfinite(found)
    np.testing.assert_allclose(found[kept], expected[kept], rtol=1e-4, atol=1e-4)
    for ruled_out in ((), may_ban, may_ban[:1]):
        some = found.copy()
        some[:, list(ruled_out)] = expected[:, list(ruled_out)] = -np.inf
        np.testing.assert_array_equal(some.argmax(axis=1), expected.argmax(axis=1))
        expected = x @ screen.weight.T + screen.bias
    return kept.sum(axis=1)


@needs_numba
@pytest.mark.usefixtures("products")
@settings(max_examples=12)
@given(rows=st.sampled_from([1, 2, 9, 40]), vocabulary=st.sampled_from([2048, 9001]), seed=st.integers(0, 30))
def test_the_largest_is_among_few(rows, vocabulary, seed) -> None:
    weight, bias = weights(vocabulary, 64, seed)
    x = weights(rows, 64, seed + 1)[0]
    screen = Screen(weight, bias)
    best = np.argsort(x[0] @ weight.T + bias)
    assert check(screen, x).max() < vocabulary // screening.MIN_TOKENS_PER_CANDIDATE
    assert check(screen, x, tuple(best[-3:])).min() >= 1


@needs_numba
@pytest.mark.usefixtures("products")
def test_too_many_candidates_and_odd_numbers_are_refused() -> None:
    weight, bias = weights(2048, 64, 0)
    x, logits = weights(2, 64, 1)[0], np.empty((2, 2048), np.float32)
    assert Screen(weight, bias)(x, logits, ())
    assert not Screen(weight, bias)(x, logits.copy(), range(2048))  # no lower bound counts
    assert not Screen(np.ones_like(weight), 0 * bias)(x, logits, ())  # all logits are equal
    for number in (np.nan, np.inf, 1e38):
        odd = x.copy()
        odd[1, 3] = number
        assert not Screen(weight, bias)(odd, logits, ())
        odd_weight, odd_bias = weight.copy(), bias.copy()
        odd_weight[5, 5] = odd_bias[7] = number
        assert not Screen(odd_weight, bias)(x, logits, ())
        assert not Screen(weight, odd_bias)(x, logits, ())
    assert Screen(0 * weight, bias)(0 * x, logits, ())
    assert (logits.argmax(axis=1) == bias.argmax()).all()


@needs_numba
@pytest.mark.usefixtures("products")
@pytest.mark.parametrize(("of_weights", "of_x"), [(1e-42, 1e20), (1e-38, 1e-3), (1e-10, 1e-30), (1e35, 1e-38)])
@pytest.mark.parametrize("features", [1, 3, 64])
def test_numbers_at_the_ends_of_float32(features, of_weights, of_x) -> None:
    """If scales or products lose digits or underflow, screening finds the largest logit or refuses the input."""
    weight = (of_weights * weights(4096, features, 0)[0].astype(np.float64)).astype(np.float32)
    x = (of_x * weights(6, features, 1)[0].astype(np.float64)).astype(np.float32)
    found = np.empty((6, 4096), np.float32)
    if Screen(weight, np.zeros(4096, np.float32))(x, found, ()):
        exact = x.astype(np.float64) @ weight.T.astype(np.float64)
        at_found = np.take_along_axis(exact, found.argmax(axis=1)[:, None], axis=1)
        np.testing.assert_allclose(at_found[:, 0], exact.max(axis=1), rtol=1e-5)


@needs_numba
@pytest.mark.usefixtures("products")
def test_x_in_any_order() -> None:
    weight, bias = weights(4096, 64, 0)
    x, screen = weights(5, 64, 1)[0], Screen(weight, bias)
    some = np.asfortranarray(x), x[::-1], x[:, ::-1], np.repeat(x, 2, axis=1)[:, ::2], x[:0]
    for other in (*some, x.astype(np.float64)):
        check(screen, other)


@needs_numba
def test_without_mkl_only_few_rows_are_screened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mkl, "multiplies_bytes", lambda: False)
    weight, bias = weights(4096, 64, 0)
    x, screen = weights(screening.MAX_ROWS + 1, 64, 1)[0], Screen(weight, bias)
    logits = np.empty((screening.MAX_ROWS + 1, 4096), np.float32)
    assert screen(x[:-1], logits[:-1], ())
    assert not screen(x, logits, ())


@needs_numba
@pytest.mark.usefixtures("products")
@pytest.mark.parametrize(
    "rules",
    [
        Rules(1, 2, max_length=12),
        Rules(1, 2, min_length=9, max_length=12),
        Rules(1, 2, min_length=3, max_length=12, forbidden=tuple(range(0, 3000, 2)), forced_last=2),
        Rules(1, 2, max_length=12, no_repeat_ngram=1),
        Rules(1, 2, max_length=12, repetition_penalty=2.0),
        Rules(1, 2, max_length=12, prefix=[[5], [7, 8, 9], []]),
        Rules(1, None, max_length=12),
    ],
)
def test_greedy_search_finds_the_same(rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affine, "MIN_WEIGHTS", 0)
    monkeypatch.setattr(screening, "MIN_WEIGHTS", 0)
    screened: list[bool] = []
    original = Screen.__call__
    monkeypatch.setattr(Screen, "__call__", lambda *given: screened.append(original(*given)) or screened[-1])
    manual_seed(0)
    sizes = {"d_model": 32, "nhead": 2, "encoder_layers": 1, "decoder_layers": 2, "dim_feedforward": 64}
    model = Seq2SeqTransformer(Seq2SeqConfig(3000, 3000, max_length=20, **sizes)).eval()
    model.output.bias.data[:] = np.random.default_rng(0).normal(size=3000)
    source = np.random.default_rng(1).integers(4, 3000, (3, 6))
    decoder = model.raw_decoder()
    plain = greedy_search(model.start(source, decoder=decoder), rules)
    assert not screened  # scores need all logits
    found = greedy_search(model.start(source, decoder=decoder), rules, scores=False)
    assert [one.ids for one in found] == [one.ids for one in plain]
    assert all(screened)
    assert bool(screened) == (rules.ruled_out is not None)
