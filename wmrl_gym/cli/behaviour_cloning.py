"""``wmrl sft`` with demonstrations: a policy's cold start by behaviour cloning."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from wmrl_gym.cli.progress import Progress
from wmrl_gym.configs.schema import SupervisedConfig
from wmrl_gym.configs.validation import ConfigError, import_target
from wmrl_gym.runs.assembly import prepare_torch

COLUMNS = (("loss", "loss"), ("learning_rate", "lr"), ("tokens", "tokens"), ("seconds", "seconds"))
LINES = 40
"""A run prints about so many lines."""


def clone_demonstrations(config: SupervisedConfig) -> int:
    """Train ``config.policy`` on ``config.demonstrations`` and write it to ``config.output``, which exists.

    Raises:
        ConfigError: if no policy is chosen.
    """
    from wmrl_gym.algorithms.behaviour_cloning import clone
    from wmrl_gym.algorithms.supervised import SupervisedStep

    if config.policy is None or config.demonstrations is None or config.examples is None:
        raise ConfigError(
            "'demonstrations' is given, but no policy that could be trained on them: the nano agent writes scripts\n"
            "  choose one, for example policy=minivla_tiny."
        )
    examples: Any = config.examples.build(paths=list(config.demonstrations))
    loss = import_target(config.loss, "loss")
    settings = config.settings.build()
    prepare_torch(config.threads)
    console = Console()
    every = max(1, settings.steps // LINES)
    with Progress(settings.steps, COLUMNS, console) as progress:
        progress.stage("making the agent")
        policy = config.policy.build()
        count = sum(parameter.numel() for parameter in policy.parameters())
        console.print(f"{len(examples)} examples, {count:,} trained parameters", highlight=False)

        def show(step: SupervisedStep) -> None:
            if step.step % every == 0 or step.step == settings.steps - 1:
                progress.step(step.step, vars(step))

        clone(policy, examples, loss, settings, show)
    policy.save_pretrained(config.output)
    console.print(f"wrote {config.output}", highlight=False)
    return 0
