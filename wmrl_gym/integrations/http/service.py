"""The service itself, without HTTP: each question is worked on once, written down, and then answered.

Everything here runs in one event loop. Three things leave it: the world model's calls and the journal's writes go to a
thread each, one after the other; executions go to the executor. Questions that come while one is written are written
together, with one wait for the disk.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from wmrl_gym.configs.serve_schema import ServiceLimits
from wmrl_gym.core import Executor, Outcome, Stateful, Submission, WorldModel, WorldModelError, fingerprint
from wmrl_gym.integrations.http.answers import ServiceState
from wmrl_gym.integrations.http.book import Book
from wmrl_gym.integrations.http.forming import Formed, Forming
from wmrl_gym.integrations.http.journal import Entry, Key
from wmrl_gym.integrations.http.refusals import Busy, Conflict, StillRunning, Unavailable, Unprocessable
from wmrl_gym.integrations.http.watching import Watch
from wmrl_gym.proxy.anchor_execution import unknown_outcome
from wmrl_gym.proxy.prediction import predict_batch

T = TypeVar("T")

MEMORY = "world_model"
"""Under this name the journal keeps what a world model remembers."""


@dataclass(frozen=True)
class _Running:
    digest: str
    task: asyncio.Task[str]


class ScoringService:
    """Answers what trajectories are worth.

    Args:
        forming: reads answers.
        world_model: predicts; None if everything is executed.
        executor: executes anchors. Whoever made it closes it.
        book: the state. It is closed with the service.
        limits: how much is taken on.
        max_consecutive_failures: executions without a score, one after the other, from which on they are refused
            until one comes to a score. A dead executor would silently leave the world model alone.

    Raises:
        ValueError: if something would be neither predicted nor executed.
    """

    def __init__(
        self,
        forming: Forming,
        world_model: WorldModel | None,
        executor: Executor,
        book: Book,
        limits: ServiceLimits | None = None,
        max_consecutive_failures: int = 16,
    ) -> None:
        if world_model is None and book.scoring.proxy.anchors.fraction < 1:
            raise ValueError(
                "there is no world model, and not every group is executed: choose a world model, or proxy=all_executed"
            )
        self.forming, self.world_model, self.executor, self.book = forming, world_model, executor, book
        self.limits = ServiceLimits() if limits is None else limits
        self.max_consecutive_failures = max_consecutive_failures
        self.depth = 0
        """Trajectories under way."""
        self.watch = Watch(lambda: self.depth, lambda: self.book.scoring.proxy.metrics())
        self._running: dict[Key, _Running] = {}
        self._failures = 0
        self._memory: Any = None
        self._loops: list[asyncio.Task[None]] = []
        self._pools: list[ThreadPoolExecutor] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self.stopping = False

    async def start(self) -> None:
        """Begin to take questions. What the world model remembered is given back to it."""
        self._loop = asyncio.get_running_loop()
        self._asker, self._writer, self._reader = (
            ThreadPoolExecutor(1, f"wmrl-{name}") for name in ("ask", "write", "read")
        )
        self._pools = [self._asker, self._writer, self._reader]
        self._memory = await self._loop.run_in_executor(self._reader, self.book.journal.recall, MEMORY)
        if self._memory is not None and isinstance(self.world_model, Stateful):
            self.world_model.load_state_dict(self._memory)
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._to_predict: asyncio.Queue[tuple[Sequence[Submission], asyncio.Future[list[Outcome]]]] = asyncio.Queue()
        self._to_write: asyncio.Queue[tuple[Entry, asyncio.Future[str]]] = asyncio.Queue()
        self._loops = [asyncio.create_task(self._predict_for_ever()), asyncio.create_task(self._write_for_ever())]

    def stop(self) -> None:
        """Refuse what is new, and after ``limits.shutdown_seconds`` what still runs. Safe in a signal handler."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin_to_stop)

    def _begin_to_stop(self) -> None:
        if not self.stopping:
            self.stopping = True
            assert self._loop is not None
            self._loop.call_later(self.limits.shutdown_seconds, self._let_waiting_go)

    def _let_waiting_go(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def close(self) -> None:
        """Give up what runs (it was answered to nobody, so nothing is lost) and close the journal."""
        self.stopping = True
        self._let_waiting_go()
        tasks = [*self._loops, *(running.task for running in self._running.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, self._close_pools)
        self.forming.close()

    def _close_pools(self) -> None:
        self._asker.shutdown(wait=False, cancel_futures=True)  # a call of a world model may take long
        for pool in (self._writer, self._reader):
            pool.shutdown(cancel_futures=True)
        self.book.journal.close()

    # ---- questions ----------------------------------------------------------------------------------------------

    async def verify(self, step: int, group: str | None, member: int | None, task: str, answer: str) -> str:
        """What one trajectory is worth, which is thereby counted: a `Verdict` as JSON."""
        self.forming.check(task)
        digest = fingerprint((task, answer))
        group = digest if group is None else group
        key = Key("verify", step, group, f"={digest}" if member is None else str(member))

        async def work() -> dict[str, Any]:
            is_anchor, propensity = self.book.scoring.proxy.anchors.draw_episode(step, group)
            predicted, executed = await self._outcomes(task, [answer], is_anchor)
            return {
                "member": member,
                "task": task,
                "is_anchor": is_anchor,
                "propensity": propensity,
                "predicted": predicted[0],
                "executed": executed[0],
            }

        return await self._once(key, digest, 1, work)

    async def open_step(self, step: int, groups: Sequence[str]) -> str:
        """Declare the groups of the next step, and draw its anchors: a `StepDraw` as JSON."""
        if len(groups) > self.limits.groups:
            raise Unprocessable(
                f"{len(groups)} groups are more than limits.groups={self.limits.groups} of this service"
            )
        if len(set(groups)) < len(groups):
            raise Unprocessable("two groups have the same key: make them unique, for example '3:titanic'")

        async def work() -> dict[str, Any]:
            return {"groups": list(groups)}

        return await self._once(Key("open", step), fingerprint(list(groups)), 0, work)

    async def hand_in(self, step: int, group: str, task: str, answers: Sequence[str]) -> str:
        """Predict the answers of a group, and execute them if it is an anchor: `GroupOutcomes` as JSON."""
        if len(answers) > self.limits.members:
            raise Unprocessable(
                f"{len(answers)} answers are more than limits.members={self.limits.members} of this service"
            )
        self.forming.check(task)

        async def work() -> dict[str, Any]:
            is_anchor = self.book.is_anchor(step, group)
            predicted, executed = await self._outcomes(task, answers, is_anchor)
            return {"task": task, "predicted": predicted, "executed": executed}

        return await self._once(Key("group", step, group), fingerprint((task, list(answers))), len(answers), work)

    async def score_step(self, step: int) -> str:
        """Learn from a whole step, and begin the next: `StepScores` as JSON."""

        async def work() -> dict[str, Any]:
            return {}

        return await self._once(Key("score", step), "", 0, work)

    async def state(self) -> ServiceState:
        """Where the service stands."""
        return await self._in(self._writer, self.book.state)

    # ---- each once ----------------------------------------------------------------------------------------------

    async def _once(self, key: Key, digest: str, size: int, work: Callable[[], Awaitable[Mapping[str, Any]]]) -> str:
        """The answer under a key: the one that was given, that of work under way, or that of new work.

        Raises:
            Refusal: if there is none.
        """
        if self.stopping:
            raise Unavailable("the service stops: ask again when it is back")
        running = self._running.get(key)
        if running is None:
            if self.depth + size > self.limits.queue:
                raise Busy(
                    f"{self.depth} trajectories are under way, and limits.queue is {self.limits.queue}: ask later"
                )
            self.depth += size
            running = _Running(digest, asyncio.create_task(self._answer(key, digest, work)))
            self._running[key] = running
            running.task.add_done_callback(lambda task: self._finished(key, size, task))
        elif running.digest != digest:
            raise _other_content(key)
        waited_for: set[asyncio.Future[Any]] = {running.task, self._stopped}
        await asyncio.wait(
            waited_for,
            timeout=self.limits.request_seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if running.task.done() and not running.task.cancelled():
            return running.task.result()
        if self.stopping:
            raise Unavailable("the service stops, and this was not finished or counted: ask again when it is back")
        raise StillRunning(f"not done after {self.limits.request_seconds:g} seconds: ask the same again to wait for it")

    def _finished(self, key: Key, size: int, task: asyncio.Task[str]) -> None:
        self.depth -= size
        del self._running[key]
        if not task.cancelled():
            task.exception()  # looked at, for nobody may be waiting any more

    async def _answer(self, key: Key, digest: str, work: Callable[[], Awaitable[Mapping[str, Any]]]) -> str:
        found = await self._in(self._reader, self.book.journal.find, key)
        if found is not None:
            if found[0] != digest:
                raise _other_content(key)
            return found[1]
        entry = Entry(key, digest, await work(), "")
        written: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._to_write.put_nowait((entry, written))
        return await written

    async def _write_for_ever(self) -> None:
        while True:
            batch = [await self._to_write.get()]
            while not self._to_write.empty():
                batch.append(self._to_write.get_nowait())
            about = {} if self._memory is None else {MEMORY: self._memory}
            results: Sequence[str | Exception]
            try:
                results = await self._in(self._writer, self.book.write, [entry for entry, _ in batch], about)
            except Exception as error:
                results = [error] * len(batch)
            for (_, future), result in zip(batch, results, strict=True):
                _resolve(future, result)

    # ---- outcomes -----------------------------------------------------------------------------------------------

    async def _outcomes(
        self, task: str, answers: Sequence[str], is_anchor: bool
    ) -> tuple[list[dict[str, Any] | None], list[dict[str, Any] | None]]:
        """Predicted and executed outcomes of some answers, as plain data; None where there is to be none."""
        formed = [await asyncio.to_thread(self.forming.form, task, answer) for answer in answers]
        submissions = [item.submission for item in formed if item.submission is not None]
        predicted: list[Outcome | None] = [None] * len(submissions)
        executed: list[Outcome | None] = [None] * len(submissions)
        if self.world_model is not None and submissions:
            # Before anything is executed: a world model that is down must not cost executions.
            predicted = [*await self._predict(submissions)]
        if is_anchor:
            executed = [*await asyncio.gather(*map(self._execute, submissions))]
            self._refuse_if_execution_is_dead()
        return self._spread(formed, predicted, self.world_model is not None), self._spread(formed, executed, is_anchor)

    @staticmethod
    def _spread(
        formed: Sequence[Formed], scored: Sequence[Outcome | None], is_wanted: bool
    ) -> list[dict[str, Any] | None]:
        """One outcome for each answer; what the environment judged by itself is known to both streams."""
        outcomes = iter(scored)
        told = [next(outcomes) if item.submission is not None else item.judged for item in formed]
        return [_plain(outcome) if outcome is not None and is_wanted else None for outcome in told]

    async def _predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        future: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        self._to_predict.put_nowait((submissions, future))
        return await future

    async def _predict_for_ever(self) -> None:
        while True:
            batch = [await self._to_predict.get()]
            while not self._to_predict.empty() and sum(len(some) for some, _ in batch) < self.limits.prediction_batch:
                batch.append(self._to_predict.get_nowait())
            try:
                outcomes = await self._in(self._asker, self._ask, [item for some, _ in batch for item in some])
            except Exception as error:
                for _, future in batch:
                    _resolve(future, Unavailable(str(error)) if isinstance(error, WorldModelError) else error)
                continue
            for outcome in outcomes:
                self.watch.predictions.labels(str(outcome.status)).inc()
                if outcome.score is None:
                    self.watch.unknown.labels("prediction").inc()
            rest = iter(outcomes)
            for some, future in batch:
                _resolve(future, [next(rest) for _ in some])

    def _ask(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """Runs in the thread of the world model."""
        assert self.world_model is not None
        outcomes = predict_batch(self.world_model, submissions)
        if isinstance(self.world_model, Stateful):
            self._memory = _plain_memory(self.world_model)
        return outcomes

    async def _execute(self, submission: Submission) -> Outcome:
        try:
            outcome = await asyncio.wrap_future(await asyncio.to_thread(self.executor.submit, submission))
            if not isinstance(outcome, Outcome):
                raise TypeError(f"the executor returned a {type(outcome).__name__}, not a wmrl_gym.Outcome")
        except Exception as error:
            outcome = unknown_outcome(error)
        self.watch.executions.labels(str(outcome.status)).inc()
        self.watch.execution_seconds.observe(outcome.seconds)
        if outcome.score is None:
            self.watch.unknown.labels("execution").inc()
            self._failures += 1
            self._last_failure = str(outcome.details.get("error", outcome.feedback))
        else:
            self._failures = 0
        return outcome

    def _refuse_if_execution_is_dead(self) -> None:
        if self._failures >= self.max_consecutive_failures:
            raise Unavailable(
                f"{self._failures} executions in a row gave no score, the last one: {self._last_failure}. Without "
                "executions there are no anchors. Mend the executor (`wmrl doctor` probes its machine) and ask again"
            )

    async def _in(self, pool: ThreadPoolExecutor, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, function, *arguments)


def _other_content(key: Key) -> Conflict:
    where = f"step {key.step}" + (f", group {key.group!r}" if key.group else "")
    return Conflict(
        f"{where}: the same key was used with other content. A key names one answer for good: choose another"
    )


def _plain(outcome: Outcome) -> dict[str, Any]:
    """What is kept and told of an outcome."""
    return {
        "score": None if outcome.score is None else float(outcome.score),
        "status": _unicode(str(outcome.status)),
        "feedback": _unicode(str(outcome.feedback)),
        "seconds": float(outcome.seconds),
    }


def _unicode(text: str) -> str:
    """Without halves of characters, which a script may print and many readers of JSON refuse."""
    return text.encode("utf-8", "backslashreplace").decode()


def _plain_memory(model: Stateful) -> Any:
    """A world model's state, if it is small plain data; weights and the like are not kept."""
    try:
        return json.loads(json.dumps(model.state_dict()))
    except (TypeError, ValueError):
        return None


def _resolve(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():  # whoever waited was cancelled
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
