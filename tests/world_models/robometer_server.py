"""A real HTTP server on the loopback interface that speaks the protocol of Robometer's evaluation server.

It reads the multipart form part by part, loads the arrays with NumPy, puts the samples together as
``robometer/evals/eval_server.py`` does, and finds each frame's progress in its pixels: red of the first pixel is the
progress, green the probability of success. So the order of samples, frames and channels, which frames were sent, and
which way up, all show in its answers.
"""

from __future__ import annotations

import email
import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

Samples = list[dict[str, Any]]
Behaviour = Callable[["Handler", Samples], None]


def parse_form(content_type: str, body: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays of the parts whose file name ends in .npy, and the JSON of the others."""
    message = email.message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    assert message.is_multipart() and message.get_content_type() == "multipart/form-data"
    arrays, fields = {}, {}
    for part in message.get_payload():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if (part.get_filename() or "").endswith(".npy"):
            arrays[name] = np.load(io.BytesIO(content), allow_pickle=False)
        else:
            fields[name] = json.loads(content)
    return arrays, fields


def samples_of(arrays: dict[str, np.ndarray], fields: dict[str, Any]) -> Samples:
    samples = []
    for i in range(len(fields)):
        sample = fields[f"sample_{i}"]
        assert sample["sample_type"] == "progress"
        trajectory = sample["trajectory"]
        frames = trajectory["frames"] = arrays[trajectory["frames"]["__numpy_file__"]]
        assert frames.dtype == np.uint8 and list(frames.shape) == trajectory["frames_shape"]
        assert trajectory["metadata"]["subsequence_length"] == len(frames)
        samples.append(trajectory)
    return samples


def judged(samples: Samples) -> dict[str, Any]:
    """Answers as the server's own: grouped by head, one list per sample."""
    stacked = np.stack([sample["frames"] for sample in samples])  # raises if the shapes differ, as the model would
    return {
        "outputs_preference": None,
        "outputs_progress": {"progress_pred": (stacked[:, :, 0, 0, 0] / 255.0).tolist()},
        "outputs_success": {"success_probs": (stacked[:, :, 0, 0, 1] / 255.0).tolist()},
    }


def judge(handler: Handler, samples: Samples) -> None:
    handler.send(judged(samples))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RobometerServer

    def do_GET(self) -> None:
        self.server.gets.append(self.path)
        answers = {
            "/health": {"status": self.server.status, "available_gpus": 1, "total_gpus": 1},
            "/model_info": {"model_path": self.server.model_path, "num_gpus": 1},
        }
        if self.path in answers and answers[self.path].get("model_path", "") is not None:
            self.send(answers[self.path])
        else:
            self.send({"detail": "Not Found"}, 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/evaluate_batch_npy":
            return self.send({"detail": "Not Found"}, 404)
        try:
            arrays, fields = parse_form(self.headers["Content-Type"], body)
            per_prefix = fields.pop("use_frame_steps")
            samples = samples_of(arrays, fields)
            with self.server.lock:
                self.server.batches.append(samples)
                self.server.per_prefix.append(per_prefix)
            self.server.behaviour(self, samples)
        except OSError:
            pass  # the client went away
        except Exception as error:
            self.server.faults.append(error)
            self.send({"detail": "Internal Server Error"}, 500)

    def send(self, payload: Any, status: int = 200) -> None:
        raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class RobometerServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behaviour: Behaviour, port: int = 0, model_path: str | None = "robometer/Robometer-4B") -> None:
        self.behaviour = behaviour
        self.model_path = model_path
        self.status = "healthy"
        self.batches: list[Samples] = []
        self.per_prefix: list[bool] = []
        self.gets: list[str] = []
        self.faults: list[Exception] = []
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def die(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@contextmanager
def serving(
    behaviour: Behaviour = judge, port: int = 0, model_path: str | None = "robometer/Robometer-4B"
) -> Iterator[RobometerServer]:
    server = RobometerServer(behaviour, port, model_path)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield server
    finally:
        server.die()
