"""A warm start is a fresh start that costs less; the attacks on the sandbox run in both ways."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from wmrl_gym.execution import bubblewrap
from wmrl_gym.execution.isolation import SandboxUnavailable
from wmrl_gym.execution.probe import probe
from wmrl_gym.execution.sandbox import Sandbox, SandboxLimits
from wmrl_gym.execution.warm import PRELOAD, Zygote, shared_zygote

SCRIPT = """
import sys
import numpy as np, pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.cluster import KMeans
X = np.random.rand(200, 4)
y = (X[:, 0] + 0.1 * np.random.rand(200) > 0.5).astype(int)
for model in (RandomForestClassifier(10), HistGradientBoostingClassifier(max_iter=5)):
    print(model.fit(X, y).predict_proba(X[:3]).tolist())
print(KMeans(3, n_init=1).fit(X).inertia_, sorted({"a", "b", "c"}), __name__, sys.argv)
pd.DataFrame({"id": range(3), "y": y[:3]}).to_csv(SUBMISSION_PATH, index=False)
print(undefined)
"""


@pytest.fixture
def warm() -> Sandbox:
    return Sandbox(SandboxLimits(wall_seconds=30.0), start="warm")


def test_both_starts_give_the_same_result(warm: Sandbox, data: Path) -> None:
    fresh = Sandbox(warm.limits).run(SCRIPT, data)
    for _ in range(2):
        result = warm.run(SCRIPT, data)
        assert (result.status, result.stdout, result.stderr) == (fresh.status, fresh.stdout, fresh.stderr)
        assert result.submission == fresh.submission is not None
    assert "NameError" in fresh.stderr


def test_scientific_stack_is_there_already(warm: Sandbox, data: Path) -> None:
    result = warm.run("import sys; print('sklearn.ensemble' in sys.modules, 'wmrl_gym' in sys.modules)", data)
    assert result.stdout == "True False\n"


def test_no_state_flows_from_script_to_script(warm: Sandbox, data: Path) -> None:
    warm.run("import numpy, os, builtins; numpy.mean = builtins.len = None; os.environ['A'] = '1'", data)
    result = warm.run("import numpy, os; print(numpy.mean([1, 2]), len('ab'), 'A' in os.environ, 'A' in dir())", data)
    assert result.stdout == "1.5 2 False False\n"


def test_a_killed_zygote_is_replaced_and_scripts_under_way_finish(warm: Sandbox, data: Path) -> None:
    warm.run("", data)
    zygote = shared_zygote(PRELOAD)
    results = []
    thread = threading.Thread(target=lambda: results.append(warm.run("import time; time.sleep(1); print(1)", data)))
    thread.start()
    threading.Event().wait(0.5)
    os.kill(zygote.process.pid, signal.SIGKILL)
    zygote.process.wait()
    assert warm.run("print(2)", data).stdout == "2\n"
    thread.join()
    assert results[0].stdout == "1\n"


def test_a_preload_that_starts_a_thread_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    (tmp_path / "threaded.py").write_text(program)
    environment = {**bubblewrap.script_environment(), "PYTHONPATH": str(tmp_path)}
    monkeypatch.setattr(bubblewrap, "script_environment", lambda: environment)
    with pytest.raises(SandboxUnavailable, match="2 threads"):
        Zygote(["threaded"])


def test_a_preload_that_fails_is_named_and_one_not_installed_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("import not_there")
    environment = {**bubblewrap.script_environment(), "PYTHONPATH": str(tmp_path)}
    monkeypatch.setattr(bubblewrap, "script_environment", lambda: environment)
    with pytest.raises(SandboxUnavailable, match="broken"):
        Zygote(["broken"])
    Zygote(["no_such_module.part"]).close()


def test_zygote_ends_with_its_trainer() -> None:
    zygote = Zygote([])
    zygote.requests.close()
    assert zygote.process.wait(5) == 0


def test_probe_passes_in_both_ways() -> None:
    for start in ("fresh", "warm"):
        assert set(probe(start).versions) == {"numpy", "pandas", "sklearn"}  # type: ignore[arg-type]
