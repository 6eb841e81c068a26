"""A real HTTP server on the loopback interface that answers chat completions, or misbehaves as told.

Run as a program it serves until it is killed, and prints its port first.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Handler", dict[str, Any]], None]


def completion(text: Any, **changes: Any) -> dict[str, Any]:
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 20,
            "completion_tokens": 5,
            "total_tokens": 25,
            "prompt_tokens_details": {"cached_tokens": 16},
        },
    } | changes


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ChatServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append(body)
            self.server.running += 1
            self.server.most_running = max(self.server.most_running, self.server.running)
        try:
            self.server.behaviour(self, body)
        except OSError:
            pass  # the client went away
        finally:
            with self.server.lock:
                self.server.running -= 1

    def send(self, payload: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def echo(handler: Handler, body: dict[str, Any]) -> None:
    """Answers with the last message."""
    handler.send(completion(body["messages"][-1]["content"]))


class ChatServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, behaviour: Behaviour, port: int = 0) -> None:
        self.behaviour = behaviour
        self.requests: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.running = self.most_running = 0
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@contextmanager
def serving(behaviour: Behaviour = echo) -> Iterator[ChatServer]:
    server = ChatServer(behaviour)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def slow_echo(handler: Handler, body: dict[str, Any]) -> None:
    time.sleep(0.2)
    echo(handler, body)


if __name__ == "__main__":
    program = ChatServer(slow_echo, int(sys.argv[1]))
    print(program.server_address[1], flush=True)
    program.serve_forever()
