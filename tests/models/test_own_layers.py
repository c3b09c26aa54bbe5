"""Layers of a user's own in handloom's models: nothing computes without them, in training, generation, or a file."""

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom import models, nn
from handloom.autograd import Tensor, manual_seed, no_grad, ops
from handloom.errors import InputError
from handloom.models import pretrained
from handloom.models.generation import Uncached
from handloom.nn import feed_forward, linear, transformer
from handloom.nn.positional import PositionScores

pytestmark = pytest.mark.slow
SIZES = {"d_model": 8, "nhead": 2, "dim_feedforward": 12, "dropout": 0.0, "max_length": 9}
SOURCE, TARGET = np.array([[3, 4, 5, 6], [7, 3, 0, 0]]), np.array([[1, 5, 4], [1, 6, 3]])
LABELS = np.array([[5, 4, 2], [6, 2, 0]])
#: How a module is replaced by one that computes something else.
FORMS = ("subclass", "instance", "wrapper", "hook")
VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm_first": True, "activation": "gelu", "positions": "learned", "tie_output": True},
    "llama": {"norm_first": True, "norm": "rms", "activation": "swiglu", "positions": "rotary", "kv_heads": 1},
    "alibi": {"norm": "layer_std", "positions": "alibi", "pattern": "local:2"},
    "relative": {"norm_first": True, "positions": "relative", "bias": "none", "pattern": "strided:2"},
}


def model_of(kind: str, variant: dict[str, Any]) -> nn.Module:
    manual_seed(0)
    if kind in ("encoder-decoder", "copying"):
        more = {"copy": True} if kind == "copying" else {}
        return models.Seq2SeqTransformer(
            models.Seq2SeqConfig(11, 11, **{"encoder_layers": 1, "decoder_layers": 1, **SIZES, **variant, **more})
        )
    if kind == "language model":
        return models.LanguageModel(models.LanguageModelConfig(11, layers=1, **{**SIZES, **variant}))
    if kind == "classifier":
        given_ = {key: value for key, value in variant.items() if key != "tie_output"}
        return models.TransformerClassifier(
            models.ClassifierConfig(
                11, 3, layers=1, pooler="tanh", embedding_norm=True, token_types=2, **{**SIZES, **given_}
            )
        )
    return models.RecurrentLanguageModel(models.RecurrentConfig(11, kind, d_model=8, layers=2))


KINDS = ("encoder-decoder", "copying", "language model", "classifier", "lstm", "gru")


class Scaled(nn.Module):
    """A wrapper without the attributes of what it wraps."""

    def __init__(self, inner: nn.Module):
        self.inner = inner

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return changed(self.inner(*args, **kwargs))


def changed(output: Any) -> Any:
    calls.append(1)
    first = output[0] if isinstance(output, tuple) else output
    first = first * 1.5 + np.linspace(0.5, 1.5, first.shape[-1], dtype=np.float32)  # no norm removes this
    return (first, *output[1:]) if isinstance(output, tuple) else first


calls: list[int] = []


def replace(model: nn.Module, name: str, form: str) -> None:
    """Replace the module `name` of a model by one that computes something else."""
    path, _, last = name.rpartition(".")
    modules = dict(model.named_modules())
    module = modules[name]
    if form == "wrapper":
        setattr(modules[path], last, Scaled(module))
    elif form == "hook":
        module.register_forward_hook(lambda module, args, output: changed(output))
    elif form == "instance":
        plain = module.forward
        module.forward = lambda *args, **kwargs: changed(plain(*args, **kwargs))  # type: ignore[method-assign]
    else:
        kind = type(module)

        class Own(kind):  # type: ignore[misc, valid-type]
            def forward(self, *args: Any, **kwargs: Any) -> Any:
                return changed(super().forward(*args, **kwargs))

        module.__class__ = Own


def computed(model: nn.Module) -> dict[str, np.ndarray]:
    """Return a model's output, loss and gradients in evaluation and in training mode."""
    found = {}
    for mode in (False, True):
        model.train(mode)
        for parameter in model.parameters():
            parameter.grad = None
        if hasattr(model, "encode"):
            output, loss = model(SOURCE, TARGET), model.loss(SOURCE, TARGET, LABELS, label_smoothing=0.1)
        elif hasattr(model, "hidden"):
            output = model(TARGET)
            loss = nn.linear.cross_entropy_of(model.output, model.hidden(TARGET), LABELS)
        else:
            output = model(SOURCE)
            shape = output.shape[:-1]
            loss = ops.cross_entropy(output, np.arange(np.prod(shape)).reshape(shape) % 3)
        loss.backward()
        found |= {f"output {mode}": output.numpy(), f"loss {mode}": loss.numpy()}
        found |= {f"{name} {mode}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.eval()
    return found


def replaceable(model: nn.Module) -> list[str]:
    """Return the names of the modules that the model calls."""
    return [
        name
        for name, module in model.named_modules()
        if name and not isinstance(module, nn.ModuleList | PositionScores) and not name.startswith("token_dropout")
    ]


def close(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=2e-4, atol=2e-6, err_msg=name)


@contextmanager
def by_formulas(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compute layers by the formulas in their text, by one op each."""
    with patch.context() as patched:
        for formula in (transformer.residual, feed_forward.feed_forward, linear.cross_entropy_of):
            patched.setattr(formula, "now", formula.__wrapped__)
        yield


@pytest.mark.parametrize("variant", VARIANTS)
def test_fused_layers_compute_their_formulas_with_the_same_dropout(variant: str, monkeypatch: Any) -> None:
    model = model_of("encoder-decoder", {**VARIANTS[variant], "dropout": 0.3, "encoder_layers": 2})
    manual_seed(5)
    fused = computed(model)
    assert not np.array_equal(fused["output True"], fused["output False"])
    with by_formulas(monkeypatch):
        manual_seed(5)
        close(fused, computed(model))


def check_replacement(kind: str, variant: dict[str, Any], name: str, form: str, patch: pytest.MonkeyPatch) -> None:
    """The replaced module is called, and everything is what it is if no op computes several layers at once."""
    model, plain = model_of(kind, variant), model_of(kind, variant)
    before = (
        model(SOURCE, TARGET) if hasattr(model, "encode") else model(TARGET if hasattr(model, "hidden") else SOURCE)
    )
    for one in (model, plain):
        replace(one, name, form)
    calls.clear()
    found = computed(model)
    assert len(calls) >= (4 if hasattr(model, "hidden") or hasattr(model, "encode") else 2), name
    with by_formulas(patch):
        close(found, computed(plain))
    assert not np.allclose(found["output False"], before.numpy(), rtol=1e-6, atol=0), name
    if kind != "classifier":
        check_generation(model, kind)


def check_generation(model: nn.Module, kind: str, *, cached: bool = False) -> None:
    """A search's states give the logits of the model's forward, for sequences that are reordered."""
    pairs = kind in ("encoder-decoder", "copying")
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if cached else "ignore")
        more = {"decoder": model.raw_decoder()} if cached and hasattr(model, "raw_decoder") else {}
        state = model.start(SOURCE, **more) if pairs else model.start(2, **more)
    assert not (cached and isinstance(state, Uncached))
    fed, origin = np.array([[1], [1]]), np.arange(2)
    ids = fed
    for rows, width in ((np.array([0, 0, 1, 1]), 2), (np.array([1, 0, 3, 3]), 2), (np.array([2, 3]), 2)):
        logits = np.array(state.step(ids))
        with no_grad():
            wanted = (model(SOURCE[origin], fed) if pairs else model(fed)).numpy()[:, -1]
        np.testing.assert_allclose(logits, wanted, rtol=2e-4, atol=2e-5)
        state.select(rows, width)
        ids = rng.integers(3, 9, (len(rows), 1))
        fed, origin = np.concatenate([fed[rows], ids], axis=1), origin[rows]


CASES = [
    (kind, variant, name)
    for kind in KINDS
    for variant in (VARIANTS if kind == "language model" else list(VARIANTS)[: 2 if kind == "encoder-decoder" else 1])
    for name in replaceable(model_of(kind, VARIANTS[variant]))
]


@pytest.mark.parametrize("part", range(4))
def test_every_replaced_module_is_called(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, (kind, variant, name) in enumerate(CASES):
        if number % 4 == part:
            form = FORMS[number // 4 % len(FORMS)]
            try:
                check_replacement(kind, VARIANTS[variant], name, form, monkeypatch)
            except Exception as error:
                raise AssertionError(f"{kind}, {variant}: {name} replaced by a {form}") from error


@pytest.mark.search
@given(data=st.data())
def test_any_replaced_module_of_any_model_is_called(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    variant = {
        name: data.draw(st.sampled_from(values), name)
        for name, values in {
            "norm_first": (False, True),
            "norm": nn.NORMS,
            "activation": ("relu", "gelu", "gelu_tanh", "silu", "glu", "swiglu"),
            "positions": nn.POSITIONS,
            "pattern": ("full", "local:2", "strided:2"),
            "bias": ("all", "none", "qkv"),
            "kv_heads": (None, 1),
            "tie_output": (False, True),
        }.items()
    }
    names = replaceable(model_of(kind, variant))
    with pytest.MonkeyPatch.context() as patch:
        check_replacement(kind, variant, data.draw(st.sampled_from(names)), data.draw(st.sampled_from(FORMS)), patch)


@pytest.mark.parametrize("positions", ["rotary", "alibi", "relative"])
def test_positions_in_attention_are_not_lost_with_the_attention(positions: str) -> None:
    model = model_of("language model", {"positions": positions})
    layer = model.decoder.layers[0]
    message = r"has \w+Positions in its attention, which the \w+ in its place has not"
    for owner, name, value in (
        (layer, "self_attn", nn.MultiHeadAttention(8, 2)),
        (layer, "self_attn", nn.Identity()),
        (model.decoder.layers, "0", nn.TransformerEncoderLayer(8, 2)),
        (model.decoder, "layers", nn.ModuleList([nn.Identity()])),
    ):
        with pytest.raises(ValueError, match=message):
            setattr(owner, name, value)
    new = nn.MultiHeadAttention(8, 2)
    new.position_scores = layer.self_attn.position_scores
    layer.self_attn = new
    layer.self_attn = Scaled(layer.self_attn)
    layer.self_attn.inner.position_scores = None
    layer.self_attn = nn.MultiHeadAttention(8, 2)


def test_layers_replaced_by_the_identity_are_gone_from_generation() -> None:
    model = model_of("encoder-decoder", {}).eval()
    model.decoder.layers = nn.ModuleList([IgnoringMemory()])
    with pytest.warns(UserWarning, match=r"decoder.layers.0 \(IgnoringMemory\) is not handloom's, so generation calls"):
        check = models.greedy_search(model.start(SOURCE), models.Rules(1, 2, max_length=4))
    assert len(check) == 2
    check_generation(model, "encoder-decoder")
    with (
        pytest.warns(UserWarning, match="is not handloom"),
        pytest.raises(ValueError, match="its attention can't be kept"),
    ):
        model.start(SOURCE, keep_attention=True)


class IgnoringMemory(nn.Module):
    def forward(self, x: Tensor, *inputs: Any, **options: Any) -> Tensor:
        return x


def test_a_model_with_its_own_forward_trains_and_generates_with_it() -> None:
    class Sharper(models.Seq2SeqTransformer):
        def forward(self, *inputs: Any) -> Tensor:
            return super().forward(*inputs) * 2.0

    manual_seed(0)
    model = Sharper(models.Seq2SeqConfig(11, 11, encoder_layers=1, decoder_layers=1, **SIZES))
    wanted = ops.cross_entropy(model(SOURCE, TARGET), LABELS, ignore_index=0)
    np.testing.assert_allclose(model.loss(SOURCE, TARGET, LABELS).numpy(), wanted.numpy(), rtol=1e-6)
    with pytest.raises(ValueError, match="coverage needs the forward of Seq2SeqTransformer, not Sharper's"):
        model.loss(SOURCE, TARGET, LABELS, coverage=1.0)
    check_generation(model.eval(), "encoder-decoder")


def test_the_plain_implementations_call_replaced_modules_too() -> None:
    environment = {**os.environ, "HANDLOOM_PLAIN": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", __file__, "-k", "every_replaced"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_reads_weights_refuses_own_layers(tmp_path: Any) -> None:
    """An export and copy probabilities can't know what a layer of one's own computes."""
    model = model_of("copying", {"norm_first": True})
    replace(model, "decoder.norm", "wrapper")
    with pytest.raises(
        InputError, match=r"transformers has no equivalent of this model: decoder.norm \(Scaled\) is not"
    ):
        pretrained.save(model, None, tmp_path)
    with pytest.raises(ValueError, match=r"the copy probabilities are not known: decoder.norm \(Scaled\)"):
        model.copied(SOURCE, TARGET, LABELS)


@pytest.mark.parametrize("kind", ["encoder-decoder", "copying", "language model", "lstm"])
def test_position_wise_layers_of_ones_own_are_cached(kind: str) -> None:
    """They are called with new tokens only, wherever the cache can call them."""
    for name in replaceable(model_of(kind, {"norm_first": True})):
        model = model_of(kind, {"norm_first": True}).eval()
        calls_it = name.rpartition(".")[2].startswith(("linear", "out", "norm", "copy", "embed", "target", "positions"))
        if calls_it and not name.startswith("encoder"):
            for form in ("wrapper", "hook"):
                replace(model, name, form)
                dict(model.named_modules())[name].position_wise = True
                check_generation(model, kind, cached=True)


class Averaging(nn.TransformerDecoderLayer):
    """A decoder layer that adds the mean of all positions so far and of the source, in place of attention."""

    def forward(self, x: Tensor, memory: Any = None, *, memory_lengths: Any = None, **options: Any) -> Tensor:
        length = np.arange(1, x.shape[1] + 1, dtype=np.float32)[:, None]
        return x + self.linear2(ops.tanh(self.linear1(ops.cumsum(x, axis=1) / length + self.of(memory))))

    def of(self, memory: Any) -> Any:
        return 0.0 if memory is None else memory.mean(axis=1, keepdims=True)

    def cached_step(self, x: Tensor, state: Any, memory: Any = None, memory_lengths: Any = None) -> tuple[Tensor, Any]:
        total, count = state or (0.0, 0)
        totals, counts = ops.cumsum(x, axis=1) + total, np.arange(count + 1, count + 1 + x.shape[1], dtype=np.float32)
        y = x + self.linear2(ops.tanh(self.linear1(totals / counts[:, None] + self.of(memory))))
        return y, (totals[:, -1:], int(counts[-1]))


@pytest.mark.parametrize("kind", ["encoder-decoder", "language model"])
@pytest.mark.parametrize("first", [True, False])
def test_a_decoder_layer_brings_its_own_cached_step(kind: str, first: bool) -> None:
    model = model_of(kind, {"norm_first": True}).eval()
    plain = model.decoder.layers[0]
    own = Averaging(8, 2, 12, 0.0)
    model.decoder.layers = nn.ModuleList([own, plain] if first else [plain, own])
    check_generation(model, kind, cached=True)
    model.decoder.layers = nn.ModuleList([own])
    check_generation(model, kind, cached=True)
    if kind == "encoder-decoder":
        with pytest.raises(ValueError, match="the attention of layers with a method cached_step can't be kept"):
            model.start(SOURCE, keep_attention=True)
