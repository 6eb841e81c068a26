"""What verl loads by itself: importing this registers the reward manager, the estimator and the trainer.

verl looks for it under the entry points "verl.plugins" whenever it is imported, in every process, and logs a failure at
DEBUG only; `check_verl` says what went wrong.
"""

from wmrl_gym.integrations import verl_estimator, verl_reward, verl_trainer

__all__ = ["verl_estimator", "verl_reward", "verl_trainer"]
