"""Chapter 5, the exercises: softmax, cross-entropy, label smoothing with padding, and the gradient."""

from typing import Any

import numpy as np

from ...autograd import Tensor, ops

PADDED = np.array([3, -100, 0, 1, -100])


def numbers(*shape: int) -> np.ndarray:
    return 2 * np.random.default_rng(5).standard_normal(shape)


def probe_softmax(softmax: Any) -> dict[str, Any]:
    far = np.array([[1000.0, 999.0, 1001.0], [-1000.0, -1001.0, -1003.0]])
    return {
        "the softmax of one row": softmax(numbers(1, 3)),
        "the softmax of 3 rows of 3": softmax(numbers(3, 3)),
        "the softmax of 2 rows of 5": softmax(numbers(2, 5)),
        "the softmax of scores near 1000": softmax(far[:1]),
        "the softmax of a row near 1000 and a row near -1000": softmax(far),
    }


def real_softmax(x: Any) -> np.ndarray:
    return ops.softmax(Tensor(x)).data


def probe_cross_entropy(cross_entropy: Any) -> dict[str, Any]:
    target = np.array([3, 0, 0, 1, 2])
    return {
        "the loss of one position": cross_entropy(numbers(1, 4), target[:1]),
        "the loss of 10 equal scores, log 10": cross_entropy(np.zeros((1, 10)), target[:1]),
        "the loss of 5 positions": cross_entropy(numbers(5, 4), target),
        "the loss of scores that are 800 apart": cross_entropy(np.array([[0.0, 800.0], [1000.0, 0.0]]), target[1:3]),
    }


def real_cross_entropy(logits: Any, target: Any) -> float:
    return real_smoothed(logits, target, 0.0)


def probe_smoothed(smoothed: Any) -> dict[str, Any]:
    target = np.array([3, 2, 0, 1, 2])
    return {
        "the loss without smoothing and padding": smoothed(numbers(5, 4), target, 0.0),
        "the loss with a smoothing of 0.1, without padding": smoothed(numbers(5, 4), target, 0.1),
        "the loss with padding, without smoothing": smoothed(numbers(5, 4), PADDED, 0.0),
        "the loss with padding and a smoothing of 0.2": smoothed(numbers(5, 4), PADDED, 0.2),
        "the loss with a smoothing of 1": smoothed(numbers(5, 4), target, 1.0),
        "the loss of scores near 1000": smoothed(numbers(5, 4) + 1000, target, 0.1),
    }


def real_smoothed(logits: Any, target: Any, smoothing: float) -> float:
    return float(ops.cross_entropy(Tensor(logits), target, label_smoothing=smoothing).data)


def probe_gradient(gradient: Any) -> dict[str, Any]:
    target = np.array([3, 2, 0, 1, 2])
    return {
        "the gradient of one position without smoothing": gradient(numbers(1, 4), target[:1], 0.0),
        "the gradient of 5 positions without smoothing": gradient(numbers(5, 4), target, 0.0),
        "the gradient with a smoothing of 0.2": gradient(numbers(5, 4), target, 0.2),
        "the gradient with padding and a smoothing of 0.2": gradient(numbers(5, 4), PADDED, 0.2),
    }


def real_gradient(logits: Any, target: Any, smoothing: float) -> Any:
    leaf = Tensor(logits, requires_grad=True)
    ops.cross_entropy(leaf, target, label_smoothing=smoothing).backward()
    return leaf.grad
