"""Chapter 15, the exercises: matrix product, embedding and attention for the learner's engine, the training loop, and
translation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import Parameter, Tensor, ops
from ...train.optim.optimizers import Adam
from ..exercise import Exercise, need
from .c01_gradient import rule_of
from .c11_beam import real_beam_search
from .c15_together_solution import BOS, EOS, HEADS, D, Scalar, attend, learn, lookup, matmul, merge, split, translate


def drawn(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(15)
    return [rng.standard_normal(shape) for shape in shapes]


def node(y: Tensor, leaves: list[Tensor], inputs: tuple[Any, ...]) -> Any:
    """Return a Scalar with the value of the Tensor y and a rule that calls y's backward pass."""

    def rule(g):
        y.backward(np.asarray(g))
        return tuple(leaf.grad for leaf in leaves)

    return Scalar(y.data, inputs, rule)


def leaf(array: Any) -> Tensor:
    return Tensor(array, requires_grad=True)


# -- matmul ------------------------------------------------------------------------------------------------------------


def probe_matmul(matmul: Any) -> dict[str, Any]:
    a, stack, w, g, stack_g = drawn((3, 4), (2, 3, 4), (4, 5), (3, 5), (2, 3, 5))
    (x, y), (batch, again) = map(Scalar, (a, w)), map(Scalar, (stack, w))
    one, many = matmul(x, y), matmul(batch, again)
    dx, dy = rule_of(one, (x, y), g, "matmul(x, y)")
    dbatch, dagain = rule_of(many, (batch, again), stack_g, "matmul(x, y)")
    return {
        "the product of two matrices": one.data,
        "what goes back to x": dx,
        "what goes back to y": dy,
        "the product of a stack with a matrix": many.data,
        "what goes back to the stack": dbatch,
        "what goes back to the matrix": dagain,
    }


def real_matmul(x, y):
    leaves = [leaf(x.data), leaf(y.data)]
    return node(ops.matmul(*leaves), leaves, (x, y))


MATMUL = Exercise(
    matmul,
    probe_matmul,
    real_matmul,
    source="autograd.ops.linalg.matmul",
    hints=(
        "What does `add` return, and in which order does its rule give the two shares?",
        "A product of (3, 4) and (4, 5) has 15 numbers; g has 15 too, and the rule returns 12 and 20 of them.",
        "Scalar(x.data @ y.data, (x, y), lambda g: matmul_rule(..., ..., g)), with arrays at the dots.",
    ),
    changes="""
        matmul_rule takes arrays, and x and y are Scalars: x.data, y.data.
        - matmul_rule(x.data, y.data, g)
        + matmul_rule(x, y, g)
        The two factors are exchanged in the rule: chapter 2's rule takes the left one first.
        - matmul_rule(x.data, y.data, g)
        + matmul_rule(y.data, x.data, g)
        The rule ignores g, which says how much the loss depends on each number of the product.
        - matmul_rule(x.data, y.data, g)
        + matmul_rule(x.data, y.data, np.ones_like(x.data @ y.data))
        This is the rule of an elementwise product (chapter 1). Here each number of x was multiplied with a whole row of
        y.
        - matmul_rule(x.data, y.data, g)
        + (g * y.data, g * x.data)
    """,
)


@MATMUL.right
def with_sums_written_out(x, y):
    def rule(g):
        rows, shares = (array.reshape(-1, array.shape[-1]) for array in (x.data, g))
        return np.einsum("...ij,kj->...ik", g, y.data), np.einsum("ik,ij->kj", rows, shares)

    return Scalar(np.einsum("...ik,kj->...ij", x.data, y.data), (x, y), rule)


# -- lookup ------------------------------------------------------------------------------------------------------------


def probe_lookup(lookup: Any) -> dict[str, Any]:
    rows, g = drawn((6, 9), (2, 3, 9))
    found: dict[str, Any] = {}
    for what, ids in (("three different words", [[3, 1, 4]]), ("words that occur twice", [[3, 1, 3], [1, 5, 0]])):
        table = Scalar(rows)
        made = lookup(table, np.array(ids))
        (share,) = rule_of(made, (table,), g[: len(ids)], "lookup(table, ids)")
        found |= {f"the vectors of {what}": made.data, f"what goes back to the table from {what}": share}
    return found


def real_lookup(table, ids):
    rows = leaf(table.data)
    return node(ops.embedding(ids, rows) * 3.0, [rows], (table,))


LOOKUP = Exercise(
    lookup,
    probe_lookup,
    real_lookup,
    source="nn.embedding.Embedding.forward",
    hints=(
        "Row 3 of the table is used for two words of the batch. Through which two ways does the loss depend on it?",
        "For the ids 3, 1, 3 the table's gradient has two rows that are not 0. Row 3 is the sum of two rows of g.",
        "shares = np.zeros_like(table.data); np.add.at(shares, ids, g * scale); return (shares,), a tuple of one.",
    ),
    changes="""
        This is right as long as no word occurs twice: NumPy's `shares[ids] += ...` keeps only the last share of a row
        that is named twice. np.add.at adds all shares.
        - np.add.at(shares, ids, g * scale)
        + shares[ids] += g * scale
        The vectors were multiplied by sqrt(d), so multiply their gradient by sqrt(d) too.
        - g * scale
        + g
        The vectors are the rows of the table times sqrt(d), as in chapter 9.
        - table.data[ids] * scale
        + table.data[ids]
        This gradient has the shape of the vectors. The input is the table, so the gradient must have the shape of the
        table.
        - return (shares,)
        + return (g * scale,)
    """,
)


@LOOKUP.right
def by_a_product(table, ids):
    chosen = np.eye(len(table.data))[ids] * np.sqrt(table.data.shape[1])
    return Scalar(chosen @ table.data, (table,), lambda g: (np.tensordot(chosen, g, ((0, 1), (0, 1))),))


# -- attend ------------------------------------------------------------------------------------------------------------


def probe_attend(attend: Any) -> dict[str, Any]:
    queries, keys, values, g = drawn((2, 3, D), (2, 5, D), (2, 5, D), (2, 3, D))
    q, k, v = map(Scalar, (queries, keys, values))
    made = attend(q, k, v, (np.arange(5) < np.array([[5], [2]]))[:, None, None, :])
    shares = rule_of(made, (q, k, v), g, "attend(q, k, v, mask)")
    names = "what goes back to the values", "what goes back to the queries", "what goes back to the keys"
    return {"what the words get": made.data} | dict(zip(names, (shares[2], *shares[:2]), strict=True))


def real_attend(q, k, v, mask):
    leaves = [leaf(x.data) for x in (q, k, v)]
    heads = [x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2) for x in leaves]
    out = ops.attention(*heads, mask=mask).swapaxes(1, 2).reshape(*q.data.shape)
    return node(out, leaves, (q, k, v))


ATTEND = Exercise(
    attend,
    probe_attend,
    real_attend,
    source="autograd.ops.attention.attention_plain",
    hints=(
        "Which of the three gradients needs the values only, and which needs the weights p only? Begin with that one.",
        "Chapter 13 checked your formulas on 2 queries and 3 keys. The shapes here have two axes more in front, which "
        "`@` leaves alone: (batch, heads, 3, 16) times (batch, heads, 16, 5) is (batch, heads, 3, 5).",
        "ds = p * (g @ vs.swapaxes(2, 3) - (g * out).sum(axis=3, keepdims=True)) * scale; then merge(ds @ ks) for q, "
        "merge(ds.swapaxes(2, 3) @ qs) for k and merge(p.swapaxes(2, 3) @ g) for v.",
    ),
    changes="""
        D is missing: the weights of a row sum to 1, so one weight can grow only if the others shrink. D of chapter 13
        is the sum of g · out.
        - (g * out).sum(axis=3, keepdims=True)
        + 0
        The scores were multiplied by `scale`, so multiply the gradients of q and k by `scale` too.
        - keepdims=True)) * scale
        + keepdims=True))
        dV is Pᵀ g, with the weights P instead of dS.
        - merge(p.swapaxes
        + merge(ds.swapaxes
        The gradients are still split into heads. `merge` puts the heads side by side again.
        - merge(ds @ ks), merge(ds.swapaxes(2, 3) @ qs), merge(p.swapaxes(2, 3) @ g)
        + ds @ ks, ds.swapaxes(2, 3) @ qs, p.swapaxes(2, 3) @ g
        dS has a row for each query and a column for each key: dK is dSᵀ Q.
        - ds.swapaxes(2, 3) @ qs
        + ds @ qs
        You take one D for the whole batch. Each query of each head has its own D: axis=3, keepdims=True.
        - (g * out).sum(axis=3, keepdims=True)
        + (g * out).sum()
    """,
)


@ATTEND.right
def through_the_softmax(q, k, v, mask):
    made = attend(q, k, v, mask)

    def rule(g):
        qs, ks, vs, gs = (split(x) for x in (q.data, k.data, v.data, g))
        scores = np.where(mask, np.einsum("bhqe,bhke->bhqk", qs, ks) / 4, -np.inf)
        p = np.exp(scores - np.logaddexp.reduce(scores, axis=3, keepdims=True))
        dp = np.einsum("bhqe,bhke->bhqk", gs, vs)
        ds = (p * dp - p * (p * dp).sum(axis=3, keepdims=True)) / 4
        parts = ("bhqk,bhke->bhqe", ds, ks), ("bhqk,bhqe->bhke", ds, qs), ("bhqk,bhqe->bhke", p, gs)
        return tuple(merge(np.einsum(*part)) for part in parts)

    return Scalar(made.data, (q, k, v), rule)


# -- learn -------------------------------------------------------------------------------------------------------------

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
        found |= {f"the losses of {steps}": np.array(losses), f"a weight after {steps}": weights["a"]}
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


LEARN = Exercise(
    learn,
    probe_learn,
    real_learn,
    source="train.trainer.Trainer.fit",
    hints=(
        "Where could a gradient of the step before still be, if each step makes new Scalars? And where, if it does "
        "not?",
        "The first weight of the check is 0.5 and 0.6 after one step: Adam's first step is as long as the rate, 0.1.",
        "nodes = {name: Scalar(w) for name, w in weights.items()}; loss = loss_of(nodes, batch); backward(loss); then "
        "weights[name], *means[name] = adam(weights[name], node.grad, *means[name], step, rate(step)).",
    ),
    changes="""
        The means m and v are thrown away after each step, so Adam starts again each time. Keep them in `means`.
        - weights[name], *means[name] = adam
        + weights[name], *_ = adam
        Adam always gets the step number 1. It divides by 1 - b1**t: pass the number of the current step.
        - step, rate(step))
        + 1, rate(step))
        Nothing has been learned: without backward() all gradients are 0.
        - backward(loss)
        + pass
        The Scalars are made once, before the loop: they keep the initial weights. Make new Scalars at each step.
        - nodes = {name: Scalar(w) for name, w in weights.items()}
        + pass
        - for step, batch in enumerate(batches, 1):
        + nodes = {name: Scalar(w) for name, w in weights.items()}
        + for step, batch in enumerate(batches, 1):
        Each step uses the learning rate of the first step: use rate(step).
        - rate(step))
        + rate(1))
        The step goes upwards: the weight moves along the gradient, and the loss grows. Pass the gradient to adam
        without changing its sign.
        - node.grad,
        + -node.grad,
    """,
)


@LEARN.right
def with_two_dictionaries(weights, loss_of, batches, rate):
    from .c10_learn_solution import adam
    from .c15_together_solution import backward

    m, v, losses = {}, {}, []
    for step, batch in enumerate(batches, 1):
        nodes = dict(zip(weights, map(Scalar, weights.values()), strict=True))
        backward(loss := loss_of(nodes, batch))
        for name in weights:
            before = m.get(name, 0 * weights[name]), v.get(name, 0 * weights[name])
            weights[name], m[name], v[name] = adam(weights[name], nodes[name].grad, *before, step, rate(step))
        losses += [loss.data]
    return losses


# -- translate ---------------------------------------------------------------------------------------------------------


def model(number: int) -> Any:
    """Return a function that computes logits of 7 tokens from the source and the last token of the target."""
    tables = 2 * np.random.default_rng(number).standard_normal((8, 7, 7))

    def next_logits(source, target):
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


TRANSLATE = Exercise(
    translate,
    probe_translate,
    real_translate,
    source="models.generation.beam.beam_search",
    hints=(
        "What does beam_search add up along a sentence, and are logits that?",
        "The logits 2, 1, 0 are the log-probabilities -0.41, -1.41, -2.41: the same number is subtracted from each.",
        "logits - logits.max() for safety, then minus np.log(np.exp(...).sum()). beam_search(next_log_p, BOS, EOS, "
        "width, 40, 1.0) returns the ids and their score; only the ids are wanted.",
    ),
    changes="""
        The logits are added up as they are. They become log-probabilities only if you subtract the log of their sum of
        exp, which differs from step to step.
        - shifted - np.log(np.exp(shifted).sum())
        + logits
        These are probabilities. The search computes sums, so it needs the logarithms.
        - shifted - np.log(np.exp(shifted).sum())
        + np.exp(shifted) / np.exp(shifted).sum()
        The sums of log-probabilities are compared without a length penalty, which favours short sentences: alpha should
        be 1.
        - 40, 1.0
        + 40
        The formula is right, but exp(900) is infinite. Subtract the largest logit first: the log-probabilities stay the
        same.
        - logits - logits.max()
        + logits
        This is the pair of ids and score. Return only the ids.
        - 1.0)[0]
        + 1.0)
        The width is fixed: the beam is as wide as `width` says.
        - EOS, width
        + EOS, 4
    """,
)


@TRANSLATE.right
def by_logaddexp(next_logits, source, width=4):
    def next_log_p(ids):
        logits = next_logits(np.array(source)[None], np.array(ids)[None])
        return logits - np.logaddexp.reduce(logits)

    ids, _ = real_beam_search(next_log_p, BOS, EOS, width, 40, alpha=1.0)
    return ids
