"""The nouns of the library: what is handed in, what comes back, and who does which part of it.

Everything imports this module and it imports nothing of ours. It knows neither torch nor files, so that an
environment, an executor or a world model written by somebody else needs nothing more than these few types.

The seam is ``submit -> execute -> advance``: an `ExpensiveRewardEnv` cuts its step in three, and a `WorldModel`
replaces the middle word (the expensive one) and nothing else.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, SupportsFloat, TypeVar, runtime_checkable

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")

Source = Literal["execution", "world_model", "environment"]


def fingerprint(value: Any) -> str:
    """Hex SHA-256 of plain data: equal content gives equal digests in every process and on every machine.

    Accepts None, bool, int, float, str, bytes, NumPy arrays, dataclasses, and sequences and mappings of these.

    Raises:
        TypeError: for anything else, because a digest of a ``repr`` would not be stable.
    """
    digest = hashlib.sha256()
    for part in _canonical_parts(value):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _canonical_parts(value: Any) -> Iterator[bytes]:
    if value is None or isinstance(value, bool | int | float | str):
        yield type(value).__name__.encode()
        yield (float.hex(value) if isinstance(value, float) else str(value)).encode("utf-8", "surrogatepass")
    elif isinstance(value, bytes):
        yield b"bytes"
        yield value
    elif isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        yield f"array {array.dtype.str} {array.shape}".encode()
        yield np.ascontiguousarray(array).tobytes()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield f"dataclass {type(value).__qualname__}".encode()
        for field in dataclasses.fields(value):
            yield field.name.encode()
            yield from _canonical_parts(getattr(value, field.name))
    elif isinstance(value, Mapping):
        yield f"mapping {len(value)}".encode()
        for key in sorted(value, key=str):
            yield from _canonical_parts(key)
            yield from _canonical_parts(value[key])
    elif isinstance(value, Sequence):
        yield f"sequence {len(value)}".encode()
        for item in value:
            yield from _canonical_parts(item)
    else:
        raise TypeError(f"cannot fingerprint a {type(value).__name__}: use plain data, arrays or dataclasses")


@dataclasses.dataclass(frozen=True)
class Submission:
    """What an agent hands in to be scored.

    It travels to world models and to other machines, so it is frozen, picklable and addressed by its content, and it
    never holds a private answer.
    """

    task_id: str
    """Which task this answers, for example a competition's name."""

    content: Any
    """The thing itself: a script, a list of frames; plain data or arrays."""

    context: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The *public* facts a world model may read, for example the task's overview."""

    @cached_property
    def key(self) -> str:
        """Content address: hex SHA-256 of task, content and context."""
        return fingerprint((self.task_id, self.content, self.context))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What executing or predicting a submission yields.

    Raises:
        ValueError: if the score is NaN or infinite. An unknown score is None, never a number that stands for one.
    """

    score: float | None
    """Higher is better. None means unknown (a fault of the infrastructure, a check that abstained): it is excluded
    from every statistic, never counted as 0."""

    status: str
    """One word for what happened, for example "valid", "runtime_error", "timeout", "unknown"."""

    feedback: str = ""
    """What the agent observes next."""

    source: Source = "execution"
    """Who says so: the truth, a prediction, or the environment itself where neither was needed."""

    seconds: float = 0.0
    """Wall-clock seconds it took."""

    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Anything else worth a record: verdicts check by check, exception class, percentile."""

    def __post_init__(self) -> None:
        if self.score is not None and not math.isfinite(self.score):
            raise ValueError(f"Outcome.score is {self.score}: give a finite number, or None when it is unknown")


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number by which a domain values what was handed in."""

    name: str
    """A key of `Outcome.details`. Where an outcome has no such key, or None there, its score takes the place."""
    is_share: bool = False
    """Whether it is a share of 1, and so written as a percentage."""
    is_graded: bool = False
    """Whether it has values between failure and success: then episodes that happen to be all 0 or 1 are no successes
    or failures yet."""


SCORE = Measure("score")
"""What is reported where a domain names no measure of its own."""


@dataclasses.dataclass(frozen=True)
class DataFolder:
    """A folder outside the code that executing reads, so that it can be brought to another machine."""

    argument: str
    """The environment's argument that takes the folder."""
    root: Path
    """Where it lies here."""
    parts: tuple[str, ...]
    """What of it is needed, as paths below it: files, or folders with all that is in them. One that is missing is left
    out."""


class ExpensiveRewardEnv(gym.Env[ObsType, ActType], ABC):
    """A Gymnasium environment whose transitions are cheap and whose score is not.

    A new domain writes `reset` and the three methods below. Used as a plain Gymnasium environment, its `step` is the
    three in a row and so returns the truth. A trainer calls them apart and decides which submissions are executed.
    """

    measures: ClassVar[tuple[Measure, ...]] = (SCORE,)
    """By what an episode is valued and reported; the first is the usual one."""

    success_status: ClassVar[str | None] = None
    """Status of an outcome that achieved something. Outcomes of any other status are then worth nothing, whatever their
    score says, and the share of episodes that reached this status is reported. None: every outcome counts."""

    executes_anywhere: ClassVar[bool] = True
    """Whether `execute` gives the same outcome in another process; if not, executors on other machines are refused."""

    def prepare(self, action: ActType) -> None:
        """Begin, without waiting, what `submit` of this action will need. Does nothing unless overridden.

        A vector environment calls it for all episodes before it submits the first action, so that environments that
        simulate in other processes do so at the same time. `submit` must also work without it.
        """

    @abstractmethod
    def submit(self, action: ActType) -> Submission | None:
        """Take an action; return what has to be scored, or None if this action asks for no score.

        Cheap where transitions are. A domain whose episode cannot go on without being simulated does that here (and
        begins it in `prepare`); `execute` then gives the verdict, and its seconds are those of the simulation.
        """

    @abstractmethod
    def execute(self, submission: Submission) -> Outcome:
        """Find the true outcome. Expensive. Must not change the environment: it may run elsewhere, or never."""

    @abstractmethod
    def advance(self, outcome: Outcome | None) -> tuple[ObsType, SupportsFloat, bool, bool, dict[str, Any]]:
        """Move on, given the outcome of the last submission (None if there was none). Cheap.

        Returns Gymnasium's (observation, reward, terminated, truncated, info). An unknown score gives the reward NaN.
        If the environment scored the action by itself, ``info["outcome"]`` is that `Outcome`. If the action was a chunk
        of several, ``info["actions_used"]`` is how many of them were taken.
        """

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, dict[str, Any]]:
        """Submit, execute, advance."""
        submission = self.submit(action)
        return self.advance(None if submission is None else self.execute(submission))

    def preflight(self) -> None:
        """Find out whether `execute` can work on this machine; called once, before anything is executed.

        Raises:
            Exception: if it cannot, with the remedy. Does nothing unless overridden.
        """

    @property
    def environment_key(self) -> str | None:
        """What beside a submission decides its outcome, for a cache of outcomes; None (the default) forbids caching."""
        return None

    def data_digests(self) -> Mapping[str, str]:
        """Digest of each task's data, so that an evaluation goes on only with the data it was begun with.

        Empty (the default) where a task has no data outside the code.
        """
        return {}

    def data_folders(self) -> Sequence[DataFolder]:
        """Which folders `execute` reads, so that an executor can bring them to a machine where they are not.

        There the environment is made with the brought folder in the place of the argument, and its `data_digests` must
        be the same. Empty (the default) where a task has no data outside the code, or every machine has to have it.
        """
        return ()

    @classmethod
    def measure(cls, name: str) -> Measure:
        """The measure of that name: one of `measures`, or "score", which every outcome has.

        Raises:
            ValueError: for another name. No outcome would have it, and the score would take its place unsaid.
        """
        known = {measure.name: measure for measure in (SCORE, *cls.measures)}
        if name not in known:
            raise ValueError(
                f"{cls.__name__} has no measure '{name}': choose {' or '.join(sorted(known))}\n"
                f"  for a value of your own that stands in Outcome.details, name it in {cls.__name__}.measures."
            )
        return known[name]

    def episode_score(self, scores: Sequence[float | None]) -> float | None:
        """Score of a whole episode from the scores of its submissions: the best of them.

        One unknown score makes the best one unknown. Override for a domain that counts otherwise.
        """
        if not scores or any(score is None for score in scores):
            return None
        return max(score for score in scores if score is not None)


@runtime_checkable
class Executor(Protocol):
    """Runs submissions for real, in the manner of `concurrent.futures`."""

    @property
    def capacity(self) -> int:
        """How many submissions run at the same time."""
        ...

    def submit(self, submission: Submission) -> Future[Outcome]:
        """Queue a submission. A fault of the infrastructure is an `Outcome` with ``score=None``."""
        ...

    def close(self) -> None:
        """Stop what runs and free what is held."""
        ...


@runtime_checkable
class WorldModel(Protocol):
    """Predicts what execution would return.

    One that remembers something between predictions is also `Stateful`; one with numbers to watch is `Watched`.
    """

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """One outcome per submission, in order. A bad item yields ``score=None``; it never raises for one item."""
        ...


@runtime_checkable
class Stateful(Protocol):
    """Something with a memory that checkpoints hold."""

    def state_dict(self) -> dict[str, Any]:
        """What to restore it from."""
        ...

    def load_state_dict(self, state: Mapping[str, Any], /) -> Any:
        """Restore what `state_dict` gave."""
        ...


@runtime_checkable
class Watched(Protocol):
    """Something with numbers to watch, asked for once a step."""

    def metrics(self) -> dict[str, float | None]:
        """Numbers by name; unknown is None."""
        ...


class WorldModelError(RuntimeError):
    """A world model failed as a whole (it raised, or answered with the wrong number of outcomes).

    A dead scorer stops the run: training on made-up scores would be worse than not training.
    """


class ExecutorError(RuntimeError):
    """Execution failed so persistently that going on would silently turn the run into world-model-only training."""


@dataclasses.dataclass(frozen=True, eq=False)
class Decision:
    """One action of a policy, with all that is needed to learn from it. Token ids in, token ids out."""

    observation: Any
    """What the environment showed before this decision."""

    action: Any
    """What is handed to the environment."""

    prompt_ids: NDArray[np.int64]
    """Every token the model was conditioned on, earlier turns of the episode included, shape (P,)."""

    token_ids: NDArray[np.int64]
    """The tokens it produced, end-of-turn token included if it was produced, shape (T,)."""

    log_probs: NDArray[np.float32]
    """Log-probability of each produced token under the behaviour policy, shape (T,)."""

    finished: bool = True
    """False if generation was cut at the token limit."""

    actions_used: int | None = None
    """How many actions of a chunk the environment took before the episode ended; None if it took all. What came after
    had no effect, so a policy of chunks gives it the mask 0 in `Policy.log_probs`."""

    forced: NDArray[np.bool_] | None = None
    """Which of the produced tokens were put there instead of being chosen, for example to end a thought that lasted too
    long, shape (T,); None if none was. They are conditioned on and never learned."""

    gives_up: str | None = None
    """Why the agent ends its episode instead of acting, for example because the conversation no longer fits its
    context. The environment is then not given the action, and what was achieved before counts. None if it acts."""


class Policy(Protocol):
    """An agent that can act and can be trained."""

    def act(
        self,
        observations: Sequence[Any],
        *,
        histories: Sequence[Sequence[Decision]],
        seeds: Sequence[tuple[int, ...]],
        temperature: float = 1.0,
    ) -> list[Decision]:
        """Decide for a batch of episodes at once.

        Args:
            observations: newest observation of each episode, length N.
            histories: earlier decisions of each episode, oldest first, length N.
            seeds: random stream of each decision, for example (seed, step, episode, turn), length N. The same stream
                gives the same decision whatever else is in the batch (up to rounding in batched arithmetic).
            temperature: sampling temperature; 0 is greedy.
        """
        ...

    def log_probs(self, decisions: Sequence[Decision], *, temperature: float = 1.0) -> tuple[Any, Any, Any]:
        """Log-probabilities of the produced tokens under the current weights, with gradients.

        Args:
            decisions: what was decided, length N.
            temperature: the sampling temperature they were made at.

        Returns:
            (log_probs, entropy, mask), each of shape (N, T_max): mask is 1 on produced tokens, 0 on padding and on
            tokens of actions that were never taken.
        """
        ...


class TrainablePolicy(Policy, Protocol):
    """What a policy needs besides to be trained. A `torch.nn.Module` has these three."""

    def parameters(self) -> Iterator[Any]:
        """The parameters that are trained."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Weights to restore the policy."""
        ...

    def load_state_dict(self, state: Mapping[str, Any], /) -> Any:
        """Restore what `state_dict` gave."""
        ...


@runtime_checkable
class Batching(Protocol):
    """A policy that is quicker with many episodes at once."""

    @property
    def concurrency(self) -> int:
        """Episodes that keep it busy."""
        ...


@runtime_checkable
class ChunkPolicy(Protocol):
    """A policy whose decisions are chunks of actions, of which an episode may take only the first."""

    def tokens_taken(self, decision: Decision) -> int:
        """How many leading tokens of a decision had an effect: those that `Policy.log_probs` does not mask."""
        ...


@runtime_checkable
class Freezable(Protocol):
    """A policy that knows a cheaper way to a reference than a deep copy of itself."""

    def frozen_copy(self) -> Policy:
        """A copy whose weights never change."""
        ...


def concurrency(policy: Any) -> int:
    """Episodes that keep a policy busy; 1 unless it says more."""
    return policy.concurrency if isinstance(policy, Batching) else 1


@dataclasses.dataclass(frozen=True, eq=False)
class Turn:
    """One decision and what came of it."""

    decision: Decision
    submission: Submission | None
    predicted: Outcome | None
    executed: Outcome | None
    reward: float

    @property
    def outcome(self) -> Outcome | None:
        """What the agent was told: the truth where there is one, else the prediction."""
        return self.executed if self.executed is not None and self.executed.score is not None else self.predicted


@dataclasses.dataclass(frozen=True, eq=False)
class Trajectory:
    """One episode."""

    turns: tuple[Turn, ...]
    predicted_score: float | None
    """Episode score of the predicted outcomes; None if unknown or not predicted."""
    executed_score: float | None
    """Episode score of the executed outcomes; None if unknown or not executed."""
    final_info: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """The trajectories that share a task, whose scores are compared with each other."""

    key: str
    """Unique within a step, for example "3:titanic"."""
    task_id: str
    is_anchor: bool
    propensity: float
    """Probability with which this group was chosen to be an anchor."""
    trajectories: tuple[Trajectory, ...]
