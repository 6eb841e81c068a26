"""The space of free text."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from gymnasium.vector.utils import batch_space

from wmrl_gym.envs.unicode_text import UnicodeText


def test_any_string_up_to_the_limit_is_contained_and_nothing_else() -> None:
    space = UnicodeText(5)
    assert all(text in space for text in ("", "abc\n", "żółć", "日本語", "👩‍🔬", "\x00", "\ud800"))
    assert all(other not in space for other in ("123456", b"abc", 5, None, ["a"]))


def test_samples_are_contained_varied_and_repeat_with_the_seed() -> None:
    space = UnicodeText(1000)
    space.seed(7)
    first = [space.sample() for _ in range(50)]
    space.seed(7)
    assert [space.sample() for _ in range(50)] == first
    assert all(text in space for text in first)
    letters = set("".join(first))
    assert len(set(first)) > 40
    assert any(ord(letter) > 0xFFFF for letter in letters) and any(letter.isascii() for letter in letters)


def test_samples_keep_to_a_small_limit() -> None:
    space = UnicodeText(2, seed=0)
    assert {len(space.sample()) for _ in range(60)} == {0, 1, 2}


def test_samples_survive_json_and_the_space_survives_pickling() -> None:
    space = UnicodeText(300, seed=1)
    samples = [space.sample() for _ in range(20)]
    assert space.from_jsonable(json.loads(json.dumps(space.to_jsonable(samples)))) == samples
    assert pickle.loads(pickle.dumps(space)) == space


def test_equality_is_that_of_the_limit() -> None:
    assert UnicodeText(3, seed=0) == UnicodeText(3, seed=1)
    assert UnicodeText(3) != UnicodeText(4)
    assert UnicodeText(3) != 3


def test_vector_environments_can_batch_it() -> None:
    batch = batch_space(UnicodeText(3), 2)
    assert ("ab", "日") in batch
    assert ("abcd", "") not in batch


def test_a_mask_is_refused_rather_than_ignored() -> None:
    with pytest.raises(ValueError, match="no fixed alphabet"):
        UnicodeText(3).sample(mask=(2, None))


def test_texts_go_through_shared_memory_whole() -> None:
    from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory

    space = UnicodeText(8)
    texts = ("", "häß\U0001f600", "\ud800 8 long!"[:8])
    shared = create_shared_memory(space, n=3)
    live = read_from_shared_memory(space, shared, 3)
    assert tuple(live) == ("", "", "")
    for index, text in enumerate(("12345678", *texts[1:])):
        write_to_shared_memory(space, index, text, shared)
    write_to_shared_memory(space, 0, texts[0], shared)
    assert tuple(live) == copy.deepcopy(live) == texts and live[1:] == texts[1:] and live[-1] == texts[-1]
    with pytest.raises(ValueError, match="9 characters"):
        write_to_shared_memory(space, 1, "123456789", shared)
