"""LIBERO packages that ask a question when they are imported get their answer beforehand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from wmrl_gym.envs.libero import package

ASKING = """
import os, sys
from pathlib import Path
folder = os.environ.get("LIBERO_CONFIG_PATH", os.path.expanduser("~/.libero"))
if not (Path(folder) / "config.yaml").exists():
    input("Do you want to specify a custom path? ")
"""


@pytest.fixture
def asking_package(tmp_path: Path) -> Path:
    inner = tmp_path / "site" / "libero" / "libero"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("")
    (inner / "__init__.py").write_text(ASKING)
    return tmp_path / "site"


def run(code: str, site: Path, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": f"{site}:{package_root()}"} | variables
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def package_root() -> Path:
    return Path(package.__file__).parents[3]


CODE = """
from wmrl_gym.envs.libero.package import answer_its_question
answer_its_question()
import os, libero.libero
print(os.environ.get("LIBERO_CONFIG_PATH"))
"""


def test_without_an_answer_the_package_blocks(asking_package: Path, tmp_path: Path) -> None:
    assert "EOFError" in run("import libero.libero", asking_package, tmp_path).stderr


def test_the_question_is_never_asked_and_paths_are_the_package_s_own(asking_package: Path, tmp_path: Path) -> None:
    done = run(CODE, asking_package, tmp_path)
    assert done.returncode == 0, done.stderr
    paths = yaml.safe_load((Path(done.stdout.strip()) / "config.yaml").read_text())
    assert paths["bddl_files"] == str(asking_package / "libero" / "libero" / "bddl_files")
    assert set(paths) == {"benchmark_root", "bddl_files", "init_states", "datasets", "assets"}


def test_a_stale_file_of_another_environment_is_not_used(asking_package: Path, tmp_path: Path) -> None:
    (tmp_path / ".libero").mkdir()
    (tmp_path / ".libero" / "config.yaml").write_text("bddl_files: /elsewhere\n")
    done = run(CODE, asking_package, tmp_path)
    assert done.stdout.strip() not in ("None", str(tmp_path / ".libero"))


def test_a_chosen_configuration_is_left_alone(asking_package: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "mine"
    chosen.mkdir()
    (chosen / "config.yaml").write_text("bddl_files: /mine\n")
    done = run(CODE, asking_package, tmp_path, LIBERO_CONFIG_PATH=str(chosen))
    assert done.stdout.strip() == str(chosen)
    assert (chosen / "config.yaml").read_text() == "bddl_files: /mine\n"
