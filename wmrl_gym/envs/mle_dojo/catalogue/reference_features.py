"""Features of the reference solutions: what a competitor may make of tables, texts and images.

Every function returns a scikit-learn transformer that takes the public table without id and target (or, for images, an
array of pixels) and can be put in front of an estimator.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
    TargetEncoder,
)

FEW_LEVELS = 50


def table_features(name: str, train: pd.DataFrame, target_type: str) -> Any:
    """Features of a table.

    Args:
        name: "first", "few", "numeric", "scaled", "squares", "components", "onehot", "ordinal", "all_levels",
            "target_means" or "engineered".
        train: training features, from which the columns' types and numbers of levels are read.
        target_type: scikit-learn's word for the target: "continuous", "binary" or "multiclass".

    Raises:
        KeyError: if there is none of that name.
    """
    numbers = train.select_dtypes("number").columns.tolist()
    words = [column for column in train.columns if column not in numbers]
    few_levels = [column for column in words if train[column].nunique() <= FEW_LEVELS]
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1)
    levels = OneHotEncoder(handle_unknown="ignore", min_frequency=2)
    gaps, scaled = SimpleImputer(), make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    simple: Any = (gaps, numbers) if numbers else (codes, words[:8])
    first: Any = (gaps, numbers[:1]) if numbers else (codes, words[:1])
    few: Any = (gaps, numbers[:3]) if numbers else (codes, words[:3])
    makers = {
        "first": lambda: make_column_transformer(first),
        "few": lambda: make_column_transformer(few),
        "numeric": lambda: make_column_transformer(simple),
        "scaled": lambda: make_pipeline(make_column_transformer(simple), StandardScaler()),
        "squares": lambda: make_pipeline(
            make_column_transformer((scaled, numbers), (levels, few_levels)),
            _dense(),
            PolynomialFeatures(2, interaction_only=len(numbers) > 12),
        ),
        "components": lambda: make_pipeline(make_column_transformer(simple), StandardScaler(), PCA(3)),
        "onehot": lambda: make_pipeline(make_column_transformer((scaled, numbers), (levels, few_levels)), _dense()),
        "ordinal": lambda: make_column_transformer((gaps, numbers), (codes, words)),
        "all_levels": lambda: make_pipeline(make_column_transformer((scaled, numbers), (levels, words)), _dense()),
        "target_means": lambda: make_column_transformer(
            (scaled, numbers), (TargetEncoder(target_type=target_type, random_state=0), words)
        ),
        "engineered": lambda: make_pipeline(FunctionTransformer(_expand_words), _expanded_columns(train), _dense()),
    }
    return makers[name]()


def _expanded_columns(train: pd.DataFrame) -> Any:
    expanded = _expand_words(train)
    numbers = expanded.select_dtypes("number").columns.tolist()
    words = [column for column in expanded.columns if column not in numbers and expanded[column].nunique() <= 250]
    return make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore", min_frequency=3), words),
    )


def _expand_words(table: pd.DataFrame) -> pd.DataFrame:
    """Add what hides in words: a date's season, a title in a name, a deck in a cabin, sums of counts."""
    parts = table.copy()
    for column in table.columns.difference(table.select_dtypes("number").columns):
        text = table[column].astype(str)
        if text.str.match(r"\d{4}-\d{2}-\d{2}$").all():
            day = pd.to_datetime(text).dt.dayofyear
            parts[f"{column}_sin"], parts[f"{column}_cos"] = np.sin(day / 58.1), np.cos(day / 58.1)
            parts[f"{column}_year"] = text.str[:4].astype(int)
        elif text.str.len().mean() > 2 and text.nunique() > FEW_LEVELS:
            parts[f"{column}_length"] = text.str.len()
            parts[f"{column}_initial"] = text.str[0]
            parts[f"{column}_first_word"] = text.str.split().str[0]
            parts[f"{column}_title"] = text.str.extract(r"([A-Za-z]+)\.", expand=False).fillna("none")
    return parts


def text_features(name: str) -> Any:
    """Features of one column of texts.

    Args:
        name: "length", "words", "words_sublinear", "word_counts", "word_pairs", "few_words", "letters", "pieces",
            "pieces_long", "pieces_counts", "pieces_and_words", "topics" or "piece_topics".

    Raises:
        KeyError: if there is none of that name.
    """
    makers = {
        "length": lambda: FunctionTransformer(_text_shape),
        "words": lambda: TfidfVectorizer(),
        "words_sublinear": lambda: TfidfVectorizer(sublinear_tf=True, token_pattern=r"(?u)\b\w+\b"),
        "word_counts": lambda: CountVectorizer(),
        "word_pairs": lambda: TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b"),
        "few_words": lambda: TfidfVectorizer(max_features=100),
        "letters": lambda: TfidfVectorizer(analyzer="char", ngram_range=(1, 1)),
        "pieces": lambda: TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)),
        "pieces_long": lambda: TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 5), sublinear_tf=True, min_df=2),
        "pieces_counts": lambda: CountVectorizer(analyzer="char_wb", ngram_range=(1, 3), binary=True),
        "pieces_and_words": lambda: make_union(
            TfidfVectorizer(sublinear_tf=True, token_pattern=r"(?u)\b\w+\b"),
            TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True),
        ),
        "topics": lambda: make_pipeline(TfidfVectorizer(), TruncatedSVD(30, random_state=0)),
        "piece_topics": lambda: make_pipeline(
            TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 4), min_df=2), TruncatedSVD(60, random_state=0)
        ),
    }
    return makers[name]()


def _text_shape(texts: Any) -> NDArray[np.float64]:
    """Characters, words, mean word length and share of vowels, shape (n, 4)."""
    characters = texts.str.len()
    words = texts.str.split().str.len().clip(lower=1)
    return np.c_[characters, words, characters / words, texts.str.lower().str.count("[aeiou]") / characters]


def image_features(name: str, size: int) -> Any:
    """Features of images, pixels given as shape (n, height, width) or (n, height, width, 3).

    Args:
        name: "brightness", "statistics", "pixels", "scaled_pixels", "coarse", "coarsest", "components", "edges",
            "edges_and_statistics", "histogram" or "everything".
        size: height and width of the images, in pixels.

    Raises:
        KeyError: if there is none of that name.
    """
    makers = {
        "brightness": lambda: FunctionTransformer(lambda x: _grey(x).mean((1, 2))[:, None] / 255),
        "statistics": lambda: FunctionTransformer(_statistics),
        "pixels": lambda: FunctionTransformer(_flat),
        "scaled_pixels": lambda: make_pipeline(FunctionTransformer(_flat), StandardScaler()),
        "coarse": lambda: FunctionTransformer(lambda x: _coarse(x, max(size // 4, 2))),
        "coarsest": lambda: FunctionTransformer(lambda x: _coarse(x, 2)),
        "components": lambda: make_pipeline(FunctionTransformer(_flat), PCA(40, random_state=0)),
        "edges": lambda: FunctionTransformer(_edges),
        "edges_and_statistics": lambda: make_pipeline(
            FunctionTransformer(lambda x: np.c_[_edges(x), _statistics(x)]), StandardScaler()
        ),
        "histogram": lambda: FunctionTransformer(_histogram),
        "everything": lambda: make_pipeline(
            FunctionTransformer(lambda x: np.c_[_edges(x), _statistics(x), _histogram(x), _coarse(x, size // 4)]),
            StandardScaler(),
        ),
    }
    return makers[name]()


def _dense() -> Any:
    return FunctionTransformer(lambda x: x.toarray() if hasattr(x, "toarray") else x)


def _flat(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    return images.reshape(len(images), -1) / 255.0


def _grey(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    return images.mean(-1) if images.ndim == 4 else images.astype(float)


def _statistics(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Mean, spread and quantiles of every channel."""
    pixels = images.reshape(len(images), -1, images.shape[3] if images.ndim == 4 else 1) / 255.0
    quantiles = np.quantile(pixels, [0.05, 0.25, 0.5, 0.75, 0.95], axis=1)
    return np.concatenate([pixels.mean(1), pixels.std(1), *quantiles], axis=1)


def _histogram(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Share of pixels in eight brightness bins, per channel."""
    pixels = images.reshape(len(images), -1, images.shape[3] if images.ndim == 4 else 1)
    return np.concatenate([(pixels // 32 == level).mean(1) for level in range(8)], axis=1)


def _coarse(images: NDArray[np.uint8], cells: int) -> NDArray[np.float64]:
    """Mean of each channel in a grid of cells x cells; a remainder at the border is cut off."""
    step = images.shape[1] // cells
    cut = images[:, : step * cells, : step * cells].reshape(len(images), cells, step, cells, step, -1)
    return cut.mean((2, 4)).reshape(len(images), -1) / 255.0


def _edges(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Histograms of gradient directions weighted by strength, in a 3x3 grid, the idea of Dalal and Triggs (2005)."""
    down, right = np.gradient(_grey(images) / 255.0, axis=(1, 2))
    strength = np.hypot(down, right)
    direction = (np.arctan2(down, right) % np.pi / np.pi * 8).astype(int).clip(0, 7)
    borders = np.linspace(0, images.shape[1], 4).astype(int)
    cells = [
        (strength * (direction == bin_))[:, top:bottom, left:right_].sum((1, 2))
        for top, bottom in pairwise(borders)
        for left, right_ in pairwise(borders)
        for bin_ in range(8)
    ]
    histogram = np.stack(cells, axis=1)
    return np.c_[histogram / (np.linalg.norm(histogram, axis=1, keepdims=True) + 0.1), histogram.sum(1)]
