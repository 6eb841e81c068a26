from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wmrl_gym.cli.main import main


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    "command",
    ["train", "sft", "evaluate", "export", "compare", "corpus", "fidelity", "report", "plan", "competitions", "doctor"],
)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) > 4


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; from wmrl_gym.cli.main import build_parser; build_parser(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_mistake_is_one_message_and_exit_code_two(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, errors = run("sft", "settings.stepps=3", capsys=capsys)
    assert code == 2
    assert errors.startswith("wmrl: unknown configuration key 'settings.stepps': did you mean 'settings.steps'?")
    assert "Traceback" not in errors


def test_traceback_is_shown_when_asked_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMRL_DEBUG", "1")
    _, _, errors = run("sft", "settings.stepps=3", capsys=capsys)
    assert "Traceback" in errors


def test_unknown_competition_names_the_nearest_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("diabetes_progression", "titanic_survivl")
    code, _, errors = run("competitions", "prepare", *names, "--data-root", str(tmp_path), capsys=capsys)
    assert code == 2 and "titanic_survival" in errors
    assert not list(tmp_path.iterdir())


def test_prepared_competition_is_listed_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("competitions", "prepare", "diabetes_progression", "--data-root", str(tmp_path), capsys=capsys)[0] == 0
    _, listing, _ = run("competitions", "list", "--data-root", str(tmp_path), capsys=capsys)
    lines = {line.split()[1]: line for line in listing.splitlines() if len(line.split()) > 5}
    assert "yes" in lines["diabetes_progression"].split()
    assert "yes" not in lines["titanic_survival"].split()


def test_resume_takes_a_run_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, errors = run("train", f"resume={tmp_path}", "seed=1", capsys=capsys)
    assert code == 2 and "cannot be combined with seed=1" in errors
    code, _, errors = run("train", f"resume={tmp_path}", capsys=capsys)
    assert code == 2 and "is not a run directory" in errors


@pytest.mark.slow
def test_doctor_says_what_works(capsys: pytest.CaptureFixture[str]) -> None:
    code, report, _ = run("doctor", capsys=capsys)
    assert code in (0, 2)
    rows = {line.split("  ")[0].strip() for line in report.splitlines()}
    assert {"packages", "isolation", "machine", "GPU", "competitions", "extra lora"} <= rows
    isolation = next(line for line in report.splitlines() if line.startswith("isolation"))
    assert ("ok" in isolation.split()) == (code == 0)


def test_a_look_at_a_run_to_resume_does_not_resume_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text("seed: 5\n")
    code, shown, _ = run("train", "--show", f"resume={tmp_path}", capsys=capsys)
    assert code == 0 and shown == "seed: 5\n"
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, told, _ = run(capsys=capsys)
    assert code == 2 and "train" in told and "--help" in told


def test_a_misspelt_command_has_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["trian"])
    assert end.value.code == 2 and "did you mean `wmrl train`?" in capsys.readouterr().err
