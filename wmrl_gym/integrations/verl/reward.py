"""The reward manager inside verl: predicts every trajectory and executes the anchors."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from verl.experimental.reward_loop.reward_manager import register
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from wmrl_gym.integrations.verl.proxy_actor import UNKNOWN_REWARD, proxy_actor
from wmrl_gym.integrations.verl.rows import RowScore
from wmrl_gym.integrations.verl.scorer import FinishedTrajectory
from wmrl_gym.integrations.verl.settings import (
    REWARD_MANAGER,
    build_scorer,
    build_scoring,
    chosen_route,
    scorer_threads,
)

ANCHOR_FIELD = "wmrl_anchor"
"""Beside each prompt that the trainer has drawn; validation prompts have none, and are always executed."""
EVALUATION_SPLITS = ("dev", "eval", "test", "val", "validation")
"""Values of ``extra_info["split"]`` that mark a validation prompt where the trainer cannot."""

logger = logging.getLogger(__name__)


@register(REWARD_MANAGER)
class WMRLRewardManager(RewardManagerBase):  # type: ignore[misc]
    """Scores one trajectory at a time with what ``wmrl.scorer`` names; `compute_score` is not called.

    Whether a trajectory is an anchor was drawn by the trainer. With the estimator it is drawn here, by its uid alone,
    and reported to the named actor. Validation trajectories are all executed and teach nothing.

    A scorer that raises leaves both scores unknown. Unknown is reward 0 and a flag, never NaN.
    """

    def __init__(
        self,
        config: Any,
        tokenizer: Any,
        compute_score: Any = None,
        reward_router_address: str | None = None,
        reward_model_tokenizer: Any = None,
    ) -> None:
        super().__init__(config, tokenizer, compute_score)
        self.route = chosen_route(config)
        self.scorer = build_scorer(config)
        self._anchors = build_scoring(config).proxy.anchors
        self._is_async = inspect.iscoroutinefunction(self.scorer) or inspect.iscoroutinefunction(
            getattr(self.scorer, "__call__", None)  # noqa: B004 - an object whose __call__ is async
        )
        self._has_failed = False
        self._threads = ThreadPoolExecutor(scorer_threads(config), "wmrl-scorer")

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Score a trajectory, given as the outputs of its session, of which the last is the answer.

        Returns:
            "reward_score" and "reward_extra_info" (see `RowScore.to_extra_info`).
        """
        item = data[-1:][0]
        extra = item.non_tensor_batch
        is_anchor, is_reported = self._draw(extra)
        score = await self._score(await self._trajectory(item), is_anchor)
        shown = score.shown
        if is_reported:
            step, session = int(extra["global_steps"]), int(extra["session_id"])
            await proxy_actor().report.remote(step, str(extra["uid"]), session, score)
            shown = shown if score.is_known else UNKNOWN_REWARD
        return {"reward_score": shown, "reward_extra_info": score.to_extra_info()}

    def _draw(self, extra: Any) -> tuple[bool, bool]:
        """Whether to execute, and whether the actor is to learn of it."""
        if self.route == "trainer":
            drawn = extra.get(ANCHOR_FIELD)
            return (True if drawn is None else bool(drawn)), False
        if (extra.get("extra_info") or {}).get("split") in EVALUATION_SPLITS:
            return True, False
        return self._anchors.draw_episode(int(extra["global_steps"]), str(extra["uid"]))[0], True

    async def _trajectory(self, item: Any) -> FinishedTrajectory:
        extra, responses = item.non_tensor_batch, item.batch["responses"]
        n_tokens = int(item.batch["attention_mask"][-responses.shape[-1] :].sum())
        tokens = responses[:n_tokens]
        answer = await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: self.tokenizer.decode(tokens, skip_special_tokens=True)
        )
        truth = (extra.get("reward_model") or {}).get("ground_truth")
        return FinishedTrajectory(answer, str(extra.get("data_source", "")), dict(extra.get("extra_info") or {}), truth)

    async def _score(self, trajectory: FinishedTrajectory, execute: bool) -> RowScore:
        try:
            if self._is_async:
                scores = await self.scorer(trajectory, execute)
            else:
                loop = asyncio.get_running_loop()
                scores = await loop.run_in_executor(self._threads, self.scorer, trajectory, execute)
            predicted, executed = (_finite(score) for score in scores)
        except Exception as error:
            source, first = trajectory.data_source, not self._has_failed
            logger.warning("the scorer failed on a trajectory of %s: %r", source, error, exc_info=first)
            self._has_failed = True
            return RowScore(None, None, execute, f"{type(error).__name__}: {error}")
        return RowScore(predicted, executed if execute else None, execute)


def _finite(score: Any) -> float | None:
    if score is None:
        return None
    if not math.isfinite(score):
        raise ValueError(f"the scorer returned {score}: give a finite number, or None if it is unknown")
    return float(score)
