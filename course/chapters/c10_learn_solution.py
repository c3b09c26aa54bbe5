"""The solution of chapter 10: Adam, the learning rate schedule, and a training loop."""

import numpy as np

from ...autograd import no_grad, ops

PAD = 0


def adam(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    """Return new w, m and v after step t (1, 2, ...), from weights w, gradient g and the running means m and v."""
    # your turn: m is a running mean of g, and v is a running mean of g squared. Both means began at 0: by which numbers
    # must they be divided to correct this? Then the step is lr times the corrected m, divided by the root of the
    # corrected v.
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g**2
    mean, square = m / (1 - b1**t), v / (1 - b2**t)
    return w - lr * mean / (np.sqrt(square) + eps), m, v


def noam(step, d, warmup):
    """Return the learning rate of step 1, 2, ... for d features, which rises for `warmup` steps and then falls."""
    # your turn: The first curve rises in proportion to the step. The second curve falls with the root of the step. The
    # rate is the minimum of the two curves, which meet at the step `warmup`.
    return d**-0.5 * min(step**-0.5, step * warmup**-1.5)


def suspect(model, optimizer, rate, batches, held_out):
    """Train a model, with four mistakes. The loop runs, and the loss falls. Do not change this function.

    batches, held_out: lists of pairs (source, target) of arrays of ids. A target is <bos>, words, <eos>, padding.
    rate: step (1, 2, ...) -> learning rate. Returns a list of the losses of the batches before each update, and a list
    of the final losses of the held-out batches.
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
    """Train a model like `suspect`, with the same arguments and results, but without mistakes."""
    # your turn: Copy the lines of `suspect` here and fix four mistakes. What is the decoder's input, and what should it
    # predict? At which positions is the loss computed? What does backward() do with gradients from earlier steps? And
    # in which mode is the model when the held-out loss is computed?

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
