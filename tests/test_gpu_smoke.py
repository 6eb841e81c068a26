"""The script that a GPU is checked with runs on a processor, too, and a check that fails ends none of the others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu_smoke.py"


@pytest.mark.slow
def test_the_checks_of_a_gpu_run_on_a_processor(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--tiny", "--out", str(tmp_path), "--seconds", "400"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=420)
    assert done.returncode == 0, done.stdout + done.stderr
    written = [path for path in tmp_path.iterdir() if path.suffix == ".json"]
    results = json.loads(written[0].read_text())["results"]
    passed = {result["check"] for result in results if result["passed"]}
    wanted = {"bfloat16 computing, float32 weights", "log-probabilities by parts", "adapter"}
    assert wanted <= passed and not [result for result in results if result["passed"] is False], results
