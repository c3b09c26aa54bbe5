"""Pictures are written, show the data, and don't change matplotlib's global state."""

import os
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from handloom.errors import InputError
from handloom.train.runs import plots
from handloom.train.runs.plots import plot_attention, plot_confusion, plot_lines, plot_losses

pytestmark = pytest.mark.slow

ROWS = [
    {"step": 10, "loss": 5.0, "learning_rate": 1e-4},
    {"step": 20, "loss": None, "learning_rate": 2e-4},
    {"step": 20, "valid_loss": 4.0},
    {"step": 30, "loss": 3.0, "learning_rate": 3e-4, "gradient_norm": 1.0},
    {"step": 30, "valid_loss": 4.5},
    {"note": "no step"},
]


@pytest.fixture
def figure(monkeypatch) -> list[Figure]:
    """Return a list to which every saved figure is added."""
    saved: list[Figure] = []
    save = plots._saved
    monkeypatch.setattr(plots, "_saved", lambda drawn, path: saved.append(drawn) or save(drawn, path))
    return saved


def is_png(path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG\r\n") and path.stat().st_size > 1000


def test_losses(tmp_path, figure):
    plot_losses(ROWS, tmp_path / "loss.png")
    assert is_png(tmp_path / "loss.png")
    assert os.listdir(tmp_path) == ["loss.png"]
    losses, rate = figure[0].axes
    lines = {str(line.get_label()): line.get_xydata().tolist() for line in losses.lines}
    assert lines["training"] == [[10, 5.0], [30, 3.0]]
    assert lines["validation (best 4.000 at step 20)"] == [[20, 4.0], [30, 4.5]]
    assert rate.lines[0].get_xydata().tolist() == [[10, 1e-4], [20, 2e-4], [30, 3e-4]]
    assert losses.get_ylabel() == "loss (nats per token)"
    assert rate.get_xlabel() == "step (updates)"


def test_averaged_weights_are_a_point_of_their_own(tmp_path, figure):
    plot_losses([*ROWS, {"step": 30, "valid_loss": 3.5, "averaged": 2}], tmp_path / "loss.png")
    lines = {str(line.get_label()): line for line in figure[0].axes[0].lines}
    assert lines["validation (best 4.000 at step 20)"].get_xydata().tolist() == [[20, 4.0], [30, 4.5]]
    point = lines["averaged weights (3.500)"]
    assert (point.get_xydata().tolist(), point.get_linestyle()) == ([[30, 3.5]], "None")


@pytest.mark.parametrize("key", ["loss", "valid_loss"])
def test_one_kind_of_loss_alone(tmp_path, figure, key):
    plot_losses([{"step": 1, key: 2.5}], tmp_path / "loss.png")
    assert len(figure[0].axes) == 1


@pytest.mark.parametrize("rows", [[], [{"step": 1, "learning_rate": 0.1}], [{"step": 1, "loss": float("nan")}]])
def test_no_loss_to_draw(tmp_path, rows):
    with pytest.raises(ValueError, match="no row of the metrics has a step and a loss"):
        plot_losses(rows, tmp_path / "loss.png")


def test_picture_that_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match=r"loss\.png could not be written"):
        plot_losses(ROWS, tmp_path / "missing" / "loss.png")


@pytest.mark.parametrize(("draw", "shape"), [
    (plot_attention, (2, 3)), (plot_attention, (6,)), (plot_attention, (2, 3, 4)), (plot_confusion, (3, 3)),
])  # fmt: skip
def test_arrays_that_do_not_fit_their_labels(tmp_path, draw, shape) -> None:
    labels = [["a", "b"]] * (1 if draw is plot_confusion else 2)
    with pytest.raises(ValueError, match=r"(don't|does not) fit"):
        draw(np.ones(shape), *labels, tmp_path / "x.png")


def test_no_global_state_and_no_display(tmp_path):
    code = (
        "import sys, handloom.train.runs.plots as plots\n"
        "assert 'matplotlib' not in sys.modules, 'only drawing should import it'\n"
        f"plots.plot_losses([dict(step=1, loss=2.0)], {str(tmp_path / 'loss.png')!r})\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=300)
    assert is_png(tmp_path / "loss.png")
    assert matplotlib.get_backend().lower() == "agg"


@pytest.mark.parametrize("heads", [None, 1, 5, 8])
def test_each_head_has_a_panel_with_its_tokens(heads: int | None, tmp_path, figure) -> None:
    """Labels show blanks and unprintable characters, "$" starts no formula, and long tokens are cut."""
    shape = (3,) if heads is None else (heads, 3)
    weights = np.random.default_rng(0).dirichlet(np.ones(6), shape)
    keys = ["$x", " süßer", "\n", "\x00", "\u2028", "ab" * 50]
    plot_attention(weights, ["a", "犬", "😀"], keys, tmp_path / "heads.png", "Last layer")
    assert is_png(tmp_path / "heads.png")
    assert figure[0].get_suptitle() == "Last layer"
    panels = [panel for panel in figure[0].axes if panel.images]
    titles = [""] if heads is None else [f"head {n}" for n in range(1, heads + 1)]
    assert [panel.get_title() for panel in panels] == titles
    for panel, own in zip(panels, weights.reshape(-1, 3, 6), strict=True):
        np.testing.assert_array_equal(panel.images[0].get_array(), own)
        assert panel.images[0].get_clim() == (0.0, 1.0), "a shade means the same weight in every picture"
    lowest = [panel for number, panel in enumerate(panels) if number + min(len(panels), 4) >= len(panels)]
    assert all(panel.xaxis.get_tick_params()["labelbottom"] for panel in lowest)
    shown = [label.get_text() for label in lowest[0].get_xticklabels()]
    assert shown[:5] == ["$x", "␣süßer", r"\n", r"\x00", r"\u2028"]
    assert len(shown[5]) == 24


def test_many_lines_and_any_names_have_a_whole_legend(tmp_path, figure):
    names = ["_a", "a$b$", "$x", r"$\frac", *map(str, range(40))]
    plot_lines({name: ([1, 2], [1.0, 2.0]) for name in names}, tmp_path / "c.png", x_label="x", y_label="y")
    (drawn,) = figure
    legend = drawn.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == names
    box = legend.get_window_extent()
    assert drawn.bbox.y0 <= box.y0 < box.y1 <= drawn.bbox.y1
    assert drawn.bbox.x1 >= box.x1


def test_a_run_and_its_average_have_one_colour(tmp_path, figure):
    lines = {name: ([1], [1.0]) for name in ("a", "a, averaged weights", "b", "b, averaged weights")}
    plot_lines(lines, tmp_path / "c.png", x_label="x", y_label="y")
    colours = [line.get_color() for line in figure[0].axes[0].lines]
    assert colours[0] == colours[1] != colours[2] == colours[3]


def test_large_grids_stay_of_a_size_and_name_some_of_their_cells(tmp_path, figure):
    tokens = [f"t{number}" for number in range(380)]
    plot_attention(np.full((4, 380, 380), 1 / 380), tokens, tokens, tmp_path / "attention.png")
    plot_confusion(np.eye(700), [f"class {number}" for number in range(700)], tmp_path / "confusion.png")
    for drawn in figure:
        assert max(drawn.get_size_inches()) < 60
        assert len(drawn.axes[0].get_yticklabels()) <= 60


def test_a_long_log_is_drawn_without_a_warning(tmp_path):
    rows = [{"step": step, "loss": 1.0, "valid_loss": 2.0} for step in range(1, 100_001)]
    plot_losses(rows, tmp_path / "loss.png")
    assert is_png(tmp_path / "loss.png")
