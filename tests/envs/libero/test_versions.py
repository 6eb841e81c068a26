"""A simulator whose numbers cannot be compared is refused, whoever asks."""

from __future__ import annotations

import pytest

from wmrl_gym.envs.libero import versions
from wmrl_gym.envs.libero.versions import UnsupportedSimulator, check_versions, installed_versions


@pytest.mark.parametrize("mujoco", ["3.3.0", "3.3.1", "3.3.2", "2.3.7"])
def test_comparable_simulators_are_accepted(mujoco: str) -> None:
    check_versions(mujoco, "1.4.0")
    check_versions(mujoco, "1.4.1")


@pytest.mark.parametrize("mujoco", ["3.3.3", "3.4.0", "3.10.0", "4.0.0", "3.2.7", "2.3.6", "3.3"])
def test_other_physics_are_refused_with_the_reason_and_the_cure(mujoco: str) -> None:
    with pytest.raises(UnsupportedSimulator, match=r"98 %(.|\n)*mujoco==3\.3\.2"):
        check_versions(mujoco, "1.4.0")


def test_robosuite_15_is_refused() -> None:
    with pytest.raises(UnsupportedSimulator, match=r"needs 1\.4"):
        check_versions("3.3.2", "1.5.2")


def test_what_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "_version", lambda package: None if package == "mujoco" else "1.4.0")
    installed_versions.cache_clear()
    try:
        with pytest.raises(ImportError, match=r"mujoco.*wmrl-gym\[libero\]"):
            installed_versions()
    finally:
        installed_versions.cache_clear()
