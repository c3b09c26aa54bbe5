"""The web server for the page's files and for the views, whose addresses receive and return JSON.

The server listens on 127.0.0.1 only. However, pages of other sites in the browser can send requests to this address,
and another site's host name can be changed to point to it (DNS rebinding). So each request must have this host as
`Host` and a path that begins with a secret token.
"""

import asyncio
import json
import mimetypes
import sys
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import InputError
from .exporting import POLICY
from .packing import to_json
from .session import ANSWERS, Session

POLL = 0.3  # seconds between two reads of the log
LARGEST = 1 << 20  # bytes of a request
#: Only content of this server may run, load or be connected to; no page may frame this page or learn its address.
HEADERS = {
    "content-security-policy": f"{POLICY}; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

mimetypes.add_type("text/javascript", ".js")  # the Windows registry may say otherwise


class WithHeaders:
    """Middleware that adds HEADERS to each response."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        await self.app(scope, receive, sending)


def make_app(session: Session, token: str) -> Starlette:
    """Return the explorer as an ASGI app. `token` is the secret first part of every path."""

    # Of each view one request at a time: waiting requests hold no thread, which the page's files need.
    turns = {view: asyncio.Lock() for view in ANSWERS}

    async def view(request: Request) -> Response:
        sent = b""
        async for part in request.stream():
            sent += part
            if len(sent) > LARGEST:
                return _problem(413, f"The request has more than {LARGEST:,} bytes.")
        try:
            body = json.loads(sent or b"{}")
        except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested too deeply
            return _problem(400, "The request is not JSON.")
        view = request.path_params["view"]
        if view not in ANSWERS:
            return _problem(404, "There is no such view.")
        try:
            async with turns[view]:
                answer = await run_in_threadpool(session.answer, view, body)
        except InputError as error:
            return _problem(200, str(error))  # to be read on the page; other states appear in the browser's console
        except Exception as error:  # the page reports an error, the terminal the traceback
            traceback.print_exc(file=sys.stderr)
            return _problem(500, f"An error inside handloom: {type(error).__name__}. The terminal shows more.")
        return Response(await run_in_threadpool(to_json, answer), media_type="application/json")

    async def events(request: Request) -> Response:
        return StreamingResponse(news(session), media_type="text/event-stream")

    async def refused(request: Request, error: Exception) -> Response:
        return PlainTextResponse("Open the address that the command printed: it contains a token.\n", 404)

    routes = [
        Route("/events", events),
        Route("/api/{view}", view, methods=["POST"]),
        Mount("/", StaticFiles(directory=Path(__file__).parent / "static", html=True)),
    ]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    return Starlette(
        routes=[Mount(f"/{token}", routes=routes)],
        middleware=[Middleware(WithHeaders), hosts],
        exception_handlers={404: refused},
    )


async def news(session: Session) -> AsyncIterator[bytes]:
    """Yield server-sent events: the rows of the run's log, the state of its training, the time of its weights.

    The first `first` rows are those of the events before, and are not sent again.
    """
    before: dict[str, Any] = {}
    while True:
        try:
            found = await run_in_threadpool(session.progress)
        except InputError as error:
            found = {"problem": str(error)}
        if found != before:
            known, rows = before.get("rows", []), found.get("rows", [])
            first = len(known) if known == rows[: len(known)] else 0
            yield b"data: " + to_json(found | {"first": first, "rows": rows[first:]}) + b"\n\n"
            before = found
        await asyncio.sleep(POLL)


def _problem(status: int, text: str) -> Response:
    return Response(to_json({"problem": text}), status, media_type="application/json")
