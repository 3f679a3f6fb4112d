"""Rows in memory: dense arrays and CSR matrices, used without a copy."""

from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse
from numpy import ndarray as Array
from scipy.linalg.blas import dsyrk

from widemargin import threads
from widemargin.arrays import for_kernels
from widemargin.data.rows import Index, LeverageRows, PreciseRows, Rows, SingleRows
from widemargin.kernels import precise
from widemargin.kernels import rows as kernels

# A Gram matrix is computed from blocks of rows, scaled and copied in double precision. A block has
# about so many numbers, and stays in cache.
_MOMENTS_PIECE = 1 << 17
#: the largest number of features of a SciPy matrix with int32 indices
MOST_FEATURES = 2**31 - 1
# For a Gram matrix, CSR rows are copied to dense blocks if more than this fraction of their
# entries is stored. A sparse product takes about fifteen times as long for each pair of entries.
_DENSE_ENOUGH = 0.25
# Threads wait for the first one to make columns: two copies would be too many.
_MAKING_COLUMNS = Lock()
# A column is far from zero if its distance is more than so many times its range of values.
_FAR = 1e3


def as_rows(X: Any) -> Rows:
    """Return `X` as Rows, without a copy if its layout allows.

    Parameters
    ----------
    X : Rows, ndarray or SciPy sparse of shape (n, d)
        C-ordered arrays and canonical CSR matrices of float32 or float64 are not copied. Anything
        else is converted once.
    """
    if isinstance(X, Rows):
        return X
    if scipy.sparse.issparse(X):
        return CsrRows(X)
    return DenseRows(X)


class RowsInMemory(SingleRows, LeverageRows, PreciseRows):
    """The common part of dense and CSR rows.

    Attributes
    ----------
    matrix : ndarray or SciPy CSR of shape (n, d)
    """

    matrix: Any
    little_work = 1 << 18
    _moments: Callable[[Array, Array, Array], tuple[Array, Array]]
    _copy_scaled: Callable[[Array, Array, Array, Array], None]
    #: whether kernels take W (d, k) transposed, as a C-ordered (k, d) array
    transposes: bool

    def scores(self, W: Array) -> Array:
        W = np.asarray(W, dtype=np.float64)
        S = np.empty((self.n_rows, *W.shape[1:]), order="F")
        kernel = kernels.scores if W.ndim == 1 else kernels.scores_many
        W = np.ascontiguousarray(W.T if self.transposes else W)

        def chunk(begin: int, end: int) -> None:
            for low, high in self.ranges(begin, end):
                kernel(self.arrays, W, low, high, S)

        threads.run(chunk, threads.chunks(self.n_rows, self.n_entries))
        return S

    def combine(self, G: Array) -> Array:
        G = np.asfortranarray(G, dtype=np.float64)
        kernel = kernels.combine if G.ndim == 1 else kernels.combine_many
        shape = (self.n_features, *G.shape[1:])

        def chunk(begin: int, end: int) -> Array:
            W = np.zeros(shape[::-1] if self.transposes else shape)
            for low, high in self.ranges(begin, end):
                kernel(self.arrays, G, low, high, W)
            return W

        parts = threads.run(chunk, threads.chunks(self.n_rows, self.n_entries))
        W = sum(parts[1:], start=parts[0])
        return np.ascontiguousarray(W.T) if self.transposes else W

    def moments(self, index: Array, weight: Array, center: Array) -> tuple[Array, Array]:
        def chunk(begin: int, end: int) -> tuple[Array, Array]:
            return self._moments(index[begin:end], weight[begin:end], center)

        per_row = self.n_entries // max(1, self.n_rows)
        chunks = threads.chunks(index.size, index.size * per_row * per_row)
        parts = threads.run(chunk, chunks)
        second, first = parts[0]
        for other in parts[1:]:
            second += other[0]
            first += other[1]
        return second, first

    def _dense_moments(self, index: Array, weight: Array, center: Array) -> tuple[Array, Array]:
        """Return `moments`, computed by products of dense blocks that stay in cache."""
        d = self.n_features
        second, first = np.zeros((d, d), order="F"), np.zeros(d)
        step = max(32, _MOMENTS_PIECE // max(1, d))
        room = np.empty((min(step, index.size), d))
        for begin in range(0, index.size, step):
            part = slice(begin, begin + step)
            root = np.sqrt(weight[part])
            piece = room[: root.size]
            self._copy_scaled(index[part], root, center, piece)
            first += root @ piece
            second = dsyrk(1.0, piece.T, beta=1.0, c=second, lower=1, overwrite_c=1)
        return second, first

    def combine_squares(self, g: Array) -> Array:
        total = np.zeros(self.n_features)
        for begin, end in self.ranges(0, self.n_rows):
            kernels.combine_squares(self.arrays, g, begin, end, total)
        return total

    def score_squares(self, v: Array, begin: int = 0, end: int | None = None) -> Array:
        end = self.n_rows if end is None else end
        out = np.empty(end - begin)
        for low, high in self.ranges(begin, end):
            kernels.score_squares(self.arrays, v, low, high, out[low - begin : high - begin])
        return out

    def precise_scores(self, index: Array, w: Array, offset: float) -> tuple[Array, Array, Array]:
        high, low, sizes = np.empty((3, index.size))
        w, offset = np.ascontiguousarray(w), float(offset)
        for begin in range(0, index.size, self.rows_per_call):
            part = slice(begin, begin + self.rows_per_call)
            found = high[part], low[part], sizes[part]
            precise.scores(self.arrays, index[part], w, offset, *found)
        return high, low, sizes

    def combine_sizes(self, g: Array) -> Array:
        total = np.zeros(self.n_features)
        for begin, end in self.ranges(0, self.n_rows):
            precise.combine_sizes(self.arrays, g, begin, end, total)
        return total

    def squared_norms(self) -> Array:
        return self._squared_norms

    @cached_property
    def lengths(self) -> Array:
        """|x_i| in float64, (n,)."""
        lengths = np.sqrt(self._squared_norms)
        lengths.flags.writeable = False  # all callers share the array
        return lengths

    @cached_property
    def _squared_norms(self) -> Array:
        norms = np.empty(self.n_rows)
        for begin, end in self.ranges(0, self.n_rows):
            kernels.squared_norms(self.arrays, begin, end, norms)
        norms.flags.writeable = False  # all callers share the array
        return norms


class DenseRows(RowsInMemory):
    """A dense (n, d) array, C-ordered float32 or float64."""

    transposes = True

    def __init__(self, X: Any) -> None:
        X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, it has {X.ndim}")
        dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
        self.matrix = np.ascontiguousarray(X, dtype=dtype)
        self.arrays = (for_kernels(self.matrix),)
        self.n_rows, self.n_features = self.matrix.shape
        self.dtype = self.matrix.dtype

    def take(self, index: Index) -> "DenseRows":
        if isinstance(index, np.ndarray) and index.dtype.kind in "iu":
            return DenseRows(self.matrix.take(index, axis=0))  # twice as fast
        return DenseRows(self.matrix[index])

    def near_origin(self) -> "DenseRows":
        """Return rows in which the columns that are far from zero are centred at zero.

        The shifts are exact. By Sterbenz's lemma, the difference of two numbers is not rounded if
        neither is more than twice the other. If no column is far from zero, return these rows.
        """
        if self.n_rows == 0:
            return self
        low, high = self.matrix.min(axis=0), self.matrix.max(axis=0)
        low, high = low.astype(np.float64), high.astype(np.float64)
        width = high - low
        far = np.minimum(np.abs(low), np.abs(high)) > _FAR * width
        if not far.any():
            return self
        return DenseRows(self.matrix - np.where(far, low + 0.5 * width, 0.0))

    def _copy_scaled(self, index: Array, factor: Array, center: Array, out: Array) -> None:
        kernels.copy_scaled(self.arrays[0], index, factor, center, out)

    _moments = RowsInMemory._dense_moments


class CsrRows(RowsInMemory):
    """A SciPy sparse matrix in canonical CSR form, float32 or float64."""

    transposes = False

    def __init__(self, X: Any) -> None:
        X = X.tocsr()
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        _check_indices(X)
        if not X.has_canonical_format:
            # With duplicate entries, |x_i|^2 would be wrong. Summing them also sorts the entries.
            X = X.copy()
            X.sum_duplicates()
        self.matrix = X
        self.arrays = _arrays(X)
        self.n_rows, self.n_features = X.shape
        self.dtype = X.dtype

    @cached_property
    def longest_row(self) -> int:
        """The largest number of entries in a row."""
        return int(np.diff(self.matrix.indptr).max(initial=0))

    @property
    def columns(self) -> tuple[Array, Array, Array]:
        """The matrix by columns, as kernels take rows: a copy, made once, as large as the rows."""
        with _MAKING_COLUMNS:
            return self._columns

    @cached_property
    def _columns(self) -> tuple[Array, Array, Array]:
        return _arrays(self.matrix.tocsc())

    def take(self, index: Index) -> "CsrRows":
        matrix = self.matrix[index]
        matrix.has_canonical_format = True  # as in self.matrix; SciPy need not check
        return CsrRows(matrix)

    def _copy_scaled(self, index: Array, factor: Array, center: Array, out: Array) -> None:
        kernels.copy_scaled_csr(self.arrays, index, factor, center, out)

    def _moments(self, index: Array, weight: Array, center: Array) -> tuple[Array, Array]:
        d = self.n_features
        if self.n_entries > _DENSE_ENOUGH * self.n_rows * d:
            return self._dense_moments(index, weight, center)
        second, first = np.zeros((d, d), order="F"), np.zeros(d)
        kernels.add_gram_csr(self.arrays, index, weight, second.T)
        spread = np.zeros(self.n_rows)
        spread[index] = weight
        for low, high in self.ranges(index[0], index[-1] + 1):
            kernels.combine(self.arrays, spread, low, high, first)
        if center.any():
            first -= 0.5 * weight.sum() * center
            cross = np.outer(first, center)
            second -= cross + cross.T
            first -= 0.5 * weight.sum() * center
        return second, first


def csr_in_place(
    values: Array, indices: Array, indptr: Array, n_features: int
) -> scipy.sparse.csr_matrix:
    """Return a CSR matrix of arrays whose indices increase along rows, without copies.

    There are at most `MOST_FEATURES` features.
    """
    X = scipy.sparse.csr_matrix((indptr.size - 1, n_features), dtype=values.dtype)
    # The attributes are set one by one. If row pointers are int64, the constructor would convert
    # the indices to int64 as well.
    fits = values.size <= np.iinfo(np.int32).max
    X.indptr = indptr.astype(np.int32 if fits else np.int64, copy=False)
    X.indices = indices.astype(np.int32, copy=False)
    X.data = values
    X.has_canonical_format = True  # indices increase, so SciPy need not check
    return X


def csr_arrays(X: scipy.sparse.csr_matrix) -> tuple[Array, Array, Array]:
    """Return the arrays of a CSR matrix as kernels take them; its structure is checked.

    Entries may be in any order, and there may be several for one place.
    """
    _check_indices(X)
    return _arrays(X)


def _arrays(X: scipy.sparse.csr_matrix) -> tuple[Array, Array, Array]:
    arrays = np.ascontiguousarray(X.data), _unsigned(X.indices), _unsigned(X.indptr)
    values, indices, indptr = map(for_kernels, arrays)
    return values, indices, indptr


def _unsigned(integers: Array) -> Array:
    """Return nonnegative integers as uint32 or uint64, without a copy if possible."""
    if integers.itemsize < 4:
        return integers.astype(np.uint32)
    return np.ascontiguousarray(integers).view(np.uint32 if integers.itemsize == 4 else np.uint64)


def _check_indices(X: scipy.sparse.csr_matrix) -> None:
    """Raise ValueError if kernels would read outside of X's arrays."""
    if X.indptr.size != X.shape[0] + 1:
        raise ValueError(
            f"X is not valid CSR: indptr has {X.indptr.size} entries, not {X.shape[0] + 1}"
        )
    lengths = np.diff(X.indptr)
    if X.indptr[0] != 0 or X.indptr[-1] > min(X.indices.size, X.data.size):
        raise ValueError("X is not valid CSR: indptr does not span its data")
    if lengths.size and lengths.min() < 0:
        row = int(np.argmax(lengths < 0))
        raise ValueError(f"X is not valid CSR: indptr decreases at row {row}")
    indices = X.indices[: X.indptr[-1]]  # later entries are not read
    if indices.size and _unsigned(indices).max() >= X.shape[1]:  # negative ones become huge
        bad = int(np.argmax((indices < 0) | (indices >= X.shape[1])))
        row = int(np.searchsorted(X.indptr, bad, side="right")) - 1
        raise ValueError(
            f"X is not valid CSR: row {row} has column index {indices[bad]}, "
            f"outside of 0..{X.shape[1] - 1}"
        )
