"""Invented and renamed competitions, so that an agent learns to read names from its prompt instead of knowing them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from wmrl_gym.corpus.generator.facts import TaskFacts

_WORDS_TEXT = (
    "age income price size width height weight length area depth speed score rate count total mean max min "
    "ratio level grade rank year month day hour time date temp pressure wind rain sex race region city state "
    "country zone site room floor door engine fuel brand model color shape type kind class group status plan "
    "visits sales cost tax loan debt credit salary job school degree children spouse health blood heart sugar "
    "bmi dose cell gene protein petal sepal bill island species plant soil water acid sugar sulfur alcohol "
    "carat cut clarity table x y z lat lon dist pixel edge hue value red green blue signal noise mass energy "
    "charge power volt phase angle orbit star planet text title body review comment name phrase sentence word "
    "note summary message question answer tweet headline label outcome result target response quality "
    "survived churn default fraud winner passed is_active has_card amount balance tenure minutes calls spend "
    "clicks views likes shares votes seats party margin turnout turns moves index rating strength density "
    "humidity yield growth decay span duration interval delay distance stops fare "
    "image photo picture file item user person patient passenger car house product customer order event game player "
    "team page document verse line letter digit number code key case row sample record subject station part section "
    "data train test pred prediction value feature column string object array frame forest tree linear random mode"
)
_WORDS = _WORDS_TEXT.split()
_SUFFIXES = (*[""] * 3, *"_a _b _1 _2 _mm _kg _pct _avg _std _id _0 _cm _usd _yr".split())  # noqa: SIM905
_SYLLABLES_TEXT = (
    "ba be bi bo da de di do fa fe ga go ha he in ka ke ki ko la le li lo ma me mi mo na ne ni no or pa pe pi "
    "po qu ra re ri ro sa se si so ta te ti to ur va ve vi vo wa we xi yo za ze zo an en er is ol um th ch st"
)
_SYLLABLES = _SYLLABLES_TEXT.split()


def invent_name(rng: np.random.Generator) -> str:
    """A plausible column name in one of the usual manners: snake_case, CamelCase, an abbreviation, a code."""
    manner = rng.random()
    if manner < 0.4:
        words = [str(word) for word in rng.choice(_WORDS, size=rng.integers(1, 3))]
    elif manner < 0.85:
        words = ["".join(rng.choice(_SYLLABLES, size=rng.integers(2, 5))) for _ in range(rng.integers(1, 3))]
    else:
        letters = list("abcdefghijklmnopqrstuvwxyz0123456789")
        tail = "".join(rng.choice(letters, size=rng.integers(1, 6)))
        return str(rng.choice(letters[:26])) + (tail if rng.random() < 0.6 else tail.upper())
    style = rng.random()
    if style < 0.6:
        return "_".join(words) + str(rng.choice(_SUFFIXES))
    joined = "".join(word.capitalize() for word in words)
    return joined if style < 0.85 else joined.upper()


def invent_names(rng: np.random.Generator, count: int, taken: Sequence[str] = ()) -> list[str]:
    """Distinct names, none of which is taken."""
    names: list[str] = []
    while len(names) < count:
        name = invent_name(rng)
        if name not in names and name not in taken:
            names.append(name)
    return names


def rename(facts: TaskFacts, rng: np.random.Generator) -> TaskFacts:
    """The same competition under new names, with other numbers of columns and rows, and often another metric."""
    target, text = invent_names(rng, 2)
    id_column = _invent_id(rng)
    taken = [target, text, id_column]
    numeric, categorical = _feature_counts(facts, rng)
    names = invent_names(rng, numeric + categorical, taken)
    return dataclasses.replace(
        facts,
        metric=str(rng.choice(_METRICS)) if rng.random() < 0.7 else facts.metric,
        id_column=id_column,
        target=target,
        train_rows=int(rng.integers(150, 1900)),
        test_rows=int(rng.integers(80, 900)),
        numeric=tuple(names[:numeric]),
        categorical=tuple(names[numeric:]),
        text_column=text if facts.text_column else None,
        image_size=_IMAGE_SIZES[rng.integers(len(_IMAGE_SIZES))] if facts.image_size else None,
        image_mode=str(rng.choice(["L", "RGB"], p=[0.7, 0.3])),
        missing=bool(rng.random() < 0.45),
    )


def _invent_id(rng: np.random.Generator) -> str:
    manner = rng.random()
    if manner < 0.25:
        return str(rng.choice(["id", "Id", "ID", "row_id", "index"]))
    word = str(rng.choice(_WORDS)) if rng.random() < 0.6 else invent_name(rng).lower()
    return f"{word}_id" if manner < 0.7 else f"{word.capitalize()}Id"


_METRICS = ("rmse", "mae", "rmsle", "accuracy", "macro_f1", "auc", "log_loss")
_IMAGE_SIZES = ((8, 8), (16, 16), (28, 28), (20, 20), (12, 12), (32, 32))


def _feature_counts(facts: TaskFacts, rng: np.random.Generator) -> tuple[int, int]:
    if facts.modality != "tabular":
        return (int(rng.integers(0, 3)), int(rng.integers(0, 2))) if rng.random() < 0.2 else (0, 0)
    numeric, categorical = int(rng.integers(2, 13)), int(rng.integers(1, 9))
    shape = rng.random()
    if shape < 0.35:
        return numeric, 0
    return (0, max(2, categorical)) if shape < 0.42 else (min(numeric, 9), min(categorical, 6))
