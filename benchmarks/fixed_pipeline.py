"""Which single pipeline does best on the bundled training competitions: the choice behind `policies.baselines.FIXED`.

    python benchmarks/fixed_pipeline.py [--data-root DIR]

Every candidate is really executed and graded on every training competition of its kind; held-out ones are not touched.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

from wmrl_gym.core import Submission
from wmrl_gym.corpus.generator.facts import parse_facts
from wmrl_gym.corpus.generator.scripts import render_plan
from wmrl_gym.envs.mle_dojo.catalogue import prepare, train_competitions
from wmrl_gym.envs.mle_dojo.competition import default_data_root
from wmrl_gym.envs.mle_dojo.overview_text import render_overview
from wmrl_gym.envs.mle_dojo.runner import CompetitionRunner
from wmrl_gym.policies.baselines import Choice, plan_of

WORDS, PAIRS = "TfidfVectorizer()", "TfidfVectorizer(ngram_range=(1, 2))"
LETTERS = 'TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4))'
TREES, FEW = "n_estimators=200, random_state=0", 'n_estimators=100, max_features="sqrt"'

CANDIDATES = {
    ("tabular", False): [
        Choice("RandomForestClassifier", TREES),
        Choice("ExtraTreesClassifier", TREES),
        Choice("GradientBoostingClassifier", ""),
        Choice("GradientBoostingClassifier", "learning_rate=0.05, n_estimators=200"),
        Choice("HistGradientBoostingClassifier", "learning_rate=0.05"),
        Choice("LogisticRegression", "max_iter=1000"),
    ],
    ("tabular", True): [
        Choice("RandomForestRegressor", TREES),
        Choice("ExtraTreesRegressor", TREES),
        Choice("GradientBoostingRegressor", ""),
        Choice("GradientBoostingRegressor", "learning_rate=0.05, n_estimators=200"),
        Choice("HistGradientBoostingRegressor", "learning_rate=0.05"),
        Choice("Ridge", "alpha=10.0"),
    ],
    ("text", False): [
        Choice(name, settings, vectorizer)
        for vectorizer in (WORDS, PAIRS, LETTERS)
        for name, settings in (("LogisticRegression", "C=10, max_iter=1000"), ("MultinomialNB", "alpha=0.1"))
    ],
    ("text", True): [
        Choice(name, settings, vectorizer)
        for vectorizer in (WORDS, LETTERS)
        for name, settings in (("Ridge", ""), ("SVR", ""))
    ],
    ("image", False): [
        Choice("SVC", "C=10"),
        Choice("ExtraTreesClassifier", TREES),
        Choice("RandomForestClassifier", TREES),
        Choice("KNeighborsClassifier", "n_neighbors=3"),
    ],
    ("image", True): [
        Choice("SVR", "C=10"),
        Choice("ExtraTreesRegressor", FEW),
        Choice("RandomForestRegressor", FEW),
        Choice("Ridge", "alpha=10.0"),
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, default=default_data_root())
    root = parser.parse_args().data_root
    runner = CompetitionRunner(data_root=root, sandbox_start="warm")
    percentiles: dict[tuple[str, bool], dict[Choice, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in train_competitions():
        prepare(name, root)
        overview = runner.competition(name).overview
        facts = parse_facts(render_overview(overview, "compact"))
        kind = facts.modality, facts.regression
        for choice in CANDIDATES[kind]:
            outcome = runner(Submission(name, render_plan(plan_of(facts, choice)), {}))
            percentiles[kind][choice].append(outcome.details["percentile"] or 0.0)
            print(
                f"{name} {choice.estimator}({choice.settings}): {outcome.status} {outcome.details['percentile']}",
                flush=True,
            )
    for (modality, regression), choices in percentiles.items():
        print(f"\n{modality}, {'a number' if regression else 'classes'}: mean percentile")
        for choice, values in sorted(choices.items(), key=lambda item: -sum(item[1])):
            text = f", {choice.vectorizer}" if modality == "text" else ""
            print(f"  {sum(values) / len(values):.3f} of {len(values)}  {choice.estimator}({choice.settings}){text}")


if __name__ == "__main__":
    main()
