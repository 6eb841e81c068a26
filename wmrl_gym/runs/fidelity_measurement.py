"""A world model's word on executed solutions: which ones, what it predicts of them, and what is saved of that.

``wmrl fidelity`` is a thin face of `FidelityMeasurement`; `wmrl_gym.reporting.fidelity` compares and reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from wmrl_gym.configs.fidelity_schema import FidelityConfig
from wmrl_gym.configs.validation import ConfigError
from wmrl_gym.core import Submission, WorldModel
from wmrl_gym.corpus.circumstances import check_circumstances, circumstances
from wmrl_gym.corpus.file import Record, read_corpus
from wmrl_gym.runs.assembly import Domain
from wmrl_gym.runs.competition_environments import competition_environments
from wmrl_gym.runs.configured import configured
from wmrl_gym.runs.output_folder import make_output_folder
from wmrl_gym.runs.predicting import Prediction, predict_all
from wmrl_gym.runs.records.work_file import WorkFile


class FidelityMeasurement:
    """One world model, asked about the solutions of a corpus.

    Predictions are saved batch by batch in `saved`: a measurement with the same settings goes on with what one that was
    killed has left.

    Args:
        config: which world model, and on what.
        plain: the same as plain data.

    Attributes:
        config: which world model, and on what.
        corpus: all solutions of the files.
        records: those that are predicted, in their order.
        notes: what differs between the circumstances of the corpus and those here, as sentences.
        versions: of the packages here.

    Raises:
        CorpusError: if the solutions cannot be used: no such file, a damaged one, or one of other data or limits.
        ConfigError: if the environment plays no competitions, or the output cannot be written.
    """

    def __init__(self, config: FidelityConfig, plain: Mapping[str, Any]) -> None:
        self.config = config
        self.corpus = read_corpus(*config.corpora)
        environment = competition_environments(Domain(config.env, config.tasks), self.corpus.tasks, 1)[0]
        here = circumstances(environment, {})
        self.notes = check_circumstances(self.corpus, here)
        self.versions = here.versions
        # Task by task, so that a batch shares the overview and not only the instructions.
        self.records: list[Record] = sorted(self.corpus.records[: config.limit], key=lambda record: record.task)
        self._overviews = {task: environment.competitions[task].overview for task in self.corpus.tasks}
        self._world_model = plain["world_model"]
        make_output_folder(config.output)

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any] | Sequence[str], config_dir: Path | None = None
    ) -> FidelityMeasurement:
        """A measurement as it is configured.

        Args:
            config: overrides as on the command line, for example ``["corpus=solutions.jsonl.gz"]``; or the whole
                configuration as plain data.
            config_dir: another directory with configuration groups, searched beside the built-in ones.

        Raises:
            ConfigError: if the configuration cannot be right.
        """
        return cls(*configured(FidelityConfig, "fidelity", config, config_dir))

    @cached_property
    def world_model(self) -> WorldModel:
        """The world model, made when it is asked for."""
        if self.config.world_model is None:
            raise ConfigError("world_model is null: choose one, for example world_model=static_analysis")
        model: WorldModel = self.config.world_model.build()
        return model

    @property
    def name(self) -> str:
        """What the world model is called."""
        return self.config.name or type(self.world_model).__name__

    def saved(self) -> WorkFile:
        """The file of what is predicted, to be entered."""
        work = {
            "corpus": self.corpus.digest(),
            "limit": self.config.limit,
            "batch": self.config.batch,
            "world_model": self._world_model,
        }
        return WorkFile(self.config.output / "predictions.jsonl", work)

    def predict(
        self, work: WorkFile | None = None, on_batch: Callable[[int], None] = lambda done: None
    ) -> list[Prediction]:
        """Predict what is missing.

        Args:
            work: what is saved, entered, where more than this is to be done before another process may go on; None
                enters it here.
            on_batch: is told how many solutions are predicted, after each batch.

        Returns:
            A prediction for each of `records`, in order.

        Raises:
            WorldModelError: if the world model answers with another number of outcomes than it was asked for.
            OtherWork: if the finished batches cannot be read, or belong to other settings.
            RunInUse: if another process makes the same predictions.
        """
        if work is None:
            with self.saved() as entered:
                return self.predict(entered, on_batch)
        submissions = [
            Submission(record.task, record.script, {"overview": self._overviews[record.task]})
            for record in self.records
        ]
        return predict_all(self.world_model, submissions, work, self.config.batch, on_batch)
