"""Metric files load without MLE-Dojo, and with it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wmrl_gym.envs.mle_dojo.metric_name import metric_name
from wmrl_gym.envs.mle_dojo.metric_shim import CompetitionMetrics, MetricError, load_metric_class


def write(path: Path, body: str) -> Path:
    path.write_text("from mledojo.metrics.base import CompetitionMetrics, InvalidSubmissionError\n" + body)
    return path


def mledojo_modules() -> list[str]:
    return [name for name in sys.modules if name.split(".")[0] == "mledojo"]


def test_a_metric_file_loads_and_leaves_no_mledojo_behind(data_root: Path) -> None:
    metric = load_metric_class(data_root / "wine" / "utils" / "metric.py")
    assert metric.__name__ == "WineMetrics"
    assert issubclass(metric, CompetitionMetrics)
    assert metric().higher_is_better is True
    assert mledojo_modules() == []


def test_an_installed_mledojo_is_used_and_not_shadowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "mledojo" / "metrics"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("real = True\n")
    (package / "__init__.py").write_text("")
    (package / "base.py").write_text(
        "class CompetitionMetrics:\n    genuine = True\n\nclass InvalidSubmissionError(Exception):\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    try:
        metric = load_metric_class(write(tmp_path / "metric.py", "class Mine(CompetitionMetrics):\n    pass\n"))
        assert metric.genuine is True  # type: ignore[attr-defined]
        assert sys.modules["mledojo"].real is True  # type: ignore[attr-defined]
    finally:
        for name in mledojo_modules():
            del sys.modules[name]


def test_two_competitions_with_the_same_class_name_do_not_mix(tmp_path: Path) -> None:
    body = "class M(CompetitionMetrics):\n    def evaluate(self, y_true, y_pred):\n        return {}\n"
    one = load_metric_class(write(tmp_path / "one.py", body.format(1.0)))
    two = load_metric_class(write(tmp_path / "two.py", body.format(2.0)))
    assert (one().evaluate(None, None), two().evaluate(None, None)) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import no_such_package_anywhere\n", "needs a package that is not installed.*no_such_package_anywhere"),
        ("x = 1\n", "defines no subclass"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("raise SystemExit(1)\n", "SystemExit"),
    ],
)
def test_a_metric_file_that_cannot_be_used_says_why(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(MetricError, match=message):
        load_metric_class(write(tmp_path / "metric.py", body))
    assert mledojo_modules() == []


@pytest.mark.parametrize(
    ("docstring", "name"),
    [
        ("Metric class for X using Root Mean Squared Logarithmic Error (RMSLE)", "rmsle"),
        ("Metric class for X using RMSE", "rmse"),
        ("Metric class for X using Mean Absolute Error (MAE)", "mae"),
        ("Metric class for X using ROC AUC", "auc"),
        ("Metric class for X using multi-class logarithmic loss", "logloss"),
        ("Metric class for X using Quadratic Weighted Kappa", "qwk"),
        ("Metric class for X using classification accuracy", "accuracy"),
        ("Metric class for something never seen", "score"),
    ],
)
def test_the_metric_is_named_after_its_docstring(tmp_path: Path, docstring: str, name: str) -> None:
    path = write(tmp_path / "metric.py", f'class M(CompetitionMetrics):\n    """{docstring}"""\n')
    assert metric_name(load_metric_class(path), path, "") == name


def test_a_metric_without_docstring_is_named_after_the_evaluation_section(tmp_path: Path) -> None:
    path = write(tmp_path / "metric.py", "class M(CompetitionMetrics):\n    pass\n")
    description = "# Accuracy of watches\n\n## Evaluation\n\nScored by the mean absolute error.\n\n## Data\n\nRMSE\n"
    assert metric_name(load_metric_class(path), path, description) == "mae"
