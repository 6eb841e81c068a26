"""World models against executed truth: ``python benchmarks/world_model_fidelity.py``.

Scores the saved solutions (`make_solutions.py`) by static analysis and by SmolLM2 as a static checker, decomposed
(eight questions a script) and holistic (one), without help from static analysis. Predictions are appended to
``--predictions`` batch by batch, so an interrupted run goes on where it was. Seconds are CPU seconds of one thread,
which a busy machine disturbs less than wall-clock seconds: about 20 minutes for the holistic row, 70 for the other.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from make_solutions import SOLUTIONS
from scipy.stats import spearmanr

from wmrl_gym.core import Submission, WorldModel
from wmrl_gym.engines.engine import Sampling
from wmrl_gym.envs.mle_dojo.catalogue import prepare
from wmrl_gym.envs.mle_dojo.competition import default_data_root, load_competition
from wmrl_gym.envs.mle_dojo.overview_building import build_overview
from wmrl_gym.reporting.markup import markdown_table
from wmrl_gym.world_models.llm_static_checker import AskingSettings, LLMStaticChecker
from wmrl_gym.world_models.static_analysis import StaticAnalysis

TABLE = Path(__file__).parent / "results" / "world_model_fidelity.md"
COSTS = ("prompt_tokens", "cached_tokens", "generated_tokens", "answers", "abstentions", "retries", "cut_off")
CAVEAT = (
    "Static analysis was developed on scripts of this generator, so its row says what it can do at best, not what it "
    "would do on scripts of another author. SmolLM2 has 135 million parameters; its row says what such a model is "
    "worth as a judge. Unknown predictions count as wrong statuses and are left out of the other figures."
)
HEADINGS = (
    "world model", "status accuracy", "reward MAE", "Spearman", "Spearman, valid only", "abstentions", "unknown scores",
    "prompt tokens a script", "of these cached", "generated tokens a script", "CPU seconds a script",
)  # fmt: skip


def smollm2_checker(mode: Any, batch: int) -> LLMStaticChecker:
    from wmrl_gym.engines.transformers_engine import TransformersEngine
    from wmrl_gym.policies.smollm2 import smollm2_directory

    engine = TransformersEngine(smollm2_directory(), threads=1, batch_size=batch, local_files_only=True)
    asking = AskingSettings(overview_chars=1500)
    return LLMStaticChecker(engine, mode, asking=asking, sampling=Sampling(max_tokens=160))


MODELS: Mapping[str, Callable[[], WorldModel]] = {
    "static analysis": StaticAnalysis,
    "SmolLM2, holistic": lambda: smollm2_checker("holistic", 10),
    "SmolLM2, decomposed": lambda: smollm2_checker("decomposed", 40),
}


def load_submissions(path: Path) -> tuple[list[Submission], list[dict[str, Any]]]:
    """The solutions as a world model gets them, and the records with their truth."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        truths = [json.loads(line) for line in file]
    root = default_data_root()
    names = sorted({truth["competition"] for truth in truths})
    for name in names:
        prepare(name, root)
    overviews = {name: build_overview(load_competition(root, name)) for name in names}
    submissions = [
        Submission(truth["competition"], truth["script"], {"overview": overviews[truth["competition"]]})
        for truth in truths
    ]
    return submissions, truths


def predict(name: str, submissions: Sequence[Submission], file: Path, batch: int) -> list[dict[str, Any]]:
    """Predictions in order; those that the file holds already are not made again."""
    done = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    if len(done) >= len(submissions):
        return done[: len(submissions)]
    model = MODELS[name]()
    with file.open("a", encoding="utf-8") as out:
        for start in range(len(done), len(submissions), batch):
            rows = _predict_batch(model, submissions[start : start + batch])
            done += rows
            out.write("".join(json.dumps(row) + "\n" for row in rows))
            out.flush()
            seconds = sum(row["seconds"] for row in rows)
            print(f"{name}: {len(done)} of {len(submissions)}, {seconds:.0f} CPU seconds", flush=True)
    return done


def _predict_batch(model: WorldModel, submissions: Sequence[Submission]) -> list[dict[str, Any]]:
    """What a batch cost is divided evenly among its scripts."""
    started = time.process_time()
    outcomes = model.predict(submissions)
    spent = (time.process_time() - started) / len(submissions)
    costs = model.metrics() if isinstance(model, LLMStaticChecker) else {}
    shares = {key: None if costs.get(key) is None else costs[key] / len(submissions) for key in COSTS}
    return [{"status": o.status, "score": o.score, "seconds": spent, **shares} for o in outcomes]


def row(name: str, predictions: Sequence[Mapping[str, Any]], truths: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line of the table. An unknown prediction is wrong as a status, and left out of the other figures."""
    known = [(p, t) for p, t in zip(predictions, truths, strict=True) if p["score"] is not None]
    valid = [(p, t) for p, t in known if t["status"] == "valid"]
    accuracy = np.mean([p["status"] == t["status"] for p, t in zip(predictions, truths, strict=True)])
    error = np.mean([abs(p["score"] - t["score"]) for p, t in known]) if known else np.nan
    asked = sum(p["answers"] or 0.0 for p in predictions)
    abstained = sum(p["abstentions"] or 0.0 for p in predictions)
    unknown = len(predictions) - len(known)
    return [
        name,
        f"{accuracy:.3f}",
        f"{error:.3f}",
        _correlation(known),
        _correlation(valid),
        f"{abstained / asked:.1%} of {asked:.0f} answers" if asked else "-",
        f"{unknown / len(predictions):.1%}",
        *(_mean(predictions, key) for key in ("prompt_tokens", "cached_tokens", "generated_tokens")),
        f"{np.mean([p['seconds'] for p in predictions]):.3f}",
    ]


def _correlation(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> str:
    guesses, scores = [p["score"] for p, _ in pairs], [t["score"] for _, t in pairs]
    if len(set(guesses)) < 2 or len(set(scores)) < 2:
        return "-"
    return f"{spearmanr(guesses, scores).statistic:.3f}"


def _mean(predictions: Sequence[Mapping[str, Any]], key: str) -> str:
    values = [p[key] for p in predictions]
    return "-" if any(value is None for value in values) else f"{np.mean(values):.0f}"


def constant(truths: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The commonest status and the mean score for every script: what a world model has to beat."""
    status = Counter(truth["status"] for truth in truths).most_common(1)[0][0]
    score = float(np.mean([truth["score"] for truth in truths]))
    return [{"status": status, "score": score, "seconds": 0.0, **dict.fromkeys(COSTS)} for _ in truths]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solutions", type=Path, default=SOLUTIONS)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--count", type=int, default=None, help="only the first so many solutions")
    parser.add_argument("--batch", type=int, default=10, help="scripts predicted at the same time")
    parser.add_argument("--predictions", type=Path, default=TABLE.with_suffix(""))
    parser.add_argument("--table", type=Path, default=TABLE)
    options = parser.parse_args()

    submissions, truths = load_submissions(options.solutions)
    # Competition by competition, so that a batch shares the overview and not only the instructions.
    chosen = sorted(range(len(truths))[: options.count], key=lambda i: truths[i]["competition"])
    submissions, truths = [submissions[i] for i in chosen], [truths[i] for i in chosen]
    options.predictions.mkdir(parents=True, exist_ok=True)
    rows = [row("constant", constant(truths), truths)]
    for name in options.models:
        file = options.predictions / f"{name.replace(', ', '-').replace(' ', '_')}.jsonl"
        rows.append(row(name, predict(name, submissions, file, options.batch), truths))
    statuses = Counter(truth["status"] for truth in truths).most_common()
    lines = [f"{len(truths)} solutions, executed: {', '.join(f'{n} {name}' for name, n in statuses)}", ""]
    lines += markdown_table(HEADINGS, rows)
    lines += ["", CAVEAT]
    options.table.parent.mkdir(parents=True, exist_ok=True)
    options.table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
