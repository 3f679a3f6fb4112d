"""Products of a matrix in memory with one or several columns, without a copy of the matrix."""

from collections.abc import Callable

import numpy as np
import scipy.sparse
from numpy import ndarray as Array

from widemargin import threads
from widemargin.arrays import Matrix, for_kernels
from widemargin.data.memory import csr_arrays
from widemargin.kernels import rows as kernels

# Dense single-precision rows are converted in pieces of about so many numbers, which stay in
# cache. A call of a kernel makes at most so many products, so that Ctrl-C is noticed.
_CONVERTED_AT_ONCE = 1 << 16
_READ_AT_ONCE = 1 << 20


def product(X: Matrix, W: Array) -> Array:
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
    arrays = csr_arrays(X) if scipy.sparse.issparse(X) else (for_kernels(X),)
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
