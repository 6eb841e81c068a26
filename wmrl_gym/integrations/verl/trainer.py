"""verl's synchronous trainer with the proxy: it draws the anchors, and forms the advantages itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils
from verl.workers.utils.padding import response_to_nested

from wmrl_gym.integrations.verl.checkpoint import STATE_FILE, resume_folder
from wmrl_gym.integrations.verl.reward import ANCHOR_FIELD
from wmrl_gym.integrations.verl.rows import DrawnGroup, FailureWatch, RowScore, ScoredRows, score_rows
from wmrl_gym.integrations.verl.settings import TRAINER_MODE, VerlConfigError, build_scoring, chosen_route


@register_trainer(TRAINER_MODE)
class WMRLTrainer(PPOTrainerSync):  # type: ignore[misc]
    """`PPOTrainerSync`, but for where anchors and advantages come from.

    The proxy lives in this process, on verl's driver. Prompts are drawn before they are generated, so that whoever
    scores a trajectory knows whether to execute it. verl's own computations before the advantage stay as they are.
    """

    def __init__(self, config: Any) -> None:
        if chosen_route(config) != "trainer":
            raise VerlConfigError(f"{type(self).__name__} was built with another trainer.v1.trainer_mode")
        self.scoring = build_scoring(config)
        self._drawn: dict[str, DrawnGroup] = {}
        self._watch = FailureWatch()
        super().__init__(config)

    def _build_replay_buffer(self) -> Any:
        # verl asks for "sync" by name in many places: under its own name this trainer would count as asynchronous.
        self.trainer_mode = "sync"
        return super()._build_replay_buffer()

    def _submit_batch_to_rollout(self, batch: TensorDict) -> int:
        uids = [str(uid) for uid in batch["uid"]]
        sources = [str(source) for source in batch["data_source"]] if "data_source" in batch else ["prompt"] * len(uids)
        # By place and source, not by verl's uid: that is random, and a resumed run could not draw the same anchors.
        keys = [f"{len(self._drawn) + i}:{source}" for i, source in enumerate(sources)]
        drawn = [DrawnGroup(*group) for group in zip(keys, *self._draw(keys), strict=True)]
        self._drawn.update(zip(uids, drawn, strict=True))
        tensordict_utils.assign_non_tensor_stack(batch, ANCHOR_FIELD, [group.is_anchor for group in drawn])
        return int(super()._submit_batch_to_rollout(batch))

    def _draw(self, keys: list[str]) -> tuple[list[bool], list[float]]:
        if self._drawn:  # prompts that replace failed ones: the step's minimum of anchors is already drawn
            step, anchors = self.scoring.step, self.scoring.proxy.anchors
            draws = [anchors.draw_episode(step, key) for key in keys]
            return [is_anchor for is_anchor, _ in draws], [propensity for _, propensity in draws]
        draw = self.scoring.draw(keys)
        return draw.is_anchor.tolist(), draw.propensity.tolist()

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_advantage(batch, metrics)
        data = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=["extra_fields", "response_mask"]
        )
        is_padding = [bool(tag.get("is_padding", False)) for tag in batch.tags]
        rows = [
            None if padding else RowScore.from_extra_info(fields.get("reward_extra_info"), key)
            for key, fields, padding in zip(batch.keys, _plain(data["extra_fields"]), is_padding, strict=True)
        ]
        scored = score_rows(self.scoring, batch.keys, rows, self._drawn, self._watch)
        n_lost = len(self._drawn) - len(scored.step.rewards)
        self._drawn.clear()
        metrics.update({f"{TRAINER_MODE}/{k}": v for k, v in scored.step.metrics.items() if v is not None})
        metrics[f"{TRAINER_MODE}/lost_groups"] = n_lost
        return tq.kv_batch_put(
            keys=batch.keys, partition_id=batch.partition_id, fields=_fields(scored, data["response_mask"])
        )

    def _save_checkpoint(self) -> None:
        # Before verl names the checkpoint as its newest: whoever is killed between resumes from the one before.
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        self.scoring.save(folder / STATE_FILE)
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        folder = resume_folder(self.config)
        super()._load_checkpoint()
        if folder is None:
            return
        if folder.name != f"global_step_{self.global_steps}":
            raise RuntimeError(f"verl resumed at step {self.global_steps}, but the proxy's state is in {folder}")
        self.scoring.restore(folder / STATE_FILE)


def _fields(scored: ScoredRows, response_mask: torch.Tensor) -> TensorDict:
    """Advantages on the produced tokens. The mask of a row without a score is 0: no loss, KL or entropy, sees it."""
    mask = response_mask.to_padded_tensor(0)
    known = torch.tensor([advantage is not None for advantage in scored.advantages])
    advantages = torch.tensor([0.0 if a is None else a for a in scored.advantages], dtype=torch.float32)
    nested = response_to_nested(advantages[:, None] * mask, response_mask)
    kept = response_to_nested(mask * known[:, None].to(mask.dtype), response_mask)
    return TensorDict({"advantages": nested, "returns": nested, "response_mask": kept}, batch_size=len(known))


def _plain(extra_fields: Any) -> list[dict[str, Any]]:
    """The dictionaries of the rows, whichever container the queue hands them back in."""
    rows = extra_fields.tolist() if hasattr(extra_fields, "tolist") else list(extra_fields)
    return [getattr(row, "data", row) for row in rows]
