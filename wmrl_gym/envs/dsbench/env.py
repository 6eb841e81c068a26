"""DSBench's data-modelling tasks as a Gymnasium environment: MLE-Dojo's, with other data and other grading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from wmrl_gym.core import DataFolder, Measure
from wmrl_gym.envs.dsbench.task import DSBenchTask, default_data_root, shared_task, task_parts
from wmrl_gym.envs.mle_dojo.competition import Competition, CompetitionError
from wmrl_gym.envs.mle_dojo.env import MLEDojoEnv
from wmrl_gym.envs.mle_dojo.grading import Grade
from wmrl_gym.envs.mle_dojo.runner import CompetitionRunner


@dataclass
class DSBenchRunner(CompetitionRunner):
    """The true outcome of a submission to a task; see `CompetitionRunner`.

    ``score`` is "percentile" (MLE-Dojo's leaderboards), "relative_gap" (DSBench's own measure, at most 1) or "raw". A
    valid outcome's details hold "relative_gap" in any case, and "percentile" where there is a leaderboard.
    """

    score_kinds: ClassVar[tuple[str, ...]] = ("percentile", "relative_gap", "raw")

    def available(self) -> list[str]:
        """Names of the tasks whose data lie in the data root.

        Raises:
            CompetitionError: if there are none.
        """
        root = default_data_root() if self.data_root is None else Path(self.data_root).expanduser()
        lying = sorted(folder.name for folder in (root / "data" / "data_resplit").glob("*"))
        names = [name for name in lying if all((root / part).exists() for part in task_parts(name))]
        if not names:
            raise CompetitionError(
                f"no competition is named, and no task of DSBench lies in {root}\n"
                "  docs/evaluation.md says how to get them."
            )
        return names

    def competition(self, name: str) -> DSBenchTask:
        """The task of that name, loaded once per process."""
        return shared_task(self.data_root, name, self.competitions_dir, needs_leaderboard=self.score == "percentile")

    def quality(self, competition: Competition, grade: Grade) -> float | None:
        """What a valid submission is scored by, in [0, 1]."""
        if self.score == "relative_gap":
            return min(1.0, grade.details["relative_gap"])
        return super().quality(competition, grade)

    def data_folders(self, names: Sequence[str]) -> list[DataFolder]:
        """What is read of these tasks, to bring it to another machine."""
        root = default_data_root() if self.data_root is None else Path(self.data_root).expanduser()
        parts = tuple(part for name in names for part in task_parts(name))
        return [DataFolder("data_root", root, parts), *super().data_folders(names)[1:]]

    def details(self, grade: Grade | None) -> dict[str, Any]:
        """Numbers of a submission for the record; None where there are none."""
        return {"relative_gap": None, **super().details(grade)}


class DSBenchEnv(MLEDojoEnv):
    """One of DSBench's data-modelling tasks, or one of several, played in up to `max_turns` turns.

    Observations, actions, rewards, the end and the info are `MLEDojoEnv`'s, as are all arguments, but for these:

    Args:
        competition: name of a task, or several; None: all whose data are there.
        data_root: DSBench's folder ``data_modeling`` with its archives unpacked. Default: $WMRL_DSBENCH_ROOT, else
            ``~/.cache/wmrl_gym/dsbench``.
        score: "percentile" of MLE-Dojo's leaderboards, which `competitions_dir` or an installed MLE-Dojo holds;
            "relative_gap" for DSBench's own measure; or "raw".
        competitions_dir: ``mledojo/competitions`` of a check-out of MLE-Dojo, with its leaderboards. Default: the
            installed package's.
    """

    measures: ClassVar[tuple[Measure, ...]] = (
        *MLEDojoEnv.measures,
        Measure("relative_gap", is_share=True, is_graded=True),
    )
    runner_class = DSBenchRunner
