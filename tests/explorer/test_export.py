"""The exported page: in the browser, the model in plain JavaScript gives handloom's results."""

import itertools
import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom.errors import InputError
from handloom.explorer import attention, beam, merges
from handloom.explorer.asking import Ask
from handloom.explorer.exporting import VIEWS, export
from handloom.explorer.subject import load_subject
from handloom.models import LanguageModel, LanguageModelConfig, Strategy
from handloom.models.shipped import MODELS, TRANSLATORS
from handloom.tokenizer import CharacterTokenizer
from handloom.train.data.grammar import generate
from tests.explorer.test_subjects import saved

SHIPPED = MODELS[TRANSLATORS["en"]]  # the model of `--export` without RUN
ASK = "([view, body]) => import('./local/answers.js').then((local) => local.answer(view, body))"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *what: Any) -> None:
        pass


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Serve the exported page of a shipped model from a plain web server, and yield the open page."""
    folder = tmp_path_factory.mktemp("export") / "site"
    export(SHIPPED, folder)
    assert sum(path.stat().st_size for path in folder.rglob("*")) < 12_000_000
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.set_default_timeout(120_000)
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.wait_for_selector("html[data-text]")
        yield page
        page.close()
        server.shutdown()
        assert complaints == []


@pytest.fixture(scope="module")
def subject() -> Any:
    return load_subject(SHIPPED)


def test_answers_and_their_logits_are_handlooms(page: Any, subject: Any) -> None:
    """Check 12 sentences. With HYPOTHESIS_PROFILE=thorough, check 200, which takes some minutes."""
    count = 200 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 12
    texts = ["Ich habe 2 Äpfel, 3½ Birnen!", "  \u2009Was? \n\n Nichts…\t", "x", "🙂 <eos> こんにちは"]
    texts += ["WO IST DER BAHNHOF?", "DIE USA SIND GROSS. «ÜBER DIE STRAßE» GEHT'S!", "ǅ I"]
    texts += [sentence.german for sentence in itertools.islice(generate(1), count - len(texts))]
    found = page.evaluate("(texts) => import('./local/answers.js').then((local) => local.ids(texts))", texts)
    expected = subject.trained.hypotheses(texts, strategy=Strategy())
    assert found == [hypotheses[0].ids for hypotheses in expected]
    for text in texts[:: 5 if count == 12 else 20]:
        own = page.evaluate("(text) => import('./local/answers.js').then((local) => local.logits(text))", text)
        np.testing.assert_allclose(own, subject.logits(subject.watched(text)), atol=1e-4)


@pytest.mark.parametrize("off", [[], ["decoder.layers.2.multihead_attn/0", "encoder.layers.0.self_attn/3"]])
def test_the_views_have_the_servers_data(page: Any, subject: Any, off: list[str]) -> None:
    text = subject.example
    given = {"text": text, "off": off, "layer": "decoder.layers.1.self_attn", "head": 2, "query": 3, "temperature": 1.5}
    own = page.evaluate(ASK, ["translate", given])
    seen = attention.translate(subject, Ask(given))
    assert {key: own[key] for key in ("answer", "tokens")} == {key: seen[key] for key in ("answer", "tokens")}
    for mine, layer in zip(own["layers"], subject.watched(text, off).layers, strict=True):
        assert mine["name"] == layer.name
        np.testing.assert_allclose(mine["weights"]["values"], layer.weights.ravel(), atol=1e-5)
    head = page.evaluate(ASK, ["head", given])
    call = subject.watched(text, off).layer(given["layer"]).call
    np.testing.assert_allclose(head["q"]["values"], call.query[0, 2, 3], atol=1e-4)
    np.testing.assert_allclose(head["output"]["values"], call.output[0, 2, 3], atol=1e-4)
    mine, known = page.evaluate(ASK, ["next", given]), attention.following(subject, Ask(given))
    for one, other in zip(mine["positions"], known["positions"], strict=True):
        assert [token for token, _ in one["candidates"][:3]] == [token for token, _ in other["candidates"][:3]]
        np.testing.assert_allclose(
            [share for _, share in one["candidates"]], [share for _, share in other["candidates"]], atol=1e-5
        )
    if not off:
        for width, long in (
            (3, text),
            (8, "Die Frau, die wir gestern sahen, kommt aus Berlin."),
        ):  # 8: the cache is swept
            tree = page.evaluate(ASK, ["beam", {"text": long, "width": width, "alpha": 0.6}])
            known = beam.beam(subject, Ask({"text": long, "width": width, "alpha": 0.6}))
            for key in ("token", "kind", "parent", "rank", "x", "y", "cached"):
                assert [node[key] for node in tree["nodes"]] == [node[key] for node in known["nodes"]], key
            assert (tree["held"], tree["bytes"]) == (known["held"], known["bytes"])
        for number in (0, 700, 3740):
            body = {"text": "Überraschung! Die 😀  Straße", "merges": number, "word": ""}
            cut, whole = page.evaluate(ASK, ["bpe", body]), merges.merges(subject, Ask(body))
            assert {key: cut[key] for key in whole} == whole


def test_the_exported_page_shows_its_views_and_says_what_is_wrong(page: Any) -> None:
    policy = page.locator('meta[http-equiv="Content-Security-Policy"]').get_attribute("content")
    assert policy.startswith("default-src 'none'; script-src 'self'")
    for view in VIEWS:
        page.click(f'#views a[href^="#{view}"]')
        page.wait_for_selector(f"#view-{view}:is([data-ready]:not([data-ready='']), [data-text])")
    for view, says in ("graph", "The view Graph needs an installed handloom"), ("xyz", "There is no view “xyz”."):
        page.evaluate("(view) => { location.hash = view; }", view)
        page.wait_for_function("(says) => document.querySelector('#off').textContent.includes(says)", arg=says)
        assert page.evaluate("location.hash").startswith("#model")
    page.fill("#text", " ")
    page.wait_for_function("() => document.querySelector('#problem').textContent === 'There is no text. Type one.'")


def test_the_model_computes_outside_the_thread_of_the_page(page: Any) -> None:
    """Of two requests that arrive before the model computes, the older one is dropped."""
    assert [worker.url.rpartition("/")[2] for worker in page.workers] == ["worker.js"]
    found = page.evaluate(
        """async () => {
          await import("./local/worker.js");
          const answers = [];
          window.postMessage = (message) => answers.push(message);
          const request = (number, text) => ({ data: { number, view: "next", body: { text, temperature: 1 } } });
          await Promise.all([window.onmessage(request(1, "Wer singt?")), window.onmessage(request(2, "Wer tanzt?"))]);
          return answers.map(({ number, answer }) => [number, answer.problem ?? answer.positions.length > 2]);
        }"""
    )
    assert found == [[1, "A newer request has replaced this one."], [2, True]]


def test_a_page_that_is_opened_as_a_file_says_what_to_do(browser: Any, run_folder: Path, tmp_path: Path) -> None:
    export(run_folder, tmp_path / "site")
    page = browser.new_page()
    page.goto((tmp_path / "site/index.html").as_uri())
    assert "Serve its folder: python -m http.server" in page.inner_text("#facts")
    page.close()


def test_what_the_browser_can_not_run_is_refused(tmp_path: Path, run_folder: Path) -> None:
    tokenizer = CharacterTokenizer.train(["abc"])
    config = LanguageModelConfig(tokenizer.vocab_size, 16, 2, 8, 1, 32, 0.0, max_length=24)
    saved(tmp_path / "run", LanguageModel(config), tokenizer, {"kind": "transformer", "length": 24})
    with pytest.raises(InputError, match=r"can't run the model of .*: it is not a translator"):
        export(tmp_path / "run", tmp_path / "site")
    (tmp_path / "half/app.js").mkdir(parents=True)
    (tmp_path / "half/facts.json").touch()
    for folder, says in (tmp_path, "contains other files"), (tmp_path / "half", r"^[^ ]*app\.js could not be written"):
        with pytest.raises(InputError, match=says):
            export(run_folder, folder)
    assert not (tmp_path / "site").exists()
