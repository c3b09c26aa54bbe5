"""What chapter 10 builds: Adam, the learning rate's schedule, a training loop; the learner's file is cut from this."""

import numpy as np

from ...autograd import no_grad, ops

PAD = 0


def adam(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    """Step number t (1, 2, ...): weights w, gradient g and both running means, arrays of one shape -> new w, m, v."""
    # your turn: m is a running mean of g, and v is a running mean of g squared. Both began at 0: by what must they be
    # divided to correct this? Then the step is lr times m divided by the root of v.
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g**2
    mean, square = m / (1 - b1**t), v / (1 - b2**t)
    return w - lr * mean / (np.sqrt(square) + eps), m, v


def noam(step, d, warmup):
    """The learning rate at a step (1, 2, ...) for a model of width d: up for `warmup` steps, then down."""
    # your turn: One curve rises in proportion to the step, the other falls with its root, and the rate is the lower
    # one. They meet at the step `warmup`.
    return d**-0.5 * min(step**-0.5, step * warmup**-1.5)


def suspect(model, optimizer, rate, batches, held_out):
    """A training loop. It runs, and the loss falls. Yet four things are wrong with it. Leave it as it is.

    batches, held_out: lists of (source, target), arrays of ids; a row of target is <bos>, words, <eos>, padding.
    rate: step (1, 2, ...) -> learning rate. Returns the loss of each batch before its update, in a list, and at the end
    the loss of each held-out batch.
    """

    def loss_of(source, target):
        logits = model(source, target[:, 1:])
        return ops.cross_entropy(logits, target[:, 1:])

    model.train()
    losses = []
    for step, batch in enumerate(batches, 1):
        loss = loss_of(*batch)
        loss.backward()
        optimizer.lr = rate(step)
        optimizer.step()
        losses.append(loss.item())
    with no_grad():
        after = [loss_of(*batch).item() for batch in held_out]
    return losses, after


def train(model, optimizer, rate, batches, held_out):
    """The corrected `suspect`: the same arguments, the same two lists."""
    # your turn: Copy the lines of `suspect` here and fix four mistakes. What does the decoder read, and what should it
    # say? Whose losses are counted? What does backward() do with the gradients that are there already? And which mode
    # is the model in when the held-out loss is taken?

    def loss_of(source, target):
        logits = model(source, target[:, :-1])
        return ops.cross_entropy(logits, target[:, 1:], ignore_index=PAD)

    model.train()
    losses = []
    for step, batch in enumerate(batches, 1):
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        optimizer.lr = rate(step)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with no_grad():
        after = [loss_of(*batch).item() for batch in held_out]
    return losses, after
