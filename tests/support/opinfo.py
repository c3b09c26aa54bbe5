"""Runs handloom on the inputs that PyTorch tests itself with (its OpInfo database) and compares.

    python -m tests.support.opinfo        # the report: counts, and every deviation with its reason

Values, shapes, dtypes and gradients for a random output gradient are compared, in float64, and handloom must refuse
what PyTorch refuses. Needs torch, expecttest and scipy.
"""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from handloom.autograd import Tensor, grad
from tests.support.torch_names import TORCH_OPS

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Deviation:
    """An intended difference: samples of the ops `names` whose description or complaint contains `text`."""

    reason: str
    names: tuple[str, ...]
    text: str

    def covers(self, name: str, finding: Finding) -> bool:
        return name in self.names and self.text in f"{finding.sample} | {finding.complaint}"


@dataclass(frozen=True)
class Finding:
    kind: str  # "sample" or "error input"
    sample: str
    complaint: str


NUMBERS = (
    "rsub", "pow", "float_power", "__radd__", "__rmul__", "__rsub__", "__rdiv__", "__rpow__", "__rmod__", "remainder",
    "atan2", "hypot", "logaddexp", "maximum", "minimum", "max.binary", "min.binary", "clamp_min", "clamp_max",
)  # fmt: skip

DEVIATIONS = (
    Deviation("a Python number may stand for any operand, as in NumPy; PyTorch wants tensors", NUMBERS, "no error"),
    Deviation("integers have a mean, in float64, as in NumPy", ("mean",), "Long"),
    Deviation("shifts and axes broadcast, and no shift is a shift by nothing, as in NumPy", ("roll",), "shifts"),
    Deviation("the trace of a stack of matrices is NumPy's", ("trace",), "expected a matrix"),
    Deviation("what is added is cast to the tensor's dtype, as in NumPy", ("scatter_add",), "self.dtype"),
    Deviation("what is added may broadcast", ("index_add",), "source tensor shape must match"),
    Deviation("an axis of size 1 is not stretched by tensordot, as in NumPy", ("tensordot",), "don't fit"),
    Deviation("indices of another rank are refused, even if there are none", ("gather",), "uint8[2, 0]"),
    Deviation(
        "crossed bounds give the upper one, as in NumPy", ("nn.functional.hardtanh",), "min_val cannot be greater"
    ),
)

# Samples that draw random numbers, in each library from another generator: counted, but not compared.
RANDOM: dict[str, Callable[..., bool]] = {
    "nn.functional.dropout": lambda p=0.5, training=True, **kw: training and 0 < p < 1,
    "nn.functional.scaled_dot_product_attention": lambda dropout_p=0.0, **kw: dropout_p > 0,
}


@dataclass
class Tally:
    """Counts over the samples of one op, or of all."""

    samples: int = 0
    gradients: int = 0
    error_inputs: int = 0
    random: int = 0
    findings: list[Finding] = field(default_factory=list)


@contextmanager
def torch_at_rest() -> Iterator[None]:
    """Silence PyTorch's own deprecation warnings; seed and restore the three global generators the database uses."""
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        try:
            yield
        finally:
            torch.set_rng_state(states[0])
            random.setstate(states[1])
            np.random.set_state(states[2])  # noqa: NPY002


@functools.cache
def operations() -> dict[str, Any]:
    """The OpInfo of each name in the table."""
    with torch_at_rest():
        from torch.testing._internal import common_utils
        from torch.testing._internal.common_methods_invocations import op_db

        # For each op it would look through the whole call stack, slowly, for a test of PyTorch's to report to.
        common_utils.extract_test_fn = lambda: None
    full_names = {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}
    return {name: full_names[name] for name in TORCH_OPS}


def converted(value: Any) -> Any:
    """PyTorch's tensors as handloom's (floating point) or NumPy's (integers and masks), within lists, tuples, dicts."""
    if isinstance(value, torch.Tensor):
        array = value.detach().numpy(force=True).copy()
        return Tensor(array, requires_grad=value.requires_grad) if value.is_floating_point() else array
    if isinstance(value, torch.dtype):
        return np.dtype(str(value).removeprefix("torch."))
    if isinstance(value, dict):
        return {key: converted(part) for key, part in value.items()}
    if isinstance(value, list):
        return [converted(part) for part in value]
    return tuple(converted(part) for part in value) if isinstance(value, tuple) else value


def leaves(value: Any, kind: type) -> list[Any]:
    """The tensors that require a gradient, in order."""
    if isinstance(value, kind):
        return [value] if value.requires_grad else []
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [leaf for part in parts for leaf in leaves(part, kind)]


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list | tuple) else [result]


def as_array(part: Any) -> np.ndarray:
    if isinstance(part, torch.Tensor):
        return part.detach().numpy(force=True)
    return np.asarray(part.data if isinstance(part, Tensor) else part)


def difference(ours: Any, theirs: Any) -> str | None:
    ours, theirs = as_array(ours), as_array(theirs)
    if ours.shape != theirs.shape:
        return f"shape {ours.shape}, PyTorch {theirs.shape}"
    if ours.dtype != theirs.dtype:
        return f"dtype {ours.dtype}, PyTorch {theirs.dtype}"
    scale = float(np.abs(theirs[np.isfinite(theirs)]).max(initial=1)) if theirs.dtype.kind == "f" else 0
    if not np.allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True):
        return f"value {ours.ravel()[:4]}, PyTorch {theirs.ravel()[:4]}"
    return None


def compare(name: str, op: Any, sample: Any, rng: np.random.Generator, tally: Tally) -> str | None:
    """Forward, dtype and gradient of one sample; what differs, or None."""
    given = [sample.input, list(sample.args), sample.kwargs]
    taken = converted(given)
    theirs = as_list(op.op(sample.input, *sample.args, **sample.kwargs))
    ours = as_list(TORCH_OPS[name](taken[0], *taken[1], **taken[2]))
    for a, b in zip(ours, theirs, strict=True):
        if wrong := difference(a, b):
            return f"forward: {wrong}"
    our_outputs, their_outputs = leaves(ours, Tensor), leaves(theirs, torch.Tensor)
    if len(our_outputs) != len(their_outputs):
        return f"gradient: {len(our_outputs)} differentiable outputs, PyTorch {len(their_outputs)}"
    if not their_outputs:
        return None
    tally.gradients += 1
    cotangents = [rng.uniform(0.5, 1.5, out.shape).astype(out.dtype) for out in our_outputs]
    found = grad(our_outputs, leaves(taken, Tensor), cotangents)
    truth = torch.autograd.grad(
        their_outputs, leaves(given, torch.Tensor), [torch.from_numpy(g) for g in cotangents], allow_unused=True
    )
    for i, (a, b) in enumerate(zip(found, truth, strict=True)):
        if wrong := difference(a, np.zeros(a.shape, a.dtype) if b is None else b):
            return f"gradient {i}: {wrong}"
    return None


def described(sample: Any) -> str:
    def short(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        if isinstance(value, list | tuple):
            return "(" + ", ".join(map(short, value)) + ")"
        return repr(value)

    return ", ".join(
        [short(sample.input), *map(short, sample.args), *(f"{k}={short(v)}" for k, v in sample.kwargs.items())]
    )


def accepts(name: str, sample: Any) -> str | None:
    """None if handloom raises a proper error for the sample, else what it does."""
    try:
        taken = converted([sample.input, list(sample.args), sample.kwargs])
        TORCH_OPS[name](taken[0], *taken[1], **taken[2])
    except (ValueError, TypeError, IndexError):
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


@functools.cache
def examine(name: str) -> Tally:
    """All sample inputs and error inputs of one op."""
    op, tally = operations()[name], Tally()
    rng = np.random.default_rng(0)
    with torch_at_rest(), np.errstate(all="ignore"):
        for sample in op.sample_inputs("cpu", torch.float64, requires_grad=op.supports_autograd, set_seed=False):
            if name in RANDOM and RANDOM[name](**sample.kwargs):
                tally.random += 1
                continue
            tally.samples += 1
            try:
                wrong = compare(name, op, sample, rng, tally)
            except Exception as error:  # refusing what PyTorch accepts is a deviation too
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                tally.findings.append(Finding("sample", described(sample), wrong))
        for case in op.error_inputs("cpu", set_seed=False) if op.error_inputs_func else ():
            tally.error_inputs += 1
            if done := accepts(name, case.sample_input):
                complaint = f"{done}; PyTorch: {case.error_regex}"
                tally.findings.append(Finding("error input", described(case.sample_input), complaint))
    return tally


def reason_for(name: str, finding: Finding) -> str | None:
    return next((d.reason for d in DEVIATIONS if d.covers(name, finding)), None)


def report() -> tuple[str, int]:
    """The counts and deviations as Markdown, and the number of findings that no entry of DEVIATIONS explains."""
    total, by_reason, unexplained = Tally(), dict.fromkeys((d.reason for d in DEVIATIONS), 0), []
    for name in TORCH_OPS:
        tally = examine(name)
        total.samples += tally.samples
        total.gradients += tally.gradients
        total.error_inputs += tally.error_inputs
        total.random += tally.random
        for finding in tally.findings:
            reason = reason_for(name, finding)
            if reason is None:
                unexplained.append(f"{name}: {finding}")
            else:
                by_reason[reason] += 1
    compared, deviating = total.samples + total.error_inputs, sum(by_reason.values())
    lines = [
        "| | |",
        "|---|---|",
        f"| names of ops | {len(TORCH_OPS)} |",
        f"| samples: value, shape, dtype | {total.samples} |",
        f"| of these with a gradient | {total.gradients} |",
        f"| error inputs | {total.error_inputs} |",
        f"| deviations | {deviating} ({deviating / compared:.1%}) |",
        f"| not comparable: random numbers | {total.random} |",
        "",
        "| deviations | reason |",
        "|---|---|",
        *(f"| {count} | {reason} |" for reason, count in by_reason.items()),
        *unexplained,
    ]
    return "\n".join(lines), len(unexplained)


if __name__ == "__main__":
    text, unexplained_findings = report()
    print(text)
    raise SystemExit(bool(unexplained_findings))
