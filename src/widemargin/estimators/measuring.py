"""Measures of scores, and the thresholds that are best for a measure."""

import copy
from typing import Any

import numpy as np
from numpy import ndarray as Array
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from widemargin.arrays import on_host
from widemargin.estimators.validation import check_labels, check_same_length, check_weights
from widemargin.fitted import Calibrated, Labelling, Ordering, Search
from widemargin.labels import places_of
from widemargin.risk import Measure, measure_called


def measured(measure: Measure, positive: Array, scores: Array, weights: Array) -> float:
    """Return the measure of scores (n,), whose sign is the prediction, for rows with weights.

    Where rows are accepted by their rank, rows of equal score are accepted in equal parts.
    """
    counted = weights > 0.0
    positive, scores, weights = positive[counted], scores[counted], weights[counted]
    high, low = weights * positive, weights * ~positive
    if high.sum() == 0.0 or low.sum() == 0.0:
        return float("nan")
    if measure.kind == "average_precision":
        from sklearn.metrics import average_precision_score

        return float(average_precision_score(positive, scores, sample_weight=weights))
    if measure.kind == "error":
        return float(weights[(scores > 0.0) == positive].sum() / weights.sum())
    if measure.takes_intercept:
        accepted = scores > 0.0
        return float(measure.value(high[accepted].sum(), low[accepted].sum(), high.sum()))
    found, false = counts_down(positive, scores, weights)[1:]
    if measure.kind == "roc_auc":
        most = max(low[low > 0.0].min(), np.floor(measure.number * low.sum() + 1e-9))
        k = int(np.searchsorted(false, most))  # the curve passes `most` between k - 1 and k
        last = np.interp(most, false[k - 1 : k + 1], found[k - 1 : k + 1])
        x, y = np.append(false[:k], most), np.append(found[:k], last)
        area = np.diff(x) @ (y[:-1] + y[1:]) / 2  # NumPy has trapezoid from version 2 on
        return float(area / (most * high.sum()))
    size = high.sum() if measure.kind == "prbep" else min(measure.number, weights.sum())
    t = np.interp(size, found + false, found)
    return float(measure.value(t, size - t, high.sum()))


def measured_by_group(
    measure: Measure, positive: Array, scores: Array, weights: Array | None, group: Array | None
) -> float:
    """Return the measure of scores (n,), or its mean over the groups with rows of both classes."""
    weights = np.ones(scores.size) if weights is None else weights
    if group is None:
        return measured(measure, positive, scores, weights)
    order = np.argsort(group, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    found = np.array([measured(measure, positive[p], scores[p], weights[p]) for p in parts])
    known = found[~np.isnan(found)]
    return float(known.mean()) if known.size else float("nan")


def counts_down(positive: Array, scores: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Return distinct scores, from infinity down, and weights of rows of each label from there."""
    distinct, place = np.unique(-scores, return_inverse=True)
    sums = [np.bincount(place, weights * label, distinct.size) for label in (positive, ~positive)]
    found, false = (np.concatenate([[0.0], np.cumsum(some)]) for some in sums)
    return np.concatenate([[np.inf], -distinct]), found, false


def best_threshold(
    measure: Measure, positive: Array, scores: Array, weights: Array, size: float | None = None
) -> float:
    """Return the threshold, of all, at which the measure of `scores` > threshold is best.

    It lies in the middle between two scores. Of several, the highest one. If the measure does not
    depend on a threshold, as many rows are accepted as it counts, or as are positive; or `size`.
    """
    counted = weights > 0.0
    distinct, found, false = counts_down(positive[counted], scores[counted], weights[counted])
    if measure.kind == "error":
        values = found - false
    elif measure.takes_intercept:
        values = measure.value(found, false, found[-1])
    else:
        if size is None:
            size = measure.number if measure.kind in ("precision", "recall") else found[-1]
        values = -np.abs(found + false - size)
    best = int(np.argmax(values))
    ends = np.append(distinct, -np.inf)[best : best + 2]
    if np.isinf(ends).any():  # all rows are accepted, or none
        (score,) = ends[np.isfinite(ends)]
        return float(score + (-1.0 if best else 1.0) * 1e-6 * (1.0 + abs(score)))
    middle = 0.5 * ends[0] + 0.5 * ends[1]  # the sum might overflow
    return float(middle if middle < ends[0] else ends[1])


def tune_threshold(
    model: Any,
    X: Any,
    y: ArrayLike,
    measure: str = "f1",
    sample_weight: ArrayLike | None = None,
    floor: float = 0.0,
) -> Any:
    """Return a copy of a classifier whose threshold is the best one on these rows.

    All thresholds are tried, exactly: one between any two neighbouring scores. A model fitted to a
    matrix of labels has a threshold for each label.

    Parameters
    ----------
    model : fitted LinearSVC, LinearSVCCV, MeasureSVC or MeasureSVCCV
        Of two classes, or fitted to a matrix of labels.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Best rows that the model was not trained on.
    y : array-like of shape (n_samples,)
    measure : str, default="f1"
        As in `MeasureSVC`: one that depends on a threshold, or on how many rows are accepted.
    sample_weight : array-like of shape (n_samples,), default=None
    floor : float, default=0.0
        Of a matrix of labels: a label whose best measure is below it is predicted only for scores
        above the largest one of these rows (SCutFBR.1 of Yang, SIGIR 2001). Thresholds of labels
        that no row has stay as they are, unless there is a floor.

    Returns
    -------
    classifier
        Its `intercept_` differs. Its certificate is that of the training, and does not tell of the
        new intercept. Calibrated probabilities stay what they were.
    """
    if not is_classifier(model) or isinstance(model, Ordering):
        raise TypeError(f"{type(model).__name__} is no classifier of two classes with one score")
    check_is_fitted(model, "coef_")
    wanted = measure_called(measure)
    if isinstance(model, Labelling) and model.multilabel_:
        # Imported here: it takes `best_threshold` from this module.
        from widemargin.estimators.label_measuring import tuned_labels

        return tuned_labels(model, X, y, wanted, sample_weight, floor)
    if floor != 0.0:
        raise ValueError("floor is for models that were fitted to a matrix of labels")
    if len(model.classes_) != 2:
        raise ValueError(f"a threshold divides two classes, and the model has {model.classes_}")
    scores = np.asarray(on_host(model.decision_function(X)), dtype=np.float64)
    y = check_labels(y)
    check_same_length(scores[:, None], y)
    weights = check_weights(sample_weight, scores[:, None])
    weights = np.ones(scores.size) if weights is None else weights
    positive = places_of(y, model.classes_) == 1
    if not weights[positive].any() or not weights[~positive].any():
        raise ValueError("y has rows of one class only: there is nothing to tell apart")
    threshold = best_threshold(wanted, positive, scores, weights)
    tuned: Any = _shifted(model, threshold)
    if isinstance(model, Search):  # what is saved of it
        tuned.best_estimator_ = _shifted(tuned.best_estimator_, threshold)
    return tuned


def _shifted(model: Any, threshold: float) -> Any:
    """Return a copy of a classifier whose scores are lower by a threshold."""
    shifted = copy.copy(model)
    shifted.intercept_ = model.intercept_ - threshold
    if isinstance(model, Calibrated):
        shifted.sigmoids_ = model.sigmoids_ + np.outer(model.sigmoids_[:, 0], [0.0, threshold])
    return shifted
