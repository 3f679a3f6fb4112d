"""Where rows live: the contract that all kinds of rows keep, and capabilities that some declare.

Rows know two products, ``S = X W`` and ``X^T G``; they never know what a score means. A kind of
rows is a subclass of `Rows` with four methods. What else it can do, it declares by its other base
classes: a solver asks for these by `isinstance`, or insists on them by `require`.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np

from widemargin import threads
from widemargin.data.ahead import ahead
from widemargin.kernels import rows as kernels

# Entries one kernel call may touch: about a twentieth of a second, so that Python gets to
# look at the clock and at Ctrl-C in between.
ENTRIES_PER_CALL = 1 << 24
# Rows whose squares tell about those of all.
_ROWS_FOR_SPREADS = 1 << 15


class Rows(ABC):
    """n rows of d features, wherever they are kept.

    Attributes
    ----------
    n_rows, n_features : int
    dtype : dtype
        Of the entries.
    device : {"cpu", "cuda"}
        Where scores are.
    like, coef_like : array or None
        An array where scores are, and one where coefficients are, for NumPy's `like=`; None is the
        host. Coefficients may be on the host where scores are not: what is done to few numbers is
        done there sooner.
    times_read : int
        How often all rows were read from files so far.
    labels, qid : ndarray of shape (n_rows,) or None
        What files say of the rows.
    """

    #: what `require` calls them
    called: ClassVar[str] = "rows"

    n_rows: int
    n_features: int
    dtype: np.dtype
    device: str = "cpu"
    like: Any = None
    coef_like: Any = None
    times_read: int = 0
    labels: np.ndarray | None = None
    qid: np.ndarray | None = None

    @classmethod
    def require(cls, rows: "Rows", who: str) -> None:
        """Raise TypeError unless `rows` are of this kind, which `who` needs."""
        if not isinstance(rows, cls):
            raise TypeError(f"{who} needs {cls.called}, not {type(rows).__name__}")

    @abstractmethod
    def scores(self, W):
        """Return X @ W in float64: (d,) -> (n,), (d, k) -> (n, k)."""

    @abstractmethod
    def combine(self, G):
        """Return X.T @ G in float64: (n,) -> (d,), (n, k) -> (d, k)."""

    @abstractmethod
    def squared_norms(self):
        """Return |x_i|^2 in float64, (n,)."""

    @abstractmethod
    def take(self, index):
        """Return the rows that `index` (slice, mask or integers) picks.

        Raises TypeError where single rows cannot be picked.
        """

    def products(self, w, g):
        """Return X w (n,) and X^T g (d,)."""
        return self.scores(w), self.combine(g)

    @property
    def lengths(self):
        """|x_i|, (n,), as they are computed; not to be written to."""
        return np.sqrt(self.squared_norms())

    @cached_property
    def longest_row(self):
        """How many entries a row has at most."""
        return self.n_features

    @cached_property
    def n_entries(self):
        """How many numbers are stored."""
        return self.n_rows * self.n_features

    @property
    def nbytes(self):
        """Bytes that the rows take, or would take in memory."""
        return self.n_entries * np.dtype(self.dtype).itemsize

    @property
    def plain(self):
        """The same rows, with products that are sums in float64 and nothing faster."""
        return self

    def combine_error(self, size: float) -> float:
        """Return how far `combine(G)` of plain rows may be off, in length, besides rounding.

        `size` is sum_i |G_i|.
        """
        return 0.0

    def round(self, w):
        """Round coefficients in place, as `rounded` does; return what `scores` takes for them."""
        return w

    def rounded(self, name: str, v):
        """Return numbers near those of v of which the product `name` takes less time.

        Or v, where there are none.
        """
        return v


class SingleRows(Rows):
    """Rows in the host's memory: kernels go from one to another, in any order.

    Attributes
    ----------
    arrays : tuple of ndarray
        What kernels take, see kernels/rows.py: (X,) or (values, indices, indptr).
    """

    called = "rows in memory"

    arrays: tuple

    @property
    def n_entries(self):
        return self.arrays[0].size

    @property
    def nbytes(self):
        return sum(array.nbytes for array in self.arrays)

    @cached_property
    def rows_per_call(self):
        """How many rows one kernel call may visit."""
        return max(1, ENTRIES_PER_CALL * self.n_rows // max(1, self.n_entries))

    def ranges(self, begin, end) -> Iterator[tuple[int, int]]:
        """Yield (low, high) from begin to end, each of about ENTRIES_PER_CALL entries at most."""
        for low in range(begin, end, self.rows_per_call):
            yield low, min(low + self.rows_per_call, end)


class BlockRows(Rows):
    """Rows that are read through, block by block, in their order."""

    called = "rows on disk"

    @abstractmethod
    def blocks(self) -> Generator:
        """Yield all rows, in their order, as `Block`s (data/blocks.py)."""

    def scores(self, W):
        W = np.ascontiguousarray(W, dtype=np.float64)
        kernel = kernels.scores if W.ndim == 1 else kernels.scores_many
        S = np.empty((self.n_rows, *W.shape[1:]), order="F")

        def chunk(block, out, begin, end):
            kernel(block.arrays, W, begin, end, out)

        for block in ahead(self.blocks()):
            out = np.empty((block.end - block.begin, *W.shape[1:]), order="F")
            threads.run(chunk, [(block, out, *cut) for cut in _chunks(block)])
            S[block.begin : block.end] = out
        return S

    def combine(self, G):
        G = np.asarray(G, dtype=np.float64)
        kernel = kernels.combine if G.ndim == 1 else kernels.combine_many
        sums = [np.zeros((self.n_features, *G.shape[1:]))]  # one for each thread at work

        def chunk(block, some, W, begin, end):
            kernel(block.arrays, some, begin, end, W)

        for block in ahead(self.blocks()):
            some = np.asfortranarray(G[block.begin : block.end])
            cuts = _chunks(block)
            sums += [np.zeros_like(sums[0]) for _ in cuts[len(sums) :]]
            threads.run(chunk, [(block, some, W, *cut) for W, cut in zip(sums, cuts)])
        return sum(sums[1:], start=sums[0])

    def products(self, w, g):
        """Return X w (n,) and X^T g (d,), by a single pass."""
        scores, combined = np.zeros(self.n_rows), np.zeros(self.n_features)
        if not (w.any() or g.any()):
            return scores, combined  # no need to read anything
        for block in ahead(self.blocks()):
            part = slice(block.begin, block.end)
            size = block.end - block.begin
            kernels.scores(block.arrays, w, 0, size, scores[part])
            kernels.combine(block.arrays, g[part], 0, size, combined)
        return scores, combined

    def take(self, index) -> NoReturn:
        raise TypeError("rows on disk are read in their order; single ones cannot be picked")

    def in_memory(self) -> Rows:
        """Return the same rows in memory, which take `nbytes` there, if they can be had so."""
        return self


def _chunks(block) -> list[tuple[int, int]]:
    return threads.chunks(block.end - block.begin, block.arrays[0].size)


class GramRows(Rows):
    """Rows whose squares can be summed up, as Newton's method does for its Hessian.

    Attributes
    ----------
    multiplications_per_call : int
        How many one call of `moments` may take: about a twentieth of a second.
    little_work : int
        Multiplications that take as long as to find out which of them were made before.
    weighs_all_rows : bool
        Whether `moments` of all rows, most of weight zero, cost less than a list of the others.
        Then it takes None for the index of all.
    """

    multiplications_per_call: int = 1 << 29
    little_work: int = 0
    weighs_all_rows: bool = False

    @abstractmethod
    def moments(self, index, weight, center):
        """Return sums over some rows, less `center`, in float64: of their squares and their own.

        Parameters
        ----------
        index : ndarray of shape (m,)
            Which rows, in increasing order; at least one.
        weight : ndarray of shape (m,)
        center : ndarray of shape (d,)

        Returns
        -------
        second : ndarray of shape (d, d)
            sum_j weight_j (x - center)(x - center)^T, at least its lower triangle.
        first : ndarray of shape (d,)
            sum_j weight_j (x - center).
        """

    @abstractmethod
    def combine_squares(self, g):
        """Return sum_i g_i x_i^2, feature by feature, in float64, (d,)."""


class LeverageRows(GramRows):
    """Rows that tell which of them matter to a Hessian more than others."""

    @abstractmethod
    def score_squares(self, v, begin=0, end=None):
        """Return x_i^2 . v, the square feature by feature, in float64, for begin <= i < end."""

    @cached_property
    def spreads(self):
        """How far scores may move as coefficients do, for each row beside the others, (n,).

        sqrt(sum_k x_k^2 / s_k), s_k the sum of squares of feature k over all rows, or about that:
        a row is far ahead of others if it has a feature that few rows have.
        """
        stride = max(1, self.n_rows // _ROWS_FOR_SPREADS)
        some = self.take(slice(None, None, stride))
        squares = some.combine_squares(np.ones(some.n_rows))
        # As if there was one row more, of about the same entries: some features are in no row.
        squares += squares.sum() / max(1, some.n_rows * self.n_features)
        squares[squares == 0.0] = 1.0
        spreads = np.sqrt(self.score_squares(1.0 / (stride * squares)))
        spreads.flags.writeable = False  # shared by all who ask
        return spreads


class PreciseRows(Rows):
    """Rows with products in twice the precision, for a certificate that rounding blurs."""

    @abstractmethod
    def precise_scores(self, index, w, offset):
        """Return x_i.w + offset of some rows in twice the precision: high and low parts, (m,).

        And the sums of their terms' sizes.
        """

    @abstractmethod
    def combine_sizes(self, g):
        """Return sum_i |g_i| |x_i|, feature by feature, in float64, (d,)."""
