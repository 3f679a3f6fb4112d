"""Calibration: sigmoids, fitted by scikit-learn to the scores of held-out rows."""

from typing import NoReturn, Self

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold

from widemargin.data import Rows
from widemargin.estimators.folds import CALIBRATION_FOLDS, Fold, fold_weights
from widemargin.estimators.path import CostPath
from widemargin.monitor import Interruption
from widemargin.problem import State
from widemargin.words import label_in_words


class _Scores(ClassifierMixin, BaseEstimator):
    """A binary classifier (False, True) whose single feature is the score."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        self.classes_ = np.array([False, True])
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return X[:, 0]

    def predict(self, X: np.ndarray) -> NoReturn:  # required by scikit-learn, but never called
        raise NotImplementedError


def fit_sigmoids(
    scores: np.ndarray, y: np.ndarray, classes: np.ndarray, sample_weight: np.ndarray | None = None
) -> np.ndarray:
    """Return (a, b) of the sigmoid 1 / (1 + exp(a s + b)) of each score, (m, 2).

    `scores` (n, m) are of rows that the classifier was not trained on; m is 1 for two classes.
    Each of `classes` (k,) occurs in `y` (n,); see `check_held_out`.
    """
    all_rows = np.arange(y.size)
    sigmoids = []
    for score, label in zip(scores.T, classes[-scores.shape[1] :], strict=True):
        is_label = y == label
        calibrated = CalibratedClassifierCV(_Scores(), cv=[(all_rows, all_rows)], ensemble=False)
        with config_context(enable_metadata_routing=False):  # routing would have to be requested
            calibrated.fit(score[:, None], is_label, sample_weight=sample_weight)
        (classifier,) = calibrated.calibrated_classifiers_
        (sigmoid,) = classifier.calibrators
        sigmoids.append((sigmoid.a_, sigmoid.b_))
    return np.array(sigmoids)


def check_held_out(y: np.ndarray, classes: np.ndarray) -> None:
    """Raise ValueError if a class has no row among the held-out rows."""
    missing = np.setdiff1d(classes, y)
    if missing.size:
        raise ValueError(
            "probability=True calibrates scores on held-out rows, and none of them are of class "
            f"{label_in_words(missing[0])}"
        )


def calibrate(
    model: BaseEstimator,
    rows: Rows,
    y: np.ndarray,
    weights: np.ndarray | None,
    folds: list[Fold],
    states: list[State],
    interruption: Interruption,
) -> np.ndarray:
    """Return the sigmoids of a model, fitted to out-of-fold scores.

    For each fold, a model is trained on the other folds, to the relative gap that `model` has
    reached. It is warm-started from `states`, the solution of `model`, so this is fast. Nothing is
    trained if `interruption` says that the training of `model` was interrupted.
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
    path.limits.interruption = interruption
    path.go_over_to(model.C, [states for _ in folds], path.weights)
    with path, interruption.watching():
        path.advance(model.C)
    scores = np.empty((y.size, model.intercept_.size))
    for which, (_, held_out) in enumerate(folds):
        scores[held_out] = path.scores(which, held_out)
    counted = _counted(y.size, weights)
    weights = None if weights is None else weights[counted]
    return fit_sigmoids(scores[counted], y[counted], classes, weights)


def calibration_folds(
    codes: np.ndarray, classes: np.ndarray, weights: np.ndarray | None
) -> list[Fold]:
    """Return stratified folds of the rows of positive weight.

    `codes` (n,) are the places of the rows' labels in `classes`. There are fewer folds if the
    rarest class has fewer rows; raises ValueError if it has fewer than two.
    """
    counted = _counted(codes.size, weights)
    sizes = np.bincount(codes[counted], minlength=classes.size)
    rarest = int(sizes.min())
    if rarest < 2:
        label = label_in_words(classes[np.argmin(sizes)])
        of_weight = "" if weights is None else " of positive weight"
        raise ValueError(
            "probability=True calibrates scores by cross-validation, and class "
            f"{label} has {'only one' if rarest else 'no'} row{of_weight}"
        )
    splitter = StratifiedKFold(min(CALIBRATION_FOLDS, rarest))
    return [
        (counted[train], counted[held_out])
        for train, held_out in splitter.split(counted, codes[counted])
    ]


def _counted(n_rows: int, weights: np.ndarray | None) -> np.ndarray:
    return np.arange(n_rows) if weights is None else np.flatnonzero(weights > 0.0)
