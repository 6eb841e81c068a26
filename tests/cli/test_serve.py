"""`wmrl serve` on real competitions: static analysis predicts, the sandbox executes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wmrl_gym.cli.main import main
from wmrl_gym.integrations import GroupAnswers, ProxyClient
from wmrl_gym.runs.serving import Serving

SCRIPT = """```python
import os
import pandas as pd
from pathlib import Path
sample = pd.read_csv(Path(os.environ["DATA_DIR"]) / "sample_submission.csv")
sample.to_csv(os.environ["SUBMISSION_PATH"], index=False)
```"""
TOKEN = "a-token-of-the-test"


@contextmanager
def served(root: Path, state: Path, *overrides: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    environment = {**os.environ, "WMRL_DATA_ROOT": str(root), "OMP_NUM_THREADS": "1", "WMRL_SERVE_TOKEN": TOKEN}
    command = [sys.executable, "-m", "wmrl_gym", "serve", "experiment=smoke", f"state={state}", "port=0", *overrides]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == f"state: {state}\n"
        line = process.stdout.readline()
        assert line.startswith("serving on http://127.0.0.1:"), process.stderr.read()
        yield process, line.split()[-1]
    finally:
        if process.poll() is None:
            process.terminate()  # not killed: sandboxes end with it
        process.communicate(timeout=60)


@pytest.mark.slow
def test_real_scripts_are_predicted_executed_and_remembered(smoke_root: Path, tmp_path: Path) -> None:
    half = ("proxy.anchors.fraction=0.5",)
    answers = [SCRIPT, "no script", f"{SCRIPT}\n"]
    groups = [GroupAnswers(f"{g}:titanic", "titanic_survival", answers) for g in range(2)]
    with served(smoke_root, tmp_path / "state", *half) as (process, url):
        with ProxyClient(url, TOKEN, deadline=120) as client:
            verdicts = [client.verify("titanic_survival", SCRIPT, group=f"{g}", member=0) for g in range(6)]
            executed = [verdict for verdict in verdicts if verdict.is_anchor]
            assert executed and len(executed) < 6
            for verdict in verdicts:
                assert verdict.status == "valid" and verdict.reward is not None and verdict.predicted is not None
                assert (verdict.executed is not None) == verdict.is_anchor
            assert {verdict.reward for verdict in executed} == {executed[0].executed}
            scores = client.score(0, groups)
            assert any(group.is_anchor for group in scores.groups)
            for group in scores.groups:
                assert sum(advantage or 0.0 for advantage in group.advantages) == pytest.approx(0)
                assert group.rewards[1] == 0.0  # no script, which the environment knows without execution
            metrics = client.state().metrics
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with served(smoke_root, tmp_path / "state", *half) as (_, url), ProxyClient(url, TOKEN, deadline=120) as client:
        assert client.state().metrics == metrics
        assert client.verify("titanic_survival", SCRIPT, group="0", member=0) == verdicts[0]
        assert client.score(0, groups) == scores


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["host=0.0.0.0"], "there is no token"),
        (["token_file=nowhere"], "cannot be read"),
        (["token_file=short"], "no good token"),
        (["world_model=null"], "proxy=all_executed"),
        (["limits.queue=0"], "limits.queue"),
        (["limits.quue=1"], "did you mean 'limits.queue'?"),
        (["port=70000"], "port is 70000"),
        (["port={taken}"], "cannot listen"),
    ],
)
def test_a_mistake_is_told(
    words: list[str], told: str, smoke_data: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short").write_text("short")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [word.format(taken=taken.getsockname()[1]) for word in words]
        assert main(["serve", "experiment=smoke", *given]) == 2
    error = capsys.readouterr().err
    assert error.startswith("wmrl: ") and told in error and "unexpected" not in error


def test_a_folder_is_gone_on_with_under_its_own_settings_only(
    smoke_data: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    Serving.from_config(["experiment=smoke", f"state={state}"])._journal().close()
    assert main(["serve", "experiment=smoke", f"state={state}", "port=0", "proxy.anchors.fraction=0.3"]) == 2
    assert "proxy.anchors.fraction: 0.1, now 0.3" in capsys.readouterr().err
    from wmrl_gym.runs.records.run_directory import locked

    with locked(state / ".lock", state):
        assert main(["serve", "experiment=smoke", f"state={state}", "port=0"]) == 2
    assert "another process works on" in capsys.readouterr().err


def test_without_the_extra_the_command_names_it(
    smoke_data: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("wmrl_gym.integrations.http.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert main(["serve", "experiment=smoke", f"state={tmp_path / 'state'}"]) == 2
    assert "pip install 'wmrl-gym[serve]'" in capsys.readouterr().err
