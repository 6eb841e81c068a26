"""What computing common beginnings once saves: ``python benchmarks/prefix_sharing.py``.

Puts the static checker's eight questions about a few saved solutions (`make_solutions.py`) to SmolLM2, script by
script, once with prefixes shared and once without, on one thread. Greedy, so that answers can be compared. Seconds are
CPU seconds, which a busy machine disturbs less than wall-clock seconds: about 75 a script. Scripts are appended to
``--records`` one by one, both ways from the same process, so an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from make_solutions import SOLUTIONS
from world_model_fidelity import load_submissions

from wmrl_gym.engines.engine import Prompt, Sampling
from wmrl_gym.engines.transformers_engine import TransformersEngine
from wmrl_gym.policies.smollm2 import smollm2_directory
from wmrl_gym.reporting.markup import markdown_table
from wmrl_gym.world_models.llm_static_checker import AskingSettings, LLMStaticChecker

TABLE = Path(__file__).parent / "results" / "prefix_sharing.md"
COSTS = ("prompt_tokens", "cached_tokens", "generated_tokens", "seconds")
HEADINGS = (
    "prefixes",
    "prompt tokens a script",
    "of these cached",
    "generated tokens a script",
    "CPU seconds a script",
)


def questions(count: int, overview_chars: int) -> list[list[Prompt]]:
    """The eight prompts about each of the first so many solutions of different competitions."""
    submissions, _ = load_submissions(SOLUTIONS)
    first = {submission.task_id: submission for submission in reversed(submissions)}
    checker = LLMStaticChecker(TransformersEngine("unused"), asking=AskingSettings(overview_chars=overview_chars))
    chosen = [first[name] for name in sorted(first)[:count]]
    return [checker.prompter.prompts(submission.content, submission.context["overview"]) for submission in chosen]


def measure(engine: TransformersEngine, prompts: Sequence[Prompt], max_tokens: int, share: bool) -> dict[str, Any]:
    """Tokens, CPU seconds and texts of the answers to some prompts."""
    engine.share_prefixes = share
    started = time.process_time()
    answers = engine.generate(prompts, Sampling(temperature=0, presence_penalty=0.0, max_tokens=max_tokens))
    seconds = time.process_time() - started
    broken = [answer.error for answer in answers if answer.text is None]
    if broken:
        raise RuntimeError(f"{len(broken)} of {len(answers)} prompts were not answered, the first because: {broken[0]}")
    tokens = {name: sum(getattr(answer, name) for answer in answers) for name in COSTS[:3]}
    return {**tokens, "seconds": seconds, "texts": [answer.text for answer in answers]}


def table(records: Sequence[dict[str, Any]], max_tokens: int) -> str:
    """The table, from the records of the scripts."""
    mean = {
        way: {name: sum(record[way][name] for record in records) / len(records) for name in COSTS}
        for way in ("shared", "not shared")
    }
    pairs = [pair for r in records for pair in zip(r["shared"]["texts"], r["not shared"]["texts"], strict=True)]
    rows = [[way, *(f"{cost[name]:.0f}" for name in COSTS[:3]), f"{cost['seconds']:.1f}"] for way, cost in mean.items()]
    rows.append(["ratio", "", "", "", f"{mean['not shared']['seconds'] / mean['shared']['seconds']:.2f}"])
    lines = [
        f"Eight questions about each of {len(records)} scripts, SmolLM2-135M-Instruct, one thread, greedy answers of "
        f"at most {max_tokens} tokens.",
        f"Equal answers with and without: {sum(one == other for one, other in pairs)} of {len(pairs)}.",
        "",
        *markdown_table(HEADINGS, rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scripts", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=40, help="longest answer")
    parser.add_argument("--overview-chars", type=int, default=1500)
    parser.add_argument("--records", type=Path, default=Path("runs/prefix_sharing.jsonl"))
    parser.add_argument("--table", type=Path, default=TABLE)
    options = parser.parse_args()

    torch.set_num_threads(1)
    options.records.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in options.records.read_text().splitlines()] if options.records.exists() else []
    engine = TransformersEngine(smollm2_directory(), threads=1, local_files_only=True)
    asked = questions(options.scripts, options.overview_chars)
    if len(done) < len(asked):
        measure(engine, asked[0][:1], 1, share=True)  # loads the model and compiles a grammar
    with options.records.open("a", encoding="utf-8") as out:
        for number in range(len(done), len(asked)):
            ways = {"shared": True, "not shared": False}
            record = {way: measure(engine, asked[number], options.max_tokens, share) for way, share in ways.items()}
            done.append(record)
            out.write(json.dumps(record) + "\n")
            out.flush()
            print(f"script {number}: " + ", ".join(f"{way} {record[way]['seconds']:.1f}" for way in ways), flush=True)
    options.table.parent.mkdir(parents=True, exist_ok=True)
    options.table.write_text(table(done[: len(asked)], options.max_tokens), encoding="utf-8")
    print("\n" + options.table.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
