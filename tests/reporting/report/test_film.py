from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageSequence

from tests.runs.records.filmed import INSTRUCTION, TURNS, make_film_run, picture
from tests.runs.records.recorded import ATTACK
from wmrl_gym.reporting.report import browsing, build_page, load_runs
from wmrl_gym.reporting.report.agreement_over_time import status_accuracy
from wmrl_gym.runs.records.film import (
    ANIMATION_FRAMES,
    MAX_ANIMATION_BYTES,
    MAX_STRIP_BYTES,
    animation,
    frames_of,
    save_animation,
    strip,
)
from wmrl_gym.runs.records.trajectories import read_trajectories

from .test_contents import unpacked


@pytest.fixture(scope="module")
def film_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_film_run(tmp_path_factory.mktemp("films"))


def moving(count: int) -> np.ndarray:
    return np.stack([picture(i / max(count - 1, 1)) for i in range(count)])


def square_of(image: Image.Image) -> float:
    """Where the middle of the white square is, as a share of the width."""
    white = np.asarray(image.convert("L")).mean(axis=0)
    columns = np.flatnonzero(white > white.min() + 0.5 * (white.max() - white.min()))
    return float(columns.mean() / (white.size - 1))


def test_animation_shows_the_frames_in_order_up_to_the_last_one() -> None:
    shown = [square_of(frame) for frame in ImageSequence.Iterator(Image.open(io.BytesIO(animation(moving(100)))))]
    assert len(shown) == ANIMATION_FRAMES and shown == sorted(shown)
    assert shown[0] == pytest.approx(8 / 80, abs=0.03) and shown[-1] == pytest.approx(72 / 80, abs=0.03)


def test_strip_shows_eight_frames_side_by_side_from_the_first_to_the_last() -> None:
    whole = Image.open(io.BytesIO(strip(moving(100))))
    width = (whole.width + 2) / 8
    shown = [square_of(whole.crop((round(i * width), 0, round((i + 1) * width) - 2, whole.height))) for i in range(8)]
    assert shown == pytest.approx(np.linspace(8 / 80, 72 / 80, 8), abs=0.04)


@pytest.mark.parametrize("shape", [(1, 64, 64), (2, 1, 1), (3, 7, 900), (521, 16, 16), (66, 224, 224)])
def test_pictures_are_small_whatever_is_in_them(shape: tuple[int, ...]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    still, film = strip(noise), animation(noise)
    assert len(still) <= MAX_STRIP_BYTES and len(film) <= MAX_ANIMATION_BYTES
    for packed in (still, film):
        Image.open(io.BytesIO(packed)).load()


def test_saved_animation_has_every_frame_in_its_own_size_and_colours(tmp_path: Path) -> None:
    path = save_animation(moving(40), tmp_path / "episode.gif", frames_per_second=20)
    with Image.open(path) as film:
        frames = [np.asarray(frame.convert("RGB"), int) for frame in ImageSequence.Iterator(film)]
        assert film.size == (80, 64) and film.info["loop"] == 0
    assert len(frames) == 40
    assert max(np.abs(a - b).max() for a, b in zip(frames, moving(40), strict=True)) <= 4
    with pytest.raises(ValueError, match="float64"):
        save_animation(np.zeros((2, 4, 4, 3)), path)
    with pytest.raises(ValueError, match="frames_per_second"):
        save_animation(moving(2), path, frames_per_second=0)


def test_frames_are_found_by_what_they_are_and_nothing_else_is_taken_for_them() -> None:
    frames = moving(3)
    assert frames_of({"frames": frames, "other": 1}) is frames
    for content in ("frames", None, [frames], {"frames": "x"}, {"frames": frames.astype(float)}, {"frames": frames[0]}):
        assert frames_of(content) is None
    assert frames_of({"frames": frames[:0]}) is None


def test_recorded_episode_has_pictures_an_instruction_and_only_telling_turns(
    film_run: Path,
) -> None:
    recorded = read_trajectories(film_run / "trajectories.jsonl.gz")
    assert len(recorded.trajectories) == 4 * 16
    for trajectory in recorded.trajectories:
        (turn,) = trajectory["turns"]
        assert turn["number"] == TURNS and turn["script"] is None
        assert turn["film"]["frames"] == TURNS + 1 and turn["film"]["instruction"] == INSTRUCTION
        last = turn["predicted"]["details"]["true_progress"]
        film = Image.open(io.BytesIO(base64.b64decode(turn["film"]["animation"])))
        film.seek(film.n_frames - 1)
        assert square_of(film) == pytest.approx((8 + 64 * last) / 80, abs=0.04)
    (opening,) = set(recorded.openings.values())
    assert "image: array of shape (64, 80, 3), uint8" in opening and INSTRUCTION in opening


def test_few_trajectories_of_a_step_are_pictured_and_anchors_first(tmp_path: Path) -> None:
    recorded = read_trajectories(make_film_run(tmp_path, pictured=6) / "trajectories.jsonl.gz").trajectories
    for step in range(4):
        of_step = [t for t in recorded if t["step"] == step]
        pictured = [t for t in of_step if "strip" in t["turns"][0]["film"]]
        assert len(of_step) == 16 and len(pictured) == 6
        assert sum(t["anchor"] for t in pictured) == min(6, sum(t["anchor"] for t in of_step)) > 0
        assert all(t["turns"][0]["film"]["frames"] == TURNS + 1 for t in of_step)


def test_page_holds_pictures_up_to_its_limit_executed_ones_first(film_run: Path, monkeypatch: Any) -> None:
    run = load_runs([film_run])

    def films(payload: Any) -> list[tuple[bool, Any]]:
        return [(bool(t["anchor"] or t["suspicions"]), t["turns"][0]["film"]) for t in payload["trajectories"]]

    whole = films(browsing.browser_payload(run, 100))
    assert all("strip" in film and "animation" in film for _, film in whole)
    total = sum(len(film["strip"]) + len(film["animation"]) for _, film in whole)
    monkeypatch.setattr(browsing, "PICTURE_CHARACTERS", total // 2)
    half = films(browsing.browser_payload(run, 100))
    kept = [telling for telling, film in half if "strip" in film]
    assert sum(len(f["strip"]) + len(f["animation"]) for _, f in half if "strip" in f) <= total // 2
    assert 0 < len(kept) < 64 and sum(kept) == min(len(kept), sum(telling for telling, _ in half))
    assert all(film["leftOut"] for _, film in half if "strip" not in film)
    assert films(browsing.browser_payload(run, 100)) == half, "the same page again"
    assert all("strip" in t["turns"][0]["film"] for t in run[0].recorded.trajectories), "the run itself is as it was"


def test_model_that_foretells_scores_alone_has_no_status_accuracy(film_run: Path) -> None:
    (run,) = load_runs([film_run])
    assert run.pairs and status_accuracy(run) == {}


def test_page_of_films_holds_no_instruction_as_it_is(film_run: Path) -> None:
    page = build_page(load_runs([film_run]))
    assert ATTACK not in page and page.count("<script") == 5
    assert unpacked(page, "trajectories-packed")["trajectories"][0]["turns"][0]["film"]["instruction"] == INSTRUCTION
