"""Environments of a configuration that play competitions."""

from __future__ import annotations

from collections.abc import Sequence

from wmrl_gym.configs.validation import ConfigError
from wmrl_gym.corpus.competition_environment import CompetitionEnvironment
from wmrl_gym.runs.assembly import Domain


def competition_environments(domain: Domain, names: Sequence[str], count: int) -> list[CompetitionEnvironment]:
    """`count` environments, each of which plays any of these competitions.

    Raises:
        ConfigError: if the environment is of another domain.
    """
    environments: list[CompetitionEnvironment] = []
    for make in domain.env_fns(list(names), count):
        environment = make()
        if not isinstance(environment, CompetitionEnvironment):
            raise ConfigError(
                f"env makes a {type(environment).__name__}, but a corpus holds scripts for competitions\n"
                "  choose env=mle_dojo or env=mle_dojo_compact."
            )
        environments.append(environment)
    return environments
