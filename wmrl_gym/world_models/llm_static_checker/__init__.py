"""A language model as world model: it reads a script and foretells what the sandbox would do with it."""

from __future__ import annotations

from wmrl_gym.world_models.llm_static_checker.checker import LLMStaticChecker
from wmrl_gym.world_models.llm_static_checker.settings import AskingSettings, JudgedEnvironment, JudgingSettings

__all__ = ["AskingSettings", "JudgedEnvironment", "JudgingSettings", "LLMStaticChecker"]
