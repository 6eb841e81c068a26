"""A fidelity assessment as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wmrl_gym.reporting.markup import markdown_table

_FIGURES = (
    ("status_accuracy", "status accuracy", "share"),
    ("status_accuracy_at_2", "status accuracy, truth among two", "share"),
    ("status_accuracy_unknown_wrong", "status accuracy, abstentions counted wrong", "share"),
    ("exception_accuracy", "exception class, where one is raised", "share"),
    ("exception_accuracy_at_2", "exception class, truth among two", "share"),
    ("reward_mae", "reward, mean absolute error", "number"),
    ("reward_bias", "reward, predicted minus executed", "signed"),
    ("spearman", "Spearman", "number"),
    ("spearman_valid", "Spearman, valid submissions only", "number"),
    ("validity_auc", "AUC, valid against not", "number"),
    ("abstention_rate", "abstentions", "share"),
)
_PART_FIGURES = ("status_accuracy", "reward_mae", "reward_bias", "validity_auc", "spearman")


def markdown(found: Mapping[str, Any], *, figure: str | None = None) -> str:
    """The report.

    Args:
        found: what `assess` returned, with "world_model" (its name), "corpus" (a description) and "notes" (sentences).
        figure: file name of the plot; None leaves it out.
    """
    statuses = ", ".join(f"{number} {status}" for status, number in found["statuses"].items())
    lines = [
        f"# Fidelity of {found['world_model']}",
        "",
        f"{found['solutions']} executed solutions ({found['corpus']}): {statuses}. "
        f"Intervals hold {found['level']:.0%} of a bootstrap over episodes.",
        *(f"\n{note}" for note in found["notes"]),
        "",
        *_overall(found),
        *([f"![Calibration, and status accuracy by author]({figure})", ""] if figure is not None else []),
        "## By author",
        "",
        *_parts(found["by_author"], "author"),
        "## Calibration",
        "",
        *_calibration(found),
        *_checks(found["checks"]),
        "## Confusion",
        "",
        *_confusion(found["confusion"]),
        "## By task",
        "",
        *_parts(found["by_task"], "task"),
        "## Cost of a prediction",
        "",
        *_cost(found["cost"]),
    ]
    return "\n".join(lines)


def _overall(found: Mapping[str, Any]) -> list[str]:
    rows = [
        (label, _interval(found["overall"][name], kind), _number(found["constant"][name], kind))
        for name, label, kind in _FIGURES
    ]
    return [
        *markdown_table(("figure", found["world_model"], "constant guess"), rows),
        "",
        "The constant guess is the best one with hindsight: the commonest status (and the two commonest), the "
        "commonest exception class, the median score. A dash is unknown: the world model does not say, or the figure "
        "does not exist.",
        "",
    ]


def _parts(parts: Mapping[str, Any], heading: str) -> list[str]:
    labels = {name: (label, kind) for name, label, kind in _FIGURES}
    headings = [heading, "scripts", "valid", *(labels[name][0] for name in _PART_FIGURES), "commonest status"]
    rows = [
        [
            label,
            str(part["n"]),
            _number(part["valid_share"], "share"),
            *(_interval(part[name], labels[name][1]) for name in _PART_FIGURES),
            _number(part["constant_status_accuracy"], "share"),
        ]
        for label, part in parts.items()
    ]
    return [*markdown_table(headings, rows), ""]


def _calibration(found: Mapping[str, Any]) -> list[str]:
    inner = found["calibration"]
    if inner is None:
        return [found["advice"], ""]
    rows = [
        (label, _number(inner["before"][name], kind), _number(inner["after"][name], kind))
        for name, label, kind in (
            ("mae", "mean absolute error", "number"),
            ("rmse", "root mean squared error", "number"),
            ("bias", "predicted minus executed", "signed"),
            ("calibration_error", "calibration error", "number"),
        )
    ]
    return [
        f"An isotonic map fitted on {inner['fitted_on']} solutions and shown on the {inner['shown_on']} others, split "
        "at random by episode.",
        "",
        *markdown_table(("on the held-out half", "before", "after"), rows),
        "",
        f"**{found['advice']}** Gain in calibration error {_interval(inner['gain_calibration_error'], 'signed')}. Over "
        f"{inner['repeats']} random halves the mean gain in absolute error is {inner['mean_gain_mae']:+.3f}, and "
        f"{inner['share_of_halves_gained']:.0%} of them gain.",
        "",
        "The map is made to get means right, so it can lower the squared error and the bias and yet raise the absolute "
        "error. It keeps the order of scores: Spearman and AUC cannot gain.",
        "",
    ]


def _checks(checks: Sequence[Mapping[str, Any]]) -> list[str]:
    if not checks:
        return []
    rows = [
        (
            check["check"],
            str(check["fired"]),
            _number(check["precision"], "share"),
            _number(check["precision_in_kind"], "share"),
            str(check["failures"]),
            _number(check["recall"], "share"),
            str(check["abstentions"]),
        )
        for check in checks
    ]
    headings = ("check", "fired", "precision", "precision in kind", "true failures of its kind", "recall", "no opinion")
    return [
        "## Check by check",
        "",
        *markdown_table(headings, rows),
        "",
        "Precision: share of the scripts it fails that are not valid. In kind: that fail in the way it looks for, "
        "crashes filed by the class of their exception, which is coarse.",
        "",
    ]


def _confusion(confusion: Mapping[str, Mapping[str, int]]) -> list[str]:
    guesses = sorted({guess for row in confusion.values() for guess in row})
    rows = [[truth, *(str(row.get(guess, 0)) for guess in guesses)] for truth, row in confusion.items()]
    return [*markdown_table(["executed \\ predicted", *guesses], rows), ""]


def _cost(cost: Mapping[str, float | None]) -> list[str]:
    labels = {
        "seconds": "seconds, mean",
        "median_seconds": "seconds, median",
        "cpu_seconds": "processor seconds, mean",
        "prompt_tokens": "prompt tokens",
        "cached_tokens": "of these cached",
        "generated_tokens": "generated tokens",
    }
    rows = []
    for name, label in labels.items():
        value = cost[name]
        rows.append((label, "-" if value is None else f"{value:.4f}" if "seconds" in name else f"{value:.0f}"))
    return [*markdown_table(("of one script", ""), rows), ""]


def _interval(estimate: Mapping[str, float | None], kind: str) -> str:
    value, low, high = estimate["value"], estimate["low"], estimate["high"]
    if value is None or low is None or high is None:
        return _number(value, kind)
    return f"{_number(value, kind)} ({_number(low, kind)} to {_number(high, kind)})"


def _number(value: float | None, kind: str) -> str:
    if value is None:
        return "-"
    return f"{value:.1%}" if kind == "share" else f"{value:+.3f}" if kind == "signed" else f"{value:.3f}"
