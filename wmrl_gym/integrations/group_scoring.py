"""The proxy as another trainer needs it: one call a step, plain scores in, finished advantages out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from wmrl_gym.algorithms.advantages import group_advantages
from wmrl_gym.proxy.anchoring import AnchorDraw
from wmrl_gym.proxy.reward_proxy import RewardProxy, ScoredStep

STATE_VERSION = 1


@dataclass(frozen=True, eq=False)
class StepAdvantages:
    """What one step's groups teach, in the order in which the groups were given."""

    advantages: list[list[float | None]]
    """Group weight times centred reward, one row per group; None where nothing is known, which must teach nothing."""
    scored: ScoredStep
    """The rewards, weights and metrics behind them."""


class GroupScoring:
    """Anchoring, debiasing and fusion for a trainer that has its own loop.

    A step is `draw` (which groups to execute), then `score` (what all are worth), which begins the next step. The step
    is counted here: it is a batch of generated groups, which no other trainer's own counter need be.

    Args:
        proxy: anchoring, debiasing, fusion.
        normalise_by_std: also divide centred rewards by their group's standard deviation.
    """

    def __init__(self, proxy: RewardProxy, *, normalise_by_std: bool = False) -> None:
        self.proxy = proxy
        self.normalise_by_std = normalise_by_std
        self.step = 0
        """Number of the step that `draw` and `score` are for."""

    def draw(self, group_keys: Sequence[str]) -> AnchorDraw:
        """Mark the anchors of this step; see `RandomAnchors.draw`. Asked again, it answers the same."""
        return self.proxy.draw(self.step, group_keys)

    def score(
        self,
        group_keys: Sequence[str],
        is_anchor: ArrayLike,
        predicted: Sequence[Sequence[float | None]],
        executed: Sequence[Sequence[float | None]],
        propensity: ArrayLike | None = None,
    ) -> StepAdvantages:
        """Learn from this step's anchors, form all advantages, and begin the next step.

        Args:
            group_keys: one per group, unique within the step, length G.
            is_anchor: which groups were executed, shape (G,).
            predicted: predicted scores, G rows; None is unknown.
            executed: executed scores, G rows of the same lengths; those of other groups than anchors are not read.
            propensity: as `draw` returned it, shape (G,); None computes it from the keys.

        Raises:
            ValueError: if a score is NaN or infinite. Nothing is learned then, and the step stays.
        """
        scored = self.proxy.score_arrays(self.step, group_keys, is_anchor, predicted, executed, propensity)
        self.step += 1
        return StepAdvantages(
            [
                [None] * len(rewards) if dropped else self._weighted(rewards, float(weight))
                for rewards, weight, dropped in zip(scored.rewards, scored.weights, scored.dropped, strict=True)
            ],
            scored,
        )

    def _weighted(self, rewards: Sequence[float | None], weight: float) -> list[float | None]:
        advantages = group_advantages(rewards, normalise_by_std=self.normalise_by_std)
        return [None if advantage is None else weight * advantage for advantage in advantages]

    def state_dict(self) -> dict[str, Any]:
        """The step and all that the proxy learned, as plain data that survives JSON to the last bit."""
        return {"version": STATE_VERSION, "step": self.step, "proxy": self.proxy.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            ValueError: if the state is of another version, or of a proxy built otherwise. Nothing is changed then.
        """
        if state.get("version") != STATE_VERSION:
            raise ValueError(
                f"the saved state has format {state.get('version')}, this library reads format {STATE_VERSION}: "
                "resume with the version of wmrl_gym that wrote it"
            )
        step = int(state["step"])
        self.proxy.load_state_dict(state["proxy"])
        self.step = step

    def save(self, path: str | Path) -> None:
        """Write the state as JSON, by rename: whoever is killed leaves the old file or the new one, whole."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(self.state_dict(), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    def restore(self, path: str | Path) -> None:
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if it cannot be read, or is of another version or a proxy built otherwise.
        """
        try:
            state = json.loads(Path(path).read_text("utf-8"))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is damaged ({error}): restore it from an earlier checkpoint") from error
        if not isinstance(state, dict):
            raise ValueError(f"{path} holds no state of a GroupScoring: name the file that its save wrote")
        self.load_state_dict(state)
