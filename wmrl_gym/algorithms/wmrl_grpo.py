"""WMRL-GRPO: GRPO whose rewards are mostly predicted, corrected by a thin stream of executions.

`WMRLGRPO.step` reads like the paper's loop. The baselines are the same code with other parts: all groups anchors and no
world model is GRPO on real execution; no anchors is training on the world model alone; a proxy without debiaser or
without fusion is an ablation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wmrl_gym.algorithms.advantages import group_advantages
from wmrl_gym.algorithms.checkpoint import load_latest_checkpoint, save_checkpoint
from wmrl_gym.algorithms.grpo import GRPOSettings
from wmrl_gym.algorithms.policy_update import PolicyUpdate, frozen_copy
from wmrl_gym.algorithms.random_state import random_state, set_random_state
from wmrl_gym.algorithms.rollout import GroupPlan, StageClock, collect
from wmrl_gym.algorithms.step_metrics import rollout_metrics
from wmrl_gym.core import Group, Policy, Stateful, TrainablePolicy, Trajectory, Watched, WorldModelError, fingerprint
from wmrl_gym.proxy.reward_proxy import RewardProxy, ScoredStep
from wmrl_gym.proxy.vector_env import RewardProxyVectorEnv

STEPS_WITHOUT_PREDICTION = 3
"""So many steps in a row without a single predicted score stop a run that has a world model."""


@dataclass(frozen=True)
class WMRLGRPOSettings:
    """Settings of the algorithm; the defaults are the paper's where it gives them."""

    steps: int = 200
    """Updates of the policy, each after a batch of new episodes."""
    groups_per_step: int = 8
    """Tasks drawn in a step; each is played by one group."""
    group_size: int = 8
    """Episodes of one task that are compared with each other."""
    learning_rate: float = 1e-6
    """AdamW's, in the first step."""
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """"linear" falls from ``learning_rate`` to 0, which it would reach one step after the last."""
    temperature: float = 1.0
    """Of the policy's distribution, in rollouts and in the loss."""
    max_grad_norm: float = 1.0
    """A gradient with a larger norm is scaled down to it."""
    weight_decay: float = 0.0
    """AdamW's."""
    normalise_by_std: bool = False
    """Divide advantages by their group's standard deviation; the paper centres only."""
    epochs: int = 1
    """Passes over a step's trajectories."""
    minibatch: int | None = None
    """Trajectories per optimiser step; None takes all of a step's in one, so that every gradient is on-policy."""
    microbatch: int = 16
    """Trajectories whose gradients are computed at the same time; does not change the result beyond rounding."""
    microbatch_tokens: int | None = None
    """Most tokens whose gradients are computed at the same time, prompts included; a longer trajectory stands alone.
    None limits by `microbatch` only. Changes nothing but rounding."""
    checkpoint_every: int = 10
    """Steps between two checkpoints."""
    keep_checkpoints: int = 2
    """How many of the newest are kept."""
    seed: int = 0
    """Of tasks, anchors and episodes; a run sets it to its own seed."""
    loss: GRPOSettings = field(default_factory=GRPOSettings)
    """Settings of the loss."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot train."""
        counts = ("steps", "groups_per_step", "epochs", "minibatch", "microbatch", "microbatch_tokens")
        for name in (*counts, "checkpoint_every", "keep_checkpoints"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"algorithm.{name} is {value}: give at least 1")
        if self.group_size < 2:
            raise ValueError(f"algorithm.group_size is {self.group_size}: advantages compare, so give at least 2")
        if self.learning_rate_schedule not in ("constant", "linear"):
            raise ValueError(
                f"algorithm.learning_rate_schedule is {self.learning_rate_schedule!r}: choose 'constant' or 'linear'"
            )
        for name in ("learning_rate", "temperature", "max_grad_norm"):
            if not getattr(self, name) > 0:
                raise ValueError(f"algorithm.{name} is {getattr(self, name)}: give a positive number")
        if self.seed < 0:
            raise ValueError(f"algorithm.seed is {self.seed}: give 0 or more")


class WMRLGRPO:
    """Trains a policy.

    Args:
        policy: acts and is trained, for example a `CausalLMPolicy`, or a `torch.nn.Module` with ``act`` and
            ``log_probs``.
        vector_env: plays the episodes, with the world model and the executor inside; needs groups_per_step x group_size
            environments.
        tasks: what to train on.
        proxy: anchoring, debiasing, fusion.
        settings: of the algorithm.
        reference: policy of the KL penalty; default a frozen copy of the policy as it is now.
        reset_options: options of `reset` that begin an episode of a task; default none.
        directory: where checkpoints go; None keeps none.
        on_step: called with the step's number and its metrics before that step's checkpoint is written.
        on_groups: called with the step's number, its groups and what they were worth, before the update.

    Raises:
        ValueError: if there are no tasks, too few environments, or neither a world model nor executions for some group.
    """

    def __init__(
        self,
        policy: TrainablePolicy,
        vector_env: RewardProxyVectorEnv,
        tasks: Sequence[str],
        proxy: RewardProxy,
        settings: WMRLGRPOSettings,
        *,
        reference: Policy | None = None,
        reset_options: Callable[[str], Mapping[str, Any]] | None = None,
        directory: Path | None = None,
        on_step: Callable[[int, dict[str, float | None]], None] | None = None,
        on_groups: Callable[[int, Sequence[Group], ScoredStep], None] | None = None,
    ) -> None:
        _check_parts(vector_env, tasks, proxy, settings)
        self.policy, self.vector_env, self.proxy, self.settings = policy, vector_env, proxy, settings
        self.tasks = list(tasks)
        self.reset_options = reset_options or (lambda task: {})
        self.directory, self.on_step, self.on_groups = directory, on_step, on_groups
        if reference is None and settings.loss.kl_coefficient:
            reference = frozen_copy(policy)
        self.updater = PolicyUpdate(
            policy,
            reference,
            settings.loss,
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            max_grad_norm=settings.max_grad_norm,
            temperature=settings.temperature,
            epochs=settings.epochs,
            minibatch=settings.minibatch,
            microbatch=settings.microbatch,
            microbatch_tokens=settings.microbatch_tokens,
        )
        self.next_step = 0
        self._steps_without_prediction = 0

    def train(self, until: int | None = None) -> None:
        """Run the steps that are left, writing a checkpoint every ``checkpoint_every`` steps and at the end.

        Args:
            until: number of steps after which to stop, with a checkpoint; None goes on to the end.

        Raises:
            WorldModelError: if the world model fails as a whole, or knows no score in several steps. What `on_step` and
                the checkpoints have written stays.
            ExecutorError: if executions fail again and again; likewise.
        """
        end = self.settings.steps if until is None else min(until, self.settings.steps)
        while self.next_step < end:
            step = self.next_step
            metrics = self.step(step)
            self.next_step = step + 1
            if self.on_step is not None:
                self.on_step(step, metrics)
            if self.next_step % self.settings.checkpoint_every == 0 or self.next_step == end:
                self.save()

    def step(self, step: int) -> dict[str, float | None]:
        """One step: draw tasks and anchors, play, score, update. Returns its metrics; unknown is None."""
        clock = StageClock()
        executions_before = self.vector_env.n_executions
        groups = collect(
            self.policy,
            self.vector_env,
            self.plan(step),
            seed=self.settings.seed,
            step=step,
            temperature=self.settings.temperature,
            clock=clock,
        )
        self._require_predictions(groups)
        with clock.stage("score"):
            scored = self.proxy.score(step, groups)
        if self.on_groups is not None:
            with clock.stage("record"):
                self.on_groups(step, groups, scored)
        with clock.stage("update"):
            learnable = self._learnable(groups, scored)
            update = self.updater.update(learnable, (self.settings.seed, step), self.learning_rate(step))
        return {
            **rollout_metrics(groups, scored),
            **update,
            "executions": float(self.vector_env.n_executions - executions_before),
            **{f"proxy/{name}": value for name, value in self.proxy.metrics().items()},
            **{f"world_model/{name}": value for name, value in self._world_model_metrics().items()},
            **{f"seconds/{name}": value for name, value in clock.seconds.items()},
        }

    def plan(self, step: int) -> list[GroupPlan]:
        """Tasks and anchors of a step: a pure function of the seed and the step."""
        chosen = [self._task(step * self.settings.groups_per_step + g) for g in range(self.settings.groups_per_step)]
        keys = [f"{g}:{task}" for g, task in enumerate(chosen)]
        draw = self.proxy.draw(step, keys)
        return [
            GroupPlan(key, task, bool(anchor), float(p), self.settings.group_size, self.reset_options(task))
            for key, task, anchor, p in zip(keys, chosen, draw.is_anchor, draw.propensity, strict=True)
        ]

    def learning_rate(self, step: int) -> float:
        """Learning rate of a step."""
        settings = self.settings
        falling = settings.learning_rate_schedule == "linear"
        return settings.learning_rate * (1 - step / settings.steps if falling else 1.0)

    def _task(self, index: int) -> str:
        """The index-th task of an endless sequence in which every task comes once before any comes again."""
        epoch, position = divmod(index, len(self.tasks))
        order = np.random.default_rng([self.settings.seed, epoch]).permutation(len(self.tasks))
        return self.tasks[order[position]]

    def _learnable(self, groups: Sequence[Group], scored: ScoredStep) -> list[tuple[Trajectory, float]]:
        """Trajectories that were scored, each with its advantage times its group's weight."""
        learnable = []
        for group, rewards, weight, dropped in zip(groups, scored.rewards, scored.weights, scored.dropped, strict=True):
            if dropped:
                continue
            advantages = group_advantages(rewards, normalise_by_std=self.settings.normalise_by_std)
            pairs = zip(group.trajectories, advantages, strict=True)
            # An agent that gave up before its first turn left nothing to learn from.
            learnable += [(t, float(weight) * a) for t, a in pairs if a is not None and t.turns]
        return learnable

    def _require_predictions(self, groups: Sequence[Group]) -> None:
        """Stop where a world model goes on answering and never knows: the executed groups alone would train on."""
        if self.vector_env.world_model is None:
            return
        trajectories = [trajectory for group in groups for trajectory in group.trajectories]
        known = any(trajectory.predicted_score is not None for trajectory in trajectories)
        self._steps_without_prediction = 0 if known else self._steps_without_prediction + 1
        if self._steps_without_prediction >= STEPS_WITHOUT_PREDICTION:
            outcomes = (turn.predicted for t in trajectories for turn in t.turns if turn.predicted is not None)
            said = next((f"{o.status}: {o.feedback or dict(o.details)}" for o in outcomes), "nothing was handed in")
            raise WorldModelError(
                f"in {self._steps_without_prediction} steps no episode had a predicted score\n  one prediction said: "
                f"{said[:500]}\n  Mend the world model, or resume later: the last checkpoint is intact."
            )

    def save(self) -> Path | None:
        """Write everything that the next steps depend on."""
        if self.directory is None:
            return None
        memory = self.vector_env.world_model
        state = {
            "settings": self._identity(),
            "policy": self.policy.state_dict(),
            "optimizer": self.updater.optimizer.state_dict(),
            "proxy": self.proxy.state_dict(),
            "world_model": memory.state_dict() if isinstance(memory, Stateful) else {},
            "n_executions": self.vector_env.n_executions,
            "random_state": random_state(),
        }
        return save_checkpoint(self.directory, self.next_step, state, keep=self.settings.keep_checkpoints)

    def resume(self) -> int:
        """Go on from the newest checkpoint that can be read, if there is one. Returns the next step's number.

        The reference policy stays the one given at construction, so construct with the run's initial policy. What
        `on_step` has recorded of the returned step and later ones will come again: drop it.

        Raises:
            ValueError: if the checkpoint belongs to other settings or tasks, or there are some and none can be read.
        """
        newest = None if self.directory is None else load_latest_checkpoint(self.directory)
        if newest is None:
            return self.next_step
        path, state = newest
        if state["settings"] != self._identity():
            raise ValueError(
                f"{path} was written with other settings or tasks; only the checkpoint settings, and algorithm.steps "
                "if the learning rate is constant, may change in mid-run\n"
                "  Start a new run, or resume with the run's own configuration."
            )
        self.policy.load_state_dict(state["policy"])
        self.updater.optimizer.load_state_dict(state["optimizer"])
        self.proxy.load_state_dict(state["proxy"])
        if state.get("world_model"):
            self.vector_env.world_model.load_state_dict(state["world_model"])  # type: ignore[union-attr]
        self.vector_env.n_executions = int(state["n_executions"])
        set_random_state(state["random_state"])
        self.next_step = int(state["step"])
        return self.next_step

    def _world_model_metrics(self) -> dict[str, float | None]:
        model = self.vector_env.world_model
        return dict(model.metrics()) if isinstance(model, Watched) else {}

    def _identity(self) -> str:
        free = ["checkpoint_every", "keep_checkpoints"]
        if self.settings.learning_rate_schedule == "constant":
            free.append("steps")  # otherwise the learning rate depends on them
        settings = {name: value for name, value in asdict(self.settings).items() if name not in free}
        return fingerprint((settings, self.tasks))


def _check_parts(
    vector_env: RewardProxyVectorEnv, tasks: Sequence[str], proxy: RewardProxy, settings: WMRLGRPOSettings
) -> None:
    if not tasks:
        raise ValueError("WMRLGRPO got no tasks: name at least one")
    if vector_env.num_envs < settings.groups_per_step * settings.group_size:
        raise ValueError(
            f"{settings.groups_per_step} groups of {settings.group_size} need as many environments; the vector "
            f"environment has {vector_env.num_envs}"
        )
    if vector_env.world_model is None and proxy.anchors.fraction < 1:
        raise ValueError(
            f"there is no world model, but anchors.fraction is {proxy.anchors.fraction}: the other groups would have "
            "no score\n  Give the vector environment a world model, or execute everything with a fraction of 1."
        )
