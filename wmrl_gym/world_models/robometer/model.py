"""Robometer's judgement of the executed frames, in place of the simulator's verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from wmrl_gym.core import Outcome, Submission, WorldModelError
from wmrl_gym.world_models.progress_reduction import Reducer, check_reducer, reduce_progress
from wmrl_gym.world_models.robometer.clip import Clip, Orientation, UnusableSubmission, clip_of
from wmrl_gym.world_models.robometer.reading import Reading


class Transport(Protocol):
    """How clips reach a model."""

    def score(self, clips: Sequence[Clip]) -> list[Reading]:
        """One reading per clip, in order. Raises if the model as a whole is down."""
        ...

    def health(self) -> dict[str, Any]:
        """What is known of the model's state. Raises if it is down."""
        ...

    def provenance(self) -> dict[str, Any]:
        """Which model answers, at least its "model"."""
        ...


class RobometerWorldModel:
    """Scores an episode by the progress that Robometer sees in its frames.

    Robometer (arXiv 2603.02115) is a video-language model that tells for each frame how far the task is done. It judges
    what was executed: it spares the verdict, not the simulation. Submissions need ``content["frames"]``, uint8 of shape
    (T, H, W, 3), and ``context["instruction"]``.

    A submission that cannot be shown, or whose answer is unusable, has the score None, and the reason in its feedback.
    A model that is down raises: that stops the run.

    Implements `wmrl_gym.core.WorldModel`.

    Args:
        transport: how the model is reached: `HTTPTransport` or `LeRobotTransport`.
        frames: frames shown at most, the first and the last always, the others evenly between.
        reducer: how the progress of the frames becomes one score; see `reduce_progress`.
        window: frames at each end that the reducer "potential" takes.
        orientation: how the model expects its frames, named by what was done to the camera's raw image. Robometer was
            trained on LIBERO's flipped vertically. A model that is shown the world upside down still answers.
        given_orientation: how the submissions' frames are.
        max_unscored: submissions in a row without a score after which `predict` raises: then it is not the submissions.

    Raises:
        ValueError: for settings that make no sense.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        frames: int = 8,
        reducer: Reducer = "potential",
        window: int = 3,
        orientation: Orientation = "flip_vertical",
        given_orientation: Orientation = "flip_vertical",
        max_unscored: int = 32,
    ) -> None:
        check_reducer(reducer, window)
        if frames < 2 or max_unscored < 1:
            raise ValueError(f"frames={frames}, max_unscored={max_unscored}: give at least 2 frames, and 1 submission")
        self.transport = transport
        self.frames, self.reducer, self.window = frames, reducer, window
        self.orientation, self.given_orientation = orientation, given_orientation
        self.max_unscored = max_unscored
        self._unscored = 0

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """One outcome per submission, in order.

        Raises:
            WorldModelError: if the model is down, answers with another number of readings, or has scored nothing for
                long.
        """
        started = time.perf_counter()
        clips: dict[int, Clip] = {}
        problems: dict[int, str] = {}
        for i, submission in enumerate(submissions):
            try:
                clips[i] = clip_of(submission, self.frames, self.given_orientation, self.orientation)
            except UnusableSubmission as error:
                problems[i] = str(error)
        readings = self._readings(list(clips.values()))
        by_index = dict(zip(clips, readings, strict=True))
        provenance = self.transport.provenance() if clips else {}
        seconds = (time.perf_counter() - started) / max(len(submissions), 1)
        outcomes = []
        for i in range(len(submissions)):
            reading = by_index.get(i) or Reading(None, problem=problems[i])
            outcomes.append(self._outcome(clips.get(i), reading, provenance, seconds))
        self._note_unscored(outcomes)
        return outcomes

    def health(self) -> dict[str, Any]:
        """What is known of the model's state.

        Raises:
            WorldModelError: if it is down.
        """
        return self.transport.health()

    def _readings(self, clips: list[Clip]) -> list[Reading]:
        readings = self.transport.score(clips) if clips else []
        if len(readings) != len(clips):
            raise WorldModelError(
                f"{type(self.transport).__name__} gave {len(readings)} readings of {len(clips)} clips: "
                "it must give one each, in order"
            )
        return readings

    def _outcome(self, clip: Clip | None, reading: Reading, provenance: dict[str, Any], seconds: float) -> Outcome:
        details: dict[str, Any] = {"reducer": self.reducer, "orientation": self.orientation, **provenance}
        score, problem = None, reading.problem
        if clip is not None and reading.progress is not None:
            details |= {"frames": clip.indices, "progress": reading.progress, "success": reading.success}
            score = reduce_progress(reading.progress, reading.success, self.reducer, self.window)
            problem = "" if score is not None else "the model gave no probability of success"
        if score is None:
            return Outcome(None, "unknown", problem, "world_model", seconds, {**details, "problem": problem})
        return Outcome(score, "predicted", "", "world_model", seconds, details)

    def _note_unscored(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._unscored = self._unscored + 1 if outcome.score is None else 0
            if self._unscored >= self.max_unscored:
                raise WorldModelError(
                    f"Robometer has given no score to {self._unscored} submissions in a row; the last one: "
                    f"{outcome.feedback}\n"
                    "  See what is wrong with the model or the submissions, or allow more with max_unscored."
                )
