"""The process that speaks with a Ray cluster, so that the trainer survives whatever becomes of the cluster.

Ray ends a process that has lost the cluster's head for a minute. That must not be the trainer. So this process holds
the workers: it is told what to execute over a pipe, and answers with what came of it; when the pipe closes, it ends the
workers and itself. What waits, and what is tried again, is decided by `RayExecutor` at the other end.

Started as ``python -m wmrl_gym.execution.ray.driver <descriptor>``. Messages to it: first a `Settings`, then ``(number,
pickled submission)``. Its answers: ``("workers", standing, wanted)``, ``("done", number, pickled outcome)``, ``("lost",
number, reason)``, ``("returned", number)`` if no worker is free, ``("problem", reason)``, and ``("failed", reason)``
before it gives up.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from wmrl_gym.core import DataFolder
from wmrl_gym.execution.ray.data import Package, pack
from wmrl_gym.execution.ray.worker import Answer, Worker

LOOK_SECONDS = 1.0
"""Between two looks at which machines there are; also the pause after a worker that did not come up."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the workers are made of."""

    address: str
    path: tuple[str, ...]
    order: bytes
    folders: tuple[DataFolder, ...]
    max_workers: int | None
    needs: Mapping[str, float]
    """Resources of one worker, by Ray's names: "CPU", "GPU", "memory" and custom ones."""


Events = queue.SimpleQueue[Callable[[], None] | tuple[int, bytes] | None]
"""Things to do, submissions to execute, and at last None."""


@dataclasses.dataclass(eq=False)
class _Seat:
    """A worker and what it is doing."""

    actor: Any
    standing: bool = False
    number: int | None = None
    """Of the submission it executes."""
    node: str | None = None
    """Id of its machine, once it stands."""


class Driver:
    """Holds the workers. Everything happens in one thread, event after event."""

    def __init__(self, settings: Settings, events: Events, answer: Callable[[tuple[Any, ...]], None]) -> None:
        import ray

        self._ray = ray
        self._settings = settings
        self._answer = answer
        self._events = events
        self._seats: list[_Seat] = []
        self._refused: dict[str, str] = {}
        self._nodes: Sequence[Mapping[str, Any]] = ()
        self._wanted = settings.max_workers or 0
        self._package: Package | None = None
        self._not_before = 0.0
        self._told: tuple[int, int] | None = None
        self._own_node = ray.get_runtime_context().get_node_id()

    def serve(self) -> None:
        """Work until the pipe closes.

        Raises:
            ConnectionError: if this machine was lost to the cluster, or all others were refused.
        """
        threading.Thread(target=self._look, daemon=True).start()
        while (event := self._events.get()) is not None:
            if isinstance(event, tuple):
                self._execute(*event)
            else:
                event()
            self._tell()

    def end(self) -> None:
        """End every worker, whatever it is doing."""
        for seat in self._seats:
            self._kill(seat)

    def _look(self) -> None:
        while True:
            with contextlib.suppress(Exception):  # the head may be away for a while
                self._events.put(partial(self._see, self._ray.nodes()))
            time.sleep(LOOK_SECONDS)

    def _see(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        if any(node["NodeID"] == self._own_node and not node["Alive"] for node in nodes):
            raise ConnectionError("the cluster takes the machine of the trainer for dead")
        self._nodes = [node for node in nodes if node["Alive"]]
        alive = {node["NodeID"] for node in self._nodes}
        # Those that execute something hear of it by themselves; the others would each cost a submission an attempt.
        for seat in [seat for seat in self._seats if seat.standing and seat.number is None and seat.node not in alive]:
            self._drop(seat)
        fitting = {node["NodeID"]: workers_that_fit(node["Resources"], self._settings.needs) for node in self._nodes}
        usable = sum(count for node, count in fitting.items() if node not in self._refused)
        self._wanted = self._settings.max_workers or usable
        if self._refused and not usable and not any(seat.standing for seat in self._seats):
            raise ConnectionError("\n".join(self._refused.values()))
        self._fill()

    def _fill(self) -> None:
        surplus = [seat for seat in self._seats if not seat.standing][: max(len(self._seats) - self._wanted, 0)]
        for seat in surplus:
            self._drop(seat)
        while len(self._seats) < self._wanted and time.monotonic() >= self._not_before:
            self._seats.append(seat := _Seat(self._new_actor()))
            self._stand(seat)

    def _new_actor(self) -> Any:
        needs = dict(self._settings.needs)
        options: dict[str, Any] = {"num_cpus": needs.pop("CPU", 0), "num_gpus": needs.pop("GPU", 0)}
        options |= {"memory": needs.pop("memory", None), "resources": needs or None}
        if self._refused:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(self._refused)})"}
        actor = self._ray.remote(Worker).options(
            **options, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD"
        )
        return actor.remote()

    def _stand(self, seat: _Seat, package: Package | None = None) -> None:
        self._when_done(
            seat.actor.stand.remote(self._settings.path, self._settings.order, package), partial(self._stood, seat)
        )

    def _stood(self, seat: _Seat, value: Any, error: BaseException | None) -> None:
        if seat not in self._seats:
            return
        if error is not None:
            self._drop(seat)
            self._not_before = time.monotonic() + LOOK_SECONDS
            self._answer(("problem", f"a worker did not come up: {_first_line(error)}"))
            return
        answer: Answer = value
        if answer.needs_data:
            if self._package is None:
                self._package = pack(self._settings.folders, self._ray.put)
            self._stand(seat, self._package)
        elif answer.problem is not None:
            self._refused[answer.node] = f"machine {answer.host} ({answer.node[:8]}) was refused: {answer.problem}"
            self._answer(("problem", self._refused[answer.node]))
            self._drop(seat)
        else:
            seat.standing, seat.node = True, answer.node

    def _execute(self, number: int, submission: bytes) -> None:
        seat = next((seat for seat in self._seats if seat.standing and seat.number is None), None)
        if seat is None:
            self._answer(("returned", number))
            return
        seat.number = number
        # To the end of the line, so that the machines take turns.
        self._seats.remove(seat)
        self._seats.append(seat)
        self._when_done(seat.actor.run.remote(submission), partial(self._ran, seat, number))

    def _ran(self, seat: _Seat, number: int, value: Any, error: BaseException | None) -> None:
        from ray.exceptions import RayTaskError

        seat.number = None
        if error is None:
            self._answer(("done", number, value))
        else:
            self._answer(("lost", number, _first_line(error)))
        if error is not None and not isinstance(error, RayTaskError):
            # Whatever it may still be doing there, nobody waits for it. Perhaps its machine is lost: others come first.
            self._drop(seat)
            self._seats.sort(key=lambda other: other.node == seat.node)
            self._fill()

    def _when_done(self, reference: Any, then: Callable[[Any, BaseException | None], None]) -> None:
        def done(future: Any) -> None:
            error = future.exception()
            self._events.put(partial(then, None if error is not None else future.result(), error))

        reference.future().add_done_callback(done)

    def _drop(self, seat: _Seat) -> None:
        if seat in self._seats:
            self._seats.remove(seat)
        self._kill(seat)

    def _kill(self, seat: _Seat) -> None:
        with contextlib.suppress(Exception):
            self._ray.kill(seat.actor)

    def _tell(self) -> None:
        now = (sum(seat.standing for seat in self._seats), self._wanted)
        if now != self._told:
            self._told = now
            self._answer(("workers", *now))


def workers_that_fit(resources: Mapping[str, float], needs: Mapping[str, float]) -> int:
    """How many workers a machine of these resources holds."""
    return min((int(resources.get(name, 0.0) / need + 1e-9) for name, need in needs.items()), default=1)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def main() -> None:
    """Serve the pipe whose descriptor is the first argument."""
    import ray

    connection = Connection(int(sys.argv[1]))

    def answer(message: tuple[Any, ...]) -> None:
        with contextlib.suppress(OSError):  # the other side is gone, which the reading thread sees
            connection.send(message)

    driver = None
    begun = threading.Event()
    events: Events = queue.SimpleQueue()

    def read() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                events.put(connection.recv())
        if not begun.is_set():  # Ray may call for a cluster much longer than anybody waits for it
            os._exit(0)
        events.put(None)

    try:
        settings: Settings = connection.recv()
        threading.Thread(target=read, daemon=True).start()
        ray.init(address=settings.address, log_to_driver=False)
        begun.set()
        driver = Driver(settings, events, answer)
        driver.serve()
    except EOFError:
        pass
    except Exception as error:
        answer(("failed", str(error) or type(error).__name__))
    finally:
        if driver is not None:
            driver.end()
        ray.shutdown()
        os._exit(0)


if __name__ == "__main__":
    main()
