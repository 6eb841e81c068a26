"""What the README and the pages show runs as written."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.cli.commands import COMMANDS
from wmrl_gym.cli.main import build_parser, main

ROOT = Path(__file__).resolve().parents[1]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *RESULTS]
GUIDES = ("add_environment", "add_world_model", "add_policy")
"""Pages whose blocks, one after the other, are a program that prints."""
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"^<!-- not run: .{5,} -->\n(?=```python$)", re.MULTILINE)
"""Stands on the line before a block that is only compiled, and says why."""
SMALL = ("experiment=smoke", "algorithm.steps=1", "evaluation.samples=1", "threads=1")
"""Takes the place of the quickstart where a page trains it from Python."""
CONFIGURED = ("train", "sft", "evaluate", "export", "compare", "corpus", "fidelity")
"""Commands that take overrides and show what these make, for --show."""


def blocks(page: Path, language: str) -> list[str]:
    return [code for found, code in FENCE.findall(page.read_text(encoding="utf-8")) if found == language]


def running_blocks(page: Path) -> list[str]:
    """The blocks of Python that nothing marks as not run."""
    text = page.read_text(encoding="utf-8")
    after_mark = {mark.end() for mark in NOT_RUN.finditer(text)}
    return [
        found.group(2)
        for found in FENCE.finditer(text)
        if found.group(1) == "python" and found.start() not in after_mark
    ]


def run_blocks(page: Path) -> dict[str, Any]:
    """Run a page's blocks one after the other; returns the names they leave."""
    names: dict[str, Any] = {"__name__": page.stem}
    for code in running_blocks(page):
        exec(compile(code.replace('"experiment=quickstart"', ", ".join(map(repr, SMALL))), str(page), "exec"), names)
    return names


def commands(page: Path) -> list[list[str]]:
    """Words after `wmrl` of each command line: in blocks, and in running text where more than a command is named."""
    text = page.read_text(encoding="utf-8")
    lines = "\n".join(blocks(page, "")).replace("\\\n", " ")
    found = re.findall(r"^(?:\.venv/bin/)?wmrl (.+)$", lines, re.MULTILINE)
    found += [" ".join(span.split()) for span in re.findall(r"`wmrl ([\w]+\s[^`]+)`", FENCE.sub("", text))]
    return [shlex.split(line, comments=True) for line in found]


def with_python(*skipped: str) -> list[Path]:
    return [page for page in PAGES if page.stem not in skipped and running_blocks(page)]


@pytest.fixture(scope="module")
def small_run(smoke_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run, as pages speak of one."""
    from wmrl_gym.runs import TrainingRun

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WMRL_DATA_ROOT", str(smoke_root))
        run = TrainingRun.from_config([*SMALL, f"runs={tmp_path_factory.mktemp('runs')}"])
        run.train()
    return run.directory.path


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the guides let their reader write, as the current one."""
    docs = ROOT / "docs"
    written = {
        "my_configs/experiment/mine.yaml": blocks(docs / "add_experiment.md", "yaml")[0],
        "my_configs/world_model/likeness.yaml": blocks(docs / "world_models.md", "yaml")[0],
        "my_package/likeness.py": blocks(docs / "world_models.md", "python")[-1],
        "my_module.py": "\n".join(code for name in GUIDES for code in blocks(docs / f"{name}.md", "python")),
    }
    for name, text in written.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_in_pages_compiles_and_imports_what_exists(page: Path) -> None:
    for code in blocks(page, "python"):
        compile(code, str(page), "exec")
        for line in re.findall(r"^from wmrl_gym[\w.]* import [^(\n]+$", code, re.MULTILINE):
            exec(line, {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_has_a_language_that_is_tried_and_every_mark_a_block_and_a_reason(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert {language for language, _ in FENCE.findall(text)} <= {"", "python", "yaml"}
    assert text.count("```python\n") == len(blocks(page, "python"))
    assert text.count("<!-- not run") == len(NOT_RUN.findall(text))
    assert len(running_blocks(page)) == len(blocks(page, "python")) - len(NOT_RUN.findall(text))


@pytest.mark.parametrize("name", GUIDES)
def test_guides_run_as_written(name: str, tmp_path: Path) -> None:
    code = "\n".join(blocks(ROOT / "docs" / f"{name}.md", "python"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_readme_runs(smoke_data: None, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = run_blocks(ROOT / "README.md")
    # The script that it shows hands nothing in.
    assert names["info"]["status"] == "invalid_submission"
    names["env"].close()
    assert "titanic_survival" in capsys.readouterr().out.splitlines()[-1]
    assert (names["run"].directory.path / "after.json").is_file()


def test_the_design_page_trains(smoke_data: None, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_blocks(ROOT / "docs" / "design.md")["run"]
    assert len(run.metrics()) == 1
    assert "titanic_survival" in capsys.readouterr().out.splitlines()[-1]


def test_the_page_of_world_models_makes_one() -> None:
    from wmrl_gym import Submission

    names = run_blocks(ROOT / "docs" / "world_models.md")
    model = names["Likeness"]({"Ridge().fit(X, y)": 0.7})
    scores = [outcome.score for outcome in model.predict([Submission("x", "Ridge().fit(X, y)"), Submission("x", "z")])]
    assert scores == [0.7, None]


@pytest.mark.sim
@pytest.mark.slow
def test_the_libero_page_moves_the_arm() -> None:
    pytest.importorskip("libero")
    names = run_blocks(ROOT / "docs" / "libero.md")
    names["env"].close()
    assert names["observation"]["agentview_image"].shape == (224, 224, 3)
    assert names["info"]["actions_used"] == 8


@pytest.mark.parametrize(
    "page", with_python("README", "design", "world_models", "libero", *GUIDES), ids=lambda page: page.stem
)
def test_other_pages_run(page: Path, desk: Path) -> None:
    assert run_blocks(page)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_command_lines_are_what_the_commands_take(
    page: Path, desk: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in commands(page):
        if any(re.search(r"(^|^run=|^resume=)(runs/|<)", word) for word in words):
            work_on(request.getfixturevalue("small_run"), words)
        elif words[0] in CONFIGURED:
            shown = [] if {"--show", "--list"} & set(words) else ["--show"]
            assert main([*words, *shown]) == 0, (words, capsys.readouterr().err)
        else:
            build_parser().parse_args(words)


def work_on(run: Path, words: list[str]) -> None:
    """Give a command that names an earlier run the small one: resume it, report it, or show what would be done."""
    given = [re.sub(r"(^|^run=|^resume=)(?:runs/\S*|<run>)$", rf"\g<1>{run}", word) for word in words]
    assert str(run) in " ".join(given), words
    if words[0] in ("evaluate", "export"):
        given.append("--show")
    assert main(given) == 0, words
    if words[0] == "report":
        page = Path(given[given.index("--output") + 1]) if "--output" in given else run / "report.html"
        assert page.is_file()
        page.unlink()


def test_pages_show_every_command() -> None:
    shown = {words[0] for page in PAGES for words in commands(page)}
    assert shown == {command.name for command in COMMANDS}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_pages_make_and_install_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:^|`)make ([\w-]+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for names in re.findall(r"wmrl-gym\[([\w,]+)\]", text):
        assert set(names.split(",")) <= set(extras), names


def test_the_experiment_file_of_the_guide_composes(desk: Path) -> None:
    from wmrl_gym.configs import compose_config

    composed = compose_config("train", ["experiment=mine"], desk / "my_configs")
    assert composed["algorithm"]["steps"] == 20 and composed["experiment_name"] == "mine"


def test_every_page_has_a_place_in_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}\n" in navigation, page.name
    for page in re.findall(r": (benchmarks/.*)$", navigation, re.MULTILINE):
        assert (ROOT / page).is_file(), page


def test_the_python_reference_lists_every_public_name() -> None:
    listed = (ROOT / "docs" / "api.md").read_text()
    for stub in sorted((ROOT / "wmrl_gym").glob("*/__init__.pyi")):
        names = re.findall(r'^    "(\w+)",$', stub.read_text(), re.MULTILINE)
        assert names
        for name in names:
            assert re.search(rf"^::: wmrl_gym\.{stub.parent.name}\.[\w.]*\b{name}$", listed, re.MULTILINE), name


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_files_and_names_that_pages_mention_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"(?<![\w/.])(?:wmrl_gym|tests|benchmarks|examples|docs)/[\w./]*\w", text):
        assert (ROOT / path).exists() or list(ROOT.glob(f"{path}*")), path
    for name in re.findall(r"(?<![\w/.])wmrl_gym(?:\.\w+)+", text):
        assert exists(name), name


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            # Where it needs what is not installed here, its source says what is in it.
            source = ROOT.joinpath(*parts[:length]).with_suffix(".py")
            if str(error.name).startswith("wmrl_gym") or not source.is_file():
                continue
            pattern = rf"^(?:class|def) {parts[length]}\b" if length < len(parts) else ""
            return re.search(pattern, source.read_text(encoding="utf-8"), re.MULTILINE) is not None
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_every_setting_has_a_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "hooks")
    settings = importlib.import_module("settings")
    for target, heading in settings.sections().items():
        for key, _, meaning in settings.settings_of(target):
            assert meaning, f"{heading}: {key}"


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    # Not --quiet: without warnings there is nothing for --strict to stop at.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "benchmarks" / "results" / "fidelity.html").is_file()
    for page in tmp_path.rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|img|iframe)[^>]*\ssrc=\"?(?:https?:)?//", html), page.name
        # A table or a list without an empty line before it would be one paragraph.
        assert not re.search(r"<p>(?:(?!</p>).)*?\n(?:\| -{3}|- |\d+\. )", html, re.DOTALL), page.name
        assert not re.search(r"<link[^>]*rel=\"?(?:stylesheet|preconnect)[^>]*href=\"?(?:https?:)?//", html), page.name
