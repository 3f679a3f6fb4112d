"""The interface of all kinds of rows, and the capabilities that some kinds have in addition.

Rows compute two products, ``S = X W`` and ``X^T G``. They do not know what a score means. A kind
of rows is a subclass of `Rows` with four methods. Further base classes declare its capabilities:
a solver tests for them by `isinstance`, or requires them by `require`.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from functools import cached_property
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np
from numpy import ndarray as Array

from widemargin import threads
from widemargin.data.ahead import ahead
from widemargin.kernels import rows as kernels

#: which rows to take: a range, a mask, or integers
Index: TypeAlias = slice | Array

# About so many rows are sampled to estimate sums of squares over all rows.
_ROWS_FOR_SPREADS = 1 << 15


class Rows(ABC):
    """n rows of d features: in memory, on disk or on a GPU.

    Attributes
    ----------
    dtype : dtype
        Type of the entries.
    device : {"cpu", "cuda"}
        Where scores are stored.
    like, coef_like : array or None
        Arrays for NumPy's `like=`: the first is where scores are stored, the second is where
        coefficients are stored. None means the host. If there are few coefficients, they are on
        the host even if scores are on a GPU, because operations on small arrays are faster there.
    times_read : int
        How often all rows have been read from files.
    labels, qid : ndarray of shape (n_rows,) or None
        Labels and query ids of the rows, if they come from files.
    constant : float
        The value of a last feature whose weight, times the value, is the intercept that models
        have, rounded; 0 if there is no such feature.
    """

    #: the name of this kind in the message of `require`
    called: ClassVar[str] = "rows"

    n_rows: int
    n_features: int
    dtype: np.dtype
    device: str = "cpu"
    like: Any = None
    coef_like: Any = None
    times_read: int = 0
    labels: Array | None = None
    qid: Array | None = None
    constant: float = 0.0

    @classmethod
    def require(cls, rows: "Rows", who: str) -> None:
        """Raise TypeError if `rows` are not of this kind, which `who` needs."""
        if not isinstance(rows, cls):
            raise TypeError(f"{who} needs {cls.called}, not {type(rows).__name__}")

    @abstractmethod
    def scores(self, W: Array) -> Array:
        """Return X @ W in float64: (d,) -> (n,), (d, k) -> (n, k)."""

    @abstractmethod
    def combine(self, G: Array) -> Array:
        """Return X.T @ G in float64: (n,) -> (d,), (n, k) -> (d, k)."""

    @abstractmethod
    def squared_norms(self) -> Array:
        """Return |x_i|^2 in float64, (n,)."""

    @abstractmethod
    def take(self, index: Index) -> "Rows":
        """Return the rows that `index` (slice, mask or integers) selects.

        Raises TypeError if this kind of rows cannot select single rows.
        """

    def products(self, w: Array, g: Array) -> tuple[Array, Array]:
        """Return X w (n,) and X^T g (d,)."""
        return self.scores(w), self.combine(g)

    @property
    def lengths(self) -> Array:
        """|x_i|, (n,), as computed, with rounding errors. Do not write to it."""
        return np.sqrt(self.squared_norms())

    @cached_property
    def longest_row(self) -> int:
        """The largest number of entries in a row."""
        return self.n_features

    @cached_property
    def n_entries(self) -> int:
        """The number of stored entries."""
        return self.n_rows * self.n_features

    @property
    def nbytes(self) -> int:
        """The bytes that the rows take in memory, or would take if they were there."""
        return self.n_entries * np.dtype(self.dtype).itemsize

    @property
    def plain(self) -> "Rows":
        """The same rows; the errors of their products are those of float64 and `combine_error`."""
        return self

    def combine_error(self, size: float) -> float:
        """Return a bound on the error of `combine(G)` of plain rows, as a Euclidean norm.

        It is the error in addition to that of sums in float64. `size` is sum_i |G_i|.
        """
        return 0.0

    def round(self, w: Array) -> Any:
        """Round coefficients in place, as `rounded` does; return the argument for `scores`."""
        return w

    def rounded(self, name: str, v: Array) -> Array:
        """Return v rounded to numbers for which the product `name` is faster.

        Return v itself if rounding would not make it faster.
        """
        return v


class SingleRows(Rows):
    """Rows in the host's memory: kernels can visit single rows in any order.

    Attributes
    ----------
    arrays : tuple of ndarray
        The arguments of kernels, see kernels/rows.py: (X,) or (values, indices, indptr).
    """

    called = "rows in memory"

    arrays: tuple
    #: how many entries one kernel call may read, in about 0.05 seconds: between two calls, Python
    #: looks at the clock and at Ctrl-C
    entries_per_call: int = 1 << 24

    @property
    def n_entries(self) -> int:
        return self.arrays[0].size

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    @cached_property
    def rows_per_call(self) -> int:
        """The number of rows that one kernel call may visit."""
        return max(1, self.entries_per_call * self.n_rows // max(1, self.n_entries))

    def ranges(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield (low, high) from begin to end, each of about `entries_per_call` entries."""
        for low in range(begin, end, self.rows_per_call):
            yield low, min(low + self.rows_per_call, end)


class BlockRows(Rows):
    """Rows that are read from the first to the last, block by block."""

    called = "rows on disk"

    @abstractmethod
    def blocks(self) -> Generator:
        """Yield all rows in order, as `Block`s (data/blocks.py)."""

    def scores(self, W: Array) -> Array:
        W = np.ascontiguousarray(W, dtype=np.float64)
        kernel = kernels.scores if W.ndim == 1 else kernels.scores_many
        S = np.empty((self.n_rows, *W.shape[1:]), order="F")

        def chunk(block: Any, out: Array, begin: int, end: int) -> None:
            kernel(block.arrays, W, begin, end, out)

        for block in ahead(self.blocks()):
            out = np.empty((block.end - block.begin, *W.shape[1:]), order="F")
            threads.run(chunk, [(block, out, *cut) for cut in _chunks(block)])
            S[block.begin : block.end] = out
        return S

    def combine(self, G: Array) -> Array:
        G = np.asarray(G, dtype=np.float64)
        kernel = kernels.combine if G.ndim == 1 else kernels.combine_many
        sums = [np.zeros((self.n_features, *G.shape[1:]))]  # one for each thread

        def chunk(block: Any, some: Array, W: Array, begin: int, end: int) -> None:
            kernel(block.arrays, some, begin, end, W)

        for block in ahead(self.blocks()):
            some = np.asfortranarray(G[block.begin : block.end])
            cuts = _chunks(block)
            sums += [np.zeros_like(sums[0]) for _ in cuts[len(sums) :]]
            threads.run(chunk, [(block, some, W, *cut) for W, cut in zip(sums, cuts)])
        return sum(sums[1:], start=sums[0])

    def products(self, w: Array, g: Array) -> tuple[Array, Array]:
        """Return X w (n,) and X^T g (d,), in a single pass."""
        scores, combined = np.zeros(self.n_rows), np.zeros(self.n_features)
        if not (w.any() or g.any()):
            return scores, combined  # no need to read anything
        for block in ahead(self.blocks()):
            part = slice(block.begin, block.end)
            size = block.end - block.begin
            kernels.scores(block.arrays, w, 0, size, scores[part])
            kernels.combine(block.arrays, g[part], 0, size, combined)
        return scores, combined

    def take(self, index: Index) -> NoReturn:
        raise TypeError("rows on disk are read in their order; single ones cannot be picked")

    def in_memory(self) -> Rows:
        """Return a copy in memory, of `nbytes` bytes; these rows if their class makes none."""
        return self


def _chunks(block: Any) -> list[tuple[int, int]]:
    return threads.chunks(block.end - block.begin, block.arrays[0].size)


class GramRows(Rows):
    """Rows with weighted sums of x x^T, of which Newton's method computes its Hessian.

    Attributes
    ----------
    multiplications_per_call : int
        How many multiplications one call of `moments` may make, in about 0.05 seconds.
    little_work : int
        For fewer multiplications, computing a Hessian anew is faster than finding the rows that
        have changed.
    weighs_all_rows : bool
        Whether `moments` of all rows, most of them with weight zero, is faster than making a list
        of the rows with other weights. Then `moments` accepts None for the index: all rows.
    """

    multiplications_per_call: int = 1 << 29
    little_work: int = 0
    weighs_all_rows: bool = False

    @abstractmethod
    def moments(self, index: Any, weight: Array, center: Array) -> tuple[Array, Array]:
        """Return the weighted first and second moments of some rows about `center`, in float64.

        Parameters
        ----------
        index : ndarray of shape (m,)
            Positions of the rows, in increasing order; at least one.
        weight : ndarray of shape (m,)
        center : ndarray of shape (d,)

        Returns
        -------
        second : ndarray of shape (d, d)
            sum_j weight_j (x - center)(x - center)^T. Its upper triangle may be unset.
        first : ndarray of shape (d,)
            sum_j weight_j (x - center).
        """

    @abstractmethod
    def combine_squares(self, g: Array) -> Array:
        """Return sum_i g_i x_i^2 with elementwise squares, in float64, (d,)."""


class LeverageRows(GramRows):
    """Rows that estimate how much each of them matters to a Hessian (statistical leverage)."""

    @abstractmethod
    def score_squares(self, v: Array, begin: int = 0, end: int | None = None) -> Array:
        """Return x_i^2 . v with elementwise squares, in float64, for begin <= i < end."""

    @cached_property
    def spreads(self) -> Array:
        """How sensitive each row's score is to the coefficients, relative to other rows, (n,).

        sqrt(sum_k x_k^2 / s_k), where s_k is the sum of squares of feature k over all rows,
        estimated from a sample. A row has a large value if it has a feature that few rows have.
        """
        stride = max(1, self.n_rows // _ROWS_FOR_SPREADS)
        some = self.take(slice(None, None, stride))
        assert isinstance(some, GramRows)
        squares = some.combine_squares(np.ones(some.n_rows))
        # Add one row of average entries, because some features are zero in all sampled rows.
        squares += squares.sum() / max(1, some.n_rows * self.n_features)
        squares[squares == 0.0] = 1.0
        spreads = np.sqrt(self.score_squares(1.0 / (stride * squares)))
        spreads.flags.writeable = False  # all callers share the array
        return spreads


class PreciseRows(Rows):
    """Rows with products in twice the precision, for certificates that rounding makes useless."""

    @abstractmethod
    def precise_scores(self, index: Array, w: Array, offset: float) -> tuple[Array, Array, Array]:
        """Return x_i.w + offset of some rows in twice the precision: high and low parts, (m,).

        The third array has the sums of the absolute values of their terms, (m,).
        """

    @abstractmethod
    def combine_sizes(self, g: Array) -> Array:
        """Return sum_i |g_i| |x_i| with elementwise absolute values, in float64, (d,)."""
