"""What a corpus needs of an environment: competitions that are answered in scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, SupportsFloat, runtime_checkable

from wmrl_gym.core import Outcome, Submission
from wmrl_gym.envs.mle_dojo.competition import Competition
from wmrl_gym.envs.mle_dojo.ladder import RewardLadder


@runtime_checkable
class CompetitionEnvironment(Protocol):
    """An environment that plays competitions, as `MLEDojoEnv` and what is derived from it do."""

    @property
    def competitions(self) -> Mapping[str, Competition]:
        """Those that it can play, by name."""
        ...

    @property
    def ladder(self) -> RewardLadder:
        """Scores of the statuses."""
        ...

    @property
    def runner(self) -> Callable[[Submission], Outcome]:
        """Executes. Its ``sandbox_limits`` and its ``environment_key(names)`` are written down, if it has them."""
        ...

    def data_digests(self) -> Mapping[str, str]:
        """Digest of each competition's data."""
        ...

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode of ``options["competition"]``."""
        ...

    def submit(self, action: str) -> Submission | None:
        """Take an answer; return the script in it, if there is one."""
        ...

    def advance(self, outcome: Outcome | None) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Go on to the next turn."""
        ...
