"""Circumstances of an execution: what beside the script decides what comes of it. Those of a corpus, and those here."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from typing import Any

from wmrl_gym.corpus.competition_environment import CompetitionEnvironment
from wmrl_gym.corpus.file import Corpus, CorpusError, Header
from wmrl_gym.execution.environment import installed_versions
from wmrl_gym.execution.limits import SandboxLimits


def circumstances(environment: CompetitionEnvironment, config: Mapping[str, Any]) -> Header:
    """What solutions that are executed now belong to.

    Args:
        environment: executes them.
        config: how they are drawn, as plain data.
    """
    limits = getattr(environment.runner, "sandbox_limits", None) or SandboxLimits()
    return Header(
        config=config,
        data=environment.data_digests(),
        ladder=dataclasses.asdict(environment.ladder),
        limits=dataclasses.asdict(limits),
        versions={"python": platform.python_version(), **installed_versions()},
    )


def check_circumstances(corpus: Corpus, here: Header) -> list[str]:
    """Refuse solutions that were executed on other data, with other limits or scores.

    Args:
        corpus: the solutions.
        here: what executing them now would belong to.

    Returns:
        What differs and is no reason to refuse, as sentences: versions of packages.

    Raises:
        CorpusError: for the others.
    """
    notes = []
    for header in corpus.headers:
        _check_data(corpus, header, here)
        for what, where in (("ladder", "env.ladder"), ("limits", "env.sandbox_limits")):
            theirs, ours = getattr(header, what), getattr(here, what)
            differing = [name for name in theirs if theirs[name] != ours.get(name)]
            if differing:
                wanted = ", ".join(f"{where}.{name}={theirs[name]}" for name in differing)
                raise CorpusError(f"the solutions were executed with other {what}\n  set {wanted}, as they were.")
        packages = [f"{name} {theirs}" for name, theirs in header.versions.items() if here.versions.get(name) != theirs]
        if packages:
            notes.append(
                f"Executed with {', '.join(packages)}, which differ here: what a script does may have changed since."
            )
    return notes


def _check_data(corpus: Corpus, header: Header, here: Header) -> None:
    other = [task for task in corpus.tasks if task in header.data and header.data[task] != here.data[task]]
    if other:
        raise CorpusError(
            f"the solutions were executed on other data than these: {', '.join(other[:5])}"
            f"{' and more' if len(other) > 5 else ''}\n"
            "  predictions would be about one version and the truth about another: give the data they were\n"
            "  executed on (env.data_root=...), or execute solutions on yours with `wmrl corpus`."
        )
