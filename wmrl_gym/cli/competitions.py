"""``wmrl competitions list | prepare``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from wmrl_gym.envs.mle_dojo.catalogue import CATALOGUE, prepare
from wmrl_gym.envs.mle_dojo.competition import default_data_root


def list_competitions(data_root: Path | None) -> int:
    """Print the catalogue and which of it is prepared."""
    root = data_root or default_data_root()
    table = Table(title=f"Bundled competitions ({root})", title_justify="left")
    for heading in ("competition", "kind", "split", "metric", "from", "prepared"):
        table.add_column(heading, no_wrap=heading == "competition", overflow="fold")
    for name, spec in CATALOGUE.items():
        sources = ", ".join(sorted({source.distribution for source in spec.sources}))
        ready = "yes" if (root / name / "data" / "public").is_dir() else "no"
        table.add_row(name, spec.category, spec.split, spec.metric, sources, ready)
    Console().print(table)
    return 0


def prepare_competitions(names: Sequence[str], data_root: Path | None) -> int:
    """Write the named competitions, or all. Those that are there and up to date are left alone."""
    root = data_root or default_data_root()
    wanted = list(names) or list(CATALOGUE)
    unknown = [name for name in wanted if name not in CATALOGUE]
    for name in [*unknown, *wanted]:  # an unknown name fails before anything is written
        prepare(name, root)
    print(f"{len(wanted)} competitions ready in {root}")
    return 0


def run_list(options: argparse.Namespace) -> int:
    """``wmrl competitions list``."""
    return list_competitions(options.data_root)


def run_prepare(options: argparse.Namespace) -> int:
    """``wmrl competitions prepare``."""
    return prepare_competitions(options.names, options.data_root)
