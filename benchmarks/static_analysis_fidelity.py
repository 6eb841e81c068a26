"""How well static analysis foretells real execution: ``python benchmarks/static_analysis_fidelity.py``.

Samples scripts for the bundled competitions, from the corpus that the nano agent learned from (``--source corpus``) or
from the nano agent itself (``--source nano``), runs each in the sandbox, and compares. Executions are remembered in
``--cache``, so that a second run costs nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from wmrl_gym.core import Outcome, Submission
from wmrl_gym.envs.mle_dojo.actions import parse_action
from wmrl_gym.envs.mle_dojo.catalogue import held_out_competitions, prepare, train_competitions
from wmrl_gym.envs.mle_dojo.competition import load_competition
from wmrl_gym.envs.mle_dojo.overview_building import build_overview
from wmrl_gym.envs.mle_dojo.overview_text import render_overview
from wmrl_gym.envs.mle_dojo.runner import CompetitionRunner
from wmrl_gym.execution.cache import CachedExecutor
from wmrl_gym.execution.environment import environment_key
from wmrl_gym.execution.limits import SandboxLimits
from wmrl_gym.execution.local import LocalExecutor
from wmrl_gym.execution.sandbox import Sandbox
from wmrl_gym.scriptcheck.overview import Overview
from wmrl_gym.world_models.static_analysis import StaticAnalysis


def corpus_scripts(overviews: list[Overview], count: int, seed: int) -> Iterator[tuple[Overview, str]]:
    """Scripts of the corpus: sound ones, and ones with a mistake, in the authors' own proportions."""
    from wmrl_gym.corpus.generator.authors import draw_author, draw_plan
    from wmrl_gym.corpus.generator.facts import parse_facts
    from wmrl_gym.corpus.generator.mistakes import draw_faulty
    from wmrl_gym.corpus.generator.scripts import render_plan

    rng = np.random.default_rng(seed)
    for number in range(count):
        overview = overviews[number % len(overviews)]
        author = draw_author(rng)
        plan = draw_plan(parse_facts(render_overview(overview, style="compact")), author, rng)
        faulty = rng.random() < author.mistake_rate
        yield overview, draw_faulty(plan, rng)[1].script if faulty else render_plan(plan)


def nano_scripts(overviews: list[Overview], count: int, seed: int) -> Iterator[tuple[Overview, str]]:
    """First scripts of the nano agent, sampled at temperature 1."""
    from wmrl_gym.policies.nano import load_nano_agent

    policy = load_nano_agent()
    chosen = [overviews[number % len(overviews)] for number in range(count)]
    for start in range(0, count, 64):
        batch = chosen[start : start + 64]
        prompts = [render_overview(overview, style="compact") for overview in batch]
        seeds = [(seed, start + i) for i in range(len(batch))]
        for overview, decision in zip(
            batch, policy.act(prompts, histories=[()] * len(batch), seeds=seeds), strict=True
        ):
            yield overview, parse_action(decision.action).code or ""


def execute(submissions: list[Submission], data_root: Path, cache: Path) -> list[Outcome]:
    """The truth, one script at a time."""
    limits = SandboxLimits()
    executor = LocalExecutor(CompetitionRunner(data_root, Sandbox(limits, start="warm")), max_workers=1)
    cached = CachedExecutor(executor, cache, environment_key(limits, start="warm"))
    try:
        outcomes = []
        for number, submission in enumerate(submissions):
            outcomes.append(cached.submit(submission).result())
            if number % 50 == 49:
                print(f"  executed {number + 1} of {len(submissions)}", flush=True)
        return outcomes
    finally:
        cached.close()


def report(submissions: list[Submission], predicted: list[Outcome], executed: list[Outcome], verbose: bool) -> None:
    """Confusion matrix, validity AUC, rank correlation, and (verbose) every disagreement."""
    pairs = [(s, p, e) for s, p, e in zip(submissions, predicted, executed, strict=True) if e.score is not None]
    print(f"{len(pairs)} scripts with a known outcome of {len(submissions)}")
    confusion = Counter((e.status, p.status) for _, p, e in pairs)
    for (true, guess), number in sorted(confusion.items()):
        print(f"  executed {true:20s} predicted {guess:20s} {number:5d}{'' if true == guess else '   <--'}")
    accuracy = np.mean([p.status == e.status for _, p, e in pairs])
    scored = [(p, e) for _, p, e in pairs if p.score is not None]
    valid = np.array([e.status == "valid" for _, e in scored])
    guesses = np.array([p.score for p, _ in scored], float)
    truths = np.array([e.score for _, e in scored], float)
    print(f"status accuracy {accuracy:.4f}")
    if 0 < valid.sum() < len(valid):
        print(f"validity AUC {roc_auc_score(valid, guesses):.4f}")
    print(f"Spearman, all {spearmanr(guesses, truths).statistic:.4f}")
    if valid.sum() > 2:
        print(f"Spearman, valid only {spearmanr(guesses[valid], truths[valid]).statistic:.4f}")
    print(f"score bias {np.mean(guesses - truths):+.4f}, mean absolute error {np.mean(np.abs(guesses - truths)):.4f}")
    crashes = [(p, e) for p, e in scored if e.status == p.status == "runtime_error"]
    if crashes:
        same = np.mean([p.details["exception"] == e.details["exception"] for p, e in crashes])
        line = np.mean([p.details["line"] == e.details["line"] for p, e in crashes])
        print(f"crashes: same exception class {same:.4f}, same line {line:.4f}")
    if verbose:
        for s, p, e in pairs:
            if p.status != e.status:
                print("-" * 100, f"\n{s.task_id}: executed {e.status} ({e.details.get('problem')})")
                print(f"predicted {p.status} ({p.details.get('problem')})\n{s.content}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", choices=("corpus", "nano"), default="corpus")
    parser.add_argument("--split", choices=("train", "held_out", "all"), default="all")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data-root", type=Path, default=Path.home() / ".cache/wmrl_gym/competitions")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache/wmrl_gym/fidelity_executions")
    parser.add_argument("--quality", choices=("bucket", "continuous"), default="bucket")
    parser.add_argument("--json", type=Path, default=None, help="write every pair of outcomes here, one per line")
    parser.add_argument("--verbose", action="store_true", help="print every disagreement")
    options = parser.parse_args()

    names = [*(train_competitions() if options.split != "held_out" else [])]
    names += held_out_competitions() if options.split != "train" else []
    for name in names:
        prepare(name, options.data_root)
    overviews = [build_overview(load_competition(options.data_root, name)) for name in names]
    sample = corpus_scripts if options.source == "corpus" else nano_scripts
    submissions = [
        Submission(overview.competition, script, {"overview": overview})
        for overview, script in sample(overviews, options.count, options.seed)
    ]
    model = StaticAnalysis(quality=options.quality)
    model.predict(submissions[:1])
    started = time.perf_counter()
    predicted = model.predict(submissions)
    spent = time.perf_counter() - started
    print(f"{1000 * spent / len(submissions):.2f} ms a script, {model.failures} failures of the analysis")
    executed = execute(submissions, options.data_root, options.cache)
    report(submissions, predicted, executed, options.verbose)
    if options.json is not None:
        with options.json.open("w", encoding="utf-8") as file:
            for s, p, e in zip(submissions, predicted, executed, strict=True):
                row = {
                    "task": s.task_id,
                    "script": s.content,
                    "predicted": {"status": p.status, "score": p.score, "details": dict(p.details)},
                    "executed": {
                        "status": e.status,
                        "score": e.score,
                        "seconds": e.seconds,
                        "details": dict(e.details),
                    },
                }
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
