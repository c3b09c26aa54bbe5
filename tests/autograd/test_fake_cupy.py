"""The stand-in for CuPy has what handloom uses of the real package, and raises an error where a GPU would fail."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from handloom.autograd import Tensor
from tests.support.fake_cupy import contract, cupyx
from tests.support.fake_cupy import cupy as stand_in
from tests.support.fake_cupy.signatures import ATTRIBUTES, CONSTANTS, DTYPES, FREE_METHODS, FUNCTIONS, METHODS, UFUNCS

#: Names of cupy.cuda that the package uses without writing them in full.
CUDA = [
    "Stream.begin_capture", "Stream.end_capture", "Stream.is_capturing", "MemoryPool.total_bytes",
    "MemoryPool.free_all_blocks", "using_allocator", "graph.Graph.launch", "Device.attributes",
    "Device.compute_capability", "runtime.getDeviceProperties", "runtime.runtimeGetVersion", "runtime.driverGetVersion",
]  # fmt: skip


@pytest.fixture(scope="module", params=["installed", "13"])
def real(request, tmp_path_factory):
    """Return what CuPy offers: the installed CuPy, asked in a process of its own, and CuPy 13, from its record."""
    if request.param == "13":
        return json.loads(contract.RECORD.read_text(encoding="utf-8"))
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not installed: pip install cupy-cuda13x (no GPU is needed)")
    folder = tmp_path_factory.mktemp("cupy")
    environment = {**os.environ, "CUPY_CACHE_DIR": str(folder)}
    command = [sys.executable, "-m", "tests.support.fake_cupy.contract", str(folder / "offered.json")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "offered.json").read_text(encoding="utf-8"))


def test_every_name_that_the_package_uses_is_there(real) -> None:
    used = contract.names_in_package()
    assert {"cupy.asarray", "cupy.cuda.Stream.null", "cupy.cuda.MemoryPool"} <= {*used}
    used += [f"cupy.cuda.{name}" for name in CUDA] + ["cupyx.allow_synchronize", "cupyx.DeviceSynchronized"]
    used += ["cupy.RawKernel.max_dynamic_shared_size_bytes"]
    assert [name for name in used if not contract.has(real, name)] == []


def test_an_operator_between_a_device_array_and_a_tensor_is_the_tensors(real) -> None:
    """CuPy defers to an operand that has no `__array_ufunc__` and a higher priority."""
    assert real["priority"] < Tensor.__array_priority__
    assert not hasattr(Tensor, "__array_ufunc__")


def test_every_name_is_cupy_s_with_the_same_parameters(real) -> None:
    for name, parameters in FUNCTIONS.items():
        theirs, own = real["functions"][name], [x for x in parameters if x != "kwargs"]
        assert [x for x in theirs if x in own] == own or "kwargs" in theirs, f"{name}: {theirs}"
    assert {*UFUNCS} <= {*real["ufuncs"]}
    names = {*CONSTANTS, *DTYPES, *FREE_METHODS, *ATTRIBUTES, "bool_", "shape", "ndim", "size"}
    assert names <= {*real["names"]["cupy"], *real["names"]["cupy.ndarray"]}


def test_methods_take_what_cupy_s_take(real) -> None:
    for name, parameters in METHODS.items():
        line = real["methods"][name]
        assert {*parameters} <= {*contract.parameters_in(line)}, line


def test_kernels_are_called_as_cupy_s(real) -> None:
    module, call = real["kernels"]
    assert "code=None" in module
    assert "options" in module
    assert "__call__(self, grid, block, args, " in call


def test_the_array_has_no_operator_that_cupy_lacks(real) -> None:
    class Plain:  # with the names that this Python gives to every class
        __slots__ = ("__weakref__", "x")
        x: int

    own = {name for name in dir(stand_in.ndarray) if name.startswith("__")} - set(dir(Plain))
    assert own <= set(real["dunders"])


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, y: x + y,
        lambda x, y: y + x,
        lambda x, y: x.__iadd__(y),
        lambda x, y: stand_in.where(x > 0, x, y),
        lambda x, y: stand_in.concatenate([x, y]),
        lambda x, y: x[y.astype(int)],
        lambda x, y: np.add(x, y),
        lambda x, y: np.concatenate([x, y]),
        lambda x, y: x.__setitem__(slice(None), y),
        lambda x, y: stand_in.exp(x, out=y),
        lambda x, y: np.asarray(x),
        lambda x, y: np.add.reduce(x),
        lambda x, y: stand_in.add(x, [1, 2, 3]),
        lambda x, y: stand_in.where(True, x, x),
    ],
)
def test_no_numpy_array_gets_in_or_out_unasked(mix) -> None:
    with pytest.raises((TypeError, AttributeError)):
        mix(stand_in.arange(3, dtype=np.float32), np.arange(3, dtype=np.float32))


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: float(x.sum()),
        lambda x: x.sum().item(),
        lambda x: bool((x > 0).any()),
        lambda x: int(x[0]),
        lambda x: x.get(),
        lambda x: x.tolist(),
        lambda x: x[x > 1],
        lambda x: stand_in.nonzero(x),
        lambda x: stand_in.unique(x),
        lambda x: repr(x),
    ],
)
def test_what_waits_for_the_device_can_be_forbidden(wait) -> None:
    x = stand_in.arange(3, dtype=np.float32)
    wait(x)
    with cupyx.allow_synchronize(False):
        y = stand_in.exp(x * 2).sum()
        y += stand_in.asarray(np.arange(3))[0]
        with pytest.raises(cupyx.DeviceSynchronized):
            wait(x)
    wait(x)


def test_what_is_not_as_in_numpy() -> None:
    x, far = stand_in.arange(3, dtype=np.float32), stand_in.asarray([4, -4])
    for found in (x[far], x[None][..., far][0], x.take(far), stand_in.take(x, far)):
        assert found.tolist() == [1, 2], "an index out of range wraps around"
    stand_in.add.at(x, far, 5)
    assert x.tolist() == [0, 6, 7]
    assert stand_in.ascontiguousarray(x.sum(), np.float64).shape == (1,)
    assert not hasattr(x.flags, "writeable")
    for call in (
        lambda: stand_in.sum(x, where=x > 0),
        lambda: x.max(initial=0),
        lambda: stand_in.take(x, x, mode="clip"),
        lambda: stand_in.add(x, x, where=x > 0),
        lambda: stand_in.argsort(x, stable=True),
    ):
        with pytest.raises(TypeError, match="unexpected keyword"):
            call()
