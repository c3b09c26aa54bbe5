"""Compare values, shapes, dtypes and gradients of neural network ops with PyTorch, on the catalogue's samples."""

from typing import Any

import numpy as np
import pytest

from handloom.autograd import grad
from handloom.autograd.catalogue import CATALOGUE
from tests.support.derivatives import as_tuple
from tests.support.op_checks import tensors_of

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="PyTorch is not installed: no ops to compare with")
F = torch.nn.functional


def cross_entropy(logits: Any, target: Any, **options: Any) -> Any:
    """Flatten the leading axes: PyTorch has the classes on the second axis, handloom on the last axis."""
    classes = logits.shape[-1:]
    target = target.reshape(-1, *classes) if target.is_floating_point() else target.reshape(-1)
    out = F.cross_entropy(logits.reshape(-1, *classes), target, **options)
    return out.reshape(logits.shape[:-1]) if out.ndim else out


def attention(query: Any, key: Any, value: Any, bias: Any = None, **options: Any) -> Any:
    """Combine all masks into an additive mask: PyTorch aligns causal masks at the beginning, handloom at the end."""
    if {"window", "dropout", "alibi_slopes", "key_lengths"} & set(options):
        return None
    scores = torch.zeros(query.shape[2], key.shape[2], dtype=query.dtype)
    allowed = options.get("mask", scores == 0)
    if options.get("causal"):
        allowed = allowed & (scores == 0).tril(key.shape[2] - query.shape[2])
    scores = (scores if bias is None else scores + bias).masked_fill(~allowed, -torch.inf)
    key, value = (x.expand(-1, query.shape[1], -1, -1) for x in (key, value))
    return F.scaled_dot_product_attention(query, key, value, scores, scale=options.get("scale"))


# The catalogue's references compare with NumPy's functions; these are the ops that only PyTorch has.
SAME = "rsqrt erf relu sigmoid selu masked_fill"  # PyTorch takes the same arguments
OF_LAYERS = (
    "softplus silu mish softsign leaky_relu elu gelu linear mse_loss l1_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits"
)
TORCH: dict[str, Any] = {
    **{name: getattr(torch, name) for name in SAME.split()},
    **{name: getattr(F, name) for name in OF_LAYERS.split()},
    "log_sigmoid": F.logsigmoid,
    "glu": lambda x, axis=-1: F.glu(x, axis),
    "softmax": lambda x, axis=-1: torch.softmax(x, axis),
    "log_softmax": lambda x, axis=-1: torch.log_softmax(x, axis),
    "logsumexp": lambda x, axis, **kw: torch.logsumexp(x, tuple(range(x.ndim)) if axis is None else axis, **kw),
    "topk": lambda x, k, axis, largest: tuple(torch.topk(x, k, axis, largest)),
    "embedding": lambda ids, table, scale=1.0: F.embedding(ids, table) * scale,
    "layer_norm": lambda x, weight, bias, eps=1e-5: F.layer_norm(x, weight.shape, weight, bias, eps),
    "rms_norm": lambda x, weight=None, eps=1e-5: F.rms_norm(x, x.shape[-1:], weight, eps),
    "cross_entropy": cross_entropy,
    "attention": attention,
}


def peer(value: Any, requires_grad: bool = False) -> Any:
    """Convert arrays and Python floats to PyTorch tensors."""
    if isinstance(value, (np.ndarray, float)):
        return torch.tensor(np.asarray(value), requires_grad=requires_grad)
    return tuple(map(peer, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("name", TORCH)
def test_an_op_agrees_with_pytorch(name: str) -> None:
    spec, rng, compared = CATALOGUE[name], np.random.default_rng(0), 0
    for sample in spec.samples(rng, count=30):
        inputs = [peer(value, i in sample.differentiable) for i, value in enumerate(sample.args)]
        if sample.kwargs.get("axis") == ():  # PyTorch reduces over all axes for an empty tuple
            continue
        expected = as_tuple(TORCH[name](*inputs, **{key: peer(value) for key, value in sample.kwargs.items()}))
        if expected == (None,):
            continue
        compared += 1
        tensors = tensors_of(sample, sample.differentiable)
        outputs = as_tuple(spec.function(*tensors, **sample.kwargs))
        for ours, theirs in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(ours.data, theirs.detach().numpy(), rtol=1e-9, atol=1e-9, strict=True)
        pairs = [(ours, theirs) for ours, theirs in zip(outputs, expected, strict=True) if theirs.requires_grad]
        if not pairs:
            continue
        cotangents = [rng.uniform(0.5, 1.5, ours.shape) for ours, _ in pairs]
        wanted = sample.differentiable
        found = grad([ours for ours, _ in pairs], [tensors[i] for i in wanted], cotangents)
        truth = torch.autograd.grad(
            [theirs for _, theirs in pairs], [inputs[i] for i in wanted], [*map(torch.tensor, cotangents)],
            materialize_grads=True,
        )  # fmt: skip
        for ours, theirs in zip(found, truth, strict=True):
            np.testing.assert_allclose(ours.data, theirs.numpy(), rtol=1e-9, atol=1e-9, strict=True)
    assert compared >= 5
