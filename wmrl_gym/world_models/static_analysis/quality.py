"""How good a valid submission may be."""

from __future__ import annotations

from wmrl_gym.envs.mle_dojo.overview import Overview
from wmrl_gym.world_models.static_analysis.scope import Write


def expected_percentile(overview: Overview, write: Write | None) -> float:
    """Percentile a valid submission is expected to reach, 0 to 1."""
    return 0.3
