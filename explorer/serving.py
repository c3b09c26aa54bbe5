"""Run the server on 127.0.0.1 until Ctrl-C, print its address, and open the page in the browser."""

import secrets
import socket
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..train.runs.folder import RunFolder
from ..train.tasks.trained import is_foreign

HOST = "127.0.0.1"


def explore(
    run: Path | None, *, port: int = 0, browser: bool = True, view: str = "", yours: Path | None = None
) -> None:
    """Show a run in the browser until the process is interrupted.

    Args:
        run: folder of a run; None means to train a small model and show its training.
        port: port of the server; 0 means a free port.
        browser: whether to open the page in a browser.
        view: the view to show first, or the view and its state, as in the page's address after the #.
        yours: a learner's course folder, whose attention and beam search are shown next to those of handloom.

    Raises InputError if the run can't be used, the port is taken, or the extra `explorer` isn't installed.
    """
    if run is not None and not is_foreign(run):
        RunFolder.open(run)
    with serving(run, port, yours) as (address, server):
        address += f"#{view}" if view else ""
        print(f"The explorer is at {address}\nDon't share this address. Ctrl-C ends the explorer.", flush=True)
        if run is None:
            print("It trains a small translator first, in a new folder under runs/.", flush=True)
        if browser:
            threading.Timer(0.2, webbrowser.open, [address]).start()
        server.join()


@contextmanager
def serving(run: Path | None, port: int = 0, yours: Path | None = None) -> Iterator[tuple[str, threading.Thread]]:
    """Run the server in a thread during the `with` block, and yield the page's address and the thread.

    Raises InputError as `explore` does.
    """
    try:
        import uvicorn

        from .server import make_app
        from .session import Session
    except ImportError as error:
        raise InputError(
            f"The explorer needs {error.name}, which is not installed: pip install starlette uvicorn."
        ) from None
    session = Session(run, yours)
    listening = _listen(port)
    number, token = listening.getsockname()[1], secrets.token_urlsafe(16)
    app = make_app(session, token)
    quiet: dict[str, Any] = {"log_level": "critical", "access_log": False, "server_header": False}
    server = uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=1, lifespan="off", ws="none", **quiet))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="explorer", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{number}/{token}/", thread
    finally:
        server.should_exit = True
        session.close()
        thread.join()
        listening.close()


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.bind((HOST, port))
        listening.listen(64)
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(f"Port {port} can't be used ({error}). Omit --port to use a free port.") from None
    return listening
