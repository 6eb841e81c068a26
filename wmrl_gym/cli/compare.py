"""``wmrl compare``: arms of an experiment side by side, over seeds.

The arms take turns in one process: each trains a slice of steps, writes a checkpoint, and leaves the machine to the
next one. So a machine that grows slower or faster treats them alike, and only one run works at any time. Every slice
makes its run anew out of its folder, as ``wmrl train resume=`` does; nothing of one arm lives on into another's turn.
One process rather than one per slice, because a killed comparison then leaves no child that goes on working, and
because imports and the warm sandbox, which all arms share, are paid for once and not in every slice.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from wmrl_gym.cli.compare_progress import SliceDisplay, time_left
from wmrl_gym.cli.train import Run, check
from wmrl_gym.configs.validation import ConfigError
from wmrl_gym.core import fingerprint
from wmrl_gym.reporting.comparison import compare_arms
from wmrl_gym.reporting.comparison_curve import Curve, read_curve
from wmrl_gym.reporting.comparison_plot import plot
from wmrl_gym.reporting.comparison_text import latex, markdown, to_data
from wmrl_gym.reporting.progress import duration
from wmrl_gym.runs.arms import Plan
from wmrl_gym.runs.assembly import prepare_torch
from wmrl_gym.runs.output_folder import make_output_folder
from wmrl_gym.runs.records.differences import differences
from wmrl_gym.runs.records.metrics import read_metrics
from wmrl_gym.runs.records.run_directory import DamagedRun, RunDirectory, write_atomically
from wmrl_gym.runs.stopping import StopRequested


def compare(plan: Plan, command: str) -> int:
    """Run what is missing of a comparison, and write its report after each seed. Returns the exit code.

    Args:
        plan: the arms and the configuration of each run.
        command: how the user asked for it, for the report.

    Raises:
        ConfigError: if a run's folder is there with other settings, or an arm cannot be run; nothing is run then.
    """
    return Comparing(plan, command).go()


class Comparing:
    """A comparison under way.

    Args:
        plan: what is compared.
        command: for the report.
    """

    def __init__(self, plan: Plan, command: str) -> None:
        self.plan, self.command = plan, command
        self.console = Console()
        self.directories = {key: RunDirectory(plan.folder / f"{key[0]}-s{key[1]}") for key in plan.runs}

    def go(self) -> int:
        """Run, report, and return the exit code."""
        self._refuse_other_settings()
        for arm in self.plan.arms:
            config = self.plan.config(arm, self.plan.settings.seeds[0])
            check(config)
            if not Run(config, self.directories[arm, self.plan.settings.seeds[0]]).domain.held_out:
                raise ConfigError(f"arm '{arm}' has no held-out tasks: there is nothing to compare, set tasks.held_out")
        make_output_folder(self.plan.folder, "folder")
        seeds = ", ".join(map(str, self.plan.settings.seeds))
        self._say(f"comparison: {self.plan.folder}; arms: {', '.join(self.plan.arms)}; seeds: {seeds}")
        try:
            with RunDirectory(self.plan.folder).lock():
                for seed in self.plan.settings.seeds:
                    if self._run_seed(seed):
                        self._report()
                self._report(show=True)
        except (KeyboardInterrupt, StopRequested):
            self._say("stopped; the same command goes on")
            return 130
        return 0

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
        while waiting := [arm for arm in self.plan.arms if not self._is_finished(arm, seed)]:
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
        self._say(
            f"== {arm}, seed {seed}: steps {done + 1} to {end} of {settings.steps}"
            + ("" if left is None else f"; about {duration(left)} left of the whole")
        )
        prepare_torch(config.threads, scripts_beside=config.execution.mode == "async")
        run = Run(config, directory)
        run.advance(SliceDisplay(self.console, arm, seed, settings.steps), end)
        if end == settings.steps:
            run.table(settings).write(directory)
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

    def _is_finished(self, arm: str, seed: int) -> bool:
        directory = self.directories[arm, seed].path
        return (directory / "after.json").is_file() and (directory / "table.json").is_file()

    def _report(self, show: bool = False) -> None:
        """Write the comparison of the seeds that all arms have finished."""
        plan = self.plan
        finished = [s for s in plan.settings.seeds if all(self._is_finished(arm, s) for arm in plan.arms)]
        if not finished:
            return
        curves: dict[str, dict[int, Curve]] = {
            arm: {seed: self._curve(arm, seed) for seed in finished} for arm in plan.arms
        }
        comparison = compare_arms(curves, plan.reference, level=plan.settings.level, resamples=plan.settings.resamples)
        score = plan.config(plan.arms[0], finished[0]).tasks.measure
        text = markdown(comparison, f"Comparison {plan.folder.name}", score, self.command)
        write_atomically(plan.folder / "comparison.md", text)
        write_atomically(plan.folder / "comparison.tex", latex(comparison, score))
        data = {"command": self.command, "score": score, "overrides": plan.overrides, **to_data(comparison)}
        write_atomically(plan.folder / "comparison.json", json.dumps(data, indent=2))
        written = "comparison.md, .json, .tex"
        try:
            plot(comparison, plan.folder / "comparison.svg", score)
            written += " and .svg"
        except ImportError as error:
            self._say(f"no plot: {error}")
        if show:
            self._say(text)
        self._say(f"wrote {written} in {plan.folder}; seeds: {', '.join(map(str, finished))}")

    def _curve(self, arm: str, seed: int) -> Curve:
        settings = self.plan.config(arm, seed).algorithm.build()
        directory = self.directories[arm, seed]
        curve = read_curve(directory, settings.groups_per_step * settings.group_size)
        if curve is None:
            raise DamagedRun(
                f"'{directory.path}' is finished, but has no evaluation before training (before.json)\n"
                "  move that folder away; the same command runs it again."
            )
        return curve

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def _comparable(config: Mapping[str, Any]) -> dict[str, Any]:
    """A run's settings as they come back from its folder, without those that do not change what it does."""
    return {key: value for key, value in json.loads(json.dumps(config)).items() if key != "runs"}


def _first_evaluation(config: Mapping[str, Any]) -> str:
    """What the evaluation before training depends on: the agent, what it plays, and by what it is measured."""
    evaluation = {name: config["evaluation"][name] for name in ("samples", "temperature")}
    tasks = {name: value for name, value in config["tasks"].items() if name not in ("train", "categories")}
    return fingerprint((config["policy"], config["env"], tasks, evaluation, config["seed"]))
