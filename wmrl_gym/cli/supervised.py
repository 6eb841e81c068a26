"""``wmrl sft``: the nano agent's cold start."""

from __future__ import annotations

from rich.console import Console

from wmrl_gym.cli.assembly import prepare_torch
from wmrl_gym.configs.schema import SupervisedConfig
from wmrl_gym.reporting.progress import Progress

LINE_EVERY = 25
_COLUMNS = (("loss", "loss"), ("learning_rate", "lr"), ("tokens", "tokens"), ("seconds", "seconds"))


def fine_tune_nano_agent(config: SupervisedConfig) -> int:
    """Train on the generated corpus and write the checkpoint to ``config.output``."""
    from wmrl_gym.algorithms.supervised import SupervisedStep, fine_tune
    from wmrl_gym.policies.nano import load_nano_agent, save_nano_agent
    from wmrl_gym.policies.nano_corpus.tasks import training_tasks
    from wmrl_gym.policies.nano_corpus.train import corpus, new_nano_agent

    prepare_torch(config.threads)
    settings = config.settings.build()
    console = Console()
    with Progress(settings.steps, _COLUMNS, console) as progress:
        progress.stage("reading the training competitions")
        tasks = training_tasks(config.data_root)
        progress.stage("making the agent")
        policy = load_nano_agent(config.start) if config.start else new_nano_agent(tasks, config.seed)
        count = sum(parameter.numel() for parameter in policy.parameters())
        console.print(f"{len(tasks)} competitions, {count:,} parameters", highlight=False)

        def show(step: SupervisedStep) -> None:
            if step.step % LINE_EVERY == 0 or step.step == settings.steps - 1:
                progress.step(step.step, vars(step))

        fine_tune(policy, corpus(tasks, config.seed + 1), settings, show)
    config.output.mkdir(parents=True, exist_ok=True)
    save_nano_agent(policy, config.output)
    console.print(f"wrote {config.output}; use it with: wmrl train policy.directory={config.output}", highlight=False)
    return 0
