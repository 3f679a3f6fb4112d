"""Scores of rows, X w + b, for predictions.

Rows in memory are read once: scores that are finite prove all values finite, so that X is searched
for missing values only where some are not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from joblib import effective_n_jobs
from numpy import ndarray as Array
from sklearn.base import BaseEstimator

from widemargin import threads
from widemargin.arrays import Matrix, dense, move_to, on_host
from widemargin.data import Rows
from widemargin.data.memory import csr_arrays
from widemargin.estimators.validation import check_finite_matrix, check_matrix
from widemargin.kernels import rows as kernels

# Dense single-precision rows are converted in pieces of about so many numbers, which stay in
# cache. A call of a kernel makes at most so many products, so that Ctrl-C is noticed.
_CONVERTED_AT_ONCE = 1 << 16
_READ_AT_ONCE = 1 << 20


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
    scores = _scores_in_memory(X, np.asarray(on_host(coef), dtype=np.float64))
    scores += on_host(intercept)
    return scores


def _scores_in_memory(X: Matrix, W: Array) -> Array:
    """Return X W for a dense or CSR matrix, by the threads that are lent."""
    n_rows, n_features = X.shape
    scores = np.empty((n_rows, *W.shape[1:]))
    way = _by_kernel if W.ndim == 1 or scipy.sparse.issparse(X) else _by_blas
    task = way(X, W, scores)
    work = (X.nnz if scipy.sparse.issparse(X) else X.size) * (W.size // n_features)
    threads.run(task, threads.chunks(n_rows, work))
    return scores


def _by_kernel(X: Matrix, W: Array, scores: Array) -> Callable[[int, int], None]:
    """Return a function (begin, end) by which these rows of `scores` receive X W."""
    arrays = csr_arrays(X) if scipy.sparse.issparse(X) else (X,)
    kernel: Callable = kernels.scores
    if W.ndim > 1:
        # Coefficients by features are read in order, but are not worth a copy for few rows.
        few = arrays[0].size < X.shape[1]
        kernel, W = (kernels.scores_by_class, W.T) if few else (kernels.scores_many, W)
    W = np.ascontiguousarray(W)
    step = max(1, _READ_AT_ONCE * max(1, X.shape[0]) // max(1, arrays[0].size * scores[:1].size))

    def task(begin: int, end: int) -> None:
        for low in range(begin, end, step):
            kernel(arrays, W, low, min(low + step, end), scores)

    return task


def _by_blas(X: Array, W: Array, scores: Array) -> Callable[[int, int], None]:
    """As `_by_kernel`, for dense rows and several columns, in double precision."""
    step = max(1, X.shape[0])
    if X.dtype != np.float64:
        step = max(1, _CONVERTED_AT_ONCE // X.shape[1])

    def task(begin: int, end: int) -> None:
        for low in range(begin, end, step):
            part = slice(low, min(low + step, end))
            np.matmul(X[part].astype(np.float64, copy=False), W, out=scores[part])

    return task
