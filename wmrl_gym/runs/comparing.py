"""Arms of an experiment side by side, over seeds.

The arms take turns in one process: each trains a slice of steps, writes a checkpoint, and leaves the machine to the
next one. So a machine that grows slower or faster treats them alike, and only one run works at any time. Every slice
makes its run anew out of its folder, as ``wmrl train resume=`` does; nothing of one arm lives on into another's turn.
One process rather than one per slice, because a killed comparison then leaves no child that goes on working, and
because imports and the warm sandbox, which all arms share, are paid for once and not in every slice.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Mapping
from typing import Any

from wmrl_gym.configs.validation import ConfigError
from wmrl_gym.core import fingerprint
from wmrl_gym.runs.arms import Plan
from wmrl_gym.runs.output_folder import make_output_folder
from wmrl_gym.runs.records.differences import differences
from wmrl_gym.runs.records.metrics import read_metrics
from wmrl_gym.runs.records.run_directory import RunDirectory
from wmrl_gym.runs.time_left import time_left
from wmrl_gym.runs.training import RunProgress, Silence, TrainingRun, check


class Comparison:
    """All runs of a comparison, under way.

    Args:
        plan: what is compared.
        progress: makes what is told of a run's stages and steps, from arm, seed and number of steps.
        on_turn: called before an arm's turn with arm, seed, first and last step of the turn (from 1), the number of
            steps, and about how many seconds the whole will still take (None before anything is known).
    """

    def __init__(
        self,
        plan: Plan,
        progress: Callable[[str, int, int], RunProgress] = lambda arm, seed, steps: Silence(),
        on_turn: Callable[[str, int, int, int, int, float | None], None] = lambda *turn: None,
    ) -> None:
        self.plan, self.progress, self.on_turn = plan, progress, on_turn
        self.directories = {key: RunDirectory(plan.folder / f"{key[0]}-s{key[1]}") for key in plan.runs}

    def check(self) -> None:
        """Refuse what would fail late, and make the folder.

        Raises:
            ConfigError: if a run's folder is there with other settings, or an arm cannot be run.
        """
        self._refuse_other_settings()
        for arm in self.plan.arms:
            config = self.plan.config(arm, self.plan.settings.seeds[0])
            check(config)
            if not self.run(arm, self.plan.settings.seeds[0]).domain.held_out:
                raise ConfigError(f"arm '{arm}' has no held-out tasks: there is nothing to compare, set tasks.held_out")
        make_output_folder(self.plan.folder, "folder")

    def train(self, on_seed: Callable[[], None] = lambda: None) -> None:
        """Run what is missing, seed by seed.

        Args:
            on_seed: called when all arms have finished a seed of which something was missing.

        Raises:
            StopRequested: if the user asked for an end; the same comparison goes on from there.
            RunInUse: if another process works on the comparison.
        """
        self.check()
        with RunDirectory(self.plan.folder).lock():
            for seed in self.plan.settings.seeds:
                if self._run_seed(seed):
                    on_seed()

    def run(self, arm: str, seed: int) -> TrainingRun:
        """The run of an arm with a seed."""
        return TrainingRun(self.plan.config(arm, seed), self.directories[arm, seed])

    def finished_seeds(self) -> list[int]:
        """Seeds that all arms have finished."""
        plan = self.plan
        return [seed for seed in plan.settings.seeds if all(self.is_finished(arm, seed) for arm in plan.arms)]

    def _refuse_other_settings(self) -> None:
        for key, directory in self.directories.items():
            if not directory.config_file.is_file():
                continue
            found = list(differences(_comparable(directory.config()), _comparable(self.plan.runs[key])))
            if found:
                shown = "\n    ".join(found[:10] + ([f"and {len(found) - 10} more"] if len(found) > 10 else []))
                raise ConfigError(
                    f"{directory.path} was run with other settings:\n    {shown}\n"
                    "  ask for the same ones to go on, or give another folder: folder=runs/..."
                )

    def _run_seed(self, seed: int) -> bool:
        """Advance all arms of a seed, slice by slice, to their ends. Returns whether anything was left to do."""
        did_something = False
        turn = 0
        while waiting := [arm for arm in self.plan.arms if not self.is_finished(arm, seed)]:
            # Another arm begins each round, so that none always has the warm machine, or the cold one.
            first = turn % len(waiting)
            for arm in [*waiting[first:], *waiting[:first]]:
                self._slice(arm, seed)
            did_something, turn = True, turn + 1
        return did_something

    def _slice(self, arm: str, seed: int) -> None:
        """One arm's turn: the steps up to the end of its slice, and the evaluations that are due."""
        config = self.plan.config(arm, seed)
        directory = RunDirectory.at(self.directories[arm, seed].path, seed, self.plan.runs[arm, seed])
        self._share_first_evaluation(arm, seed)
        settings = config.algorithm.build()
        done = len(read_metrics(directory.metrics_file))
        length = self.plan.settings.slice or config.evaluation.every or settings.steps
        end = min((done // length + 1) * length, settings.steps)
        left = time_left(self.plan, self.directories)
        self.on_turn(arm, seed, done + 1, end, settings.steps, left)
        run = TrainingRun(config, directory)
        run.train(self.progress(arm, seed, settings.steps), end)
        # Model, optimiser and environments hang together in cycles: what is over must not fill the next one's memory.
        del run
        gc.collect()

    def _share_first_evaluation(self, arm: str, seed: int) -> None:
        """Take over what another arm's evaluation before training has found, if it would be the same episodes."""
        directory, config = self.directories[arm, seed], self.plan.runs[arm, seed]
        if (directory.path / "before.json").is_file():
            return
        for other in self.plan.arms:
            there = self.directories[other, seed].read_json("before.json")
            same = _first_evaluation(config) == _first_evaluation(self.plan.runs[other, seed])
            if other != arm and there is not None and same:
                directory.write_json("before.json", {**there, "shared_by": there.get("shared_by", other)})
                return

    def is_finished(self, arm: str, seed: int) -> bool:
        """Whether an arm's run with this seed is trained and evaluated."""
        return (self.directories[arm, seed].path / "after.json").is_file()


def _comparable(config: Mapping[str, Any]) -> dict[str, Any]:
    """A run's settings as they come back from its folder, without those that do not change what it does."""
    return {key: value for key, value in json.loads(json.dumps(config)).items() if key != "runs"}


def _first_evaluation(config: Mapping[str, Any]) -> str:
    """What the evaluation before training depends on: the agent, what it plays, and by what it is measured."""
    evaluation = {name: config["evaluation"][name] for name in ("samples", "temperature")}
    tasks = {name: value for name, value in config["tasks"].items() if name not in ("train", "categories")}
    return fingerprint((config["policy"], config["env"], tasks, evaluation, config["seed"]))
