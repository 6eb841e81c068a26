"""What TRL must not do to finished advantages: settings that would change them are refused, all in one error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

INSTALL = "  pip install 'wmrl-gym[trl]'"


def require_trl() -> None:
    """Find out whether TRL is installed.

    Raises:
        ImportError: if it is not; names the extra.
    """
    try:
        import trl  # noqa: F401
    except ImportError as error:
        raise ImportError(f"this needs TRL, which cannot be imported ({error}):\n{INSTALL}") from error


def refuse_settings(trainer: Any, reward: Callable[..., Any]) -> None:
    """Check that a trainer uses what our reward function returns as it is.

    With ``scale_rewards="none"`` TRL subtracts the mean of a group's known rewards, which is 0 for ours. Anything else
    that it can do to rewards changes them.

    Args:
        trainer: a `trl.GRPOTrainer`.
        reward: the only reward function that it may have.

    Raises:
        TypeError: if the trainer is of another kind, whose advantages are formed otherwise.
        ValueError: with one line for every wrong setting.
    """
    from trl import GRPOTrainer

    if not isinstance(trainer, GRPOTrainer):
        raise TypeError(f"a {type(trainer).__name__} forms advantages in its own way: use trl.GRPOTrainer")
    refuse(_problems(trainer, reward))


def refuse(problems: list[str]) -> None:
    """Raise a `ValueError` that lists the problems, if there are any."""
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise ValueError(f"TRL would change or ignore what the reward proxy decides:\n{lines}")


def _problems(trainer: Any, reward: Callable[..., Any]) -> list[str]:
    problems = []
    if trainer.scale_rewards != "none":
        problems.append(
            f"scale_rewards is {trainer.scale_rewards!r}: set GRPOConfig(scale_rewards='none'). To divide by the "
            "standard deviation, give GroupScoring(proxy, normalise_by_std=True)."
        )
    if trainer.multi_objective_aggregation != "sum_then_normalize":
        problems.append(
            f"multi_objective_aggregation is {trainer.multi_objective_aggregation!r}: leave it at 'sum_then_normalize'."
        )
    if len(trainer.reward_funcs) != 1 or trainer.reward_funcs[0] != reward:
        names = ", ".join(trainer.reward_func_names)
        problems.append(
            f"reward functions are [{names}]: give reward_funcs this one alone. What else counts belongs into the "
            "environment's score, where the world model can predict it."
        )
    elif trainer.reward_weights.tolist() != [1.0]:
        problems.append(f"reward_weights is {trainer.reward_weights.tolist()}: leave it out.")
    wanted = trainer.args.generation_batch_size // trainer.num_generations
    try:
        there = len(trainer.train_dataset)
    except TypeError:  # a stream has no length
        return problems
    if there < wanted:
        problems.append(
            f"train_dataset has {there} rows, and a generation batch takes {wanted}: TRL would never begin one. "
            f"Repeat the rows, or lower generation_batch_size ({trainer.args.generation_batch_size})."
        )
    return problems


def refuse_rollout_settings(trainer: Any, rollout: Callable[..., Any], n_environments: int, policy: Any) -> None:
    """Check that a trainer leaves the episodes to our rollout and trains the model that plays them.

    Args:
        trainer: a `trl.GRPOTrainer`.
        rollout: its `rollout_func`.
        n_environments: how many episodes can be played at the same time.
        policy: plays; its `model` is the one that is trained.

    Raises:
        ValueError: with one line for every wrong setting.
    """
    args, n = trainer.args, trainer.num_generations
    problems = []
    if trainer.rollout_func != rollout:
        problems.append("rollout_func is another one: give GRPOTrainer this object as rollout_func.")
    if trainer.accelerator.unwrap_model(trainer.model) is not policy.model:
        problems.append(
            "the trainer's model is not the policy's: give GRPOTrainer(model=policy.model), with its adapter already "
            "in place of a peft_config, or episodes would be played by weights that are never trained."
        )
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        problems.append("FSDP and DeepSpeed cut the weights in pieces, which no policy of ours can play with: use DDP.")
    per_process = args.per_device_train_batch_size * args.steps_per_generation
    if per_process % n:
        problems.append(
            f"each process plays {per_process} episodes (per_device_train_batch_size "
            f"{args.per_device_train_batch_size} x steps_per_generation {args.steps_per_generation}), which is no "
            f"multiple of num_generations ({n}): a group would straddle processes, and it is played in one."
        )
    if n_environments < n:
        problems.append(f"{n_environments} environments cannot play a group of {n}: make at least {n}.")
    if trainer.use_vllm:
        problems.append("use_vllm starts an engine that the rollout never asks: leave it out.")
    if trainer.mask_truncated_completions:
        problems.append(
            "mask_truncated_completions looks at an episode's last token alone, and an episode has several answers: "
            "leave it out."
        )
    neutral: dict[str, tuple[Any, ...]] = {
        "top_p": (1.0,),
        "top_k": (0, None),
        "min_p": (None, 0.0),
        "repetition_penalty": (1.0,),
    }
    neutral["generation_kwargs"] = (None, {})
    for name, values in neutral.items():
        if getattr(args, name) not in values:
            problems.append(f"{name} is {getattr(args, name)!r}: the policy samples by itself, with temperature alone.")
    refuse(problems)
