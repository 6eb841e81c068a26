"""Robometer as a world model: a video-language model judges the frames of an episode."""

from __future__ import annotations

from wmrl_gym.world_models.robometer.http_transport import HTTPTransport
from wmrl_gym.world_models.robometer.lerobot_transport import LeRobotTransport
from wmrl_gym.world_models.robometer.model import RobometerWorldModel

__all__ = ["HTTPTransport", "LeRobotTransport", "RobometerWorldModel"]
