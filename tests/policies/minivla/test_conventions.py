"""Worked examples, one for each convention of the original: each is wrong if the convention is."""

from __future__ import annotations

import numpy as np
import pytest

from wmrl_gym.policies.minivla.action_scale import ActionScale
from wmrl_gym.policies.minivla.action_tokens import BinnedActions
from wmrl_gym.policies.minivla.images import prepare_image
from wmrl_gym.policies.minivla.prompting import add_action_tokens, prompt_ids, prompt_text
from wmrl_gym.policies.minivla.tiny import tiny_tokenizer

QWEN_TOKENS = 151665 + 256
"""Qwen2.5's vocabulary with its special tokens, and the action tokens behind it."""


@pytest.mark.parametrize(
    ("number", "token", "decoded"),
    [
        (-1.0, 151920, -254 / 255),  # the first bin is the last token
        (-0.999, 151920, -254 / 255),
        (0.0, 151793, 0.0),  # bin 128 of 1..256, whose centre is 0
        (0.5, 151729, 128 / 255),
        (0.999, 151666, 254 / 255),
        (1.0, 151665, 254 / 255),  # the 256th bin folds into the 255th interval
        (-7.0, 151920, -254 / 255),
        (7.0, 151665, 254 / 255),
    ],
)
def test_numbers_and_tokens(number: float, token: int, decoded: float) -> None:
    codec = BinnedActions(QWEN_TOKENS)
    tokens = codec.encode(np.full((1, 7), number))
    assert tokens.tolist() == [token] * 7
    np.testing.assert_allclose(codec.decode(tokens), np.full((1, 7), decoded), atol=1e-12)


def test_every_token_of_an_interval_decodes_to_itself() -> None:
    codec = BinnedActions(QWEN_TOKENS)
    tokens = np.arange(codec.first_token + 1, codec.first_token + 256)
    for row in tokens.reshape(-1, 1):
        np.testing.assert_array_equal(codec.encode(codec.decode(np.repeat(row, 7))), np.repeat(row, 7))
    assert len(np.unique([codec.decode(np.repeat(token, 7))[0, 0] for token in tokens])) == 255
    assert codec.first_token == 151665
    assert codec.first_token + codec.token_count == 151921


def test_a_chunk_is_written_action_after_action() -> None:
    codec = BinnedActions(1000, actions_per_decision=2)
    actions = np.array([np.linspace(-0.9, -0.3, 7), np.linspace(0.3, 0.9, 7)])
    tokens = codec.encode(actions)
    assert tokens.shape == (14,)
    assert (np.diff(tokens) < 0).all()  # larger numbers are smaller ids
    np.testing.assert_allclose(codec.decode(tokens), actions, atol=1 / 255)
    assert [codec.tokens_taken(used) for used in (0, 1, 2, 3)] == [0, 7, 14, 14]
    with pytest.raises(ValueError, match=r"\(2, 7\)"):
        codec.encode(actions[:1])


STATISTICS = {
    "libero_10_no_noops": {
        "action": {
            "q01": [-0.6, -0.5, -0.9, -0.1, -0.2, -0.3, 0.0],
            "q99": [0.8, 0.9, 0.9, 0.3, 0.4, 0.5, 1.0],
            "mask": [True, True, True, True, True, True, False],
        }
    },
    "libero_90": {"action": {"q01": [-1.0] * 7, "q99": [1.0] * 7}},
}


def test_unnormalising_maps_minus_one_and_one_to_the_percentiles_and_leaves_the_gripper() -> None:
    scale = ActionScale.from_statistics(STATISTICS, "libero_10")
    played = scale.to_environment([[-1, 1, 0, 0.5, 0, -1, 1.0], [0] * 6 + [0.0]])
    np.testing.assert_allclose(played[0, :6], [-0.6, 0.9, 0.0, 0.2, 0.1, -0.3], atol=1e-6)
    np.testing.assert_allclose(played[1, :6], [0.1, 0.2, 0.0, 0.1, 0.1, 0.1], atol=1e-6)
    assert played.dtype == np.float32


@pytest.mark.parametrize(
    ("said", "played"),
    [(1.0, -1.0), (254 / 255, -1.0), (0.502, -1.0), (0.498, 1.0), (0.0, 1.0), (-0.8, 1.0)],
)
def test_the_model_says_one_to_open_and_the_simulator_opens_at_minus_one(said: float, played: float) -> None:
    assert ActionScale.identity().to_environment([[0] * 6 + [said]])[0, 6] == played


def test_demonstrations_are_normalised_by_the_inverse() -> None:
    scale = ActionScale.from_statistics(STATISTICS, "libero_10_no_noops")
    actions = np.array([[0.1, 0.2, 0.3, 0.1, 0.1, 0.1, -1.0], [5, -5, 0, 0, 0, 0, 1.0]])
    normalised = scale.from_environment(actions)
    assert normalised[:, 6].tolist() == [1.0, 0.0]  # open, closed
    np.testing.assert_allclose(normalised[0, :3], [0.0, 0.0, 1 / 3], atol=1e-6)
    assert normalised[1, :2].tolist() == [1.0, -1.0]  # clipped at the percentiles
    np.testing.assert_allclose(scale.to_environment(normalised)[0], actions[0], atol=1e-6)


def test_a_number_that_never_varies_is_zero() -> None:
    scale = ActionScale(np.zeros(7), np.zeros(7), np.array([True] * 6 + [False]))
    assert scale.from_environment([[0.5] * 6 + [-1.0]])[0].tolist() == [0.0] * 6 + [1.0]


def test_statistics_are_asked_for_by_name() -> None:
    with pytest.raises(ValueError, match="libero_10_no_noops"):
        ActionScale.from_statistics(STATISTICS)
    with pytest.raises(ValueError, match="statistics_key"):
        ActionScale.from_statistics(STATISTICS, "bridge")
    assert ActionScale.from_statistics(STATISTICS, "libero_90").mask.all()
    only = {"mine": STATISTICS["libero_90"]}
    np.testing.assert_array_equal(ActionScale.from_statistics(only).high, np.ones(7))


def test_the_prompt_is_qwens_chat_with_a_lower_case_instruction() -> None:
    assert prompt_text("Put BOTH moka pots on the stove") == (
        "<|im_start|>system\n"
        "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
        "<|im_start|>user\n"
        "What action should the robot take to put both moka pots on the stove?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_the_prompt_begins_with_im_start_and_ends_where_the_answer_begins() -> None:
    tokenizer = tiny_tokenizer()
    ids = prompt_ids(tokenizer, "close it")
    start, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    assert ids[0] == start
    assert (ids == start).sum() == 3
    assert (ids == end).sum() == 2
    assert tokenizer.decode(ids) == prompt_text("close it")


def test_action_tokens_are_the_last_256_and_are_added_once() -> None:
    tokenizer = tiny_tokenizer()
    length = len(tokenizer)
    names = tokenizer.convert_ids_to_tokens([length - 256, length - 1])
    assert names == ["<|extra_0|>", "<|extra_255|>"]
    add_action_tokens(tokenizer)
    assert len(tokenizer) == length


def test_the_middle_nine_tenths_of_a_picture_are_seen() -> None:
    # int(sqrt(0.9) * 224) = 212 pixels from the sixth on; a frame of 6 pixels is cut off.
    framed = np.full((224, 224, 3), 200, np.uint8)
    framed[:6], framed[218:], framed[:, :6], framed[:, 218:] = 0, 0, 0, 0
    assert (prepare_image(framed, 224) == 200).all()
    wider = framed.copy()
    wider[6] = 0
    assert (prepare_image(wider, 224)[:, 0] < 200).all()
    assert prepare_image(framed, 224, crop_area=None)[0, 0, 0] == 0


def test_the_cut_is_scaled_back_bilinearly() -> None:
    ramp = np.repeat(np.arange(224, dtype=np.uint8)[None, :, None], 224, 0).repeat(3, 2)
    seen = prepare_image(ramp, 224)
    # Pixel x of the result is at (x + 0.5) * 212 / 224 - 0.5 + 6 of the original.
    expected = (np.arange(224) + 0.5) * 212 / 224 - 0.5 + 6
    np.testing.assert_allclose(seen[0, 100, 2:-2], expected[2:-2], atol=0.51)


def test_pictures_keep_their_way_up_and_their_colours() -> None:
    picture = np.zeros((56, 56, 3), np.uint8)
    picture[:28, :, 0] = 255  # the upper half is red
    picture[:, :28, 2] = 255  # the left half is blue
    seen = prepare_image(picture, 56)
    assert seen.shape == (3, 56, 56)
    assert seen[0, 5, 50] == 255
    assert seen[0, 50, 5] == 0
    assert seen[2, 50, 5] == 255
    assert seen[2, 5, 50] == 0


def test_other_sizes_are_resized_by_lanczos() -> None:
    from PIL import Image

    picture = np.random.default_rng(0).integers(0, 256, (128, 128, 3), np.uint8)
    expected = np.asarray(Image.fromarray(picture).resize((56, 56), Image.Resampling.LANCZOS)).transpose(2, 0, 1)
    np.testing.assert_array_equal(prepare_image(picture, 56, crop_area=None), expected)
    assert (prepare_image(picture, 56, crop_area=None) != prepare_image(picture, 56)).any()


def test_a_picture_must_be_bytes() -> None:
    with pytest.raises(ValueError, match="uint8"):
        prepare_image(np.zeros((8, 8, 3), np.float32), 56)  # type: ignore[arg-type]
