"""What scikit-learn's transformers make of their input."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from wmrl_gym.world_models.static_analysis import cost
from wmrl_gym.world_models.static_analysis.builtin_functions import apply
from wmrl_gym.world_models.static_analysis.calls import Call
from wmrl_gym.world_models.static_analysis.faults import Fault, api_fault, shape_fault
from wmrl_gym.world_models.static_analysis.features import (
    Features,
    check_against_fit,
    check_dimensions,
    features_of,
    target_of,
    text_in,
)
from wmrl_gym.world_models.static_analysis.fitting import (
    FITTERS,
    TRANSFORMERS,
    check_again,
    next_basis,
    remember,
)
from wmrl_gym.world_models.static_analysis.values import (
    UNKNOWN,
    Array,
    Cells,
    Const,
    Estimator,
    Fit,
    Frame,
    Function,
    Items,
    Real,
    Scalar,
    Series,
    Unknown,
    Value,
    constant,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def fitter(*names: str) -> Callable[..., object]:
    """Register how these classes are fitted."""

    def register(model: object) -> object:
        FITTERS.update(dict.fromkeys(names, model))  # type: ignore[arg-type]
        return model

    return register


def transformer(*names: str) -> Callable[..., object]:
    """Register what these classes' ``transform`` returns."""

    def register(model: object) -> object:
        TRANSFORMERS.update(dict.fromkeys(names, model))  # type: ignore[arg-type]
        return model

    return register


def _seen(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Features | None:
    features = features_of(call.interpreter, data)
    if features is not None and not just_fitted:
        check_again(features, estimator)
    return features


def _array(features: Features, cells: Cells, width: int | None, **facts: object) -> Array:
    made = Array(cells, (features.rows, width), sparse=False, origin=features.origin)
    return dataclasses.replace(made, **facts)  # type: ignore[arg-type]


# Scaling


@transformer(
    "StandardScaler",
    "MinMaxScaler",
    "MaxAbsScaler",
    "RobustScaler",
    "Normalizer",
    "PowerTransformer",
    "QuantileTransformer",
)
def _scale(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = _seen(call, estimator, data, just_fitted)
    if features is None:
        return UNKNOWN
    centres = estimator.cls.__name__ == "StandardScaler" and estimator.parameter("with_mean", True)
    if features.sparse and centres:
        raise _cannot_center()
    # A standardised column has values on both sides of zero.
    negative = True if centres else (False if estimator.cls.__name__ == "MinMaxScaler" else None)
    cells = features.cells.derived(kind="float", negative=negative, unique=None, fractional=True).tagged("scaled")
    return _array(features, cells, features.width, sparse=features.sparse, basis=features.basis)


def _cannot_center() -> Fault:
    message = (
        "Cannot center sparse matrices: pass `with_mean=False` instead. See docstring for motivation and alternatives."
    )
    return shape_fault(message, second="TypeError")


@fitter("StandardScaler")
def _fit_scaler(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    from wmrl_gym.world_models.static_analysis.features import check_features

    features = features_of(call.interpreter, data)
    if features is not None:
        check_features(features, estimator.cls)
        if features.sparse and estimator.parameter("with_mean", True):
            raise _cannot_center()
    remember(estimator, features, None)


# Missing values


@fitter("SimpleImputer")
def _fit_imputer(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    features = features_of(call.interpreter, data)
    if features is not None:
        check_dimensions(features, estimator.cls)
        strategy = estimator.parameter("strategy", "mean")
        text = next((c for c in features.columns.values() if text_in(c)), None)
        if text is None and not features.is_frame and text_in(features.cells):
            text = features.cells
        if strategy in ("mean", "median") and text is not None:
            example = text.examples[0] if text.examples else "a"
            message = (
                f"Cannot use {strategy} strategy with non-numeric data:\ncould not convert string to float: '{example}'"
            )
            raise shape_fault(message, second="TypeError")
    remember(estimator, features, None)


@transformer("SimpleImputer", "KNNImputer", "IterativeImputer")
def _impute(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = features_of(call.interpreter, data)
    if features is None:
        return UNKNOWN
    if not just_fitted and estimator.fit is not None:
        check_dimensions(features, estimator.cls)
        check_against_fit(features, estimator.fit, estimator.cls)
    kind = "float" if features.cells.numeric else features.cells.kind
    width = features.width if not estimator.parameter("add_indicator", False) else None
    cells = features.cells.derived(kind=kind, missing=False, unique=None, examples=features.cells.examples).tagged(
        "imputed"
    )
    return _array(features, cells, width, sparse=features.sparse)


# Categories


def _categories(features: Features) -> int | None:
    counts = [c.unique + bool(c.missing) if c.unique is not None else None for c in features.columns.values()]
    if not features.is_frame or not features.complete or None in counts or not counts:
        return None
    return sum(counts)  # type: ignore[arg-type]


@fitter("OneHotEncoder", "OrdinalEncoder", "TargetEncoder")
def _fit_encoder(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    features = features_of(call.interpreter, data)
    if features is not None:
        check_dimensions(features, estimator.cls)
    described = target_of(call.interpreter, target)
    remember(estimator, features, described)
    if features is not None and estimator.fit is not None:
        plain = {"drop", "min_frequency", "max_categories", "categories"} & set(estimator.params)
        estimator.fit.parts["categories"] = None if plain else _categories(features)
        estimator.fit.basis = next_basis()


@transformer("OneHotEncoder")
def _one_hot(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = _encoder_input(call, estimator, data, just_fitted)
    if features is None or estimator.fit is None:
        return UNKNOWN
    width = estimator.fit.parts.get("categories")
    sparse = estimator.parameter("sparse_output", True) is not False
    inputs = estimator.fit.width
    cells = Cells(
        "float",
        False,
        negative=False,
        fractional=False,
        sources=features.cells.sources,
        tags=features.cells.tags | {"onehot"},
    )
    if not sparse and width is not None and features.rows is not None:
        cost.allocate(call, width * features.rows * 8 / 2**20)
    density = inputs / width if inputs and width else None
    return _array(features, cells, width, sparse=sparse, basis=estimator.fit.basis, density=density)


@transformer("OrdinalEncoder", "TargetEncoder")
def _ordinal(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = _encoder_input(call, estimator, data, just_fitted)
    if features is None:
        return UNKNOWN
    missing = features.cells.missing
    if "encoded_missing_value" in estimator.params or estimator.cls.__name__ == "TargetEncoder":
        missing = False
    unknown = constant(estimator.params.get("unknown_value"), 0)
    negative = True if isinstance(unknown, int) and unknown < 0 and not just_fitted else False
    cells = features.cells.derived(
        kind="float", missing=missing, fractional=False, negative=negative and None, unique=None
    )
    return _array(features, cells.tagged("ordinal"), features.width)


def _encoder_input(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Features | None:
    features = features_of(call.interpreter, data)
    if features is None or just_fitted or estimator.fit is None:
        return features
    check_dimensions(features, estimator.cls)
    check_against_fit(dataclasses.replace(features, basis=None), estimator.fit, estimator.cls)
    if estimator.parameter("handle_unknown", "error") == "error" and estimator.cls.__name__ != "TargetEncoder":
        for position, (name, cells) in enumerate(features.columns.items()):
            before = estimator.fit.columns.get(name)
            if before is not None and new_values(before, cells, estimator.fit.rows, features.rows):
                example = cells.examples[0] if cells.examples else "?"
                message = f"Found unknown categories ['{example}'] in column {position} during transform"
                raise shape_fault(message, second="KeyError", confidence=0.8)
    return features


def new_values(before: Cells, now: Cells, rows_before: int | None, rows_now: int | None) -> bool:
    """Whether a column certainly, or as good as certainly, has values that it did not have before."""
    if before.origin == now.origin and before.origin is not None and rows_before == rows_now:
        return False
    if before.unique is None or now.unique is None or before.origin is None or now.origin is None:
        return False
    if now.origin[0] != before.origin[0] and now.unique > before.unique:
        return True
    return rows_before is not None and before.unique > 0.3 * rows_before and now.unique > 5


@fitter("LabelEncoder", "LabelBinarizer")
def _fit_labels(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    described = target_of(call.interpreter, data)
    if described is not None and described.outputs is not None and described.outputs > 1:
        message = f"y should be a 1d array, got an array of shape ({described.rows}, {described.outputs}) instead."
        raise shape_fault(message, second="TypeError")
    remember(estimator, None, described)
    if estimator.fit is not None and described is not None:
        estimator.fit.rows = described.rows


@transformer("LabelEncoder")
def _labels(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    described = target_of(call.interpreter, data)
    if described is None:
        return UNKNOWN
    before = estimator.fit.target if estimator.fit is not None else Cells()
    rows = estimator.fit.rows if estimator.fit is not None else None
    if not just_fitted and new_values(before, described.cells, rows, described.rows):
        example = described.cells.examples[0] if described.cells.examples else "?"
        raise shape_fault(f"y contains previously unseen labels: '{example}'", second="KeyError", confidence=0.8)
    cells = described.cells.derived(kind="int", missing=False, negative=False, fractional=False, unique=before.unique)
    return Array(cells.tagged("ordinal"), (described.rows,), origin=getattr(data, "origin", None))


# Text


@fitter("TfidfVectorizer", "CountVectorizer", "HashingVectorizer")
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


@transformer("TfidfVectorizer", "CountVectorizer", "HashingVectorizer")
def _vectorize(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    documents = _documents(call, data)
    if not just_fitted and documents is not None:
        cost.spend_vectorize(call, estimator, documents.rows, documents.cells)
    basis = estimator.fit.basis if estimator.fit is not None else None
    capped = constant(estimator.params.get("max_features"), None)
    if isinstance(capped, int) and not isinstance(capped, bool):
        basis = -capped  # any two vocabularies that reach the cap have the same size
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


@transformer("TfidfTransformer", "Binarizer", "VarianceThreshold")
def _same_kind(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = _seen(call, estimator, data, just_fitted)
    if features is None:
        return UNKNOWN
    width = None if estimator.cls.__name__ == "VarianceThreshold" else features.width
    cells = features.cells.derived(kind="float", unique=None)
    basis = features.basis if width == features.width else None
    return _array(features, cells, width, sparse=features.sparse, basis=basis)


# Dimensions


@transformer(
    "PCA",
    "TruncatedSVD",
    "NMF",
    "KernelPCA",
    "FastICA",
    "FactorAnalysis",
    "LatentDirichletAllocation",
    "IncrementalPCA",
)
def _decompose(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = _seen(call, estimator, data, just_fitted)
    if features is None:
        return UNKNOWN
    default = {"TruncatedSVD": 2, "LatentDirichletAllocation": 10}.get(estimator.cls.__name__)
    wanted = constant(estimator.params.get("n_components"), default)
    width = wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else None
    if wanted is None and features.width is not None and features.rows is not None and estimator.fit is not None:
        width = min(features.width, estimator.fit.rows or features.width)
    cells = features.cells.derived(kind="float", negative=None, missing=False, unique=None, fractional=True).tagged(
        "reduced"
    )
    if just_fitted and estimator.cls.__name__ == "TruncatedSVD" and width is not None and features.width is not None:
        _require_components(estimator, width, features)
    return _array(features, cells, width)


@fitter("PCA")
def _fit_pca(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    from wmrl_gym.world_models.static_analysis.features import check_features

    features = features_of(call.interpreter, data)
    if features is not None:
        check_features(features, estimator.cls)
        wanted = constant(estimator.params.get("n_components"), None)
        if isinstance(wanted, int) and not isinstance(wanted, bool):
            _require_components(estimator, wanted, features)
        cost.spend_fit(call, estimator, features, None)
    remember(estimator, features, None)


def _require_components(estimator: Estimator, wanted: int, features: Features) -> None:
    if features.width is None or features.rows is None:
        return
    if estimator.cls.__name__ == "TruncatedSVD":
        if wanted > features.width:
            raise shape_fault(f"n_components({wanted}) must be <= n_features({features.width}).")
        return
    most = min(features.rows, features.width)
    if wanted > most:
        solver = "covariance_eigh" if features.rows >= 10 * features.width and features.width <= 1000 else "full"
        message = (
            f"n_components={wanted} must be between 0 and min(n_samples, n_features)={most} with svd_solver='{solver}'"
        )
        raise shape_fault(message, second="InvalidParameterError")


@transformer("PolynomialFeatures")
def _polynomial(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = _seen(call, estimator, data, just_fitted)
    if features is None:
        return UNKNOWN
    degree = estimator.parameter("degree", 2)
    width = None
    if features.width is not None and isinstance(degree, int) and set(estimator.params) <= {"degree", "include_bias"}:
        width = math.comb(features.width + degree, degree) - (estimator.parameter("include_bias", True) is False)
        if features.rows is not None:
            cost.allocate(call, width * features.rows * 8 / 2**20)
    cells = features.cells.derived(kind="float", negative=features.cells.negative and None, unique=None).tagged(
        "polynomial"
    )
    return _array(features, cells, width, sparse=features.sparse)


@transformer("SelectKBest", "SelectPercentile", "SelectFromModel", "RFE", "RFECV", "GenericUnivariateSelect")
def _selected(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = features_of(call.interpreter, data)
    if features is None:
        return UNKNOWN
    width = None
    if estimator.cls.__name__ == "SelectKBest":
        wanted = constant(estimator.params.get("k"), 10)
        if isinstance(wanted, int) and features.width is not None:
            width = min(wanted, features.width)
    cells = features.cells.derived(unique=None).tagged("selected")
    return _array(features, cells, width, sparse=features.sparse)


@fitter("SelectKBest", "SelectPercentile")
def _fit_selection(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    from wmrl_gym.world_models.static_analysis.features import check_features

    features = features_of(call.interpreter, data)
    score = estimator.params.get("score_func")
    if features is not None:
        check_features(features, estimator.cls)
        name = score.name.rpartition(".")[2] if isinstance(score, Real) else "f_classif"
        if features.cells.missing and name in ("f_classif", "f_regression", "chi2"):
            raise shape_fault("Input X contains NaN.", second="TypeError")
        if features.cells.negative and name == "chi2":
            raise shape_fault("Input X must be non-negative.")
    if target is None:
        message = f"This {estimator.cls.__name__} estimator requires y to be passed, but the target y is None."
        raise shape_fault(message, second="TypeError")
    remember(estimator, features, None)


@transformer("FunctionTransformer")
def _function(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    function = estimator.params.get("func")
    if isinstance(function, Function | Real) and data is not None and not isinstance(data, Unknown):
        return apply(call, function, data)
    return data if function is None and data is not None else UNKNOWN


@fitter("FunctionTransformer")
def _fit_function(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    estimator.fit = Fit()


@transformer(
    "KBinsDiscretizer",
    "SplineTransformer",
    "Nystroem",
    "RBFSampler",
    "KMeans",
    "MiniBatchKMeans",
    "FeatureAgglomeration",
)
def _other(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = _seen(call, estimator, data, just_fitted)
    if features is None:
        return UNKNOWN
    parameter = {"KMeans": "n_clusters", "MiniBatchKMeans": "n_clusters"}.get(estimator.cls.__name__, "n_components")
    wanted = constant(estimator.params.get(parameter), None)
    sparse = None if estimator.cls.__name__ == "KBinsDiscretizer" else False
    cells = features.cells.derived(kind="float", negative=None, unique=None)
    return _array(features, cells, wanted if isinstance(wanted, int) else None, sparse=sparse)
