"""Loading prepared folders, and what is said of incomplete ones."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from wmrl_gym.envs.mle_dojo.competition import (
    CompetitionError,
    default_data_root,
    load_competition,
    shared_competition,
)


@pytest.fixture
def root(data_root: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(data_root, tmp_path / "copy"))


def test_a_hand_made_folder_loads_unchanged(data_root: Path) -> None:
    before = {path: path.read_bytes() for path in data_root.rglob("*") if path.is_file()}
    wine = load_competition(data_root, "wine")
    diabetes = load_competition(data_root, "diabetes")
    assert (wine.metric, wine.higher_is_better, len(wine.leaderboards)) == ("accuracy", True, 2)
    assert (diabetes.metric, diabetes.higher_is_better, len(diabetes.leaderboards)) == ("rmse", False, 1)
    assert {path: path.read_bytes() for path in data_root.rglob("*") if path.is_file()} == before


def test_percentile_follows_the_metric_s_direction(data_root: Path) -> None:
    assert load_competition(data_root, "diabetes").percentile(56.0) == 0.5
    assert load_competition(data_root, "wine").percentile(0.99) == 1.0


def test_the_folder_that_mle_dojo_calls_data_dir_may_be_the_competition_itself(root: Path) -> None:
    wine = root / "wine"
    for part in ("public", "private"):
        (wine / "data" / part).rename(wine / part)
    (wine / "data").rmdir()
    assert load_competition(root, "wine").public_dir == wine / "public"


def test_metric_and_leaderboards_are_found_in_a_check_out_of_mle_dojo(root: Path, tmp_path: Path) -> None:
    package = tmp_path / "mledojo" / "competitions" / "wine"
    (package / "info").mkdir(parents=True)
    (root / "wine" / "utils").rename(package / "utils")
    for board in ("private", "public"):
        name = f"{board}_leaderboard.csv"
        (root / "wine" / "data" / "private" / name).rename(package / "info" / name)
    competition = load_competition(root, "wine", competitions_dir=package.parent)
    assert competition.metric == "accuracy"
    assert [len(board.scores) for board in competition.leaderboards] == [20, 20]


def test_a_missing_data_root_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(CompetitionError, match=r"(?s)no data root.*nowhere \(no such folder\).*WMRL_DATA_ROOT"):
        load_competition(tmp_path / "nowhere", "wine")


def test_an_unknown_name_is_answered_with_the_known_ones(data_root: Path) -> None:
    with pytest.raises(CompetitionError, match=r"(?s)no competition 'wien'.*this data root holds: diabetes, wine"):
        load_competition(data_root, "wien")


def test_every_missing_file_is_listed(root: Path) -> None:
    (root / "wine/data/public/description.txt").unlink()
    (root / "wine/data/private/test_answer.csv").unlink()
    with pytest.raises(CompetitionError) as raised:
        load_competition(root, "wine")
    assert "public/description.txt (missing)" in str(raised.value)
    assert "private/test_answer.csv (missing)" in str(raised.value)
    assert "sample_submission" not in str(raised.value)


def test_a_leaderboard_without_scores_is_an_error_unless_raw_scores_will_do(root: Path) -> None:
    for board in ("private", "public"):
        (root / f"wine/data/private/{board}_leaderboard.csv").write_text("rank,score\n")
    with pytest.raises(CompetitionError) as raised:
        load_competition(root, "wine")
    message = str(raised.value)
    assert message.startswith("wmrl: competition 'wine' has no leaderboard scores")
    assert message.count("(found: header 'rank,score', 0 scores)") == 2
    assert "env.score=raw" in message
    assert load_competition(root, "wine", needs_leaderboard=False).leaderboards == ()


def test_a_competition_without_metric_lists_where_it_was_looked_for(root: Path) -> None:
    (root / "wine/utils/metric.py").unlink()
    with pytest.raises(
        CompetitionError, match=r"(?s)has no metric.*wine/utils/metric\.py \(missing\).*wine/metric\.py"
    ):
        load_competition(root, "wine")


def test_a_metric_that_does_not_load_and_a_board_that_is_no_table_are_errors_at_load_time(root: Path) -> None:
    (root / "wine/utils/metric.py").write_text("import no_such_package_anywhere\n")
    with pytest.raises(CompetitionError, match="no_such_package_anywhere"):
        load_competition(root, "wine")
    (root / "diabetes/data/private/private_leaderboard.csv").write_text("rank,score\n1,first\n")
    with pytest.raises(CompetitionError, match="line 2"):
        load_competition(root, "diabetes")


def test_a_competition_travels_to_another_process(data_root: Path) -> None:
    competition = load_competition(data_root, "wine")
    assert competition.metric == "accuracy" and len(competition.answers)
    twin = pickle.loads(pickle.dumps(competition))
    assert twin == competition
    assert twin.metric == "accuracy"


def test_a_competition_is_shared_until_it_is_prepared_anew(root: Path) -> None:
    first = shared_competition(root, "wine")
    assert shared_competition(root, "wine") is first
    (root / "wine/data/private/private_leaderboard.csv").write_text("rank,score\n1,0.5\n")
    again = shared_competition(root, "wine")
    assert again is not first
    assert again.leaderboards[0].scores == (0.5,)


def test_the_default_data_root_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WMRL_DATA_ROOT", str(tmp_path))
    assert default_data_root() == tmp_path
    monkeypatch.delenv("WMRL_DATA_ROOT")
    assert default_data_root() == Path.home() / ".cache" / "wmrl_gym" / "competitions"


@pytest.mark.parametrize(("content", "found"), [("", "No columns"), ("id,cultivar\n", "header 'id,cultivar'")])
def test_a_table_without_rows_is_named(root: Path, content: str, found: str) -> None:
    (root / "wine/data/private/test_answer.csv").write_text(content)
    (root / "wine/data/public/sample_submission.csv").write_text(content)
    competition = load_competition(root, "wine")
    for table, file in (("answers", "test_answer.csv"), ("sample_submission", "sample_submission.csv")):
        with pytest.raises(CompetitionError, match=rf"(?s)'wine' has a table.*{file} .*{found}"):
            getattr(competition, table)
