from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from wmrl_gym.configs import compose_config
from wmrl_gym.core import Submission, WorldModel, WorldModelError
from wmrl_gym.proxy.prediction import predict_batch
from wmrl_gym.world_models.robometer import HTTPTransport, RobometerWorldModel
from wmrl_gym.world_models.robometer.clip import kept_frames, turned

from .episodes import INSTRUCTION, episode, marked_frames
from .robometer_server import Handler, RobometerServer, Samples, judge, judged, serving

RISING = np.linspace(0.0, 1.0, 66)


def model_of(server: RobometerServer, *, transport: dict[str, Any] | None = None, **settings: Any) -> Any:
    quick: dict[str, Any] = {"timeout": 20.0, "backoff": 0.01, "retries": 2} | (transport or {})
    return RobometerWorldModel(HTTPTransport(server.url, **quick), **settings)


def test_eight_frames_are_sent_the_first_and_last_among_them_in_order() -> None:
    with serving() as server:
        (outcome,) = model_of(server).predict([episode(RISING)])
    ((sample,),) = server.batches
    assert sample["frames"].shape == (8, 6, 8, 3) and sample["task"] == INSTRUCTION
    sent = sample["frames"][:, 0, 0, 0] / 255
    assert sent[0] == 0.0 and sent[-1] == 1.0
    assert outcome.details["frames"] == (0, 9, 18, 27, 37, 46, 55, 65)
    assert outcome.details["progress"] == pytest.approx(RISING[list(outcome.details["frames"])], abs=0.003)
    assert outcome.status == "predicted" and outcome.source == "world_model"


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 66, 521])
@pytest.mark.parametrize("most", [2, 8, 16])
def test_kept_frames_rise_hold_both_ends_and_are_evenly_spaced(count: int, most: int) -> None:
    kept = kept_frames(count, most)
    assert len(kept) == min(count, most) and kept[0] == 0 and kept[-1] == count - 1
    gaps = np.diff(kept)
    assert (gaps > 0).all() and (gaps.size == 0 or gaps.max() - gaps.min() <= 1)


def test_score_is_the_mean_of_the_last_three_minus_that_of_the_first_three() -> None:
    progress = [0.2, 0.0, 0.4, 0.1, 0.9, 0.8, 0.6, 1.0]
    success = [0.0] * 7 + [0.4]
    expected = {"potential": 0.8 - 0.2, "final": 1.0, "max": 1.0, "success": 0.4}
    with serving() as server:
        for reducer, score in expected.items():
            (outcome,) = model_of(server, reducer=reducer).predict([episode(progress, success)])
            assert outcome.score == pytest.approx(score, abs=0.003), reducer


def test_many_episodes_of_different_lengths_keep_their_order() -> None:
    finals = np.random.default_rng(0).random(21)
    lengths = [3 + i % 4 for i in range(21)]
    episodes = [episode([0.0] * (n - 1) + [final]) for n, final in zip(lengths, finals, strict=True)]
    with serving() as server:
        model = model_of(server, reducer="final", transport={"batch_size": 4, "concurrency": 3})
        outcomes = model.predict(episodes)
    assert [outcome.score for outcome in outcomes] == pytest.approx(finals, abs=0.003)
    assert server.faults == [], "samples of one request have one shape"
    assert max(map(len, server.batches)) == 4 and len(server.batches) == 8


@pytest.mark.parametrize("given", ["raw", "flip_vertical", "rotate_180"])
@pytest.mark.parametrize("wanted", ["raw", "flip_vertical", "rotate_180"])
def test_server_sees_frames_the_way_it_expects_whatever_way_they_came(given: Any, wanted: Any) -> None:
    raw = marked_frames([0.0, 0.5, 1.0])
    made = {"raw": raw, "flip_vertical": raw[:, ::-1], "rotate_180": raw[:, ::-1, ::-1]}
    assert np.array_equal(turned(made[given], given, wanted), made[wanted])
    submission = Submission("3", {"frames": made[given]}, {"instruction": INSTRUCTION})
    with serving() as server:
        model_of(server, given_orientation=given, orientation=wanted).predict([submission])
    assert np.array_equal(server.batches[0][0]["frames"], made[wanted])


def test_judging_by_prefixes_is_asked_for_in_the_form() -> None:
    with serving() as server:
        model_of(server).predict([episode(RISING)])
        model_of(server, transport={"per_prefix": True}).predict([episode(RISING)])
    assert server.per_prefix == [False, True]


def test_every_outcome_names_the_model_that_judged_it() -> None:
    with serving(model_path="runs/my-robometer") as server:
        outcomes = model_of(server).predict([episode(RISING), episode([0.5] * 8)])
        assert [outcome.details["model"] for outcome in outcomes] == ["runs/my-robometer"] * 2
        assert server.gets == ["/model_info"], "asked once, not once an episode"
    with serving(model_path=None) as silent:
        (outcome,) = model_of(silent).predict([episode(RISING)])
    assert outcome.details["model"] is None and outcome.score is not None


def test_health_is_that_of_the_server() -> None:
    with serving() as server:
        model = model_of(server)
        assert model.health()["total_gpus"] == 1
        server.status = "loading"
        with pytest.raises(WorldModelError, match="not well"):
            model.health()
        server.die()
        with pytest.raises(WorldModelError, match="ConnectionRefused"):
            model.health()


BAD = {
    "no content": Submission("3", "print(1)", {"instruction": "x"}),
    "no frames": Submission("3", {"frames": np.zeros((0, 4, 4, 3), np.uint8)}, {"instruction": "x"}),
    "floats": Submission("3", {"frames": np.zeros((3, 4, 4, 3), np.float32)}, {"instruction": "x"}),
    "grey": Submission("3", {"frames": np.zeros((3, 4, 4), np.uint8)}, {"instruction": "x"}),
    "no instruction": Submission("3", {"frames": np.zeros((3, 4, 4, 3), np.uint8)}),
}


def test_bad_items_have_no_score_and_a_reason_and_the_others_their_own() -> None:
    with serving() as server:
        outcomes = model_of(server).predict([episode(RISING), *BAD.values(), episode([0.0] * 4 + [1.0] * 4)])
    good, bad = [outcomes[0], outcomes[-1]], dict(zip(BAD, outcomes[1:-1], strict=True))
    assert [outcome.score for outcome in good] == pytest.approx([(46 + 55 + 65 - 0 - 9 - 18) / 3 / 65, 1.0], abs=0.003)
    assert all(outcome.score is None and outcome.status == "unknown" for outcome in bad.values())
    assert "str" in bad["no content"].feedback and "no frames" in bad["no frames"].feedback
    assert "float32" in bad["floats"].feedback and "(3, 4, 4)" in bad["grey"].feedback
    assert "instruction" in bad["no instruction"].feedback


def spoiling(**rows: Any) -> Any:
    """Answers with another row for the episode whose instruction says so."""

    def behaviour(handler: Handler, samples: Samples) -> None:
        answer = judged(samples)
        for i, sample in enumerate(samples):
            if sample["task"] in rows:
                answer["outputs_progress"]["progress_pred"][i] = rows[sample["task"]]
        handler.send(answer)

    return behaviour


def test_unusable_answers_leave_one_item_without_a_score() -> None:
    rows = {"nan": [float("nan")] * 8, "null": [0.1, None] * 4, "none": [], "text": ["a"] * 8}
    with serving(spoiling(**rows)) as server:
        outcomes = model_of(server).predict([episode(RISING), *(episode(RISING, instruction=name) for name in rows)])
    assert outcomes[0].score is not None
    assert [outcome.score for outcome in outcomes[1:]] == [None] * 4
    assert "not finite" in outcomes[1].feedback and "no progress" in outcomes[3].feedback


def test_server_that_answers_nan_for_everything_stops_the_run() -> None:
    with serving(spoiling(nan=[float("nan")] * 8)) as server:
        model = model_of(server, max_unscored=5)
        bad, good = episode(RISING, instruction="nan"), episode(RISING)
        for batch in ([bad] * 4, [good], [bad] * 4):
            model.predict(batch)
        with pytest.raises(WorldModelError, match="5 submissions in a row"):
            model.predict([bad])


def failing(times: int, status: int = 500) -> Any:
    left = [times]

    def behaviour(handler: Handler, samples: Samples) -> None:
        left[0] -= 1
        handler.send({"detail": "CUDA out of memory"}, status) if left[0] >= 0 else judge(handler, samples)

    return behaviour


def test_faults_that_pass_are_tried_again_a_bounded_number_of_times() -> None:
    with serving(failing(2)) as server:
        assert model_of(server).predict([episode(RISING)])[0].score is not None
        assert len(server.batches) == 3
    with serving(failing(99)) as server:
        with pytest.raises(WorldModelError, match=r"3 tries.*CUDA out of memory"):
            model_of(server).predict([episode(RISING)])
        assert len(server.batches) == 3


def test_request_that_is_refused_is_not_tried_again() -> None:
    with serving(failing(99, 413)) as server:
        with pytest.raises(WorldModelError, match=r"refused.*413"):
            model_of(server).predict([episode(RISING)] * 2)
        assert len(server.batches) == 1


def test_one_clip_that_the_server_fails_on_does_not_cost_the_others_their_scores() -> None:
    def behaviour(handler: Handler, samples: Samples) -> None:
        # NaN is no JSON to the framework of the real server, so one NaN fails the whole request.
        poisoned = any(sample["task"] == "poison" for sample in samples)
        handler.send(b"Internal Server Error", 500) if poisoned else judge(handler, samples)

    with serving(behaviour) as server:
        outcomes = model_of(server).predict(
            [episode(RISING), episode(RISING, instruction="poison"), episode([0.3] * 8)]
        )
        assert [outcome.score is None for outcome in outcomes] == [False, True, False]
        assert "failed on this clip" in outcomes[1].feedback
    with serving(failing(99)) as server, pytest.raises(WorldModelError, match="3 tries"):
        model_of(server).predict([episode(RISING)] * 3)


def test_server_that_dies_in_mid_run_stops_the_run_and_is_found_again_when_it_is_back() -> None:
    with serving(model_path="first") as server:
        model = model_of(server)
        assert predict_batch(model, [episode(RISING)])[0].details["model"] == "first"
        port = server.port
        server.die()
        with pytest.raises(WorldModelError, match="ConnectionRefused"):
            predict_batch(model, [episode([0.1] * 8)])
    with serving(port=port, model_path="second"):
        assert predict_batch(model, [episode([0.1] * 8)])[0].details["model"] == "second"


def test_server_that_dies_within_an_answer_gives_no_half_answer() -> None:
    def behaviour(handler: Handler, samples: Samples) -> None:
        handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"outputs_progress":')
        handler.wfile.flush()
        handler.connection.close()
        handler.close_connection = True

    with serving(behaviour) as server:
        with pytest.raises(WorldModelError, match=r"IncompleteRead"):
            model_of(server).predict([episode(RISING)] * 2)
        assert len(server.batches) == 3


@pytest.mark.parametrize("dripping", [False, True])
def test_slow_answer_is_a_fault_however_slowly_it_drips(dripping: bool) -> None:
    def behaviour(handler: Handler, samples: Samples) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" if dripping else b"")
        for _ in range(30):
            time.sleep(0.1)
            handler.wfile.write(b" " if dripping else b"")

    with serving(behaviour) as server:
        started = time.perf_counter()
        with pytest.raises(WorldModelError, match=r"TimeoutError"):
            model_of(server, transport={"timeout": 0.4, "retries": 1}).predict([episode(RISING)])
        assert time.perf_counter() - started < 5.0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"<html>busy</html>", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "progress_pred"),
        (b'{"outputs_progress": null}', "progress_pred"),
        (b'{"outputs_progress": {"progress_pred": [[1,1,1,1,1,1,1,1]]}}', "1 answers to 2 clips"),
        (b'{"outputs_progress": {"progress_pred": [[1,1,1,1], [1,1,1,1]]}}', "4 values of progress"),
        (
            b'{"outputs_progress": {"progress_pred": [[1,1,1,1,1,1,1,1],[1,1,1,1,1,1,1,1]]}, '
            b'"outputs_success": {"success_probs": [[1,1,1,1,1,1,1,1]]}}',
            "success_probs has 1 answers",
        ),
    ],
)
def test_answer_that_is_none_stops_the_run(answer: bytes, message: str) -> None:
    behaviour = lambda handler, samples: handler.send(answer)  # noqa: E731
    with serving(behaviour) as server, pytest.raises(WorldModelError, match=message):
        model_of(server).predict([episode(RISING)] * 2)


def test_model_without_a_success_head_scores_by_progress_and_not_by_success() -> None:
    def behaviour(handler: Handler, samples: Samples) -> None:
        handler.send(judged(samples) | {"outputs_success": None})

    with serving(behaviour) as server:
        assert model_of(server).predict([episode(RISING)])[0].score is not None
        (outcome,) = model_of(server, reducer="success").predict([episode(RISING)])
    assert outcome.score is None and "probability of success" in outcome.feedback


def test_it_is_a_world_model_and_an_empty_batch_asks_nobody() -> None:
    with serving() as server:
        model = model_of(server)
        assert isinstance(model, WorldModel) and model.predict([]) == []
        assert server.gets == [] and server.batches == []


@pytest.mark.parametrize(
    ("settings", "transport"),
    [
        ({"reducer": "mean"}, {}),
        ({"frames": 1}, {}),
        ({"window": 0}, {}),
        ({}, {"url": "127.0.0.1:8000"}),
        ({}, {"url": "http://user:secret@host"}),
        ({}, {"timeout": 0.0}),
        ({}, {"batch_size": 0}),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], transport: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as refused:
        RobometerWorldModel(HTTPTransport(**transport), **settings)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("orientation", ["raw", "flip_vertical"])
def test_configuration_tells_it_how_the_environment_turns_its_frames(orientation: str) -> None:
    overrides = [f"++env.orientation={orientation}", "world_model=robometer"]
    arguments = compose_config("train", overrides)["world_model"]
    assert (arguments["given_orientation"], arguments["orientation"]) == (orientation, "flip_vertical")
