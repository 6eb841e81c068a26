"""What `wmrl train` takes where nothing is said fits together."""

from __future__ import annotations

from wmrl_gym.configs import compose_config
from wmrl_gym.configs.schema import TrainConfig


def test_the_default_agent_has_room_for_what_the_default_environment_says(smoke_data: None) -> None:
    config = TrainConfig.from_mapping(compose_config("train", ()))
    policy = config.policy.build()
    env = config.env.build(competition="titanic_survival")
    try:
        observation, _ = env.reset(seed=0)
        [decision] = policy.act([observation], histories=[()], seeds=[(0,)])
        assert len(policy.tokenizer.encode(observation)) < policy.context_length // 2
        assert isinstance(decision.action, str) and decision.action
    finally:
        env.close()
