"""Rows in memory: dense arrays and CSR, used in place."""

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from scipy.linalg.blas import dsyrk

from widemargin import threads
from widemargin.data.rows import LeverageRows, PreciseRows, Rows, SingleRows
from widemargin.kernels import precise
from widemargin.kernels import rows as kernels

# Numbers that a piece of rows has, scaled and in double precision, on its way into a Gram
# matrix: it stays in cache.
_MOMENTS_PIECE = 1 << 17
#: features that SciPy's matrices have numbers for, if these are int32
MOST_FEATURES = 2**31 - 1
# CSR rows go there as dense copies where more than this fraction of their entries is stored: pairs
# at scattered places cost some fifteen times as much as those of a dense product.
_DENSE_ENOUGH = 0.25
# Columns are far from zero if that is so many times as far as they are wide.
_FAR = 1e3


def as_rows(X) -> Rows:
    """Return `X` behind the Rows contract, in place wherever its layout allows.

    Parameters
    ----------
    X : Rows, ndarray or SciPy sparse of shape (n, d)
        float32 and float64 C-ordered arrays and canonical CSR are used as they are;
        anything else is converted once.
    """
    if isinstance(X, Rows):
        return X
    if scipy.sparse.issparse(X):
        return CsrRows(X)
    return DenseRows(X)


class RowsInMemory(SingleRows, LeverageRows, PreciseRows):
    """What dense and CSR rows share.

    Attributes
    ----------
    matrix : ndarray or SciPy CSR of shape (n, d)
    """

    matrix: Any
    little_work = 1 << 18
    #: whether kernels take W (d, k) transposed, as rows of their own
    transposes: bool

    def scores(self, W):
        W = np.asarray(W, dtype=np.float64)
        S = np.empty((self.n_rows, *W.shape[1:]), order="F")
        kernel = kernels.scores if W.ndim == 1 else kernels.scores_many
        W = np.ascontiguousarray(W.T if self.transposes else W)

        def chunk(begin, end):
            for low, high in self.ranges(begin, end):
                kernel(self.arrays, W, low, high, S)

        threads.run(chunk, threads.chunks(self.n_rows, self.n_entries))
        return S

    def combine(self, G):
        G = np.asfortranarray(G, dtype=np.float64)
        kernel = kernels.combine if G.ndim == 1 else kernels.combine_many
        shape = (self.n_features, *G.shape[1:])

        def chunk(begin, end):
            W = np.zeros(shape[::-1] if self.transposes else shape)
            for low, high in self.ranges(begin, end):
                kernel(self.arrays, G, low, high, W)
            return W

        parts = threads.run(chunk, threads.chunks(self.n_rows, self.n_entries))
        W = sum(parts[1:], start=parts[0])
        return np.ascontiguousarray(W.T) if self.transposes else W

    def moments(self, index, weight, center):
        def chunk(begin, end):
            return self._moments(index[begin:end], weight[begin:end], center)

        per_row = self.n_entries // max(1, self.n_rows)
        chunks = threads.chunks(index.size, index.size * per_row * per_row)
        parts = threads.run(chunk, chunks)
        second, first = parts[0]
        for other in parts[1:]:
            second += other[0]
            first += other[1]
        return second, first

    def _dense_moments(self, index, weight, center):
        """As `moments`, by products of dense pieces that stay in cache."""
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

    def combine_squares(self, g):
        total = np.zeros(self.n_features)
        for begin, end in self.ranges(0, self.n_rows):
            kernels.combine_squares(self.arrays, g, begin, end, total)
        return total

    def score_squares(self, v, begin=0, end=None):
        end = self.n_rows if end is None else end
        out = np.empty(end - begin)
        for low, high in self.ranges(begin, end):
            kernels.score_squares(self.arrays, v, low, high, out[low - begin : high - begin])
        return out

    def precise_scores(self, index, w, offset):
        high, low, sizes = np.empty((3, index.size))
        w, offset = np.ascontiguousarray(w), float(offset)
        for begin in range(0, index.size, self.rows_per_call):
            part = slice(begin, begin + self.rows_per_call)
            found = high[part], low[part], sizes[part]
            precise.scores(self.arrays, index[part], w, offset, *found)
        return high, low, sizes

    def combine_sizes(self, g):
        total = np.zeros(self.n_features)
        for begin, end in self.ranges(0, self.n_rows):
            precise.combine_sizes(self.arrays, g, begin, end, total)
        return total

    def squared_norms(self):
        return self._squared_norms

    @cached_property
    def lengths(self):
        """|x_i| in float64, (n,)."""
        lengths = np.sqrt(self._squared_norms)
        lengths.flags.writeable = False  # shared by all who ask
        return lengths

    @cached_property
    def _squared_norms(self):
        norms = np.empty(self.n_rows)
        for begin, end in self.ranges(0, self.n_rows):
            kernels.squared_norms(self.arrays, begin, end, norms)
        norms.flags.writeable = False  # shared by all who ask
        return norms


class DenseRows(RowsInMemory):
    """A dense (n, d) array, C-ordered float32 or float64."""

    transposes = True

    def __init__(self, X):
        X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, it has {X.ndim}")
        dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
        self.matrix = np.ascontiguousarray(X, dtype=dtype)
        self.arrays = (self.matrix,)
        self.n_rows, self.n_features = self.matrix.shape
        self.dtype = self.matrix.dtype

    def take(self, index):
        if isinstance(index, np.ndarray) and index.dtype.kind in "iu":
            return DenseRows(self.matrix.take(index, axis=0))  # in half the time
        return DenseRows(self.matrix[index])

    def near_origin(self):
        """Return rows whose columns are shifted towards zero, where they are far away from it.

        Shifts are exact: two numbers of which neither is twice the other have a difference that
        needs no rounding (Sterbenz). Rows that need none are returned as they are.
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

    def _copy_scaled(self, index, factor, center, out):
        kernels.copy_scaled(self.matrix, index, factor, center, out)

    _moments = RowsInMemory._dense_moments


class CsrRows(RowsInMemory):
    """A SciPy sparse matrix in canonical CSR form, float32 or float64."""

    transposes = False

    def __init__(self, X):
        X = X.tocsr()
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        _check_indices(X)
        if not X.has_canonical_format:
            # Duplicates would make |x_i|^2 wrong; summing them sorts as well.
            X = X.copy()
            X.sum_duplicates()
        self.matrix = X
        self.arrays = (np.ascontiguousarray(X.data), _unsigned(X.indices), _unsigned(X.indptr))
        self.n_rows, self.n_features = X.shape
        self.dtype = X.dtype

    @cached_property
    def longest_row(self):
        """How many entries a row has at most."""
        return int(np.diff(self.matrix.indptr).max(initial=0))

    def take(self, index):
        matrix = self.matrix[index]
        matrix.has_canonical_format = True  # as all of it is, which need not be found out again
        return CsrRows(matrix)

    def _copy_scaled(self, index, factor, center, out):
        kernels.copy_scaled_csr(self.arrays, index, factor, center, out)

    def _moments(self, index, weight, center):
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


def csr_in_place(values, indices, indptr, n_features: int) -> scipy.sparse.csr_matrix:
    """Return a CSR matrix of arrays whose indices increase along rows, without copies of them.

    Parameters
    ----------
    values, indices : ndarray of shape (m,)
    indptr : ndarray of shape (n + 1,)
    n_features : int
        At most `MOST_FEATURES`.
    """
    X = scipy.sparse.csr_matrix((indptr.size - 1, n_features), dtype=values.dtype)
    # Set one by one: the constructor would widen the indices along with the row pointers.
    fits = values.size <= np.iinfo(np.int32).max
    X.indptr = indptr.astype(np.int32 if fits else np.int64, copy=False)
    X.indices = indices.astype(np.int32, copy=False)
    X.data = values
    X.has_canonical_format = True  # indices increase: spares SciPy the check
    return X


def _unsigned(integers):
    """Return `integers`, none of them negative, as uint32 or uint64; in place where it can."""
    if integers.itemsize < 4:
        return integers.astype(np.uint32)
    return np.ascontiguousarray(integers).view(np.uint32 if integers.itemsize == 4 else np.uint64)


def _check_indices(X):
    """Raise ValueError, naming the row, if kernels would read outside of X's arrays."""
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
    indices = X.indices[: X.indptr[-1]]  # what lies behind the last row is not read
    if indices.size and _unsigned(indices).max() >= X.shape[1]:  # a negative one is huge
        bad = int(np.argmax((indices < 0) | (indices >= X.shape[1])))
        row = int(np.searchsorted(X.indptr, bad, side="right")) - 1
        raise ValueError(
            f"X is not valid CSR: row {row} has column index {indices[bad]}, "
            f"outside of 0..{X.shape[1] - 1}"
        )
