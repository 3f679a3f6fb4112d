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
# Threads that find the largest number: each block of them has its say in the end.
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
        self.cut = [part.astype(np.int32) for part in (cut, bases[cut], ends[cut])]
        beyond = cupy.arange(self.n_lines, self.n_slots)
        more = of_lines[cut[cupy.searchsorted(ends[cut], beyond, side="right")]]
        self.of_slots = cupy.concatenate([of_lines, more])
        self._share_memory()
        pieces = cupy.stack([bases, pieces], axis=1).astype(np.int32)
        shape = map(np.int32, (self.n_blocks, self.n_tiles, self.width))
        entries = (columns, starts, n_rows, transposed, pieces, *shape)

        cells = cupy.zeros(self.n_blocks * self.n_tiles, dtype=np.int32)
        counts = cupy.zeros(self.n_slots, dtype=np.int32)
        cuda.launch("tile_count", 32 * n_rows, (*entries, cells, counts))
        # Threads take four entries at a time; a cell is filled up with zeros.
        self.starts = cupy.zeros(cells.size + 1, dtype=np.int32)
        cupy.cumsum(-(-cells // 4) * 4, out=self.starts[1:])
        size, most = map(int, cupy.stack([self.starts[-1], counts.max()]).get())
        self.values = cupy.zeros(size, dtype=np.float32)
        self.codes = cupy.zeros(size, dtype=np.uint32)
        where = (self.starts[:-1].copy(), self.values, self.codes)
        cuda.launch("tile_fill", 32 * n_rows, (*entries, values, *sizes, *where))

        # Entries are below 2, their squares below 4; so the halves of sums stay below two to the
        # power of 32 and of 31.
        self.low_bits = 32 - most.bit_length()
        self.scale = 2.0 ** (27 + self.low_bits - most.bit_length())

    def _share_memory(self):
        """Decide how many blocks share the slots, and how wide tiles are."""
        processors, room = cuda.processors(), cuda.tile_bytes() // 4
        self.n_blocks = processors * -(-self.n_slots // (processors * int(room / _SLOTS_PART)))
        slots = -(-self.n_slots // self.n_blocks)
        # Beside sums are two tiles, and where cells begin.
        left = room - 2 * slots
        width = max(_WIDTH_STEP, (left // 2) // _WIDTH_STEP * _WIDTH_STEP)
        while 2 * width - (-self.n_places // width) + 2 > left:
            width -= _WIDTH_STEP
        self.width = min(width, 1 << 16)
        self.n_tiles = -(-self.n_places // self.width)
        self.shared_bytes = 4 * (2 * slots + 2 * self.width + self.n_tiles + 2)

    def product(self, v, squares=False):
        """Return the lines' products with v, (m,); of their squares, if asked."""
        v = cupy.ascontiguousarray(v)
        padded = self.n_tiles * self.width
        unit, needed = self._unit(v, squares)
        high, low = cupy.empty(padded, dtype=np.float32), cupy.empty(padded, dtype=np.float32)
        arguments = (v, self.of_places, squares, v.size, padded, unit, high, low, needed)
        cuda.launch("tile_split", padded, arguments)
        out = cupy.empty(self.n_slots)
        self._add(high, unit, None, squares, out)
        self._add(low, unit, needed, squares, out)
        cuda.fold(self.cut, out)
        return out[: self.n_lines]

    def rounded(self, v):
        """Return numbers near those of v, by as much as float32's are, that need no low part."""
        v = cupy.ascontiguousarray(v)
        unit, _ = self._unit(v, squares=False)
        out = cupy.empty(v.size)
        cuda.launch("tile_round", v.size, (v, self.of_places, v.size, unit, out))
        return out

    def _unit(self, v, squares):
        """Return the largest of v, and a zero that will say whether the low part is needed."""
        room = cupy.zeros(2)
        unit, needed = room[:1], room[1:].view(np.int32)
        arguments = (v, self.of_places, squares, v.size, unit)
        cuda.launch("tile_unit", min(v.size, _FEW_THREADS), arguments)
        return unit, needed

    def _add(self, part, unit, needed, squares, out):
        low = needed is not None
        matrix = (self.values, self.codes, self.starts)
        matrix += (np.int32(self.n_tiles), np.int32(self.width))
        vector = (part, unit, needed if low else 0, self.scale * 2.0**24 if low else self.scale)
        sums = (np.int32(self.low_bits), squares, low, np.int32(self.n_slots), self.of_slots, out)
        cuda.launch_tiles(self.n_blocks, self.shared_bytes, (*matrix, *vector, *sums))
