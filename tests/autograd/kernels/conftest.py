"""The devices of the kernel tests: the emulator with both orders of threads and in checked mode, and a GPU."""

from collections.abc import Iterator
from typing import Any

import pytest

from handloom.autograd.backend import DeviceError, import_cupy
from tests.support.fake_cupy import kernels

_MODES = {"in order": (0, False), "reversed": (1, False), "checked": (2, True)}


@pytest.fixture(params=[*_MODES, pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request: Any) -> Iterator[Any]:
    """Yield the module of the device's arrays: the stand-in for CuPy, or CuPy."""
    if request.param == "gpu":
        try:
            yield import_cupy()
        except DeviceError as error:
            pytest.skip(str(error))
        return
    with kernels.mode(*_MODES[request.param]):
        yield request.getfixturevalue("fake_cupy")
