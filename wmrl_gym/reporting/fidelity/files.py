"""The report of a fidelity measurement, as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from wmrl_gym.reporting.fidelity.assessment import assess
from wmrl_gym.reporting.fidelity.document import markdown
from wmrl_gym.reporting.fidelity.figure import draw
from wmrl_gym.runs.fidelity_measurement import FidelityMeasurement
from wmrl_gym.runs.predicting import Prediction
from wmrl_gym.runs.records.run_directory import write_atomically


def write_fidelity(measurement: FidelityMeasurement, predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Compare the predictions with the truth, and write the report into the measurement's folder.

    Args:
        measurement: what was predicted.
        predictions: what `FidelityMeasurement.predict` returned.

    Returns:
        What is in ``fidelity.json``: all that `assess` says, and what it was said of.

    Raises:
        ValueError: if no solution has a known truth.
        ImportError: if a plot is asked for and matplotlib is missing.
    """
    config = measurement.config
    found = {
        "world_model": measurement.name,
        "corpus": ", ".join(path.name for path in config.corpora),
        "corpus_digest": measurement.corpus.digest(),
        "versions": dict(measurement.versions),
        "notes": measurement.notes,
        **assess(measurement.records, predictions, resamples=config.resamples, level=config.level, seed=config.seed),
    }
    if config.plot:
        draw(found, config.output / "fidelity.svg")
    write_atomically(config.output / "fidelity.json", json.dumps(found, indent=2) + "\n")
    text = markdown(found, figure="fidelity.svg" if config.plot else None)
    write_atomically(config.output / "fidelity.md", text)
    return found
