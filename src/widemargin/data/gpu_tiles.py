"""Products of large sparse matrices with one vector, on a GPU, out of shared memory.

A product fetches a number for each entry, and adds to one. At random places of the device's memory
both take far longer than to read the entry. So entries are sorted into cells: a cell has the
entries of some lines, whose sums fit into the shared memory of a multiprocessor, at some
neighbouring places, and so do the numbers there. A block has its lines' sums and goes from cell to
cell, and the whole vector comes by.

Sums are integers, which add up to the same in any order, and fine enough for float64's accuracy.
The vector is high + low of 32 bits each, with a product for each of them; but for the second one
only if low is not zero: see `rounded`.
"""

from typing import NamedTuple

import cupy
import numpy as np

from widemargin.kernels import cuda

# Entries of a line that share a sum; longer lines have several, lest all threads wait for one.
_PIECE = 512
# One entry in so many tells how long columns are.
_SAMPLE = 64
# Of this many parts of shared memory sums, of two words each, may take two.
_SLOTS_PART = 3.5
_WIDTH_STEP = 256
# Tiles that are in shared memory, or on their way there: as in kernels/cuda/tiles.cu.
_BUFFERS = 2
# Threads that find the largest number: all that read it go through what their blocks have found.
_FEW_THREADS = 1 << 16


def most_places() -> int:
    """Return how wide a matrix may be: where cells begin must fit beside tiles."""
    return (cuda.tile_bytes() // 4) ** 2 // 64


class Sizes(NamedTuple):
    """Powers of two that rows and columns are divided by, (n,) and (d,); float32.

    Then the largest entry of each of them is not far from 1, and integers are as fine for all.
    """

    rows: cupy.ndarray
    columns: cupy.ndarray

    @classmethod
    def of(cls, values, columns, starts, n_features: int):
        """Return those of float32 rows in CSR."""
        n_rows = starts.size - 1
        peaks = cupy.zeros(n_features, dtype=np.uint32)
        cuda.launch("tile_peaks", values.size, (values, columns, values.size, peaks))
        found = cls(cupy.empty(n_rows, dtype=np.float32), cupy.empty(n_features, dtype=np.float32))
        arguments = (values, columns, starts, n_rows, n_features, peaks, *found)
        cuda.launch("tile_sizes", 32 * n_rows, arguments)
        return found


class Tiles:
    """The lines of a sparse matrix, its rows or its columns, in cells.

    Parameters
    ----------
    values, columns, starts : arrays of shape (nnz,), (nnz,), (n + 1,)
        As of CSR: float32, int32, int64.
    sizes : Sizes
    transposed : bool
        Whether lines are columns.
    """

    def __init__(self, values, columns, starts, sizes: Sizes, *, transposed: bool):
        n_rows = starts.size - 1
        of_lines, self.of_places = sizes[::-1] if transposed else sizes
        self.n_lines, self.n_places = of_lines.size, self.of_places.size
        if transposed:  # about how many entries lines have: all of them would take longer
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
        # Threads take four entries at a time, and a block's warps begin with its first one: cells
        # are filled up with zeros.
        cells = -(-banks.sum(axis=2, dtype=np.int32) // 4) * 4
        cells[:, -1] += -cells.sum(axis=1, dtype=np.int32) % 128
        cell_starts = cupy.zeros(cells.size + 1, dtype=np.int32)
        cupy.cumsum(cells.ravel(), out=cell_starts[1:])
        size, most = map(int, cupy.stack([cell_starts[-1], counts.max()]).get())
        filled, codes = cupy.zeros(size, dtype=np.float32), cupy.zeros(size, dtype=np.uint32)
        where = (banks, cell_starts, cupy.zeros_like(banks), filled, codes)
        cuda.launch("tile_fill", 32 * n_rows, (*entries, values, *sizes, *where))
        self.matrix = (filled, codes, cell_starts, *shape[1:])

        # Entries are below 2, their squares below 4: then sums of both integers stay within 31
        # bits, and each of them within the 22 that the kernel's way to round has.
        bits = most.bit_length()
        self.scales = [np.float32(2.0**k) for k in (min(20, 29 - bits), min(22, 31 - bits))]

    def _share_memory(self):
        """Decide how many blocks share the slots, and how wide tiles are."""
        processors, room = cuda.processors(), cuda.tile_bytes() // 4
        self.n_blocks = processors * -(-self.n_slots // (processors * int(room / _SLOTS_PART)))
        slots = -(-self.n_slots // self.n_blocks)
        # Beside sums are some tiles, three words for each of these, and where cells begin.
        left = room - 2 * slots - 3 * _BUFFERS
        width = max(_WIDTH_STEP, (left // _BUFFERS) // _WIDTH_STEP * _WIDTH_STEP)
        while _BUFFERS * width - (-self.n_places // width) + 1 > left:
            width -= _WIDTH_STEP
        self.width = min(width, 1 << 16)
        self.n_tiles = -(-self.n_places // self.width)
        words = 2 * slots + _BUFFERS * (self.width + 3) + self.n_tiles + 1
        self.shared_bytes = 4 * words

    def product(self, v, squares=False):
        """Return the lines' products with v, (m,); of their squares, if asked."""
        v = cupy.ascontiguousarray(v)
        unit, parts = self._unit(v, squares), self._room_for_parts()
        arguments = (v, self.of_places, squares, v.size, parts.size // 2, *unit, parts)
        cuda.launch("tile_split", parts.size // 8, arguments)
        return self.product_of(Rounded(self, parts, unit[1]), squares)

    def rounded(self, v):
        """Return numbers near those of v, by as much as float32's are, that need no low part."""
        v = v.copy()
        self.round(v)
        return v

    def round(self, v):
        """Round v in place to such numbers; return what `product_of` takes for it."""
        unit, parts = self._unit(v, squares=False), self._room_for_parts()
        arguments = (v, self.of_places, v.size, parts.size // 2, *unit, parts)
        cuda.launch("tile_round", parts.size // 8, arguments)
        return Rounded(self, parts, unit[1])

    def product_of(self, vector: "Rounded", squares=False):
        """As `product`, with a vector that is in parts."""
        out = cupy.empty(self.n_slots)
        arguments = (*self.matrix, vector.parts, vector.unit, *self.scales, squares)
        arguments += (np.int32(self.n_slots), self.of_slots, out)
        cuda.launch_tiles(self.n_blocks, self.shared_bytes, arguments)
        cuda.fold(self.cut, out)
        return out[: self.n_lines]

    def _room_for_parts(self):
        return cupy.empty(2 * self.n_tiles * self.width, dtype=np.float32)

    def _unit(self, v, squares):
        """Begin to find v's unit; return how many blocks do, and where they leave what they find.

        The kernel that is given both completes it.
        """
        blocks = -(-min(v.size, _FEW_THREADS) // cuda.THREADS)
        unit = cupy.empty(2 + blocks)
        arguments = (v, self.of_places, squares, v.size, unit)
        cuda.launch("tile_unit", blocks * cuda.THREADS, arguments)
        return np.int32(blocks), unit


class Rounded(NamedTuple):
    """A vector as a product with tiles takes it: unit (high + low), for its places."""

    tiles: Tiles
    parts: cupy.ndarray  # high, then low, float32
    unit: cupy.ndarray  # and whether low is needed
