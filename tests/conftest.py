"""Settings that every test shares: hypothesis profiles and a non-interactive plotting backend."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from handloom.autograd import Generator, manual_seed
from handloom.autograd.backend import DeviceError, check_device, import_cupy
from handloom.autograd.fast import parallel
from handloom.autograd.kernels.attention import device_kernels
from tests.support.cuda_emulator import compiler_missing
from tests.support.fake_cupy import installed
from tests.support.philox import keep_mask
from tests.support.pictures import plot_nothing

matplotlib.use("Agg")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts background jobs with SIGINT ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "derandomize": True}
settings.register_profile("default", max_examples=25, **_COMMON)
settings.register_profile("thorough", max_examples=250, **_COMMON)
settings.register_profile("search", max_examples=200, **{**_COMMON, "derandomize": False})
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
#: All tests in these folders start programs, emulate a GPU or drive a browser. Other slow files have their own marks.
SLOW_FOLDERS = [Path(__file__).parent / name for name in ("autograd/kernels", "examples", "explorer")]


@pytest.hookimpl(tryfirst=True)  # before `-m "not slow"` selects the tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in SLOW_FOLDERS):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def threads_of_blas() -> Iterator[None]:
    """Check that the number of BLAS's threads, which belongs to the process, is after each test what it was before."""
    before = parallel._get_blas_threads and parallel._get_blas_threads()
    yield
    assert before == (parallel._get_blas_threads and parallel._get_blas_threads())


@pytest.fixture
def counted_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make dropout on the CPU draw the same masks as the kernels."""

    def mask(self: Generator, shape: tuple[int, ...], drop: float) -> tuple[np.ndarray, float]:
        threshold = round(drop * 65536)
        scale = 65536 / (65536 - threshold) if threshold < 65536 else 0.0
        seed, call = self.next_call(np.empty(0))
        return keep_mask(int(seed[0]), call, shape, threshold), scale

    monkeypatch.setattr(Generator, "keep_mask", mask)


@pytest.fixture
def fake_cupy() -> Iterator[Any]:
    """Replace CuPy by the stand-in, which `import cupy` then finds. Device "cuda" can be used."""
    if compiler_missing():
        pytest.skip(str(compiler_missing()))
    with installed() as cupy:
        yield cupy


@pytest.fixture
def restored_threads() -> Iterator[None]:
    """Restore the number of threads after a test that sets it."""
    yield
    parallel.set_num_threads(None)


@pytest.fixture(scope="module")
def quick_pictures() -> Iterator[None]:
    """Write loss.png of each run without drawing it, for tests that train many times and need no picture."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handloom.train.callbacks.plot_losses", plot_nothing)
        yield


@pytest.fixture(params=["stand-in", pytest.param("gpu", marks=pytest.mark.gpu)])
def cuda(request: pytest.FixtureRequest) -> Any:
    """Return the module `cupy`: the stand-in, and with `-m gpu` the installed CuPy. Device "cuda" can be used."""
    if request.param == "stand-in":
        return request.getfixturevalue("fake_cupy")
    try:
        check_device("cuda")
    except DeviceError as error:
        pytest.skip(str(error))
    refused = device_kernels(0).why_not_here()
    if refused and request.node.callspec.params.get("method") == "fused":
        pytest.skip(refused)
    return import_cupy()


@pytest.fixture(autouse=True)
def same_numbers(request: pytest.FixtureRequest) -> None:
    """Seed handloom's generator, and reset the generator RNG of a module, before each test: no other test matters."""
    manual_seed(0)
    if hasattr(request.module, "RNG"):
        request.module.RNG = np.random.default_rng(2)
