"""Five tiny competitions on disk, for scripts that are analysed and, in the same test, really run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from wmrl_gym.envs.mle_dojo.scanning import scan_public_data
from wmrl_gym.scriptcheck.overview import Modality, Overview, SubmissionContract


@dataclasses.dataclass(frozen=True)
class World:
    """A public data folder and its overview."""

    folder: Path
    overview: Overview


def _write(folder: Path, train: pd.DataFrame, test: pd.DataFrame, identifier: str, target: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    train.to_csv(folder / "train.csv", index=False)
    test.drop(columns=[target]).to_csv(folder / "test.csv", index=False)
    sample = pd.DataFrame({identifier: test[identifier], target: train[target].iloc[0]})
    sample.to_csv(folder / "sample_submission.csv", index=False)


def _world(
    folder: Path, rows: int, identifier: str, target: str, metric: str, higher: bool, modality: Modality
) -> World:
    overview = Overview(
        competition=folder.name,
        description=f"Predict {target}.",
        inventory=scan_public_data(folder),
        target_columns=(target,),
        contract=SubmissionContract((identifier, target), rows, identifier),
        metric=metric,
        higher_is_better=higher,
        modality=modality,
    )
    return World(folder, overview)


def houses(root: Path) -> World:
    """Numbers with gaps, text with gaps, a numeric target; ``owner`` is different in every row."""
    rng, n = np.random.default_rng(0), 180
    area = rng.normal(100, 30, n).round(1)
    frame = pd.DataFrame(
        {
            "id": np.arange(1, n + 1),
            "area": area,
            "rooms": rng.integers(1, 7, n),
            "district": rng.choice(["north", "south", "east", "west"], n),
            "garden": rng.choice(["yes", "no"], n),
            "owner": [f"owner {i:04d}" for i in rng.permutation(n)],
            "balance": rng.normal(0, 5, n).round(2),
            "price": (area * 3 + rng.normal(0, 20, n)).round(2),
        }
    )
    frame.loc[rng.choice(n, 40, replace=False), "area"] = np.nan
    frame.loc[rng.choice(n, 40, replace=False), "garden"] = None
    test = frame.iloc[120:].copy()
    test.loc[test["district"] == "west", "district"] = "north"
    _write(root / "houses", frame.iloc[:120], test, "id", "price")
    return _world(root / "houses", 60, "id", "price", "rmse", False, "tabular")


def flowers(root: Path) -> World:
    """Numbers without gaps, three labels of text."""
    rng, n = np.random.default_rng(1), 150
    label = rng.choice(["daisy", "rose", "tulip"], n)
    frame = pd.DataFrame(
        {
            "flower": np.arange(n) + 500,
            "length": rng.normal(5, 1, n).round(2) + (label == "rose"),
            "width": rng.normal(3, 1, n).round(2) + 2.0 * (label == "tulip"),
            "petals": rng.integers(3, 12, n),
            "kind": label,
        }
    )
    _write(root / "flowers", frame.iloc[:100], frame.iloc[100:], "flower", "kind")
    return _world(root / "flowers", 50, "flower", "kind", "accuracy", True, "tabular")


def churn(root: Path) -> World:
    """Two classes 0 and 1, ranked by probability."""
    rng, n = np.random.default_rng(2), 160
    months, plan = rng.integers(1, 60, n), rng.choice(["basic", "gold"], n)
    frame = pd.DataFrame(
        {
            "customer": np.arange(n) + 9000,
            "months": months,
            "plan": plan,
            "spend": rng.gamma(2.0, 20.0, n).round(2),
            "left": (rng.random(n) < 1 / (1 + np.exp((months - 20) / 10))).astype(int),
        }
    )
    _write(root / "churn", frame.iloc[:110], frame.iloc[110:], "customer", "left")
    return _world(root / "churn", 50, "customer", "left", "auc", True, "tabular")


def reviews(root: Path) -> World:
    """Texts; ``title`` is sometimes missing."""
    rng, n = np.random.default_rng(3), 140
    words = np.array(
        [
            "good",
            "bad",
            "fine",
            "awful",
            "lovely",
            "dull",
            "bright",
            "slow",
            "quick",
            "book",
            "film",
            "plot",
            "actor",
            "story",
            "ending",
        ]
    )
    texts = [" ".join(rng.choice(words, 8)) for _ in range(n)]
    frame = pd.DataFrame(
        {
            "review_id": np.arange(n) + 1,
            "text": texts,
            "title": [None if rng.random() < 0.3 else " ".join(rng.choice(words, 2)) for _ in range(n)],
            "positive": [int(text.count("good") + text.count("lovely") >= 1) for text in texts],
        }
    )
    _write(root / "reviews", frame.iloc[:100], frame.iloc[100:], "review_id", "positive")
    return _world(root / "reviews", 40, "review_id", "positive", "accuracy", True, "text")


def digits(root: Path) -> World:
    """Grey images of 6 by 6 pixels."""
    rng, n = np.random.default_rng(4), 60
    label = rng.integers(0, 3, n)
    frame = pd.DataFrame({"image_id": np.arange(n) + 1, "digit": label})
    folder = root / "digits"
    for part, rows in (("train", frame.iloc[:40]), ("test", frame.iloc[40:])):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for name, value in zip(rows["image_id"], rows["digit"], strict=True):
            pixels = rng.integers(0, 60, (6, 6)) + 60 * value
            Image.fromarray(pixels.astype("uint8"), mode="L").save(folder / part / f"{name}.png")
    _write(folder, frame.iloc[:40], frame.iloc[40:], "image_id", "digit")
    return _world(folder, 20, "image_id", "digit", "accuracy", True, "image")


MAKERS = {"houses": houses, "flowers": flowers, "churn": churn, "reviews": reviews, "digits": digits}
