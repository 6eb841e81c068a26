"""Whether verl has really loaded the proxy: ``python -m wmrl_gym.integrations.verl.check``."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.metadata import entry_points

from wmrl_gym.integrations.verl.settings import ESTIMATOR, REWARD_MANAGER, TRAINER_MODE

SUPPORTED = ((0, 9, 1), (0, 10))
"""From which version on, and below which."""
PLUGIN_GROUP = "verl.plugins"
PLUGIN_MODULE = "wmrl_gym.integrations.verl.plugin"
INSTALL = (
    "  verl needs an environment of its own: `make verl-env` of a check-out makes one, and docs/verl.md says how to "
    "install both with pip."
)


class VerlPluginError(RuntimeError):
    """verl runs without the proxy."""


def check_verl() -> str:
    """Make sure that verl is there and has loaded the proxy.

    Returns:
        What was found, in one line.

    Raises:
        VerlPluginError: saying what is wrong and what to do.
    """
    version = _version()
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip()
    found = [point for point in entry_points(group=PLUGIN_GROUP) if point.value == PLUGIN_MODULE]
    by_module = PLUGIN_MODULE in os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(",")
    if not found and not by_module:
        raise VerlPluginError(
            f"wmrl-gym is installed without its entry point {PLUGIN_GROUP!r}: install it again (pip install -e . "
            f"--no-deps in a check-out), or set VERL_USE_EXTERNAL_MODULES={PLUGIN_MODULE}"
        )
    named = {name.strip() for name in policy.lower().split(",")}
    if not by_module and policy.lower() != "auto" and not named & {point.name for point in found}:
        raise VerlPluginError(
            f"VERL_USE_EXTERNAL_PLUGINS is {policy!r}, which leaves out the proxy: unset it, or add "
            f"{found[0].name!r} to it"
        )
    try:
        importlib.import_module(PLUGIN_MODULE)
    except Exception as error:
        raise VerlPluginError(
            f"verl {version} cannot load {PLUGIN_MODULE}: {type(error).__name__}: {error}\n"
            "  verl itself says so at DEBUG only, and then knows none of the proxy's names.\n" + INSTALL
        ) from error
    _check_names()
    return f"verl {version} has loaded the proxy: {TRAINER_MODE}, {ESTIMATOR} and the reward manager {REWARD_MANAGER}"


def _version() -> str:
    try:
        import verl
    except ImportError as error:
        raise VerlPluginError(f"verl cannot be imported: {error}\n" + INSTALL) from error
    version = str(verl.__version__)
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if not SUPPORTED[0] <= numbers < SUPPORTED[1]:
        raise VerlPluginError(
            f"verl {version} is installed, and the proxy was written for verl>=0.9.1,<0.10: its hooks may have moved\n"
            + INSTALL
        )
    return version


def _check_names() -> None:
    from verl.experimental.reward_loop.reward_manager.registry import REWARD_MANAGER as managers
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY as estimators
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY as trainers

    registered = ((TRAINER_MODE, trainers), (ESTIMATOR, estimators), (REWARD_MANAGER, managers))
    missing = [name for name, registry in registered if name not in registry]
    if missing:
        raise VerlPluginError(f"verl has loaded {PLUGIN_MODULE} but does not know {', '.join(missing)}")


def main() -> int:
    """Say what `check_verl` found; 1 if verl runs without the proxy."""
    try:
        print(check_verl())
    except VerlPluginError as error:
        print(f"wmrl: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
