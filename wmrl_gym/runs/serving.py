"""A service: its configuration, its folder, and running it.

``wmrl serve`` is a thin face of `Serving`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wmrl_gym.configs.compose import compose_config
from wmrl_gym.configs.serve_schema import ServeConfig
from wmrl_gym.configs.validation import ConfigError, to_dataclass
from wmrl_gym.integrations.group_scoring import GroupScoring
from wmrl_gym.runs.assembly import Domain, executor_for, prepare_torch
from wmrl_gym.runs.output_folder import make_output_folder
from wmrl_gym.runs.records.differences import differences
from wmrl_gym.runs.records.run_directory import locked
from wmrl_gym.runs.records.work_file import OtherWork

TOKEN_VARIABLE = "WMRL_SERVE_TOKEN"
SHORTEST_TOKEN = 16

_OF_TRAINING = ("policy", "algorithm", "logger", "evaluation", "experiment_name", "runs")
"""Settings of an experiment that a service does not read."""

_DECIDING = ("env", "tasks", "world_model", "proxy", "normalise_by_std")
"""Settings that decide what is answered: a journal is gone on with under the same ones only."""


class Serving:
    """One service on this machine.

    Args:
        config: what to serve.
        plain: the same as plain data.

    Attributes:
        config: what to serve.
        domain: its tasks.

    Raises:
        ConfigError: if nothing would be predicted and not everything executed.
    """

    def __init__(self, config: ServeConfig, plain: Mapping[str, Any]) -> None:
        self.config = config
        self.domain = Domain(config.env, config.tasks)
        self._deciding = {key: plain.get(key) for key in _DECIDING}
        if config.world_model is None and config.proxy.build().anchors.fraction < 1:
            raise ConfigError(
                "there is no world model, and not every group is executed\n"
                "  choose world_model=static_analysis, or proxy=all_executed."
            )

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | Sequence[str] = (), config_dir: Path | None = None) -> Serving:
        """A service as it is configured.

        Args:
            config: overrides as on the command line, for example ``["experiment=quickstart", "port=0"]``; or the whole
                configuration as plain data.
            config_dir: another directory with configuration groups, searched beside the built-in ones.

        Raises:
            ConfigError: if the configuration cannot be right.
        """
        plain = dict(config) if isinstance(config, Mapping) else compose_config("serve", config, config_dir)
        served = {key: value for key, value in plain.items() if key not in _OF_TRAINING}
        return cls(to_dataclass(ServeConfig, served), served)

    def run(self, on_ready: Callable[[str], None]) -> None:
        """Serve until SIGTERM or SIGINT.

        Args:
            on_ready: is told the address when requests are taken.

        Raises:
            ImportError: without the extra ``serve``.
            ValueError: if the token is no good, or is missing where other machines can ask.
            RunInUse: if another process serves from the same folder.
            OtherWork: if the folder's journal was begun with other settings.
            JournalError: if it cannot be read.
            SandboxUnavailable: if the environment runs scripts and this machine cannot isolate them.
        """
        try:
            from wmrl_gym.integrations.http.server import listen, serve
        except ImportError as error:
            raise ImportError(
                f"a service needs FastAPI, uvicorn and more ({error}): pip install 'wmrl-gym[serve]'"
            ) from error
        from wmrl_gym.integrations.http.book import Book
        from wmrl_gym.integrations.http.forming import Forming
        from wmrl_gym.integrations.http.service import ScoringService

        config, domain = self.config, self.domain
        token = read_token(config.token_file)
        make_output_folder(config.state, "state")
        prepare_torch(config.threads, scripts_beside=True)
        tasks = list(dict.fromkeys([*domain.train, *domain.held_out]))
        with (
            locked(config.state / ".lock", config.state),
            listen(config.host, config.port, has_token=token is not None) as listening,
            executor_for(config.execution, domain) as executor,
        ):
            service = ScoringService(
                Forming(domain.env_fns(tasks, 1)[0](), tasks, domain.reset_options),
                None if config.world_model is None else config.world_model.build(),
                executor,
                Book(self._journal(), self._scoring),
                config.limits,
                config.execution.max_consecutive_failures,
            )
            serve(service, listening, token, lambda: on_ready(_url(listening, config.host)))

    def _scoring(self) -> GroupScoring:
        return GroupScoring(self.config.proxy.build(), normalise_by_std=self.config.normalise_by_std)

    def _journal(self) -> Any:
        from wmrl_gym.integrations.http.journal import Journal

        journal = Journal(self.config.state / "journal.sqlite")
        begun = journal.recall("settings")
        if begun is None:
            journal.append((), {"settings": self._deciding})
            return journal
        found = list(differences(begun, self._deciding))
        if found:
            raise OtherWork(
                f"'{self.config.state}' holds what was answered under other settings:\n    "
                + "\n    ".join(found)
                + "\n"
                "  give those again to go on, or name another folder in `state`."
            )
        return journal


def read_token(file: Path | None) -> str | None:
    """The token that callers must give; None if there is to be none.

    Raises:
        ConfigError: if the file cannot be read, or holds no good token.
    """
    if file is None:
        token, where = os.environ.get(TOKEN_VARIABLE), f"environment variable {TOKEN_VARIABLE}"
        if token is None:
            return None
    else:
        where = f"file '{file}' (token_file)"
        try:
            token = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the {where} cannot be read: {error}") from error
    token = token.strip()
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"the {where} holds no good token: give at least {SHORTEST_TOKEN} letters, digits and signs, no spaces, "
            "for example what `openssl rand -hex 32` prints"
        )
    return token


def _url(listening: socket.socket, host: str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
