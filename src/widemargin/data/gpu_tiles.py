"""Products of large sparse matrices with one vector on a GPU, in tiles that fit shared memory.

Lines are the rows of the matrix, or its columns for X^T g. Places are the positions within a line.
For each entry, a product reads a number of the vector and adds to the sum of a line. In device
memory, both are at random addresses and take far longer than reading the entry. So the entries are
sorted into cells: a cell has the entries of some lines at a range of neighbouring places. The sums
of these lines fit into the shared memory of a multiprocessor, together with the tile of the vector
at these places. A thread block keeps the sums of its lines in shared memory. It goes through their
cells one by one, while the tiles of the vector are copied to shared memory.

Each sum is two integers, so it does not depend on the order of its terms. Their scales are fine
enough for the accuracy of float64. The vector is split into high + low, of 32 bits each, with one
product for each part. If low is zero, the second product is left out: see `rounded`.
"""

from typing import NamedTuple

import cupy
import numpy as np
from cupy import ndarray as Array

from widemargin.kernels import cuda

# The largest number of entries that add to one sum. Longer lines have several sums (slots), so
# that fewer threads wait for each other.
_PIECE = 512
# One entry in so many is sampled to estimate the number of entries of each column.
_SAMPLE = 64
# A thread block has at most one sum for so many words of shared memory. A sum takes two words.
_SLOTS_PART = 3.5
_WIDTH_STEP = 256
# How many tiles are in shared memory: one in use, one being copied. As in kernels/cuda/tiles.cu.
_BUFFERS = 2
# The largest number of threads that look for the largest number of a vector. They are few, because
# each block of the next kernel reads the results of all their blocks.
_FEW_THREADS = 1 << 16


def most_places() -> int:
    """Return the largest number of places: the starts of cells must also fit shared memory."""
    return (cuda.tile_bytes() // 4) ** 2 // 64


class Sizes(NamedTuple):
    """Powers of two by which rows and columns are divided, (n,) and (d,), in float32.

    After that, the largest entry of each row and column is not far from 1. So the same scale of
    integers is precise enough for all of them.
    """

    rows: Array
    columns: Array

    @classmethod
    def of(cls, values: Array, columns: Array, starts: Array, n_features: int) -> "Sizes":
        """Return the sizes of float32 rows in CSR."""
        n_rows = starts.size - 1
        peaks = cupy.zeros(n_features, dtype=np.uint32)
        cuda.launch("tile_peaks", values.size, (values, columns, values.size, peaks))
        found = cls(cupy.empty(n_rows, dtype=np.float32), cupy.empty(n_features, dtype=np.float32))
        arguments = (values, columns, starts, n_rows, n_features, peaks, *found)
        cuda.launch("tile_sizes", 32 * n_rows, arguments)
        return found


class Tiles:
    """The lines of a sparse matrix, with entries sorted into cells.

    values (nnz,) float32, columns (nnz,) int32 and starts (n + 1,) int64 are the arrays of CSR.
    Lines are its rows or, if `transposed`, its columns.
    """

    def __init__(
        self, values: Array, columns: Array, starts: Array, sizes: Sizes, *, transposed: bool
    ):
        n_rows = starts.size - 1
        of_lines, self.of_places = sizes[::-1] if transposed else sizes
        self.n_lines, self.n_places = of_lines.size, self.of_places.size
        if transposed:  # an estimate, since counting all entries would take longer
            counts = _SAMPLE * cupy.bincount(columns[::_SAMPLE], minlength=self.n_lines)
        else:
            counts = cupy.diff(starts)
        is_cut = counts > _PIECE
        pieces = cupy.where(is_cut, -(-counts // _PIECE), 1)
        ends = self.n_lines + cupy.cumsum(cupy.where(is_cut, pieces, 0))
        bases = cupy.where(is_cut, ends - pieces, cupy.arange(self.n_lines))
        self.n_slots, cut = int(ends[-1]), cupy.flatnonzero(is_cut)
        self.cut = tuple(part.astype(np.int32) for part in (cut, bases[cut], ends[cut]))
        beyond = cupy.arange(self.n_lines, self.n_slots)
        more = of_lines[cut[cupy.searchsorted(ends[cut], beyond, side="right")]]
        self.of_slots = cupy.concatenate([of_lines, more])
        self._share_memory()
        pieces = cupy.stack([bases, pieces], axis=1).astype(np.int32)
        shape = [np.int32(count) for count in (self.n_blocks, self.n_tiles, self.width)]
        entries = (columns, starts, n_rows, transposed, pieces, *shape)

        banks = cupy.zeros((self.n_blocks, self.n_tiles, 32), dtype=np.int32)
        counts = cupy.zeros(self.n_slots, dtype=np.int32)
        cuda.launch("tile_count", 32 * n_rows, (*entries, banks, counts))
        # Cells are filled up with zeros. A thread reads four entries at a time, and a warp 128.
        # The entries of a block are a multiple of 128, so that warps start with its first entry.
        cells = -(-banks.sum(axis=2, dtype=np.int32) // 4) * 4
        cells[:, -1] += -cells.sum(axis=1, dtype=np.int32) % 128
        cell_starts = cupy.zeros(cells.size + 1, dtype=np.int32)
        cupy.cumsum(cells.ravel(), out=cell_starts[1:])
        size, most = map(int, cupy.stack([cell_starts[-1], counts.max()]).get())
        filled, codes = cupy.zeros(size, dtype=np.float32), cupy.zeros(size, dtype=np.uint32)
        where = (banks, cell_starts, cupy.zeros_like(banks), filled, codes)
        cuda.launch("tile_fill", 32 * n_rows, (*entries, values, *sizes, *where))
        self.matrix = (filled, codes, cell_starts, *shape[1:])

        # Entries are below 2, and their squares below 4. With these scales, the sums of both
        # integers fit 31 bits, and each of their terms fits the 22 bits of the kernel's rounding.
        bits = most.bit_length()
        self.scales = [np.float32(2.0**k) for k in (min(20, 29 - bits), min(22, 31 - bits))]

    def _share_memory(self) -> None:
        """Choose the number of thread blocks, and the width of tiles."""
        processors, room = cuda.processors(), cuda.tile_bytes() // 4
        self.n_blocks = processors * -(-self.n_slots // (processors * int(room / _SLOTS_PART)))
        slots = -(-self.n_slots // self.n_blocks)
        # Shared memory holds the sums, the tiles with three words each, and the starts of cells.
        left = room - 2 * slots - 3 * _BUFFERS
        width = max(_WIDTH_STEP, (left // _BUFFERS) // _WIDTH_STEP * _WIDTH_STEP)
        while _BUFFERS * width - (-self.n_places // width) + 1 > left:
            width -= _WIDTH_STEP
        self.width = min(width, 1 << 16)
        self.n_tiles = -(-self.n_places // self.width)
        words = 2 * slots + _BUFFERS * (self.width + 3) + self.n_tiles + 1
        self.shared_bytes = 4 * words

    def product(self, v: Array, squares: bool = False) -> Array:
        """Return the products of the lines, or of their elementwise squares, with v, (m,)."""
        v = cupy.ascontiguousarray(v)
        unit, parts = self._unit(v, squares), self._room_for_parts()
        arguments = (v, self.of_places, squares, v.size, parts.size // 2, *unit, parts)
        cuda.launch("tile_split", parts.size // 8, arguments)
        return self.product_of(Rounded(self, parts, unit[1]), squares)

    def rounded(self, v: Array) -> Array:
        """Return v rounded to about the precision of float32, so that low is zero."""
        v = v.copy()
        self.round(v)
        return v

    def round(self, v: Array) -> "Rounded":
        """Round v in place, as `rounded` does; return the argument for `product_of`."""
        unit, parts = self._unit(v, squares=False), self._room_for_parts()
        arguments = (v, self.of_places, v.size, parts.size // 2, *unit, parts)
        cuda.launch("tile_round", parts.size // 8, arguments)
        return Rounded(self, parts, unit[1])

    def product_of(self, vector: "Rounded", squares: bool = False) -> Array:
        """Return `product` with a vector that is already split into high and low."""
        out = cupy.empty(self.n_slots)
        arguments = (*self.matrix, vector.parts, vector.unit, *self.scales, squares)
        arguments += (np.int32(self.n_slots), self.of_slots, out)
        cuda.launch_tiles(self.n_blocks, self.shared_bytes, arguments)
        cuda.fold(self.cut, out)
        return out[: self.n_lines]

    def _room_for_parts(self) -> Array:
        return cupy.empty(2 * self.n_tiles * self.width, dtype=np.float32)

    def _unit(self, v: Array, squares: bool) -> tuple[np.int32, Array]:
        """Start to compute the unit of v; return the number of thread blocks and their results.

        The next kernel takes both, and computes the unit from them.
        """
        blocks = -(-min(v.size, _FEW_THREADS) // cuda.THREADS)
        unit = cupy.empty(2 + blocks)
        arguments = (v, self.of_places, squares, v.size, unit)
        cuda.launch("tile_unit", blocks * cuda.THREADS, arguments)
        return np.int32(blocks), unit


class Rounded(NamedTuple):
    """A vector split for a product with tiles: unit (high + low)."""

    tiles: Tiles
    parts: Array  # high, then low, float32
    unit: Array  # the unit, and whether low is not zero
