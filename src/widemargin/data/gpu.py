"""Rows in device memory, dense and CSR, and the common part of all rows with products on a GPU.

Products are deterministic. Sums are computed in a fixed order; for X^T G, this takes a transposed
copy of sparse rows. If there is no room for one, sums are computed in integers, whose sum does
not depend on the order.
"""

import copy
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import cupy
import cupyx.scipy.sparse
import numpy as np
from cupy import ndarray as Array

from widemargin.arrays import move_to
from widemargin.data.gpu_tiles import Rounded, Sizes, Tiles, most_places
from widemargin.data.rows import GramRows, Rows
from widemargin.kernels import cuda

# The largest number of entries of a line (a row or a column) that one team of threads multiplies.
# Longer lines are cut into several items.
_ITEM = max(cuda.TEAMS)
# Tiles are used from so many entries on, if the vector has at least so many places: a shorter one
# stays in cache. With more entries than the largest number, positions in tiles, which include
# zeros that fill them up, might not fit 31 bits.
_MANY_ENTRIES, _MOST_ENTRIES, _MANY_PLACES = 1 << 24, 3 << 29, 1 << 17
# About how many thread blocks compute a dense product X^T G.
_PARTS = 1056
# A Gram matrix is computed from blocks of rows, scaled and copied in double precision. A block
# has about so many bytes.
_MOMENTS_PIECE = 1 << 30
# Up to so many features, coefficients are on the host; up to the second number, Gram matrices are.
_FEW_FEATURES = 1 << 15
_FEW_FOR_A_MATRIX = 128
# For at most so many multiplications, `moments` of all rows is faster than a list of the rows with
# nonzero weights. For at most the second number, computing all moments anew is faster than finding
# the rows that have changed.
_TINY_WORK, _LITTLE_WORK = 1 << 32, 1 << 34
# Fixed-point sums stay below two to this power.
_SUM_BITS = 61


class GpuRows(Rows):
    """Rows whose products are computed on a GPU.

    Subclasses have `_scores(V)` and `_combine(G, squares)`, for a few columns at a time.
    """

    device = "cuda"
    _scores: Callable[[Array], Array]
    _combine: Callable[[Array, bool], Array]
    _squared_norms: Array

    @cached_property
    def like(self) -> Array:
        return cupy.empty(0)

    @property
    def coef_like(self) -> Array | None:
        return None if self.n_features <= _FEW_FEATURES else self.like

    def squared_norms(self) -> Array:
        return self._squared_norms

    def scores(self, W: Array | Rounded) -> Array:
        if isinstance(W, Rounded):
            return W.tiles.product_of(W)
        return _by_columns(cupy.asarray(W), self.n_rows, self._scores)

    def combine(self, G: Array) -> Array:
        combined = _by_columns(G, self.n_features, lambda g: self._combine(g, False))
        return move_to(combined, self.coef_like)


class ResidentRows(GpuRows, GramRows):
    """Rows in device memory."""

    multiplications_per_call = 1 << 41
    little_work = _LITTLE_WORK
    _scaled: Callable[[Array, Array, Array], Array]

    def combine_squares(self, g: Array) -> Array:
        return move_to(self._combine(g[:, None], True)[:, 0], self.coef_like)

    @property
    def weighs_all_rows(self) -> bool:  # type: ignore[override]
        return self.n_rows * self.n_features**2 <= _TINY_WORK

    def moments(self, index: Array | None, weight: Array, center: Array) -> tuple[Array, Array]:
        """Return the moments, with both triangles of the second; `index` None means all rows.

        Small matrices are returned on the host.
        """
        d = self.n_features
        if index is None:
            index = self._everything
        center = cupy.asarray(center)
        second: Any = None
        first: Any = None
        step = max(32, _MOMENTS_PIECE // (8 * max(1, d)))
        for begin in range(0, index.size, step):
            part = slice(begin, begin + step)
            root = cupy.sqrt(weight[part])
            piece = self._scaled(index[part], root, center)
            more = piece.T @ piece, root @ piece
            second, first = more if second is None else (second + more[0], first + more[1])
        return (second.get(), first.get()) if d <= _FEW_FOR_A_MATRIX else (second, first)

    @cached_property
    def _everything(self) -> Array:
        return cupy.arange(self.n_rows)


def _by_columns(V: Array, n_lines: int, product: Callable[[Array], Array]) -> Array:
    """Return product(V), computed for as many columns of V at a time as a kernel takes."""
    if V.ndim == 1:
        return product(cupy.ascontiguousarray(V, dtype=np.float64)[:, None])[:, 0]
    out = cupy.empty((n_lines, V.shape[1]))
    most = max(cuda.COLUMNS)
    for begin in range(0, V.shape[1], most):
        some = V[:, begin : begin + most]
        width = some.shape[1]
        # Kernels take only certain numbers of columns. Columns of zeros cost less than another
        # pass.
        padded = cupy.zeros((V.shape[0], min(c for c in cuda.COLUMNS if c >= width)))
        padded[:, :width] = some
        out[:, begin : begin + most] = product(padded)[:, :width]
    return out


class GpuDenseRows(ResidentRows):
    """A dense (n, d) array in device memory, C-ordered: float32, float64, or uint8."""

    def __init__(self, X: Array) -> None:
        if X.dtype == np.bool_:
            X = X.view(np.uint8)
        dtype = X.dtype if X.dtype in (np.float32, np.float64, np.uint8) else np.float64
        self.array = cupy.ascontiguousarray(X, dtype=dtype)
        self.n_rows, self.n_features = self.array.shape
        self.dtype = self.array.dtype
        self.type = cuda.type_name(self.dtype)

    def _scores(self, V: Array) -> Array:
        n, d = self.array.shape
        out = cupy.empty((n, V.shape[1]))
        name = f"dense_scores<{self.type}, {V.shape[1]}>"
        V = cupy.ascontiguousarray(V.T)
        cuda.launch(name, 8 * n, (self.array, n, np.int32(d), V, out))
        return out

    def _combine(self, G: Array, squares: bool) -> Array:
        n, d = self.array.shape
        tiles = -(-d // cuda.TILE)
        parts = max(1, min(-(-n // 64), _PARTS // max(1, tiles)))
        partial = cupy.empty((parts, d, G.shape[1]))
        name = f"dense_combine<{self.type}, {G.shape[1]}>"
        arguments = (self.array, n, np.int32(d), G, squares, partial)
        cuda.launch(name, cuda.THREADS * parts, arguments, blocks_y=tiles)
        return partial.sum(axis=0)

    def _scaled(self, index: Array, factor: Array, center: Array) -> Array:
        piece = cupy.empty((index.size, self.n_features))
        arguments = (self.array, np.int32(self.n_features), index, factor, center, index.size)
        cuda.launch(f"copy_scaled<{self.type}>", piece.size, (*arguments, piece))
        return piece

    def is_finite(self) -> bool:
        """Return whether all entries are finite."""
        return _is_finite(self.array)

    @cached_property
    def _squared_norms(self) -> Array:
        norms = cupy.empty(self.n_rows)
        step = max(32, _MOMENTS_PIECE // (8 * max(1, self.n_features)))
        for begin in range(0, self.n_rows, step):
            part = self.array[begin : begin + step].astype(np.float64)
            norms[begin : begin + step] = (part * part).sum(axis=1)
        return norms

    def take(self, index: Array | slice) -> "GpuDenseRows":
        return GpuDenseRows(self.array[index])


class GpuCsrRows(ResidentRows):
    """CSR rows in device memory: float32 or float64 values, int32 columns, int64 row pointers.

    Parameters
    ----------
    values, places, starts : arrays of shape (nnz,), (nnz,), (n + 1,)
        Values, columns and row pointers.
    """

    def __init__(self, values: Array, places: Array, starts: Array, n_features: int):
        self.values = cupy.ascontiguousarray(
            values, dtype=np.float32 if values.dtype == np.float32 else np.float64
        )
        self.places = cupy.ascontiguousarray(places, dtype=np.int32)
        self.starts = cupy.ascontiguousarray(starts, dtype=np.int64)
        self.n_rows, self.n_features = self.starts.size - 1, n_features
        self.n_entries = self.values.size
        self.dtype = self.values.dtype
        self.type = cuda.type_name(self.dtype)

    def _tiles(self, transposed: bool) -> Tiles | None:
        if self.dtype != np.float32 or not _MANY_ENTRIES <= self.values.size <= _MOST_ENTRIES:
            return None
        n_places = self.n_rows if transposed else self.n_features
        if not _MANY_PLACES <= n_places <= most_places():
            return None
        # Tiles take about as much memory as the rows. Other arrays need memory as well.
        if 4 * (self.values.nbytes + self.places.nbytes) > free_bytes():
            return None
        return Tiles(self.values, self.places, self.starts, self._sizes, transposed=transposed)

    @cached_property
    def _sizes(self) -> Sizes:
        return Sizes.of(self.values, self.places, self.starts, self.n_features)

    @cached_property
    def _row_tiles(self) -> Tiles | None:
        """The rows in tiles; None if tiles are not faster or do not fit."""
        return self._tiles(transposed=False)

    @cached_property
    def _column_tiles(self) -> Tiles | None:
        """The columns in tiles; None if tiles are not faster or do not fit."""
        return self._tiles(transposed=True)

    @cached_property
    def _lines(self) -> "_Lines":
        return _Lines(self.values, self.places, self.starts)

    @cached_property
    def _columns(self) -> "_Lines | None":
        """A transposed copy of the rows; None if it does not fit."""
        size = self.values.nbytes + self.places.nbytes
        if self.values.size >= 1 << 31 or 3 * size > free_bytes():
            return None
        rows = cupyx.scipy.sparse.csr_matrix(
            (self.values, self.places, self.starts.astype(np.int32)),
            shape=(self.n_rows, self.n_features),
        )
        columns = rows.tocsc()
        return _Lines(columns.data, columns.indices, columns.indptr.astype(np.int64))

    @cached_property
    def _largest(self) -> float:
        return largest(self.values)

    def _scores(self, V: Array) -> Array:
        if V.shape[1] == 1 and self._row_tiles is not None:
            return self._row_tiles.product(V[:, 0])[:, None]
        return self._lines.product(V)

    def _combine(self, G: Array, squares: bool) -> Array:
        if G.shape[1] == 1 and self._column_tiles is not None:
            return self._column_tiles.product(G[:, 0], squares)[:, None]
        if self._columns is not None:
            return self._columns.product(G, squares)
        return fixed_point(self._add, self._largest, G, self, squares)

    def round(self, w: Array) -> Array | Rounded:
        tiles = self._tiles_for("scores", w)
        return w if tiles is None else tiles.round(w)

    def rounded(self, name: str, v: Array) -> Array:
        tiles = self._tiles_for(name, v)
        return v if tiles is None else tiles.rounded(v)

    def _tiles_for(self, name: str, v: Array) -> Tiles | None:
        if not isinstance(v, Array) or v.ndim > 1:
            return None
        return self._row_tiles if name == "scores" else self._column_tiles

    def _add(self, G: Array, squares: bool, scale: float, out: Array) -> None:
        """Add scale X^T G, with its terms rounded to integers, to the integers out (d, k)."""
        name = f"sparse_add<{self.type}, {G.shape[1]}>"
        arguments = (self.values, self.places, self.starts, self.n_rows, G, squares, scale, out)
        cuda.launch(name, 8 * self.n_rows, arguments)

    def _scaled(self, index: Array, factor: Array, center: Array) -> Array:
        piece = factor[:, None] * -center
        arguments = (np.int32(self.n_features), index, factor, index.size, piece)
        arrays = (self.values, self.places, self.starts)
        cuda.launch(f"add_scaled<{self.type}>", 32 * index.size, (*arrays, *arguments))
        return piece

    def is_finite(self) -> bool:
        """Return whether all entries are finite."""
        return _is_finite(self.values)

    @cached_property
    def plain(self) -> "GpuCsrRows":
        """The same rows without tiles, because tiles compute sums in integers."""
        rows = copy.copy(self)
        rows._row_tiles = rows._column_tiles = None
        return rows

    def combine_error(self, size: float) -> float:
        return 0.0 if self._columns is not None else fixed_point_error(self, size)

    @cached_property
    def longest_row(self) -> int:
        return int((self.starts[1:] - self.starts[:-1]).max()) if self.n_rows else 0

    @cached_property
    def _squared_norms(self) -> Array:
        return self._lines.product(cupy.ones((self.n_features, 1)), squares=True)[:, 0]

    def take(self, index: Array) -> "GpuCsrRows":
        if index.dtype == np.bool_:
            index = cupy.flatnonzero(index)
        index = index.astype(np.int64, copy=False)
        starts = cupy.zeros(index.size + 1, dtype=np.int64)
        starts[1:] = cupy.cumsum((self.starts[1:] - self.starts[:-1])[index])
        size = int(starts[-1])
        values, places = cupy.empty(size, self.dtype), cupy.empty(size, np.int32)
        arguments = (self.values, self.places, self.starts, index, starts, index.size)
        name = f"copy_rows<{self.type}>"
        cuda.launch(name, 32 * index.size, (*arguments, values, places))
        return GpuCsrRows(values, places, starts, self.n_features)


def largest(values: Any) -> float:
    """Return the largest absolute value; 0 if there is none."""
    return max(float(values.max()), -float(values.min())) if values.size else 0.0


def fixed_point(add: Callable, largest: float, G: Array, rows: Rows, squares: bool) -> Array:
    """Return X^T G, (d, k), by fixed-point sums; `add` adds scale X^T G to integers."""
    bound = largest ** (2 if squares else 1) * float(cupy.abs(G).sum(axis=0).max())
    out = cupy.zeros((rows.n_features, G.shape[1]), dtype=np.uint64)
    if bound == 0.0:
        return out.astype(np.float64)
    scale = 2.0 ** (_SUM_BITS - np.frexp(bound)[1])
    add(G, squares, scale, out)
    return out.view(np.int64) / scale


def fixed_point_error(rows: Any, size: float) -> float:
    """Return a bound on the error of `fixed_point`, as a Euclidean norm, if sum |G_i| is `size`.

    Each product is rounded to an integer.
    """
    unit = 2.0 ** (1 - _SUM_BITS) * rows._largest * size
    return rows.n_rows * math.sqrt(rows.n_features) * unit


class _Lines:
    """A sparse matrix whose lines are cut into items, grouped by size.

    Lines are rows, or the columns of a transposed copy. values, places (nnz,) and starts (m + 1,)
    are the arrays of CSR.
    """

    def __init__(self, values: Array, places: Array, starts: Array) -> None:
        self.values, self.places = values, places
        self.type = cuda.type_name(values.dtype)
        self.n_lines = starts.size - 1
        sizes = starts[1:] - starts[:-1]
        whole = cupy.flatnonzero(sizes <= _ITEM)
        cut = cupy.flatnonzero(sizes > _ITEM)
        begins, item_sizes, slots = starts[whole], sizes[whole], whole
        self.cut: tuple | None = None
        self.n_slots = self.n_lines
        if cut.size:
            from_, size = starts[cut].get(), sizes[cut].get()
            counts = -(-size // _ITEM)
            ends = np.cumsum(counts)
            nth = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
            more_sizes = np.minimum(np.repeat(size, counts) - nth * _ITEM, _ITEM)
            more_begins = np.repeat(from_, counts) + nth * _ITEM
            self.n_slots += int(ends[-1])
            begins = cupy.concatenate([begins, cupy.asarray(more_begins)])
            item_sizes = cupy.concatenate([item_sizes, cupy.asarray(more_sizes)])
            slots = cupy.concatenate([slots, cupy.arange(self.n_lines, self.n_slots)])
            found = cut.get(), self.n_lines + ends - counts, self.n_lines + ends
            self.cut = tuple(cupy.asarray(part.astype(np.int32)) for part in found)
        # One kernel call multiplies all items of about the same size.
        self.items, least = [], -1
        for most, team in cuda.TEAMS.items():
            some = cupy.flatnonzero((item_sizes > least) & (item_sizes <= most))
            least = most
            if some.size:
                sizes_of = item_sizes[some].astype(np.int32)
                chosen = (begins[some], sizes_of, slots[some].astype(np.int32), some.size)
                self.items.append((team, chosen))

    def product(self, V: Array, squares: bool = False) -> Array:
        """Return the products of the lines, or of their elementwise squares, with V, (m, k)."""
        k = V.shape[1]
        out = cupy.empty((self.n_slots, k))
        for team, items in self.items:
            name = f"sparse_dot<{self.type}, {k}, {team}>"
            arguments = (self.values, self.places, *items, V, squares, out)
            cuda.launch(name, team * items[-1], arguments)
        if self.cut is not None:
            cuda.fold(self.cut, out)
        return out[: self.n_lines]


def _is_finite(values: Array) -> bool:
    """Return whether all values are finite. A finite sum proves it, without a copy."""
    if values.dtype == np.uint8 or np.isfinite(float(values.sum(dtype=np.float64))):
        return True
    return bool(cupy.isfinite(values).all())


def free_bytes() -> int:
    """Return how many bytes of device memory can still be allocated."""
    pool = cupy.get_default_memory_pool()
    free = cupy.cuda.Device().mem_info[0] + pool.free_bytes()
    limit = pool.get_limit()
    return min(free, limit - pool.used_bytes()) if limit else free
