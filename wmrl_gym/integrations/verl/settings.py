"""What the proxy needs of verl's configuration: a node of its own, and nothing beside it that would undo its work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from wmrl_gym.integrations.group_scoring import GroupScoring
from wmrl_gym.proxy.reward_proxy import RewardProxy

Route = Literal["trainer", "estimator"]

NODE = "wmrl"
TRAINER_MODE = "wmrl_sync"
ESTIMATOR = "wmrl_grpo"
REWARD_MANAGER = "wmrl"
CHECKPOINT_CALLBACK = "wmrl_gym.integrations.verl.estimator.ProxyCheckpoint"

_REFUSED: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (
        "trainer.use_v1",
        lambda value: not value,
        "only verl's v1 trainer has reward loops and checkpoint callbacks: set trainer.use_v1=true",
    ),
    (
        "algorithm.use_kl_in_reward",
        bool,
        "a KL penalty would change the rewards behind the proxy's back: use actor_rollout_ref.actor.use_kl_loss=true",
    ),
    (
        "algorithm.filter_groups.enable",
        bool,
        "filtering groups by their scores would choose the anchors after the draw: set it to false",
    ),
    (
        "skip.rollout_tq.enable",
        bool,
        "rollouts that are played back have not been drawn or scored in this run: set it to false",
    ),
    (
        "reward.reward_model.enable",
        bool,
        "verl would ask its reward model and pass the proxy by: let the scorer of the node 'wmrl' ask it",
    ),
    (
        "actor_rollout_ref.rollout.n",
        lambda value: int(value) < 2,
        "trajectories are compared within their group: sample at least 2 for each prompt",
    ),
)


class VerlConfigError(ValueError):
    """A configuration of verl with which the proxy would do something else than it says."""


def chosen_route(config: Any) -> Route:
    """How this configuration of verl uses the proxy, checked.

    Args:
        config: verl's whole configuration, as its trainer gets it.

    Returns:
        "trainer" for ``trainer.v1.trainer_mode=wmrl_sync``, "estimator" for ``algorithm.adv_estimator=wmrl_grpo``.

    Raises:
        VerlConfigError: if it is neither or both, or if something beside it would undo the proxy's work.
    """
    mode, estimator = _select(config, "trainer.v1.trainer_mode"), _select(config, "algorithm.adv_estimator")
    if (mode == TRAINER_MODE) == (estimator == ESTIMATOR):
        raise VerlConfigError(
            f"trainer.v1.trainer_mode is {mode!r} and algorithm.adv_estimator {estimator!r}: exactly one of them must "
            "be the proxy's\n"
            f"  Set trainer.v1.trainer_mode={TRAINER_MODE} with algorithm.adv_estimator=grpo; or, where the trainer "
            f"cannot be replaced, trainer.v1.trainer_mode=sync with algorithm.adv_estimator={ESTIMATOR}.\n"
            "  With neither, predicted and executed scores would be mixed as they come."
        )
    route: Route = "trainer" if mode == TRAINER_MODE else "estimator"
    _require(config, "reward.reward_manager.name", REWARD_MANAGER)
    if route == "trainer":
        _require(config, "algorithm.adv_estimator", "grpo")
    else:
        _require(config, "trainer.v1.trainer_mode", "sync")
        _require(config, "trainer.checkpoint_callback_class", CHECKPOINT_CALLBACK)
    for where, is_refused, remedy in _REFUSED:
        value = _select(config, where)
        if value is not None and is_refused(value):
            raise VerlConfigError(f"{where} is {value}: {remedy}")
    return route


def build_scoring(config: Any) -> GroupScoring:
    """The proxy that ``wmrl.proxy`` describes, at step 0.

    Whether centred rewards are divided by their standard deviation is verl's own switch,
    ``algorithm.norm_adv_by_std_in_grpo``.

    Raises:
        VerlConfigError: if ``wmrl.proxy`` makes no `RewardProxy`, or one whose anchors this route cannot draw.
    """
    proxy = _instantiate(config, "proxy", "wmrl_gym.proxy.RewardProxy")
    if not isinstance(proxy, RewardProxy):
        raise VerlConfigError(f"{NODE}.proxy makes a {type(proxy).__name__}: let it make a wmrl_gym.proxy.RewardProxy")
    if chosen_route(config) == "estimator" and proxy.anchors.min_per_step > 0 and proxy.anchors.fraction < 1:
        raise VerlConfigError(
            f"{NODE}.proxy.anchors.min_per_step is {proxy.anchors.min_per_step}, but with {ESTIMATOR} each group is "
            f"drawn by itself and nobody can count them: set it to 0, or use trainer.v1.trainer_mode={TRAINER_MODE}"
        )
    return GroupScoring(proxy, normalise_by_std=bool(_select(config, "algorithm.norm_adv_by_std_in_grpo")))


def build_scorer(config: Any) -> Callable[..., Any]:
    """What ``wmrl.scorer`` describes: predicts trajectories and executes anchors; see `TrajectoryScorer`.

    Raises:
        VerlConfigError: if it makes nothing that can be called.
    """
    scorer = _instantiate(config, "scorer", "wmrl_gym.integrations.EnvironmentScorer, or a function of yours")
    if not callable(scorer):
        raise VerlConfigError(
            f"{NODE}.scorer makes a {type(scorer).__name__}, which cannot be called: let it make a function of "
            "(trajectory, execute) that returns the scores (predicted, executed)"
        )
    return scorer


def scorer_threads(config: Any) -> int:
    """How many trajectories one reward worker scores at the same time."""
    threads = int(_select(config, f"{NODE}.threads") or 8)
    if threads < 1:
        raise VerlConfigError(f"{NODE}.threads is {threads}: give at least 1")
    return threads


def _instantiate(config: Any, name: str, example: str) -> Any:
    from hydra.utils import instantiate

    described = _select(config, f"{NODE}.{name}")
    if not isinstance(described, Mapping) or "_target_" not in described:
        raise VerlConfigError(
            f"{NODE}.{name} is missing in verl's configuration, or names no _target_\n"
            f"  Give it one, for example _target_: {example}; examples/verl has a complete configuration."
        )
    return instantiate(described, _convert_="all")


def _select(config: Any, path: str) -> Any:
    """The value there, as plain data; None if there is none."""
    from omegaconf import OmegaConf

    value = OmegaConf.select(config, path)
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def _require(config: Any, where: str, wanted: str) -> None:
    value = _select(config, where)
    if value != wanted:
        raise VerlConfigError(f"{where} is {value!r}: the proxy needs {where}={wanted}")
