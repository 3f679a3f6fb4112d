"""Probabilities from scores: sigmoids that scikit-learn fits to scores of held-out rows."""

import numpy as np
from scipy.special import expit
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold

from widemargin.estimators.folds import CALIBRATION_FOLDS, fold_weights
from widemargin.estimators.path import CostPath
from widemargin.words import label_in_words


class _Scores(ClassifierMixin, BaseEstimator):
    """A classifier of two classes, False and True, whose rows are its scores already."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.array([False, True])
        return self

    def decision_function(self, X):
        return X[:, 0]

    def predict(self, X):  # scikit-learn asks for it, and never calls it
        raise NotImplementedError


def fit_sigmoids(scores, y, classes, sample_weight=None):
    """Return (a, b) of each score's sigmoid 1 / (1 + exp(a s + b)), shape (m, 2).

    Parameters
    ----------
    scores : ndarray of shape (n, m)
        Of rows that the classifier was not trained on; m is 1 for two classes.
    y : ndarray of shape (n,)
        All classes are among them (`check_held_out`).
    classes : ndarray of shape (k,)
    sample_weight : ndarray of shape (n,) or None
    """
    everything = np.arange(y.size)
    sigmoids = []
    for score, label in zip(scores.T, classes[-scores.shape[1] :], strict=True):
        is_label = y == label
        calibrated = CalibratedClassifierCV(
            _Scores(), cv=[(everything, everything)], ensemble=False
        )
        with config_context(enable_metadata_routing=False):  # it would ask who wants the weights
            calibrated.fit(score[:, None], is_label, sample_weight=sample_weight)
        (whole,) = calibrated.calibrated_classifiers_
        (sigmoid,) = whole.calibrators
        sigmoids.append((sigmoid.a_, sigmoid.b_))
    return np.array(sigmoids)


def check_held_out(y, classes) -> None:
    """Raise ValueError if the rows that scores are calibrated on are not of all classes."""
    missing = np.setdiff1d(classes, y)
    if missing.size:
        raise ValueError(
            "probability=True calibrates scores on held-out rows, and none of them are of class "
            f"{label_in_words(missing[0])}"
        )


def probabilities(scores, sigmoids):
    """Return the probability of each class, (n, k), from scores (n, m)."""
    each = expit(-(scores * sigmoids[:, 0] + sigmoids[:, 1]))
    if each.shape[1] == 1:
        return np.hstack([1.0 - each, each])
    total = each.sum(axis=1, keepdims=True)
    even = np.full_like(each, 1.0 / each.shape[1])
    return np.divide(each, total, out=even, where=total > 0.0)


def calibrate(model, rows, y, weights, folds, states, interruption):
    """Return the sigmoids of a model, from scores by models that have not seen the rows.

    The rows are split into folds, and a model is trained without each, to the gap that the
    model itself has reached, beginning from its solution: that is soon done.

    Parameters
    ----------
    model : fitted LinearSVC
    rows : Rows of shape (n, d)
    y : ndarray of shape (n,)
    weights : ndarray of shape (n,) or None
    folds : list of (train, held_out)
        As `calibration_folds` returns them.
    states : list of State
        Of the model's problems.
    interruption : Interruption
        Of the model's training: if it was interrupted, so is this.

    Returns
    -------
    sigmoids : ndarray of shape (m, 2)
        As `fit_sigmoids` returns them.
    """
    classes, codes = model.classes_, np.searchsorted(model.classes_, y)
    reached = max(part.relative_gap for part in model.certificate_.parts or [model.certificate_])
    path = CostPath(
        clone(model).set_params(tol=max(model.tol, reached)),
        rows,
        classes,
        codes,
        fold_weights(folds, weights, y.size),
        n_costs=1,
    )
    path.interruption = interruption
    path.go_over_to(model.C, [states for _ in folds], path.weights)
    with path, interruption.watching():
        path.advance(model.C)
    scores = np.empty((y.size, model.intercept_.size))
    for which, (_, held_out) in enumerate(folds):
        scores[held_out] = path.scores(which, held_out)
    counted = _counted(y.size, weights)
    weights = None if weights is None else weights[counted]
    return fit_sigmoids(scores[counted], y[counted], classes, weights)


def calibration_folds(codes, classes, weights):
    """Return stratified folds of the rows that have a weight, [(train, held_out)].

    There are as many as the rarest class has rows, if these are few.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        Place of each row's class in `classes`.
    classes : ndarray of shape (k,)
    weights : ndarray of shape (n,) or None

    Raises
    ------
    ValueError
        If a class has a single row, or none.
    """
    counted = _counted(codes.size, weights)
    sizes = np.bincount(codes[counted], minlength=classes.size)
    rarest = int(sizes.min())
    if rarest < 2:
        label = label_in_words(classes[np.argmin(sizes)])
        of_weight = "" if weights is None else " of a weight above zero"
        raise ValueError(
            "probability=True holds rows out to calibrate scores on, and class "
            f"{label} has {'only one' if rarest else 'no'} row{of_weight}"
        )
    splitter = StratifiedKFold(min(CALIBRATION_FOLDS, rarest))
    return [
        (counted[train], counted[held_out])
        for train, held_out in splitter.split(counted, codes[counted])
    ]


def _counted(n_rows, weights):
    return np.arange(n_rows) if weights is None else np.flatnonzero(weights > 0.0)
