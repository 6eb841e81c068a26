"""From labelled examples to what is public and what is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.envs.mle_dojo.catalogue.spec import CompetitionSpec, Examples

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Partition:
    """The tables of a competition. Images are keyed by id."""

    train: pd.DataFrame
    test: pd.DataFrame
    answers: pd.DataFrame
    sample: pd.DataFrame
    train_images: dict[int, NDArray[np.uint8]]
    test_images: dict[int, NDArray[np.uint8]]


def _repeated(spec: CompetitionSpec, examples: Examples) -> NDArray[np.bool_]:
    """Which examples have the same features as an earlier one: in both halves they would hand out answers."""
    import pandas as pd

    if examples.images is None:
        return examples.table.drop(columns=spec.target).duplicated().to_numpy()
    return pd.Series([image.tobytes() for image in examples.images]).duplicated().to_numpy()


def _constant_answer(spec: CompetitionSpec, target: pd.Series[Any]) -> Any:
    """What the sample submission repeats: it is a fair baseline, learned from the training rows only."""
    if spec.answer == "probability":
        return 0.5
    if spec.answer == "label":
        return target.value_counts().sort_index().idxmax()
    return round(float(target.mean()), 2)


def partition(spec: CompetitionSpec) -> Partition:
    """Load, drop repetitions, shuffle, cut to size, split and number the examples of a competition.

    Ids are handed out after the shuffle, training rows first, so they carry no information.
    """
    examples = spec.load()
    order = np.random.default_rng(spec.seed).permutation(np.flatnonzero(~_repeated(spec, examples)))[: spec.max_rows]
    if examples.is_test is None:
        n_test = round(len(order) * spec.test_fraction)
        is_test = np.arange(len(order)) >= len(order) - n_test
    else:
        order = order[np.argsort(examples.is_test[order], kind="stable")]
        is_test = examples.is_test[order]
    table = examples.table.iloc[order].reset_index(drop=True)
    table.insert(0, spec.id_column, np.arange(1, len(table) + 1))
    table[spec.target] = table.pop(spec.target)
    train, test = table[~is_test].reset_index(drop=True), table[is_test].reset_index(drop=True)
    answers = test[[spec.id_column, spec.target]]
    sample = answers.assign(**{spec.target: _constant_answer(spec, train[spec.target])})
    pixels = {} if examples.images is None else dict(enumerate(examples.images[order], start=1))
    return Partition(
        train=train,
        test=test.drop(columns=spec.target),
        answers=answers,
        sample=sample,
        train_images={i: pixels[i] for i in train[spec.id_column].tolist() if i in pixels},
        test_images={i: pixels[i] for i in test[spec.id_column].tolist() if i in pixels},
    )
