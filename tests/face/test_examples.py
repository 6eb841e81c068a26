from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wmrl_gym.envs.mle_dojo.catalogue import prepare

ROOT = Path(__file__).resolve().parents[2]


def run_example(name: str, data_root: Path) -> str:
    environment = {**os.environ, "WMRL_DATA_ROOT": str(data_root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "examples" / name)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("competitions")
    prepare("diabetes_progression", root)
    return root


def test_custom_code_executes_and_the_better_script_scores_higher(data_root: Path) -> None:
    output = run_example("custom_code.py", data_root)
    percentiles = [float(text) for text in re.findall(r"valid, percentile ([\d.]+)", output)]
    assert len(percentiles) == 2 and percentiles[1] > percentiles[0]


def test_readme_names_only_files_and_make_targets_that_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", readme):
        assert (ROOT / link).exists(), link
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make (\w+)", readme):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
