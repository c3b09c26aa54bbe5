"""Access control, which accepts only small requests with the printed token, from this page in this machine's browser.

The server listens on 127.0.0.1 only. However, pages of other sites in the browser can send requests to this address,
and another site's host name can be changed to point to it (DNS rebinding). So each request must have this host and port
as `Host`, must not have another `Origin`, and must have a path that begins with a secret token.
"""

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BYTES = 64 * 1024  # of a request's body

#: Only content of this server may run, load or be connected to; no page may frame this page or learn its address.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """An ASGI app for HTTP that passes allowed requests to another app, with the token removed from the path.

    Args:
        app: the app that receives the allowed requests.
        token: secret first part of every path.
        port: function without arguments that returns the server's port.
    """

    def __init__(self, app: App, token: str, port: Callable[[], int]):
        self.app, self.token, self.port = app, token.encode(), port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refused(scope)
        if refused:
            await _answer(send, *refused)
            return
        _, _, rest = scope["path"].removeprefix("/").partition("/")
        scope = {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}
        await self.app(scope, _bounded(receive), _with_headers(send))

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """Return None if the request is allowed, else the HTTP status and the reason."""
        headers = dict(scope["headers"])
        hosts = [f"{name}:{self.port()}".encode() for name in ("127.0.0.1", "localhost")]
        if headers.get(b"host") not in hosts:
            return 421, "this server answers to 127.0.0.1 only"
        if b"origin" in headers and headers[b"origin"] not in [b"http://" + host for host in hosts]:
            return 403, "requests from other pages are refused"
        first, slash, _ = scope["path"].removeprefix("/").partition("/")
        if not slash or not secrets.compare_digest(first.encode(), self.token):
            return 404, "open the address that the command printed: it contains a token"
        if scope["method"] == "POST":
            if headers.get(b"content-type", b"").partition(b";")[0].strip() != b"application/json":
                return 415, "send application/json"
        elif scope["method"] not in ("GET", "HEAD"):
            return 405, "use GET or POST"
        return None


def _bounded(receive: Receive) -> Receive:
    """Return `receive` with a limit on the number of bytes, above which the client is treated as disconnected."""
    total = 0

    async def bounded() -> Any:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        return {"type": "http.disconnect"} if total > MAX_BYTES else message

    return bounded


def _with_headers(send: Send) -> Send:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message["headers"], *own]}
        await send(message)

    return sending


async def _answer(send: Send, status: int, reason: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    send = _with_headers(send)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{reason}\n".encode()})
