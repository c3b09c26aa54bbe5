"""Calls that beginners get wrong: an error names the cause and the cure, and nothing is accepted without effect."""

import importlib
import inspect
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import handloom
from handloom import models, nn, tokenizer, train
from handloom.autograd.backend import DeviceError
from tests.test_names import LISTED, public

layer = nn.Linear(2, 2)
language_model = models.LanguageModel(
    models.LanguageModelConfig(9, d_model=8, nhead=2, layers=1, dim_feedforward=8, max_length=8)
)
special = {"tokens_per_batch": 10, "seed": 0, "pad_id": 0, "bos_id": 1, "eos_id": 2}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: train.Adam(layer), "give Parameters, such as model.parameters(), not Linear"),
        (
            lambda: train.Adam(layer.parameters(), betas=0.9),  # type: ignore[arg-type]
            "Adam: betas is 0.9, but it must be a tuple of numbers from 0 to below 1",
        ),
        (lambda: train.clip_grad_norm(layer, 1.0), "give Parameters, such as model.parameters(), not Linear"),
        (lambda: train.ExponentialAverage(layer), "give Parameters, such as model.parameters(), not Linear"),
        (lambda: handloom.Translator("smoke"), "Give both a model and its tokenizer, or neither; a preset is given as"),
        (lambda: handloom.Writer(language_model), "Give both a model and its tokenizer, or neither"),
        (lambda: tokenizer.WordTokenizer.train("a dog"), "several texts, not 'a dog': give a list"),
        (lambda: tokenizer.CharacterTokenizer.train("a dog"), "several texts, not 'a dog': give a list"),
        (lambda: layer.astype("int"), "astype: int64 is no floating dtype"),
        (lambda: layer.load_state_dict("model.pt"), "load_state_dict: state is 'model.pt', but it must be a dict"),
        (lambda: train.TokenBatches([[1]], [[2], [3]], **special), "1 sources and 2 targets"),
        (lambda: train.mean_losses(layer, abs, lambda epoch: []), "call the function: batches(0)"),
        (lambda: models.generate(language_model, [[1]], 3, strategy="beam"), "strategy is 'beam', but it must be a"),
        (
            lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 2),
            "layers is TransformerEncoderLayer, but it",
        ),
    ],
)
def test_a_wrong_call_names_the_cause_and_the_cure(call: Callable[[], Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(says)):
        call()


def test_what_a_notebook_shows_is_short_and_has_no_address() -> None:
    data = train.load_text_data("embedded")
    adam = train.Adam(layer.parameters(), lr=0.01)
    shown = [
        tokenizer.CharacterTokenizer.train(["abc"]), tokenizer.BPETokenizer.train(["abc"], 270), data, adam,
        train.Trainer(layer, lambda model, batch: model(batch).mean(), adam), train.EarlyStopping(3),
        handloom.Writer(), handloom.Translator(),
    ]  # fmt: skip
    for one in shown:
        assert " at 0x" not in repr(one), repr(one)
        assert len(repr(one)) < 200, repr(one)
    assert repr(adam) == "Adam(lr=0.01, 2 parameters, 0 steps)"
    assert repr(shown[0]) == "CharacterTokenizer(7 tokens)"
    assert repr(layer.weight).startswith("Parameter([[")
    rules = models.Rules(eos_id=2, prefix=np.ones((40, 9), int))
    assert repr(models.Strategy(beam=2, rules=models.Rules(eos_id=2))) == "Strategy(beam=2, rules=Rules(eos_id=2))"
    assert (repr(models.Strategy()), repr(rules)[:28]) == ("Strategy()", "Rules(eos_id=2, prefix=array")
    assert len(repr(rules)) < 120


def test_a_data_set_may_be_a_path(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("A dog sees a cat. " * 40)
    assert train.load_text_data(tmp_path / "text.txt").train.startswith("A dog")
    with pytest.raises(handloom.InputError, match="is neither a known"):
        train.load_news(tmp_path / "nothing", descriptions=False)
    with pytest.raises(handloom.InputError, match="is neither a known"):
        train.load_captions(tmp_path / "nothing")


#: Values of which at least all but one are wrong for an argument.
KINDS = {
    "None": None, "a text": "abc", "a number": 3, "no items": [], "NaN": float("nan"), "a list": [1, 2],
    "a layer": layer,
    "a configuration": models.Seq2SeqConfig(9, 9, d_model=8, nhead=2, encoder_layers=1, decoder_layers=1),
}  # fmt: skip
#: Calls of a function of the user's, whose own errors pass; what is slow; and methods that only handloom calls.
LEFT = {"checkpoint", "explain", "plot_shares", "build_corpus", "forward", "hidden", "of", "start", "kind_of"}
#: What Python and NumPy say of a value inside a function.
RAW = re.compile(
    r"has no attribute|not iterable|not subscriptable|unsupported operand|real number|not callable|PathLike|"
    r"invalid literal|could not convert|unpack|not supported between|inhomogeneous|setting an array|list index|"
    r"tuple index|object of type|bad operand|cannot be interpreted|not a mapping|unhashable|keyword argument|"
    r"positional argument"
)
OBJECTS = [
    layer, language_model, tokenizer.CharacterTokenizer.train(["abc"]), tokenizer.BPETokenizer.train(["abc"], 270),
    tokenizer.WordTokenizer.train(["abc"]), train.Adam(layer.parameters()), train.Plateau(0.1), train.LossScaler(),
    nn.ModuleList([layer]), train.ExponentialAverage(layer.parameters()), tokenizer.BPETokenizer, train.RunFolder,
    handloom.Translator,
]  # fmt: skip


def public_calls() -> Iterator[Any]:
    """Yield each public function and class, and methods of some objects, with its name."""
    for module in LISTED:
        for name in sorted(public(module)):
            if callable(made := getattr(importlib.import_module(module), name)) and name not in LEFT:
                yield pytest.param(made, id=f"{module.removeprefix('handloom.')}.{name}")
    for one in OBJECTS:
        owner = one.__name__ if isinstance(one, type) else type(one).__name__
        for name in dir(one):
            if name[0] != "_" and name not in LEFT and inspect.ismethod(getattr(one, name)):
                yield pytest.param(getattr(one, name), id=f"{owner}.{name}")


def given(call: Any, value: Any) -> tuple[list[Any], dict[str, Any]] | None:
    """Return arguments that have this value in all places without a default, or else in the first place."""
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except ValueError:  # an exception of Python's
        return None
    places = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    needed = [p for p in places if p.default is p.empty] or [p for p in places[:1] if p.kind is not p.KEYWORD_ONLY]
    keywords = {p.name: value for p in needed if p.kind is p.KEYWORD_ONLY}
    return ([value] * (len(needed) - len(keywords)), keywords) if needed else None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", list(public_calls()))
def test_a_wrong_kind_gets_no_message_from_inside(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is of the library, and says more than Python does about an attribute, an index or an operand."""
    monkeypatch.chdir(tmp_path)
    raw = []
    for kind, value in KINDS.items():
        if (arguments := given(call, value)) is None:
            return
        try:
            made = call(*arguments[0], **arguments[1])
            next(made, None) if inspect.isgenerator(made) else None
        except (Exception, SystemExit) as error:
            inside = traceback.extract_tb(error.__traceback__)[-1]
            if not isinstance(error, ValueError | TypeError | OSError | IndexError | DeviceError):
                raw.append(f"{kind}: {type(error).__name__} {error}")
            elif RAW.search(str(error)) or "site-packages" in inside.filename:
                raw.append(f"{kind}: {error} ({inside.filename}:{inside.lineno})")
    assert raw == []
