"""The gradient check finds wrong gradients, accepts correct gradients and describes the mistake."""

import re

import numpy as np
import pytest

from handloom.autograd import Function, Tensor, gradcheck, gradgradcheck, ops
from handloom.autograd.catalogue import CATALOGUE
from handloom.autograd.gradcheck.__main__ import main
from handloom.autograd.gradcheck.differences import STEPS, central_difference
from handloom.nn import Dropout, Linear, Sequential

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))


class Product(Function):
    """x * y with the backward rule `rule(g, x, y)`, which the test chooses."""

    broadcasts = True

    def __init__(self, rule):
        self.rule = rule

    def forward(self, x, y):
        self.save(x, y)
        return x * y

    def backward(self, g):
        return self.rule(g, *self.saved)


WRONG = {
    "the sign is flipped": lambda g, x, y: (-g * y, g * x),
    "off by the factor 2: a constant is missing, or a sum over an axis of 2": lambda g, x, y: (2 * g * y, g * x),
    "off by the factor 1/3": lambda g, x, y: (g * y / 3, g * x),
    "off by the factor 0.7": lambda g, x, y: (0.7 * g * y, g * x),
    "no gradient arrives": lambda g, x, y: (None, g * x),
    "the right numbers in the wrong places": lambda g, x, y: ((g * y)[::-1], g * x),
    "NaN or infinity where the function is smooth": lambda g, x, y: (g * np.nan, g * x),
    "of 12 entries are right": lambda g, x, y: (g * y * (x < 1), g * x),
    "allowed difference": lambda g, x, y: (g * y + 1e-4, g * x),
    "the backward pass raised RuntimeError": lambda g, x, y: ((g * y)[:2], g * x),
    "the backward pass raised ValueError: .* in Product.backward": lambda g, x, y: (g @ y, g * x),
}


@pytest.mark.parametrize("hint", WRONG)
def test_a_wrong_rule_is_found_and_the_mistake_named(hint) -> None:
    report = gradcheck(lambda x, y: Product(WRONG[hint])(x, y), [X, Y], name="product")
    assert not report
    assert str(report).startswith("gradcheck of product: FAILED (central, seed 0)")
    assert re.search(hint, str(report))


def test_a_mistake_that_a_sum_would_hide() -> None:
    """The rule returns zeros, which is right for the sum of a softmax but wrong for its elements."""

    class Lazy(Function):
        def forward(self, x):
            return ops.softmax(Tensor(x)).data

        def backward(self, g):
            return g * 0

    assert not gradcheck(lambda x: Lazy()(x), [X])


def test_a_cut_graph_is_found() -> None:
    assert "no gradient arrives: is the graph cut" in str(gradcheck(lambda x: Tensor(x.data) * 2, [X]))
    assert "off by the factor 1/2" in str(gradcheck(lambda x: x * x.detach(), [X]))


@pytest.mark.parametrize(
    ("fn", "inputs"),
    [
        (ops.relu, [np.array([0.0, 1.0, -1.0, 1e-9, -1e-4, 3e-3])]),
        (ops.abs, [np.zeros((2, 2), order="F")]),
        (lambda x: ops.max(x), [np.array([1.0, 1.0, 1.0 + 1e-6])]),
        (ops.maximum, [np.array([1.0, 2.0]), np.array([1.0, 2.0])]),
        (lambda x: ops.sort(x), [np.array([2.0, 1.0, 2.0])]),
        (ops.sign, [np.array([0.0, 1e-9, -2.0])]),
        (ops.sqrt, [np.array([0.0, 1e-9, 4.0])]),
        (ops.log, [np.array([1e-9, 0.5, 1e6])]),
        (lambda x: ops.where(x.data > 0, x, 2 * x), [np.array([0.0, 1e-6])]),
    ],
)
def test_kinks_poles_and_ties_raise_no_false_alarm(fn, inputs) -> None:
    for seed in range(5):
        report = gradcheck(fn, inputs, seed=seed)
        assert report, str(report)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_inputs_and_outputs_of_any_size(scale) -> None:
    assert gradcheck(lambda x, w: ops.layer_norm(x, w, w) * scale, [X * scale, RNG.normal(size=4)])
    assert gradcheck(lambda x: (x * x).sum(axis=0) / scale, [X * scale])


def test_methods_agree_and_the_complex_step_is_exact() -> None:
    for seed in range(3):
        central = gradcheck(ops.tanh, [X], seed=seed)
        exact = gradcheck(ops.tanh, [X], method="complex", seed=seed)
        assert central
        assert exact
        assert exact.relative_error < 1e-14 < central.relative_error < 1e-9
    assert not gradcheck(
        lambda x, y: Product(lambda g, x, y: (g * y * (1 + 1e-6), g * x))(x, y), [X, Y], method="complex"
    )
    with pytest.raises(ValueError, match="neither 'central' nor 'complex'"):
        gradcheck(ops.tanh, [X], method="forward")


def test_what_is_checked_and_what_is_passed_on() -> None:
    constant, ids = Tensor(Y), np.array([0, 2, 1])
    report = gradcheck(
        lambda x, c, i, axis: ops.sum((x * c)[i], axis=axis), [Tensor(X, requires_grad=True), constant, ids, 1]
    )
    assert report
    assert [check.name for check in report.checks] == ["input 0"]
    with pytest.raises(ValueError, match="no floating array and no Tensor that requires a gradient, and fn"):
        gradcheck(lambda i: Tensor(X)[i], [ids])
    single = gradcheck(ops.exp, X)  # one input needs no list
    assert single.entries == 12


def test_a_function_that_ignores_its_arguments_is_refused() -> None:
    module, x = Linear(4, 2), Tensor(X.astype(np.float32))
    for fn, inputs in [
        (lambda *parameters: (module(x) * module(x)).sum(), list(module.parameters())),
        (lambda x: module.weight, [X]),
    ]:
        for check in (gradcheck, gradgradcheck):
            with pytest.raises(ValueError, match=r"contains none of the inputs.*pass the module"):
                check(fn, inputs)
    assert gradcheck(lambda x, y: ops.exp(x) * module.bias[0], [X, Y])  # one input is used


def test_a_function_whose_gradient_is_zero_or_that_is_constant_is_accepted() -> None:
    functions = [lambda x: x, ops.sign, ops.floor, lambda x: (x > 0) * 1.0, lambda x: Tensor(np.ones(3))]
    for fn in (*functions, lambda x: ops.floor(x) * Tensor(2.0, requires_grad=True)):
        assert gradcheck(fn, [X])
        assert gradgradcheck(fn, [X])


def test_inputs_are_not_changed() -> None:
    x = X.astype(np.float32)
    before = x.copy()
    tensor = Tensor(x, requires_grad=True)
    assert gradcheck(ops.relu, [tensor])
    np.testing.assert_array_equal(x, before)
    assert tensor.grad is None


def test_outputs_of_any_form() -> None:
    assert gradcheck(lambda x: {"a": x * x, "b": [x.sum(), None], "c": (x.argmax(),)}, [X])
    assert gradcheck(lambda x: [x.reshape(4, 3), x[:0]], [X])
    assert gradcheck(ops.exp, [np.zeros((0, 3))])
    assert gradcheck(ops.exp, [np.float64(0.5)])


def test_large_inputs_are_sampled() -> None:
    report = gradcheck(ops.tanh, [RNG.normal(size=(40, 50))], max_entries=7)
    assert report.entries == 7
    assert "7 of 2000 entries" in str(report)


def test_randomness_is_replayed_or_refused() -> None:
    assert gradcheck(lambda x: ops.dropout(x, 0.5), [X])
    with pytest.raises(ValueError, match="different results for the same inputs"):
        gradcheck(lambda x: x * float(RNG.normal()), [X])


def test_modules_are_checked_with_their_parameters() -> None:
    module = Sequential(Linear(4, 5), Dropout(0.3), Linear(5, 2))
    arrays = {name: parameter.data for name, parameter in module.named_parameters()}
    report = gradcheck(module, [X.astype(np.float32)])
    assert report, str(report)
    assert [check.name for check in report.checks] == ["input 0", "0.weight", "0.bias", "2.weight", "2.bias"]
    assert all(parameter.data is arrays[name] for name, parameter in module.named_parameters())
    module[0].bias.requires_grad_(False)
    assert "0.bias" not in [check.name for check in gradcheck(module, [X]).checks]


def test_a_wrong_module_is_found_and_left_as_it_was() -> None:
    class Wrong(Linear):
        def forward(self, x):
            return super().forward(x) + (self.bias * self.bias.detach()).sum()

    module = Wrong(4, 2)
    module.bias.data[...] = 1.0
    report = gradcheck(module, [X])
    assert [check.name for check in report.checks if not check.ok] == ["bias"]
    assert module.bias.dtype == np.float32
    (module(Tensor(X.astype(np.float32))) * 1.0).sum().backward()
    assert module.weight.grad.dtype == np.float32


def test_second_order() -> None:
    report = gradgradcheck(ops.layer_norm, [X, RNG.normal(size=4), RNG.normal(size=4)])
    assert report, str(report)
    assert len(report.checks) == 4  # the output gradient is an input of the gradient
    assert gradgradcheck(lambda x: x + 1.0, [X])  # the gradient does not depend on x


def test_a_wrong_second_derivative_is_found() -> None:
    class Cube(Function):
        def forward(self, x):
            self.keep(3 * x * x)  # a statistic that depends on x, but is kept like a constant
            return x**3

        def backward(self, g):
            return g * self.kept[0]

    assert gradcheck(lambda x: Cube()(x), [X])
    report = gradgradcheck(lambda x: Cube()(x), [X])
    assert not report
    assert "no gradient arrives" in str(report)


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_line_reports_what_is_wrong(monkeypatch, capsys) -> None:
    class Wrong(ops.exp.kind):
        def backward(self, g):
            return -super().backward(g)

    monkeypatch.setattr(CATALOGUE["exp"], "function", lambda x: Wrong()(x))
    assert main(["--op", "exp", "--samples", "4"]) == 1
    out = capsys.readouterr().out
    assert "FAILED" in out
    assert "hint: the sign is flipped" in out
    with pytest.raises(SystemExit):
        main(["--op", "nonsense"])
    assert "there is no op 'nonsense'; there are" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--op", "softmx"])
    assert "there is no op 'softmx'; did you mean softmax?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "--seed" in capsys.readouterr().out


@pytest.mark.parametrize("steps", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("slope", [1e-5, 1e-4, 1.0])
def test_a_small_kink_within_the_steps_is_no_wrong_gradient(steps: float, slope: float) -> None:
    """The slope changes a little, at a distance of `steps` steps: the differences agree roughly, but not exactly."""
    at = steps * STEPS[0]
    value, noise = central_difference(lambda step: step + slope * max(step - at, 0.0), 1.0, 0.0)
    assert abs(value - 1) <= 1e-7 + 20 * noise
