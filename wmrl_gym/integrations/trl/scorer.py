"""What one and several turns inside TRL have in common: attaching to a trainer, many processes, metrics, resuming."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from transformers.trainer_callback import ExportableState, TrainerCallback

from wmrl_gym.core import Stateful, WorldModel, WorldModelError
from wmrl_gym.integrations.group_scoring import GroupScoring, StepAdvantages
from wmrl_gym.integrations.trl.settings import refuse_settings, require_trl
from wmrl_gym.proxy.anchoring import AnchorDraw
from wmrl_gym.proxy.reward_proxy import RewardProxy

Evaluation = Literal["executed", "predicted"]
Scores = tuple[float | None, float | None]
"""Predicted and executed score of one episode."""
Played = TypeVar("Played")
STEPS_WITHOUT_PREDICTION = 3
"""So many generation batches in a row without a single predicted score stop a run that has a world model."""


class TRLScorer(ABC):
    """The proxy's side of a `trl.GRPOTrainer`.

    Every process holds the same proxy, draws the same anchors, plays and executes its own part, and learns from the
    scores of all. What one generation batch of TRL produces is one step of the proxy.
    """

    def __init__(self, scoring: GroupScoring | RewardProxy, world_model: WorldModel | None, evaluation: Evaluation):
        require_trl()
        if evaluation not in get_args(Evaluation):
            raise ValueError(f"evaluation is {evaluation!r}: choose 'executed' or 'predicted'")
        self.scoring = scoring if isinstance(scoring, GroupScoring) else GroupScoring(scoring)
        fraction = self.scoring.proxy.anchors.fraction
        if world_model is None and (fraction < 1 or evaluation == "predicted"):
            raise ValueError(
                f"there is no world model, but anchors.fraction is {fraction} and evaluation {evaluation!r}: give a "
                "world model, or execute everything (fraction 1, evaluation 'executed')"
            )
        self.world_model = world_model
        self.evaluation = evaluation
        self.last_step: StepAdvantages | None = None
        """What the newest generation batch was worth, the groups of all processes in order."""
        self._trainer: Any = None
        self._memories: list[dict[str, Any]] | None = None
        self._steps_without_prediction = 0

    # ---- The trainer ---------------------------------------------------------------------------------------------

    def attach(self, trainer: Any) -> Any:
        """Check a trainer's settings and put the proxy's state into its checkpoints. Call it before `train`.

        Returns:
            The trainer.

        Raises:
            ValueError: if a setting would change or ignore what the proxy decides; names them all.
        """
        if self._trainer is not None:
            raise ValueError("this object is attached to a trainer already: make one for each trainer")
        self._check(trainer)
        _require_json(self.state_dict())
        self._trainer = trainer
        trainer.add_callback(_state_callback(self))
        return trainer

    @property
    def trainer(self) -> Any:
        """The trainer that it is attached to.

        Raises:
            RuntimeError: if there is none.
        """
        if self._trainer is None:
            raise RuntimeError(
                f"this {type(self).__name__} is attached to no trainer: call its attach(trainer) before trainer.train()"
                "\n  Without it no setting was checked, and checkpoints would not hold the proxy's state."
            )
        return self._trainer

    @property
    def is_training(self) -> bool:
        """Whether TRL asks for training, not for evaluation. TRL itself tells them apart like this."""
        return bool(self.trainer.model.training)

    @abstractmethod
    def _reward_function(self) -> Callable[..., Any]:
        """What the trainer must have as its only reward function."""

    def _check(self, trainer: Any) -> None:
        refuse_settings(trainer, self._reward_function())

    def _begin(self, trainer_state: Any) -> None:
        """Training begins: settings may have been changed since, and a resumed run goes on with its own proxy."""
        self._check(self.trainer)
        if trainer_state.global_step:
            saved = trainer_state.stateful_callbacks.get(CALLBACK)
            if saved is None:
                raise ValueError(
                    f"the checkpoint of step {trainer_state.global_step} holds no state of the reward proxy\n"
                    f"  looked for: {CALLBACK} among stateful_callbacks in its trainer_state.json\n"
                    "  It was written by a trainer that was not attached. A proxy that begins anew would weigh and "
                    "correct as if nothing had been executed: resume from another checkpoint, or start a new run."
                )
            self.load_state_dict(saved["attributes"]["saved"])

    def _evaluation_ends(self) -> None:  # noqa: B027 - nothing to do unless overridden
        """An evaluation is over."""

    # ---- Many processes ------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """This process among `n_processes`."""
        return int(self.trainer.accelerator.process_index)

    @property
    def n_processes(self) -> int:
        """How many processes train together."""
        return int(self.trainer.accelerator.num_processes)

    def _from_all(self, play: Callable[[], Played]) -> list[Played]:
        """What each process played, in order of their ranks. Where one fails all do, or the others would wait."""
        from accelerate.utils import gather_object

        failure: Exception | None = None
        part: Played | None = None
        try:
            part = play()
        except Exception as error:
            failure = error
        said = None if failure is None else f"{type(failure).__name__}: {failure}"
        told = gather_object([(part, said)])
        if failure is not None:
            raise failure
        for rank, (_, message) in enumerate(told):
            if message is not None:
                raise RuntimeError(f"process {rank} failed, so this one stops too: {message}")
        return [part for part, _ in told]

    # ---- A step of the proxy -------------------------------------------------------------------------------------

    def _score(self, keys: Sequence[str], draw: AnchorDraw, scores: Sequence[Sequence[Scores]]) -> StepAdvantages:
        """Advantages of all groups of a generation batch, the same in every process."""
        predicted = [[score for score, _ in row] for row in scores]
        executed = [[score for _, score in row] for row in scores]
        self._require_predictions(predicted)
        self.last_step = self.scoring.score(keys, draw.is_anchor, predicted, executed, draw.propensity)
        return self.last_step

    def _require_predictions(self, predicted: Sequence[Sequence[float | None]]) -> None:
        """Stop where a world model goes on answering and never knows: the executed groups alone would train on."""
        known = self.world_model is None or any(score is not None for row in predicted for score in row)
        self._steps_without_prediction = 0 if known else self._steps_without_prediction + 1
        if self._steps_without_prediction >= STEPS_WITHOUT_PREDICTION:
            raise WorldModelError(
                f"in {self._steps_without_prediction} generation batches no episode had a predicted score\n"
                "  Mend the world model, or resume later from the last checkpoint."
            )

    def _metrics(self, scores: Sequence[Sequence[Scores]], is_anchor: Any) -> dict[str, float]:
        """What to watch of the newest step; names and meanings are those of `rollout_metrics`. Unknown is left out."""
        if self.last_step is None:
            return {}
        scored = self.last_step.scored
        rewards = [reward for row in scored.rewards for reward in row if reward is not None]
        kept = [row for row, dropped in zip(scored.rewards, scored.dropped, strict=True) if not dropped]
        pairs = [pair for row in scores for pair in row]
        metrics: dict[str, float | None] = {
            "reward": _mean(rewards),
            "predicted_score": _mean([predicted for predicted, _ in pairs if predicted is not None]),
            "executed_score": _mean([executed for _, executed in pairs if executed is not None]),
            "executed_share": _mean(np.asarray(is_anchor, float).tolist()),
            "unscored": 1.0 - len(rewards) / len(pairs),
            "flat_groups": _mean([float(np.ptp([r for r in row if r is not None]) < 1e-9) for row in kept]),
            "dropped_groups": float(scored.dropped.sum()),
            **{f"proxy/{name}": value for name, value in scored.metrics.items()},
        }
        return {f"wmrl/{name}": float(value) for name, value in metrics.items() if value is not None}

    # ---- State ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The proxy's state, and what the world model of each process remembers; plain data."""
        return {"scoring": self.scoring.state_dict(), "world_models": self._memories or [self._memory()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            ValueError: if it is of another version, or of a proxy built otherwise.
        """
        self.scoring.load_state_dict(state["scoring"])
        self._memories = list(state["world_models"])
        # With another number of processes no memory is anybody's own.
        self._remember(self._memories[self.rank if len(self._memories) == self.n_processes else 0])

    def _memory(self) -> dict[str, Any]:
        return self.world_model.state_dict() if isinstance(self.world_model, Stateful) else {}

    def _remember(self, memory: Mapping[str, Any]) -> None:
        if memory and isinstance(self.world_model, Stateful):
            self.world_model.load_state_dict(memory)

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        """What the world model learns inside the block it forgets: an evaluation leaves no trace in training."""
        memory = self._memory()
        try:
            yield
        finally:
            self._remember(memory)


CALLBACK = "WMRLState"


def _state_callback(scorer: TRLScorer) -> TrainerCallback:
    """A callback that makes the scorer's state part of the trainer's own, `trainer_state.json`.

    So it is found wherever a checkpoint is resumed from: a trainer does not tell its callbacks that folder. The class
    is made here because transformers may build its callbacks anew, from nothing but their class.
    """

    class WMRLState(TrainerCallback, ExportableState):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            scorer._begin(state)

        def on_predict(self, args: Any, state: Any, control: Any, metrics: Any, **kwargs: Any) -> None:
            scorer._evaluation_ends()

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            scorer._evaluation_ends()

        def state(self) -> dict[str, Any]:
            return {"args": {}, "attributes": {"saved": scorer.state_dict()}}

    return WMRLState()


def _require_json(state: Mapping[str, Any]) -> None:
    try:
        json.dumps(state)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the state cannot be written into TRL's checkpoints, which are JSON: {error}\n"
            "  A world model with a memory must return plain numbers, texts, lists and dicts from state_dict."
        ) from error


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
