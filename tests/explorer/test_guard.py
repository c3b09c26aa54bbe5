"""Access control (loopback, token, Host, kinds of requests), and the errors of a hostile run folder."""

# ruff: noqa: E402  (what follows needs the extra `explorer`)

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `explorer` is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from handloom import explorer
from handloom.explorer import server
from handloom.explorer.server import make_app
from handloom.explorer.serving import HOST, serving
from handloom.explorer.session import Session

PORT, TOKEN = 4711, "token"
STATIC = Path(explorer.__file__).parent / "static"
HOME = {"host": f"{HOST}:{PORT}"}


@pytest.fixture
def request_to(tmp_path: Path) -> Any:
    """Return a function (method, path, ...) -> response that sends requests without a network."""
    app = make_app(Session(tmp_path), TOKEN)

    def request(method: str, path: str, headers: Any = None, **options: Any) -> Any:
        async def send() -> Any:
            transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}:{PORT}") as client:
                return await client.request(method, path, headers={**HOME, **(headers or {})}, **options)

        return asyncio.run(send())

    return request


def test_with_the_token_there_is_a_page(request_to: Any) -> None:
    answer = request_to("GET", f"/{TOKEN}/")
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert request_to("GET", f"/{TOKEN}/app.js").headers["content-type"].startswith("text/javascript")


PAGE, STATE = f"/{TOKEN}/", f"/{TOKEN}/api/state"
#: For each kind of request: method, path, headers, options, and the possible status codes of the response.
REQUESTS: dict[str, tuple[str, str, dict[str, str], dict[str, Any], tuple[int, ...]]] = {
    **{f"no token: {path}": ("GET", path, {}, {}, (404,))
       for path in ("/", "/tokem/", "/tokem", "/app.js", "//", "/t\u00f6ken/")},
    **{f"no file of the page: {path}": ("GET", PAGE + path, {}, {}, (404, 405))
       for path in ("../session.py", "..%2fserver.py", "%2e%2e/guard.py", "static/app.js", "api/state")},
    **{f"another host: {host}": ("GET", PAGE, {"host": host}, {}, (400,))
       for host in ("evil.example", "evil.example:4711", "127.0.0.1.evil.example")},
    "a form of another page": ("POST", STATE, {}, {"data": {"text": "x"}}, (400,)),
    "another method": ("DELETE", STATE, {}, {}, (405,)),
    "another view": ("POST", f"/{TOKEN}/api/__class__", {}, {"json": {}}, (404,)),
}  # fmt: skip


@pytest.mark.parametrize("what", REQUESTS)
def test_only_the_page_with_its_token_is_answered(request_to: Any, what: str) -> None:
    method, path, headers, options, statuses = REQUESTS[what]
    answer = request_to(method, path, headers, **options)
    assert answer.status_code in statuses
    if what.startswith("no token"):
        assert "token" in answer.text
        assert TOKEN + "/" not in answer.text


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 30_000, b"NaN]", b'"' + b"\\" * 99])
def test_a_request_that_is_not_json_is_refused(request_to: Any, body: bytes) -> None:
    answer = request_to("POST", f"/{TOKEN}/api/state", {"content-type": "application/json"}, content=body)
    assert (answer.status_code, answer.json()) == (400, {"problem": "The request is not JSON."})


def test_a_request_has_a_bound(request_to: Any) -> None:
    answer = request_to("POST", f"/{TOKEN}/api/state", content=b'"' + b"x" * (1 << 20) + b'"')
    assert (answer.status_code, answer.json()["problem"]) == (413, "The request has more than 1,048,576 bytes.")


def test_files_of_the_page_do_not_wait_for_views(tmp_path: Path, monkeypatch) -> None:
    """More views than Starlette has threads wait for the first one."""
    session, go = Session(tmp_path), threading.Event()
    monkeypatch.setattr(session, "answer", lambda view, body: {"done": go.wait(60)})

    async def requests() -> None:
        transport = httpx.ASGITransport(app=make_app(session, TOKEN))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}:{PORT}") as client:
            views = [asyncio.create_task(client.post(STATE, content=b"{}", timeout=None)) for _ in range(60)]
            await asyncio.sleep(0)
            page = await asyncio.wait_for(client.get(f"/{TOKEN}/app.js"), 30)
            go.set()
            assert page.status_code == 200
            assert all(answer.json() == {"done": True} for answer in await asyncio.gather(*views))

    asyncio.run(requests())


def test_an_event_sends_only_new_rows(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(server, "POLL", 0)
    logs = [[], [{"step": 1}], [{"step": 1}, {"step": 2}], [{"step": 1}, {"step": 3}], [{"step": 1}]]
    found = iter({"rows": rows} for rows in logs)
    session = Session(tmp_path)
    monkeypatch.setattr(session, "progress", lambda: next(found))

    async def sent() -> list[Any]:
        stream = server.news(session)
        return [json.loads((await anext(stream)).removeprefix(b"data: ")) for _ in logs]

    rows: list[Any] = []
    events = asyncio.run(sent())
    for event, log in zip(events, logs, strict=True):
        rows = [*rows[: event["first"]], *event["rows"]]  # as static/training.js
        assert rows == log
    assert [len(event["rows"]) for event in events] == [0, 1, 1, 2, 1]


@pytest.mark.parametrize("body", [[], "x"])
def test_a_request_is_an_object(request_to: Any, body: Any) -> None:
    answer = request_to("POST", f"/{TOKEN}/api/translate", json=body)
    assert answer.json()["problem"] == "A request must be a JSON object."


def hostile(folder: Path, files: dict[str, bytes]) -> None:
    (folder / "config.json").write_text(json.dumps({"format": "handloom-run", "version": 1}))
    for name, content in files.items():
        (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no model yet"),
        ({"config.json": b"{"}, "config.json"),
        ({"config.json": b"[]"}, "config.json"),
        ({"model.safetensors": b""}, "model.safetensors"),
        ({"model.safetensors": b"\xff" * 4096}, "model.safetensors"),
        ({"model.safetensors": (1 << 62).to_bytes(8, "little") + b"{}"}, "model.safetensors"),
    ],
)
def test_a_hostile_run_folder_gives_a_clear_error(tmp_path: Path, request_to: Any, files: Any, said: str) -> None:
    hostile(tmp_path, files)
    answer = request_to("POST", f"/{TOKEN}/api/state", json={})
    assert answer.status_code == 200
    assert said in answer.json()["problem"]
    assert request_to("POST", f"/{TOKEN}/api/translate", json={"text": "x"}).json()["problem"]


def test_it_listens_on_this_machine_only(run_folder: Path) -> None:
    with serving(run_folder) as (address, _):
        assert address.startswith(f"http://{HOST}:")
        assert httpx.get(address).status_code == 200
        assert httpx.get(address, headers={"host": "evil.example"}).status_code == 400
        assert len(address.rstrip("/").rpartition("/")[2]) >= 22  # the token's length, in characters of 6 bits


def test_the_page_is_small_and_loads_nothing_from_elsewhere() -> None:
    files = {path.name: path.read_bytes() for path in STATIC.iterdir() if path.is_file()}
    assert sum(map(len, files.values())) <= 150_000
    for name, content in files.items():
        text = content.decode()
        assert "https://" not in text, name
        assert "eval(" not in text, name
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), name
