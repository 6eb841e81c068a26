"""Drawing a corpus: its authors, its file, what is missing of it, and doing that.

``wmrl corpus`` is a thin face of `CorpusDrawing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wmrl_gym.configs.fidelity_schema import CorpusConfig
from wmrl_gym.configs.validation import ConfigError, unknown_key
from wmrl_gym.corpus.authors import WRITERS
from wmrl_gym.corpus.circumstances import circumstances
from wmrl_gym.corpus.file import Corpus, read_corpus, write_corpus
from wmrl_gym.corpus.timeouts import confirm_timeouts
from wmrl_gym.corpus.writing import BLOCK, Agent, Plan, write_blocks
from wmrl_gym.runs.assembly import Domain, executor_for, prepare_torch
from wmrl_gym.runs.competition_environments import competition_environments
from wmrl_gym.runs.configured import configured
from wmrl_gym.runs.output_folder import make_output_folder
from wmrl_gym.runs.records.work_file import OtherWork, WorkFile

_DRAWING = ("seed", "count", "authors", "agent", "policy", "tasks", "env")
"""The settings that decide what is drawn and what comes of it."""


class CorpusDrawing:
    """Solutions by several authors with what really became of them. What is there already is not executed again.

    Args:
        config: what to draw.
        plain: the same as plain data, to be written down.

    Attributes:
        config: what to draw.
        domain: the competitions.
        header: the circumstances that the solutions are executed in.

    Raises:
        ConfigError: if the output cannot be written, an author is unknown, or the environment plays no competitions.
    """

    def __init__(self, config: CorpusConfig, plain: Mapping[str, Any]) -> None:
        _check_output(config.output)
        _check_authors(config)
        self.config = config
        self.domain = Domain(config.env, config.tasks)
        self._names = [*self.domain.train, *self.domain.held_out]
        self._environments = competition_environments(self.domain, self._names, BLOCK)
        self.header = circumstances(self._environments[0], _drawing(plain))

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any] | Sequence[str] = (), config_dir: Path | None = None
    ) -> CorpusDrawing:
        """A corpus as it is configured.

        Args:
            config: overrides as on the command line, for example ``["count=100", "output=mine.jsonl.gz"]``; or the
                whole configuration as plain data.
            config_dir: another directory with configuration groups, searched beside the built-in ones.

        Raises:
            ConfigError: if the configuration cannot be right.
        """
        return cls(*configured(CorpusConfig, "corpus", config, config_dir))

    def finished(self) -> Corpus | None:
        """The corpus, if its file is there.

        Raises:
            OtherWork: if it was drawn with other settings or from other data.
            CorpusError: if the file is damaged.
        """
        output = self.config.output
        if not output.is_file():
            return None
        found = read_corpus(output)
        same = found.headers[0].config == self.header.config and found.headers[0].data == self.header.data
        if not same or len(found.records) != self.config.count:
            raise OtherWork(
                f"'{output}' is there already, drawn with other settings or from other data\n"
                "  choose another output, or delete the file to write it anew."
            )
        return found

    def write(self, on_block: Callable[[int], None] = lambda done: None) -> Corpus:
        """Draw and execute what is missing, and write the file. A call that is interrupted is gone on with by the next.

        Args:
            on_block: is told how many solutions there are, after each block of them.

        Raises:
            OtherWork: if what is there, or interrupted work, was drawn otherwise.
            RunInUse: if another process writes the same corpus.
            RuntimeError: if the authors have nothing new to say.
        """
        found = self.finished()
        if found is not None:
            return found
        config = self.config
        work_file = WorkFile(config.output.with_name(config.output.name + ".part"), asdict(self.header))
        with work_file as work, executor_for(config.execution, self.domain) as executor:
            records = write_blocks(
                Plan(config.seed, config.authors, self._names),
                config.count,
                self._environments,
                _agent(config),
                executor,
                work,
                on_block,
            )
            competitions = self._environments[0].competitions
            records = confirm_timeouts(records, competitions, executor, config.confirm_timeouts)
            write_corpus(config.output, self.header, records)
            work.path.unlink(missing_ok=True)
        return Corpus((self.header,), tuple(records))


def _drawing(plain: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the content, but not where the data lie on this machine: the data have digests of their own."""
    chosen = {key: plain[key] for key in _DRAWING}
    return {**chosen, "env": {key: value for key, value in chosen["env"].items() if key != "data_root"}}


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
