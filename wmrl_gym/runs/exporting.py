"""The trained agent of a run as a folder that `transformers`, PEFT, TRL and vLLM load.

``wmrl export`` is a thin face of `export`. The run's own files are only read.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from typing import Any

from wmrl_gym.algorithms.checkpoint import checkpoints, load_checkpoint
from wmrl_gym.configs.schema import TrainConfig
from wmrl_gym.configs.validation import Component, ConfigError, import_target
from wmrl_gym.runs.assembly import prepare_torch
from wmrl_gym.runs.model_card import ModelFacts, Results, mean_scores, model_card, provenance
from wmrl_gym.runs.output_folder import make_output_folder
from wmrl_gym.runs.records.run_directory import RunDirectory
from wmrl_gym.runs.training import TrainingRun


@dataclass(frozen=True)
class ExportedAgent:
    """What an export has written."""

    folder: Path
    checkpoint: Path
    """Where its weights come from."""
    kind: str
    """"model", "merged model" or "adapter"."""


def export(
    run: TrainingRun | str | Path,
    output: str | Path,
    *,
    checkpoint: int | None = None,
    merge: bool = True,
    dtype: str | None = None,
    results: Results = mean_scores,
) -> ExportedAgent:
    """Write the agent of a run in Hugging Face's layout, with a card that says what it was trained on.

    The folder gets its name when it is whole: an export that is killed leaves nothing under that name.

    Args:
        run: the run, or its folder. Its tasks' data need not be here.
        output: folder to write; it must not be there, or be empty.
        checkpoint: number of steps of the checkpoint; None for the newest.
        merge: write one model, an adapter merged into it; False writes the adapter alone, with the path of its base.
        dtype: a torch dtype's name, of the weights written; None is as they were trained.
        results: makes the card's section of the run's own evaluations.

    Returns:
        Where the agent is, and what it is.

    Raises:
        ConfigError: if the output is there already or cannot be written, or the policy has no ``save_pretrained``.
        FileNotFoundError: if there is no such run, or no such checkpoint.
        ValueError: if the checkpoint cannot be read, or the policy cannot be written like this.
    """
    from wmrl_gym.policies.causal_lm import dtype_named

    if dtype is not None:
        dtype_named(dtype)
    directory = run.directory if isinstance(run, TrainingRun) else RunDirectory.open(Path(run))
    config = TrainConfig.from_mapping(directory.config())
    folder = _free_folder(Path(output))
    source = _checkpoint(directory, checkpoint)
    told = provenance(directory, config, steps=int(source.name.removeprefix("step-")))
    prepare_torch(config.threads)
    policy = _on_this_machine(config.policy).build()
    _require_pretrained(policy, config.policy)
    policy.load_state_dict(load_checkpoint(source)["policy"])
    with _unfinished(folder) as unfinished:
        facts = _write(policy, config, unfinished, merge, dtype)
        (unfinished / "README.md").write_text(model_card(facts, told, results), encoding="utf-8")
    return ExportedAgent(Path(output), source, facts.kind)


def _write(policy: Any, config: TrainConfig, folder: Path, merge: bool, dtype: str | None) -> ModelFacts:
    """Write model and tokenizer; return what the card says of them."""
    from wmrl_gym.policies.causal_lm import CausalLMPolicy
    from wmrl_gym.policies.minivla.policy import MiniVLAPolicy
    from wmrl_gym.policies.pretrained_saving import base_name, save_causal_lm, save_whole

    temperature = config.evaluation.resolved_temperature
    if not isinstance(policy, CausalLMPolicy):
        if not merge:
            raise ConfigError(
                f"merge is false, but a {type(policy).__name__} is always written whole, what it learned included\n"
                "  leave merge at true."
            )
        save_whole(policy, folder, dtype=dtype)
        tag = "robotics" if isinstance(policy, MiniVLAPolicy) else None
        return ModelFacts("model", temperature, pipeline_tag=tag, policy=type(policy).__name__, dtype=dtype)
    facts = ModelFacts(
        kind="adapter" if not merge else "merged model" if hasattr(policy.model, "peft_config") else "model",
        temperature=temperature,
        base=base_name(policy.model),
        pipeline_tag="text-generation",
        policy=type(policy).__name__,
        chat=policy.conversation.chat,
        system_prompt=policy.conversation.system_prompt,
        template_arguments=dict(policy.conversation.template_arguments),
        limits={
            "an answer": policy.max_new_tokens,
            "an observation, the middle of longer ones left out": policy.conversation.max_observation_tokens,
            "a thought, longer ones closed": config.policy.arguments.get("max_thinking_tokens"),
        },
        dtype=dtype,
    )
    save_causal_lm(policy, folder, merge=merge, dtype=dtype, temperature=temperature)
    return facts


def _require_pretrained(policy: Any, component: Component) -> None:
    if not callable(getattr(policy, "save_pretrained", None)):
        raise ConfigError(
            f"the run's policy is a {type(policy).__name__} (from '{component.target}'), which has no "
            "save_pretrained(directory)\n"
            "  give it one that writes a folder from which it can be loaded again; its weights are in the run's "
            "checkpoints, state.pt, under 'policy'."
        )


def _on_this_machine(policy: Component) -> Component:
    """The policy without what only playing needs: without vLLM, and on the CPU where its device is missing."""
    from wmrl_gym.policies.batching import available_device
    from wmrl_gym.policies.causal_lm_loading import load_causal_lm
    from wmrl_gym.policies.vllm_rollout import load_vllm_policy

    if import_target(policy.target, policy.where) is load_vllm_policy:
        target = f"{load_causal_lm.__module__}.{load_causal_lm.__name__}"
        trainer = Component(target, {}, policy.where)
        policy = replace(trainer, arguments={k: v for k, v in policy.arguments.items() if trainer.takes(k)})
    device = policy.arguments.get("device")
    if device is None:
        return policy
    try:
        available_device(device)
    except ValueError:
        # Attention kernels are made for a device, too.
        arguments = {name: value for name, value in policy.arguments.items() if name != "attn_implementation"}
        return replace(policy, arguments={**arguments, "device": "cpu"})
    return policy


def _checkpoint(run: RunDirectory, steps: int | None) -> Path:
    """The folder of the checkpoint after so many steps, or of the newest one."""
    there = {int(path.name.removeprefix("step-")): path for path in checkpoints(run.checkpoints)}
    if not there:
        raise FileNotFoundError(
            f"'{run.path}' has no checkpoint yet\n  wait for its first one, or go on with it: wmrl train resume="
            f"{run.path}"
        )
    if steps is None:
        return there[max(there)]
    if steps not in there:
        raise FileNotFoundError(
            f"'{run.path}' has no checkpoint after {steps} steps\n"
            f"  there are those after {', '.join(map(str, sorted(there)))}; leave checkpoint out for the newest."
        )
    return there[steps]


def _free_folder(output: Path) -> Path:
    """The output's real path, which is free, in a folder that can be written to."""
    folder = output.expanduser().resolve()
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(f"'output' is {output}, and that folder is not empty: name another, or remove it first")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"'output' is {output}, and that is a file: name another")
    make_output_folder(folder.parent, value=output)
    return folder


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A folder beside the final one, which gets its name at the end of the block, on the disk, if nothing fails."""
    for remains in folder.parent.glob(f".{escape(folder.name)}.*.unfinished"):
        with suppress(OSError), _held(remains):  # of a process that was killed: a living one holds its own
            shutil.rmtree(remains)
    unfinished = folder.parent / f".{folder.name}.{uuid.uuid4().hex[:8]}.unfinished"
    unfinished.mkdir()
    with _held(unfinished):
        try:
            yield unfinished
            for file in unfinished.rglob("*"):
                _flush(file)
            _flush(unfinished)
            try:
                os.rename(unfinished, folder)
            except OSError as error:
                raise ConfigError(
                    f"'{folder}' could not be given its name, because something came there meanwhile ({error})\n"
                    "  name another output."
                ) from error
            _flush(folder.parent)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Holds a folder's lock, which goes with the process, however it ends.

    Raises:
        OSError: if another process holds it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
