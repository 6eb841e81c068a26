"""The supervised cold start: a policy on generated conversations, or on demonstrations, and where it is written.

``wmrl sft`` is a thin face of `ColdStart`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmrl_gym.configs.schema import SupervisedConfig
from wmrl_gym.configs.validation import ConfigError, import_target
from wmrl_gym.runs.assembly import prepare_torch
from wmrl_gym.runs.configured import configured
from wmrl_gym.runs.output_folder import make_output_folder
from wmrl_gym.runs.training import RunProgress, Silence

if TYPE_CHECKING:
    from wmrl_gym.algorithms.supervised import SupervisedSettings, SupervisedStep
    from wmrl_gym.corpus.generator.facts import TaskFacts
    from wmrl_gym.engines.conversation import ConversationTurns

FULL_OVERVIEW_TOKENS = 2048
"""With fewer than these, most conversations in the full style are cut before the first answer."""


@dataclass(frozen=True)
class TrainedAgent:
    """What a cold start has made."""

    policy: Any
    folder: Path
    """Where it is written."""
    overrides: tuple[str, ...]
    """What chooses it in another configuration, for example ``policy.directory=my_agent``; empty for an agent that was
    cloned, which its own kind of policy reads."""


class ColdStart:
    """One supervised training.

    Without demonstrations the nano agent, or a causal language model with a chat template, learns from generated
    conversations about the training competitions. With demonstrations any policy is cloned from them.

    Args:
        config: what is trained, and on what.

    Attributes:
        config: what is trained, and on what.
        settings: of the training.

    Raises:
        ConfigError: if settings contradict each other, or the output cannot be written.
    """

    def __init__(self, config: SupervisedConfig) -> None:
        _check(config)
        self.config = config
        self.settings: SupervisedSettings = config.settings.build()
        full = config.demonstrations is None and config.overview_style == "full"
        if full and self.settings.max_tokens < FULL_OVERVIEW_TOKENS:
            raise ConfigError(
                f"'settings.max_tokens' is {self.settings.max_tokens}: overviews in full are longer, so no answer is "
                f"left\n  give at least {FULL_OVERVIEW_TOKENS}, or choose overview_style=compact."
            )
        make_output_folder(config.output)

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | Sequence[str] = (), config_dir: Path | None = None) -> ColdStart:
        """A cold start as it is configured.

        Args:
            config: overrides as on the command line, for example ``["output=my_agent"]``; or the whole configuration
                as plain data.
            config_dir: another directory with configuration groups, searched beside the built-in ones.

        Raises:
            ConfigError: if the configuration cannot be right.
        """
        return cls(configured(SupervisedConfig, "sft", config, config_dir)[0])

    def train(
        self, progress: RunProgress | None = None, on_begin: Callable[[str, int], None] = lambda *told: None
    ) -> TrainedAgent:
        """Train, and write the agent to ``config.output``.

        Args:
            progress: is told of every stage and step.
            on_begin: is told, before the first step, what there is to learn from ("12 competitions") and how many
                parameters are trained.

        Raises:
            ValueError: if there are no examples in the demonstrations.
        """
        prepare_torch(self.config.threads)
        teach = self._on_conversations if self.config.demonstrations is None else self._on_demonstrations
        return teach(progress or Silence(), on_begin)

    def _on_conversations(self, progress: RunProgress, on_begin: Callable[[str, int], None]) -> TrainedAgent:
        from wmrl_gym.algorithms.supervised import fine_tune

        progress.stage("reading the training competitions")
        tasks, conversations = _conversations(self.config)
        progress.stage("making the agent")
        policy = self.config.policy.build() if self.config.policy is not None else _nano_agent(self.config, tasks)
        on_begin(f"{len(tasks)} competitions", _parameters(policy))
        fine_tune(policy, conversations, self.settings, _told(progress))
        return TrainedAgent(policy, self.config.output, _saved(policy, self.config))

    def _on_demonstrations(self, progress: RunProgress, on_begin: Callable[[str, int], None]) -> TrainedAgent:
        from wmrl_gym.algorithms.behaviour_cloning import clone

        config = self.config
        assert config.policy is not None and config.examples is not None  # `_check` has seen them
        examples: Any = config.examples.build(paths=list(config.demonstrations or ()))
        loss = import_target(config.loss, "loss")
        progress.stage("making the agent")
        policy = config.policy.build()
        on_begin(f"{len(examples)} examples", _parameters(policy))
        clone(policy, examples, loss, self.settings, _told(progress))
        policy.save_pretrained(config.output)
        return TrainedAgent(policy, config.output, ())


def _check(config: SupervisedConfig) -> None:
    """Refuse settings that contradict each other, before anything is made."""
    if config.policy is not None:
        config.policy.require_trainable()
    if config.policy is not None and config.start is not None:
        raise ConfigError(
            f"'start' is {config.start}, but it is for the nano agent, and policy is '{config.policy.target}'\n"
            "  name what to go on from in the policy's own settings: policy.path or policy.adapter."
        )
    if config.demonstrations is not None:
        if config.policy is None:
            raise ConfigError(
                "'demonstrations' is given, but no policy that could be trained on them: the nano agent writes "
                "scripts\n  choose one, for example policy=minivla_tiny."
            )
        if config.examples is None:
            raise ConfigError("'examples' is null, but it is what reads the demonstrations: leave it out of the call")
    elif config.policy is None and config.overview_style == "full":
        raise ConfigError(
            "'overview_style' is full, which the nano agent cannot read: its tokenizer and context are too small\n"
            "  choose overview_style=compact, or a larger agent, for example policy=smollm2."
        )


def _conversations(config: SupervisedConfig) -> tuple[list[TaskFacts], Iterable[ConversationTurns]]:
    """The training competitions and an endless stream of conversations about them."""
    if config.overview_style == "full":
        from wmrl_gym.corpus.generator.full_style import full_corpus, full_tasks

        told = full_tasks(config.data_root)
        return [task.facts for task in told], full_corpus(told, config.seed + 1)
    from wmrl_gym.corpus.generator.tasks import training_tasks
    from wmrl_gym.policies.nano_new_agent import corpus

    tasks = training_tasks(config.data_root)
    return tasks, corpus(tasks, config.seed + 1)


def _nano_agent(config: SupervisedConfig, tasks: Sequence[TaskFacts]) -> Any:
    from wmrl_gym.policies.nano import load_nano_agent
    from wmrl_gym.policies.nano_new_agent import new_nano_agent

    return load_nano_agent(config.start) if config.start else new_nano_agent(tasks, config.seed)


def _parameters(policy: Any) -> int:
    return sum(parameter.numel() for parameter in policy.parameters())


def _told(progress: RunProgress) -> Callable[[SupervisedStep], None]:
    return lambda step: progress.step(step.step, vars(step))


def _saved(policy: Any, config: SupervisedConfig) -> tuple[str, ...]:
    """Write a language model, and return the overrides that choose it."""
    if config.policy is None:
        from wmrl_gym.policies.nano import save_nano_agent

        save_nano_agent(policy, config.output)
        return (f"policy.directory={config.output}",)
    has_adapter = hasattr(policy.model, "peft_config")
    if has_adapter and config.policy.takes("adapter"):
        from wmrl_gym.policies.smollm2 import save_adapter

        save_adapter(policy, config.output)
        return (f"policy.adapter={config.output}",)
    if has_adapter:  # whole, so that it loads by its path like any other model
        policy.model = policy.model.merge_and_unload()
    policy.save_pretrained(config.output)
    return ("policy=causal_lm", f"policy.path={config.output}")
