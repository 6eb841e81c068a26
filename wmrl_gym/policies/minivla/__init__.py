"""MiniVLA, a vision-language-action model of one billion parameters, and a tiny one of the same kind (docs/minivla.md).

Example::

    policy = tiny_minivla(actions_per_decision=8)       # random weights, milliseconds on a CPU
    loss, tokens = action_token_loss(policy, observations, actions)
"""

from wmrl_gym.policies.minivla.cloning_loss import action_token_loss
from wmrl_gym.policies.minivla.loading import load_minivla
from wmrl_gym.policies.minivla.policy import MiniVLAPolicy
from wmrl_gym.policies.minivla.tiny import load_tiny_minivla, tiny_minivla

__all__ = ["MiniVLAPolicy", "action_token_loss", "load_minivla", "load_tiny_minivla", "tiny_minivla"]
