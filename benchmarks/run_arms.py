"""Three arms on the same seeds: everything executed, the world model alone, and WMRL between them.

Each run is a process of its own; the arms take turns within a seed, so that a machine that grows slower or faster
treats them alike. Prints, and writes as Markdown, wall-clock seconds, executions and the held-out percentile of each.

    python benchmarks/run_arms.py --seeds 0,1,2
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ARMS = {
    "all executed (GRPO)": "quickstart_grpo",
    "world model only": "quickstart_world_model",
    "WMRL": "quickstart",
}
SHOWN = ("percentile", "valid share")
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Result:
    arm: str
    seed: int
    wall_seconds: float
    table: dict[str, Any]

    def measures(self) -> dict[str, dict[str, Any]]:
        return {measure["name"]: measure for measure in self.table["measures"]}

    def row(self) -> list[str]:
        measures = self.measures()
        cost = self.table["cost"]
        training = sum(value for name, value in cost["seconds"].items() if not name.startswith("evaluation"))
        return [
            self.arm,
            str(self.seed),
            f"{self.wall_seconds:.0f}",
            f"{training:.0f}",
            str(cost["executions"]),
            f"{self.table['executed_share']:.1%}",
            *(
                f"{measures[name][when]['estimate']:.1%}"
                for name in SHOWN
                for when in ("before", "after")
            ),
        ]


HEADINGS = (
    "arm", "seed", "wall s", "training s", "executions", "executed",
    "percentile before", "after", "valid before", "after",
)  # fmt: skip


def run_arm(arm: str, seed: int, runs: Path, overrides: list[str]) -> Result:
    folder = runs / f"{ARMS[arm]}-s{seed}"
    command = [sys.executable, "-m", "wmrl_gym", "train", f"experiment={ARMS[arm]}", f"seed={seed}", f"runs={folder}"]
    begin = time.monotonic()
    subprocess.run([*command, *overrides], check=True)
    seconds = time.monotonic() - begin
    newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    return Result(arm, seed, seconds, json.loads((newest / "table.json").read_text()))


def markdown(results: list[Result], command: str) -> str:
    lines = [f"`{command}`", "", "| " + " | ".join(HEADINGS) + " |", "| --- " * len(HEADINGS) + "|"]
    lines += ["| " + " | ".join(result.row()) + " |" for result in results]
    lines += ["", "Means over seeds:", "", "| arm | wall s | executions | gain in percentile | gain in valid share |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for arm in ARMS:
        own = [result for result in results if result.arm == arm]
        if not own:
            continue
        gains = [
            sum(100 * result.measures()[name]["gain"]["estimate"] for result in own) / len(own) for name in SHOWN
        ]
        wall = sum(result.wall_seconds for result in own) / len(own)
        executions = sum(result.table["cost"]["executions"] for result in own) / len(own)
        lines.append(f"| {arm} | {wall:.0f} | {executions:.0f} | {gains[0]:+.1f} | {gains[1]:+.1f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0", help="separated by commas")
    parser.add_argument("--runs", type=Path, default=Path("runs/arms"))
    parser.add_argument("--output", type=Path, default=RESULTS / "arms.md")
    parser.add_argument("overrides", nargs="*", help="given to every run, for example algorithm.steps=20")
    options = parser.parse_args()
    results: list[Result] = []
    options.output.parent.mkdir(parents=True, exist_ok=True)
    command = " ".join(["python benchmarks/run_arms.py", *sys.argv[1:]])
    for seed in map(int, options.seeds.split(",")):
        for arm in ARMS:
            print(f"== {arm}, seed {seed}", flush=True)
            results.append(run_arm(arm, seed, options.runs, options.overrides))
            # After every run, because a long benchmark that is cut off should leave what it has measured.
            options.output.write_text(markdown(results, command))
    print(options.output.read_text())


if __name__ == "__main__":
    main()
