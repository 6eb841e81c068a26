"""The service in a process of its own: a socket, uvicorn, and an end that loses nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from wmrl_gym.integrations.http.app import make_app
from wmrl_gym.integrations.http.guard import is_loopback
from wmrl_gym.integrations.http.service import ScoringService


def listen(host: str, port: int, *, has_token: bool) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        ValueError: if others than this machine could ask without a token.
        OSError: if the address is taken or not this machine's.
    """
    if not has_token and not is_loopback(host):
        raise ValueError(
            f"host is {host}, which other machines can reach, and there is no token: put one into the environment "
            "variable WMRL_SERVE_TOKEN or into a file that token_file names, or serve on 127.0.0.1"
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With its protocol named, or asyncio leaves Nagle's algorithm on, and every answer waits 40 ms for its end.
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(2048)
    except OSError as error:
        raise OSError(f"cannot listen on {host}, port {port}: {error.strerror}. Choose another port or host") from error
    return made


def serve(service: ScoringService, listening: socket.socket, token: str | None, on_ready: Callable[[], None]) -> None:
    """Answer requests until SIGTERM or SIGINT: then what runs is finished, or refused after its time.

    Args:
        service: answers.
        listening: of `listen`.
        token: what callers must give, if anything.
        on_ready: called when requests are taken.
    """
    seconds = service.limits.shutdown_seconds
    config = uvicorn.Config(
        make_app(service, token),
        log_level="warning",
        access_log=False,
        # Longer than the service's own, so that whoever waits is answered.
        timeout_graceful_shutdown=int(seconds) + 5,
        timeout_keep_alive=30,
        server_header=False,
    )
    _Server(config, service, on_ready).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Tells the service of a signal; a second one ends at once."""

    def __init__(self, config: uvicorn.Config, service: ScoringService, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._on_ready = service, on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and say so."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    def handle_exit(self, *_: Any) -> None:
        """Not uvicorn's own, which would raise the signal again before whoever called us has tidied up."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._service.stop()
