"""What each room offers: lazily, completely, and seen by dir()."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

ROOMS = (
    "algorithms", "corpus", "engines", "envs", "execution", "integrations", "policies", "proxy", "runs", "scriptcheck",
    "world_models",
)  # fmt: skip
HEAVY = ("torch", "transformers", "pandas", "sklearn", "hydra", "rich", "trl")


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_there_and_seen(room: str) -> None:
    module = importlib.import_module(f"wmrl_gym.{room}")
    assert module.__all__ and set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_rooms_load_nothing_heavy_before_a_name_is_asked_for() -> None:
    rooms = ", ".join(f"wmrl_gym.{room}" for room in ROOMS)
    code = f"import sys, {rooms}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_misspelt_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="WMRLGRPA"):
        importlib.import_module("wmrl_gym.algorithms").WMRLGRPA  # noqa: B018


def test_the_package_shows_its_names_before_they_are_loaded() -> None:
    code = "import sys, wmrl_gym; print(set(wmrl_gym.__all__) <= set(dir(wmrl_gym)), 'wmrl_gym.proxy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
