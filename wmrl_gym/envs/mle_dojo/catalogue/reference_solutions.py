"""Builds the reference leaderboards by really running a pool of scripted solutions.

    python -m wmrl_gym.envs.mle_dojo.catalogue.reference_solutions [names]

Each solution is features + an estimator (+ a smaller training set, or a logarithmic target), fitted on the public
training data and graded with the competition's own metric. The scores are written to ``leaderboards/<name>.csv``; they
are labelled "reference", for no human took part.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import make_pipeline

from wmrl_gym.envs.mle_dojo.catalogue import CATALOGUE
from wmrl_gym.envs.mle_dojo.catalogue.leaderboards import leaderboard_file
from wmrl_gym.envs.mle_dojo.catalogue.partition import Partition, partition
from wmrl_gym.envs.mle_dojo.catalogue.reference_features import image_features, table_features, text_features
from wmrl_gym.envs.mle_dojo.catalogue.reference_models import classifier, regressor
from wmrl_gym.envs.mle_dojo.catalogue.scoring import METRICS
from wmrl_gym.envs.mle_dojo.catalogue.spec import CompetitionSpec

# A recipe is "features:estimator", optionally "@rows" (learn from the first rows only) and "~log" (learn log(1 + y)).
_TABLE_POOL = """
first:constant first:guess first:stump first:linear first:neighbours few:tree_small few:linear few:forest_shallow
few:forest few:nearest components:linear components:neighbours components:forest
numeric:linear_weak numeric:nearest numeric:tree numeric:tree_small numeric:forest numeric:boost_short numeric:boost
scaled:linear scaled:neighbours scaled:bayes scaled:kernel scaled:online
onehot:bayes onehot:discriminant onehot:linear onehot:linear_loose onehot:linear_weak onehot:linear_balanced
onehot:neighbours onehot:neighbours_many onehot:kernel onehot:kernel_loose onehot:forest@40 onehot:linear@40
onehot:forest@100 onehot:boost@100 onehot:network onehot:network_stiff onehot:extra onehot:blend
ordinal:tree ordinal:tree_medium ordinal:bagging ordinal:forest ordinal:forest_tuned ordinal:boost ordinal:boost_slow
ordinal:adaboost ordinal:boost_stumps squares:linear_stiff squares:linear_weak
all_levels:linear all_levels:forest target_means:boost_slow target_means:forest_tuned
engineered:boost_slow engineered:boost_classic engineered:linear engineered:extra_smooth engineered:blend_smooth
engineered:blend
"""

_TEXT_POOL = """
length:constant length:guess length:linear length:tree_small length:forest length:neighbours length:boost_short
letters:linear letters:forest letters:neighbours_many letters:counts few_words:linear few_words:tree
few_words:forest few_words:linear_weak words:linear words:linear_weak words:linear_loose words:counts words:margin
words:neighbours words:forest words:tree_medium words:linear@60 words:linear@300 words_sublinear:counts_smooth
word_counts:linear word_counts:counts word_counts:presence word_pairs:margin word_pairs:counts_smooth
word_pairs:linear_loose pieces:linear pieces:counts pieces:margin pieces:neighbours pieces:linear@60 pieces:linear@300
pieces:linear_weak pieces_long:linear_loose pieces_long:margin pieces_long:margin_stiff pieces_long:kernel
pieces_counts:linear_stiff pieces_counts:presence pieces_counts:forest topics:linear topics:neighbours
topics:boost_short topics:forest piece_topics:forest piece_topics:boost_slow piece_topics:kernel_loose
piece_topics:linear piece_topics:neighbours length:stump length:kernel length:forest@60 letters:linear_loose
letters:kernel letters:tree_medium letters:forest@100 pieces:linear_loose pieces:forest pieces:neighbours_many
pieces_long:linear pieces_long:counts_smooth pieces_counts:linear_weak word_counts:linear_stiff
pieces_and_words:linear pieces_and_words:linear_loose pieces_and_words:counts_smooth pieces_and_words:margin
pieces_and_words:margin_stiff
"""

_IMAGE_POOL = """
brightness:constant brightness:guess brightness:linear brightness:stump brightness:tree_medium brightness:neighbours
statistics:linear statistics:tree_small statistics:neighbours statistics:bayes statistics:forest statistics:boost_short
coarsest:linear coarsest:neighbours coarsest:tree_medium coarsest:forest coarsest:kernel coarse:linear coarse:neighbours
coarse:forest coarse:kernel_loose coarse:bayes pixels:tree_medium pixels:bayes pixels:nearest pixels:neighbours
pixels:linear_weak pixels:linear_stiff pixels:forest pixels:extra pixels:kernel pixels:forest@60 pixels:linear_stiff@60
pixels:kernel@200 pixels:kernel_loose pixels:forest@200 scaled_pixels:linear_stiff scaled_pixels:kernel
components:linear components:neighbours components:discriminant components:kernel_loose components:forest
components:tree histogram:linear histogram:forest edges:linear edges:tree_medium edges:neighbours edges:forest
edges:kernel_loose edges_and_statistics:kernel edges_and_statistics:boost_short edges_and_statistics:linear
edges_and_statistics:extra_smooth everything:kernel_loose everything:extra everything:linear_stiff
"""

_LOG_POOL = """
few:forest_shallow~log numeric:linear~log numeric:tree_small~log numeric:boost_short~log numeric:boost~log
numeric:forest~log scaled:neighbours~log onehot:linear~log onehot:linear_stiff~log onehot:linear_balanced~log
onehot:neighbours_many~log onehot:kernel~log onehot:blend~log onehot:blend_smooth~log onehot:forest@100~log
ordinal:tree_medium~log ordinal:forest~log ordinal:forest_tuned~log ordinal:extra_smooth~log ordinal:boost_slow~log
ordinal:boost_stumps~log squares:linear_weak~log engineered:boost_classic~log engineered:extra_smooth~log
"""
_POOLS = {"tabular": _TABLE_POOL, "text": _TEXT_POOL, "image": _IMAGE_POOL}


@dataclass(frozen=True)
class Entry:
    """One row of a reference leaderboard."""

    solution: str
    score: float
    seconds: float
    signature: bytes
    """Equal for solutions that predict the same."""


def recipes(spec: CompetitionSpec) -> list[str]:
    """The pool of a competition."""
    return (_POOLS[spec.category] + (_LOG_POOL if spec.metric == "rmsle" else "")).split()


def run_recipe(spec: CompetitionSpec, parts: Partition, recipe: str) -> Entry:
    """Fit one solution on the training rows, predict the test rows, grade."""
    started = time.perf_counter()
    body, log_target = recipe.removesuffix("~log"), recipe.endswith("~log")
    body, _, rows = body.partition("@")
    features, model = body.split(":")
    train, test = _inputs(spec, parts)
    target = parts.train[spec.target].to_numpy()
    if rows:
        train, target = train[: int(rows)], target[: int(rows)]
    estimator = classifier(model) if spec.answer != "number" else regressor(model)
    if log_target:
        estimator = TransformedTargetRegressor(estimator, func=np.log1p, inverse_func=np.expm1)
    pipeline = make_pipeline(_transformer(spec, features, train, target), estimator)
    pipeline.fit(train, target)
    predicted = _answers(spec, pipeline, test)
    score = METRICS[spec.metric](parts.answers[spec.target].to_numpy(), predicted)
    return Entry(recipe, score, time.perf_counter() - started, _signature(spec, predicted, score))


def run_pool(spec: CompetitionSpec) -> list[Entry]:
    """Run every solution of a competition's pool, best score first; of those that predict the same, one is kept.

    Words that never recur make every bag of words predict the same constant, and a leaderboard crowded with it would
    put that constant in the middle.
    """
    parts = partition(spec)
    with warnings.catch_warnings():
        # Unconverged and degenerate solutions are wanted: a leaderboard has them too.
        warnings.simplefilter("ignore")
        entries = [run_recipe(spec, parts, recipe) for recipe in recipes(spec)]
    distinct = {entry.signature: entry for entry in reversed(entries)}.values()
    return sorted(distinct, key=lambda entry: (entry.score, entry.solution), reverse=spec.higher_is_better)


def write_leaderboard(spec: CompetitionSpec, entries: list[Entry]) -> None:
    """Write the package's file of reference scores."""
    with leaderboard_file(spec.name).open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["solution", "score", "seconds"])
        writer.writerows([entry.solution, f"{entry.score:.6f}", f"{entry.seconds:.2f}"] for entry in entries)


def _signature(spec: CompetitionSpec, predicted: Any, score: float) -> bytes:
    # Numbers and probabilities differ in their last digits even where the solutions agree; their scores then do not.
    return repr(predicted.tolist() if spec.answer == "label" else round(score, 5)).encode()


def _inputs(spec: CompetitionSpec, parts: Partition) -> tuple[Any, Any]:
    if spec.category == "image":
        return np.stack([*parts.train_images.values()]), np.stack([*parts.test_images.values()])
    features = [column for column in parts.test.columns if column != spec.id_column]
    if spec.category == "text":
        return parts.train[features[0]], parts.test[features[0]]
    return parts.train[features], parts.test[features]


def _transformer(spec: CompetitionSpec, name: str, train: Any, target: Any) -> Any:
    if spec.category == "image":
        return image_features(name, train.shape[1])
    if spec.category == "text":
        return text_features(name)
    kind = "continuous" if spec.answer == "number" else "binary" if len(np.unique(target)) == 2 else "multiclass"
    return table_features(name, train, kind)


def _answers(spec: CompetitionSpec, pipeline: Any, test: Any) -> Any:
    """Predictions in the form that the metric wants."""
    if spec.answer != "probability":
        return pipeline.predict(test)
    if hasattr(pipeline, "predict_proba"):
        return pipeline.predict_proba(test)[:, 1]
    return 1 / (1 + np.exp(-pipeline.decision_function(test)))


def main(names: list[str]) -> None:
    """Run the pools of the named competitions, or of all."""
    for name in names or list(CATALOGUE):
        spec = CATALOGUE[name]
        started = time.perf_counter()
        entries = run_pool(spec)
        write_leaderboard(spec, entries)
        best, worst = entries[0].score, entries[-1].score
        seconds = time.perf_counter() - started
        print(f"{name}: {len(entries)} solutions, {spec.metric} {worst:.4f} to {best:.4f}, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
