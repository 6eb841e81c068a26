"""``wmrl fidelity``: a world model's predictions of executed solutions, compared with what came of them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from wmrl_gym.cli.configuration import run_configured
from wmrl_gym.cli.corpus import circumstances, mle_dojo_environments
from wmrl_gym.configs.fidelity_schema import FidelityConfig
from wmrl_gym.configs.validation import to_dataclass
from wmrl_gym.core import Submission, WorldModel
from wmrl_gym.corpus.file import Corpus, CorpusError, Header, Record, read_corpus
from wmrl_gym.envs.mle_dojo.env import MLEDojoEnv
from wmrl_gym.reporting.fidelity.assessment import assess
from wmrl_gym.reporting.fidelity.document import markdown
from wmrl_gym.reporting.fidelity.figure import draw
from wmrl_gym.reporting.svg_figure import require_matplotlib
from wmrl_gym.runs.assembly import Domain
from wmrl_gym.runs.output_folder import make_output_folder
from wmrl_gym.runs.predicting import Prediction, predict_all
from wmrl_gym.runs.records.run_directory import write_atomically
from wmrl_gym.runs.records.work_file import WorkFile


def fidelity(config: FidelityConfig, plain: dict[str, Any]) -> int:
    """Predict, compare, and write the report to ``config.output``.

    Raises:
        CorpusError: if the solutions cannot be used: no such file, a damaged one, or one of other data or limits.
        OtherWork: if the folder holds predictions that were begun with other settings.
        RunInUse: if another process writes into the folder.
        ImportError: if a plot is asked for and matplotlib is missing.
    """
    if config.plot:
        require_matplotlib(otherwise=", or set plot=false")
    console = Console()
    corpus = read_corpus(*config.corpora)
    environment = mle_dojo_environments(Domain(config.env, config.tasks), corpus.tasks, 1)[0]
    notes = check_circumstances(corpus, circumstances(environment, {}))
    # Task by task, so that a batch shares the overview and not only the instructions.
    records = sorted(corpus.records[: config.limit], key=lambda record: record.task)
    make_output_folder(config.output)
    assert config.world_model is not None
    predicted = {
        "corpus": corpus.digest(),
        "limit": config.limit,
        "batch": config.batch,
        "world_model": plain["world_model"],
    }
    with WorkFile(config.output / "predictions.jsonl", predicted) as work:
        model = config.world_model.build()
        predictions = _predict(model, records, environment, work, config.batch, console)
        if predictions is None:
            return 130
        found = {
            "world_model": config.name or type(model).__name__,
            "corpus": ", ".join(path.name for path in config.corpora),
            "corpus_digest": corpus.digest(),
            "versions": dict(circumstances(environment, {}).versions),
            "notes": notes,
            **assess(records, predictions, resamples=config.resamples, level=config.level, seed=config.seed),
        }
        _write(config.output, found, config.plot)
    for line in (f"status accuracy: {_told(found, 'status_accuracy')}", f"reward MAE: {_told(found, 'reward_mae')}"):
        console.print(line, highlight=False)
    console.print(found["advice"], highlight=False, soft_wrap=True)
    console.print(f"wrote {config.output / 'fidelity.md'}", highlight=False)
    return 0


def check_circumstances(corpus: Corpus, here: Header) -> list[str]:
    """Refuse solutions that were executed on other data, with other limits or scores.

    Returns:
        What differs and is no reason to refuse: versions of packages.

    Raises:
        CorpusError: for the others.
    """
    notes = []
    for header in corpus.headers:
        other = [task for task in corpus.tasks if task in header.data and header.data[task] != here.data[task]]
        if other:
            raise CorpusError(
                f"the solutions were executed on other data than these: {', '.join(other[:5])}"
                f"{' and more' if len(other) > 5 else ''}\n"
                "  predictions would be about one version and the truth about another: give the data they were\n"
                "  executed on (env.data_root=...), or execute solutions on yours with `wmrl corpus`."
            )
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


def _predict(
    model: WorldModel,
    records: Sequence[Record],
    environment: MLEDojoEnv,
    work: WorkFile,
    batch: int,
    console: Console,
) -> list[Prediction] | None:
    """Predictions; None if the user stopped it."""
    submissions = [
        Submission(record.task, record.script, {"overview": environment.competitions[record.task].overview})
        for record in records
    ]
    every = max(1, len(records) // (20 * batch)) * batch

    def show(done: int) -> None:
        if done % every < batch or done == len(records):
            console.print(f"{done} of {len(records)} predicted", highlight=False)

    try:
        return predict_all(model, submissions, work, batch, show)
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here")
        return None


def _write(output: Path, found: dict[str, Any], plot: bool) -> None:
    if plot:
        draw(found, output / "fidelity.svg")
    write_atomically(output / "fidelity.json", json.dumps(found, indent=2) + "\n")
    write_atomically(output / "fidelity.md", markdown(found, figure="fidelity.svg" if plot else None))


def _told(found: dict[str, Any], name: str) -> str:
    estimate, constant = found["overall"][name], found["constant"][name]
    if estimate["value"] is None:
        return "unknown"
    return f"{estimate['value']:.3f} (a constant guess: {constant:.3f})"


def run(options: argparse.Namespace) -> int:
    """``wmrl fidelity``."""
    return run_configured(options, lambda plain: fidelity(to_dataclass(FidelityConfig, plain), plain))
