"""From a task and an answer to what is scored, by the environment's own reading of the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from wmrl_gym.core import ExpensiveRewardEnv, Outcome, Submission
from wmrl_gym.integrations.http.refusals import UnknownTask


@dataclass(frozen=True)
class Formed:
    """What an answer asks for."""

    submission: Submission | None
    """To be scored; None if the answer hands nothing in."""
    judged: Outcome | None
    """Then what the environment itself says of it; its score is None where it says nothing."""


class Forming:
    """One environment that reads answers, each as the first action of an episode of its task.

    Args:
        env: the environment; nothing else uses it.
        tasks: names that may be asked for.
        reset_options: options of ``reset`` that begin an episode of a task.

    Raises:
        ValueError: if its actions are not text.
    """

    def __init__(
        self,
        env: ExpensiveRewardEnv[Any, Any],
        tasks: Collection[str],
        reset_options: Callable[[str], Mapping[str, Any]],
    ) -> None:
        if not env.action_space.contains("x"):
            raise ValueError(
                f"{type(env).__name__} takes actions from {env.action_space}, a service takes text: train it in this "
                "process, or choose an environment whose actions are text"
            )
        self.tasks = frozenset(tasks)
        self._env = env
        self._reset_options = reset_options
        self._lock = threading.Lock()

    def check(self, task: str) -> None:
        """Refuse a task that is not served.

        Raises:
            UnknownTask: with the tasks that are.
        """
        if task not in self.tasks:
            known = sorted(self.tasks)
            named = ", ".join(known[:10]) + (f" and {len(known) - 10} more" if len(known) > 10 else "")
            raise UnknownTask(f"there is no task {task!r} here: this service has {named}")

    def form(self, task: str, answer: str) -> Formed:
        """Read an answer."""
        with self._lock:
            self._env.reset(options=dict(self._reset_options(task)))
            submission = self._env.submit(answer)
            if submission is not None:
                return Formed(submission, None)
            observation, _, _, _, info = self._env.advance(None)
        judged = info.get("outcome")
        if not isinstance(judged, Outcome):
            judged = Outcome(None, "no_submission", str(observation), source="environment")
        return Formed(None, judged)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()
