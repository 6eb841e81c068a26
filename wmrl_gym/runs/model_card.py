"""The card of an exported agent (README.md): what it was trained on and how it is used. What is unknown is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from wmrl_gym.configs.schema import TrainConfig
from wmrl_gym.runs.assembly import Domain
from wmrl_gym.runs.records.metrics import read_metrics
from wmrl_gym.runs.records.run_directory import RunDirectory, during

Results = Callable[[Mapping[str, Mapping[str, Any]]], str]
"""Makes Markdown of a run's evaluations: when -> the evaluation as plain data."""

_LOAD_MODEL = """\
```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("this/folder")
tokenizer = AutoTokenizer.from_pretrained("this/folder")
```"""
_LOAD_ADAPTER = """\
```python
from peft import AutoPeftModelForCausalLM
from transformers import AutoTokenizer

model = AutoPeftModelForCausalLM.from_pretrained("this/folder")
tokenizer = AutoTokenizer.from_pretrained("this/folder")
```"""
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class ModelFacts:
    """What lies in the folder, and how the agent was asked."""

    kind: str
    """"model", "merged model" or "adapter"."""
    temperature: float
    """At which the run evaluates its agent."""
    base: str | None = None
    """Hub name or folder of the model that training began with."""
    pipeline_tag: str | None = None
    """Hugging Face's name for what it does."""
    policy: str = ""
    """Its class here."""
    chat: bool = True
    system_prompt: str | None = None
    template_arguments: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, int | None] = field(default_factory=dict)
    """Of what -> most tokens of it; None for no limit."""
    dtype: str | None = None
    """Of the weights, if one was asked for."""

    @property
    def is_language_model(self) -> bool:
        """Whether `transformers` loads it."""
        return self.pipeline_tag == "text-generation"


@dataclass(frozen=True)
class Provenance:
    """Where an agent comes from, as far as its run's records say. Unknown is None."""

    experiment: str
    seed: int
    steps: int
    """After which its checkpoint was written."""
    planned_steps: int
    """Of the whole run."""
    trajectories_per_step: int
    train: Sequence[str]
    held_out: Sequence[str]
    executed_share: float | None
    """Of the training trajectories up to the checkpoint."""
    version: str | None
    """Of this library, when the run began."""
    commit: str | None
    changed: bool
    """Whether files differed from the commit."""
    evaluations: Mapping[str, Mapping[str, Any]]
    """When -> the run's own evaluation: before training, and of these very weights."""


def provenance(run: RunDirectory, config: TrainConfig, steps: int) -> Provenance:
    """What a run's records say of the agent that it had after so many steps."""
    settings = config.algorithm.build()
    domain = Domain(config.env, config.tasks)
    circumstances = run.read_json("circumstances.json") or {}
    git = circumstances.get("git") or {}
    # Only of these very weights: what the run measured later says nothing of an earlier checkpoint.
    own = "after" if steps == settings.steps else during(steps)
    names = {"before training": "before", f"after {steps} steps": own}
    found = {when: run.read_json(f"{name}.json") for when, name in names.items()}
    shares = [
        record["executed_share"]
        for record in read_metrics(run.metrics_file)
        if record["step"] < steps and record.get("executed_share") is not None
    ]
    return Provenance(
        experiment=config.experiment_name,
        seed=config.seed,
        steps=steps,
        planned_steps=settings.steps,
        trajectories_per_step=settings.groups_per_step * settings.group_size,
        train=domain.train,
        held_out=domain.held_out,
        executed_share=float(np.mean(shares)) if shares else None,
        version=(circumstances.get("versions") or {}).get("wmrl-gym"),
        commit=git.get("commit"),
        changed=bool(git.get("changed")),
        evaluations={when: data for when, data in found.items() if data is not None},
    )


def mean_scores(evaluations: Mapping[str, Mapping[str, Any]]) -> str:
    """The mean of each held-out task in each evaluation, without intervals."""
    tasks = list(dict.fromkeys(task for data in evaluations.values() for task in data["task_scores"]))
    lines = [" | ".join(["| task", *evaluations]) + " |", "| --- |" + " ---: |" * len(evaluations)]
    for task in tasks:
        scores = [data["task_scores"].get(task) for data in evaluations.values()]
        lines.append(" | ".join([f"| {task}", *("-" if score is None else f"{score:.4g}" for score in scores)]) + " |")
    measures = dict.fromkeys(str((data.get("measure") or {"name": "score"})["name"]) for data in evaluations.values())
    samples = ", ".join(f"{data['samples']} {when}" for when, data in evaluations.items())
    return "\n".join([*lines, "", f"Measure: {', '.join(measures)}. Episodes per task: {samples}."])


def model_card(model: ModelFacts, origin: Provenance, results: Results = mean_scores) -> str:
    """The card as Markdown with YAML front matter.

    Args:
        model: what lies in the folder.
        origin: where it comes from.
        results: makes the section of the run's evaluations.
    """
    sections = [
        f"---\n{yaml.safe_dump(_front_matter(model), sort_keys=False)}---",
        f"# {origin.experiment}, seed {origin.seed}",
        " ".join(_opening(model)),
        "## Training\n\n" + "\n".join(f"- {line}" for line in _training(model, origin)),
    ]
    if origin.evaluations:
        temperatures = ", ".join(f"{value:g}" for value in _temperatures(origin.evaluations))
        sections.append(
            "## Evaluation\n\nHeld-out tasks, every submission really executed, by the run itself; temperature "
            f"{temperatures}.\n\n{results(origin.evaluations)}"
        )
    sections.append("## Use\n\n" + "\n\n".join(_use(model)))
    return "\n\n".join(sections) + "\n"


def _front_matter(model: ModelFacts) -> dict[str, Any]:
    is_adapter = model.kind == "adapter"
    library = "wmrl_gym" if not model.is_language_model else "peft" if is_adapter else "transformers"
    found = {
        "library_name": library,
        "base_model": _hub_name(model.base),
        "pipeline_tag": model.pipeline_tag,
        "tags": ["reinforcement-learning", "wmrl_gym", *(["lora"] if is_adapter else [])],
    }
    return {key: value for key, value in found.items() if value is not None}


def _hub_name(base: str | None) -> str | None:
    """The base's name on a hub; None for a folder, which nobody else has."""
    return base if base is not None and not Path(base).is_dir() and _HUB_NAME.fullmatch(base) else None


def _opening(model: ModelFacts) -> Iterator[str]:
    if model.kind == "adapter":
        what = "A low-rank adapter"
    elif model.kind == "merged model":
        what = "A language model, with the low-rank adapter that was trained merged into it"
    else:
        what = "A language model" if model.is_language_model else f"A `{model.policy}`"
    base = "" if model.base is None else f", from `{_hub_name(model.base) or Path(model.base).name}`"
    yield f"{what}{base}. Trained by reinforcement learning with `wmrl_gym`."
    if model.dtype is not None:
        yield f"The weights are written as {model.dtype}."
    if model.kind == "adapter" and _hub_name(model.base) is None:
        yield "`adapter_config.json` names the model below it by its path on the machine that wrote this folder."


def _training(model: ModelFacts, origin: Provenance) -> Iterator[str]:
    yield f"experiment: {origin.experiment}, seed {origin.seed}"
    of_all = "" if origin.steps == origin.planned_steps else f" of {origin.planned_steps}"
    yield f"steps: {origin.steps}{of_all}, {origin.trajectories_per_step} trajectories each"
    yield f"trained on: {', '.join(origin.train)}"
    if origin.held_out:
        yield f"held out: {', '.join(origin.held_out)}"
    if origin.executed_share is not None:
        yield f"really executed: {origin.executed_share:.1%} of the trajectories"
    if origin.version is not None:
        yield f"wmrl_gym: {origin.version}"
    if origin.commit is not None:
        yield f"commit: {origin.commit}" + (", with changed files" if origin.changed else "")


def _temperatures(evaluations: Mapping[str, Mapping[str, Any]]) -> list[float]:
    return list(dict.fromkeys(float(data["temperature"]) for data in evaluations.values()))


def _use(model: ModelFacts) -> Iterator[str]:
    if not model.is_language_model:
        yield "It is loaded by the policy of `wmrl_gym` that wrote it, by the path of this folder."
        return
    yield _LOAD_ADAPTER if model.kind == "adapter" else _LOAD_MODEL
    yield (
        "The generation settings hold the tokens that end a turn and the temperature at which the agent was "
        "evaluated, without any other filter of tokens."
    )
    limits = [f"{count} of {what}" for what, count in model.limits.items() if count is not None]
    if limits:
        yield f"Most tokens in training: {'; '.join(limits)}."
    if not model.chat:
        yield "It was trained without a chat template: each turn is plain text that ends with a newline."
    if model.template_arguments:
        arguments = ", ".join(f"{name}={value!r}" for name, value in model.template_arguments.items())
        yield f"Arguments of the chat template in training: `{arguments}`."
    if model.system_prompt:
        longest = max(map(len, re.findall("`+", model.system_prompt)), default=0)
        fence = "`" * max(3, longest + 1)
        yield f"System prompt in training:\n\n{fence}\n{model.system_prompt}\n{fence}"
