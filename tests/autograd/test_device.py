"""Every op on device arrays: the same values and gradients as on the CPU, no array of the host in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from handloom.autograd import Tensor, grad
from handloom.autograd.catalogue import CATALOGUE, OpSpec, Sample
from handloom.autograd.random import default_generator
from tests.support.derivatives import as_tuple

SAMPLES = 8
# In float16 an intermediate result may be rounded on one side only, in gradients again.
TOLERANCES = {np.float32: 1e-5, np.float16: 1e-2}


def on_device(value: Any) -> Any:
    """Arrays among an op's arguments as device arrays."""
    import cupy

    if isinstance(value, np.ndarray):
        return cupy.asarray(value)
    if isinstance(value, (list, tuple)):
        return type(value)(on_device(item) for item in value)
    return value


def results_of(spec: OpSpec, sample: Sample, move: Any) -> list[np.ndarray]:
    """Outputs and gradients of one call whose arrays went through `move`, on the host."""
    args = [move(a) for a in sample.args]
    wanted = []
    for i, a in enumerate(sample.args):
        if isinstance(a, np.ndarray) and a.dtype.kind == "f":
            args[i] = Tensor(args[i], requires_grad=i in (sample.differentiable or ()))
            if args[i].requires_grad:
                wanted.append(args[i])
    state = default_generator.get_state()
    outputs = as_tuple(spec.function(*args, **{name: move(value) for name, value in sample.kwargs.items()}))
    default_generator.set_state(state)
    rng = np.random.default_rng(0)
    found = [out.numpy() for out in outputs]
    for out in outputs:
        if out.requires_grad and wanted:
            cotangent = np.asarray(rng.uniform(0.5, 1.5, out.shape), dtype=out.dtype)
            gradients = grad(out, wanted, move(cotangent), retain_graph=True)
            found += [gradient.numpy() for gradient in gradients]
    return found


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_an_op_gives_the_same_on_the_device(name: str, dtype: Any, cuda, counted_masks) -> None:
    spec = CATALOGUE[name]
    for sample in spec.samples(np.random.default_rng(0), dtype, SAMPLES):
        if name == "attention":
            sample.kwargs.pop("dropout", None)  # its kernels draw masks of their own: tested with them
        want = results_of(spec, sample, lambda value: value)
        found = results_of(spec, sample, on_device)
        assert len(found) == len(want)
        for a, b in zip(found, want, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
