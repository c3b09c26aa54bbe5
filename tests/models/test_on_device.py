"""Test models on a device: training steps and searches give the CPU's results, and a step never waits.

The same cases run on the stand-in for CuPy and, with `pytest -m gpu`, on a GPU.
"""

import numpy as np
import pytest

from handloom.autograd import manual_seed, ops
from handloom.autograd.backend import to_device
from handloom.models import Rules, Seq2SeqConfig, Seq2SeqTransformer, beam_search, greedy_search
from handloom.models.generation import sample
from handloom.train.optim.optimizers import SGD
from tests.support.decoding import BOS, EOS, build, random_source, without_attention_dropout

pytestmark = pytest.mark.slow

VARIANTS = [
    {},
    {"positions": "learned", "norm_first": True, "activation": "gelu"},
    {"positions": "rotary", "share_embeddings": True, "tie_output": True},
    {"positions": "relative"},
    {"positions": "alibi"},
    {"copy": True, "share_embeddings": True},
]


def train(device: str, steps: int, optimizer: type = SGD, **options) -> tuple[list[float], list[np.ndarray]]:
    """Train a translator with 1 + 1 layers for a few steps; return the losses and the final weights, on the host."""
    import cupyx

    manual_seed(3)
    sizes = {"d_model": 16, "nhead": 2, "encoder_layers": 1, "decoder_layers": 1, "dim_feedforward": 24}
    model = Seq2SeqTransformer(Seq2SeqConfig(40, 40, **sizes, dropout=0.1, max_length=20, **options)).to(device)
    without_attention_dropout(model)
    optimizer = optimizer(model.parameters(), lr=0.1 if optimizer is SGD else 1e-3)
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(steps):
        source, target, lengths = rng.integers(1, 40, (4, 7)), rng.integers(1, 40, (4, 6)), np.array([7, 5, 3, 7])
        source[np.arange(7) >= lengths[:, None]] = 0
        target[1, 4:] = 0
        with cupyx.allow_synchronize(False):
            optimizer.zero_grad()
            logits = model(source, target[:, :-1], lengths)
            loss = ops.cross_entropy(logits, target[:, 1:], ignore_index=0, label_smoothing=0.1)
            loss.backward()
            optimizer.step()
        assert loss.device == ("cpu" if device == "cpu" else "cuda:0")
        losses.append(loss.item())
    return losses, [to_device(parameter.data, "cpu") for parameter in model.parameters()]


@pytest.mark.parametrize("options", VARIANTS, ids=lambda options: "-".join(map(str, options.values())) or "default")
def test_training_steps_are_those_of_the_cpu_and_never_wait(options, cuda, counted_masks) -> None:
    want, found = train("cpu", 3, **options), train("cuda", 3, **options)
    np.testing.assert_allclose(found[0], want[0], rtol=1e-5)
    for a, b in zip(found[1], want[1], strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_searches_find_the_same_on_the_device(positions, cuda) -> None:
    model = build(5, layers=2, positions=positions)
    source = random_source(np.random.default_rng(1), [3, 6, 1])
    rules = Rules(BOS, EOS, max_length=8, min_length=2, no_repeat_ngram=2, repetition_penalty=1.3, forbidden=(0, 1))
    found = []
    for device in ("cpu", "cuda"):
        model.to(device)
        results = [
            greedy_search(model.start(source), rules),
            sample(model.start(source), rules, seed=3, temperature=1.5, top_k=5),
            *beam_search(model.start(source), rules, width=3, n_best=2),
        ]
        found.append([one for hypotheses in results for one in hypotheses])
    on_cpu, on_device = found
    assert [one.ids for one in on_device] == [one.ids for one in on_cpu]
    assert [one.score for one in on_device] == pytest.approx([one.score for one in on_cpu], rel=1e-6)


def test_a_model_comes_back_from_the_device_unchanged(cuda) -> None:
    model = build(5)
    before = {name: value.copy() for name, value in model.state_dict().items()}
    model.to("cuda")
    assert {parameter.device for parameter in model.parameters()} == {"cuda:0"}
    assert all(isinstance(value, np.ndarray) for value in model.state_dict().values())
    np.testing.assert_equal(model.state_dict(), before)
    changed = {name: value + 1 for name, value in before.items()}
    model.load_state_dict(changed)
    model.to("cpu")
    np.testing.assert_equal(model.state_dict(), changed)


def test_operands_on_two_devices_are_named(cuda) -> None:
    model = build(5)
    model.output.to("cuda")
    with pytest.raises(TypeError, match=r"different devices \(cpu, cuda:0\): move one with .to\(device\)"):
        model(np.array([[4, 5]]), np.array([[2, 4]]))
