"""Compares the quick implementations of an op with its plain implementation (`with plain():`) on the same inputs."""

import re
import zlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

from handloom.autograd import Tensor, grad, ops, plain
from handloom.autograd.backend import to_device
from handloom.autograd.catalogue import CATALOGUE, OpSpec, Sample
from handloom.autograd.fast import linear
from handloom.autograd.ops.registry import QUICK, Implementation
from tests.support.derivatives import called

#: Tolerances of values and gradients, and of second derivatives, in units in the last place (ulps) of the array's
#: largest element. Implementations sum in different orders, and they sum float16 in float32.
ULPS, SECOND_ULPS = {"float16": 8, "float32": 100, "float64": 100}, 4000


def quick_implementations() -> dict[str, list[Implementation]]:
    """Return the quick implementations by op name."""
    return {op_name(plain.__name__): forms for plain, forms in QUICK.items()}


def op_name(form: str) -> str:
    """Return the op of a plain function or a class: LayerNorm, linear_activation_plain, EmbeddingOnCPU."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", form.removesuffix("OnCPU")).lower().removesuffix("_plain")


def names_with(*forms: str) -> list[str]:
    """Return the ops of the catalogue that have one of these quick implementations."""
    quick = quick_implementations()
    return [name for name in CATALOGUE if {f.name for f in quick.get(name, ())} & set(forms)]


def samples_of(name: str, dtype: Any, count: int) -> Iterator[Sample]:
    """Yield samples of the catalogue, and samples that it can't draw because the reference computes something else."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    yield from CATALOGUE[name].samples(rng, dtype, count)
    if name == "embedding":
        ids = np.array([[1, 0], [1, 2]])
        yield Sample((ids, rng.normal(size=(3, 2)).astype(dtype)), {"padding_id": 1}, differentiable=(1,))
    if name == "merge_heads":
        whole = rng.normal(size=(2, 3, 2, 4, 5)).astype(dtype)
        parts = [whole[:, :, part].transpose(0, 2, 1, 3) for part in range(2)]
        yield from (Sample(tuple(parts), {}), Sample(tuple(parts[::-1]), {}))
    if name == "attention":
        arrays = tuple(rng.normal(size=(1, 2, 5, 3)).astype(dtype) for _ in range(3))
        yield Sample(arrays, {"method": "blocked", "block_size": 2, "dropout": 0.4, "causal": True})


def compare_forms(spec: OpSpec, sample: Sample, device: str = "cpu") -> None:
    """Compare value, gradient and (except in float16) second derivative of the quick and the plain implementation.

    Raises AssertionError with the sample and the numbers.
    """
    quick, own = (computed(spec, sample, on, device) for on in (False, True))
    if sample.kwargs.get("dropout") and sample.kwargs.get("method") == "blocked":
        own = [("", 0, np.zeros(0))] * len(quick)  # the masks differ: compare only with the recorded gradients below
    for (what, order, a), (_, _, b) in zip(quick, own, strict=True):
        if b.shape != (0,) or a.shape == (0,):
            close(a, b, order, f"{spec.name}, {what}: {sample}")
    found = {what: a for what, _, a in quick}
    for what, order, a in quick:
        if what.startswith("recorded "):  # computed by the plain implementation, with the mask that the quick one drew
            close(found[what.removeprefix("recorded ")], a, order, f"{spec.name}, {what}: {sample}")


def close(a: np.ndarray, b: np.ndarray, order: int, what: str) -> None:
    assert (a.shape, a.dtype) == (b.shape, b.dtype), what
    bound = (ULPS[a.dtype.name] if order < 2 else SECOND_ULPS) * float(np.finfo(a.dtype).eps)
    scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
    np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=0, atol=bound * scale, err_msg=what)


def examine_implementations(module: str, count: int = 40) -> None:
    """Compare the implementations of all ops that have one in `module`. This must notice a mutant in the module."""
    own = {
        op
        for op, forms in quick_implementations().items()
        for f in forms
        if f.compute.__module__.endswith(f".{module}")
    }
    assert own, module
    for name in CATALOGUE:
        if name in own:
            for dtype, share in ((np.float64, 1), (np.float32, 4), (np.float16, 4)):
                for sample in samples_of(name, dtype, count // share):
                    compare_forms(CATALOGUE[name], sample)


def moved(sample: Sample, device: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a sample with all arrays on a device, including arrays in tuples and lists."""

    def move(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(move, value))
        return to_device(value, device) if isinstance(value, np.ndarray) else value

    return [move(a) for a in sample.args], {name: move(value) for name, value in sample.kwargs.items()}


def computed(spec: OpSpec, sample: Sample, on: bool, device: str) -> list[tuple[str, int, np.ndarray]]:
    """Return outputs, gradients, second derivatives as (what, order, array); if `on`, of plain implementations."""
    rng = np.random.default_rng(7)
    args, kwargs = moved(sample, device)
    wanted = sample.differentiable or ()
    with plain() if on else mock.patch.object(linear, "MIN_MULTIPLICATIONS", 0):
        leaves, outputs = called(spec.function, args, wanted, kwargs)
    found = [(f"output {i}", 0, out.numpy()) for i, out in enumerate(outputs)]
    used = [out for out in outputs if out.requires_grad]
    if not used:
        return found
    given = [np.asarray(rng.uniform(0.5, 1.5, out.shape) * rng.choice([-1, 1], out.shape), out.dtype) for out in used]
    upstream = [Tensor(to_device(g, device), requires_grad=True) for g in given]
    first = grad(used, leaves, [g.data for g in upstream], retain_graph=True)
    found += [(f"gradient of argument {i}", 1, g.numpy()) for i, g in zip(wanted, first, strict=True)]
    for number, (out, g) in enumerate(zip(used, upstream, strict=True) if len(used) > 1 else ()):
        alone = grad(out, leaves, g.data, retain_graph=True)
        found += [
            (f"gradient of argument {i} by output {number}", 1, g.numpy()) for i, g in zip(wanted, alone, strict=True)
        ]
    if not spec.second_order or used[0].dtype == np.float16:
        return found
    recorded = grad(used, leaves, upstream, create_graph=True)
    found += [(f"recorded gradient of argument {i}", 1, g.numpy()) for i, g in zip(wanted, recorded, strict=True)]
    parts = [g * to_device(np.asarray(rng.uniform(-1, 1, g.shape), g.dtype), device) for g in recorded]
    total = sum((ops.sum(part) for part in parts[1:]), ops.sum(parts[0]))
    if total.requires_grad:
        found += [("second derivative", 2, g.numpy()) for g in grad(total, [*leaves, *upstream])]
    return found
