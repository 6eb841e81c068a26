"""What the model reads: the shared case first, the question last, lengths kept, lines numbered as in the original."""

from __future__ import annotations

import ast
import dataclasses
import os
import platform
import random
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.scriptcheck.sound_scripts import HEAD
from tests.scriptcheck.worlds import World
from wmrl_gym.core import fingerprint
from wmrl_gym.engines.engine import Prompt
from wmrl_gym.scriptcheck.overview import Overview
from wmrl_gym.world_models.llm_static_checker import AskingSettings, JudgedEnvironment
from wmrl_gym.world_models.llm_static_checker.listing import listing, source_lines, without_comments
from wmrl_gym.world_models.llm_static_checker.prompting import PROMPT_VERSION, Prompter, overview_text, prompt_text
from wmrl_gym.world_models.llm_static_checker.schemas import questions

TEXTS = sorted({"system", "case", "verdict_format", *questions("decomposed"), *questions("holistic")})


def _prompter(
    mode: Any = "decomposed", limits: tuple[float, float] = (20.0, 2048), versions: Any = None, **asking: Any
) -> Prompter:
    return Prompter(mode, AskingSettings(**asking), JudgedEnvironment(*limits), versions)


def _user(prompt: Prompt) -> str:
    return prompt.messages[1].content


def test_texts_do_not_change_without_a_new_version() -> None:
    digest = fingerprint([prompt_text(name) for name in TEXTS])[:16]
    assert {PROMPT_VERSION: digest} == {1: "ea3dfe3ec4c718ba"}, (
        "a text in prompts/ changed: raise PROMPT_VERSION, and update this"
    )


def test_system_message_tells_what_is_installed_and_what_is_not() -> None:
    system = _prompter(limits=(7.5, 1234)).system
    for name in ("numpy", "pandas", "scikit-learn"):
        assert f"{name} {metadata.version(name)}" in system
    assert platform.python_version() in system and "7.5 s" in system and "1234 MB" in system
    made_up = _prompter(versions={"pandas": "9.9", "lightgbm": None}).system
    assert "Installed: pandas 9.9\n" in made_up and "Not installed: lightgbm\n" in made_up
    assert "$" not in system


def test_eight_prompts_agree_up_to_the_question(worlds: dict[str, World]) -> None:
    prompts = _prompter().prompts(HEAD, worlds["houses"].overview)
    assert len(prompts) == 8 and len({prompt.messages[0] for prompt in prompts}) == 1
    texts = [_user(prompt) for prompt in prompts]
    shared = texts[0][: next(i for i in range(len(texts[0])) if len({text[: i + 1] for text in texts}) > 1)]
    assert shared.endswith("ends ---\n\n# Check: ")
    assert shared.index("competition: houses") < shared.index("1| import") < len(shared)
    assert all(len(_user(prompt)) - len(shared) < 1800 for prompt in prompts)
    assert len({str(prompt.schema) for prompt in prompts}) == 2


def test_overview_comes_first_with_inventory_and_contract(worlds: dict[str, World]) -> None:
    text = _user(_prompter("holistic").prompts(HEAD, worlds["houses"].overview)[0])
    assert text.startswith("# Description")
    assert "district str" in text and "60 rows" in text and "rmse" in text


def test_dollars_and_braces_of_a_script_stay_as_they_are(worlds: dict[str, World]) -> None:
    script = "a = '$overview $mark ${script} {x}'\n"
    assert f"1| {script.rstrip()}" in _user(_prompter("holistic").prompts(script, worlds["houses"].overview)[0])


def test_long_description_is_cut_in_the_middle_and_every_fact_kept(worlds: dict[str, World]) -> None:
    overview = dataclasses.replace(worlds["houses"].overview, description="Begin. " + "x" * 9000 + " Finish.")
    whole = overview_text(worlds["houses"].overview, 4000)
    text = overview_text(overview, 4000)
    assert len(text) <= 4000
    assert "Begin." in text and "Finish." in text and "characters left out" in text
    assert text.endswith(whole[whole.index("# Task") :])


def test_overview_of_endless_facts_keeps_its_length_and_the_contract(worlds: dict[str, World]) -> None:
    def widened(overview: Overview) -> Overview:
        table = overview.inventory.files[0]
        files = tuple(dataclasses.replace(table, path=f"table{i}.csv") for i in range(100))
        return dataclasses.replace(overview, inventory=dataclasses.replace(overview.inventory, files=files))

    text = overview_text(widened(worlds["houses"].overview), 2000)
    assert len(text) <= 2000 and "characters left out" in text and "SUBMISSION_PATH" in text


def test_hash_names_everything_the_model_is_told() -> None:
    same = _prompter().hash
    assert _prompter().hash == same
    different = [
        _prompter("holistic"),
        _prompter(limits=(21.0, 2048)),
        _prompter(limits=(20.0, 1024)),
        _prompter(code_chars=7000),
        _prompter(overview_chars=3000),
        _prompter(strip_comments=False),
        _prompter(versions={"pandas": "1.0"}),
    ]
    assert len({same, *(prompter.hash for prompter in different)}) == 8


# The listing --------------------------------------------------------------------------------------------------------


def test_lines_keep_their_numbers_when_comments_go() -> None:
    script = (
        '"""Doc."""\n# comment\nimport os  # why\n\ndef f():\n    """Doc\n    of f."""\n    return "# no comment"\n'
    )
    assert listing(script, 8000).splitlines() == [
        "1| ...",
        "3| import os",
        "5| def f():",
        "6|     ...",
        '8|     return "# no comment"',
    ]
    assert "2| # comment" in listing(script, 8000, strip_comments=False)


def test_lines_are_counted_as_python_counts_them() -> None:
    script = "a = '\u2028'\r\nb = '\x0c'\rc = '\x85'\nraise KeyError\n"
    assert listing(script, 8000).splitlines() == [
        "1| a = '\\u2028'",
        "2| b = '\\x0c'",
        "3| c = '\\x85'",
        "4| raise KeyError",
    ]
    assert len(source_lines(script)) == 5


def test_columns_after_wide_characters_are_right() -> None:
    lines = ["é = 'ü'; 'ß doc'; b = 1  # ñ", "'ö'; c = 2"]
    assert without_comments(lines) == ["é = 'ü'; ...; b = 1  ", "...; c = 2"]


def test_long_code_loses_whole_lines_in_the_middle() -> None:
    script = "".join(f"value_{i} = {i}\n" for i in range(1000))
    lines = listing(script, 2000).splitlines()
    note = next(i for i, line in enumerate(lines) if line.startswith("(lines"))
    assert lines[0] == "1| value_0 = 0" and lines[-1] == "1000| value_999 = 999"
    first, last = int(lines[note - 1].partition("|")[0]), int(lines[note + 1].partition("|")[0])
    assert lines[note] == f"(lines {first + 1} to {last - 1} are left out here)"
    assert 1500 < sum(len(line.partition("| ")[2]) + 1 for line in lines) <= 2100


def test_one_endless_line_is_cut_too() -> None:
    text = listing("x = '" + "a" * 50_000 + "'\n", 2000)
    assert len(text) < 600 and "characters left out" in text and text.count("\n") == 0


@pytest.mark.timeout(120)
def test_without_comments_the_standard_library_means_the_same() -> None:
    class Dots(ast.NodeTransformer):
        def visit_Expr(self, node: ast.Expr) -> ast.Expr:
            self.generic_visit(node)
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str | bytes):
                node.value = ast.Constant(...)
            return node

    files = sorted(Path(os.__file__).parent.glob("*.py"))
    for file in random.Random(0).sample(files, 40):
        source = file.read_text(encoding="utf-8", errors="replace")
        stripped = without_comments(source_lines(source))
        assert len(stripped) == len(source_lines(source))
        assert ast.dump(ast.parse("\n".join(stripped))) == ast.dump(Dots().visit(ast.parse(source))), file
