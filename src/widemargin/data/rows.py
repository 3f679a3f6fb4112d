"""Where rows live: one contract, and the door that picks an implementation of it.

Rows know two products, ``S = X W`` and ``X^T G``; they never know what a score means.
"""

from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np
import scipy.sparse

from widemargin.data.memory import CsrRows, DenseRows, RowsInMemory

_MATRICES = np.ndarray, scipy.sparse.sparray, scipy.sparse.spmatrix


@runtime_checkable
class Rows(Protocol):
    """n rows of d features, wherever they are kept."""

    n_rows: int
    n_features: int
    dtype: np.dtype

    def scores(self, W):
        """Return X @ W in float64: (d,) -> (n,), (d, k) -> (n, k)."""

    def combine(self, G):
        """Return X.T @ G in float64: (n,) -> (d,), (n, k) -> (d, k)."""

    def squared_norms(self):
        """Return |x_i|^2 in float64, (n,)."""

    def take(self, index):
        """Return the rows that `index` (slice, mask or integers) picks."""


def is_rows(X) -> TypeGuard[Rows]:
    """Return whether X keeps the contract; of matrices, without going through it."""
    return not isinstance(X, _MATRICES) and isinstance(X, Rows)


def as_rows(X) -> Rows:
    """Return `X` behind the Rows contract, in place wherever its layout allows.

    Parameters
    ----------
    X : Rows, ndarray or SciPy sparse of shape (n, d)
        float32 and float64 C-ordered arrays and canonical CSR are used as they are;
        anything else is converted once.
    """
    if is_rows(X):
        return X
    if scipy.sparse.issparse(X):
        return CsrRows(X)
    return DenseRows(X)


def home(rows):
    """Return an array that is where scores are, for NumPy's `like=`; None for the host."""
    return getattr(rows, "like", None)


def times_read(rows) -> int:
    """Return how often all rows were read from disk so far: never, where they are in memory."""
    return getattr(rows, "times_read", 0)


def coef_home(rows):
    """Return an array that is where coefficients are, as `home` does.

    That may be the host where rows are not: what is done to few numbers is done there sooner.
    """
    return getattr(rows, "coef_like", None)


def longest_row(rows) -> int:
    """Return how many entries a row has at most."""
    return getattr(rows, "longest_row", rows.n_features)


def row_lengths(rows):
    """Return |x_i|, (n,), as they are computed; not to be written to."""
    return rows.lengths if isinstance(rows, RowsInMemory) else np.sqrt(rows.squared_norms())


def plain(rows):
    """Return the same rows, with products that are sums in float64 and nothing faster."""
    return getattr(rows, "plain", rows)


def combine_error(rows, size) -> float:
    """Return how far `combine(G)` of plain rows may be off, in length, besides rounding.

    `size` is sum_i |G_i|.
    """
    return rows.combine_error(size) if hasattr(rows, "combine_error") else 0.0
