"""Files of named data sets: from the cache, from a server on this machine, and refused downloads."""

import gc
import hashlib
import http.server
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pooch
import pytest

from handloom.errors import InputError
from handloom.train.data.downloads import fetch, find_local

# requests leaves the socket of a failed download to the garbage collector.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

CONTENT = b"Zwei M\xc3\xa4nner.\n" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Server:
    """A server that returns the next (status, body, announced length) in `answers`, and repeats the last answer."""

    url: str = ""
    answers: list[tuple[int, bytes, int]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)


@pytest.fixture
def server(monkeypatch):
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            state.requests.append((self.path, self.headers["User-Agent"]))
            status, body, length = state.answers.pop(0) if len(state.answers) > 1 else state.answers[0]
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        state.url = f"http://127.0.0.1:{listening.server_port}/raw/"
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield state
        listening.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Use a new cache, no HANDLOOM_DATA and no pause between two attempts."""
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    monkeypatch.delenv("HANDLOOM_DATA", raising=False)
    yield tmp_path / "cache" / "handloom"
    gc.collect()


def whole(body: bytes = CONTENT, status: int = 200) -> tuple[int, bytes, int]:
    return status, body, len(body)


@pytest.mark.parametrize("checksum", [SHA256, None])
def test_download_then_cache(server, cache, tmp_path, monkeypatch, checksum):
    monkeypatch.setenv("HANDLOOM_DATA", str(tmp_path))  # this folder lacks the file
    server.answers = [whole()]
    path = fetch(server.url, "multi30k", "train.de", checksum)
    assert path == cache / "multi30k" / "train.de"
    assert path.read_bytes() == CONTENT
    assert fetch(server.url, "multi30k", "train.de", checksum) == path
    assert server.requests == [("/raw/train.de", "handloom/0.1")]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (whole(b"<html>Welcome to the hotel's network</html>"), "wrong checksum"),
        (whole(b"nothing here", 404), "404 Client Error"),
        (whole(b"", 500), "500 Server Error"),
        ((200, CONTENT[:500], len(CONTENT)), "500 bytes read"),
    ],
)
def test_failure_says_what_to_do_and_leaves_nothing(server, cache, answer, reason):
    server.answers = [answer]
    with pytest.raises(InputError) as caught:
        fetch(server.url, "multi30k", "train.de", SHA256, all_names=["train.de", "train.en"])
    message = str(caught.value)
    assert "\n" not in message
    assert f"{server.url}train.de could not be downloaded: " in message
    assert reason in message
    assert f"fetch train.de, train.en from {server.url} by other means, put them into a folder DATA/multi30k" in message
    assert "HANDLOOM_DATA" in message
    assert "The data set embedded needs no download." in message
    assert len(server.requests) == 3
    assert [p for p in cache.rglob("*") if p.is_file()] == []


def test_no_network():
    with pytest.raises(InputError, match=r"could not be downloaded: .*[Rr]efused") as raised:
        fetch("http://127.0.0.1:9/raw/", "multi30k", "train.de", SHA256)  # no server listens on port 9
    assert "Max retries" not in str(raised.value)  # the message of the innermost error replaces it


class TestDataFolder:
    def test_local_file_with_another_checksum(self, tmp_path, monkeypatch, server):
        (tmp_path / "multi30k").mkdir()
        (tmp_path / "multi30k" / "train.de").write_bytes(b"something else")
        monkeypatch.setenv("HANDLOOM_DATA", str(tmp_path))
        with pytest.raises(InputError, match=r"train\.de is not the official file.*Replace it by http://127"):
            fetch(server.url, "multi30k", "train.de", SHA256)
        assert server.requests == []

    def test_variable_that_is_unset_or_empty_or_names_no_folder(self, tmp_path, monkeypatch):
        assert find_local("multi30k/train.de") is None
        monkeypatch.setenv("HANDLOOM_DATA", "")
        assert find_local("multi30k/train.de") is None
        monkeypatch.setenv("HANDLOOM_DATA", str(tmp_path / "none"))
        with pytest.raises(InputError, match=r"HANDLOOM_DATA is set to .*none, which is not a folder"):
            find_local("multi30k/train.de")


def test_a_folder_that_may_not_be_read_is_named(tmp_path, monkeypatch) -> None:
    """It was ignored, and the data set was downloaded."""
    monkeypatch.setenv("HANDLOOM_DATA", str(tmp_path))

    def stat(path: Path, **options: Any) -> Any:
        if path.name == "a.gz":
            raise PermissionError(13, "Permission denied")
        return real(path, **options)

    real = Path.stat
    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(InputError, match=r"a\.gz can't be read: Permission denied\. Check the perm"):
        find_local("a.gz")
    assert find_local("b.gz") is None
