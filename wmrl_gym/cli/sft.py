"""``wmrl sft``: the supervised cold start of the nano agent, or of any causal language model with a chat template.

With demonstrations it is behaviour cloning, and `cli.behaviour_cloning` does it.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rich.console import Console

from wmrl_gym.cli.configuration import run_configured
from wmrl_gym.cli.progress import Progress
from wmrl_gym.configs.schema import SupervisedConfig
from wmrl_gym.configs.validation import ConfigError, to_dataclass
from wmrl_gym.runs.assembly import prepare_torch
from wmrl_gym.runs.output_folder import make_output_folder

if TYPE_CHECKING:
    from wmrl_gym.policies.causal_lm import CausalLMPolicy

LINE_EVERY = 25
FEW_STEPS = 100
"""A run of so few steps shows every one: they are long ones, of a large model."""
FULL_OVERVIEW_TOKENS = 2048
"""With fewer than these, most conversations in the full style are cut before the first answer."""
_COLUMNS = (("loss", "loss"), ("learning_rate", "lr"), ("tokens", "tokens"), ("seconds", "seconds"))


def cold_start(config: SupervisedConfig) -> int:
    """Train on generated conversations and write the agent to ``config.output``.

    Raises:
        ConfigError: if settings contradict each other.
    """
    from wmrl_gym.algorithms.supervised import SupervisedStep, fine_tune
    from wmrl_gym.corpus.generator.tasks import training_tasks
    from wmrl_gym.policies.nano import load_nano_agent
    from wmrl_gym.policies.nano_new_agent import corpus, new_nano_agent

    _check(config)
    if config.demonstrations is not None:
        from wmrl_gym.cli.behaviour_cloning import clone_demonstrations

        make_output_folder(config.output)
        return clone_demonstrations(config)
    settings = config.settings.build()
    if config.overview_style == "full" and settings.max_tokens < FULL_OVERVIEW_TOKENS:
        raise ConfigError(
            f"'settings.max_tokens' is {settings.max_tokens}: overviews in full are longer, so no answer is left\n"
            f"  give at least {FULL_OVERVIEW_TOKENS}, or choose overview_style=compact."
        )
    make_output_folder(config.output)
    prepare_torch(config.threads)
    console = Console()
    every = 1 if settings.steps <= FEW_STEPS else LINE_EVERY
    with Progress(settings.steps, _COLUMNS, console) as progress:
        progress.stage("reading the training competitions")
        if config.overview_style == "full":
            from wmrl_gym.corpus.generator.full_style import full_corpus, full_tasks

            told = full_tasks(config.data_root)
            tasks = [task.facts for task in told]
            conversations = full_corpus(told, config.seed + 1)
        else:
            tasks = training_tasks(config.data_root)
            conversations = corpus(tasks, config.seed + 1)
        progress.stage("making the agent")
        if config.policy is not None:
            policy = config.policy.build()
        else:
            policy = load_nano_agent(config.start) if config.start else new_nano_agent(tasks, config.seed)
        count = sum(parameter.numel() for parameter in policy.parameters())
        console.print(f"{len(tasks)} competitions, {count:,} trained parameters", highlight=False)

        def show(step: SupervisedStep) -> None:
            if step.step % every == 0 or step.step == settings.steps - 1:
                progress.step(step.step, vars(step))

        fine_tune(policy, conversations, settings, show)
    _save(policy, config)
    console.print(f"wrote {config.output}; use it with: wmrl train {_how_to_use(policy, config)}", highlight=False)
    return 0


def _check(config: SupervisedConfig) -> None:
    """Refuse settings that contradict each other, before anything is made."""
    if config.policy is not None:
        config.policy.require_trainable()
    if config.policy is not None and config.start is not None:
        raise ConfigError(
            f"'start' is {config.start}, but it is for the nano agent, and policy is '{config.policy.target}'\n"
            "  name what to go on from in the policy's own settings: policy.path or policy.adapter."
        )
    if config.policy is None and config.overview_style == "full":
        raise ConfigError(
            "'overview_style' is full, which the nano agent cannot read: its tokenizer and context are too small\n"
            "  choose overview_style=compact, or a larger agent, for example policy=smollm2."
        )


def _save(policy: CausalLMPolicy, config: SupervisedConfig) -> None:
    if config.policy is None:
        from wmrl_gym.policies.nano import save_nano_agent

        save_nano_agent(policy, config.output)
    elif config.policy.takes("adapter") and hasattr(policy.model, "peft_config"):
        from wmrl_gym.policies.smollm2 import save_adapter

        save_adapter(policy, config.output)
    else:
        if hasattr(policy.model, "peft_config"):  # whole, so that it loads by its path like any other model
            policy.model = policy.model.merge_and_unload()
        policy.save_pretrained(config.output)


def _how_to_use(policy: CausalLMPolicy, config: SupervisedConfig) -> str:
    if config.policy is None:
        return f"policy.directory={config.output}"
    if config.policy.takes("adapter") and hasattr(policy.model, "peft_config"):
        return f"policy.adapter={config.output}"
    return f"policy=causal_lm policy.path={config.output}"


def run(options: argparse.Namespace) -> int:
    """``wmrl sft``."""
    return run_configured(options, lambda plain: cold_start(to_dataclass(SupervisedConfig, plain)))
