"""The web server for the page's files and for the views, whose addresses receive and return JSON."""

import asyncio
import json
import mimetypes
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..errors import InputError
from .guard import MAX_BYTES, Guard
from .packing import to_json
from .session import ANSWERS, APART, Session

POLL = 0.3  # seconds between two reads of the log

mimetypes.add_type("text/javascript", ".js")  # the Windows registry may say otherwise


def make_app(session: Session, token: str, port: Callable[[], int]) -> Guard:
    """Return the explorer as an ASGI app.

    Args:
        token: secret first part of every path; see `guard`.
        port: function that returns the server's port, called when the server runs.
    """

    async def view(request: Request) -> Response:
        try:
            body = json.loads(await request.body() or b"{}")
        except ClientDisconnect:
            return Response(f"a request may have at most {MAX_BYTES:,} bytes\n", 413, media_type="text/plain")
        except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested too deeply
            return _problem(400, "The request is not JSON.")
        view = request.path_params["view"]
        if view not in ANSWERS:
            return _problem(404, "There is no such view.")
        try:
            answer = await run_in_threadpool(session.answer_apart if view in APART else session.answer, view, body)
        except InputError as error:
            return _problem(200, str(error))  # to be read on the page; other states appear in the browser's console
        except Exception as error:  # the page reports an error, the terminal the traceback
            traceback.print_exc(file=sys.stderr)
            return _problem(500, f"An error inside handloom: {type(error).__name__}. The terminal shows more.")
        return Response(await run_in_threadpool(to_json, answer), media_type="application/json")

    async def events(request: Request) -> Response:
        return StreamingResponse(news(session), media_type="text/event-stream")

    routes = [
        Route("/events", events),
        Route("/api/{view}", view, methods=["POST"]),
        Mount("/", StaticFiles(directory=Path(__file__).parent / "static", html=True)),
    ]
    return Guard(Starlette(routes=routes), token, port)


async def news(session: Session) -> AsyncIterator[bytes]:
    """Yield server-sent events: new rows of the run's log, the state of its training, the time of new weights."""
    version, known, model, before = -1, 0, -1, b""
    while True:
        try:
            found = await run_in_threadpool(session.progress, version, known, model)
            version, known, model = found["version"], found["from"] + len(found["rows"]), found["model"]
        except InputError as error:
            found = {"problem": str(error)}
        message = to_json(found)
        if message != before:
            yield b"data: " + message + b"\n\n"
            # The same state without the new rows, for comparison with the next state.
            before = to_json({**found, "from": known, "rows": [], "changed": False})
        await asyncio.sleep(POLL)


def _problem(status: int, text: str) -> Response:
    return Response(to_json({"problem": text}), status, media_type="application/json")
