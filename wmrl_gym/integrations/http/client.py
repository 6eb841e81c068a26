"""A client of the service: typed answers, one deadline for all tries, and no waiting for what cannot come."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from wmrl_gym.integrations.http.answers import GroupOutcomes, ServiceState, StepDraw, StepScores, Verdict

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

_RETRIED = frozenset({429, 503})
_LONGEST_PAUSE = 10.0


class ProxyError(RuntimeError):
    """The service gave no answer.

    Attributes:
        status: HTTP status of its refusal; None if nothing could be understood, or nothing came.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class GroupAnswers:
    """The answers of one group, to be scored with the others of its step."""

    group: str
    task: str
    answers: Sequence[str]


class ProxyClient:
    """Asks a service (`wmrl serve`). May be used by several threads.

    A request is tried again only after 429, 503 or a lost connection. That is safe: the service counts a question
    once, however often it is asked.

    Args:
        url: address that the service printed, for example "http://127.0.0.1:8080".
        token: the service's token, if it has one.
        deadline: seconds for one answer, all tries together.
        max_response_bytes: longest answer that is read.
        backoff: seconds before the second try; each pause is about twice the one before, at most 10.

    Raises:
        ImportError: without the extra ``serve``.
        ValueError: if the address is none, or holds a user's name.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        deadline: float = 900.0,
        max_response_bytes: int = 67_108_864,
        backoff: float = 0.25,
    ) -> None:
        try:
            import httpx
            import pydantic  # noqa: F401 - reads the answers
        except ImportError as error:
            raise ImportError(
                f"ProxyClient needs httpx and pydantic ({error}): pip install 'wmrl-gym[serve]'"
            ) from error
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query:
            raise ValueError(f"the service's address is {url!r}: give http://host:port, the token apart from it")
        if not deadline > 0 or max_response_bytes < 1 or not backoff > 0:
            raise ValueError(
                f"deadline is {deadline}, max_response_bytes {max_response_bytes}, backoff {backoff}: give more than 0"
            )
        self.url = url.rstrip("/")
        self.deadline, self.max_response_bytes, self.backoff = deadline, max_response_bytes, backoff
        self._http = httpx.Client(
            headers={} if token is None else {"authorization": f"Bearer {token}"},
            trust_env=False,  # the token goes to the service, not through whatever proxy the environment names
            limits=httpx.Limits(max_connections=None),
        )
        self._lost: tuple[type[Exception], ...] = (httpx.TransportError,)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> ProxyClient:
        """The client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def verify(
        self, task: str, answer: str, *, step: int = 0, group: str | None = None, member: int | None = None
    ) -> Verdict:
        """What one trajectory is worth; it is counted thereby.

        Args:
            task: name of the task.
            answer: what the agent handed in.
            step: the trainer's step.
            group: key that the trajectories of a group share; None makes each answer a group of its own.
            member: number within the group; None lets the content name it, so equal answers of a group are one.

        Raises:
            ProxyError: if there is no answer.
        """
        asked = {"task": task, "answer": answer, "step": step, "group": group, "member": member}
        return self._ask(Verdict, "POST", "/v1/verify", asked)

    def open_step(self, step: int, groups: Sequence[str]) -> StepDraw:
        """Declare the groups of the next step, and learn which are anchors.

        Raises:
            ProxyError: if there is no answer.
        """
        return self._ask(StepDraw, "PUT", f"/v1/steps/{step}", {"groups": list(groups)})

    def hand_in(self, step: int, group: str, task: str, answers: Sequence[str]) -> GroupOutcomes:
        """Hand in the answers of one group of the open step, in any order of groups.

        Raises:
            ProxyError: if there is no answer.
        """
        asked = {"group": group, "task": task, "answers": list(answers)}
        return self._ask(GroupOutcomes, "POST", f"/v1/steps/{step}/groups", asked)

    def score_step(self, step: int) -> StepScores:
        """End a step whose groups are all handed in: rewards, weights, advantages.

        Raises:
            ProxyError: if there is no answer.
        """
        return self._ask(StepScores, "POST", f"/v1/steps/{step}/score", None)

    def score(self, step: int, groups: Sequence[GroupAnswers], *, concurrency: int = 16) -> StepScores:
        """A whole step at once: open it, hand in its groups, score it. Asked again, it answers the same.

        Args:
            step: number of the step; `state` tells the next one.
            groups: all groups of the step.
            concurrency: groups that are handed in at the same time.

        Raises:
            ProxyError: if there is no answer.
        """
        self.open_step(step, [item.group for item in groups])
        with ThreadPoolExecutor(max(1, min(concurrency, len(groups)))) as pool:
            list(pool.map(lambda item: self.hand_in(step, item.group, item.task, item.answers), groups))
        return self.score_step(step)

    def state(self) -> ServiceState:
        """Which step is open or next, what it waits for, and the proxy's metrics.

        Raises:
            ProxyError: if there is no answer.
        """
        return self._ask(ServiceState, "GET", "/v1/state", None)

    def _ask(self, kind: type[T], method: str, path: str, asked: Mapping[str, Any] | None) -> T:
        body = None if asked is None else json.dumps(asked, allow_nan=False).encode()
        until = time.monotonic() + self.deadline
        pause, trouble = self.backoff, ""
        while True:
            try:
                status, wait, raw = self._once(method, path, body, until)
            except self._lost as error:
                status, wait, raw, trouble = None, 0.0, b"", f"{type(error).__name__}: {error}"
            if status == 200:
                return self._typed(kind, raw, path)
            if status is not None:
                trouble = f"{status}, {_told(raw)}"
                if status not in _RETRIED:
                    raise ProxyError(f"{self.url}{path} refused: {trouble}", status)
            # A random part, so that clients that were refused together do not come back together.
            rest = max(wait, pause) * random.uniform(1.0, 1.5)
            if time.monotonic() + rest > until:
                raise ProxyError(
                    f"{self.url}{path} gave no answer within {self.deadline:g} seconds; at last: {trouble}", status
                )
            time.sleep(rest)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _once(self, method: str, path: str, body: bytes | None, until: float) -> tuple[int, float, bytes]:
        """Status, seconds that the service wants us to wait, and body."""
        left = max(until - time.monotonic(), 0.001)
        headers = {} if body is None else {"content-type": "application/json"}
        request = self._http.build_request(method, self.url + path, content=body, headers=headers, timeout=left)
        response: httpx.Response = self._http.send(request, stream=True)
        try:
            parts, size = [], 0
            for part in response.iter_bytes():
                size += len(part)
                if size > self.max_response_bytes:
                    raise ProxyError(
                        f"{self.url}{path} answers with more than max_response_bytes={self.max_response_bytes}"
                    )
                if time.monotonic() > until:
                    raise ProxyError(f"{self.url}{path} gave no whole answer within {self.deadline:g} seconds")
                parts.append(part)
        finally:
            response.close()
        wait = response.headers.get("retry-after", "")
        return response.status_code, float(wait) if wait.isdigit() and len(wait) < 6 else 0.0, b"".join(parts)

    def _typed(self, kind: type[T], raw: bytes, path: str) -> T:
        from pydantic import TypeAdapter

        try:
            return TypeAdapter(kind).validate_json(raw, strict=True)
        except ValueError as error:
            raise ProxyError(f"{self.url}{path} does not answer as `wmrl serve` of this version: {error}") from error


def _told(raw: bytes) -> str:
    try:
        return str(json.loads(raw)["detail"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return raw[:200].decode("utf-8", "replace")
