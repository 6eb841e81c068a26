"""WMRL-GRPO: GRPO whose rewards are mostly predicted, corrected by a thin stream of executions.

`WMRLGRPO.step` reads like the paper's loop. The baselines are the same code with other parts: all groups anchors and no
world model is GRPO on real execution; no anchors is training on the world model alone; a proxy without debiaser or
without fusion is an ablation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from wmrl_gym.algorithms.advantages import group_advantages
from wmrl_gym.algorithms.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from wmrl_gym.algorithms.grpo import GRPOSettings, grpo_loss
from wmrl_gym.algorithms.rollout import GroupPlan, StageClock, collect
from wmrl_gym.algorithms.step_metrics import rollout_metrics
from wmrl_gym.core import Group, Trajectory, fingerprint
from wmrl_gym.proxy.reward_proxy import RewardProxy, ScoredStep
from wmrl_gym.proxy.vector_env import RewardProxyVectorEnv


@dataclass(frozen=True)
class WMRLGRPOSettings:
    """Settings of the algorithm; the defaults are the paper's where it gives them."""

    steps: int = 200
    groups_per_step: int = 8
    group_size: int = 8
    learning_rate: float = 1e-6
    temperature: float = 1.0
    max_grad_norm: float = 1.0
    weight_decay: float = 0.0
    normalise_by_std: bool = False
    """Divide advantages by their group's standard deviation; the paper centres only."""
    microbatch: int = 16
    """Trajectories whose gradients are computed at the same time; does not change the result beyond rounding."""
    checkpoint_every: int = 10
    keep_checkpoints: int = 2
    seed: int = 0
    loss: GRPOSettings = field(default_factory=GRPOSettings)

    def __post_init__(self) -> None:
        """Refuse numbers that cannot train."""
        for name in ("steps", "groups_per_step", "microbatch", "checkpoint_every", "keep_checkpoints"):
            if getattr(self, name) < 1:
                raise ValueError(f"algorithm.{name} is {getattr(self, name)}: give at least 1")
        if self.group_size < 2:
            raise ValueError(f"algorithm.group_size is {self.group_size}: advantages compare, so give at least 2")
        if self.learning_rate <= 0 or self.temperature <= 0:
            raise ValueError(
                f"algorithm.learning_rate ({self.learning_rate}) and temperature ({self.temperature}) must be positive"
            )


class WMRLGRPO:
    """Trains a policy.

    Args:
        policy: acts and is trained; a `core.Policy` that also has ``parameters``, ``state_dict``, ``load_state_dict``
            and ``frozen_copy``, such as `CausalLMPolicy`.
        vector_env: plays the episodes, with the world model and the executor inside; needs groups_per_step x group_size
            environments.
        tasks: what to train on.
        proxy: anchoring, debiasing, fusion.
        settings: of the algorithm.
        reset_options: options of `reset` that begin an episode of a task; default none.
        directory: where checkpoints go; None keeps none.
        on_step: called with the step's number and its metrics before that step's checkpoint is written.

    Raises:
        ValueError: if there are no tasks or too few environments.
    """

    def __init__(
        self,
        policy: Any,
        vector_env: RewardProxyVectorEnv,
        tasks: Sequence[str],
        proxy: RewardProxy,
        settings: WMRLGRPOSettings,
        *,
        reset_options: Callable[[str], Mapping[str, Any]] | None = None,
        directory: Path | None = None,
        on_step: Callable[[int, dict[str, float | None]], None] | None = None,
    ) -> None:
        if not tasks:
            raise ValueError("WMRLGRPO got no tasks: name at least one")
        if vector_env.num_envs < settings.groups_per_step * settings.group_size:
            raise ValueError(
                f"{settings.groups_per_step} groups of {settings.group_size} need as many environments; the vector "
                f"environment has {vector_env.num_envs}"
            )
        self.policy, self.vector_env, self.proxy, self.settings = policy, vector_env, proxy, settings
        self.tasks = list(tasks)
        self.reset_options = reset_options or (lambda task: {})
        self.directory, self.on_step = directory, on_step
        self.reference = policy.frozen_copy() if settings.loss.kl_coefficient else None
        self.optimizer = torch.optim.AdamW(
            list(policy.parameters()), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self.next_step = 0

    def train(self) -> None:
        """Run the steps that are left, writing a checkpoint every ``checkpoint_every`` steps and at the end."""
        while self.next_step < self.settings.steps:
            step = self.next_step
            metrics = self.step(step)
            self.next_step = step + 1
            if self.on_step is not None:
                self.on_step(step, metrics)
            if self.next_step % self.settings.checkpoint_every == 0 or self.next_step == self.settings.steps:
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
        with clock.stage("score"):
            scored = self.proxy.score(step, groups)
        with clock.stage("update"):
            update = self._update(self._learnable(groups, scored))
        return {
            **rollout_metrics(groups, scored),
            **update,
            "executions": float(self.vector_env.n_executions - executions_before),
            **{f"proxy/{name}": value for name, value in self.proxy.metrics().items()},
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
            learnable += [(trajectory, float(weight) * a) for trajectory, a in pairs if a is not None]
        return learnable

    def _update(self, learnable: Sequence[tuple[Trajectory, float]]) -> dict[str, float | None]:
        """One optimiser step on the whole batch; none if there is nothing to learn from."""
        names = ("loss", "policy_loss", "kl", "entropy", "clip_fraction", "importance_ratio", "grad_norm")
        if not learnable:
            return dict.fromkeys(names)
        self.optimizer.zero_grad(set_to_none=True)
        n_tokens = sum(len(turn.decision.token_ids) for trajectory, _ in learnable for turn in trajectory.turns)
        totals: dict[str, float] = {}
        for start in range(0, len(learnable), self.settings.microbatch):
            part = learnable[start : start + self.settings.microbatch]
            loss, metrics = self._loss(part, n_sequences=len(learnable), n_tokens=n_tokens)
            loss.backward()  # type: ignore[no-untyped-call]
            for name, value in {**metrics, "loss": float(loss.detach())}.items():
                share = 1.0 if name == "loss" else len(part) / len(learnable)
                totals[name] = totals.get(name, 0.0) + share * value
        norm = torch.nn.utils.clip_grad_norm_(list(self.policy.parameters()), self.settings.max_grad_norm)
        if not torch.isfinite(norm):
            raise FloatingPointError(
                "the gradient is not finite: the weights were left as they were. Lower algorithm.learning_rate, or look "
                "for a policy whose log-probabilities overflow; the last checkpoint is intact."
            )
        self.optimizer.step()
        return {**totals, "grad_norm": float(norm)}

    def _loss(
        self, part: Sequence[tuple[Trajectory, float]], *, n_sequences: int, n_tokens: int
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """Loss of some trajectories as their share of the whole batch's. A trajectory's turns are one sequence."""
        decisions = [turn.decision for trajectory, _ in part for turn in trajectory.turns]
        turns = [len(trajectory.turns) for trajectory, _ in part]
        temperature = self.settings.temperature
        log_probs, entropy, mask = self.policy.log_probs(decisions, temperature=temperature)
        reference = None
        if self.reference is not None:
            with torch.no_grad():
                reference = self.reference.log_probs(decisions, temperature=temperature)[0]
        old = pad_sequence([torch.from_numpy(d.log_probs) for d in decisions], batch_first=True).to(log_probs)

        def by_trajectory(values: torch.Tensor) -> torch.Tensor:
            produced = [row[keep] for row, keep in zip(values, mask.bool(), strict=True)]
            bounds = itertools.pairwise(np.cumsum([0, *turns]))
            return pad_sequence([torch.cat(produced[start:end]) for start, end in bounds], batch_first=True)

        return grpo_loss(
            by_trajectory(log_probs),
            by_trajectory(old),
            torch.tensor([advantage for _, advantage in part], dtype=log_probs.dtype, device=log_probs.device),
            by_trajectory(mask),
            self.settings.loss,
            reference_log_probs=None if reference is None else by_trajectory(reference),
            entropy=by_trajectory(entropy),
            n_sequences=n_sequences,
            n_tokens=n_tokens,
        )

    def save(self) -> Path | None:
        """Write everything that the next steps depend on."""
        if self.directory is None:
            return None
        state = {
            "settings": self._identity(),
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "proxy": self.proxy.state_dict(),
            "n_executions": self.vector_env.n_executions,
        }
        return save_checkpoint(self.directory, self.next_step, state, keep=self.settings.keep_checkpoints)

    def resume(self) -> int:
        """Go on from the newest complete checkpoint, if there is one. Returns the next step's number.

        The reference policy stays the one given at construction, so construct with the run's initial policy.

        Raises:
            ValueError: if the checkpoint belongs to other settings or tasks.
        """
        path = None if self.directory is None else latest_checkpoint(self.directory)
        if path is None:
            return self.next_step
        state = load_checkpoint(path)
        if state["settings"] != self._identity():
            raise ValueError(
                f"{path} was written with other settings or tasks; only algorithm.steps and the checkpoint settings may "
                "change in mid-run. Start a new run, or resume with the run's own configuration."
            )
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.proxy.load_state_dict(state["proxy"])
        self.vector_env.n_executions = int(state["n_executions"])
        self.next_step = int(state["step"])
        return self.next_step

    def _identity(self) -> str:
        free = ("steps", "checkpoint_every", "keep_checkpoints")
        settings = {name: value for name, value in asdict(self.settings).items() if name not in free}
        return fingerprint((settings, self.tasks))
