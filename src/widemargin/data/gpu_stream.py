"""Rows in the host's memory that every product streams through a GPU, block by block.

While the GPU computes with one block, it copies the next one. The rows are pinned, so that the GPU
can read them without the host. If memory cannot be pinned (files mapped for reading), the host
waits for each copy.
"""

import copy
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import cupy
import numpy as np
import scipy.sparse
from cupy import ndarray as Array

from widemargin.data.gpu import (
    GpuCsrRows,
    GpuDenseRows,
    GpuRows,
    fixed_point,
    fixed_point_error,
    largest,
)
from widemargin.data.rows import Rows

# How many blocks are in device memory: one in use, one being copied.
_BUFFERS = 2


class _Block(NamedTuple):
    begin: int
    end: int


class StreamedRows(GpuRows):
    """Rows that stay in the host's memory.

    X is an ndarray, C-ordered, or canonical CSR, of float32 or float64. All blocks together may
    take `device_bytes` of device memory.
    """

    _plainly = False

    def __init__(self, X: Any, device_bytes: int):
        self.host = X
        self.n_rows, self.n_features = X.shape
        self.dtype = X.dtype
        self.sparse = scipy.sparse.issparse(X)
        self.n_entries = X.data.size if self.sparse else X.size
        arrays = (X.data, X.indices, X.indptr) if self.sparse else (X,)
        self._pins = [_Pin(array) for array in arrays]
        self.blocks_of_rows = _cut(X, device_bytes // _BUFFERS)
        self._copies = cupy.cuda.Stream(non_blocking=True)

    def take(self, index: Array) -> Rows:
        from widemargin.data.devices import to_gpu

        return to_gpu(self.host[cupy.asnumpy(index)])

    @cached_property
    def longest_row(self) -> int:
        return int(np.diff(self.host.indptr).max(initial=0)) if self.sparse else self.n_features

    def combine_error(self, size: float) -> float:
        return fixed_point_error(self, size) if self.sparse else 0.0

    @cached_property
    def plain(self) -> "StreamedRows":
        """The same rows, with products that use no tiles."""
        rows = copy.copy(self)
        rows._plainly = True
        return rows

    @cached_property
    def _squared_norms(self) -> Array:
        return cupy.concatenate([rows.squared_norms() for _, rows in self._on_device()])

    def _scores(self, V: Array) -> Array:
        out = cupy.empty((self.n_rows, V.shape[1]))
        for block, rows in self._on_device():
            used: Any = rows.plain if self._plainly else rows
            out[block.begin : block.end] = used._scores(V)
        return out

    def _combine(self, G: Array, squares: bool) -> Array:
        if self.sparse:
            return fixed_point(self._add, self._largest, G, self, squares)
        total = cupy.zeros((self.n_features, G.shape[1]))
        for block, rows in self._on_device():
            total += rows._combine(G[block.begin : block.end], squares)
        return total

    def _add(self, G: Array, squares: bool, scale: float, out: Array) -> None:
        for block, rows in self._on_device():
            assert isinstance(rows, GpuCsrRows)
            rows._add(G[block.begin : block.end], squares, scale, out)

    @cached_property
    def _largest(self) -> float:
        return largest(self.host.data)

    def _on_device(self) -> Iterator[tuple[_Block, GpuDenseRows | GpuCsrRows]]:
        """Yield each block and its rows, copied while the block before it is in use."""
        compute = cupy.cuda.get_current_stream()
        buffers = [self._buffer() for _ in range(min(_BUFFERS, len(self.blocks_of_rows)))]
        free = [None] * len(buffers)  # events: the last use of a buffer has ended
        for number, block in enumerate(self.blocks_of_rows):
            place = number % len(buffers)
            if free[place] is not None:
                self._copies.wait_event(free[place])
            copied = self._copy(block, buffers[place])
            compute.wait_event(self._copies.record())
            yield block, self._rows(copied)
            free[place] = compute.record()
        compute.synchronize()  # before the buffers' memory is used again

    def _buffer(self) -> list[Array]:
        """Return device arrays that hold the largest block."""
        rows = max(block.end - block.begin for block in self.blocks_of_rows)
        if not self.sparse:
            return [cupy.empty((rows, self.n_features), self.dtype)]
        X = self.host
        entries = max(
            int(X.indptr[block.end]) - int(X.indptr[block.begin]) for block in self.blocks_of_rows
        )
        return [
            cupy.empty(entries, X.dtype),
            cupy.empty(entries, X.indices.dtype),
            cupy.empty(rows + 1, X.indptr.dtype),
        ]

    def _copy(self, block: _Block, buffer: list[Array]) -> list[Array]:
        """Copy a block into a buffer, on the stream for copies; return the filled parts of it."""
        begin, end = block
        X = self.host
        if self.sparse:
            entries = slice(int(X.indptr[begin]), int(X.indptr[end]))
            parts = [X.data[entries], X.indices[entries], X.indptr[begin : end + 1]]
        else:
            parts = [X[begin:end]]
        copied = [room[: len(part)] for room, part in zip(buffer, parts, strict=True)]
        for target, part in zip(copied, parts, strict=True):
            if part.size:
                target.set(part, stream=self._copies)
        return copied

    def _rows(self, arrays: list[Array]) -> GpuDenseRows | GpuCsrRows:
        if not self.sparse:
            return GpuDenseRows(*arrays)
        values, places, starts = arrays
        return GpuCsrRows(values, places, starts - starts[:1], self.n_features)


class _Pin:
    """Pins an array's memory, so that the GPU can read it, as long as this object exists."""

    def __init__(self, array: np.ndarray) -> None:
        self.address = 0
        if not array.size:
            return
        try:
            cupy.cuda.runtime.hostRegister(array.ctypes.data, array.nbytes, 0)
        except cupy.cuda.runtime.CUDARuntimeError:
            return  # the memory cannot be pinned, or is pinned already
        self.address = array.ctypes.data

    def __del__(self) -> None:
        if self.address:
            cupy.cuda.runtime.hostUnregister(self.address)


def _cut(X: Any, most_bytes: int) -> list[_Block]:
    """Return blocks of rows with at most `most_bytes` each, or of one row."""
    n = X.shape[0]
    if scipy.sparse.issparse(X):
        per_entry = X.data.itemsize + X.indices.itemsize
        # A row also takes device memory for its row pointer and its item in `_Lines`.
        sizes = X.indptr.astype(np.int64) * per_entry + np.arange(n + 1) * 64
    else:
        sizes = np.arange(n + 1) * (X.shape[1] * X.itemsize)
    blocks, begin = [], 0
    while begin < n:
        end = int(np.searchsorted(sizes, sizes[begin] + most_bytes, side="right")) - 1
        end = min(max(end, begin + 1), n)
        blocks.append(_Block(begin, end))
        begin = end
    return blocks
