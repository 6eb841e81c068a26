"""GRPO and WMRL-GRPO, rollouts, evaluation, checkpoints, supervised fine-tuning."""
