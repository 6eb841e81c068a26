"""Agents without a model, to compare with: random pipelines, and one fixed pipeline.

Both read the compact overview and answer as any agent does, with a script in a fenced block, so that they pass through
the same environment and the same evaluation. Their scripts have none of the mistakes that the corpus of the nano
agent is full of: what they measure is how far choosing a pipeline goes without learning.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wmrl_gym.core import Decision
from wmrl_gym.corpus.generator.authors import Author, draw_plan
from wmrl_gym.corpus.generator.conversations import fenced
from wmrl_gym.corpus.generator.estimators import estimators_for
from wmrl_gym.corpus.generator.facts import TaskFacts, parse_facts
from wmrl_gym.corpus.generator.scripts import VERSED, Plan, render_plan
from wmrl_gym.policies.acting import ActingPolicy, text_decision

REQUEST = "<action>request_info</action>"
"""An answer that runs nothing."""

SAMPLE_COPIED = """\
import shutil
shutil.copy(f"{DATA_DIR}/sample_submission.csv", SUBMISSION_PATH)
"""
"""What is handed in where a competition is more than a table with one target."""

EVEN_HANDED = Author(VERSED, 1.0, 0.0, (0.25, 0.25, 0.25, 0.25), 0.5, 0.5, (0.2, 0.2, 0.2, 0.2, 0.2), 0.6)
"""An author without habits: every tier of estimators and every recipe is as likely, and nothing goes wrong."""


@dataclass(frozen=True)
class Choice:
    """An estimator with its settings, and how texts are turned into numbers."""

    estimator: str
    settings: str
    vectorizer: str = "TfidfVectorizer()"


FIXED: dict[tuple[str, bool], Choice] = {
    ("tabular", False): Choice("ExtraTreesClassifier", "n_estimators=200, random_state=0"),
    ("tabular", True): Choice("ExtraTreesRegressor", "n_estimators=200, random_state=0"),
    ("text", False): Choice(
        "LogisticRegression", "C=10, max_iter=1000", 'TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4))'
    ),
    ("text", True): Choice("Ridge", "", 'TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4))'),
    ("image", False): Choice("ExtraTreesClassifier", "n_estimators=200, random_state=0"),
    ("image", True): Choice("ExtraTreesRegressor", 'n_estimators=100, max_features="sqrt"'),
}
"""The pipeline for each modality and kind of target (True: a number). Chosen on the bundled *training* competitions:
``python benchmarks/fixed_pipeline.py`` runs the candidates, and the best mean percentile is kept."""


class _PipelinePolicy(ActingPolicy, ABC):
    """Answers from the first observation, which must be a compact overview."""

    def act(
        self,
        observations: Sequence[str],
        *,
        histories: Sequence[Sequence[Decision]],
        seeds: Sequence[tuple[int, ...]],
        temperature: float = 1.0,
    ) -> list[Decision]:
        """Decide for a batch of episodes; see `core.Policy.act`. The temperature plays no part.

        Raises:
            ValueError: if the first observation of an episode is no compact overview.
        """
        decisions = []
        for observation, history, stream in zip(observations, histories, seeds, strict=True):
            overview = str(history[0].observation if history else observation)
            facts = _facts(overview)
            decisions.append(
                text_decision(observation, self._answer(facts, len(history), np.random.default_rng(stream)))
            )
        return decisions

    @abstractmethod
    def _answer(self, facts: TaskFacts | None, turn: int, rng: np.random.Generator) -> str:
        """What is answered at a turn of a competition; without facts it is none of the known kinds."""


class RandomPipelines(_PipelinePolicy):
    """Random search: every turn another sound script, drawn evenly from those that the overview allows.

    The draws come from the generator of scripts of the nano agent's corpus (features, estimator, settings), without its
    mistakes. Where a competition is not a table, texts or images with one target, the sample submission is handed in.
    """

    def _answer(self, facts: TaskFacts | None, turn: int, rng: np.random.Generator) -> str:
        return fenced(SAMPLE_COPIED if facts is None else render_plan(draw_plan(facts, EVEN_HANDED, rng)))


class FixedPipeline(_PipelinePolicy):
    """One pipeline for every competition of a kind, once; later turns hand in nothing, for nothing would change."""

    def _answer(self, facts: TaskFacts | None, turn: int, rng: np.random.Generator) -> str:
        if turn:
            return REQUEST
        return fenced(SAMPLE_COPIED if facts is None else render_plan(plan_of(facts)))


def plan_of(facts: TaskFacts, choice: Choice | None = None) -> Plan:
    """The plan that a choice means for a competition; without one, that of `FIXED`.

    All columns are used, probabilities are handed in where the metric wants them, and a logarithmic metric is met by
    learning the logarithm.
    """
    choice = choice or FIXED[facts.modality, facts.regression]
    estimator = next(item for item in estimators_for(facts) if item.name == choice.estimator)
    plan = Plan(
        facts=facts,
        manner=VERSED,
        recipe={"tabular": "transformer", "text": "words", "image": "pixels"}[facts.modality],
        estimator=estimator,
        settings=choice.settings,
        log_target=facts.metric == "rmsle",
        probability=facts.probability and estimator.probability,
    )
    return dataclasses.replace(plan, vectorizer=choice.vectorizer)


def _facts(overview: str) -> TaskFacts | None:
    """What the overview says; None if the competition is none that the generator of scripts knows."""
    lines = overview.strip().split("\n")
    if len(lines) < 3 or not lines[1].startswith("id ") or not lines[2].startswith("target "):
        raise ValueError(
            f"this observation is no compact overview: {overview[:80]!r}\n"
            "  the baselines read those only: choose env=mle_dojo_compact, or set env.overview_style=compact."
        )
    try:
        facts = parse_facts(overview)
    except ValueError:
        return None
    known = facts.metric in ("rmse", "mae", "rmsle", "accuracy", "macro_f1", "auc", "log_loss")
    readable = {
        "tabular": bool(facts.numeric or facts.categorical),
        "text": facts.text_column,
        "image": facts.image_size,
    }
    return facts if known and readable.get(facts.modality) else None
