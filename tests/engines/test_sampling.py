from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wmrl_gym.engines.constrained_sampling import choose
from wmrl_gym.engines.engine import Sampling
from wmrl_gym.engines.shared_prefix import LEAST_SHARED, shared_paths, tokens_computed_before

LOGITS = torch.log(torch.tensor([[0.5, 0.25, 0.15, 0.1]]))


def drawn(sampling: Sampling, seen: Any = None, allowed: Any = None, count: int = 4000) -> np.ndarray:
    """Share of each token among many draws."""
    logits = LOGITS.expand(count, -1)
    seen = torch.zeros(count, 4, dtype=torch.bool) if seen is None else torch.tensor([seen]).expand(count, -1)
    allowed = None if allowed is None else torch.tensor([allowed]).expand(count, -1)
    chosen = choose(logits, np.random.default_rng(0).random(count), sampling, seen, allowed)
    return np.bincount(chosen.numpy(), minlength=4) / count


def test_plain_sampling_draws_the_distribution() -> None:
    plain = Sampling(temperature=1.0, top_p=1.0, top_k=0, presence_penalty=0.0)
    assert np.allclose(drawn(plain), [0.5, 0.25, 0.15, 0.1], atol=0.02)


def test_top_k_keeps_the_likeliest_and_their_odds() -> None:
    assert np.allclose(drawn(Sampling(1.0, 1.0, 2, 0.0)), [2 / 3, 1 / 3, 0, 0], atol=0.02)


def test_top_p_keeps_the_token_that_crosses_it() -> None:
    assert np.allclose(drawn(Sampling(1.0, 0.6, 0, 0.0)), [2 / 3, 1 / 3, 0, 0], atol=0.02)
    assert np.allclose(drawn(Sampling(1.0, 0.01, 0, 0.0)), [1, 0, 0, 0])


def test_presence_penalty_divides_the_odds_by_its_exponential_once() -> None:
    shares = drawn(Sampling(1.0, 1.0, 0, float(np.log(2))), seen=[True, False, False, False])
    assert np.allclose(shares, np.array([0.25, 0.25, 0.15, 0.1]) / 0.75, atol=0.02)


def test_forbidden_tokens_are_never_drawn() -> None:
    shares = drawn(Sampling(1.0, 1.0, 3, 0.0), allowed=[False, False, False, True])
    assert np.allclose(shares, [0, 0, 0, 1])
    assert drawn(Sampling(0.0), allowed=[False, True, True, False])[1] == 1


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_shared_paths_hold_what_they_claim(data: st.DataObject) -> None:
    pieces = [list(range(100 * i, 100 * i + n)) for i, n in enumerate([LEAST_SHARED, 20, 3, 40, 17, 1])]
    chains = [data.draw(st.lists(st.sampled_from(pieces), min_size=1, max_size=7)) for _ in range(8)]
    rows = sorted([token for piece in chain for token in piece] for chain in chains)
    arrays = [np.asarray(row, np.int64) for row in rows]
    for levels in (0, 1, 2, 4):
        paths = shared_paths(arrays, levels=levels)
        for index, (row, path) in enumerate(zip(rows, paths, strict=True)):
            assert len(path) <= levels
            ends = [0, *(segment.end for segment in path)]
            assert [segment.start for segment in path] == ends[:-1] and ends == sorted(set(ends))
            assert ends[-1] < len(row)
            for segment in path:
                assert rows[segment.first_row][: segment.end] == row[: segment.end]
                assert segment.first_row <= index
            assert tokens_computed_before(index, path) < len(row)


def test_equal_prompts_are_run_once() -> None:
    paths = shared_paths([np.arange(50)] * 4)
    assert [tokens_computed_before(i, path) for i, path in enumerate(paths)] == [0, 49, 49, 49]
