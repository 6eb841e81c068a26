"""Vectorizers of text."""

from __future__ import annotations

import dataclasses

from wmrl_gym.scriptcheck import cost
from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.estimators.fitting import next_basis
from wmrl_gym.scriptcheck.faults import api_fault, shape_fault
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.values.data import Array, Frame, Series
from wmrl_gym.scriptcheck.values.estimators import Estimator, Fit
from wmrl_gym.scriptcheck.values.objects import Items, constant
from wmrl_gym.scriptcheck.values.scalars import Const, Scalar, Value

MODELS = Models()


@MODELS.fitter("TfidfVectorizer", "CountVectorizer", "HashingVectorizer")
def _fit_vectorizer(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    documents = _documents(call, data)
    cells = documents.cells if documents is not None else Cells()
    rows = documents.rows if documents is not None else None
    estimator.fit = Fit(rows=rows, features=cells, basis=next_basis())
    cost.spend_vectorize(call, estimator, rows, cells)


def _documents(call: Call, data: Value | None) -> Series | None:
    """The documents that a vectorizer iterates over.

    Raises:
        Fault: for missing text, numbers, or rows of a two-dimensional array.
    """
    if isinstance(data, Frame):
        # Iterating over a frame yields its column names: the "documents" are as many as it has columns.
        return Series(Cells("str", missing=False, sources=frozenset()), data.width, "columns")
    if isinstance(data, Const) and isinstance(data.value, str):
        message = "Iterable over raw text documents expected, string object received."
        raise api_fault(message, "ValueError")
    if isinstance(data, Array):
        if data.shape is not None and len(data.shape) > 1:
            owner = "csr_matrix" if data.sparse else "numpy.ndarray"
            raise shape_fault(f"'{owner}' object has no attribute 'lower'", "AttributeError", second="TypeError")
        data = Series(data.cells, data.rows, None, data.origin)
    if isinstance(data, Items):
        element = call.interpreter.element(data)
        data = Series(element.cells if isinstance(element, Scalar) else Cells(), data.size, None)
    if not isinstance(data, Series):
        return None
    if data.cells.kind == "str" and data.cells.missing:
        message = "np.nan is an invalid document, expected byte or unicode string."
        raise shape_fault(message, second="AttributeError", reason="some texts are missing")
    if data.cells.kind in ("int", "float", "bool"):
        kind = data.cells.kind
        raise shape_fault(f"'{kind}' object has no attribute 'lower'", "AttributeError", second="ValueError")
    return data


@MODELS.transformer("TfidfVectorizer", "CountVectorizer", "HashingVectorizer")
def _vectorize(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    documents = _documents(call, data)
    if not just_fitted and documents is not None:
        cost.spend_vectorize(call, estimator, documents.rows, documents.cells)
    basis = estimator.fit.basis if estimator.fit is not None else None
    capped = constant(estimator.params.get("max_features"), None)
    if isinstance(capped, int) and not isinstance(capped, bool):
        basis = _capped_basis(estimator, documents, capped)
    tags = {"tfidf" if estimator.cls.__name__.startswith("Tfidf") else "counts"}
    if str(estimator.parameter("analyzer", "word")).startswith("char"):
        tags.add("char")
    grams = constant(estimator.params.get("ngram_range"), (1, 1))
    if isinstance(grams, tuple) and len(grams) == 2 and isinstance(grams[1], int) and grams[1] > 1:
        tags.add("ngrams")
    if isinstance(capped, int) and capped <= 500:
        tags.add("small_vocabulary")
    if just_fitted and documents is not None and documents.cells.origin is not None:
        tags.add(f"fitted_on:{documents.cells.origin[0]}")
    cells = Cells("float", False, negative=False, tags=frozenset(tags))
    if documents is not None:
        cells = dataclasses.replace(cells, sources=documents.cells.sources, length=documents.cells.length)
    rows = documents.rows if documents is not None else None
    hashing = estimator.cls.__name__ == "HashingVectorizer"
    if hashing:
        negative = estimator.parameter("alternate_sign", True)
        cells = dataclasses.replace(cells, negative=bool(negative) or False)
        width = constant(estimator.params.get("n_features"), 2**20)
        return Array(cells, (rows, width if isinstance(width, int) else None), sparse=True, density=0.001)
    origin = documents.origin if documents is not None else None
    likely = cost.vocabulary_size(estimator, documents.cells if documents is not None else Cells(), rows)
    return Array(cells, (rows, None), sparse=True, basis=basis, density=0.01, origin=origin, likely_width=likely)


def _capped_basis(estimator: Estimator, documents: Series | None, cap: int) -> int | None:
    """Identity of a vocabulary with an upper limit: all that reach it have the same size, smaller ones do not."""
    cells, rows = (documents.cells, documents.rows) if documents is not None else (Cells(), None)
    words = cost.vocabulary_size(estimator, cells, rows, capped=False)
    if words > 1.5 * cap:
        return -cap
    return estimator.fit.basis if words < 0.67 * cap and estimator.fit is not None else None
