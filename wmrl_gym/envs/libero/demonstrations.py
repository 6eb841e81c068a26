"""Demonstrations in LIBERO's own HDF5 format: written, and read as examples for behaviour cloning.

One file holds one task: ``data/demo_<i>/actions`` (T, 7), ``states``, ``robot_states``, ``rewards``, ``dones``, and
``obs/agentview_rgb``, ``obs/eye_in_hand_rgb``, ``obs/ee_states``, ``obs/gripper_states``, ``obs/joint_states``; the
instruction is in the attribute ``problem_info`` of ``data`` (scripts/create_dataset.py of
Lifelong-Robot-Learning/LIBERO). Two things about these files are easy to get wrong, so both are settings here:

- Images are stored as the renderer gave them, upside down.
- The observation of row i was made *after* action i, so what it should be answered with is action i + 1. Files that
  were regenerated for OpenVLA, and those written here, hold what was seen *before* the action.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.envs.libero.jobs import Orientation

if TYPE_CHECKING:
    import h5py

Observation = dict[str, Any]
Seen = Literal["before_action", "after_action"]
SEEN_ATTRIBUTE = "observations_seen"
DATASETS = {"agentview": "agentview_rgb", "robot0_eye_in_hand": "eye_in_hand_rgb"}
NO_OP_THRESHOLD = 1e-4
_SCENE = re.compile(r"^[A-Z_]+_SCENE\d+_")


@dataclasses.dataclass(frozen=True, eq=False)
class Demonstration:
    """One successful episode; row i of everything is from before action i."""

    instruction: str
    images: dict[str, NDArray[np.uint8]]
    """Per camera, as the renderer gave them (upside down), shape (T, H, W, 3)."""
    robot_states: NDArray[np.float32]
    """End effector's position (m), axis-angle (rad), positions of the fingers (m), shape (T, 8)."""
    joints: NDArray[np.float64]
    """Angles of the arm's joints, rad, shape (T, 7)."""
    states: NDArray[np.float64]
    """The simulator's (time, qpos, qvel), flattened, shape (T, 1 + nq + nv)."""
    actions: NDArray[np.float32]
    """The environment's, gripper -1 (open) or +1 (close), shape (T, 7)."""


def write_demonstrations(path: str | Path, demonstrations: Sequence[Demonstration], env_name: str = "") -> None:
    """Write demonstrations of one task.

    Args:
        path: the file, usually "<task>_demo.hdf5".
        demonstrations: at least one.
        env_name: name of the problem's class in LIBERO, noted in the file.

    Raises:
        ValueError: if there are none, or they are of more than one instruction.
    """
    instructions = {demonstration.instruction for demonstration in demonstrations}
    if len(instructions) != 1:
        raise ValueError(f"a file holds the demonstrations of one task, these are of {sorted(instructions)}")
    with _h5py().File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["problem_info"] = json.dumps({"language_instruction": instructions.pop()})
        data.attrs["env_name"] = env_name
        data.attrs["macros_image_convention"] = "opengl"
        data.attrs["num_demos"] = len(demonstrations)
        data.attrs["total"] = sum(len(demonstration.actions) for demonstration in demonstrations)
        data.attrs[SEEN_ATTRIBUTE] = "before_action"
        for index, demonstration in enumerate(demonstrations):
            _write_one(data.create_group(f"demo_{index}"), demonstration)


def _write_one(group: h5py.Group, demonstration: Demonstration) -> None:
    robot, count = demonstration.robot_states.astype(np.float64), len(demonstration.actions)
    last = np.zeros(count, np.uint8)
    last[-1] = 1
    group.attrs["num_samples"] = count
    group.attrs["init_state"] = demonstration.states[0]
    group["actions"] = demonstration.actions.astype(np.float64)
    group["states"] = demonstration.states
    group["robot_states"] = np.hstack([robot[:, 6:], robot[:, :3], _quaternions(robot[:, 3:6])])
    group["rewards"], group["dones"] = last, last
    seen = group.create_group("obs")
    for camera, images in demonstration.images.items():
        seen.create_dataset(
            DATASETS[camera], data=images, compression="gzip", compression_opts=4, chunks=(1, *images.shape[1:])
        )
    seen["ee_states"], seen["ee_pos"], seen["ee_ori"] = robot[:, :6], robot[:, :3], robot[:, 3:6]
    seen["gripper_states"], seen["joint_states"] = robot[:, 6:], demonstration.joints


def _quaternions(axis_angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """(x, y, z, w) of rotations given as axis times angle, shape (T, 4)."""
    angles = np.linalg.norm(axis_angles, axis=1, keepdims=True)
    # sin(angle / 2) / angle, which tends to 1/2 at no rotation.
    return np.hstack([axis_angles * 0.5 * np.sinc(angles / (2 * np.pi)), np.cos(angles / 2)])


def is_no_op(actions: NDArray[np.floating], threshold: float = NO_OP_THRESHOLD) -> NDArray[np.bool_]:
    """Which actions neither move the arm nor change the gripper's command.

    Policies cloned from them learn to stand still, so OpenVLA's regenerated data sets leave them out (they also replay
    the others in the simulator; here the recorded rows are kept as they are).

    Args:
        actions: shape (T, 7).
        threshold: a norm of the first six numbers below it is no movement.
    """
    still = np.linalg.norm(actions[:, :6], axis=1) < threshold
    unchanged = np.concatenate([[True], actions[1:, 6] == actions[:-1, 6]])
    return cast("NDArray[np.bool_]", still & unchanged)


@dataclasses.dataclass(frozen=True)
class _Row:
    file: int
    demonstration: str
    """Name of its group, "demo_<i>"."""
    seen: int
    """Row of what was seen."""
    answers: tuple[int, ...]
    """Rows of the actions that answer it."""


class DemonstrationExamples(Sequence[tuple[Observation, NDArray[np.float32]]]):
    """Examples for behaviour cloning: (observation, chunk of actions), read from the files when they are asked for.

    Observations are those of `LIBEROLongEnv`. A chunk that reaches beyond the demonstration's end is filled with its
    last action.

    Args:
        paths: HDF5 files, or folders that hold them (``*.hdf5``).
        chunk: actions per example, n; None for one without the leading axis.
        cameras: which images an observation has.
        orientation: how images are turned; see `LIBEROLongEnv`.
        seen: whether rows hold what was seen before or after their action. None: as the file says, and if it says
            nothing, "after_action" as in LIBERO's own files; give "before_action" for OpenVLA's regenerated ones.
        drop_no_ops: leave out rows whose action does nothing.
        demonstrations: how many of each file, the first ones; None for all.

    Raises:
        ImportError: if h5py is missing.
        FileNotFoundError: if there are no files.
        ValueError: for a file of another format.
    """

    def __init__(
        self,
        paths: str | Path | Sequence[str | Path],
        chunk: int | None = None,
        cameras: Sequence[str] = ("agentview",),
        orientation: Orientation = "flip_vertical",
        seen: Seen | None = None,
        drop_no_ops: bool = False,
        demonstrations: int | None = None,
    ) -> None:
        self.paths = _files([paths] if isinstance(paths, str | Path) else paths)
        self.chunk, self.cameras, self.orientation = chunk, tuple(cameras), orientation
        self.instructions: list[str] = []
        self._rows: list[_Row] = []
        for number, path in enumerate(self.paths):
            with _h5py().File(path, "r") as file:
                data = _data(file, path)
                self.instructions.append(instruction_of(data, path))
                stored = seen or data.attrs.get(SEEN_ATTRIBUTE, "after_action")
                names = sorted(data, key=lambda name: int(name.removeprefix("demo_")))[:demonstrations]
                for name in names:
                    self._rows += self._examples(number, name, np.asarray(data[name]["actions"]), stored, drop_no_ops)

    def _examples(
        self, file: int, name: str, actions: NDArray[np.float64], stored: str, drop_no_ops: bool
    ) -> Iterable[_Row]:
        kept = np.flatnonzero(~is_no_op(actions)) if drop_no_ops else np.arange(len(actions))
        for place, row in enumerate(kept):
            seen = int(row) - (stored == "after_action")
            answers = kept[np.minimum(np.arange(place, place + (self.chunk or 1)), len(kept) - 1)]
            if seen >= 0:
                yield _Row(file, name, seen, tuple(int(answer) for answer in answers))

    def __len__(self) -> int:
        """How many examples there are."""
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        """(observation, actions of shape (n, 7)) of an index; a list of these of a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = self._rows[index]
        group = self._open[row.file]["data"][row.demonstration]
        seen = group["obs"]
        observation: Observation = {
            f"{camera}_image": self._turned(seen[DATASETS[camera]][row.seen]) for camera in self.cameras
        }
        parts = [seen["ee_states"][row.seen], seen["gripper_states"][row.seen]]
        observation |= {
            "state": np.concatenate(parts).astype(np.float32),
            "instruction": self.instructions[row.file],
        }
        actions = np.asarray(group["actions"])[list(row.answers)].astype(np.float32)
        return observation, actions if self.chunk is not None else actions[0]

    def _turned(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        if self.orientation == "flip_vertical":
            image = image[::-1]
        elif self.orientation == "rotate_180":
            image = image[::-1, ::-1]
        return np.ascontiguousarray(image)

    @cached_property
    def _open(self) -> list[Any]:
        return [_h5py().File(path, "r") for path in self.paths]


def instruction_of(data: h5py.Group, path: Path) -> str:
    """The instruction of a file: what it notes, or else what LIBERO makes of its name."""
    noted = json.loads(str(data.attrs.get("problem_info", "{}"))).get("language_instruction")
    if noted:
        return str(noted).strip('"') if isinstance(noted, str) else " ".join(noted)
    return _SCENE.sub("", path.stem.removesuffix("_demo")).replace("_", " ")


def _files(paths: Sequence[str | Path]) -> list[Path]:
    given = [Path(path).expanduser() for path in paths]
    found = [file for path in given for file in (sorted(path.glob("*.hdf5")) if path.is_dir() else [path])]
    if missing := [str(path) for path in found if not path.is_file()]:
        raise FileNotFoundError(f"no such demonstrations: {', '.join(missing)}")
    if not found:
        raise FileNotFoundError(f"no HDF5 files of demonstrations in {', '.join(map(str, given)) or 'an empty list'}")
    return found


def _data(file: h5py.File, path: Path) -> h5py.Group:
    data = file.get("data")
    wrong = data is None or not len(data) or any(not name.startswith("demo_") for name in data)
    if wrong or any("actions" not in data[name] or "obs" not in data[name] for name in data):
        raise ValueError(
            f"{path} is no file of demonstrations in LIBERO's format: data/demo_0/actions and obs are needed"
        )
    if data.attrs.get("macros_image_convention", "opengl") != "opengl":
        raise ValueError(
            f"{path} holds images of the convention {data.attrs['macros_image_convention']!r}, not 'opengl'"
        )
    return data


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise ImportError("demonstrations are HDF5 files: pip install 'wmrl-gym[libero]' for h5py") from error
    return h5py
