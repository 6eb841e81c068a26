"""``wmrl corpus``: solutions by several authors with what really became of them."""

from __future__ import annotations

import argparse
import dataclasses
import platform
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from wmrl_gym.cli.configuration import run_configured
from wmrl_gym.configs.fidelity_schema import CorpusConfig
from wmrl_gym.configs.validation import ConfigError, to_dataclass, unknown_key
from wmrl_gym.corpus.authors import WRITERS
from wmrl_gym.corpus.file import Header, Record, read_corpus, write_corpus
from wmrl_gym.corpus.timeouts import confirm_timeouts
from wmrl_gym.corpus.writing import BLOCK, Agent, Plan, write_blocks
from wmrl_gym.envs.mle_dojo.env import MLEDojoEnv
from wmrl_gym.execution.environment import installed_versions
from wmrl_gym.execution.limits import SandboxLimits
from wmrl_gym.runs.assembly import Domain, executor_for, prepare_torch
from wmrl_gym.runs.output_folder import make_output_folder
from wmrl_gym.runs.records.work_file import OtherWork, WorkFile

_DRAWING = ("seed", "count", "authors", "agent", "policy", "tasks", "env")
"""The settings that decide what is drawn and what comes of it."""


def corpus(config: CorpusConfig, plain: dict[str, Any]) -> int:
    """Write ``config.output``, going on with an interrupted call's work.

    Raises:
        ConfigError: if the output cannot be written, or is there and was drawn otherwise.
        OtherWork: if interrupted work with other settings lies there.
        RunInUse: if another process writes the same corpus.
    """
    console = Console()
    _check_output(config.output)
    _check_authors(config)
    domain = Domain(config.env, config.tasks)
    names = [*domain.train, *domain.held_out]
    environments = mle_dojo_environments(domain, names, BLOCK)
    header = circumstances(environments[0], _drawing(plain))
    if config.output.is_file():
        _check_finished(config, header)
        console.print(f"{config.output} is finished already, with these settings", highlight=False)
        return 0
    work_file = WorkFile(config.output.with_name(config.output.name + ".part"), dataclasses.asdict(header))
    plan = Plan(config.seed, config.authors, names)
    with work_file as work, executor_for(config.execution, domain) as executor:
        try:
            records = write_blocks(
                plan,
                config.count,
                environments,
                _agent(config),
                executor,
                work,
                lambda done: console.print(f"{done} of {config.count} solutions", highlight=False),
            )
            records = confirm_timeouts(records, environments[0].competitions, executor, config.confirm_timeouts)
        except KeyboardInterrupt:
            console.print("stopped; the same command goes on from here")
            return 130
        write_corpus(config.output, header, records)
        work.path.unlink(missing_ok=True)
    for line in summary(records):
        console.print(line, highlight=False)
    size = config.output.stat().st_size / 1e3
    console.print(f"wrote {config.output} ({size:.0f} kB): wmrl fidelity corpus={config.output}", highlight=False)
    return 0


def _drawing(plain: dict[str, Any]) -> dict[str, Any]:
    """What decides the content, but not where the data lie on this machine: the data have digests of their own."""
    chosen = {key: plain[key] for key in _DRAWING}
    return {**chosen, "env": {key: value for key, value in chosen["env"].items() if key != "data_root"}}


def mle_dojo_environments(domain: Domain, names: Sequence[str], count: int) -> list[MLEDojoEnv]:
    """Environments that play any of these competitions.

    Raises:
        ConfigError: if the environment is of another domain.
    """
    environments = []
    for make in domain.env_fns(list(names), count):
        environment = make()
        if not isinstance(environment, MLEDojoEnv):
            raise ConfigError(
                f"env makes a {type(environment).__name__}, but a corpus holds scripts for competitions\n"
                "  choose env=mle_dojo or env=mle_dojo_compact."
            )
        environments.append(environment)
    return environments


def circumstances(environment: MLEDojoEnv, config: dict[str, Any]) -> Header:
    """What solutions that are executed now belong to."""
    limits = getattr(environment.runner, "sandbox_limits", None) or SandboxLimits()
    return Header(
        config=config,
        data=environment.data_digests(),
        ladder=dataclasses.asdict(environment.ladder),
        limits=dataclasses.asdict(limits),
        versions={"python": platform.python_version(), **installed_versions()},
    )


def summary(records: Sequence[Record]) -> list[str]:
    """How many of which author ended how."""
    lines = []
    for author in sorted({record.author for record in records}):
        statuses = Counter(record.status for record in records if record.author == author)
        counts = ", ".join(f"{number} {status}" for status, number in statuses.most_common())
        lines.append(f"{author}: {statuses.total()} ({counts})")
    return lines


def _agent(config: CorpusConfig) -> Agent | None:
    if config.policy is None or not config.authors.get("agent", 0):
        return None
    prepare_torch(config.threads)
    settings = config.agent
    return Agent(settings.name, config.policy.build(), tuple(settings.temperatures), settings.revised)


def _check_authors(config: CorpusConfig) -> None:
    for name in config.authors:
        if name not in (*WRITERS, "agent"):
            raise unknown_key("authors", name, (*WRITERS, "agent"))
    if config.agent.name in WRITERS:
        raise ConfigError(f"'agent.name' is {config.agent.name}, which another author is called: choose another name")


def _check_output(output: Path) -> None:
    """Refuse now what could not be written after hours of executing."""
    if output.is_dir():
        raise ConfigError(f"'output' is {output}, a folder: name a file, for example {output / 'solutions.jsonl.gz'}")
    make_output_folder(output.parent, value=output)


def _check_finished(config: CorpusConfig, header: Header) -> None:
    output, found = config.output, read_corpus(config.output)
    same = found.headers[0].config == header.config and found.headers[0].data == header.data
    if not same or len(found.records) != config.count:
        raise OtherWork(
            f"'{output}' is there already, drawn with other settings or from other data\n"
            "  choose another output, or delete the file to write it anew."
        )


def run(options: argparse.Namespace) -> int:
    """``wmrl corpus``."""
    return run_configured(options, lambda plain: corpus(to_dataclass(CorpusConfig, plain), plain))
