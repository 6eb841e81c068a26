"""The text a competitor reads: ``description.txt``."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from wmrl_gym.envs.mle_dojo.catalogue.spec import CompetitionSpec

if TYPE_CHECKING:
    import pandas as pd

_METRIC_TEXT = {
    "rmse": "the root mean squared error (RMSE) between predicted and true {target}. Lower is better",
    "mae": "the mean absolute error (MAE) between predicted and true {target}. Lower is better",
    "rmsle": (
        "the root mean squared logarithmic error (RMSLE), the RMSE between log(1 + predicted) and log(1 + true)"
        " {target}. Negative predictions count as 0. Lower is better"
    ),
    "accuracy": "accuracy, the share of rows whose {target} is predicted exactly. Higher is better",
    "macro_f1": (
        "the macro-averaged F1 score: the F1 score of each class of {target}, averaged with equal weight."
        " Higher is better"
    ),
    "auc": (
        "the area under the ROC curve (AUC) of the predicted probability that {target} is 1. Submit probabilities, not"
        " labels. Higher is better"
    ),
    "log_loss": (
        "the log loss (cross-entropy) of the predicted probability that {target} is 1. Submit probabilities, not"
        " labels. Lower is better"
    ),
}


def _data_section(spec: CompetitionSpec, train_rows: int, test_rows: int, image_size: str) -> str:
    lines = [
        f"- train.csv: {train_rows} rows with {spec.id_column} and {spec.target}",
        f"- test.csv: {test_rows} rows without {spec.target}",
        "- sample_submission.csv: a submission in the right format, with the same constant in every row",
    ]
    if spec.category == "image":
        lines += [
            f"- train/: one PNG image per row of train.csv, named <{spec.id_column}>.png, {image_size}",
            f"- test/: one PNG image per row of test.csv, named <{spec.id_column}>.png, {image_size}",
        ]
    return "\n".join(lines)


def render_description(spec: CompetitionSpec, train_rows: int, sample: pd.DataFrame, image_size: str = "") -> str:
    """Text of ``description.txt``.

    Args:
        spec: the competition.
        train_rows: rows of train.csv.
        sample: the sample submission, one row per row of test.csv.
        image_size: size and mode of the images, for example "8x8 pixels, grey (mode L)".
    """
    fields = {spec.id_column: "number of the row, without meaning", **spec.fields}
    example = sample.head(3).to_csv(index=False).strip()
    parts = [
        f"# {spec.title}",
        textwrap.fill(spec.story, 100),
        "## Evaluation",
        textwrap.fill(f"Submissions are scored by {_METRIC_TEXT[spec.metric].format(target=spec.target)}.", 100),
        "## Submission format",
        f"For every {spec.id_column} of test.csv, predict {spec.target}. The file needs this header and one row each:",
        f"```\n{example}\n...\n```",
        "## Data",
        _data_section(spec, train_rows, len(sample), image_size),
        "## Fields",
        "\n".join(f"- {name}: {meaning}" for name, meaning in fields.items()),
        "## Source",
        f"{spec.origin}. Licence: {spec.licence}.",
    ]
    return "\n\n".join(parts) + "\n"
