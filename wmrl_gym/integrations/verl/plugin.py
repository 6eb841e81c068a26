"""What verl loads by itself: importing this registers the reward manager, the estimator and the trainer.

verl looks for it under the entry points "verl.plugins" whenever it is imported, in every process, and logs a failure at
DEBUG only; `check_verl` says what went wrong.
"""

from wmrl_gym.integrations.verl import estimator, reward, trainer

__all__ = ["estimator", "reward", "trainer"]
