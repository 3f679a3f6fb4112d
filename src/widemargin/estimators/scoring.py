"""Scores of rows, X w + b, for predictions.

Rows in memory are read once: scores that are finite prove all values finite, so that X is searched
for missing values only where some are not.
"""

from typing import Any

import numpy as np
import scipy.sparse
from joblib import effective_n_jobs
from numpy import ndarray as Array
from sklearn.base import BaseEstimator

from widemargin import threads
from widemargin.arrays import Matrix, dense, move_to, on_host
from widemargin.data import Rows
from widemargin.data.products import product
from widemargin.estimators.validation import check_finite_matrix, check_matrix


def model_scores(
    model: BaseEstimator, X: Matrix, coef: Matrix, intercept: Any = 0.0, n_jobs: int | None = None
) -> Array:
    """Return X coef + intercept, (n,) or (n, k), on the device of X.

    X is what users pass: ValueError, naming row and column, if `model` can't take it. `coef` is
    (d,) or (d, k), and may be sparse.
    """
    X = check_matrix(model, X, reset=False, finite=False)
    n_threads = 1 if n_jobs is None else effective_n_jobs(n_jobs)
    with threads.lent(n_threads), np.errstate(over="ignore", invalid="ignore"):
        scores = linear_scores(X, coef, intercept)
    if not isinstance(X, Rows) and (scipy.sparse.issparse(coef) or not np.isfinite(scores).all()):
        check_finite_matrix(model, X)
    return scores


@threads.one_for_blas()
def linear_scores(X: Matrix, coef: Matrix, intercept: Any = 0.0) -> Array:
    """Return X coef + intercept, (n,) or (n, k), for X as `check_matrix` returns it."""
    if isinstance(X, Rows):
        scores = X.scores(move_to(dense(coef), X.coef_like))
        return scores + move_to(intercept, X.like)
    if scipy.sparse.issparse(coef):
        return dense(X @ coef) + on_host(intercept)
    scores = product(X, np.asarray(on_host(coef), dtype=np.float64))
    scores += on_host(intercept)
    return scores
