"""Robometer behind its own evaluation server, spoken to over HTTP."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import urlsplit

from wmrl_gym.core import WorldModelError
from wmrl_gym.world_models.robometer.clip import Clip, same_shape_batches
from wmrl_gym.world_models.robometer.multipart import decode, encode
from wmrl_gym.world_models.robometer.reading import ProtocolError, Reading

T = TypeVar("T")

LONGEST_WAIT = 30.0
"""Most seconds between two tries."""


class HTTPTransport:
    """Asks a server started with ``robometer/evals/eval_server.py``. Nothing is installed beside us.

    Clips of one request have the same shape, because the server stacks them. A fault that may pass (no connection, no
    answer in time, a status of 5xx, an answer cut off) is tried again; one that stays raises. The one exception: if the
    server fails on a batch of several clips and then answers some of them alone, the others are to blame, and their
    readings say so.

    Args:
        url: where the server is, for example "http://127.0.0.1:8000".
        timeout: seconds that one request may take in all, however slowly the server talks.
        connect_timeout: seconds within which a connection must stand.
        retries: further tries after the first one.
        backoff: seconds before the second try, doubled with each one.
        batch_size: clips in one request.
        concurrency: requests under way at the same time; as many as the server has GPUs.
        per_prefix: let the server judge every frame by the frames before it alone, four of them, instead of all in one
            pass. Costs a pass for each frame.

    Raises:
        ValueError: for settings that make no sense.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        timeout: float = 120.0,
        connect_timeout: float = 10.0,
        retries: int = 4,
        backoff: float = 0.5,
        batch_size: int = 8,
        concurrency: int = 1,
        per_prefix: bool = False,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ValueError("url must read http://host:port or https://host:port, without a user's name in it")
        if not (timeout > 0 and connect_timeout > 0 and retries >= 0 and backoff >= 0):
            raise ValueError(
                f"timeout={timeout}, connect_timeout={connect_timeout}, retries={retries}, backoff={backoff}: "
                "give positive time-outs and at least 0 retries"
            )
        if batch_size < 1 or concurrency < 1:
            raise ValueError(f"batch_size={batch_size}, concurrency={concurrency}: give at least 1 of each")
        self.url = url.rstrip("/")
        self.timeout, self.connect_timeout = timeout, connect_timeout
        self.retries, self.backoff = retries, backoff
        self.batch_size, self.concurrency, self.per_prefix = batch_size, concurrency, per_prefix
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        self._secure = parts.scheme == "https"
        self._provenance: dict[str, Any] | None = None

    def score(self, clips: Sequence[Clip]) -> list[Reading]:
        """One reading per clip, in order.

        Raises:
            WorldModelError: if the server cannot be reached, fails for good, or does not speak the protocol.
        """
        batches = same_shape_batches(clips, self.batch_size)
        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="robometer") as threads:
            answers = list(threads.map(lambda batch: self._score_batch([clips[i] for i in batch]), batches))
        readings: dict[int, Reading] = {}
        for batch, answer in zip(batches, answers, strict=True):
            readings.update(zip(batch, answer, strict=True))
        return [readings[i] for i in range(len(clips))]

    def health(self) -> dict[str, Any]:
        """What the server says of itself, for example its free GPUs. Asked once, without retries.

        Raises:
            WorldModelError: if it cannot be reached or is not well.
        """
        said = self._insisting("GET", "/health", json.loads, tries=1)
        if not isinstance(said, dict) or said.get("status") != "healthy":
            raise WorldModelError(f"Robometer at {self.url} is not well: /health says {str(said)[:200]}")
        return said

    def provenance(self) -> dict[str, Any]:
        """Which model answers: "url", and "model", the path that ``/model_info`` names; None if it names none.

        Asked again after a fault, for the server may have been started anew with another model.
        """
        if self._provenance is None:
            try:
                info = self._insisting("GET", "/model_info", json.loads)
            except _Refused:
                info = None
            model = info.get("model_path") if isinstance(info, dict) else None
            self._provenance = {"url": self.url, "model": None if model is None else str(model)}
        return dict(self._provenance)

    def close(self) -> None:
        """Nothing is held between calls."""

    def _score_batch(self, clips: Sequence[Clip]) -> list[Reading]:
        try:
            return self._post(clips)
        except _Failed as failure:
            if len(clips) == 1:
                raise
            readings = [self._alone(clip) for clip in clips]
            if all(reading is None for reading in readings):
                raise
            problem = f"the server failed on this clip, and not on others: {failure.__cause__}"
            return [reading or Reading(None, problem=problem) for reading in readings]

    def _alone(self, clip: Clip) -> Reading | None:
        try:
            return self._post([clip], tries=1)[0]
        except _Failed:
            return None

    def _post(self, clips: Sequence[Clip], tries: int | None = None) -> list[Reading]:
        body, content_type = encode(clips, self.per_prefix)
        headers = {"Content-Type": content_type}
        return self._insisting(
            "POST", "/evaluate_batch_npy", lambda raw: decode(raw, clips), body, headers, tries=tries
        )

    def _insisting(
        self,
        method: str,
        path: str,
        read: Callable[[bytes], T],
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        tries: int | None = None,
    ) -> T:
        """Request until it succeeds, is refused, or the tries are used up."""
        tries = self.retries + 1 if tries is None else tries
        fault: Exception | None = None
        for attempt in range(tries):
            if attempt:
                time.sleep(min(LONGEST_WAIT, self.backoff * 2 ** (attempt - 1)))
            try:
                return read(self._request(method, path, body, headers or {}))
            except ProtocolError as error:
                raise WorldModelError(f"{self.url}{path} does not answer as Robometer's server: {error}") from error
            except _BadStatus as error:
                if not error.may_pass:
                    raise _Refused(f"Robometer at {self.url}{path} refused the request: {error}") from error
                fault = error
            except ValueError as error:  # json's and Unicode's errors are of this kind
                fault = ValueError(f"the answer is no JSON ({error})")
            except (OSError, http.client.HTTPException) as error:
                fault = error
            self._provenance = None
        kind = _Failed if isinstance(fault, _BadStatus) else WorldModelError
        raise kind(
            f"Robometer at {self.url}{path} gave no answer in {tries} tries; the last one: "
            f"{type(fault).__name__.lstrip('_')}: {fault}\n"
            "  Start it again (robometer/evals/eval_server.py) and resume the run: no score was made up."
        ) from fault

    def _request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        """The body of one answer.

        Raises:
            OSError: without a connection, or without a whole answer in time.
            _BadStatus: if the server says that it could not, or would not.
        """
        deadline = time.monotonic() + self.timeout
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=min(self.connect_timeout, self.timeout))
        try:
            connection.connect()
            socket = connection.sock  # kept, because the connection lets go of it once it has the headers
            socket.settimeout(self._left(deadline))
            connection.request(method, self._path + path, body, {**headers, "Connection": "close"})
            response = connection.getresponse()
            pieces = []
            while piece := response.read1(1 << 16):
                pieces.append(piece)
                socket.settimeout(self._left(deadline))
            raw = b"".join(pieces)
            if response.status >= 300:
                raise _BadStatus(response.status, raw)
            if response.length:
                raise http.client.IncompleteRead(raw, response.length)
            return raw
        finally:
            connection.close()

    def _left(self, deadline: float) -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no whole answer within {self.timeout:g} seconds")
        return left


class _BadStatus(Exception):
    """An answer that is none."""

    def __init__(self, status: int, raw: bytes) -> None:
        super().__init__(f"status {status}: {raw[:300].decode('utf-8', 'replace')}")
        self.may_pass = status >= 500 or status in (408, 425, 429)


class _Refused(WorldModelError):
    """The server says that the request is wrong."""


class _Failed(WorldModelError):
    """The server answers, and says that it failed, after all tries."""
