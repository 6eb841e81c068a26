"""What the algorithms rely on: the same log-probabilities in acting and learning, own random streams, masks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from wmrl_gym.policies.minivla import MiniVLAPolicy, action_token_loss, tiny_minivla

Make = Callable[..., list[Any]]


def act(policy: MiniVLAPolicy, observations: list[Any], temperature: float = 1.0, first_seed: int = 0) -> list[Any]:
    count = len(observations)
    seeds = [(7, first_seed + i) for i in range(count)]
    return policy.act(observations, histories=[[]] * count, seeds=seeds, temperature=temperature)


@pytest.mark.parametrize("temperature", [1.0, 1.6])
@pytest.mark.parametrize("train_vision", [False, True])
def test_learning_recomputes_the_log_probabilities_of_acting(
    make_observations: Make, temperature: float, train_vision: bool
) -> None:
    policy = tiny_minivla(actions_per_decision=2, image_size=28, width=64, layers=2, train_vision=train_vision)
    decisions = act(policy, make_observations(5), temperature)
    log_probs, entropy, mask = policy.log_probs(decisions, temperature=temperature)
    assert log_probs.shape == entropy.shape == mask.shape == (5, 14)
    np.testing.assert_allclose(log_probs.detach(), np.stack([d.log_probs for d in decisions]), atol=2e-5)
    assert bool(mask.all())
    assert bool((entropy <= np.log(256) + 1e-5).all())
    other = policy.log_probs(decisions, temperature=temperature * 2)[0]
    assert not torch.allclose(log_probs, other, atol=1e-3)


def test_a_decision_depends_on_its_own_seed_and_not_on_its_batch(
    policy: MiniVLAPolicy, make_observations: Make
) -> None:
    observations = make_observations(4)
    together = act(policy, observations)
    alone = act(policy, observations[2:3], first_seed=2)[0]
    np.testing.assert_array_equal(alone.token_ids, together[2].token_ids)
    np.testing.assert_allclose(alone.log_probs, together[2].log_probs, atol=2e-5)
    reseeded = act(policy, observations[2:3], first_seed=3)[0]
    assert (alone.token_ids != reseeded.token_ids).any()


def test_batches_change_nothing(make_observations: Make) -> None:
    settings: dict[str, Any] = {"image_size": 28, "width": 64, "layers": 2}
    observations = make_observations(5)
    whole, parts = (act(tiny_minivla(batch_size=size, **settings), observations) for size in (None, 2))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one.token_ids, other.token_ids)


def test_temperature_zero_is_the_likeliest_token_with_its_log_probability_at_one(
    policy: MiniVLAPolicy, make_observations: Make
) -> None:
    observations = make_observations(3)
    greedy, again = act(policy, observations, 0.0), act(policy, observations, 0.0, first_seed=50)
    for one, other in zip(greedy, again, strict=True):
        np.testing.assert_array_equal(one.token_ids, other.token_ids)
    np.testing.assert_allclose(policy.log_probs(greedy)[0].detach(), np.stack([d.log_probs for d in greedy]), atol=2e-5)


def test_only_action_tokens_are_sampled_and_the_actions_are_theirs(
    policy: MiniVLAPolicy, make_observations: Make
) -> None:
    last = len(policy.tokenizer)
    for decision in act(policy, make_observations(6), temperature=3.0):
        assert decision.token_ids.min() >= last - 256
        assert decision.token_ids.max() < last
        assert decision.action.shape == (2, 7)
        assert decision.action.dtype == np.float32
        assert set(decision.action[:, -1]) <= {-1.0, 1.0}
        expected = policy.scale.to_environment(policy.codec.decode(decision.token_ids))
        np.testing.assert_array_equal(decision.action, expected)


def test_sampled_frequencies_are_the_probabilities(make_observations: Make) -> None:
    policy = tiny_minivla(image_size=28, width=64, layers=1)
    with torch.no_grad():
        policy.model.causal_lm.get_output_embeddings().weight.mul_(30)  # a peaked distribution
    observation = make_observations(1)[0]
    decisions = act(policy, [observation] * 600)
    first = np.array([d.token_ids[0] for d in decisions])
    for token in np.unique(first):
        probability = float(np.exp(next(d.log_probs[0] for d in decisions if d.token_ids[0] == token)))
        spread = np.sqrt(probability * (1 - probability) / len(first))
        assert abs((first == token).mean() - probability) < 5 * spread + 1e-9


@pytest.mark.parametrize(("used", "kept"), [(None, 14), (0, 0), (1, 7), (2, 14)])
def test_tokens_of_actions_never_taken_are_masked(
    policy: MiniVLAPolicy, make_observations: Make, used: int | None, kept: int
) -> None:
    decision = act(policy, make_observations(1))[0]
    decision = dataclasses.replace(decision, actions_used=used)
    mask = policy.log_probs([decision])[2]
    assert mask[0].tolist() == [1.0] * kept + [0.0] * (14 - kept)


def test_gradients_reach_every_part(policy: MiniVLAPolicy, make_observations: Make) -> None:
    decisions = act(policy, make_observations(3))
    policy.log_probs(decisions)[0].sum().backward()
    without = {name for name, p in policy.model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0}
    # The key's bias cannot change a softmax, and masked image modelling is not used.
    assert {
        name for name in without if "mask_token" not in name and not name.endswith(("key.bias", "k_proj.bias"))
    } == set()


def test_frozen_vision_has_no_gradient_and_is_looked_at_once(
    make_observations: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny_minivla(image_size=28, width=64, layers=1, train_vision=False)
    decisions = [dataclasses.replace(d, actions_used=1) for d in act(policy, make_observations(3))]  # as rollouts do
    calls: list[int] = []
    monkeypatch.setattr(policy.model.vision, "forward", lambda images: calls.append(1))
    policy.frozen_copy().log_probs(decisions)
    policy.log_probs(decisions)[0].sum().backward()
    assert not calls
    assert all(parameter.grad is None for parameter in policy.model.vision.parameters())


def test_a_small_feature_cache_only_costs_time(make_observations: Make) -> None:
    settings: dict[str, Any] = {"image_size": 28, "width": 64, "layers": 1, "train_vision": False}
    observations = make_observations(4)
    results = []
    for size in (2**20, 0, 5000):
        policy = tiny_minivla(feature_cache_bytes=size, **settings)
        decisions = act(policy, observations)
        results.append(policy.log_probs(decisions)[0].detach())
        kept = len(policy._features)
        assert kept == {2**20: 4, 0: 0, 5000: 1}[size]
        del decisions
        assert len(policy._features) == 0
    for other in results[1:]:
        torch.testing.assert_close(results[0], other, atol=2e-5, rtol=0)


def test_a_policy_is_restored_from_its_state(policy: MiniVLAPolicy, make_observations: Make) -> None:
    decisions = act(policy, make_observations(2))
    before = policy.log_probs(decisions)[0].detach()
    state = {name: values.clone() for name, values in policy.state_dict().items()}
    reference = policy.frozen_copy()
    optimizer = torch.optim.SGD(policy.parameters(), lr=1.0)
    policy.log_probs(decisions)[0].sum().backward()
    optimizer.step()
    assert not torch.allclose(before, policy.log_probs(decisions)[0].detach(), atol=1e-3)
    torch.testing.assert_close(before, reference.log_probs(decisions)[0])
    assert not list(reference.parameters())
    policy.load_state_dict(state)
    torch.testing.assert_close(before, policy.log_probs(decisions)[0].detach())
    with pytest.raises(ValueError, match="train_vision"):
        tiny_minivla(image_size=28, width=64, layers=2, train_vision=False).load_state_dict(state)


def test_cloning_teaches_the_demonstrated_actions(make_observations: Make) -> None:
    policy = tiny_minivla(image_size=28, width=64, layers=1)
    observations = make_observations(4)
    actions = np.random.default_rng(1).uniform(-0.9, 0.9, (4, 1, 7))
    actions[..., -1] = [[-1], [1], [1], [-1]]
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    first, tokens = action_token_loss(policy, observations, actions)
    assert tokens == 28
    assert first.item() == pytest.approx(np.log(256), abs=0.3)
    for _ in range(40):
        loss, _ = action_token_loss(policy, observations, actions)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    played = np.stack([decision.action for decision in act(policy, observations, 0.0)])
    np.testing.assert_allclose(played, actions, atol=1 / 255 + 1e-6)


def test_the_loss_is_the_negative_log_probability_of_the_same_tokens(
    policy: MiniVLAPolicy, make_observations: Make
) -> None:
    observations = make_observations(3)
    decisions = act(policy, observations)
    # Actions of decisions encode to other tokens (the gripper is binarised), so both sides read the encoded ones.
    actions = np.stack([decision.action for decision in decisions])
    encoded = [
        dataclasses.replace(d, token_ids=policy.codec.encode(policy.scale.from_environment(a)))
        for d, a in zip(decisions, actions, strict=True)
    ]
    loss, _ = action_token_loss(policy, observations, actions)
    assert loss.item() == pytest.approx(-policy.log_probs(encoded)[0].mean().item(), abs=1e-5)


def test_a_camera_that_is_not_rendered_is_named(policy: MiniVLAPolicy) -> None:
    with pytest.raises(ValueError, match="no 'agentview_image'"):
        act(policy, [{"instruction": "close the drawer", "wrist_image": np.zeros((8, 8, 3), np.uint8)}])


def test_two_cameras_are_seen_in_their_order(make_observations: Make) -> None:
    cameras = ("agentview", "robot0_eye_in_hand")
    policy = tiny_minivla(image_size=28, width=64, layers=1, cameras=cameras)
    observation = make_observations(1, cameras=cameras)[0]
    features = policy.features([observation])
    assert features.shape[1] == 2 * policy.model.vision.patches
    swapped = {**observation, "agentview_image": observation["robot0_eye_in_hand_image"]}
    torch.testing.assert_close(policy.features([swapped])[0, :4], features[0, 4:])
