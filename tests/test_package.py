from __future__ import annotations

import statistics
import subprocess
import sys
import time
from importlib import resources

import gymnasium as gym
import pytest

import wmrl_gym

HEAVY = ("torch", "transformers", "pandas", "sklearn", "PIL", "hydra", "rich")


def test_import_loads_nothing_heavy() -> None:
    code = f"import sys, wmrl_gym; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.alone
def test_import_takes_under_half_a_second_beyond_the_interpreter() -> None:
    def seconds(code: str) -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - begin

    bare = statistics.median(seconds("pass") for _ in range(3))
    imported = statistics.median(seconds("import wmrl_gym") for _ in range(3))
    # Half a second on an idle machine; four times that leaves room for a machine that also runs something else.
    assert imported - bare < 2.0


def test_environment_is_registered_with_a_string_entry_point() -> None:
    spec = gym.spec("wmrl/MLEDojo-v0")
    assert spec.entry_point == "wmrl_gym.envs.mle_dojo.env:MLEDojoEnv"
    assert spec.nondeterministic


@pytest.mark.parametrize("name", wmrl_gym.__all__)
def test_every_exported_name_exists(name: str) -> None:
    assert getattr(wmrl_gym, name) is not None


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="RewardProxi"):
        wmrl_gym.RewardProxi  # noqa: B018


@pytest.mark.parametrize(
    "path", ["py.typed", "configs/train.yaml", "configs/experiment/quickstart.yaml", "policies/nano_agent"]
)
def test_package_carries_its_data(path: str) -> None:
    assert resources.files("wmrl_gym").joinpath(path).is_file() or resources.files("wmrl_gym").joinpath(path).is_dir()
