"""Compare values and derivatives of quick and plain implementations of each op, on the catalogue's inputs."""

from typing import Any

import numpy as np
import pytest

from handloom.autograd import Generator, Tensor, checkpoint, explain, is_plain, ops, plain
from handloom.autograd.catalogue import CATALOGUE, Sample
from handloom.autograd.fast import linear
from handloom.autograd.ops.registry import ORDER
from handloom.autograd.quick import switched_on
from handloom.errors import InputError
from tests.autograd.ops import test_whole_range as whole_range
from tests.support.implementations import compare_forms, computed, moved, names_with, quick_implementations, samples_of
from tests.support.work import in_threads


@pytest.mark.parametrize("name", names_with("in place", "cpu", "blocked", "standard"))
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_quick_equals_plain(name: str, dtype: Any) -> None:
    for sample in samples_of(name, dtype, 40 if dtype == np.float64 else 15):
        compare_forms(CATALOGUE[name], sample)


@pytest.mark.parametrize("name", names_with("in place", "cpu", "blocked", "standard"))
def test_quick_forms_round_about_as_well_as_plain_ones(name: str) -> None:
    """Float32 errors are at most 2, 3 and 4 times the plain errors: values, gradients and second derivatives."""
    spec, worst = CATALOGUE[name], {order: np.zeros(2) for order in range(3)}
    for single in samples_of(name, np.float32, 40):
        if single.kwargs.get("dropout") and single.kwargs.get("method") == "blocked":
            continue  # the implementations draw different masks
        args = [a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in single.args]
        truth = computed(spec, Sample(tuple(args), single.kwargs, single.differentiable), True, "cpu")
        for form in (0, 1):
            for (_, order, found), (_, _, true) in zip(computed(spec, single, bool(form), "cpu"), truth, strict=True):
                error = np.abs(found - true).max(initial=0) / max(np.abs(true).max(initial=0), 1)
                worst[order][form] = max(worst[order][form], error)
    for order, (quick, own) in worst.items():
        assert quick <= (2, 3, 4)[order] * own + 16 * np.finfo(np.float32).eps, (order, quick, own)


@pytest.mark.parametrize("name", names_with("device"))
def test_kernels_equal_plain(name: str, fake_cupy: Any, counted_masks: Any) -> None:
    for sample in samples_of(name, np.float32, 6):
        compare_forms(CATALOGUE[name], sample, "cuda")


def test_every_form_serves_some_input_of_the_catalogue(fake_cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition that never holds would leave its implementation untested."""
    monkeypatch.setattr(linear, "MIN_MULTIPLICATIONS", 0)
    served: dict[str, set[str]] = {name: set() for name in quick_implementations()}
    for name in names_with(*ORDER):
        for sample in samples_of(name, np.float32, 25):
            for device in ("cpu", "cuda"):
                args, kwargs = moved(sample, device)
                told = explain(CATALOGUE[name].function, *args, **kwargs).splitlines()
                if len(told) == 2:  # there is nothing to compute
                    continue
                serving = {line[2:11].strip() for line in told[1:] if line.endswith("  selected")}
                served[name] |= serving
    for name, forms in quick_implementations().items():
        # tests/autograd/fast/test_compiled.py tests compiled implementations, which need large arrays.
        missing = {known.name for known in forms} - served[name] - {"fused", "compiled"}
        assert not missing, (name, missing)


def without_compiled(told: str) -> list[str]:
    """Return the lines of `explain` without the compiled implementation, which depends on the installed packages."""
    return [line for line in told.splitlines() if not line.startswith("  compiled ")]


def test_explain_says_which_form_serves_and_why_the_others_do_not() -> None:
    x, weight = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    generator = Generator(0)
    before = generator.get_state()
    told = explain("residual_layer_norm", x, x, weight, weight, 0.5, generator=generator)
    assert generator.get_state() == before  # nothing was computed
    assert without_compiled(told) == [
        "residual_layer_norm(float32[2, 3], float32[2, 3], float32[3], float32[3])",
        "  cpu       selected",
        "  device    no: the arrays are on the CPU",
        "  plain     not needed: a quicker one is selected",
    ]
    with plain():
        assert without_compiled(explain(ops.layer_norm, x, weight, weight))[1:] == [
            "  cpu       no: plain() or HANDLOOM_PLAIN=1 leaves it out",
            "  device    no: plain() or HANDLOOM_PLAIN=1 leaves it out",
            "  plain     selected",
        ]
    assert "only implementation" in explain("exp", x)
    with pytest.raises(ValueError, match="must be a probability from 0 to 1"):
        explain("dropout", x, 2.0)
    assert isinstance(ops.layer_norm(x, weight, weight), Tensor)  # after `explain`, ops compute again


def test_plain_is_a_matter_of_the_thread_and_ends_with_its_block() -> None:
    seen = []
    with plain():
        assert is_plain()
        in_threads(lambda: seen.append(is_plain()))
        with plain(False):
            assert not is_plain()
        assert is_plain()
    assert not is_plain()
    assert seen == [False]
    assert plain()(is_plain)()


def test_an_environment_variable_is_1_or_0(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, unset, expected in (("1", False, True), ("0", True, False), ("", True, True), ("", False, False)):
        monkeypatch.setenv("HANDLOOM_LOOM", value)
        assert switched_on("HANDLOOM_LOOM", unset, "less", "more") is expected
    monkeypatch.setenv("HANDLOOM_LOOM", "yes")
    with pytest.raises(InputError, match="HANDLOOM_LOOM is 'yes': set it to 0 for less, or to 1 for more"):
        switched_on("HANDLOOM_LOOM", False, "less", "more")


@pytest.mark.parametrize("name", names_with("cpu", "standard"))
def test_plain_implementations_of_float16_are_float32_rounded(name: str) -> None:
    with plain():
        whole_range.test_float16_is_float32_rounded(name)


def test_a_checkpoint_is_computed_again_by_the_forms_of_the_first_time() -> None:
    x, weight = (Tensor(np.ones(shape), requires_grad=True) for shape in ((2, 3), (4, 3)))
    forms = []

    def layer(x: Tensor) -> Tensor:
        forms.append(is_plain())
        return ops.linear(x, weight)

    with plain():
        out = checkpoint(layer, x)
    out.sum().backward()
    assert forms == [True, True]
    out = checkpoint(layer, x)
    with plain():
        out.sum().backward()
    assert forms == [True, True, False, False]
