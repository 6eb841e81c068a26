"""What stands before the application: who may ask, how much at a time, how large and how slowly; and the counting."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from wmrl_gym.configs.serve_schema import ServiceLimits
from wmrl_gym.integrations.http.watching import Watch

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = frozenset({"/healthz"})
"""Asked for without a token, and answered however busy the service is."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    name = host.strip("[]")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Guard:
    """ASGI middleware around the application.

    Args:
        app: the application.
        token: what callers must give; None asks for none, and then takes only requests that name a loopback host, so
            that no web page can reach the service through a name of its own.
        limits: how much is taken.
        watch: counts.
    """

    def __init__(self, app: App, *, token: str | None, limits: ServiceLimits, watch: Watch) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._limits = limits
        self._watch = watch
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or let it through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, code = time.perf_counter(), 500

        async def counted_send(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        self._open += 1
        try:
            await self._guarded(scope, receive, counted_send)
        finally:
            self._open -= 1
            endpoint = getattr(scope.get("route"), "path", "other")
            self._watch.requests.labels(endpoint, str(code)).inc()
            self._watch.request_seconds.labels(endpoint).observe(time.perf_counter() - started)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        if not self._may_ask(headers):
            detail = "give the service's token: Authorization: Bearer <token>"
            await _refuse(send, 401, "unauthorized", detail, [(b"www-authenticate", b"Bearer")])
            return
        if self._open > self._limits.requests:
            detail = f"{self._open - 1} requests are open, and limits.requests is {self._limits.requests}: ask later"
            await _refuse(send, 429, "busy", detail, [(b"retry-after", b"1")])
            return
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body = await self._body(headers, receive)
        except TimeoutError:
            await _refuse(send, 408, "too_slow", f"the request did not arrive in {self._limits.body_seconds:g} seconds")
            return
        if body is None:
            detail = f"the request is larger than limits.body_bytes={self._limits.body_bytes} of this service"
            await _refuse(send, 413, "too_large", detail)
            return
        await self._app(scope, _replayed(body, receive), send)

    def _may_ask(self, headers: dict[bytes, bytes]) -> bool:
        if self._token is None:
            host = headers.get(b"host", b"").decode("latin-1")
            return is_loopback(host if host.endswith("]") else host.rpartition(":")[0] or host)
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
        """The whole body, or None if it is too large."""
        declared = headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared[:20]) > self._limits.body_bytes:
            return None
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b""  # nobody is there to be answered
            part = message.get("body", b"")
            size += len(part)
            if size > self._limits.body_bytes:
                return None
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """`receive` that begins with a body that was read."""
    is_told = False

    async def replay() -> Message:
        nonlocal is_told
        if is_told:
            return await receive()
        is_told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _refuse(
    send: Send, status: int, error: str, detail: str, extra: list[tuple[bytes, bytes]] | None = None
) -> None:
    body = json.dumps({"error": error, "detail": detail}).encode()
    # What was not read of the request is still in the connection.
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *(extra or [])]})
    await send({"type": "http.response.body", "body": body})
