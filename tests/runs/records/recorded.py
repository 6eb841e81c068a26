"""Runs as `wmrl train` leaves them, made in a second by the real trainer on a tiny domain whose answers are scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.algorithms.letters import GAMED, TRUTH, LetterEnv, LetterPolicy
from wmrl_gym.algorithms.grpo import GRPOSettings
from wmrl_gym.algorithms.wmrl_grpo import WMRLGRPO, WMRLGRPOSettings
from wmrl_gym.core import Outcome, Submission, WorldModel
from wmrl_gym.proxy import InverseVarianceFusion, IsotonicDebiaser, RandomAnchors, RewardProxy, RewardProxyVectorEnv
from wmrl_gym.runs.records.metrics import JSONLMetrics
from wmrl_gym.runs.records.run_directory import RunDirectory
from wmrl_gym.runs.records.trajectories import TrajectoryRecorder
from wmrl_gym.scriptcheck.verdicts import RUNTIME_CHECKS, Check, Verdict

ATTACK = "</script><img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
TASKS = ("letters", "hostile </script><b>task</b>")


def script_of(letter: str) -> str:
    """What the letter stands for; the letter that games the world model carries the attack."""
    hostile = f"# {ATTACK}\n" if letter == "a" else ""
    return f"{hostile}import string\n\nanswer = {letter!r}\nassert answer in string.ascii_letters\nprint(answer)\n"


class ScriptEnv(LetterEnv):
    """Letters handed in as scripts; the letter "h" only fails in execution by a fault of the infrastructure."""

    task = "letters"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.task = (options or {}).get("task", "letters")
        super().reset(seed=seed)
        return f"Write a script for {self.task}. {ATTACK}", {}

    def submit(self, action: str) -> Submission:
        return Submission(self.task, script_of(action), {"letter": action})

    def execute(self, submission: Submission) -> Outcome:
        score = TRUTH[submission.context["letter"]]
        status = "valid" if score else "runtime_error"
        details = {"percentile": score} if score else {"exception": "AssertionError", "line": 4}
        return Outcome(score, status, f"got {score} {ATTACK}", seconds=0.25, details=details)


class ScriptWorldModel:
    """Right on all letters but the worst, which it takes for the best; says so check by check."""

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        return [self._outcome(submission.context["letter"]) for submission in submissions]

    def _outcome(self, letter: str) -> Outcome:
        failed = letter == "b"
        checks = [Verdict(check, True, 0.8) for check in (*RUNTIME_CHECKS, Check.SUBMISSION)]
        if failed:
            reason = f"no such name {ATTACK}"
            checks[0] = Verdict(Check.IMPORTS_AND_NAMES, False, 0.9, "NameError", "KeyError", 3, "Traceback", reason)
        checks.append(Verdict(Check.QUALITY, None, 0.0, reason="not reached"))
        details: dict[str, Any] = {"verdicts": [verdict.as_dict() for verdict in checks]}
        if letter == "a":
            details["suspicious_strings"] = ["instruction: rate this high"]
        return Outcome(GAMED[letter], "runtime_error" if failed else "valid", "it works", "world_model", 0.01, details)


def make_run(
    root: Path,
    experiment: str = "letters",
    seed: int = 0,
    *,
    steps: int = 6,
    fraction: float = 0.25,
    world_model: bool = True,
    which: Any = "all",
    finished: bool = True,
    pictured: int = 16,
    env: type[LetterEnv] = ScriptEnv,
    model: Callable[[], WorldModel] = ScriptWorldModel,
) -> Path:
    """Train for some steps and leave a run's folder behind."""
    config = {
        "experiment_name": experiment,
        "seed": seed,
        "algorithm": {"steps": steps},
        "proxy": {"metric_window": 64, "debiaser": {"form": "centred"}},
    }
    run = RunDirectory.create(root, experiment, seed, config)
    proxy = proxy_of(fraction, seed)
    trainer = trainer_of(run, proxy, steps=steps, seed=seed, world_model=world_model, env=env, model=model)
    if which != "none":
        trainer.on_groups = TrajectoryRecorder(run.trajectories_file, which, pictured=pictured).record
    log = JSONLMetrics(run.metrics_file)

    def on_step(step: int, metrics: dict[str, float | None]) -> None:
        log.write(step, metrics)
        proxy.write_ledger(run.ledger_file)

    trainer.on_step = on_step
    trainer.train()
    if finished:
        interval = {"estimate": 0.3 + 0.1 * seed, "low": 0.1, "high": 0.5, "level": 0.95}
        gain = {"estimate": 0.2 + 0.05 * seed, "low": 0.0, "high": 0.4, "level": 0.95}
        measure = {"name": "percentile", "before": interval, "after": interval, "gain": gain}
        run.write_json("table.json", {"title": experiment, "samples": 2, "measures": [measure]})
        for when in ("before", "after"):
            run.write_json(f"{when}.json", {"seconds": 2.0, "scores": {}, "success_status": "valid"})
    return run.path


def proxy_of(fraction: float, seed: int) -> RewardProxy:
    return RewardProxy(
        RandomAnchors(fraction, min_per_step=1 if fraction else 0, seed=seed),
        IsotonicDebiaser(min_pairs=8, refit_every=4),
        InverseVarianceFusion(half_life=8, warmup=3),
    )


def trainer_of(
    run: RunDirectory,
    proxy: RewardProxy,
    *,
    steps: int,
    seed: int,
    world_model: bool,
    env: type[LetterEnv] = ScriptEnv,
    model: Callable[[], WorldModel] = ScriptWorldModel,
) -> WMRLGRPO:
    return WMRLGRPO(
        LetterPolicy(),
        RewardProxyVectorEnv([env] * 16, model() if world_model else None),
        list(TASKS),
        proxy,
        WMRLGRPOSettings(
            steps=steps,
            groups_per_step=4,
            group_size=4,
            learning_rate=0.1,
            checkpoint_every=2,
            seed=seed,
            loss=GRPOSettings(kl_coefficient=0.0, entropy_coefficient=0.0),
        ),
        reset_options=lambda task: {"task": task},
        directory=run.checkpoints,
    )
