"""Chapter 10, the exercises: Adam, the schedule of the learning rate, and a training loop with four mistakes in it."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from ...autograd import Parameter, manual_seed, no_grad, ops
from ...models import Seq2SeqConfig, Seq2SeqTransformer
from ...train.optim.optimizers import Adam
from ...train.optim.schedules import noam as schedule
from ..exercise import Exercise, Mistake, need
from .c10_learn_solution import PAD, adam, suspect


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


def probe_noam(noam: Any) -> dict[str, Any]:
    return {
        "the rate at the steps 1, 50 and 100 of a warm-up of 100": np.array([noam(t, 64, 100) for t in (1, 50, 100)]),
        "the rate at the steps 101, 200 and 10000": np.array([noam(t, 64, 100) for t in (101, 200, 10000)]),
        "the rate of a model of width 512": noam(300, 512, 4000),
    }


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


# -- handloom's own ------------------------------------------------------------------------------------------------


def real_adam(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    parameter = Parameter(w.copy())
    optimizer = Adam([parameter], lr, (b1, b2), eps)
    optimizer.load_state_dict({"steps": t - 1, "moments": {"m.0": m, "v.0": v}})
    parameter.grad = g.copy()
    optimizer.step()
    moments = optimizer.state_dict()["moments"]
    return parameter.data, moments["m.0"].copy(), moments["v.0"].copy()


def real_noam(step: int, d: int, warmup: int) -> float:
    return schedule(d, warmup)(step)


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


# -- typical mistakes ----------------------------------------------------------------------------------------------


def not_corrected(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    _, m, v = adam(w, g, m, v, t, lr, b1, b2, eps)
    return w - lr * m / (np.sqrt(v) + eps), m, v


def without_the_root(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    _, m, v = adam(w, g, m, v, t, lr, b1, b2, eps)
    return w - lr * m / (1 - b1**t) / (v / (1 - b2**t) + eps), m, v


def gradient_for_the_mean(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    _, m, v = adam(w, g, m, v, t, lr, b1, b2, eps)
    return w - lr * g / (np.sqrt(v / (1 - b2**t)) + eps), m, v


def eps_under_the_root(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    _, m, v = adam(w, g, m, v, t, lr, b1, b2, eps)
    return w - lr * m / (1 - b1**t) / np.sqrt(v / (1 - b2**t) + eps), m, v


def corrected_means_kept(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    m = (b1 * m + (1 - b1) * g) / (1 - b1**t)
    v = (b2 * v + (1 - b2) * g**2) / (1 - b2**t)
    return w - lr * m / (np.sqrt(v) + eps), m, v


def sum_for_mean(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    m, v = b1 * m + g, b2 * v + g**2
    return w - lr * m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + eps), m, v


def without_eps(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    return adam(w, g, m, v, t, lr, b1, b2, 0.0)


def v_before_m(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    w, m, v = adam(w, g, m, v, t, lr, b1, b2, eps)
    return w, v, m


def swapped_rates(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    return adam(w, g, m, v, t, lr, b2, b1, eps)


def the_higher_curve(step, d, warmup):
    return d**-0.5 * max(step**-0.5, step * warmup**-1.5)


def rises_for_ever(step, d, warmup):
    return d**-0.5 * step * warmup**-1.5


def stays_at_the_top(step, d, warmup):
    return d**-0.5 * warmup**-0.5 * min(1.0, step / warmup)


def width_forgotten(step, d, warmup):
    return min(step**-0.5, step * warmup**-1.5)


def curves_that_do_not_meet(step, d, warmup):
    return d**-0.5 * min(step**-0.5, step / warmup)


LEAK, PADDING, KEPT, MODE = "what the decoder reads", "the padding", "the gradients", "the held-out loss"
#: What is told of each of the four mistakes while it is the first one left.
TOLD = {
    LEAK: "The decoder reads target[:, 1:], the very words that it should say: it learns to copy. It should read what "
    "stands before them: <bos> and all but the last.",
    PADDING: "Padding is counted. Saying 'padding' after padding is easy, so the loss is too low, and it depends on "
    "how the batch was put together. ops.cross_entropy leaves out the label that is its ignore_index.",
    KEPT: "The first loss is right, the later ones are not: backward() adds to the gradients that are there "
    "(chapter 1), so each step follows the sum of all batches so far. The optimizer has a method to forget them.",
    MODE: "Dropout is still at work when the held-out loss is taken: it is too high, and another one at each call. "
    "model.eval() switches it off.",
}


def loop_with(*left: str) -> Any:
    """The training loop with some of the four mistakes left in it."""

    def train(model, optimizer, rate, batches, held_out):
        def loss_of(source, target):
            logits = model(source, target[:, 1:] if LEAK in left else target[:, :-1])
            return ops.cross_entropy(logits, target[:, 1:], ignore_index=-1 if PADDING in left else PAD)

        model.train()
        losses = []
        for step, batch in enumerate(batches, 1):
            if KEPT not in left:
                optimizer.zero_grad()
            loss = loss_of(*batch)
            loss.backward()
            optimizer.lr = rate(step)
            optimizer.step()
            losses.append(loss.item())
        if MODE not in left:
            model.eval()
        with no_grad():
            return losses, [loss_of(*batch).item() for batch in held_out]

    return train


def slightly_wrong(*, zeroed=True, label=slice(1, None), mode=True):
    """The loop with a mistake that `suspect` does not have."""

    def train(model, optimizer, rate, batches, held_out):
        def loss_of(source, target):
            return ops.cross_entropy(model(source, target[:, :-1]), target[:, label], ignore_index=PAD)

        model.train(mode)
        losses = []
        for step, batch in enumerate(batches, 1):
            optimizer.zero_grad()
            loss = loss_of(*batch)
            loss.backward()
            if not zeroed:
                optimizer.zero_grad()
            optimizer.lr = rate(step)
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        with no_grad():
            return losses, [loss_of(*batch).item() for batch in held_out]

    return train


def mistakes_of_the_loop() -> list[Mistake]:
    """`suspect` itself, and the loop with one, two or three of its mistakes left."""
    begin = "This is `suspect` as it was given, with all of its four mistakes. Do the tests of the chapter's text."
    found = [Mistake(suspect, begin)]
    for count in (3, 2, 1):
        for left in combinations(TOLD, count):
            mended = " and ".join(name for name in TOLD if name not in left)
            found.append(Mistake(loop_with(*left), f"Mended: {mended}; {count} to go. {TOLD[left[0]]}"))
    return [
        *found,
        Mistake(
            slightly_wrong(zeroed=False),
            "The gradients are forgotten between backward() and step(), so that nothing is learned. Forget those of "
            "the "
            "batch before: zero_grad() comes before backward().",
        ),
        Mistake(
            slightly_wrong(label=slice(None, -1)),
            "The labels are what the decoder reads, target[:, :-1]. It should say the word *after* each of them.",
        ),
        Mistake(
            slightly_wrong(mode=False),
            "The model trains without its dropout: eval() belongs behind the loop, and train() before it.",
        ),
    ]


# -- right, and written differently --------------------------------------------------------------------------------


def mean_by_mean(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    m, v = m + (1 - b1) * (g - m), v + (1 - b2) * (g * g - v)
    step = lr * np.sqrt(1 - b2**t) / (1 - b1**t)
    return w - step * m / (np.sqrt(v) + eps * np.sqrt(1 - b2**t)), m, v


def by_cases(step, d, warmup):
    rate = (d * step) ** -0.5
    return rate if step >= warmup else rate * (step / warmup) ** 1.5


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


EXERCISES = [
    Exercise(
        name="adam",
        real=real_adam,
        probe=probe_adam,
        mistakes=[
            Mistake(
                not_corrected,
                "m and v are right, but they began at 0, and after a few steps they are still too small: divide m by "
                "1 - b1**t and v by 1 - b2**t before you use them.",
            ),
            Mistake(
                without_the_root,
                "v is a mean of squares. Divide by its root; otherwise a gradient that is 1000 times as large makes a "
                "step 1000 times as small.",
            ),
            Mistake(
                gradient_for_the_mean,
                "The step follows g, the gradient of this one batch. It should follow the mean m: in it the noise of "
                "many batches cancels.",
            ),
            Mistake(eps_under_the_root, "eps stands under the root. Add it to the root: np.sqrt(...) + eps."),
            Mistake(
                corrected_means_kept,
                "The corrected means are kept as m and v, so that the next step corrects them once more. Keep m and v "
                "as they are, and give the corrected ones names of their own.",
            ),
            Mistake(
                sum_for_mean,
                "b1 * m + g is a sum that grows to ten times g. A mean gives the new gradient the share 1 - b1, and g "
                "squared the share 1 - b2.",
            ),
            Mistake(without_eps, "eps is missing: a gradient that was always 0 gives 0 / 0. Add it to the root."),
            Mistake(v_before_m, "v is returned before m. The order is w, m, v."),
            Mistake(swapped_rates, "b1 and b2 are exchanged: b1 belongs to m, b2 to v."),
        ],
        hints=(
            "A running mean: new = b * old + (1 - b) * what comes in. For m that is g, for v it is g**2.",
            "In m all gradients so far have shares that sum to 1 - b1**t (the text adds them up). Dividing by that "
            "makes "
            "it a mean. The same for v with b2.",
            "mean = m / (1 - b1**t) and square = v / (1 - b2**t); return w - lr * mean / (np.sqrt(square) + eps), m, "
            "v.",
        ),
        another=mean_by_mean,
        source="train.optim.optimizers.Adam",
    ),
    Exercise(
        name="noam",
        real=real_noam,
        probe=probe_noam,
        mistakes=[
            Mistake(
                the_higher_curve,
                "This is the higher one of the two curves: it begins high and never stops rising. The rate is the "
                "lower one.",
            ),
            Mistake(rises_for_ever, "Right up to the end of the warm-up; then the rate should fall with step**-0.5."),
            Mistake(stays_at_the_top, "The rate stays at the top. After the warm-up it falls with step**-0.5."),
            Mistake(width_forgotten, "The factor d**-0.5 is missing: wider models take smaller steps."),
            Mistake(
                curves_that_do_not_meet,
                "The curves don't meet at `warmup`: there the falling one is warmup**-0.5. Through which number must "
                "the line step * c go at that step?",
            ),
        ],
        hints=(
            "The falling curve is step**-0.5; at the step `warmup` it has come down to warmup**-0.5.",
            "The rising line is step * c, with warmup * c = warmup**-0.5. So c = warmup**-1.5.",
            "d**-0.5 * min(...) of the two: step**-0.5, and step times that c.",
        ),
        another=by_cases,
        source="train.optim.schedules.noam",
    ),
    Exercise(
        name="train",
        real=real_train,
        probe=probe_train,
        mistakes=mistakes_of_the_loop(),
        hints=(
            "Two of the four are in loss_of. One thing is missing in the loop, and one between the loop and the "
            "held-out "
            "loss. Mend one at a time and check: you are told which are done.",
            "Chapter 9 has what the decoder reads and says. And count the words that the loss is a mean over: in a "
            "batch "
            "with padding there are too many.",
            "model(source, target[:, :-1]); ops.cross_entropy(..., ignore_index=PAD); optimizer.zero_grad() before "
            "backward(); model.eval() after the loop.",
        ),
        another=only_the_real_ones,
        source="train.trainer.Trainer.fit",
    ),
]
