"""Reinforcement learning with expensive rewards, after WMRL: world models score, a thin stream of executions corrects.

Importing this package registers its environments with Gymnasium and loads nothing heavy: torch, transformers and pandas
come in with the modules that use them.
"""

import gymnasium as gym
import lazy_loader

# The names are in __init__.pyi; each is imported when somebody asks for it.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# A script's wall-clock limit and a machine's speed take part in its score: the environment is not deterministic.
gym.register(
    id="wmrl/MLEDojo-v0",
    entry_point="wmrl_gym.envs.mle_dojo.env:MLEDojoEnv",
    nondeterministic=True,
)
gym.register(
    id="wmrl/DSBench-v0",
    entry_point="wmrl_gym.envs.dsbench.env:DSBenchEnv",
    nondeterministic=True,
)
# Restoring a simulator's state is exact within one process, but its physics depend on the processor's arithmetic.
gym.register(
    id="wmrl/LIBEROLong-v0",
    entry_point="wmrl_gym.envs.libero.env:LIBEROLongEnv",
    nondeterministic=True,
)
