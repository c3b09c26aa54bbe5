"""Chapter 10, the exercises: Adam, the learning rate schedule, and a training loop with four mistakes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from ...autograd import Parameter, manual_seed, no_grad, ops
from ...models import Seq2SeqConfig, Seq2SeqTransformer
from ...train.optim.optimizers import Adam
from ...train.optim.schedules import noam as schedule
from ..changes import changed
from ..exercise import Exercise, need
from .c10_learn_solution import PAD, adam, noam, train

# -- adam --------------------------------------------------------------------------------------------------------------


def probe_adam(adam: Any) -> dict[str, Any]:
    gradients = np.random.default_rng(10).standard_normal((4, 5)) * [1000.0, 1.0, 1.0, 1e-3, 0.0]

    def after(steps: int, **options: float) -> tuple[Any, ...]:
        w, m, v = np.arange(5.0), np.zeros(5), np.zeros(5)
        for t in range(1, steps + 1):
            w, m, v = need(adam(w, gradients[t - 1], m, v, t, 0.1, **options), tuple, "adam(...)")
        return w, m, v

    found = dict(zip(("w", "m", "v"), after(4), strict=True))
    return {
        "the mean of the gradients, m, after four steps": found["m"],
        "the mean of their squares, v, after four steps": found["v"],
        "the weights after one step": after(1)[0],
        "the weights after four steps": found["w"],
        "the weights with eps=0.5": after(2, eps=0.5)[0],
    }


def real_adam(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    parameter = Parameter(w.copy())
    optimizer = Adam([parameter], lr, (b1, b2), eps)
    optimizer.load_state_dict({"steps": t - 1, "moments": {"m.0": m, "v.0": v}})
    parameter.grad = g.copy()
    optimizer.step()
    moments = optimizer.state_dict()["moments"]
    return parameter.data, moments["m.0"].copy(), moments["v.0"].copy()


ADAM = Exercise(
    adam,
    probe_adam,
    real_adam,
    source="train.optim.optimizers.Adam",
    hints=(
        "m and v began at 0. After the first step, which share of the first gradient is in m?",
        "With b1 = 0.9 it is 0.1 after 1 step and 0.19 after 2: 1 - 0.9². Dividing by that makes m a mean. The same "
        "for v with b2.",
        "m = b1 * m + (1 - b1) * g; v the same with b2 and g**2; mean = m / (1 - b1**t) and square = v / (1 - "
        "b2**t); return w - lr * mean / (np.sqrt(square) + eps), m, v.",
    ),
    changes="""
        m and v are right, but they began at 0, and after a few steps they are still too small: divide m by 1 - b1**t
        and v by 1 - b2**t before you use them.
        - m / (1 - b1**t), v / (1 - b2**t)
        + m, v
        v is a mean of squares. Divide by its root; otherwise a gradient that is 1000 times as large makes a step 1000
        times as small.
        - np.sqrt(square)
        + square
        The step follows g, the gradient of this one batch. It should follow the mean m: in it the noise of many batches
        cancels.
        - lr * mean
        + lr * g
        eps is added inside the root. Add it to the root: np.sqrt(...) + eps.
        - np.sqrt(square) + eps
        + np.sqrt(square + eps)
        The corrected means are kept as m and v, so that the next step corrects them once more. Keep m and v as they
        are, and give other names to the corrected means.
        - eps), m, v
        + eps), mean, square
        b1 * m + g is a sum that grows to ten times g. A mean gives the new gradient the share 1 - b1, and g squared the
        share 1 - b2.
        - (1 - b1) * g
        + g
        - (1 - b2) * g
        + g
        eps is missing: a gradient that was always 0 gives 0 / 0. Add it to the root.
        - (np.sqrt(square) + eps)
        + np.sqrt(square)
        v is returned before m. The order is w, m, v.
        - eps), m, v
        + eps), v, m
        b1 and b2 are exchanged: b1 belongs to m, b2 to v.
        - b1=0.9, b2=0.98
        + b2=0.9, b1=0.98
        v is corrected, and m is not: it began at 0 too. Divide m by 1 - b1**t; otherwise the first steps are ten times
        too small.
        - m / (1 - b1**t)
        + m
        m is corrected, and v is not: it began at 0 too. Divide v by 1 - b2**t; otherwise the first steps are seven
        times too large.
        - v / (1 - b2**t)
        + v
    """,
)


@ADAM.right
def mean_by_mean(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    m, v = m + (1 - b1) * (g - m), v + (1 - b2) * (g * g - v)
    step = lr * np.sqrt(1 - b2**t) / (1 - b1**t)
    return w - step * m / (np.sqrt(v) + eps * np.sqrt(1 - b2**t)), m, v


# -- noam --------------------------------------------------------------------------------------------------------------


def probe_noam(noam: Any) -> dict[str, Any]:
    return {
        "the rate at the steps 1, 50 and 100 of a warm-up of 100": np.array([noam(t, 64, 100) for t in (1, 50, 100)]),
        "the rate at the steps 101, 200 and 10000": np.array([noam(t, 64, 100) for t in (101, 200, 10000)]),
        "the rate of a model of width 512": noam(300, 512, 4000),
    }


def real_noam(step: int, d: int, warmup: int) -> float:
    return schedule(d, warmup)(step)


NOAM = Exercise(
    noam,
    probe_noam,
    real_noam,
    source="train.optim.schedules.noam",
    hints=(
        "Both curves meet at the step `warmup`. How high is the falling one there, and so how steep is the line?",
        "With a warm-up of 100 the falling curve is 0.1 at step 100, so the line rises by 0.001 a step: that is "
        "warmup to the power -1.5.",
        "d**-0.5 * min(step**-0.5, step * warmup**-1.5)",
    ),
    changes="""
        This is the higher of the two curves: it begins high and never stops rising. The rate is the lower curve.
        - min(
        + max(
        This is right up to the end of the warm-up. After that the rate should fall with step**-0.5.
        - min(step**-0.5, step * warmup**-1.5)
        + step * warmup**-1.5
        The rate stays at its maximum. After the warm-up it should fall with step**-0.5.
        - min(step**-0.5, step * warmup**-1.5)
        + warmup**-0.5 * min(1.0, step / warmup)
        The factor d**-0.5 is missing: wider models take smaller steps.
        - d**-0.5 *
        +
        The curves don't meet at `warmup`: there the falling one is warmup**-0.5. Through which number must the line
        step * c go at that step?
        - step * warmup**-1.5
        + step / warmup
    """,
)


@NOAM.right
def by_cases(step, d, warmup):
    rate = (d * step) ** -0.5
    return rate if step >= warmup else rate * (step / warmup) ** 1.5


# -- train -------------------------------------------------------------------------------------------------------------


def small_model(dropout: float) -> Seq2SeqTransformer:
    made = Seq2SeqTransformer(Seq2SeqConfig(7, 7, 4, 2, 1, 1, 6, dropout=dropout, max_length=8)).astype(np.float64)
    rng = np.random.default_rng(1)
    made.load_state_dict({name: 0.5 * rng.standard_normal(w.shape) for name, w in made.state_dict().items()})
    return made


FULL = np.array([[3, 4, 5], [6, 3, 3]]), np.array([[1, 5, 4, 3, 2], [1, 3, 3, 6, 2]])
PADDED = np.array([[4, 6, 5], [5, 0, 0]]), np.array([[1, 5, 6, 4, 2], [1, 5, 2, 0, 0]])


def probe_train(train: Any) -> dict[str, Any]:
    def trained(batches: Any, held_out: Any, dropout: float = 0.0) -> Any:
        model = small_model(dropout)
        manual_seed(10)
        optimizer = Adam(model.parameters(), betas=(0.9, 0.98))
        lists = need(train(model, optimizer, lambda step: 0.1 / step, batches, held_out), tuple, "train(...)")
        return tuple(np.array(one) for one in lists)

    losses, after = trained([FULL, PADDED, FULL, FULL], [FULL])
    return {
        "the loss of the first batch, which has no padding": losses[:1],
        "the loss of a first batch with padding": trained([PADDED], [])[0],
        "the loss of a first batch, of a model with dropout": trained([FULL], [], dropout=0.5)[0],
        "the losses of four batches": losses,
        "the held-out loss after four batches": after,
        "the held-out loss of a model with dropout": trained([], [FULL], dropout=0.5)[1],
    }


def real_train(model, optimizer, rate, batches, held_out):
    model.train()
    losses = []
    for step, (source, target) in enumerate(batches, 1):
        optimizer.zero_grad()
        loss = model.loss(source, target[:, :-1], target[:, 1:])
        loss.backward()
        optimizer.lr = rate(step)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with no_grad():
        return losses, [model.loss(source, target[:, :-1], target[:, 1:]).item() for source, target in held_out]


LEAK, PADDING, KEPT, MODE = "what the decoder reads", "the padding", "the gradients", "the held-out loss"
#: The four mistakes of `suspect`: the message if the mistake is the first that remains, and the change that makes it.
FOUR = {
    LEAK: (
        "The decoder reads target[:, 1:], the very words that it should say: it learns to copy. It should read what "
        "comes before them: <bos> and all but the last.",
        "- target[:, :-1]\n+ target[:, 1:]",
    ),
    PADDING: (
        "Padding is counted. Saying 'padding' after padding is easy, so the loss is too low, and it depends on how the "
        "batch was put together. ops.cross_entropy leaves out the label that is its ignore_index.",
        "- , ignore_index=PAD\n+",
    ),
    KEPT: (
        "The first loss is right, the later ones are not: backward() adds to the gradients that are there (chapter 1), "
        "so each step follows the sum of all batches so far. The optimizer has a method to forget them.",
        "- optimizer.zero_grad()\n+ pass",
    ),
    MODE: (
        "Dropout is still at work when the held-out loss is taken: it is too high, and another one at each call. "
        "model.eval() switches it off.",
        "- model.eval()\n+ pass",
    ),
}


def some_left() -> str:
    """Return the text of `changes` for all loops with four, three, two or one of the mistakes of `suspect`."""
    lines = []
    for count in (4, 3, 2, 1):
        for left in combinations(FOUR, count):
            mended = " and ".join(name for name in FOUR if name not in left)
            lines.append(f"Mended: {mended}; {count} to go. {FOUR[left[0]][0]}")
            lines += [FOUR[name][1] for name in left]
    lines[0] = "This is `suspect` as it was given, with all of its four mistakes. Do the tests of the chapter's text."
    return "\n".join(lines)


def loop_with(*left: str) -> Any:
    """Return the training loop with the mistakes `left`."""
    if not left:
        return train
    ((_, loop),) = changed(train, "\n".join(FOUR[name][1] for name in left))
    return loop


TRAIN = Exercise(
    train,
    probe_train,
    real_train,
    source="train.trainer.Trainer.fit",
    hints=(
        "What does the decoder read, and what should it say: are these the same words?",
        "2 of the 4 mistakes are in loss_of. 1 line is missing at the beginning of each round of the loop, and 1 line "
        "is missing between the loop and the held-out loss. Fix one mistake at a time and check: the answer says which "
        "ones are fixed.",
        "model(source, target[:, :-1]); ops.cross_entropy(..., ignore_index=PAD); optimizer.zero_grad() before "
        "backward(); model.eval() after the loop.",
    ),
    changes=f"""
{some_left()}
The gradients are cleared between backward() and step(), so nothing is learned. Clear those of the previous batch:
zero_grad() comes before backward().
- optimizer.zero_grad()
+ pass
- loss.backward()
+ loss.backward()
+ optimizer.zero_grad()
The labels are what the decoder reads, target[:, :-1]. It should say the word *after* each of them.
- target[:, 1:], ignore
+ target[:, :-1], ignore
The model trains without its dropout: eval() belongs after the loop, and train() before it.
- model.train()
+ model.eval()
""",
)


@TRAIN.right
def only_the_real_ones(model, optimizer, rate, batches, held_out):
    def loss_of(source, target):
        read, say = target[:, :-1], target[:, 1:]
        return ops.cross_entropy(model(source, read)[say != PAD], say[say != PAD])

    losses, after = [], []
    for number, batch in enumerate(batches):
        model.train()
        for parameter in model.parameters():
            parameter.grad = None
        loss = loss_of(*batch)
        loss.backward()
        optimizer.lr = rate(number + 1)
        optimizer.step()
        losses.append(float(loss.data))
    model.eval()
    for batch in held_out:
        after.append(float(loss_of(*batch).data))
    return losses, after
