"""Three kinds of author, and the plans they draw.

A corpus of scripts is a mixture of people: some hurry, err often and reach for weak models; some are versed. Their
manners show from the first line, so that a model of the corpus learns who writes how, and training can lean on it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from wmrl_gym.corpus.generator.estimators import Estimator, estimators_for, tier
from wmrl_gym.corpus.generator.facts import TaskFacts
from wmrl_gym.corpus.generator.scripts import HURRIED, LEARNED, VERSED, Manner, Plan

_REFUSES_NOTHING = ("Dummy",)


@dataclass(frozen=True)
class Author:
    """Habits of one kind of author."""

    manner: Manner
    share: float
    """Share of the corpus."""
    mistake_rate: float
    """Chance that a first script has a mistake that stops it."""
    tiers: tuple[float, float, float, float]
    """How often each tier of estimator is chosen."""
    probability_rate: float
    """Chance to hand in probabilities where the metric wants them."""
    log_rate: float
    """Chance to fit the logarithm where the metric is logarithmic."""
    recipes: tuple[float, float, float, float, float]
    """Odds of the tabular recipes numeric, chosen, codes, dummies, transformer."""
    rich_text: float
    """Chance of a vectorizer with word pairs or character n-grams."""


AUTHORS = (
    Author(HURRIED, 0.42, 0.98, (0.50, 0.33, 0.11, 0.06), 0.30, 0.05, (0.55, 0.25, 0.1, 0.1, 0.0), 0.1),
    Author(LEARNED, 0.33, 0.94, (0.35, 0.38, 0.16, 0.11), 0.50, 0.15, (0.3, 0.1, 0.3, 0.3, 0.0), 0.25),
    Author(VERSED, 0.25, 0.8, (0.20, 0.33, 0.25, 0.22), 0.75, 0.35, (0.1, 0.0, 0.3, 0.15, 0.45), 0.5),
)
RECIPES = ("numeric", "chosen", "codes", "dummies", "transformer")
PLAIN_VECTORIZERS = ("CountVectorizer()", "TfidfVectorizer()", "TfidfVectorizer(max_features=1000)")
RICH_VECTORIZERS = (
    "TfidfVectorizer(ngram_range=(1, 2))",
    'TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 3))',
    'TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4))',
    "TfidfVectorizer(sublinear_tf=True)",
)


def draw_author(rng: np.random.Generator) -> Author:
    """An author, by share."""
    return AUTHORS[rng.choice(len(AUTHORS), p=[author.share for author in AUTHORS])]


def draw_plan(facts: TaskFacts, author: Author, rng: np.random.Generator, at_least: int = 0) -> Plan:
    """A plan that runs, with an estimator of at least that tier."""
    estimator = _draw_estimator(facts, author, rng, at_least)
    plan = Plan(
        facts=facts,
        manner=author.manner,
        recipe=_draw_recipe(facts, author, estimator, rng),
        estimator=estimator,
        settings=_draw_settings(facts, estimator, rng),
        log_target=facts.metric == "rmsle" and rng.random() < author.log_rate,
        probability=facts.probability and estimator.probability and rng.random() < author.probability_rate,
        fill="zero" if rng.random() < 0.3 else "median",
        from_sample=rng.random() < 0.25,
    )
    return _with_details(plan, author, rng)


def redraw_settings(plan: Plan, rng: np.random.Generator) -> Plan:
    """The same plan with other settings."""
    return dataclasses.replace(plan, settings=_draw_settings(plan.facts, plan.estimator, rng))


def _draw_estimator(facts: TaskFacts, author: Author, rng: np.random.Generator, at_least: int) -> Estimator:
    pool = estimators_for(facts)
    best = max(tier(estimator, facts) for estimator in pool)
    by_tier = {level: [e for e in pool if tier(e, facts) == level] for level in range(4)}
    odds = np.array([author.tiers[level] * bool(by_tier[level]) for level in range(4)])
    odds[: min(at_least, best)] = 0
    level = int(rng.choice(4, p=odds / odds.sum()))
    return by_tier[level][rng.integers(len(by_tier[level]))]


def _draw_settings(facts: TaskFacts, estimator: Estimator, rng: np.random.Generator) -> str:
    if facts.modality == "image":
        if estimator.name == "LogisticRegression":
            return str(rng.choice(["max_iter=100", "C=0.1, max_iter=50"]))
        if estimator.name in ("RandomForestRegressor", "ExtraTreesRegressor"):
            return str(rng.choice(['n_estimators=50, max_features="sqrt"', 'n_estimators=100, max_features="sqrt"']))
    return str(rng.choice(estimator.settings))


def _draw_recipe(facts: TaskFacts, author: Author, estimator: Estimator, rng: np.random.Generator) -> str:
    if facts.modality == "text":
        return "lengths" if rng.random() < 0.15 and estimator.name not in ("MultinomialNB", "LinearSVR") else "words"
    if facts.modality == "image":
        return "pixels"
    odds = np.array(author.recipes)
    if not facts.numeric:
        odds[:2] = 0
    if not facts.categorical:  # nothing to encode
        odds[2:4] *= 0.3
    if estimator.name.startswith(("Gradient", "Hist")):  # slow on hundreds of indicator columns
        odds[3] = 0
    return RECIPES[rng.choice(len(RECIPES), p=odds / odds.sum())]


def _with_details(plan: Plan, author: Author, rng: np.random.Generator) -> Plan:
    facts = plan.facts
    if plan.recipe == "chosen":
        count = int(rng.integers(1, min(4, len(facts.numeric)) + 1))
        chosen = tuple(facts.numeric[i] for i in sorted(rng.permutation(len(facts.numeric))[:count]))
        plan = dataclasses.replace(plan, chosen=chosen)
    if plan.recipe == "words":
        vectorizers = RICH_VECTORIZERS if rng.random() < author.rich_text else PLAIN_VECTORIZERS
        plan = dataclasses.replace(plan, vectorizer=str(rng.choice(vectorizers)))
    if plan.recipe in ("numeric", "chosen", "codes", "dummies") and plan.estimator.scaled:
        plan = dataclasses.replace(plan, scale=rng.random() < (0.2 + author.log_rate))
    if plan.recipe == "pixels" and facts.pixels >= 64 and rng.random() < 0.15:
        plan = dataclasses.replace(plan, reduce=int(rng.choice([10, 20, 40])))
    return plan
