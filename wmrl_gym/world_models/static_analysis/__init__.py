"""Static analysis of competition scripts: a world model that is fast, deterministic and needs no language model."""

from __future__ import annotations

from wmrl_gym.world_models.static_analysis.model import StaticAnalysis

__all__ = ["StaticAnalysis"]
