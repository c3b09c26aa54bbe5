"""Optimisers compared with PyTorch's optimisers, parameter groups, and the average of the weights."""

import numpy as np
import pytest

from handloom.autograd import Parameter, Tensor
from handloom.autograd.fast import parallel
from handloom.autograd.row_gradient import RowGradient
from handloom.train.optim import optimizers
from handloom.train.optim.optimizers import SGD, Adam, AdamW, ExponentialAverage, clip_grad_norm, flat_form


def parameters(seed: int = 0) -> list[Parameter]:
    """Return a matrix that is larger than `PIECE`, and a vector."""
    rng = np.random.default_rng(seed)
    return [Parameter(rng.normal(size=shape).astype(np.float32)) for shape in [(700, 200), (7,)]]


def give_gradients(own: list[Parameter], step: int) -> None:
    rng = np.random.default_rng(step)
    for parameter in own:
        parameter.grad = rng.normal(size=parameter.shape).astype(parameter.dtype)


@pytest.mark.parametrize(
    ("make", "name", "options"),
    [
        (SGD, "SGD", {"lr": 0.1}),
        (SGD, "SGD", {"lr": 0.1, "momentum": 0.9}),
        (SGD, "SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        (Adam, "Adam", {"lr": 0.01, "betas": (0.9, 0.98), "eps": 1e-9}),
        (AdamW, "AdamW", {"lr": 0.01}),
        (AdamW, "AdamW", {"lr": 0.01, "weight_decay": 0.3}),
    ],
)
def test_updates_are_those_of_pytorch(make, name, options) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is compared with where it is installed")
    own = [*parameters(), Parameter(np.asfortranarray(parameters(1)[0].data))]  # its flat view would be a copy
    theirs = [torch.nn.Parameter(torch.tensor(parameter.data.copy())) for parameter in own]
    decay = options.get("weight_decay", 0.01 if name == "AdamW" else 0.0)
    groups = [{"params": theirs[::2], "weight_decay": decay}, {"params": [theirs[1]], "weight_decay": 0.0}]
    optimizer, other = make(own, **options), getattr(torch.optim, name)(groups, **options)
    for step in range(6):
        give_gradients(own, step)
        own[1].grad = own[1].grad if step in (2, 3, 5) else None  # Adam's t counts the updates of each parameter
        for parameter, their in zip(own, theirs, strict=True):
            their.grad = None if parameter.grad is None else torch.tensor(parameter.grad)
        optimizer.step()
        other.step()
    for parameter, their in zip(own, theirs, strict=True):
        np.testing.assert_allclose(parameter.data, their.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_a_step_that_fails_marks_what_it_has_changed() -> None:
    first, fixed = Parameter(np.ones(2)), Parameter(np.ones(2))
    y = (first * first).sum()
    fixed.data.setflags(write=False)
    first.grad = fixed.grad = np.ones(2)
    with pytest.raises(ValueError, match="read-only"):
        SGD([first, fixed], lr=0.1).step()
    with pytest.raises(RuntimeError, match="was changed in place"):
        y.backward()


def test_decay_leaves_biases_and_norms_alone_unless_a_group_says_otherwise() -> None:
    def after_a_step(groups) -> list[np.ndarray]:
        own = parameters()
        optimizer = AdamW(groups(own), lr=0.1, weight_decay=0.5)
        for parameter in own:
            parameter.grad = np.zeros_like(parameter.data)
        optimizer.step()
        return [parameter.data for parameter in own]

    matrix, vector = (parameter.data for parameter in parameters())
    plain = after_a_step(lambda own: own)
    np.testing.assert_allclose(plain[0], 0.95 * matrix, rtol=1e-6)
    np.testing.assert_array_equal(plain[1], vector)
    grouped = after_a_step(
        lambda own: [{"parameters": own[:1], "lr_scale": 0.5}, {"parameters": own[1:], "weight_decay": 0.2}]
    )
    np.testing.assert_allclose(grouped[0], 0.975 * matrix, rtol=1e-6)
    np.testing.assert_allclose(grouped[1], 0.98 * vector, rtol=1e-6)


def test_what_is_refused() -> None:
    own = parameters()
    for groups, message in [
        ([{"parameters": own, "learning_rate": 1}], "keys parameters, lr_scale and weight_decay"),
        ([{"lr_scale": 1}], "keys parameters"),
        ([{"parameters": own}, {"parameters": own[:1]}], "in two groups"),
        ([{"params": own, "parameters": own}], "keys parameters, lr_scale and weight_decay"),
        ([{"parameters": own, "lr_scale": -1}], "SGD: lr_scale is -1, but it must be a number from 0 on"),
        ([{"parameters": own, "weight_decay": np.inf}], "weight_decay is inf"),
        ([], "no parameters"),
    ]:
        with pytest.raises(ValueError, match=message):
            SGD(groups)
    for make, options in [
        (SGD, {"momentum": 1.0}), (SGD, {"nesterov": True}), (SGD, {"lr": np.inf}),
        (Adam, {"betas": (1, 0.9)}), (AdamW, {"betas": (0.9, 0.99, 0.999)}), (AdamW, {"betas": (0.9, np.nan)}),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=rf"^{make.__name__}: .* must be "):
            make(own, **options)
    for wrong in (own[0] * 0.1, [own[0][0]], {"weight": own[0]}, [{"parameters": [own[0].data]}]):
        with pytest.raises(TypeError, match=r"an operation can't be updated|give Parameters.*, not (str|nd)"):
            SGD(wrong)


def test_a_single_parameter_needs_no_list() -> None:
    weight = Parameter(np.ones((2, 2), np.float32))
    for groups in (weight, [{"parameters": weight}]):
        weight.grad = np.full((2, 2), 4.0, np.float32)
        assert clip_grad_norm(weight, 2.0) == 8.0
        SGD(groups, lr=0.5).step()
    np.testing.assert_array_equal(weight.data, np.zeros((2, 2)))
    assert ExponentialAverage(weight).averages[0].shape == (2, 2)


@pytest.mark.parametrize("make", [lambda own: SGD(own, momentum=0.9), AdamW])
def test_state_carries_over_and_a_stranger_is_refused(make) -> None:
    own, copy = parameters(), parameters()
    one, other = make(own), make(copy)
    give_gradients(own, 0)
    own[1].grad = None
    one.step()
    for parameter, source in zip(copy, own, strict=True):
        parameter.data[...] = source.data
    other.load_state_dict(one.state_dict())
    for optimizer, mine in ((one, own), (other, copy)):
        give_gradients(mine, 1)
        optimizer.step()
    np.testing.assert_equal([parameter.data for parameter in copy], [source.data for source in own])
    for stranger, state in [(SGD(own), one.state_dict()), (SGD(own[:1]), {"steps": 1, "missed": [0, 1]})]:
        with pytest.raises(ValueError, match="another optimiser"):
            stranger.load_state_dict(state)


def test_a_step_between_forward_and_backward_is_noticed() -> None:
    weight = Parameter(np.ones(3, np.float32))
    weight.grad = np.ones(3, np.float32)
    losses = (weight * weight).sum(), (Tensor(weight.data) * Parameter(np.ones(3))).sum()
    Adam([weight]).step()
    for loss in losses:
        with pytest.raises(RuntimeError, match="changed in place after the forward pass"):
            loss.backward()


@pytest.mark.parametrize("threads", [1, 3])
def test_clipping_gives_the_same_numbers_on_any_number_of_threads(threads: int, restored_threads: None) -> None:
    def clipped() -> tuple[float, list[np.ndarray]]:
        rng = np.random.default_rng(0)
        shapes = [(700, 500), (3,), (400, 300)]  # several blocks, less than a block, not contiguous
        parameters = [Parameter(np.zeros(shape, np.float32)) for shape in shapes]
        for parameter in parameters:
            parameter.grad = rng.standard_normal(parameter.shape, np.float32)
        parameters[2].grad = parameters[2].grad.copy(order="F")
        return clip_grad_norm(parameters, 2.0, scale=0.5), [p.grad for p in parameters]

    parallel.set_num_threads(2)
    norm, gradients = clipped()
    parallel.set_num_threads(threads)
    again, same = clipped()
    assert norm == again
    np.testing.assert_equal(gradients, same)
    assert norm == pytest.approx(0.5 * np.sqrt(350_000 + 3 + 120_000), rel=1e-2)
    assert np.sqrt(sum(float((g.astype(float) ** 2).sum()) for g in gradients)) == pytest.approx(2.0, rel=1e-5)


def test_the_norm_of_a_large_gradient_is_accurate() -> None:
    """With AVX2, BLAS alone has an error of 4e-3, because equal squares are all rounded in the same direction."""
    gradient = np.full(20_000_000, 1.1, np.float32)
    assert sum(optimizers.squared_norms([gradient])) == pytest.approx(float(gradient[0]) ** 2 * gradient.size, rel=2e-4)


def test_clipping_scales_first_and_leaves_what_is_not_finite() -> None:
    own = parameters()
    give_gradients(own, 0)
    gradient, before = own[1].grad.copy(), clip_grad_norm(own, None)
    assert clip_grad_norm(own, None, scale=0.5) == pytest.approx(before / 2)
    np.testing.assert_allclose(own[1].grad, gradient / 2, rtol=1e-6)
    assert clip_grad_norm([*own, own[0]], 1.0, scale=2.0) == pytest.approx(before)
    assert clip_grad_norm(own, None) == pytest.approx(1.0, rel=1e-5)
    own[1].grad *= np.float32(1e25)
    assert clip_grad_norm(own[1], 2.0) > 1e22, "the squares exceed the range of float32"
    assert np.linalg.norm(own[1].grad) == pytest.approx(2.0, rel=1e-5)
    half = Parameter(np.ones(3, np.float16))
    half.grad = np.full(3, 300, np.float16)
    assert clip_grad_norm(half, 1.0) == pytest.approx(300 * np.sqrt(3)), "the squares exceed the range of float16"
    np.testing.assert_allclose(half.grad, 1 / np.sqrt(3), rtol=2e-3)
    own[0].grad[0, 0] = np.inf
    kept = own[1].grad.copy()
    assert clip_grad_norm(own, 1.0, scale=3.0) == np.inf
    np.testing.assert_array_equal(own[1].grad, kept)


class OfOneLength(Adam):
    """An optimiser whose update of a parameter has the norm lr. Its rule needs the whole gradient."""

    def _update(self, w, g, *moments, lr: float, decay: float, updates: int) -> None:
        w -= (lr / np.sqrt((g.astype(np.float32) ** 2).sum())).astype(w.dtype) * g


def test_a_rule_of_ones_own_is_not_replaced_by_adam() -> None:
    assert flat_form(OfOneLength(parameters())) is None


def test_frozen_parameters_do_not_decay_on_a_gpu() -> None:
    own = parameters()
    own[0].requires_grad = False
    assert flat_form(AdamW(own)) is None


@pytest.mark.parametrize("make", [Adam, AdamW, OfOneLength, lambda own: SGD(own, 0.1, momentum=0.9)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_quick_forms_give_the_bits_of_the_plain_ones(make, dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    def trained() -> list[np.ndarray]:
        own = [Parameter(np.random.default_rng(0).normal(size=(700, 300)).astype(dtype)), *parameters()]
        optimizer, average = make(own), ExponentialAverage(own, 0.9)
        for seed in range(3):
            give_gradients(own, seed)
            own[0].grad_or_rows = RowGradient(np.array([3, 500 + seed]), np.full((2, 300), 0.3, dtype), (700, 300))
            clip_grad_norm(own, 1.0)
            optimizer.step()
            average.update()
        return [parameter.data for parameter in own] + average.averages

    quick = trained()
    for function in (optimizers.adam, optimizers.update_all, optimizers.squared_norms, optimizers.in_blocks):
        monkeypatch.setattr(function, "now", function.__wrapped__)
    for one, other in zip(quick, trained(), strict=True):
        np.testing.assert_array_equal(one, other)
        assert np.isfinite(one).all()  # in float16, Adam's eps and the squares of small gradients would be 0


class TestExponentialAverage:
    def test_it_is_its_formula(self) -> None:
        own = parameters()
        average = ExponentialAverage(own, 0.5)
        expected = own[0].data.copy()
        for step in range(1, 20):
            own[0].data += np.float32(step)
            average.update()
            decay = min(0.5, (1 + step) / (10 + step))
            expected = decay * expected + (1 - decay) * own[0].data
        np.testing.assert_allclose(average.averages[0], expected, rtol=1e-5)

    def test_float16_weights_have_a_float32_average(self) -> None:
        weight = Parameter(np.ones(1, np.float16))
        average = ExponentialAverage(weight, 0.9999)
        average.updates = 100_000
        weight.data[...] = 2
        for _ in range(100):
            average.update()
        np.testing.assert_allclose(average.averages[0], 2 - 0.9999**100, rtol=1e-4)
        with average.applied():
            assert weight.data == np.float16(2 - 0.9999**100)
        np.testing.assert_allclose(average.averages[0], 2 - 0.9999**100, rtol=1e-4)

    def test_applied_swaps_and_gives_back(self) -> None:
        own = parameters()
        average = ExponentialAverage([*own, own[0]], 0.9)  # as if two models shared a parameter
        before = own[0].data.copy()
        own[0].data += 1
        with average.applied():
            np.testing.assert_array_equal(own[0].data, before)
        np.testing.assert_array_equal(own[0].data, before + 1)
        np.testing.assert_array_equal(average.averages[0], before)

    def test_state_of_others_and_decay_out_of_range(self) -> None:
        with pytest.raises(ValueError, match="number or shape"):
            ExponentialAverage(parameters()).load_state_dict(ExponentialAverage(parameters()[:1]).state_dict())
        with pytest.raises(ValueError, match=r"decay is 1\.0, but it must be a number from 0 to below 1"):
            ExponentialAverage(parameters(), 1.0)
