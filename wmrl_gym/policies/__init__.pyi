from .acting import ActingPolicy
from .baselines import FixedPipeline, RandomPipelines
from .causal_lm import CausalLMPolicy
from .causal_lm_loading import load_causal_lm
from .drawers import load_drawer_agent
from .endpoint import EndpointPolicy
from .memory_estimate import MemoryEstimate, estimate_memory
from .minivla.loading import load_minivla
from .minivla.policy import MiniVLAPolicy
from .minivla.tiny import load_tiny_minivla
from .nano import load_nano_agent, save_nano_agent
from .smollm2 import load_smollm2
from .vllm_rollout import VLLMPolicy, load_vllm_policy

__all__ = [
    "ActingPolicy",
    "CausalLMPolicy",
    "EndpointPolicy",
    "FixedPipeline",
    "MemoryEstimate",
    "MiniVLAPolicy",
    "RandomPipelines",
    "VLLMPolicy",
    "estimate_memory",
    "load_causal_lm",
    "load_drawer_agent",
    "load_minivla",
    "load_nano_agent",
    "load_smollm2",
    "load_tiny_minivla",
    "load_vllm_policy",
    "save_nano_agent",
]
