"""What notebooks show: objects as HTML without scripts, and progress bars."""

import sys
from html.parser import HTMLParser
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import Tensor, draw_graph, gradcheck, ops
from handloom.notebook import progress_bar
from handloom.train.callbacks import History

NAME = "<script>alert('&')</script>"


class Page(HTMLParser):
    """Checks that the elements are closed in order, and collects their names and texts."""

    def __init__(self, html: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert all(not name.startswith("on") and "javascript" not in value for name, value in attrs)
        assert not {name: value for name, value in attrs if value in ("nan", "inf", "-inf")}
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(thing: Any) -> Page:
    html = thing._repr_svg_() if hasattr(thing, "_repr_svg_") else thing._repr_html_()
    assert len(html) < 60_000
    page = Page(html)
    assert "script" not in page.tags
    return page


def model() -> nn.Module:
    inner = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    setattr(inner, NAME, nn.Parameter(np.ones(3, np.float32)))
    inner.again = inner[0].weight
    return nn.Sequential(inner, nn.ReLU())


def wrong(x: Tensor) -> Tensor:
    return ops.sin(x.detach()) + x


def history(*losses: float | None) -> History:
    rows = [{"step": step, "epoch": 0, "loss": loss} for step, loss in enumerate(losses)]
    return History([*rows, {"step": 2, "epoch": 0, "valid_loss": 0.5}] if losses else [], label=NAME)


def graph() -> Any:
    network = model()
    return draw_graph(network(Tensor(np.ones((4, 2), np.float32))), module=network)


def report() -> Any:
    found = gradcheck(wrong, [np.arange(4.0)], name=NAME)
    found.checks[0].name = NAME
    return found


OBJECTS: dict[str, tuple[Any, list[str], list[str]]] = {
    "a matrix": (
        lambda: Tensor([[1.0, -2.0]], requires_grad=True) * 2,
        ["Tensor (1, 2) · float32 · cpu · requires a gradient · from Multiply", "[[ 2., -4.]]", "blue: up to 4"],
        ["svg", "pre"],
    ),
    "a model": (model, ["Sequential · 16", "1: Linear · 4", NAME + " (3,) · 3", "weight (3, 2) · shared"], ["details"]),
    "a failed check": (report, [f"gradcheck of {NAME}: FAILED", "allowed", "NO"], ["table", "th", "td"]),
    "a log": (lambda: history(2.0, 1.0, None, 0.5), ["History(5 rows)", NAME, "validation", "0.5"], ["polyline"]),
    "an empty log": (history, ["History(0 rows)"], []),
    "a log of one row": (lambda: history(1e308), ["1e+308"], ["polyline"]),
    "a log of large numbers": (lambda: history(1.7e308, -1.7e308), ["-1.7e+308"], ["polyline"]),
    "a graph": (graph, ["Linear", "0.0.bias", "result", "float32[4, 1]"], ["rect", "path"]),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_what_an_object_shows_is_complete_and_escaped(name) -> None:
    make, texts, tags = OBJECTS[name]
    page = shown(make())
    for text in texts:
        assert text in page.text
    assert {*tags} <= {*page.tags}


def test_labels_of_a_graph_are_escaped_and_long_graphs_are_cut() -> None:
    x = Tensor([1.0], requires_grad=True)
    holder = nn.Module()
    setattr(holder, NAME, nn.Parameter([1.0]))
    assert NAME in shown(draw_graph(getattr(holder, NAME) * 2, module=holder)).text
    for _ in range(200):
        x = x * 1.5
    drawing = draw_graph(x)
    page = shown(drawing)
    assert "the last 60 of 202 leaves and calls" in page.text
    assert type(str(drawing)) is str
    assert drawing.startswith("digraph")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble", "bool", "int8", "int64", "uint64"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (2, 3), (50, 40), (2, 3, 4), (2,) * 16, (10**6,)])
def test_a_tensor_of_any_form_is_shown(dtype, shape) -> None:
    values = np.zeros(shape, dtype)
    if values.size:
        values.reshape(-1)[0] = np.iinfo(dtype).min if values.dtype.kind == "i" else 1
    page = shown(Tensor(values))
    assert f"Tensor {shape} · {np.dtype(dtype)} · cpu" in page.text
    assert ("svg" in page.tags) == (len(shape) == 2 and values.size > 1)
    assert ("first 32 × 32 numbers" in page.text) == (shape == (50, 40))


def test_numbers_that_are_not_finite_and_the_extremes_are_shown() -> None:
    assert "svg" in shown(Tensor(np.full((2, 2), np.finfo(np.longdouble).max))).tags
    for values in ([[np.nan, np.inf, -np.inf]], [[1.7e308, -1.7e308]], [[5e-324, 0.0]], [[0.0, -0.0]]):
        for of_dtype in (np.array(values), np.array(values).clip(-6e4, 6e4).astype(np.float16)):
            assert "svg" in shown(Tensor(of_dtype)).tags


def test_showing_changes_and_records_nothing() -> None:
    table = nn.Embedding(5, 2)
    (table(np.array([[1, 3]])) ** 2).sum().backward()
    rows = table.weight.grad_or_rows
    x = Tensor(np.ones((2, 2)), requires_grad=True)
    assert type(rows).__name__ in shown(table.weight).text
    assert "gradient" in shown(x).text
    assert table.weight.grad_or_rows is rows
    assert x._origin is None
    x.grad = np.full((2, 2), 7.0)
    assert "7., 7." in shown(x).text


def test_a_notebook_without_ipywidgets_has_a_bar_of_text_and_no_warning(monkeypatch, capsys) -> None:
    shell: Any = ModuleType("IPython")
    shell.get_ipython = object
    for name, module in (("IPython", shell), ("ipykernel.zmqshell", shell), ("ipywidgets", None)):
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("tqdm.auto", "tqdm.autonotebook", "tqdm.notebook"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for visible in (True, False):
        with progress_bar(visible, total=3, unit="sentence", bar_format="{percentage:3.0f}%|{bar:16}| {n_fmt}") as bar:
            bar.update(3)
            bar.set_postfix_str("loss 1.5")
        seen = capsys.readouterr()
        assert (seen.out, "100%|" in seen.err) == ("", visible)


def test_outside_a_terminal_and_a_notebook_there_is_no_bar(capsys) -> None:
    assert "ipykernel.zmqshell" not in sys.modules
    with progress_bar(total=3) as bar:
        bar.update(3)
    assert capsys.readouterr() == ("", "")
