"""The reference of settings, made from the code: names, types and defaults by inspection, meanings from docstrings."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator
from typing import Any

MARK = "<!-- settings -->"
SECTIONS = (
    ("wmrl train", "wmrl_gym.configs.schema.TrainConfig"),
    ("tasks", "wmrl_gym.configs.schema.TasksConfig"),
    ("evaluation", "wmrl_gym.configs.schema.EvaluationConfig"),
    ("execution", "wmrl_gym.configs.schema.ExecutionConfig"),
    ("logger", "wmrl_gym.configs.schema.LoggerConfig"),
    ("algorithm", "wmrl_gym.algorithms.wmrl_grpo.WMRLGRPOSettings"),
    ("algorithm.loss", "wmrl_gym.algorithms.grpo.GRPOSettings"),
    ("proxy", "wmrl_gym.proxy.reward_proxy.RewardProxy"),
    ("proxy.anchors", "wmrl_gym.proxy.anchoring.RandomAnchors"),
    ("proxy.debiaser", "wmrl_gym.proxy.debiasing.IsotonicDebiaser"),
    ("proxy.fusion", "wmrl_gym.proxy.fusion.InverseVarianceFusion"),
    ("env (mle_dojo)", "wmrl_gym.envs.mle_dojo.env.MLEDojoEnv"),
    ("env.sandbox_limits", "wmrl_gym.execution.limits.SandboxLimits"),
    ("env (libero)", "wmrl_gym.envs.libero.env.LIBEROLongEnv"),
    ("world_model (static_analysis)", "wmrl_gym.world_models.static_analysis.model.StaticAnalysis"),
    ("world_model (llm_static_checker)", "wmrl_gym.world_models.llm_static_checker.checker.LLMStaticChecker"),
    ("policy (causal_lm)", "wmrl_gym.policies.causal_lm.load_causal_lm"),
    ("wmrl evaluate", "wmrl_gym.configs.schema.EvaluateConfig"),
    ("wmrl compare", "wmrl_gym.configs.schema.CompareConfig"),
    ("wmrl sft", "wmrl_gym.configs.schema.SupervisedConfig"),
    ("wmrl corpus", "wmrl_gym.configs.fidelity_schema.CorpusConfig"),
    ("wmrl fidelity", "wmrl_gym.configs.fidelity_schema.FidelityConfig"),
)
"""Heading, and the class or function whose arguments the settings are."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables where the mark is."""
    return markdown.replace(MARK, reference()) if MARK in markdown else markdown


def reference() -> str:
    """All sections as Markdown."""
    parts = []
    for heading, target in SECTIONS:
        module, _, name = target.rpartition(".")
        found = getattr(importlib.import_module(module), name)
        rows = [f"| `{key}` | {default} | {meaning} |" for key, default, meaning in settings_of(found)]
        table = ["| key | default | meaning |", "| --- | --- | --- |", *rows, ""]
        parts += [f"## {heading}", "", f"`{target}`", "", *table]
    return "\n".join(parts)


def settings_of(target: Any) -> Iterator[tuple[str, str, str]]:
    """Name, default and meaning of each argument; a default of nothing must be given."""
    meanings = _attribute_docs(target) | _argument_docs(inspect.getdoc(target) or "")
    for parameter in inspect.signature(target).parameters.values():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        yield parameter.name, _default(target, parameter), _cell(meanings.get(parameter.name, ""))


def _default(target: Any, parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return "*required*"
    field = getattr(target, "__dataclass_fields__", {}).get(parameter.name)
    if field is not None and field.default_factory is not dataclasses.MISSING:
        made = field.default_factory()
        return "see below" if dataclasses.is_dataclass(made) else f"`{made}`"
    if parameter.default is None:
        return "`null`"
    return _cell(f"`{str(parameter.default).lower() if isinstance(parameter.default, bool) else parameter.default}`")


def _attribute_docs(target: Any) -> dict[str, str]:
    """The strings below a dataclass's fields."""
    if not dataclasses.is_dataclass(target):
        return {}
    body = ast.parse(textwrap.dedent(inspect.getsource(target))).body[0].body  # type: ignore[attr-defined, arg-type]
    pairs = itertools.pairwise(body)
    return {
        field.target.id: text.value.value
        for field, text in pairs
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def _argument_docs(docstring: str) -> dict[str, str]:
    """The section "Args" of a Google docstring."""
    section = re.search(r"^Args:\n((?:[ ]{4}.*\n?|\n)+)", docstring, re.MULTILINE)
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\w)", textwrap.dedent(section.group(1))) if section else ():
        name, colon, meaning = entry.partition(":")
        if colon:
            found[name.strip()] = meaning
    return found


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("``", "`")
