"""Compiled loops (Numba, the extra `fast`) are optional and equal the plain code for any number of threads."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from handloom.autograd import Generator, Tensor, explain, ops
from handloom.autograd.catalogue import CATALOGUE
from handloom.autograd.fast import compiled, parallel
from handloom.autograd.ops.erf import erf_array
from tests.support.implementations import compare_forms, names_with, samples_of

needs_numba = pytest.mark.skipif(find_spec("numba") is None, reason="needs Numba: pip install numba")


@pytest.fixture
def for_small_arrays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MIN_ARRAY_SIZE", 0)


@needs_numba
@pytest.mark.parametrize("name", names_with("compiled"))
def test_compiled_equals_plain(name: str, for_small_arrays_too: None) -> None:
    served = 0
    for sample in samples_of(name, np.float32, 25):
        told = explain(CATALOGUE[name].function, *sample.args, **sample.kwargs)
        served += "  compiled  selected" in told
        compare_forms(CATALOGUE[name], sample)
    assert served > 5


@needs_numba
def test_bits_do_not_depend_on_the_threads(restored_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix products here do not depend on the threads: attention multiplies each head separately, and products
    with ones and zeros are exact. The dropout masks and the sums over rows are computed in several parts.
    """
    monkeypatch.setattr(parallel, "PART_NS", 1)  # one item justifies a thread

    def bits(count: int) -> dict[str, bytes]:
        parallel.set_num_threads(count)
        rng = np.random.default_rng(0)
        sizes = (5000, 64), (5000, 64), 64, 64, (6, 4, 100, 16)
        leaves = [Tensor(rng.normal(size=size).astype(np.float32), requires_grad=True) for size in sizes]
        x, residual, weight, bias, heads = leaves
        dropped = ops.dropout(x, 0.3, generator=Generator(1))
        y = ops.residual_layer_norm(dropped, residual, weight, bias, 0.2, generator=Generator(2))
        target, identity = np.arange(5000) % 64, Tensor(np.eye(64, dtype=np.float32))
        loss = ops.linear_cross_entropy(y, identity, None, target, label_smoothing=0.1)
        loss_of_logits = ops.cross_entropy(y, target, label_smoothing=0.1)
        attended = ops.attention(heads, heads, heads, causal=True, dropout=0.3, generator=Generator(3))
        for name, arguments in (
            ("residual_layer_norm", (dropped, residual, weight, bias)),
            ("linear_cross_entropy", (y, identity, None, target)),
            ("attention", (heads, heads, heads)),
        ):
            assert "  compiled  selected" in explain(name, *arguments)
        (loss + loss_of_logits + (attended * attended).sum()).backward()
        results = {"dropout": dropped, "norm": y, "loss": loss, "loss of logits": loss_of_logits, "attention": attended}
        found = {name: result.data.tobytes() for name, result in results.items()}
        return found | {f"gradient {number}": leaf.grad.tobytes() for number, leaf in enumerate(leaves)}

    one, three = bits(1), bits(3)
    assert [name for name in one if one[name] != three[name]] == []


@needs_numba
def test_the_exponential_and_its_edges() -> None:
    exponential = compiled.loops().exponential
    x = np.linspace(-87.3, 0, 100_001, dtype=np.float32)
    found = np.array([exponential(value) for value in x], np.float64)
    exact = np.exp(x.astype(np.float64))
    assert (np.abs(found - exact) / exact).max() < 5e-7
    assert exponential(np.float32(0)) == 1
    assert exponential(np.float32(-88)) == exponential(np.float32(-np.inf)) == 0
    assert np.isnan(exponential(np.float32(np.nan)))


@needs_numba
def test_the_error_function_and_its_edges(for_small_arrays_too: None) -> None:
    edges = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40, -1, 1, 6, 7e30], np.float32)
    x = np.concatenate([edges, np.linspace(-7, 7, 2003, dtype=np.float32)])
    found, plain = (form(np.stack([x, x], 1)[:, 1]) for form in (erf_array, erf_array.__wrapped__))
    np.testing.assert_allclose(found, plain, rtol=5e-7)
    assert (np.signbit(found) == np.signbit(plain)).all()


@needs_numba
def test_nan_and_infinity_stay_visible(for_small_arrays_too: None) -> None:
    x, weight = np.ones((3, 4), np.float32), np.ones((5, 4), np.float32)
    x[1, 2] = np.nan
    assert np.isnan(ops.linear_cross_entropy(x, weight, None, np.array([0, 1, 2])).data)
    bias = np.array([0, 0, -np.inf, 0, 0], np.float32)  # a class that can't occur
    assert np.isfinite(ops.linear_cross_entropy(weight, weight, bias, np.array([0, 1, 0, 3, 4])).data)
    ones, mask = np.ones((1, 1, 2, 4), np.float32), np.array([[True, False], [False, False]])
    assert ops.attention(ones, ones, ones, mask=mask).data[0, 0].tolist() == [[1] * 4, [0] * 4]
    assert np.isnan(ops.attention(ones * np.float32(np.nan), ones, ones).data).all()
    assert np.isnan(ops.layer_norm(x, weight[0], weight[0]).data[1]).all()
    assert np.isnan(ops.linear_activation(x, weight, None).data[1]).all()


def test_the_environment_can_leave_loops_out() -> None:
    code = "from handloom.autograd.fast import compiled; print(compiled.missing())"
    environment = {**os.environ, "HANDLOOM_COMPILED": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "HANDLOOM_COMPILED=0 leaves it out", done.stderr


@needs_numba
def test_freshly_compiled_and_cached_loops_give_the_same_bits(tmp_path: Path) -> None:
    script = """if True:
        import zlib, numpy as np
        from handloom.autograd import Tensor, ops
        draw = np.random.default_rng(0).standard_normal
        x, weight = (Tensor(draw(shape, np.float32), requires_grad=True) for shape in ((64, 32), (1000, 32)))
        ops.linear_cross_entropy(x, weight, None, np.arange(64)).backward()
        print(zlib.crc32(x.grad.tobytes()), zlib.crc32(weight.grad.tobytes()))
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script]
    fresh, cached = (subprocess.run(command, env=environment, capture_output=True, check=True) for _ in range(2))
    assert list(tmp_path.rglob("*cross_entropy*.nbc"))
    assert fresh.stdout == cached.stdout
