"""The parts of training that a preset describes."""

import dataclasses
import math
from typing import Any

import pytest

from handloom.errors import InputError
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer
from handloom.models.presets import SMOKE
from handloom.nn import MultiHeadAttention
from handloom.train.optim.fast.flat_adam import common_decay
from handloom.train.optim.optimizers import SGD, Adam, AdamW
from handloom.train.optim.schedules import Plateau
from handloom.train.tasks.task import make_model, make_optimizer, make_schedule, perplexity, training_label

CONFIG = Seq2SeqConfig(9, 9, 8, 2, 1, 1, 8)


def changed(**changes: Any) -> Any:
    return dataclasses.replace(SMOKE, **changes)


@pytest.mark.parametrize("wanted", [False, True])
def test_sums_in_a_fixed_order_are_asked_of_every_attention(wanted: bool) -> None:
    model = make_model(changed(deterministic=wanted), Seq2SeqTransformer, CONFIG, "cpu")
    found = [module.deterministic for module in model.modules() if isinstance(module, MultiHeadAttention)]
    assert found == [wanted] * 3


def test_a_model_that_cannot_be_built_says_why() -> None:
    with pytest.raises(InputError, match=r"can't be built: .*embed_dim 32 is not divisible.*its settings"):
        make_model(SMOKE, Seq2SeqTransformer, changed(nhead=7).model_config(9, 0), "cpu")


def test_optimizers() -> None:
    model = Seq2SeqTransformer(CONFIG)
    optimizer = make_optimizer(changed(optimizer="adamw", betas=(0.8, 0.9)), model)
    assert isinstance(optimizer, AdamW)
    assert optimizer.betas == (0.8, 0.9)
    assert type(make_optimizer(SMOKE, model)) is Adam
    assert isinstance(make_optimizer(changed(optimizer="sgd"), model), SGD)


def test_a_weight_decay_of_zero_is_none() -> None:
    """A weight decay of 0 does not select AdamW's default of 0.01."""
    model = Seq2SeqTransformer(CONFIG)
    for decay, made in ((None, 0.01), (0.0, 0.0), (0.3, 0.3)):
        assert common_decay(make_optimizer(changed(optimizer="adamw", weight_decay=decay), model)) == made


def test_schedules() -> None:
    for name in ("constant", "linear", "cosine"):
        assert make_schedule(changed(schedule=name, lr=0.1), 1000)(SMOKE.warmup) == pytest.approx(0.1)
    assert make_schedule(changed(schedule="linear", lr=0.1), 100)(100) == 0
    assert isinstance(make_schedule(changed(schedule="plateau", lr=0.1), 100), Plateau)
    assert make_schedule(SMOKE, 100)(100) == pytest.approx(SMOKE.d_model**-0.5 * 0.1)
    with pytest.raises(InputError, match="add lr=1e-3"):
        make_schedule(changed(schedule="cosine"), 10)


def test_a_warm_up_longer_than_half_of_the_steps_is_cut_with_a_word_or_not_at_all() -> None:
    """Where the rate depends on the number of steps, the warm-up must end; elsewhere it is that of a longer run."""
    for name in ("constant", "plateau", "linear", "cosine"):
        said: list[str] = []
        rate = make_schedule(changed(schedule=name, lr=0.1, warmup=100), 50, said.append)(10)
        cut = name in ("linear", "cosine")
        assert rate == pytest.approx(0.1 * 10 / (25 if cut else 100))
        assert said == ["the warm-up takes 25 steps, half of all, instead of 100"] * cut


def test_the_picture_says_what_only_training_has() -> None:
    label = "training (dropout 0.2, label smoothing 0.1)"
    assert training_label(changed(label_smoothing=0.1), 0.2) == label
    assert training_label(changed(label_smoothing=0.0), 0.2) == "training (dropout 0.2)"


def test_the_perplexity_of_a_large_loss_is_infinite() -> None:
    assert perplexity(3.0) == pytest.approx(20.085536923187668)
    assert perplexity(1e4) == math.inf
