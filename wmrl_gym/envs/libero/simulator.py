"""One task's simulator, in this process: begins, steps, looks, and can be left at any time and taken up again."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.envs.libero import snapshot as snapshots
from wmrl_gym.envs.libero.jobs import Job, JobResult, Orientation, Privileged, Rearrangement
from wmrl_gym.envs.libero.snapshot import Snapshot
from wmrl_gym.envs.libero.tasks import TaskReference, bddl_file

PLACEMENT_SEED = 0
"""Seeds the placement of furniture, as published evaluations do: a given initial state leaves it open."""


class SimulationDiverged(RuntimeError):
    """MuJoCo found a number that is not one and began from scratch: what follows is not this episode."""


class Simulator:
    """LIBERO's environment for one task, without cameras: images are rendered only when they are asked for.

    Args:
        task: which.
    """

    def __init__(self, task: TaskReference) -> None:
        from libero.libero.envs.env_wrapper import ControlEnv

        self.task = task
        # LIBERO's placement draws from NumPy's global generator, here and in the reset.
        np.random.seed(PLACEMENT_SEED)  # noqa: NPY002
        self._wrapper = ControlEnv(
            bddl_file_name=str(bddl_file(task)),
            use_camera_obs=False,
            has_offscreen_renderer=False,
            hard_reset=False,
            # The horizon is the environment's business, and an episode may be taken up again anywhere.
            ignore_done=True,
        )
        self._env = self._wrapper.env
        _forget_sources()
        # Measurements are read from the simulation when they are wanted, not 25 times a step.
        for name in self._env.observation_names:
            self._env.modify_observable(name, "enabled", False)
        self._wrapper.seed(PLACEMENT_SEED)
        self._wrapper.reset()
        self._fresh = snapshots.take(self._env)

    def run(self, job: Job) -> JobResult:
        """Do a job.

        Raises:
            SimulationDiverged: if the simulation became unstable.
            ValueError: if the actions are not (n, 7).
        """
        began, cpu_began = time.perf_counter(), time.process_time()
        if job.actions.ndim != 2 or job.actions.shape[1] != len(self._env.action_spec[0]):
            raise ValueError(f"actions have shape {job.actions.shape}: give (n, {len(self._env.action_spec[0])})")
        if job.view.cameras and self._env.sim._render_context_offscreen is None:
            # Before the steps, not after them: it computes places anew, and the image would be two milliseconds ahead.
            self._open_renderer()
        self._go_to(job.start)
        if isinstance(job.start, Snapshot) and not len(job.actions):
            # What is seen must be of this state. Computing it moves the solver's warm start, which is put back.
            self._env.sim.forward()
            snapshots.restore(self._env, job.start)
        if job.rearrangement is not None:
            self._rearrange(job.rearrangement)
        successes: list[bool] = []
        for action in job.actions:
            self._env.step(action)
            successes.append(bool(self._env._check_success()))
            if job.stop_at_success and successes[-1]:
                break
        self._check_stability()
        return JobResult(
            snapshot=snapshots.take(self._env),
            successes=tuple(successes),
            predicates=self.predicates(),
            robot_state=self.robot_state(),
            frames={name: self.render(name, job.view.size, job.view.orientation) for name in job.view.cameras},
            seconds=time.perf_counter() - began,
            cpu_seconds=time.process_time() - cpu_began,
            privileged=self._privileged() if job.is_privileged else None,
        )

    def _go_to(self, start: Snapshot | NDArray[np.float64]) -> None:
        if isinstance(start, Snapshot):
            snapshots.restore(self._env, start)
        else:
            # A reset that does not build everything anew leaves the gripper's action as it was; this leaves nothing.
            snapshots.restore(self._env, self._fresh)
            self._wrapper.set_init_state(np.asarray(start, np.float64))
        self._env.sim.data._data.warning.number[:] = 0

    def _rearrange(self, change: Rearrangement) -> None:
        data = self._env.sim.data
        for name, pose in change.objects.items():
            joint = self._env.objects_dict[name].joints[-1]
            data.set_joint_qpos(joint, np.asarray(pose, np.float64))
            data.set_joint_qvel(joint, np.zeros(6))
        if change.arm is not None:
            robot = self._env.robots[0]
            data.qpos[robot._ref_joint_pos_indexes] = change.arm
            data.qvel[robot._ref_joint_vel_indexes] = 0.0
        self._env.sim.forward()

    def _check_stability(self) -> None:
        warnings = self._env.sim.data._data.warning.number
        import mujoco

        kinds = (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)
        if any(warnings[kind] for kind in kinds):
            raise SimulationDiverged(f"MuJoCo's simulation of task {self.task.index} became unstable")

    def predicates(self) -> tuple[bool, ...]:
        """Which of the goal's predicates hold."""
        return tuple(bool(self._env._eval_predicate(goal)) for goal in self._env.parsed_problem["goal_state"])

    def robot_state(self) -> NDArray[np.float32]:
        """End effector's position, axis-angle and fingers' positions, shape (8,): what LIBERO's policies are fed."""
        from robosuite.utils.transform_utils import convert_quat, quat2axisangle

        robot, data = self._env.robots[0], self._env.sim.data
        quaternion = convert_quat(data.get_body_xquat(robot.robot_model.eef_name), to="xyzw")
        fingers = [data.qpos[index] for index in robot._ref_gripper_joint_pos_indexes]
        parts = [data.site_xpos[robot.eef_site_id], quat2axisangle(quaternion), fingers]
        return np.concatenate(parts).astype(np.float32)

    def render(self, camera: str, size: int, orientation: Orientation) -> NDArray[np.uint8]:
        """An image of the state as the last step left it, shape (size, size, 3)."""
        sim = self._env.sim
        # Several simulators of a process each have a context of their own.
        sim._render_context_offscreen.gl_ctx.make_current()
        # Lights and burners follow from the state, and are brought up to date here for a state just restored.
        self._wrapper._post_process()
        image = sim.render(camera_name=camera, width=size, height=size)
        if orientation == "flip_vertical":
            image = image[::-1]
        elif orientation == "rotate_180":
            image = image[::-1, ::-1]
        return np.ascontiguousarray(image)

    def _open_renderer(self) -> None:
        from robosuite.utils.binding_utils import MjRenderContextOffscreen

        # Without multisampling an image costs half as much and looks the same. The context reads it when it is made.
        self._env.sim.model._model.vis.quality.offsamples = 0
        context = MjRenderContextOffscreen(self._env.sim, device_id=-1)
        # robosuite's defaults: visual meshes, no collision meshes.
        context.vopt.geomgroup[0], context.vopt.geomgroup[1] = 0, 1

    def _privileged(self) -> Privileged:
        env, data = self._env, self._env.sim.data

        def pose(name: str) -> NDArray[np.float64]:
            body = env.obj_body_id[name]
            return np.concatenate([data.body_xpos[body], data.body_xquat[body]])

        flat: Any = env.sim.get_state().flatten()
        flat[0] = 0.0
        return Privileged(
            initial_state=np.array(flat, np.float64),
            arm=np.array(data.qpos[env.robots[0]._ref_joint_pos_indexes], np.float64),
            objects={name: pose(name) for name in env.objects_dict},
            radii={name: float(thing.horizontal_radius) for name, thing in env.objects_dict.items()},
            furniture={name: pose(name) for name in env.fixtures_dict if name in env.obj_body_id},
            sites={name: np.array(data.get_site_xpos(name), np.float64) for name in env.object_sites_dict},
        )

    def close(self) -> None:
        """Free the simulation and its renderer."""
        self._wrapper.close()


def _forget_sources() -> None:
    """Compile an empty model, so that MuJoCo lets go of the sources of the last one: half a gigabyte of textures."""
    import mujoco

    mujoco.MjModel.from_xml_string("<mujoco/>")
