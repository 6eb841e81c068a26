"""LIBERO-Long as a Gymnasium environment: a policy moves an arm, a simulator says whether it succeeded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from wmrl_gym.core import ExpensiveRewardEnv, Measure, Outcome, Submission
from wmrl_gym.envs.libero import sharing
from wmrl_gym.envs.libero.episode import Episode
from wmrl_gym.envs.libero.initial_states import InitialStates, load_initial_states
from wmrl_gym.envs.libero.jobs import CAMERAS, Job, JobResult, Orientation, View
from wmrl_gym.envs.libero.pool import SimulatorError
from wmrl_gym.envs.libero.tasks import LIBERO_LONG, TaskReference, instruction, parse_task, task_names
from wmrl_gym.envs.libero.verdicts import VERDICTS
from wmrl_gym.envs.libero.versions import installed_versions
from wmrl_gym.envs.unicode_text import UnicodeText

Observation = dict[str, Any]
ScoreKind = Literal["success", "progress"]
MAX_INSTRUCTION_CHARS = 500


class LIBEROLongEnv(ExpensiveRewardEnv[Observation, NDArray[np.float32]]):
    """Long manipulation tasks of LIBERO, for a Panda arm under operational-space control at 20 Hz.

    ## Observation
    A dictionary: ``"<camera>_image"``, uint8 of shape (H, W, 3), per camera; ``"state"``, float32 of shape (8,): the
    end effector's position (m), its axis-angle (rad) and the positions of the two fingers (m); ``"instruction"``, text.

    ## Action
    Float32 in [-1, 1], of shape (7,), or (chunk, 7) to take several in a row: displacement and rotation of the end
    effector, and the gripper (-1 opens, +1 closes). A chunk ends early at success and at the horizon. Cameras look
    once, at its end.

    ## Reward
    0 until the episode is over, then its score: 1 if the goal was reached, else 0 (or the share of the goal's
    predicates that hold, with ``score="progress"``). NaN if the score is unknown.

    ## End
    *Terminated* at success, which counts as soon as it is reached once; *truncated* after `horizon` environment steps,
    or if the simulator failed for good.

    ## Submission
    The finished episode, as ``{"frames": uint8 of shape (T, H, W, 3)}``: what the first camera saw at the beginning and
    after each action. Its context is public: "instruction", "suite", "init_state_id", "initial_states", "versions",
    "score" (the setting), and "simulation", a digest of where the episode began and of all its actions. `execute` gives
    the simulator's verdict.

    ## Info
    "task", "init_state_id", "goal_progress" (share of the goal's predicates), "success", "steps" (environment steps so
    far), and after an action "actions_used": how many of its chunk were taken. If the simulator failed for good, even
    after it was restarted, "outcome" has no score and the status "simulator_error".

    Args:
        task: names of the tasks this environment may play, or their indices as text, each with an initial state if it
            is to be a certain one ("3@12"). None: all of the suite.
        suite: "libero_10", or another suite of ten like "libero_10_swap".
        chunk: environment actions per action; None for one, without the leading axis.
        horizon: environment steps after which an episode is truncated.
        settle_steps: environment steps before the episode begins, in which objects come to rest.
        cameras: which cameras look; may be none.
        image_size: height and width in pixels.
        orientation: how images are turned; LIBERO's own ("raw") are upside down.
        score: "success" or "progress".
        reveal_goal_progress: whether world models may read the goal's progress per frame ("goal_progress").
        init_states: indices of the initial states that may be drawn; None for all. One that is named may be any.
        init_state_file: initial states other than LIBERO's, see `perturbation`.
        workers: simulator processes, shared by all environments with the same settings; about 2 GB of memory each.
        timeout: seconds after which a simulator that does not answer is replaced.
        tasks_per_worker: simulators a process keeps loaded.
        ray: to simulate on the machines of a Ray cluster: settings of `RayExecutor` by name, for example
            ``{"address": "auto"}``; then `workers` are over all machines. None: here.
        render_mode: "rgb_array" to get the newest image from `render`.

    Raises:
        ImportError: if LIBERO is not installed.
        UnsupportedSimulator: if it is, with a simulator whose results are not comparable.
        ValueError: for settings that make no sense.
    """

    measures = (
        Measure("success", is_share=True),
        Measure("progress", is_share=True),
        Measure("goal_progress", is_share=True),
    )
    executes_anywhere = False
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 - Gymnasium's declaration

    def __init__(
        self,
        task: str | Sequence[str] | None = None,
        suite: str = LIBERO_LONG,
        chunk: int | None = None,
        horizon: int = 520,
        settle_steps: int = 10,
        cameras: Sequence[str] = ("agentview",),
        image_size: int = 224,
        orientation: Orientation = "flip_vertical",
        score: ScoreKind = "success",
        reveal_goal_progress: bool = False,
        init_states: Sequence[int] | None = None,
        init_state_file: str | Path | None = None,
        workers: int = 2,
        timeout: float = 120.0,
        tasks_per_worker: int = 2,
        ray: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Check the settings; simulators begin with the first reset."""
        _check_settings(chunk, horizon, settle_steps, cameras, image_size, orientation, score, render_mode)
        sharing.check_ray(ray)
        self.versions = installed_versions()
        self.suite, self.chunk, self.horizon, self.settle_steps = suite, chunk, horizon, settle_steps
        self.view = View(tuple(cameras), image_size, orientation)
        self.score_kind, self.reveal_goal_progress, self.render_mode = score, reveal_goal_progress, render_mode
        names = task_names(suite) if task is None else [task] if isinstance(task, str) else list(task)
        self._tasks = [parse_task(name, suite) for name in names]
        if not self._tasks:
            raise ValueError("env.task names no task: give at least one, or null for all")
        self.initial_states = (
            InitialStates(suite) if init_state_file is None else load_initial_states(init_state_file, suite)
        )
        self.init_states = None if init_states is None else [int(index) for index in init_states]
        self.observation_space = _observation_space(self.view)
        self.action_space = Box(-1.0, 1.0, (7,) if chunk is None else (chunk, 7), np.float32)
        self._pool_settings = (workers, timeout, tasks_per_worker, ray)
        self._simulators: sharing.Simulators | None = None
        self._episode: Episode | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode. Where it begins follows from the seed and the options alone.

        Args:
            seed: draws the task and the initial state, where the options leave them open.
            options: "task" (a name or an index, as in "3" or "3@12") and "init_state_id".

        Raises:
            SimulatorError: if no simulator could be brought up.
            ValueError: for a task that this environment does not play, or an initial state that does not exist.
        """
        super().reset(seed=seed)
        task, state_id = self._choose(options or {})
        states = self.initial_states.of(task)
        if not 0 <= state_id < len(states):
            raise ValueError(f"task {task.index} has initial states 0 to {len(states) - 1}, and no {state_id}")
        if self._simulators is None:
            self._simulators = sharing.join(*self._pool_settings)
        if self._episode is not None:
            self._episode.abandon()
        begun = self._simulators.settled.settle(task, states[state_id], self.settle_steps, self.view).result()
        self._episode = Episode(task, task_names(self.suite)[task.index], state_id, begun)
        return self._observation(self._episode), self._episode.info()

    def prepare(self, action: NDArray[np.float32]) -> None:
        """Begin to simulate an action that will be submitted next, without waiting for it."""
        self._begin(self._playing("prepare"), action)

    def submit(self, action: NDArray[np.float32]) -> Submission | None:
        """Simulate an action; return the finished episode if it is over with it."""
        episode = self._playing("submit")
        if episode.has_submitted:
            raise gym.error.Error("submit: the last action was not advanced yet; call advance first")
        try:
            result = self._begin(episode, action).result()
        except SimulatorError as error:
            episode.failure, episode.actions_used = str(error), 0
        else:
            episode.take_in(result, self.view)
        episode.pending, episode.has_submitted = None, True
        if episode.failure is not None or not (episode.success or episode.steps >= self.horizon):
            return None
        submission = self._submission(episode)
        VERDICTS.record(submission, self._verdict(episode))
        episode.is_submitted = True
        # Ten megabytes that are in the submission now; this object lives until the next reset.
        episode.frames = []
        return submission

    def execute(self, submission: Submission) -> Outcome:
        """The simulator's verdict on an episode that was simulated in this process; an unknown score for any other."""
        return VERDICTS.find(submission)

    def advance(self, outcome: Outcome | None) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Show what the last action led to."""
        episode = self._playing("advance")
        if not episode.has_submitted:
            raise gym.error.Error("advance: no action was submitted since the last one; call submit first")
        if episode.is_submitted and outcome is None:
            raise gym.error.Error("advance: the finished episode needs an outcome; execute or predict it first")
        episode.has_submitted = False
        info = episode.info() | {"actions_used": episode.actions_used}
        if episode.failure is not None:
            outcome = Outcome(None, "simulator_error", source="environment", details={"error": episode.failure})
            info["outcome"] = outcome
        episode.over = episode.is_submitted or episode.failure is not None
        reward = 0.0 if not episode.over else math.nan if outcome is None or outcome.score is None else outcome.score
        terminated = episode.success and episode.failure is None
        return self._observation(episode), float(reward), terminated, episode.over and not terminated, info

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        """The newest image of the first camera; None unless the mode is "rgb_array" and there is one."""
        if self.render_mode != "rgb_array" or self._episode is None or not self.view.cameras:
            return None
        return self._episode.images[self.view.cameras[0]].copy()

    def close(self) -> None:
        """Leave the simulators, which stop when nobody uses them any more."""
        if self._simulators is not None:
            sharing.leave(self._simulators)
            self._simulators = None
        if self._episode is not None:
            self._episode.abandon()
            self._episode = None

    def _choose(self, options: Mapping[str, Any]) -> tuple[TaskReference, int]:
        named = options.get("task")
        if named is None:
            task, state_id = self._tasks[int(self.np_random.integers(len(self._tasks)))]
        else:
            task, state_id = parse_task(str(named), self.suite)
            if task not in {known for known, _ in self._tasks}:
                known = ", ".join(str(index) for index in sorted({known.index for known, _ in self._tasks}))
                raise ValueError(f"this environment does not play task {named!r}; it was made with the tasks {known}")
        given = options.get("init_state_id")
        if given is not None:
            if named is not None and state_id not in (None, int(given)):
                raise ValueError(f"options name task {named!r} and init_state_id {given}: give one initial state")
            return task, int(given)
        if state_id is None:
            drawable = self.init_states if self.init_states is not None else range(len(self.initial_states.of(task)))
            state_id = int(drawable[int(self.np_random.integers(len(drawable)))])
        return task, state_id

    def _begin(self, episode: Episode, action: NDArray[np.float32]) -> Future[JobResult]:
        actions = np.asarray(action, np.float64)
        if actions.shape != self.action_space.shape or not np.isfinite(actions).all():
            raise gym.error.InvalidAction(
                f"the action has shape {actions.shape}: give finite numbers of shape {self.action_space.shape}"
            )
        actions = actions.reshape(-1, 7)[: self.horizon - episode.steps]
        if episode.pending is None or not np.array_equal(episode.pending[0], actions):
            episode.abandon()
            assert self._simulators is not None
            job = Job(episode.task, episode.snapshot, actions, self.view)
            episode.pending = (actions, self._simulators.pool.submit(job))
        return episode.pending[1]

    def _playing(self, method: str) -> Episode:
        if self._episode is None or self._episode.over:
            raise gym.error.ResetNeeded(f"{method}: the episode has ended or not begun; call reset first")
        return self._episode

    def _observation(self, episode: Episode) -> Observation:
        images = {f"{camera}_image": episode.images[camera].copy() for camera in self.view.cameras}
        return images | {"state": episode.robot_state.copy(), "instruction": instruction(episode.task)}

    def _submission(self, episode: Episode) -> Submission:
        context: dict[str, Any] = {
            "instruction": instruction(episode.task),
            "suite": self.suite,
            "init_state_id": episode.state_id,
            "initial_states": self.initial_states.name,
            "versions": self.versions,
            "simulation": episode.digest,
            # What the verdict is about, and so part of the key under which it is found.
            "score": self.score_kind,
        }
        if self.reveal_goal_progress:
            context["goal_progress"] = tuple(episode.progress)
        size = self.view.size if self.view.cameras else 0
        frames = (
            np.stack(episode.frames) if episode.frames else np.zeros((len(episode.progress), size, size, 3), np.uint8)
        )
        return Submission(episode.name, {"frames": frames}, context)

    def _verdict(self, episode: Episode) -> Outcome:
        score = 1.0 if episode.success else episode.progress[-1] if self.score_kind == "progress" else 0.0
        return Outcome(
            score,
            "success" if episode.success else "failure",
            seconds=episode.seconds,
            details={
                "goal_progress": episode.progress[-1],
                "steps": episode.steps,
                "init_state_id": episode.state_id,
                "initial_states": self.initial_states.name,
                "versions": self.versions,
            },
        )


def _observation_space(view: View) -> gym.spaces.Dict:
    images = {f"{camera}_image": Box(0, 255, (view.size, view.size, 3), np.uint8) for camera in view.cameras}
    return gym.spaces.Dict(
        {**images, "state": Box(-np.inf, np.inf, (8,), np.float32), "instruction": UnicodeText(MAX_INSTRUCTION_CHARS)}
    )


def _check_settings(
    chunk: int | None,
    horizon: int,
    settle_steps: int,
    cameras: Sequence[str],
    image_size: int,
    orientation: str,
    score: str,
    render_mode: str | None,
) -> None:
    least = {"chunk": (1 if chunk is None else chunk, 1), "horizon": (horizon, 1)}
    least |= {"settle_steps": (settle_steps, 0), "image_size": (image_size, 16)}
    for name, (value, minimum) in least.items():
        if value < minimum:
            raise ValueError(f"env.{name} is {value}: give at least {minimum}")
    choices: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "orientation": (orientation, get_args(Orientation)),
        "score": (score, get_args(ScoreKind)),
        "render_mode": (render_mode, (None, "rgb_array")),
    }
    choices |= {f"cameras[{i}]": (camera, CAMERAS) for i, camera in enumerate(cameras)}
    for name, (value, allowed) in choices.items():
        if value not in allowed:
            raise ValueError(f"env.{name} is {value!r}: choose one of {', '.join(map(repr, allowed))}")
