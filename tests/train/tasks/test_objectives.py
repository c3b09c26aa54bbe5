"""The formulas of class weights and distillation."""

import numpy as np
import pytest

from handloom.autograd import Parameter, gradcheck
from handloom.train.tasks.classification import class_weights
from handloom.train.tasks.task import distillation_loss


def test_weights_give_every_class_the_same_total() -> None:
    labels = np.array([0] * 6 + [1] * 3 + [3])
    weights = class_weights(labels, 4)
    assert weights.dtype == np.float32
    totals = [weights[c] * (labels == c).sum() for c in (0, 1, 3)]
    np.testing.assert_allclose(totals, totals[0])
    assert weights[2] == 0
    np.testing.assert_array_equal(class_weights(labels, 4, most=1.5), np.minimum(weights, 1.5))
    assert weights.max() > 1.5


class TestDistillation:
    rng = np.random.default_rng(1)
    student, teacher = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 3, 5))
    counted = np.array([[True, True, True], [True, False, False]])

    def test_it_is_its_formula(self) -> None:
        def softened(logits):
            raised = np.exp(logits / 2.0)
            return raised / raised.sum(axis=-1, keepdims=True)

        p, q = softened(self.teacher), softened(self.student)
        expected = 4.0 * (p * np.log(p / q)).sum(axis=-1)[self.counted].mean()
        found = distillation_loss(Parameter(self.student), self.teacher, self.counted, 2.0)
        assert found.item() == pytest.approx(expected, rel=1e-10)
        same = distillation_loss(Parameter(self.teacher), self.teacher, self.counted)
        assert same.item() == pytest.approx(0, abs=1e-12)

    def test_a_class_that_the_teacher_rules_out_counts_nothing(self) -> None:
        teacher = np.concatenate([self.teacher, np.full((2, 3, 1), -np.inf)], axis=-1)
        student = np.concatenate([self.student, np.full((2, 3, 1), -200.0)], axis=-1)
        expected = distillation_loss(Parameter(self.student), self.teacher, self.counted).item()
        assert distillation_loss(Parameter(student), teacher, self.counted).item() == pytest.approx(expected, rel=1e-9)

    def test_its_gradient(self) -> None:
        assert gradcheck(lambda logits: distillation_loss(logits, self.teacher, self.counted, 3.0), [self.student])
