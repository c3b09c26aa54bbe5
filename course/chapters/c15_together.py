"""Chapter 15, the exercises: matrix product, embedding and attention for the learner's engine, the training loop, and
translation.
"""

from typing import Any

import numpy as np

from ...autograd import Parameter, Tensor, ops
from ...train.optim.optimizers import Adam
from ..exercise import Wrong, need, normal
from .c01_gradient import rule_of
from .c11_beam import real_beam_search
from .c15_together_solution import BOS, EOS, HEADS, D, Scalar


def node(y: Tensor, leaves: list[Tensor], inputs: tuple[Any, ...]) -> Any:
    """Return a Scalar with the value of the Tensor y and a rule that calls y's backward pass."""

    def rule(g):
        y.backward(np.asarray(g))
        return tuple(leaf.grad for leaf in leaves)

    return Scalar(y.data, inputs, rule)


def leaf(array: Any) -> Tensor:
    return Tensor(array, requires_grad=True)


def probe_matmul(matmul: Any) -> dict[str, Any]:
    a, stack, w, g, stack_g = normal(15, (3, 4), (2, 3, 4), (4, 5), (3, 5), (2, 3, 5))
    (x, y), (batch, again) = map(Scalar, (a, w)), map(Scalar, (stack, w))
    one, many = matmul(x, y), matmul(batch, again)
    dx, dy = rule_of(one, (x, y), g, "matmul(x, y)")
    dbatch, dagain = rule_of(many, (batch, again), stack_g, "matmul(x, y)")
    return {
        "the product of two matrices": one.data,
        "the gradient of x": dx,
        "the gradient of y": dy,
        "the product of a stack with a matrix": many.data,
        "the gradient of the stack": dbatch,
        "the gradient of the matrix": dagain,
    }


def real_matmul(x, y):
    leaves = [leaf(x.data), leaf(y.data)]
    return node(ops.matmul(*leaves), leaves, (x, y))


def probe_lookup(lookup: Any) -> dict[str, Any]:
    rows, g = normal(15, (6, 9), (2, 3, 9))
    found: dict[str, Any] = {}
    for what, ids in (("three different words", [[3, 1, 4]]), ("words that occur twice", [[3, 1, 3], [1, 5, 0]])):
        table = Scalar(rows)
        made = lookup(table, np.array(ids))
        (share,) = rule_of(made, (table,), g[: len(ids)], "lookup(table, ids)")
        found |= {f"the vectors of {what}": made.data, f"the gradient of the table for {what}": share}
    return found


def real_lookup(table, ids):
    rows = leaf(table.data)
    return node(ops.embedding(ids, rows) * 3.0, [rows], (table,))


def probe_attend(attend: Any) -> dict[str, Any]:
    queries, keys, values, g = normal(15, (2, 3, D), (2, 5, D), (2, 5, D), (2, 3, D))
    q, k, v = map(Scalar, (queries, keys, values))
    made = attend(q, k, v, (np.arange(5) < np.array([[5], [2]]))[:, None, None, :])
    shares = rule_of(made, (q, k, v), g, "attend(q, k, v, mask)")
    names = "the gradient of v", "the gradient of q", "the gradient of k"
    return {"the output": made.data} | dict(zip(names, (shares[2], *shares[:2]), strict=True))


def real_attend(q, k, v, mask):
    leaves = [leaf(x.data) for x in (q, k, v)]
    heads = [x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2) for x in leaves]
    out = ops.attention(*heads, mask=mask).swapaxes(1, 2).reshape(*q.data.shape)
    return node(out, leaves, (q, k, v))


TARGETS = [np.array([1.0, -2.0, 0.5]), np.array([3.0, 0.0, -1.0]), np.array([0.0, 1.0, 1.0]), np.array([2.0, 2.0, 0.0])]


def rate(step: int) -> float:
    return 0.1 / step


def far_from(nodes: Any, target: np.ndarray) -> Any:
    """Return the loss |a b - target|² / 2 of the weights a and b as a single node of the learner's class."""
    a, b = nodes["a"], nodes["b"]
    off = a.data * b.data - target
    return type(a)((off * off).sum() / 2, (a, b), lambda g: (g * off * b.data, g * off * a.data))


def probe_learn(learn: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for count in (1, 4):
        weights = {"a": np.array([0.5, -1.0, 2.0]), "b": np.array([1.0, 1.5, -0.5])}
        losses = need(learn(weights, far_from, TARGETS[:count], rate), list, "learn(...)")
        steps = "one step" if count == 1 else "four steps"
        found |= {f"the losses of {steps}": np.array(losses), f"the weight a after {steps}": weights["a"]}
    return found


def real_learn(weights, loss_of, batches, rate):
    leaves = {name: Parameter(w.copy()) for name, w in weights.items()}
    optimizer, losses = Adam(leaves.values(), betas=(0.9, 0.98), eps=1e-9), []
    for step, target in enumerate(batches, 1):
        optimizer.zero_grad()
        loss = ((leaves["a"] * leaves["b"] - target) ** 2).sum() / 2
        loss.backward()
        optimizer.lr = rate(step)
        optimizer.step()
        losses.append(loss.item())
    weights.update({name: parameter.data for name, parameter in leaves.items()})
    return losses


def model(number: int) -> Any:
    """Return a function that computes logits of 7 tokens from the source and the last token of the target."""
    tables = 2 * np.random.default_rng(number).standard_normal((8, 7, 7))

    def next_logits(source, target):
        if target[0, 0] != BOS or source[0, -1] != EOS:
            raise Wrong(
                f"next_logits got {source[0].tolist()} and {target[0].tolist()}. It needs the source as it was "
                "given, and the words so far with BOS in front."
            )
        logits = tables[int(source.sum()) % 8, target[0, -1]] + 900
        logits[[0, BOS]] = -50
        return logits

    return next_logits


def probe_translate(translate: Any) -> dict[str, Any]:
    def said(width: int) -> list[Any]:
        found = [translate(model(number), [3, 4, number, EOS], width) for number in range(12)]
        return [[int(token) for token in need(ids, list, "translate(...)")] for ids in found]

    return {"the translations with a beam of 1": said(1), "the translations with a beam of 4": said(4)}


def real_translate(next_logits, source, width=4):
    def next_log_p(ids):
        return ops.log_softmax(Tensor(next_logits(np.array([source]), np.array([ids])))).data

    return real_beam_search(next_log_p, BOS, EOS, width, 40, 1.0)[0]
