"""Recording of scripted demonstrations: one camera image per environment step, as LIBERO's own have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wmrl_gym.envs.libero.demonstrations import Demonstration
from wmrl_gym.envs.libero.initial_states import InitialStates
from wmrl_gym.envs.libero.jobs import WAIT, Job, JobResult, View
from wmrl_gym.envs.libero.pool import SimulatorPool
from wmrl_gym.envs.libero.scripted_control import ScriptedController, script_for
from wmrl_gym.envs.libero.tasks import instruction, parse_task, task_names

SETTLE_STEPS = 10
IMAGE_SIZE = 128
"""As in LIBERO's own files."""


def record_demonstration(
    pool: SimulatorPool,
    suite: str,
    task: str,
    state_id: int,
    *,
    seed: int = 0,
    aim: float = 0.0,
    speed: tuple[float, float] = (1.0, 1.0),
    noise: float = 0.0,
    hesitation: float = 0.0,
    horizon: int = 120,
    cameras: Sequence[str] = ("agentview",),
    image_size: int = IMAGE_SIZE,
) -> Demonstration | None:
    """Let a scripted controller do a task once.

    Args:
        pool: simulates.
        suite: of the task.
        task: its name or index.
        state_id: which of LIBERO's given initial states.
        seed: of the demonstrator's errors.
        aim: standard deviation in metres by which it aims badly, along each axis, for the whole demonstration.
        speed: smallest and largest of the largest action, from which one is drawn.
        noise: standard deviation of the error of each action.
        hesitation: probability with which a stretch of actions is done slowly (`ScriptedController`).
        horizon: environment steps after which it is given up.
        cameras: look at every step.
        image_size: height and width in pixels.

    Returns:
        The demonstration, or None if the goal was not reached.

    Raises:
        ValueError: if there is no such task, or no script for it.
    """
    reference, _ = parse_task(task, suite)
    name = task_names(suite)[reference.index]
    rng = np.random.default_rng([seed, reference.index, state_id])
    view = View(tuple(cameras), image_size, "raw")
    settling = np.tile(np.array(WAIT), (SETTLE_STEPS, 1))
    start = InitialStates(suite).of(reference)[state_id]
    now = pool.submit(Job(reference, start, settling, view, stop_at_success=False, is_privileged=True)).result()
    assert now.privileged is not None
    controller = ScriptedController(
        script_for(name),
        now.privileged,
        aim=aim * rng.standard_normal(3),
        speed=float(rng.uniform(*speed)),
        noise=noise,
        hesitation=hesitation,
        rng=rng,
    )
    seen: list[JobResult] = []
    actions = []
    for _ in range(horizon):
        seen.append(now)
        actions.append(controller.act(now.robot_state[:3]))
        step = np.asarray(actions[-1:], np.float64)
        now = pool.submit(Job(reference, now.snapshot, step, view, is_privileged=True)).result()
        if now.successes[-1]:
            break
    else:
        return None
    return Demonstration(
        instruction=instruction(reference),
        images={camera: np.stack([result.frames[camera] for result in seen]) for camera in cameras},
        robot_states=np.stack([result.robot_state for result in seen]),
        joints=np.stack([result.privileged.arm for result in seen if result.privileged is not None]),
        states=np.stack([result.privileged.initial_state for result in seen if result.privileged is not None]),
        actions=np.stack(actions),
    )
