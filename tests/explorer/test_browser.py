"""The page in a real browser: it draws the numbers from Python, is accessible, and sends no requests to other hosts."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra `explorer` is not installed")

from handloom.errors import InputError
from handloom.explorer.merges import first_merges
from handloom.explorer.serving import serving
from handloom.models import Strategy
from handloom.train.runs.folder import read_metrics
from handloom.train.tasks.translation import Translator
from tests.support.explorer_run import SENTENCE

VIEWS = ("model", "translate", "head", "next", "beam", "graph", "check", "bpe", "tiles", "training")


class Page:
    """A page of the browser that records its requests, console messages and errors."""

    def __init__(self, browser: Any, address: str):
        self.address = address
        self.page = browser.new_page(viewport={"width": 1280, "height": 900})
        self.page.set_default_timeout(60_000)  # stops a hanging test; response times are not tested
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, view: str) -> Any:
        """Show a view and return playwright's page."""
        self.page.click(f'#views a[href^="#{view}"]')
        self.page.wait_for_selector(f"#view-{view}")
        return self.page

    def type(self, text: str) -> None:
        """Type a text, and wait for its answer and its attention maps."""
        self.open("translate")
        self.page.fill("#text", text)
        self.page.wait_for_function("t => document.documentElement.dataset.text === t", arg=text)

    def values(self, selector: str) -> np.ndarray:
        """Return the `data-value` numbers of all elements that a selector matches."""
        found = self.page.eval_on_selector_all(selector, "all => all.map(one => one.dataset.value)")
        return np.array([float(value) for value in found])


@pytest.fixture(scope="module")
def page(browser: Any, run_folder: Path) -> Iterator[Page]:
    with serving(run_folder) as (address, _):
        page = Page(browser, address)
        page.page.goto(address)
        page.page.wait_for_selector("html[data-ready]")
        yield page
        page.page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_picture_of_the_model_has_each_step_of_a_layer(page: Page, width: int) -> None:
    """The run has 2 post-norm layers: two steps in the encoder and three in the decoder, each with a sum and a norm."""
    page.type(SENTENCE)
    view = page.open("model")
    view.set_viewport_size({"width": width, "height": 900})
    view.reload()
    view.wait_for_selector("#view-model[data-ready]")
    assert [view.locator(f"#view-model {one}").count() for one in (".sum", ".norm", ".frame")] == [5, 5, 2]
    texts = view.locator("#view-model svg").text_content()
    assert "Encoder: × 2 layers" in texts
    assert "Decoder: × 2 layers" in texts
    boxes = {name: view.locator(f'#view-model .box:has-text("{name}")').last.bounding_box() for name in BOXES}
    heights = [boxes[name]["y"] for name in BOXES]
    assert heights == sorted(heights, reverse=True)
    assert all(one["x"] >= 0 and one["x"] + one["width"] <= width for one in boxes.values())
    assert heights[0] - heights[-1] < 640  # from the text to the answer in one window
    view.locator('#view-model a.box:has-text("Feed-forward")').first.click()
    view.wait_for_selector("#view-graph[data-call]")
    assert view.locator("#graph-detail h3").inner_text() in ("LinearReLU", "LinearReLUCompiled", "LinearActivation")
    assert "linear1" in view.locator("#graph-detail p").first.inner_text()
    view.set_viewport_size({"width": 1280, "height": 900})


#: Boxes from the bottom of the picture to its top.
BOXES = ("Your text", "Causal self-attention", "Cross-attention", "Next token", "Beam search")


def test_every_cell_drawn_is_a_weight_of_attention_maps(page: Page, run_folder: Path) -> None:
    page.type(SENTENCE)
    maps, _, _ = Translator.load(run_folder).attention_maps(SENTENCE)
    drawn, shades = {}, {}
    for name, weights in maps.items():
        for head in range(len(weights)):
            values, alphas = page.page.eval_on_selector(
                f'.thumb[data-layer="{name}"][data-head="{head}"] canvas',
                """canvas => [canvas.dataset.values, [...canvas.getContext("2d")
                    .getImageData(0, 0, canvas.width, canvas.height).data].filter((_, i) => i % 4 === 3)]""",
            )
            drawn[name, head] = np.array(values.split(), float).reshape(weights[head].shape)
            shades[name, head] = np.array(alphas).reshape(weights[head].shape)
            np.testing.assert_allclose(drawn[name, head].sum(axis=1), 1, atol=1e-5)
    assert len(drawn) == 2 * 2 * 3
    rng = np.random.default_rng(0)
    for name, head in (list(drawn)[i] for i in rng.integers(len(drawn), size=50)):
        row, column = (rng.integers(side) for side in drawn[name, head].shape)
        weight = maps[name][head, row, column]
        assert drawn[name, head][row, column] == pytest.approx(weight, rel=1e-6, abs=1e-12)
        assert shades[name, head][row, column] == pytest.approx(255 * weight**0.5, abs=0.51)
    name = "decoder.layers.1.self_attn"  # the large map has an element for each cell
    page.page.click(f'.thumb[data-layer="{name}"][data-head="1"]')
    np.testing.assert_allclose(page.values(".big .cells rect"), maps[name][1].ravel(), rtol=1e-6)
    assert page.page.inner_text("#answer") == Translator.load(run_folder).translate([SENTENCE])[0]


def test_a_cell_opens_its_head_and_the_browser_computes_the_same_numbers(page: Page, run_folder: Path) -> None:
    page.type(SENTENCE)
    page.page.click('.thumb[data-layer="encoder.layers.1.self_attn"][data-head="1"]')
    application = page.page.locator("[role=application]")
    application.press("ArrowDown")
    application.press("ArrowRight")
    application.press("Enter")
    view = page.page.wait_for_selector('#view-head[data-ready^="encoder.layers.1.self_attn/1/"]')
    query = int(view.get_attribute("data-ready").rpartition("/")[2])
    maps, _, _ = Translator.load(run_folder).attention_maps(SENTENCE)
    expected = maps["encoder.layers.1.self_attn"][1, query]
    np.testing.assert_allclose(page.values(".steps td.own"), expected, rtol=1e-6)
    np.testing.assert_allclose(page.values(".steps td.weight"), expected, atol=1e-6)
    assert page.values("#difference")[0] < 1e-5
    page.page.locator(".steps input[type=checkbox]").nth(2).uncheck()
    left = page.values(".steps td.weight")
    assert left[2] == 0
    others = np.delete(expected, 2)
    np.testing.assert_allclose(np.delete(left, 2), others / others.sum(), atol=1e-6)


def test_the_leaves_drawn_are_what_beam_search_returns(page: Page, run_folder: Path) -> None:
    page.type("Er.")
    page.open("beam")
    page.page.wait_for_selector('[data-ready="Er./5/1"]')
    assert page.page.inner_text("tr.on .left") == page.page.inner_text("#answer")  # all views use the same search
    page.page.fill("#beam-width", "3")
    page.page.wait_for_selector('[data-ready="Er./3/1"]')
    found = Translator.load(run_folder).hypotheses(["Er."], strategy=Strategy(beam=3, n_best=3))[0]
    scores = [page.page.get_attribute(f'[data-rank="{rank}"]', "data-score") for rank in range(3)]
    assert [float(score) for score in scores] == [hypothesis.score for hypothesis in found]
    np.testing.assert_array_equal(page.values("td.score"), [hypothesis.score for hypothesis in found])


def test_a_mistake_planted_in_the_page_is_found(page: Page) -> None:
    page.type("Er.")
    page.open("check")
    page.page.wait_for_selector('#view-check[data-ready$="/-1"]')
    assert page.page.inner_text("#check-verdict").startswith("The gradient is right in the ")
    assert page.page.locator(".point.wrong").count() == 0
    page.page.select_option("#check-plant", index=1)
    page.page.wait_for_selector('#view-check[data-ready]:not([data-ready$="/-1"])')
    assert page.page.inner_text("#check-verdict") == "Found."
    assert page.page.locator(".point.wrong").count() > 0
    page.page.select_option("#check-plant", index=0)
    page.page.wait_for_selector('#view-check[data-ready$="/-1"]')
    assert page.page.inner_text("#check-verdict").startswith("The gradient is right in the ")


def test_the_tokens_at_slider_n_are_the_tokenizers(page: Page, run_folder: Path) -> None:
    page.type(SENTENCE)
    page.open("bpe")
    page.page.wait_for_selector("#bpe-merges:enabled")
    slider = page.page.locator("#bpe-merges")
    tokenizer = Translator.load(run_folder).tokenizer
    for key, n in (("Home", 0), ("ArrowRight", 1), ("End", len(tokenizer.merges))):
        slider.press(key)
        page.page.wait_for_selector(f'[data-ready="{n}/"]')
        expected = first_merges(tokenizer, n).encode(SENTENCE)
        np.testing.assert_array_equal(page.values("#bpe-tokens .token"), expected)
        assert page.values("#bpe-count") == len(expected)


def test_the_points_drawn_are_those_of_the_log_and_follow_it(browser: Any, run_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(run_folder, run)
    with serving(run) as (address, _):
        page = Page(browser, address)
        page.page.goto(f"{address}#training")
        for _ in range(2):
            rows = read_metrics(run / "metrics.jsonl")
            page.page.wait_for_selector(f'#view-training[data-rows="{len(rows)}"]')
            for key in ("loss", "learning_rate", "gradient_norm", "valid_loss"):
                line = page.page.locator(f'.line[data-key="{key}"]')
                drawn = [list(map(float, line.get_attribute(f"data-{what}").split())) for what in ("steps", "values")]
                own = [row for row in rows if key in row and not row.get("averaged")]
                assert drawn == [[row["step"] for row in own], [row[key] for row in own]]
            with open(run / "metrics.jsonl", "a", encoding="utf-8") as log:  # as another process would
                row = {"step": 9, "epoch": 0, "loss": 2.5, "learning_rate": 0.1, "gradient_norm": 0.5}
                log.write(json.dumps({**row, "loss_scale": 64.0, "skipped": 1, "overflowed": "output.weight"}) + "\n")
        page.page.wait_for_selector('.mark[data-step="9"]')
        assert "first: output.weight" in page.page.inner_text("#overflows")
        page.page.wait_for_selector('#view-training[data-saves="2"]')
        page.page.close()


@pytest.mark.parametrize("text", ["", "sehr lang " * 120, "🙂 ☃", "Πού είναι;"])
def test_odd_texts_are_answered_or_refused_in_the_words_of_the_page(page: Page, run_folder: Path, text: str) -> None:
    page.type(text)
    try:
        expected = Translator.load(run_folder).translate([text], split=False)[0]
    except InputError:
        page.page.wait_for_function("document.querySelector('#problem').textContent.startsWith('The')")
        assert page.page.get_attribute("main", "class") == "stale"  # the shown results belong to another text
    else:
        assert page.page.text_content("#problem") == ""
        assert page.page.text_content("#answer") == expected


def test_the_address_keeps_the_state_and_back_undoes_it(page: Page) -> None:
    page.type(SENTENCE)
    page.page.click('.thumb[data-layer="encoder.layers.1.self_attn"][data-head="1"]')
    page.page.click('.thumb[data-layer="encoder.layers.0.self_attn"][data-head="0"]')
    page.page.go_back()
    pressed = '.thumb[data-layer="encoder.layers.1.self_attn"][data-head="1"][aria-pressed="true"]'
    page.page.wait_for_selector(pressed)
    page.page.reload()
    page.page.wait_for_selector(pressed)
    assert page.page.input_value("#text") == SENTENCE
    page.page.goto("about:blank")
    page.page.goto(f"{page.address}#head?text=Er.&layer=decoder.layers.0.multihead_attn&head=1&row=1")
    page.page.wait_for_selector('#view-head[data-ready="decoder.layers.0.multihead_attn/1/1"]')
    page.page.goto("about:blank")
    page.page.goto(f"{page.address}#tiles")  # without a layer, the address shows the last layer
    page.page.wait_for_selector('#view-tiles[data-ready^="decoder.layers.1.multihead_attn/0/"]')


def test_the_tour_visits_the_views(page: Page) -> None:
    page.type(SENTENCE)
    page.page.click("#tour")
    for number in range(1, 9):
        page.page.wait_for_selector(f"#card strong >> text=/^{number} of 8/ ")
        page.page.click("#card button >> text=/Next|End/")
    page.page.wait_for_selector("#card", state="hidden")


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_accessible(page: Page, view: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page.type("Er.")
    page.open(view)
    page.page.wait_for_selector(f"#view-{view}:is([data-ready]:not([data-ready='']), [data-text], [data-saves])")
    page.page.evaluate("document.querySelectorAll('main details').forEach(one => one.open = true)")
    rules: dict[str, Any] = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
    for scheme in ("light", "dark"):
        page.page.emulate_media(color_scheme=scheme)
        results = axe.Axe().run(page.page, options=rules)
        assert results.violations_count == 0, results.generate_report()
        rules = {"runOnly": ["color-contrast"]}  # the only rule that depends on the colour scheme
    page.page.set_viewport_size({"width": 380, "height": 800})
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 380
    page.page.set_viewport_size({"width": 1280, "height": 900})


def test_no_request_leaves_the_machine_and_nothing_complains(page: Page) -> None:
    for view in VIEWS:
        page.open(view)
    assert page.requests
    assert not [url for url in page.requests if not url.startswith((page.address, "data:"))]
    assert page.complaints == []
