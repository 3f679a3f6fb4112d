"""Thresholds of the labels of a multi-label classifier, each the best for a measure."""

import copy
from typing import Any

import numpy as np
import scipy.sparse

from widemargin.arrays import Matrix, Vector
from widemargin.estimators.label_sets import LabelMatrix, label_matrix
from widemargin.estimators.measuring import best_threshold, measured
from widemargin.estimators.scoring import linear_scores
from widemargin.estimators.validation import (
    check_matrix,
    check_same_length,
    check_weights,
    is_real,
)
from widemargin.risk import Measure

# Scores of so many rows and labels are computed at a time.
_AT_ONCE = 1 << 22


def tuned_labels(
    model: Any,
    X: Matrix,
    y: Vector,
    measure: Measure,
    sample_weight: Vector | None,
    floor: float,
) -> Any:
    """Return a copy of a multi-label classifier whose thresholds are the best on these rows."""
    if not measure.takes_intercept:
        raise ValueError("measure does not depend on a threshold: for labels it has to")
    if not (is_real(floor) and 0.0 <= floor <= 1.0):
        raise ValueError(f"floor must be a number from 0 to 1, not {floor!r}")
    labels = label_matrix(y, model.classes_)
    if labels is None:
        raise ValueError("the model was trained on a matrix of labels, and y is none")
    X = check_matrix(model, X, reset=False)
    check_same_length(X, labels)
    weights = check_weights(sample_weight, X)
    weights = np.ones(labels.n_rows) if weights is None else weights
    coef = model.coef_.tocsr() if scipy.sparse.issparse(model.coef_) else model.coef_
    thresholds = np.empty(len(labels))
    step = max(1, _AT_ONCE // max(1, labels.n_rows))
    for begin in range(0, len(labels), step):
        part = slice(begin, begin + step)
        scores = linear_scores(X, coef[part].T, model.intercept_[part])
        for j, column in enumerate(np.asarray(scores, dtype=np.float64).T, start=begin):
            thresholds[j] = _threshold(labels, j, column, measure, weights, floor)
    tuned = copy.copy(model)
    tuned.intercept_ = model.intercept_ - thresholds
    return tuned


def _threshold(
    labels: LabelMatrix,
    j: int,
    scores: np.ndarray,
    measure: Measure,
    weights: np.ndarray,
    floor: float,
) -> float:
    """Return the threshold of a label; 0, or the largest score, if nothing can be learned."""
    positive = np.zeros(scores.size, dtype=bool)
    positive[labels.positives(j)] = True
    largest = max(0.0, float(scores[weights > 0.0].max()))
    if not weights[positive].any():
        return largest if floor > 0.0 else 0.0
    if not weights[~positive].any():
        return 0.0
    threshold = best_threshold(measure, positive, scores, weights)
    reached = measured(measure, positive, scores - threshold, weights)
    return largest if reached < floor else threshold
