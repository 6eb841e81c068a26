"""The 74 data-modelling tasks of DSBench, and their category by Kaggle's name of their metric.

Names from DSBench's ``data_modeling/data.json``, metrics from MLE-Dojo's ``prepare/dsbench.json``, categories by the
rule of the paper's authors: areas under a curve are binary classification; errors and the Gini index regression;
accuracy, F scores, kappa and log loss multi-class classification; everything else, custom metrics among it, other.

In a configuration: ``tasks.held_out=wmrl_gym.envs.dsbench.tasks.dsbench_tasks``.
"""

from __future__ import annotations

from collections.abc import Sequence

CATEGORIES = ("binary", "multiclass", "regression", "other")

_TASKS_BY_METRIC = {
    "Categorization Accuracy": """
        titanic spaceship-titanic tabular-playground-series-feb-2022 tabular-playground-series-apr-2021
        tabular-playground-series-dec-2021
    """,
    "Area Under Receiver Operating Characteristic Curve": """
        santander-customer-transaction-prediction santander-customer-satisfaction microsoft-malware-prediction
        dont-overfit-ii tabular-playground-series-sep-2021 tabular-playground-series-aug-2022 instant-gratification
        tabular-playground-series-mar-2021 tabular-playground-series-nov-2021 cat-in-the-dat cat-in-the-dat-ii
        tabular-playground-series-may-2022 playground-series-s3e2 playground-series-s3e7 playground-series-s3e3
        playground-series-s3e4
    """,
    "Normalized Gini Index": """
        porto-seguro-safe-driver-prediction
    """,
    "Root Mean Squared Logarithmic Error": """
        santander-value-prediction-challenge bike-sharing-demand tmdb-box-office-prediction see-click-predict-fix
    """,
    "Root Mean Squared Error": """
        commonlitreadabilityprize tabular-playground-series-aug-2021 tabular-playground-series-jan-2021
        playground-series-s3e20 tabular-playground-series-feb-2021 playground-series-s3e9 playground-series-s3e8
        playground-series-s3e6 playground-series-s3e1
    """,
    "Roc Auc Score": """
        playground-series-s4e1 playground-series-s3e24 playground-series-s3e23 playground-series-s3e17
        playground-series-s3e18
    """,
    "Accuracy Score": """
        playground-series-s4e2 playground-series-s4e6
    """,
    "R2 Score": """
        playground-series-s4e5
    """,
    "Custom Metric": """
        feedback-prize-english-language-learning tweet-sentiment-extraction playground-series-s3e12 nlp-getting-started
        conways-reverse-game-of-life-2020
    """,
    "F-Score (Macro)": """
        liverpool-ion-switching
    """,
    "Mean Squared Log Error": """
        playground-series-s4e4 playground-series-s3e11
    """,
    "Mean Absolute Error": """
        ventilator-pressure-prediction playground-series-s3e14 playground-series-s3e16
        tabular-playground-series-mar-2022
    """,
    "Mean Columnwise Area Under Receiver Operating Characteristic Curve": """
        playground-series-s4e3
    """,
    "Cohen Kappa Score": """
        learning-agency-lab-automated-essay-scoring-2 playground-series-s3e5
    """,
    "PearsonCorrelationCoefficient": """
        us-patent-phrase-to-phrase-matching
    """,
    "Median Absolute Error": """
        playground-series-s3e25
    """,
    "SMAPE": """
        tabular-playground-series-jan-2022 tabular-playground-series-sep-2022 playground-series-s3e19
        demand-forecasting-kernels-only
    """,
    "Mean Columnwise Spearman's r (rank correlation coefficient)": """
        google-quest-challenge
    """,
    "F1 Score": """
        playground-series-s3e22
    """,
    "Mean Columnwise Root Mean Squared Logarithmic Error": """
        tabular-playground-series-jul-2021 covid19-global-forecasting-week-1 covid19-global-forecasting-week-4
        covid19-global-forecasting-week-3 covid19-global-forecasting-week-2
    """,
    "MAP@{K}": """
        playground-series-s3e13
    """,
    "Log Loss": """
        playground-series-s3e10 lmsys-chatbot-arena
    """,
}

METRICS = {name: metric for metric, names in _TASKS_BY_METRIC.items() for name in names.split()}
"""Task -> what Kaggle calls its metric."""

# Asked in this order: "mean columnwise area under ..." is a binary task, "mean squared log error" no log loss.
_WORDS: tuple[tuple[str, Sequence[str]], ...] = (
    ("binary", ("roc", "auc", "area under")),
    ("regression", ("squared", "absolute error", "smape", "logarithmic error", "gini")),
    ("multiclass", ("kappa", "accuracy", "f1", "f-score", "log loss")),
)


def category(metric: str) -> str:
    """Category of a task by Kaggle's name of its metric."""
    name = metric.lower()
    return next((category for category, words in _WORDS if any(word in name for word in words)), "other")


def dsbench_tasks() -> list[str]:
    """Names of the 74 tasks, metric by metric."""
    return list(METRICS)


def task_categories() -> dict[str, str]:
    """Task -> "binary", "multiclass", "regression" or "other"."""
    return {name: category(metric) for name, metric in METRICS.items()}


def no_training_tasks() -> list[str]:
    """DSBench has nothing to train on.

    Raises:
        ValueError: always.
    """
    raise ValueError(
        "DSBench has no training tasks: it measures agents\n"
        "  evaluate with `wmrl evaluate env=dsbench`; to train on tasks of your choice, name them: tasks.train=[...]."
    )
