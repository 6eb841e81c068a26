"""Transformers that make fewer, more or other dimensions: components, polynomials, selections."""

from __future__ import annotations

import math

from wmrl_gym.scriptcheck import cost
from wmrl_gym.scriptcheck.estimators.features import Features, check_features, features_of
from wmrl_gym.scriptcheck.estimators.fitting import remember
from wmrl_gym.scriptcheck.estimators.transformers import array_like, checked_features
from wmrl_gym.scriptcheck.faults import shape_fault
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.values.estimators import Estimator
from wmrl_gym.scriptcheck.values.objects import Real, constant
from wmrl_gym.scriptcheck.values.scalars import UNKNOWN, Value

MODELS = Models()


@MODELS.transformer(
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
    features = checked_features(call, estimator, data, just_fitted)
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
    return array_like(features, cells, width)


@MODELS.fitter("PCA")
def _fit_pca(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
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


@MODELS.transformer("PolynomialFeatures")
def _polynomial(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = checked_features(call, estimator, data, just_fitted)
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
    return array_like(features, cells, width, sparse=features.sparse)


@MODELS.transformer("SelectKBest", "SelectPercentile", "SelectFromModel", "RFE", "RFECV", "GenericUnivariateSelect")
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
    return array_like(features, cells, width, sparse=features.sparse)


@MODELS.fitter("SelectKBest", "SelectPercentile")
def _fit_selection(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
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


@MODELS.transformer(
    "KBinsDiscretizer",
    "SplineTransformer",
    "Nystroem",
    "RBFSampler",
    "KMeans",
    "MiniBatchKMeans",
    "FeatureAgglomeration",
)
def _other(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = checked_features(call, estimator, data, just_fitted)
    if features is None:
        return UNKNOWN
    parameter = {"KMeans": "n_clusters", "MiniBatchKMeans": "n_clusters"}.get(estimator.cls.__name__, "n_components")
    wanted = constant(estimator.params.get(parameter), None)
    sparse = None if estimator.cls.__name__ == "KBinsDiscretizer" else False
    cells = features.cells.derived(kind="float", negative=None, unique=None)
    return array_like(features, cells, wanted if isinstance(wanted, int) else None, sparse=sparse)
