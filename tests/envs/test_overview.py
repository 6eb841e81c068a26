"""The public brief of a competition, and how it is put into words."""

from __future__ import annotations

import io
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from wmrl_gym.core import fingerprint
from wmrl_gym.envs.mle_dojo.competition import Competition, load_competition
from wmrl_gym.envs.mle_dojo.overview_building import OverviewError, build_overview, describe
from wmrl_gym.envs.mle_dojo.overview_text import render_overview
from wmrl_gym.envs.mle_dojo.scanning import scan_public_data
from wmrl_gym.scriptcheck.overview import Overview


@pytest.fixture
def root(data_root: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(data_root, tmp_path / "copy"))


def wine(root: Path) -> Competition:
    return load_competition(root, "wine")


def public(root: Path) -> Path:
    return root / "wine" / "data" / "public"


def overview_with(root: Path, train: pd.DataFrame, test: pd.DataFrame) -> Overview:
    train.to_csv(public(root) / "train.csv", index=False)
    test.to_csv(public(root) / "test.csv", index=False)
    return build_overview(wine(root))


def picture(size: tuple[int, int] = (8, 8), mode: str = "L") -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, "PNG")
    return buffer.getvalue()


def test_compact_overview_has_exactly_the_agreed_shape(data_root: Path) -> None:
    assert render_overview(build_overview(load_competition(data_root, "wine")), "compact").splitlines() == [
        "tabular accuracy max",
        "id wine_id",
        "target cultivar",
        "train 120 test 58",
        "num alcohol malic_acid ash alcalinity_of_ash magnesium total_phenols flavanoids nonflavanoid_phenols "
        "proanthocyanins color_intensity hue od280/od315_of_diluted_wines",
        "cat colour",
        "missing yes",
        "submit wine_id cultivar",
    ]
    assert render_overview(build_overview(load_competition(data_root, "diabetes")), "compact").splitlines() == [
        "tabular rmse min",
        "id id",
        "target progression",
        "train 300 test 142",
        "num age sex bmi bp s1 s2 s3 s4 s5 s6",
        "missing no",
        "submit id progression",
    ]


def test_inventory_tells_dtypes_rows_missing_shares_and_examples(data_root: Path) -> None:
    train = scan_public_data(public(data_root)).file("train.csv")
    assert train is not None
    columns = {column.name: column for column in train.columns}
    assert (train.kind, train.rows, len(train.columns)) == ("table", 120, 16)
    assert [columns[name].dtype for name in ("wine_id", "ash", "colour")] == ["int64", "float64", "str"]
    assert columns["ash"].missing == pytest.approx(1 / 120, abs=1e-3)
    assert columns["colour"].unique == 2 and set(columns["colour"].examples) == {"dark", "pale"}
    assert columns["wine_id"].examples == ("1000", "1001", "1002")


def test_a_large_table_is_sampled_but_its_rows_are_all_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmrl_gym.envs.mle_dojo.scanning.SAMPLE_BYTES", 1000)
    monkeypatch.setattr("wmrl_gym.envs.mle_dojo.scanning.SAMPLE_ROWS", 10)
    table = pd.DataFrame({"text": ["line\nbreak, and comma"] * 700, "late": [None] * 600 + [1.5] * 100})
    table.to_csv(tmp_path / "train.csv", index=False)
    train = scan_public_data(tmp_path).file("train.csv")
    assert train is not None
    assert train.rows == 700
    assert train.columns[1].missing == 1.0  # only the head was looked at


def test_folders_and_archives_tell_their_images(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    for number in range(5):
        (tmp_path / "train" / f"{number}.png").write_bytes(picture())
    (tmp_path / "mixed").mkdir()
    for number, size in enumerate([(4, 4), (6, 4)]):
        (tmp_path / "mixed" / f"{number}.png").write_bytes(picture(size, "RGB"))
    with zipfile.ZipFile(tmp_path / "test.zip", "w") as archive:
        archive.writestr("test/7.png", picture((3, 2), "RGB"))
        archive.writestr("test/8.png", picture((3, 2), "RGB"))
    (tmp_path / "broken.zip").write_bytes(b"no archive")
    inventory = scan_public_data(tmp_path)
    facts = {file.path: (file.kind, file.entries, file.image_size, file.image_mode) for file in inventory.files}
    assert facts == {
        "train": ("folder", 5, (8, 8), "L"),
        "mixed": ("folder", 2, None, "RGB"),
        "test.zip": ("archive", 2, (3, 2), "RGB"),
        "broken.zip": ("archive", None, None, None),
    }


def test_links_out_of_the_public_folder_are_not_followed(root: Path) -> None:
    (public(root) / "peek.csv").symlink_to(root / "wine/data/private/test_answer.csv")
    (public(root) / "around").symlink_to(root / "wine/data/private")
    assert {file.path for file in scan_public_data(public(root)).files} == {
        "description.txt",
        "sample_submission.csv",
        "test.csv",
        "train.csv",
    }


def test_tables_in_folders_are_listed_unless_they_are_many(tmp_path: Path) -> None:
    for name in ("few", "many"):
        (tmp_path / name).mkdir()
    pd.DataFrame({"a": [1]}).to_csv(tmp_path / "few" / "one.csv", index=False)
    for number in range(25):
        pd.DataFrame({"a": [1]}).to_csv(tmp_path / "many" / f"{number}.csv", index=False)
    assert [(file.path, file.kind) for file in scan_public_data(tmp_path).files] == [
        ("few/one.csv", "table"),
        ("many", "folder"),
    ]


def test_images_named_by_id_give_a_pattern(root: Path) -> None:
    for folder in ("train", "test"):
        (public(root) / folder).mkdir()
        (public(root) / folder / "1000.png").write_bytes(picture())
    table = pd.DataFrame({"wine_id": range(1000, 1120), "cultivar": 0})
    overview = overview_with(root, table, table[["wine_id"]])
    assert overview.modality == "image"
    assert "image train/{id}.png test/{id}.png 8x8 L" in render_overview(overview, "compact").splitlines()


def test_an_ending_that_the_ids_carry_themselves_is_not_repeated(root: Path) -> None:
    for folder in ("train", "test"):
        (public(root) / folder).mkdir()
        (public(root) / folder / "a1.jpg").write_bytes(picture(mode="RGB"))
    table = pd.DataFrame({"wine_id": ["a1.jpg"], "cultivar": 0})
    text = render_overview(overview_with(root, table, table[["wine_id"]]), "compact")
    assert "image train/{id} test/{id} 8x8 RGB" in text.splitlines()


def test_long_texts_make_the_modality_text_and_name_the_column(root: Path) -> None:
    words = [f"the {i}th wine tastes of plums and of very old wood indeed" for i in range(60)]
    table = pd.DataFrame({"wine_id": range(60), "colour": "red", "note": words, "price": 1.5, "cultivar": 0})
    overview = overview_with(root, table, table.drop(columns="cultivar"))
    assert (overview.modality, overview.text_column) == ("text", "note")
    lines = render_overview(overview, "compact").splitlines()
    assert "text note" in lines and "cat colour" in lines


def test_the_declared_category_wins_over_the_guess(root: Path) -> None:
    (root / "wine" / "competition.json").write_text('{"category": "text"}')
    assert build_overview(wine(root)).modality == "text"


def test_targets_are_the_columns_that_the_test_table_lacks(root: Path) -> None:
    table = pd.DataFrame({"wine_id": [1, 2], "x": [0.5, 0.7], "cultivar": [0, 1], "vineyard": ["a", "b"]})
    overview = overview_with(root, table, table[["wine_id", "x"]])
    assert overview.target_columns == ("cultivar", "vineyard")
    assert [column.name for column in overview.features] == ["x"]


def test_without_a_test_table_the_targets_are_what_the_submission_asks_for(root: Path) -> None:
    (public(root) / "test.csv").unlink()
    overview = build_overview(wine(root))
    assert overview.target_columns == ("cultivar",)
    assert "train 120 test 58" in render_overview(overview, "compact")


def test_every_missing_part_is_an_error(root: Path) -> None:
    intact = (public(root) / "description.txt").read_text()
    (public(root) / "description.txt").write_text(" \n")
    with pytest.raises(OverviewError, match=r"description\.txt is empty"):
        build_overview(wine(root))
    (public(root) / "description.txt").write_text(intact)
    (public(root) / "sample_submission.csv").write_text("wine_id,cultivar\n")
    with pytest.raises(OverviewError, match="at least one row"):
        build_overview(wine(root))
    (public(root) / "sample_submission.csv").write_text("wine_id\n1\n")
    table = pd.DataFrame({"wine_id": [1], "x": [1.0]})
    with pytest.raises(OverviewError, match="no target column"):
        overview_with(root, table, table)
    for name in ("train.csv", "test.csv"):
        (public(root) / name).unlink()
    with pytest.raises(OverviewError, match="holds no data"):
        build_overview(wine(root))


def test_a_table_that_cannot_be_read_is_named(root: Path) -> None:
    (public(root) / "test.csv").write_bytes(b'a,b\n1,2\n"open')
    with pytest.raises(ValueError, match=r"cannot read the public table .*test\.csv"):
        build_overview(wine(root))


def test_a_long_description_keeps_its_head_and_its_evaluation_section() -> None:
    story = "Once upon a time. " * 400
    text = f"### Description\n{story}\n### Evaluation\nScored by RMSE.\n#### Details\nOn logs.\n### Prizes\nNone.\n"
    cut = describe(text)
    assert len(cut) <= 3600
    assert cut.startswith("### Description\nOnce upon")
    assert "Scored by RMSE.\n#### Details\nOn logs." in cut
    assert "Prizes" not in cut


def test_a_short_description_is_kept_whole_and_a_long_one_without_evaluation_is_cut() -> None:
    assert describe("Short.") == "Short."
    assert describe("x" * 5000) == "x" * 3596 + " ..."


def test_an_overview_fits_its_limit_and_stays_useful(root: Path) -> None:
    wide = pd.DataFrame(np.zeros((3, 300)), columns=[f"a_rather_long_feature_name_{i}" for i in range(300)])
    table = wide.assign(wine_id=[1, 2, 3], cultivar=0)
    overview = overview_with(root, table, table.drop(columns="cultivar"))
    compact = render_overview(overview, "compact")
    assert len(compact) <= 600
    assert compact.endswith("submit wine_id cultivar")
    for limit in (500, 2000, 8000):
        assert len(render_overview(overview, "full", limit)) <= limit
    full = render_overview(overview)
    assert "target columns: cultivar" in full and "58 rows" in full
    assert "242 more columns" in full


def test_names_with_spaces_are_quoted_in_the_compact_overview(root: Path) -> None:
    table = pd.DataFrame({"wine_id": [1, 2], "free sulphur": [0.5, 0.7], "cultivar": [0, 1]})
    text = render_overview(overview_with(root, table, table.drop(columns="cultivar")), "compact")
    assert "num 'free sulphur'" in text.splitlines()


def test_full_overview_tells_everything_an_agent_needs(data_root: Path) -> None:
    full = render_overview(build_overview(load_competition(data_root, "wine")))
    for part in (
        "Submissions are scored by accuracy.",
        "metric: accuracy (higher is better)",
        "target columns: cultivar",
        "train.csv: table, 120 rows x 16 columns",
        "  colour str, 2 distinct, e.g. ",
        "ash float64",
        "missing 0.8%",
        "exactly the columns wine_id, cultivar and 58 rows",
    ):
        assert part in full


def test_an_overview_is_plain_data_that_never_holds_an_answer(root: Path) -> None:
    answers = pd.read_csv(root / "wine/data/private/test_answer.csv").assign(cultivar="canary")
    answers.to_csv(root / "wine/data/private/test_answer.csv", index=False)
    overview = build_overview(wine(root))
    assert fingerprint(overview) == fingerprint(build_overview(wine(root)))
    assert "canary" not in repr(overview)


def test_an_unknown_style_is_refused(data_root: Path) -> None:
    with pytest.raises(ValueError, match="'full' or 'compact'"):
        render_overview(build_overview(load_competition(data_root, "wine")), "brief")  # type: ignore[arg-type]
