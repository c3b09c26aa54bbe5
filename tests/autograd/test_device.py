"""Every op gives the same values and gradients on device arrays as on the CPU, without host arrays in between."""

from typing import Any

import numpy as np
import pytest

from handloom.autograd.catalogue import CATALOGUE
from tests.support.implementations import computed

SAMPLES = 8
# In float16 one device may round an intermediate result that the other doesn't round, and gradients again.
TOLERANCES = {np.float32: 1e-5, np.float16: 1e-2}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_an_op_gives_the_same_on_the_device(name: str, dtype: Any, cuda, counted_masks) -> None:
    spec = CATALOGUE[name]
    for sample in spec.samples(np.random.default_rng(0), dtype, SAMPLES):
        if name == "attention":
            sample.kwargs.pop("dropout", None)  # its kernels draw their own masks: ops/test_attention_on_device.py
        want, found = (computed(spec, sample, False, device) for device in ("cpu", "cuda"))
        for (what, order, a), (_, _, b) in zip(found, want, strict=True):
            assert a.dtype == b.dtype
            tolerance = TOLERANCES[dtype] * (10 if order == 2 else 1)
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)
