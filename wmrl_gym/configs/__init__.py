"""Configuration: Hydra's YAML groups, composed into typed dataclasses that refuse what they do not know."""

from wmrl_gym.configs.compose import compose_config, group_choices
from wmrl_gym.configs.validation import Component, ConfigError, to_dataclass

__all__ = ["Component", "ConfigError", "compose_config", "group_choices", "to_dataclass"]
