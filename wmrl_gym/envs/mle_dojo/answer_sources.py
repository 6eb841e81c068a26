"""Where the answers of bundled competitions lie on this machine, besides the private folders.

They are made from data inside installed packages, and scripts run with those packages: a script that loads the
original would read the answers off it. A sandbox shows these files empty.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from wmrl_gym.execution.isolation import interpreter_prefixes


@cache
def bundled_data_files() -> tuple[Path, ...]:
    """Data files of installed packages that a bundled competition was made from.

    Python modules are left out: hiding one would break the import of its package, and so honest scripts.
    """
    from wmrl_gym.envs.mle_dojo.catalogue import CATALOGUE, MissingSourceError
    from wmrl_gym.envs.mle_dojo.catalogue.sources import source_path

    found = set()
    for spec in CATALOGUE.values():
        for source in spec.sources:
            for file in source.files:
                try:
                    found.add(source_path(source, file))
                except MissingSourceError:  # what is not installed cannot be read either
                    continue
    files = {path for path in found if path.suffix != ".py"}
    return tuple(sorted(files | {copy for path in files for copy in _copies(path)}))


def _copies(path: Path) -> list[Path]:
    """The same file of the same package where that is installed a second time, for example by the system."""
    homes = [Path("/usr"), Path("/usr/local"), *interpreter_prefixes()]
    patterns = ("lib*/python3*/site-packages", "lib*/python3*/dist-packages")
    sites = {site for home in homes for pattern in patterns for site in home.glob(pattern)}
    below = [path.relative_to(site) for site in sites if path.is_relative_to(site)]
    return [site / part for part in below for site in sites if (site / part).exists()]
