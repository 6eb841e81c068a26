"""What decides the episodes of an evaluation, and so has to be the same where a killed one goes on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wmrl_gym.algorithms.checkpoint import STATE_FILE
from wmrl_gym.configs.schema import EvaluateConfig
from wmrl_gym.runs.assembly import Domain
from wmrl_gym.version import __version__


def evaluation_key(
    config: EvaluateConfig, settings: Mapping[str, Any], domain: Domain, threads: int, checkpoint: Path | None
) -> dict[str, Any]:
    """As plain data. How many submissions are executed at once, say, or what is computed of the episodes, is not in it.

    Args:
        config: of the evaluation.
        settings: the policy's and the environment's among them, as plain data.
        domain: its tasks.
        threads: torch's, because the order of a sum may decide a token.
        checkpoint: the agent's, known by its content; None for the policy as it is configured.
    """
    environment = domain.env_fns(domain.held_out, 1)[0]()
    try:
        return {
            "version": __version__,
            "policy": settings["policy"],
            "checkpoint": None if checkpoint is None else _digest(checkpoint / STATE_FILE),
            "env": settings["env"],
            "environment": environment.environment_key,
            "data": dict(environment.data_digests()),
            "tasks": {
                "held_out": domain.held_out,
                "option": config.tasks.option,
                "measure": domain.measure.name,
                "also": config.tasks.also,
            },
            "evaluation": {
                "samples": config.evaluation.samples,
                "temperature": config.evaluation.resolved_temperature,
            },
            "seed": config.seed,
            "threads": threads,
        }
    finally:
        environment.close()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
