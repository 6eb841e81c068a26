"""``wmrl report``: runs as one HTML file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from wmrl_gym.reporting.report import build_page, load_runs
from wmrl_gym.runs.records.run_directory import write_atomically


def report(paths: Sequence[Path], output: Path | None, trajectories: int | None) -> int:
    """Write the report and say where it is.

    Args:
        paths: folders of runs.
        output: the file; None is report.html in the run's folder, or here if there are several runs.
        trajectories: how many are put in at most; None is the page's own limit.

    Raises:
        ValueError: for a negative number of trajectories, or runs that hold nothing yet.
        FileNotFoundError: if a folder is not a run's, or the file's folder does not exist.
        ImportError: if Plotly is not installed.
    """
    if trajectories is not None and trajectories < 0:
        raise ValueError(f"--trajectories is {trajectories}: give 0 or more")
    runs = load_runs(paths)
    target = output or (paths[0] if len(paths) == 1 else Path()) / "report.html"
    if target.is_dir():
        raise ValueError(f"--output is '{target}', a folder: name a file, for example {target / 'report.html'}")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"--output is '{target}', but there is no folder '{target.parent}': make it first")
    page = build_page(runs) if trajectories is None else build_page(runs, trajectories=trajectories)
    write_atomically(target, page)
    for run in runs:
        for note in run.notes:
            print(f"{run.name}: {note}")
    print(f"wrote {target} ({target.stat().st_size / 1e6:.1f} MB): open it in a browser, it needs no network")
    return 0


def run(options: argparse.Namespace) -> int:
    """``wmrl report``."""
    return report(options.runs, options.output, options.trajectories)
