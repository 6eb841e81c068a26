"""Episodes of several turns inside TRL's `GRPOTrainer`: our rollout plays them with TRL's model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from wmrl_gym.algorithms.rollout import GroupPlan, collect
from wmrl_gym.core import ChunkPolicy, Decision, Group, Policy, Trajectory
from wmrl_gym.integrations.group_scoring import GroupScoring
from wmrl_gym.integrations.trl.scorer import Evaluation, Scores, TRLScorer
from wmrl_gym.integrations.trl.settings import refuse_rollout_settings
from wmrl_gym.proxy.reward_proxy import RewardProxy
from wmrl_gym.proxy.vector_env import RewardProxyVectorEnv

FIELD = "wmrl_advantage"
TRAINING, EVALUATION = 0, 1
"""Streams of random numbers."""


class TRLRollout(TRLScorer):
    """Plays the episodes of a generation batch and gives TRL tokens, masks and finished advantages.

    Give it to ``GRPOTrainer(rollout_func=rollout, reward_funcs=rollout.reward, model=policy.model)`` with
    ``GRPOConfig(scale_rewards="none")``, and the trainer to `attach`. The data set's "prompt" is a task's name, for TRL
    tells a rollout nothing else. Episodes are those that one process would play, whatever the number of processes.

    TRL learns from the tokens that the policy chose, and from no others: not from what the environment said, what was
    forced, or what belongs to actions that were never taken.

    In an evaluation it returns plain scores, learns nothing, and does not count as a step.

    Args:
        policy: plays, with the model that TRL trains.
        vector_env: plays, with the world model and the executor inside. With fewer environments than episodes, groups
            are played one after the other.
        scoring: the proxy, or a `GroupScoring` around it for other advantages.
        reset_options: options of `reset` that begin an episode of a task; default none, for environments of one task.
        seed: of the episodes.
        evaluation: whether an evaluation executes everything, or predicts and calibrates everything.

    Raises:
        ImportError: if TRL is not installed.
        ValueError: if there is neither a world model nor execution for some group.
    """

    def __init__(
        self,
        policy: Policy,
        vector_env: RewardProxyVectorEnv,
        scoring: GroupScoring | RewardProxy,
        *,
        reset_options: Callable[[str], Mapping[str, Any]] | None = None,
        seed: int = 0,
        evaluation: Evaluation = "executed",
    ) -> None:
        super().__init__(scoring, vector_env.world_model, evaluation)
        if not hasattr(policy, "model"):
            raise TypeError(
                f"a {type(policy).__name__} has no model of its own that TRL could train: use a CausalLMPolicy"
            )
        self.policy: Any = policy
        self.vector_env = vector_env
        self.reset_options = reset_options
        self.seed = seed
        self.reward: Callable[..., list[float | None]] = _HandBack(self)
        """The reward function of the trainer."""
        self.groups: list[Group] = []
        """The groups that this process played last."""
        self._new_metrics: dict[str, float] = {}
        self._evaluated = 0

    def _reward_function(self) -> Callable[..., Any]:
        return self.reward

    def _check(self, trainer: Any) -> None:
        super()._check(trainer)
        refuse_rollout_settings(trainer, self, self.vector_env.num_envs, self.policy)

    def _evaluation_ends(self) -> None:
        self._evaluated = 0

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """What TRL calls: play this process's part of a batch.

        Args:
            prompts: names of tasks, each repeated as often as its group has episodes.
            trainer: the one that it is attached to.

        Returns:
            TRL's "prompt_ids", "completion_ids", "logprobs" and "env_mask", and the advantages.

        Raises:
            ValueError: if a prompt is no task's name, or a group straddles processes.
            ExecutorError: if executions failed too often in a row.
            WorldModelError: if the world model fails.
        """
        if trainer is not self.trainer:
            raise ValueError("this TRLRollout is attached to another trainer: make one for each")
        play = self._train if self.is_training else self._evaluate  # asked first: playing is in evaluation mode
        with self._at_play():
            return play(prompts)

    @contextmanager
    def _at_play(self) -> Iterator[None]:
        """Without dropout and the like, and on the device where TRL has put the model."""
        model = self.policy.model
        if hasattr(self.policy, "device"):
            self.policy.device = next(model.parameters()).device
        was_training = model.training
        model.eval()
        try:
            yield
        finally:
            model.train(was_training)

    def _train(self, prompts: Sequence[Any]) -> dict[str, list[Any]]:
        n = self.trainer.num_generations
        tasks = [task for part in self._from_all(lambda: _tasks(prompts, n)) for task in part]
        options = self._options(tasks)
        keys = [f"{g}:{task}" for g, task in enumerate(tasks)]
        draw = self.scoring.draw(keys)
        plans = [
            GroupPlan(key, task, bool(anchor), float(p), n, given)
            for key, task, anchor, p, given in zip(keys, tasks, draw.is_anchor, draw.propensity, options, strict=True)
        ]
        count = len(prompts) // n
        first = self.rank * count

        sequences: list[_Sequence] = []

        def play() -> tuple[list[list[Scores]], dict[str, Any]]:
            self.groups = self._play(plans[first : first + count], plans[:first], TRAINING, self.scoring.step)
            sequences.extend(self._sequences(self.groups))
            return [_scores(group) for group in self.groups], self._memory()

        parts = self._from_all(play)
        self._memories = [memory for _, memory in parts]
        scores = [row for rows, _ in parts for row in rows]
        step = self._score(keys, draw, scores)
        self._new_metrics = self._metrics(scores, draw.is_anchor) | self._episode_metrics()
        advantages = [a for row in step.advantages[first : first + count] for a in row]
        return _for_trl(sequences, advantages)

    def _evaluate(self, prompts: Sequence[Any]) -> dict[str, list[Any]]:
        """Every evaluation draws from the same streams, and from others than training."""
        is_executed = self.evaluation == "executed"

        groups: list[Group] = []
        sequences: list[_Sequence] = []

        def play() -> int:
            tasks = _tasks(prompts, 1)
            plans = [
                GroupPlan(str(i), task, is_executed, 1.0, 1, given)
                for i, (task, given) in enumerate(zip(tasks, self._options(tasks), strict=True))
            ]
            before = self._evaluated + self.rank * len(prompts)
            groups.extend(self._play(plans, [GroupPlan("", "", False, 0.0, 1)] * before, EVALUATION, 0))
            sequences.extend(self._sequences(groups))
            return len(groups)

        with self._forgetting():
            self._evaluated += sum(self._from_all(play))
        trajectories = [group.trajectories[0] for group in groups]
        calibrate = self.scoring.proxy.calibrate
        scores = [t.executed_score if is_executed else calibrate(t.predicted_score) for t in trajectories]
        return _for_trl(sequences, scores)

    def _options(self, tasks: Sequence[str]) -> list[Mapping[str, Any]]:
        """Options of `reset` for each task."""
        if self.reset_options is not None:
            return [self.reset_options(task) for task in tasks]
        if len(set(tasks)) > 1:
            raise ValueError(
                f"the data set names several tasks ({', '.join(sorted(set(tasks))[:3])}), but nothing tells the "
                "environment which one to play: give reset_options, for example lambda task: {'competition': task}"
            )
        return [{} for _ in tasks]

    def _play(self, plans: Sequence[GroupPlan], before: Sequence[GroupPlan], stream: int, step: int) -> list[Group]:
        """As many groups at the same time as there are environments for."""
        at_once = max(1, self.vector_env.num_envs // max((plan.size for plan in plans), default=1))
        groups: list[Group] = []
        for start in range(0, len(plans), at_once):
            groups += collect(
                self.policy,
                self.vector_env,
                plans[start : start + at_once],
                seed=self.seed,
                step=step,
                temperature=self.trainer.args.temperature,
                stream=stream,
                before=[*before, *plans[:start]],
            )
        return groups

    def _episode_metrics(self) -> dict[str, float]:
        trajectories = [trajectory for group in self.groups for trajectory in group.trajectories]
        turns = sum(len(trajectory.turns) for trajectory in trajectories)
        gave_up = sum("gave_up" in trajectory.final_info for trajectory in trajectories)
        return {"wmrl/turns": turns / len(trajectories), "wmrl/gave_up": gave_up / len(trajectories)}

    def _sequences(self, groups: Sequence[Group]) -> list[_Sequence]:
        tokenizer = getattr(self.trainer.processing_class, "tokenizer", self.trainer.processing_class)
        return [_sequence(t, self.policy, tokenizer.eos_token_id) for group in groups for t in group.trajectories]


class _HandBack:
    """The reward function: what the rollout found, for TRL forms advantages from nothing else."""

    __name__ = "wmrl"

    def __init__(self, rollout: TRLRollout) -> None:
        self.rollout = rollout

    def __call__(self, *, log_metric: Callable[[str, float], None] | None = None, **columns: Any) -> list[float | None]:
        if FIELD not in columns:
            raise RuntimeError(
                "the episodes were not played by the TRLRollout that this reward function belongs to: give GRPOTrainer "
                "both, rollout_func=rollout and reward_funcs=rollout.reward, and call rollout.attach(trainer)"
            )
        if log_metric is not None and self.rollout.is_training:
            for name, value in self.rollout._new_metrics.items():
                log_metric(name, value)
        return list(columns[FIELD])


@dataclass
class _Sequence:
    """An episode as TRL trains on it: what opened it, then answers (mask 1) and what was said between (mask 0)."""

    prompt_ids: list[int]
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)

    def add(self, token_ids: Sequence[int], log_probs: Sequence[float], mask: Sequence[int]) -> None:
        self.token_ids += token_ids
        self.log_probs += log_probs
        self.mask += mask


def _for_trl(sequences: Sequence[_Sequence], values: Sequence[float | None]) -> dict[str, list[Any]]:
    return {
        "prompt_ids": [sequence.prompt_ids for sequence in sequences],
        "completion_ids": [sequence.token_ids for sequence in sequences],
        "logprobs": [sequence.log_probs for sequence in sequences],
        "env_mask": [sequence.mask for sequence in sequences],
        FIELD: list(values),
    }


def _sequence(trajectory: Trajectory, policy: Any, filler: int) -> _Sequence:
    decisions = [turn.decision for turn in trajectory.turns]
    sequence = _Sequence(decisions[0].prompt_ids.tolist() if decisions else [filler])
    for turn, decision in enumerate(decisions):
        known = sequence.prompt_ids + sequence.token_ids
        prompt = decision.prompt_ids.tolist()
        if prompt[: len(known)] != known:
            raise ValueError(
                f"the prompt of turn {turn + 1} does not begin with the conversation before it: "
                f"{type(policy).__name__} rewrites earlier turns, and TRL trains on one sequence per episode"
            )
        said = prompt[len(known) :]
        sequence.add(said, [0.0] * len(said), [0] * len(said))
        sequence.add(decision.token_ids.tolist(), decision.log_probs.tolist(), _learned(decision, policy))
    if not sequence.token_ids:  # gave up before its first turn; TRL needs a token, and learns nothing from this one
        sequence.add([filler], [0.0], [0])
    return sequence


def _learned(decision: Decision, policy: Any) -> list[int]:
    """1 for tokens that the policy chose and that had an effect, as in `Policy.log_probs`."""
    taken = policy.tokens_taken(decision) if isinstance(policy, ChunkPolicy) else len(decision.token_ids)
    forced = [False] * len(decision.token_ids) if decision.forced is None else decision.forced.tolist()
    return [int(i < taken and not is_forced) for i, is_forced in enumerate(forced)]


def _scores(group: Group) -> list[Scores]:
    return [(trajectory.predicted_score, trajectory.executed_score) for trajectory in group.trajectories]


def _tasks(prompts: Sequence[Any], n: int) -> list[str]:
    """The task of each group.

    Raises:
        ValueError: if prompts are no names, or do not come in groups of n.
    """
    for prompt in prompts:
        if not isinstance(prompt, str):
            raise ValueError(
                f"a prompt is a {type(prompt).__name__}: for TRLRollout the data set's 'prompt' is a task's name, and "
                "the environment says the rest"
            )
    if len(prompts) % n or any(prompts[i] != prompts[i - i % n] for i in range(len(prompts))):
        raise ValueError(
            f"the {len(prompts)} prompts of this process are no whole groups of num_generations ({n}): a group is "
            "played in one process, so make per_device_train_batch_size x steps_per_generation a multiple of "
            "num_generations"
        )
    return list(prompts[::n])
