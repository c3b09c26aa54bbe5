"""Training with precision="bf16": exact resume, what a run says, and combinations that are refused."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from benchmarks.train_step_models import CPU_SIZES
from benchmarks.train_step_subjects import create
from handloom import nn
from handloom.autograd import Tensor, bfloat16_products
from handloom.autograd.bfloat16 import bfloat16_carried_out, rounded
from handloom.autograd.fast import products
from handloom.errors import InputError
from handloom.train import SGD, Callback, Trainer, TrainingStopped

from ..support.small_run import small_trainer


class Messages(Callback):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_message(self, trainer: Trainer, text: str) -> None:
        self.texts.append(text)


def trained(folder: Any, stop_at: int | None = None, **options: Any) -> Messages:
    """Train a small translator, or go on with its training, up to step `stop_at`."""
    said = Messages()
    options = {"steps": 8, "validate_every": 4, "log_every": 1, "layers": 1, **options}
    trainer = small_trainer(folder, callbacks=[said], **options)
    if stop_at is None:
        trainer.fit(resume=folder.exists())
    else:
        with pytest.raises(TrainingStopped):
            trainer.fit(resume=folder.exists(), stop_at=stop_at)
    return said


@pytest.mark.parametrize("hidden", [False, True])
def test_a_resumed_run_equals_one_in_a_piece_and_says_what_multiplies(tmp_path, hidden, monkeypatch) -> None:
    if hidden:
        monkeypatch.setattr(products, "no_instructions", lambda: "this processor has no AVX512-BF16")
    said = trained(tmp_path / "straight", precision="bf16")
    assert said.texts[0] == f"bf16 {bfloat16_carried_out()}"
    trained(tmp_path / "run", 3, precision="bf16")
    trained(tmp_path / "run", precision="bf16")
    for name in ("metrics.jsonl", "model.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()
    assert not any("bf16" in text for text in trained(tmp_path / "single").texts)
    assert (tmp_path / "single/metrics.jsonl").read_bytes() != (tmp_path / "straight/metrics.jsonl").read_bytes()


def test_an_update_computes_in_bfloat16_and_a_validation_in_float32() -> None:
    """The loss is sum(w x): its gradient is x, rounded, and its value in a validation is exact."""
    x = np.random.default_rng(0).standard_normal((1, 5)).astype(np.float32)
    model = nn.Linear(5, 1, bias=False)
    losses: list[Any] = []

    def loss(model: nn.Module, batch: np.ndarray) -> Tensor:
        losses.append(model(Tensor(batch)).reshape(()))
        return losses[-1]

    before = model.weight.numpy().copy()
    trainer = Trainer(model, loss, SGD(model.parameters(), 1.0), precision="bf16", clip_norm=None, callbacks=[])
    trainer.fit([x], steps=1, validation=[x])
    np.testing.assert_array_equal(model.weight.numpy(), before - rounded(x))
    np.testing.assert_allclose(losses[0].item(), (rounded(x) @ rounded(before).T).item(), rtol=1e-6)
    np.testing.assert_allclose(losses[1].item(), (x @ model.weight.numpy().T).item(), rtol=1e-6)
    with bfloat16_products():  # a Trainer's precision counts, not a block around it
        Trainer(model, loss, SGD(model.parameters(), 0.0), callbacks=[]).fit([x], steps=1)
    np.testing.assert_allclose(losses[2].item(), losses[1].item(), rtol=1e-6)


def test_bf16_is_refused_where_it_would_have_no_effect(cuda) -> None:
    def trainer(model: nn.Module, **options: Any) -> Trainer:
        return Trainer(model, lambda model, x: model(x).sum(), SGD(model.parameters()), precision="bf16", **options)

    double = nn.Linear(2, 3, bias=False)
    double.weight.data = double.weight.data.astype(np.float64)
    with pytest.raises(InputError, match="on the CPU; a GPU computes in fp16: choose another precision"):
        trainer(nn.Linear(2, 3).to("cuda"))
    with pytest.raises(InputError, match="but the model's are float64: choose another precision"):
        trainer(double)
    with pytest.raises(InputError, match="There are no CUDA graphs on the CPU: leave out"):
        trainer(nn.Linear(2, 3), graphs=True)


def direction(gradients: dict[str, Any]) -> np.ndarray:
    """Return all gradients as one vector, in float64."""
    return np.concatenate([gradients[name].ravel() for name in sorted(gradients) if name != "loss"]).astype(np.float64)


@pytest.mark.parametrize("name", CPU_SIZES)
def test_loss_and_gradients_err_as_little_as_pytorchs_autocast(name) -> None:
    """The reports' small models and the same models of PyTorch; both errors are measured against float32.

    A rounding changes a number by at most 2^-8 of it, and by 2^-8 / sqrt(3) in the root mean square. Each product in
    series adds two such errors, which are independent. (GELU instead of ReLU, which a rounded unit can switch.)
    """
    torch = pytest.importorskip("torch", reason="PyTorch is the other side")
    full = CPU_SIZES[name]
    size = dataclasses.replace(
        full, batch=4, source=full.source // 4 + 1, target=full.target // 4, vocabulary=300, d_model=full.d_model // 8,
        dim_feedforward=full.dim_feedforward // 8, layers=min(full.layers, 3), heads=2, dropout=0.0, activation="gelu",
    )  # fmt: skip
    exact = create("handloom", "cpu", size, None).gradients(0)
    ours = create("handloom-bfloat16", "cpu", size, None).gradients(0)
    other = create("torch-bfloat16", "cpu", size, None)
    with torch.autocast("cpu", torch.bfloat16):
        loss = other.model(**other.tensors(other.batch(0)))
    loss.backward()
    theirs = {name: parameter.grad.numpy() for name, parameter in other.model.named_parameters()}
    products = size.layers * (10 if size.kind == "seq2seq" else 4) + 1
    assert abs(ours["loss"] - exact["loss"]) < 2**-8 * (2 * products / 3) ** 0.5 * exact["loss"]
    assert abs(ours["loss"] - loss.item()) < 2**-8 * (2 * products / 3) ** 0.5 * exact["loss"]
    true, mine, autocast = map(direction, (exact, ours, theirs))
    error, allowed, apart = (
        np.linalg.norm(x) / np.linalg.norm(true) for x in (mine - true, autocast - true, mine - autocast)
    )
    bound = 2**-8 * (2 * 2 * products / 3) ** 0.5  # the products of both passes are in series
    assert 1e-4 < error < min(bound, 1.25 * allowed)
    assert apart < bound
