"""PyTorch's names for tensors and functions, compared with PyTorch: each row of docs/from_pytorch.md is executed."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom import nn, ops
from handloom.autograd import Generator, Tensor, grad, manual_seed
from handloom.autograd.torch_names import INSTEAD
from handloom.nn import functional

PAGE = (Path(__file__).parents[2] / "docs" / "from_pytorch.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([^`]*)` \| `([^`]*)` \|$", PAGE.partition("## What to write")[2], re.MULTILINE)
X, Y, INDEX = np.array([[0.5, -1.5, 2.5], [3.0, 0.25, -2.0]]), np.arange(6.0).reshape(2, 3) / 7, np.array([[2], [0]])


def arrays(result: Any) -> list[np.ndarray]:
    parts = result if isinstance(result, tuple | list) else [result]
    return [np.asarray(getattr(part, "data", part)) if isinstance(part, Tensor) else np.asarray(part) for part in parts]


@pytest.mark.parametrize(("theirs", "ours"), ROWS, ids=[theirs for theirs, _ in ROWS])
def test_both_columns_of_the_page_agree_in_values_and_gradients(theirs: str, ours: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: no names to compare with")
    x, y = torch.tensor(X, requires_grad=True), torch.tensor(Y)
    expected = eval(theirs, {"torch": torch, "F": torch.nn.functional, "x": x, "y": y, "i": torch.tensor(INDEX)})
    own_x = Tensor(X, requires_grad=True)
    found = eval(ours, {"ops": ops, "F": functional, "x": own_x, "y": Tensor(Y), "i": Tensor(INDEX)})
    both = [part if isinstance(part, tuple | list) else [part] for part in (expected, found)]
    for a, b in zip(*both, strict=True):
        if not isinstance(b, Tensor):
            assert a == b
            continue
        assert str(a.dtype).removeprefix("torch.") == b.dtype
        np.testing.assert_allclose(b.data, a.detach().numpy(), rtol=1e-12, atol=1e-14)
        if a.requires_grad:
            g = np.random.default_rng(0).normal(size=b.shape)
            (wanted,) = torch.autograd.grad(a, x, torch.tensor(g), retain_graph=True)
            np.testing.assert_allclose(grad(b, own_x, g, retain_graph=True).data, wanted.numpy(), rtol=1e-9, atol=1e-12)


def test_the_page_has_rows() -> None:
    assert len(ROWS) >= 30
    assert PAGE.partition("## The same name")[2].partition("The first rows")[0].count("\n| ") - 1 >= 12


@pytest.mark.parametrize("name", [name for names in INSTEAD for name in names.split()])
def test_a_method_of_pytorchs_says_what_to_write(name: str) -> None:
    with pytest.raises(AttributeError, match=f"'Tensor' object has no attribute '{name}': write ."):
        getattr(Tensor(X), name)


def test_calls_that_can_be_recognised_say_what_to_write() -> None:
    x = Tensor(np.ones((2, 3, 4)))
    for call, message in [
        (lambda: x.std(unbiased=False), "write ddof=1 for PyTorch's unbiased=True"),
        (lambda: x.sum(0, dim=1), "dim is PyTorch's name of axis; use only one"),
    ]:
        with pytest.raises(TypeError, match=message):
            call()
    with pytest.raises(ValueError, match=r"must name each axis once; to exchange two axes, .* x\.swapaxes\(a, b\)"):
        x.transpose(1, 2)
    assert x.size == 24
    assert (x.any(dim=0).shape, x.all(dim=(0, 1), keepdim=True).shape) == ((3, 4), (1, 1, 4))
    assert x.var(dim=(0, 1), correction=1, keepdim=True).shape == (1, 1, 4)


def test_creators_are_float32_and_draw_from_the_default_generator() -> None:
    for made in (ops.zeros(2, 3), ops.ones((2, 3)), ops.full((2, 3), 1.5), ops.rand(2, 3), ops.randn([2, 3]),
                 ops.rand_like(Tensor(np.ones((2, 3), np.float32))), ops.randn_like(ops.zeros(2, 3))):  # fmt: skip
        assert (made.dtype, made.shape) == (np.float32, (2, 3))
    assert (ops.full(2, 3).dtype, ops.arange(3).dtype, ops.arange(0.0, 1.0, 0.25).dtype) == (
        "int64",
        "int64",
        "float32",
    )
    assert ops.zeros(2, dtype=np.float64, requires_grad=True).requires_grad
    drawn = []
    for _ in range(2):
        manual_seed(5)
        drawn.append(
            [ops.rand_like(np.ones(3)), ops.randn(3), ops.randint(7, (3,)), ops.multinomial([0.5, 0.25, 0.25], 2)]
        )
    assert all((a.data == b.data).all() for a, b in zip(*drawn, strict=True))
    assert ops.rand_like(ops.arange(3), dtype=np.float64).dtype == np.float64
    with pytest.raises(TypeError, match="randn_like: int64 has no fractions"):
        ops.randn_like(ops.arange(3))
    generator = Generator(1)
    assert set(ops.randint(2, 5, 200, generator=generator).tolist()) == {2, 3, 4}
    counts = np.bincount(ops.multinomial([[1, 3, 0]], 4000, True, generator=generator).data[0], minlength=3)
    assert abs(counts[0] - 1000) < 120
    assert counts[2] == 0
    assert sorted(ops.multinomial([1.0, 0.0, 2.0], 2).tolist()) == [0, 2]
    for call in (lambda: Tensor(X).chunk(0), lambda: Tensor(X).expand(3)):
        with pytest.raises(ValueError, match=r"chunk: the number|broadcast_to|BroadcastTo"):
            call()
    with pytest.raises(IndexError, match="nll_loss: class -3 is outside"):
        functional.nll_loss(Tensor(X), [0, -3])
    for call, message in [
        (lambda: ops.zeros(-1), "zeros: sizes can't be negative"), (lambda: ops.arange(1, 2, 0), "step can't be 0"),
        (lambda: ops.multinomial([0, 0], 1), "not all 0"), (lambda: ops.multinomial([1, 0], 2), "2 different classes"),
        (lambda: ops.randint(3, 3, 2), "randint"), (lambda: ops.gather(X, 0, INDEX[:, 0]), "gather: an index of shape"),
        (lambda: functional.one_hot([3], 2), "one_hot: classes must be from 0 to 1"),
        (lambda: functional.layer_norm(Tensor(X), 2), r"layer_norm: the last axes .* sizes \(2,\)"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            call()


def test_functions_with_pytorchs_axes_and_masks() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: no functions to compare with")
    rng = np.random.default_rng(0)
    q, k, v, bias = (rng.normal(size=s) for s in ((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4), (3, 5)))
    mask = rng.random((2, 1, 3, 5)) < 0.7
    mask[..., 0] = True
    logits, target, weight = rng.normal(size=(2, 4, 3)), rng.integers(0, 4, (2, 3)), rng.uniform(0.5, 1.5, 4)
    target[0, 0] = -100
    certain = np.where(np.arange(3) == 0, -np.inf, logits[0])  # class 0 is impossible
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("scaled_dot_product_attention", (q, k, v), {"attn_mask": mask}),
        ("scaled_dot_product_attention", (q, k, v), {"attn_mask": bias, "scale": 0.3}),
        ("scaled_dot_product_attention", (q, k, v), {"is_causal": True}),
        ("layer_norm", (logits, (4, 3), weight[:, None] * np.ones(3), np.ones((4, 3))), {"eps": 1e-3}),
        *[(name, (logits, target, weight), {"reduction": reduction})
          for name in ("cross_entropy", "nll_loss") for reduction in ("mean", "sum", "none")],
        ("nll_loss", (certain, np.array([-100, 1, 2, 1])), {}),
        ("nll_loss", (logits, np.full((2, 3), 9), weight), {"ignore_index": 9}),
        ("cross_entropy", (logits, np.abs(logits) / np.abs(logits).sum(1, keepdims=True)), {"label_smoothing": 0.1}),
    ]  # fmt: skip
    for name, args, kwargs in calls:
        own = [a if isinstance(a, tuple) else Tensor(a, place == 0) for place, a in enumerate(args)]
        peers = [a if isinstance(a, tuple) else torch.tensor(a, requires_grad=p == 0) for p, a in enumerate(args)]
        theirs = {key: torch.tensor(a) if isinstance(a, np.ndarray) else a for key, a in kwargs.items()}
        a = getattr(torch.nn.functional, name)(*peers, **theirs)
        b = getattr(functional, name)(*own, **kwargs)
        g = rng.normal(size=b.shape)
        np.testing.assert_allclose(b.data, a.detach().numpy(), rtol=1e-10, atol=1e-12, err_msg=name)
        (wanted,) = torch.autograd.grad(a, peers[0], torch.tensor(g))
        np.testing.assert_allclose(grad(b, own[0], g).data, wanted.numpy(), rtol=1e-9, atol=1e-12, err_msg=name)


def test_einops_accepts_tensors() -> None:
    einops = pytest.importorskip("einops", reason="einops is not installed: nothing to call with tensors")
    nn.use_einops()
    x = Tensor(np.random.default_rng(0).normal(size=(2, 6, 4)), requires_grad=True)
    calls = [
        lambda t: einops.rearrange(t, "b (h w) c -> w b c h", h=2), lambda t: einops.reduce(t, "b t c -> c", "mean"),
        lambda t: einops.repeat(t, "b t c -> b (t 2) c k", k=3), lambda t: einops.reduce(t, "b t c -> b 1 c", "max"),
        lambda t: einops.einsum(t, t, "b t c, b s c -> b t s"), lambda t: einops.pack([t, t], "b * c")[0],
    ]  # fmt: skip
    for call in calls:
        made = call(x)
        assert made.requires_grad
        np.testing.assert_allclose(made.data, call(X3 := x.numpy()), rtol=1e-12)
    assert X3.shape == (2, 6, 4)


@pytest.mark.parametrize("mode", ["fan_in", "fan_out"])
def test_initial_weights_have_pytorchs_deviations(mode: str) -> None:
    generator, shape = Generator(3), (300, 200)
    fan = shape[mode == "fan_in"]
    for function, options, expected in [
        (nn.init.kaiming_uniform_, {"mode": mode, "a": 5**0.5}, (1 / (3 * fan)) ** 0.5),
        (nn.init.kaiming_normal_, {"mode": mode, "nonlinearity": "relu"}, (2 / fan) ** 0.5),
        (nn.init.xavier_normal_, {"gain": 2.0}, 2 * (2 / 500) ** 0.5),
        (nn.init.xavier_uniform_, {}, (2 / 500) ** 0.5),
    ]:
        values = function(ops.zeros(shape), generator=generator, **options).data
        assert abs(values.std() / expected - 1) < 0.02
    cut = nn.init.trunc_normal_(ops.zeros(shape), 0.5, 1.0, 0.0, 2.0, generator=generator).data
    assert (cut.min() >= 0, cut.max() <= 2, abs(cut.mean() - 0.856) < 0.02) == (True, True, True)
    assert (nn.init.ones_(ops.zeros(2)).tolist(), nn.init.constant_(ops.zeros(2), 3).tolist()) == ([1, 1], [3, 3])
    for wrong in (
        lambda: nn.init.kaiming_normal_(ops.zeros(2)),
        lambda: nn.init.trunc_normal_(ops.zeros(2), a=9, b=10),
    ):
        with pytest.raises(ValueError, match=r"_: there are hardly|_ needs a weight"):
            wrong()
