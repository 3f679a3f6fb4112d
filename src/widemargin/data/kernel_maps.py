"""Kernels by features: dense rows whose inner products approximate a kernel, made as needed.

`FourierMap` makes random Fourier features (Rahimi & Recht 2007) of the Gaussian kernel.
`LandmarkMap` makes Nystroem's features (Williams & Seeger 2001) of several kernels. `MappedRows`
are the features of rows in memory or on disk. They make them anew, block by block, in each pass.

A feature is stored as float32, and these numbers are the data of the problem that is solved and
certified. kernels/features.py makes the same bits for a row whenever and wherever it is made, so
all passes, and a certificate that is computed later, speak of the same rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
from numpy import ndarray as Array

from widemargin import threads
from widemargin.data.ahead import ahead
from widemargin.data.memory import DenseRows
from widemargin.data.rows import BlockRows, Index, LeverageRows, PreciseRows, Rows, SingleRows
from widemargin.kernels import features as kernels
from widemargin.kernels import rows as row_kernels

#: kernels of `LandmarkMap`, all of them functions of inner products and norms
LANDMARK_KERNELS = ("rbf", "polynomial", "sigmoid", "cosine")
# A block of features has about so many numbers: 1 MB, which stays in cache.
_BLOCK_ENTRIES = 1 << 18


class KernelMap(ABC):
    """From rows of `n_inputs` numbers to rows of `n_features` numbers, float32."""

    n_inputs: int
    n_features: int

    @abstractmethod
    def expand(self, arrays: tuple, out: Array) -> None:
        """Write the features of rows, as kernels take them, to `out` (n, n_features) float32."""

    def features(self, arrays: tuple) -> Array:
        """Return the features of rows, (n, n_features), made by the threads that are lent.

        Raises ValueError if one of them is not finite.
        """
        n = _count(arrays)
        out = np.empty((n, self.n_features), dtype=np.float32)

        def chunk(begin: int, end: int) -> None:
            self.expand(_cut(arrays, begin, end), out[begin:end])

        threads.run(chunk, threads.chunks(n, out.size * 16))
        with np.errstate(over="ignore", invalid="ignore"):
            may_be_infinite = not np.isfinite(out.sum())  # or the sum has overflowed
        if may_be_infinite and not np.isfinite(out).all():
            raise ValueError("a feature is not finite: scale the columns of X, or use other gamma")
        return out


class FourierMap(KernelMap):
    """sqrt(2 / m) cos(x weights + offsets), for m features.

    Parameters
    ----------
    weights : ndarray of shape (d, m)
    offsets : ndarray of shape (m,)
    """

    def __init__(self, weights: Array, offsets: Array):
        self.weights = np.ascontiguousarray(weights, dtype=np.float32)
        self.offsets = np.ascontiguousarray(offsets, dtype=np.float32)
        self.n_inputs, self.n_features = self.weights.shape

    def expand(self, arrays: tuple, out: Array) -> None:
        out[:] = self.offsets
        kernels.products(arrays, 0, len(out), self.weights, out)
        kernels.cosines(out, np.float32(np.sqrt(2.0 / self.n_features)))


class LandmarkMap(KernelMap):
    """k(x, landmarks) normalization^T, computed in float64.

    Parameters
    ----------
    landmarks : ndarray of shape (m, d)
    normalization : ndarray of shape (m, m)
        The inverse root of the landmarks' kernel matrix.
    kernel : str
        One of `LANDMARK_KERNELS`.
    gamma, degree, coef0 : float
        Of the kernels exp(-gamma |x - z|^2), (gamma x.z + coef0)^degree and
        tanh(gamma x.z + coef0). "cosine" has none.
    """

    def __init__(
        self,
        landmarks: Array,
        normalization: Array,
        kernel: str,
        gamma: float,
        degree: float = 3.0,
        coef0: float = 1.0,
    ):
        self.columns = np.ascontiguousarray(landmarks.T, dtype=np.float64)
        self.mixing = np.ascontiguousarray(normalization.T, dtype=np.float64)
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.squares = np.einsum("dm,dm->m", self.columns, self.columns)
        self.n_inputs, self.n_features = self.columns.shape

    def expand(self, arrays: tuple, out: Array) -> None:
        K = np.zeros(out.shape)
        kernels.products(arrays, 0, len(K), self.columns, K)
        with np.errstate(all="ignore"):  # `features` looks at the results
            self._apply(K, arrays)
            mixed = np.zeros_like(K)
            kernels.products((K,), 0, len(K), self.mixing, mixed)
            out[:] = mixed

    def _apply(self, K: Array, arrays: tuple) -> None:
        """Replace inner products, (n, m), by values of the kernel."""
        if self.kernel == "rbf":
            K *= -2.0
            K += self.squares
            K += _squares(arrays)[:, None]
            np.maximum(K, 0.0, out=K)
            K *= -self.gamma
            np.exp(K, out=K)
        elif self.kernel == "cosine":
            lengths = np.sqrt(_squares(arrays)), np.sqrt(self.squares)
            for length in lengths:
                length[length == 0.0] = 1.0
            K /= lengths[0][:, None]
            K /= lengths[1]
        else:
            K *= self.gamma
            K += self.coef0
            np.power(K, self.degree, out=K) if self.kernel == "polynomial" else np.tanh(K, out=K)


class MappedRows(LeverageRows, PreciseRows):
    """The features that a map makes of rows; every pass makes them anew.

    Parameters
    ----------
    source : SingleRows or BlockRows
        Rows in memory or on disk.
    features : KernelMap
    budget : int
        Bytes: so many of the first rows are kept when they have been made. Rows that `take`
        selects are kept from the start if they fit.
    """

    def __init__(self, source: Rows, features: KernelMap, budget: int):
        self.source, self.features, self.budget = source, features, budget
        self.n_rows, self.n_features = source.n_rows, features.n_features
        self.dtype = np.dtype(np.float32)
        self.labels, self.qid = source.labels, source.qid
        self._step = max(1, _BLOCK_ENTRIES // self.n_features)
        self._kept: dict[int, DenseRows] = {}
        self._rows_to_keep = budget // (4 * self.n_features)

    def __repr__(self) -> str:
        of = type(self.source).__name__
        return f"<MappedRows: {self.n_rows:,} rows, {self.n_features:,} features of {of}>"

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, self.n_features

    @property
    def times_read(self) -> int:  # type: ignore[override]
        return self.source.times_read

    def pieces(self) -> Iterator[tuple[slice, DenseRows]]:
        """Yield all rows in order, as ranges and their features."""
        for begin, arrays in self._arrays():
            piece = self._kept.get(begin)
            if piece is None:
                piece = DenseRows(self.features.features(arrays))
                if begin + piece.n_rows <= self._rows_to_keep:
                    self._kept[begin] = piece
            yield slice(begin, begin + piece.n_rows), piece

    def _arrays(self) -> Iterator[tuple[int, tuple]]:
        """Yield the source in order: the first row of each piece, and arrays for kernels."""
        if isinstance(self.source, BlockRows):
            blocks = ahead(self.source.blocks())
            whole: Iterable = ((block.begin, block.arrays) for block in blocks)
        else:
            assert isinstance(self.source, SingleRows)
            whole = [(0, self.source.arrays)]
        for first, arrays in whole:
            n = _count(arrays)
            for begin in range(0, n, self._step):
                yield first + begin, _cut(arrays, begin, min(begin + self._step, n))

    def _some(self, index: Array) -> Iterator[tuple[slice, DenseRows]]:
        """Yield the rows of a sorted index, (m,), as ranges of the index and their features."""
        if isinstance(self.source, BlockRows):
            for begin, arrays in self._arrays():
                low, high = np.searchsorted(index, [begin, begin + _count(arrays)])
                if low < high:
                    piece = DenseRows(self.features.features(arrays))
                    yield slice(low, high), piece.take(index[low:high] - begin)
            return
        for begin in range(0, index.size, self._step):
            part = slice(begin, min(begin + self._step, index.size))
            some = self.source.take(index[part])
            assert isinstance(some, SingleRows)
            yield part, DenseRows(self.features.features(some.arrays))

    def take(self, index: Index) -> Rows:
        index = np.arange(self.n_rows)[index]
        fits = 4 * self.n_features * index.size <= self.budget
        if not fits and isinstance(self.source, SingleRows):
            return MappedRows(self.source.take(index), self.features, self.budget)
        features = np.empty((index.size, self.n_features), dtype=np.float32)
        order = np.argsort(index, kind="stable")
        for part, piece in self._some(index[order]):
            features[order[part]] = piece.matrix
        return DenseRows(features)

    def in_memory(self) -> DenseRows:
        """Return all rows in memory, where they take `nbytes`."""
        features = np.empty((self.n_rows, self.n_features), dtype=np.float32)
        for part, piece in self.pieces():
            features[part] = piece.matrix
        return DenseRows(features)

    # --- products ---------------------------------------------------------------------------

    def scores(self, W: Array) -> Array:
        S = np.empty((self.n_rows, *np.shape(W)[1:]), order="F")
        for part, piece in self.pieces():
            S[part] = piece.scores(W)
        return S

    def combine(self, G: Array) -> Array:
        G = np.asarray(G, dtype=np.float64)
        total = np.zeros((self.n_features, *G.shape[1:]))
        for part, piece in self.pieces():
            total += piece.combine(G[part])
        return total

    def products(self, w: Array, g: Array) -> tuple[Array, Array]:
        scores, combined = np.empty(self.n_rows), np.zeros(self.n_features)
        for part, piece in self.pieces():
            scores[part] = piece.scores(w)
            combined += piece.combine(g[part])
        return scores, combined

    def squared_norms(self) -> Array:
        return self._squared_norms

    @cached_property
    def _squared_norms(self) -> Array:
        norms = np.empty(self.n_rows)
        for part, piece in self.pieces():
            norms[part] = piece.squared_norms()
        norms.flags.writeable = False  # all callers share the array
        return norms

    def moments(self, index: Array, weight: Array, center: Array) -> tuple[Array, Array]:
        d = self.n_features
        second, first = np.zeros((d, d), order="F"), np.zeros(d)
        for part, piece in self._some(index):
            more, first_more = piece.moments(np.arange(piece.n_rows), weight[part], center)
            second += more
            first += first_more
        return second, first

    def combine_squares(self, g: Array) -> Array:
        total = np.zeros(self.n_features)
        for part, piece in self.pieces():
            total += piece.combine_squares(g[part])
        return total

    def score_squares(self, v: Array, begin: int = 0, end: int | None = None) -> Array:
        index = np.arange(begin, self.n_rows if end is None else end)
        squares = np.empty(index.size)
        for part, piece in self._some(index):
            squares[part] = piece.score_squares(v)
        return squares

    def precise_scores(self, index: Array, w: Array, offset: float) -> tuple[Array, Array, Array]:
        found = np.empty((3, index.size))
        for part, piece in self._some(index):
            found[:, part] = piece.precise_scores(np.arange(piece.n_rows), w, offset)
        return found[0], found[1], found[2]

    def combine_sizes(self, g: Array) -> Array:
        total = np.zeros(self.n_features)
        for part, piece in self.pieces():
            total += piece.combine_sizes(g[part])
        return total


def expanded(source: Rows, features: KernelMap, budget: int) -> "DenseRows | MappedRows":
    """Return the features of rows: in memory if they fit into `budget` bytes, else as needed."""
    rows = MappedRows(source, features, budget)
    return rows.in_memory() if rows.nbytes <= budget else rows


def _count(arrays: tuple) -> int:
    return len(arrays[0]) if len(arrays) == 1 else len(arrays[2]) - 1


def _cut(arrays: tuple, begin: int, end: int) -> tuple:
    """Return the rows from `begin` to `end`, without a copy."""
    if len(arrays) == 1:
        return (arrays[0][begin:end],)
    return arrays[0], arrays[1], arrays[2][begin : end + 1]


def _squares(arrays: tuple) -> Array:
    """Return |x_i|^2 in float64, (n,)."""
    squares = np.empty(_count(arrays))
    row_kernels.squared_norms(arrays, 0, squares.size, squares)
    return squares
