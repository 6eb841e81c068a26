"""Real solutions with their executed truth, for measuring world models: ``python benchmarks/make_solutions.py``.

Draws scripts for the bundled competitions from the generator that the nano agent learned from, half of them sound and
half with a mistake of one of the eight kinds, really executes each in the sandbox, and writes one JSON object a line.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wmrl_gym.core import Outcome, Submission
from wmrl_gym.corpus.generator.authors import draw_author, draw_plan
from wmrl_gym.corpus.generator.facts import parse_facts
from wmrl_gym.corpus.generator.mistakes import draw_faulty
from wmrl_gym.corpus.generator.scripts import render_plan
from wmrl_gym.envs.mle_dojo.catalogue import CATALOGUE, prepare
from wmrl_gym.envs.mle_dojo.competition import default_data_root, load_competition
from wmrl_gym.envs.mle_dojo.overview_building import build_overview
from wmrl_gym.envs.mle_dojo.overview_text import render_overview
from wmrl_gym.envs.mle_dojo.runner import CompetitionRunner
from wmrl_gym.execution.local import LocalExecutor
from wmrl_gym.execution.sandbox import Sandbox
from wmrl_gym.scriptcheck.overview import Overview

SOLUTIONS = Path(__file__).parent / "data" / "solutions.jsonl.gz"


def draw_scripts(overviews: list[Overview], count: int, seed: int) -> Iterator[tuple[Overview, str, str | None]]:
    """(overview, script, name of its mistake or None), competitions in turn."""
    rng = np.random.default_rng(seed)
    facts = [parse_facts(render_overview(overview, style="compact")) for overview in overviews]
    for number in range(count):
        index = number % len(overviews)
        plan = draw_plan(facts[index], draw_author(rng), rng)
        if rng.random() < 0.5:
            yield overviews[index], render_plan(plan), None
        else:
            mistake, faulty = draw_faulty(plan, rng)
            yield overviews[index], faulty.script, mistake.name


def record(submission: Submission, mistake: str | None, truth: Outcome) -> dict[str, Any]:
    return {
        "competition": submission.task_id,
        "script": submission.content,
        "mistake": mistake,
        "status": truth.status,
        "score": truth.score,
        "percentile": truth.details.get("percentile"),
        "exception": truth.details.get("exception"),
        "line": truth.details.get("line"),
        "seconds": round(truth.seconds, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=230)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=SOLUTIONS)
    options = parser.parse_args()

    root = default_data_root()
    for name in CATALOGUE:
        prepare(name, root)
    overviews = [build_overview(load_competition(root, name)) for name in CATALOGUE]
    drawn = list(draw_scripts(overviews, options.count, options.seed))
    submissions = [Submission(overview.competition, script, {"overview": overview}) for overview, script, _ in drawn]
    executor = LocalExecutor(CompetitionRunner(root, Sandbox(start="warm")), max_workers=1)
    try:
        truths = [executor.submit(submission).result() for submission in submissions]
    finally:
        executor.close()
    rows = [record(s, mistake, t) for s, (_, _, mistake), t in zip(submissions, drawn, truths, strict=True)]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    # Without a time stamp in the header, equal solutions give equal files.
    with options.output.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows).encode())
    print(f"{len(rows)} solutions in {options.output}: {dict(Counter(row['status'] for row in rows))}")


if __name__ == "__main__":
    main()
