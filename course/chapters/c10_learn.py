"""Chapter 10, the exercises: Adam, the learning rate schedule, and a training loop with four mistakes."""

from typing import Any

import numpy as np

from ...autograd import Parameter, manual_seed, no_grad
from ...models import Seq2SeqConfig, Seq2SeqTransformer
from ...train.optim.optimizers import Adam
from ...train.optim.schedules import noam as schedule
from ..exercise import need


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
        "the weights with b1=0.5, b2=0.9 and eps=0.5": after(2, b1=0.5, b2=0.9, eps=0.5)[0],
    }


def real_adam(w, g, m, v, t, lr, b1=0.9, b2=0.98, eps=1e-9):
    parameter = Parameter(w.copy())
    optimizer = Adam([parameter], lr, (b1, b2), eps)
    optimizer.load_state_dict({"steps": t - 1, "moments": {"m.0": m, "v.0": v}})
    parameter.grad = g.copy()
    optimizer.step()
    moments = optimizer.state_dict()["moments"]
    return parameter.data, moments["m.0"].copy(), moments["v.0"].copy()


def probe_noam(noam: Any) -> dict[str, Any]:
    return {
        "the rate at the steps 1, 50 and 100 of a warm-up of 100": np.array([noam(t, 64, 100) for t in (1, 50, 100)]),
        "the rate at the steps 101, 200 and 10000": np.array([noam(t, 64, 100) for t in (101, 200, 10000)]),
        "the rate of a model of width 512": noam(300, 512, 4000),
    }


def real_noam(step: int, d: int, warmup: int) -> float:
    return schedule(d, warmup)(step)


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
