"""Every prediction of the method's theory against measurement: writes benchmarks/results/theory.md and its plots.

    python benchmarks/theory/run.py                  all of it, a few minutes on one core
    python benchmarks/theory/run.py --quick          a minute, to see that it works; writes nothing to keep
    python benchmarks/theory/run.py --seeds 20       narrower intervals
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # run as a script, Python only knows the script's own folder

from benchmarks.theory import ablation, debiasing, failures, floor, fusion, sensitivity  # noqa: E402
from benchmarks.theory.report import Section, Settings, write_page  # noqa: E402

EXPERIMENTS: dict[str, Callable[[Settings, Path], Section]] = {
    "floor": floor.run,
    "debiasing": debiasing.run,
    "ablation": ablation.run,
    "fusion": fusion.run,
    "sensitivity": sensitivity.run,
    "failures": failures.run,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, help="training runs per setting")
    parser.add_argument("--quick", action="store_true", help="few seeds and steps, written to a temporary folder")
    parser.add_argument("--only", choices=[*EXPERIMENTS], help="one experiment, printed; the page is left alone")
    parser.add_argument("--output", type=Path, help="folder of theory.md and its plots")
    options = parser.parse_args(arguments)
    if options.seeds is not None and options.seeds < 2:
        parser.error(f"--seeds is {options.seeds}: an interval needs at least 2")
    settings = Settings.quick() if options.quick else Settings()
    if options.seeds is not None:
        settings = replace(settings, seeds=options.seeds)
    keep = not (options.quick or options.only)
    folder = options.output or (ROOT / "benchmarks/results" if keep else Path(tempfile.mkdtemp(prefix="theory-")))
    folder.mkdir(parents=True, exist_ok=True)
    sections = []
    for name in [options.only] if options.only else EXPERIMENTS:
        began = time.perf_counter()
        sections.append(EXPERIMENTS[name](settings, folder))
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    if options.only:
        print(f"{sections[0].markdown()}\n\nplots in {folder}")
        return 0
    seeds = "" if options.seeds is None else f" --seeds {options.seeds}"
    command = f"python benchmarks/theory/run.py{' --quick' if options.quick else ''}{seeds}"
    write_page(folder / "theory.md", command, settings, sections)
    print(f"wrote {folder / 'theory.md'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
