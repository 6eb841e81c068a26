"""Online debiasing: recast predicted scores so that they agree with the executed ones.

A world model distorts scores (lenient here, harsh there) but mostly keeps their order. A never-decreasing map fitted to
the pairs (predicted, executed) of the anchors undoes any such distortion, keeps the order, and needs no model of the
bias (paper: Online Debiasing).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Form = Literal["centred", "step", "binned"]
FloatArray = NDArray[np.float64]


class IsotonicDebiaser:
    """A never-decreasing map from predicted to executed scores, refitted as pairs arrive.

    Three forms of the same regression:

    - ``"centred"`` interpolates between the centres of isotonic regression's plateaus. The plain fit gives everything
      on a plateau the same score, and a group whose members share a plateau has no advantage to learn from; this form
      is strictly increasing there. From the outer centres it goes straight on to the ends of the observed predictions,
      but never leaves the range of the executed scores.
    - ``"step"`` is scikit-learn's fit as it is: plateaus, and ramps between them.
    - ``"binned"`` is the form of the paper's authors: the mean execution of each of 10 equal bins on [0, 1], made
      monotone with the bin counts as weights, linear between the bins' mean predictions; the identity as long as all
      predictions lie in one bin.

    Every form is constant outside the predictions it was fitted on: there is no evidence out there.

    Args:
        min_pairs: pairs before the first fit; until then the map is the identity.
        refit_every: new pairs between two fits.
        window: newest pairs that are kept; older ones are forgotten, so that the map follows the policy.
        form: see above.

    Attributes:
        n_pairs_: pairs ever accepted.
        n_fits_: fits ever done; 0 means that the map is still the identity.
        knots_x_, knots_y_: the fitted piecewise linear map, each of shape (K,).
    """

    def __init__(self, min_pairs: int = 200, refit_every: int = 64, window: int = 5000, form: Form = "centred") -> None:
        if form not in get_args(Form):
            raise ValueError(f"IsotonicDebiaser.form is {form!r}: choose one of {', '.join(get_args(Form))}")
        if min_pairs < 1 or refit_every < 1:
            raise ValueError(f"min_pairs ({min_pairs}) and refit_every ({refit_every}) must be at least 1")
        if window < min_pairs:
            raise ValueError(
                f"window ({window}) is smaller than min_pairs ({min_pairs}): the map would never be fitted"
            )
        self.min_pairs = min_pairs
        self.refit_every = refit_every
        self.window = window
        self.form: Form = form
        self._forget()

    def _forget(self) -> None:
        self._pairs: deque[tuple[float, float]] = deque(maxlen=self.window)
        self._n_pairs_at_fit = 0
        self.n_pairs_ = 0
        self.n_fits_ = 0
        self.knots_x_: FloatArray = np.empty(0)
        self.knots_y_: FloatArray = np.empty(0)

    def fit(self, predicted: ArrayLike, executed: ArrayLike) -> Self:
        """Forget everything and fit these pairs (with fewer than ``min_pairs``, the identity).

        Raises:
            ValueError: as `update`; what was known before is then kept.
        """
        _checked_pairs(predicted, executed)
        self._forget()
        return self.update(predicted, executed)

    def update(self, predicted: ArrayLike, executed: ArrayLike) -> Self:
        """Add pairs; refit if ``refit_every`` new ones have come since the last fit.

        Args:
            predicted: predicted scores, shape (n,).
            executed: executed scores of the same trajectories, shape (n,).

        Raises:
            ValueError: if a score is unknown (None, NaN, infinite) or the shapes differ. No pair of the call is stored.
        """
        x, y = _checked_pairs(predicted, executed)
        self._pairs.extend(zip(x.tolist(), y.tolist(), strict=True))
        self.n_pairs_ += len(x)
        due = self.n_fits_ == 0 or self.n_pairs_ - self._n_pairs_at_fit >= self.refit_every
        if self.n_pairs_ >= self.min_pairs and due:
            x, y = np.array(self._pairs).T
            self.knots_x_, self.knots_y_ = _KNOTS[self.form](x, y)
            self.n_fits_ += 1
            self._n_pairs_at_fit = self.n_pairs_
        return self

    def predict(self, predicted: ArrayLike) -> FloatArray:
        """Calibrated scores, of the shape of ``predicted``.

        Raises:
            ValueError: if a score is unknown (None, NaN, infinite).
        """
        x = _checked("predicted", predicted)
        return x.copy() if self.n_fits_ == 0 else _interpolate(x, self.knots_x_, self.knots_y_)

    def state_dict(self) -> dict[str, Any]:
        """All that was learned, as plain data that survives JSON."""
        return {
            "pairs": [list(pair) for pair in self._pairs],
            "n_pairs": self.n_pairs_,
            "n_pairs_at_fit": self._n_pairs_at_fit,
            "n_fits": self.n_fits_,
            "knots_x": self.knots_x_.tolist(),
            "knots_y": self.knots_y_.tolist(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; the fitted map itself is restored, not fitted again."""
        pairs = deque(((float(x), float(y)) for x, y in state["pairs"]), maxlen=self.window)
        knots_x, knots_y = np.array(state["knots_x"], float), np.array(state["knots_y"], float)
        n_pairs, n_at_fit, n_fits = int(state["n_pairs"]), int(state["n_pairs_at_fit"]), int(state["n_fits"])
        self._pairs, self.knots_x_, self.knots_y_ = pairs, knots_x, knots_y
        self.n_pairs_, self._n_pairs_at_fit, self.n_fits_ = n_pairs, n_at_fit, n_fits


def _checked(name: str, scores: ArrayLike) -> FloatArray:
    array = np.asarray(scores, dtype=float)
    unknown = np.flatnonzero(~np.isfinite(array))
    if unknown.size:
        raise ValueError(
            f"{name} score at position {unknown[0]} is unknown ({array.reshape(-1)[unknown[0]]}; {unknown.size} of "
            f"{array.size} are): leave unknown scores out, they must not count as numbers"
        )
    return array


def _checked_pairs(predicted: ArrayLike, executed: ArrayLike) -> tuple[FloatArray, FloatArray]:
    x, y = _checked("predicted", predicted), _checked("executed", executed)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"predicted has shape {x.shape}, executed {y.shape}: give two vectors of the same length")
    return x, y


def _interpolate(x: FloatArray, knots_x: FloatArray, knots_y: FloatArray) -> FloatArray:
    """Piecewise linear, constant outside, and never decreasing even by a rounding error (`np.interp` may be)."""
    if len(knots_x) == 1:
        return np.full(x.shape, knots_y[0])
    left = np.clip(np.searchsorted(knots_x, x, side="right") - 1, 0, len(knots_x) - 2)
    x0, x1, y0, y1 = knots_x[left], knots_x[left + 1], knots_y[left], knots_y[left + 1]
    share = np.clip((x - x0) / (x1 - x0), 0.0, 1.0)
    return np.clip(y0 + share * (y1 - y0), y0, y1)


def _isotonic(x: FloatArray, y: FloatArray, weight: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Knots of scikit-learn's fit: the first and the last point of each plateau."""
    from sklearn.isotonic import IsotonicRegression  # here, because it costs most of a second to import

    regression = IsotonicRegression(out_of_bounds="clip").fit(x, y, sample_weight=weight)
    return regression.X_thresholds_, regression.y_thresholds_


def _centred_knots(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """One knot per plateau, at the mean of the predictions on it, and one at either end.

    The centring is Oron & Flournoy's (2017); the ends are ours. An end goes on with the slope of its neighbouring
    segment, stopping at the smallest (largest) executed score: a plateau on which every execution scored the possible
    minimum is a true tie and stays one.
    """
    edges, values = _isotonic(x, y)
    plateau_values, first = np.unique(values, return_index=True)
    # Every prediction lies at or right of the first edge of its own plateau.
    plateau = np.searchsorted(edges[first], x, side="right") - 1
    counts = np.bincount(plateau, minlength=len(first))
    centres = np.bincount(plateau, weights=x, minlength=len(first)) / counts
    if len(centres) == 1:
        return centres, plateau_values
    slopes = np.diff(plateau_values) / np.diff(centres)
    low = max(y.min(), plateau_values[0] - slopes[0] * (centres[0] - x.min()))
    high = min(y.max(), plateau_values[-1] + slopes[-1] * (x.max() - centres[-1]))
    knots_x, knots_y = [*centres], [*plateau_values]
    if x.min() < centres[0]:
        knots_x, knots_y = [x.min(), *knots_x], [min(low, plateau_values[0]), *knots_y]
    if x.max() > centres[-1]:
        knots_x, knots_y = [*knots_x, x.max()], [*knots_y, max(high, plateau_values[-1])]
    return np.array(knots_x), np.array(knots_y)


def _binned_knots(x: FloatArray, y: FloatArray, bins: int = 10) -> tuple[FloatArray, FloatArray]:
    """Means of equal bins on [0, 1], made monotone by their counts, at the mean predictions of the bins.

    At the middles of the bins, a world model that is always right would be recast: its predictions seldom lie there.
    """
    index = np.clip((x * bins).astype(int), 0, bins - 1)
    counts = np.bincount(index, minlength=bins)
    held = counts > 0
    if held.sum() == 1:  # one bin tells a level and no slope
        ends = np.array([min(0.0, x.min()), max(1.0, x.max())])
        return ends, ends.copy()
    predicted, executed = (np.bincount(index, weights=values, minlength=bins)[held] / counts[held] for values in (x, y))
    return _isotonic(predicted, executed, counts[held].astype(float))


_KNOTS = {"centred": _centred_knots, "step": _isotonic, "binned": _binned_knots}
