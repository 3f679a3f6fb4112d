"""Features made of rows: products with a matrix, and cosines, the same bits for a row anywhere.

The sums of a row are made in the order of its entries, without fused or reordered operations. So
the result for a row depends on the row and the matrix alone: not on the rows beside it, on
threads, on whether it is stored dense or sparse, or on the processor.
"""

from typing import Any

import numpy as np
from numba.extending import overload

from widemargin.kernels.jit import kernel

_OPTIONS: Any = {"fastmath": set(), "error_model": "numpy"}
# Columns of the matrix that are used at a time: d x so many numbers should stay in cache.
_COLUMNS_AT_ONCE = 512


def row_entries(rows, i, places, values):
    """Write the entries of row i that are not zero, in order; return how many."""
    raise NotImplementedError("only inside compiled kernels")


@overload(row_entries, jit_options=_OPTIONS)
def _row_entries_dense(rows, i, places, values):
    if len(rows) != 1:
        return None

    def dense(rows, i, places, values):
        x, count = rows[0][i], 0
        for k in range(x.shape[0]):
            places[count], values[count] = k, x[k]
            count += x[k] != 0
        return count

    return dense


@overload(row_entries, jit_options=_OPTIONS)
def _row_entries_csr(rows, i, places, values):
    if len(rows) != 3:
        return None

    def csr(rows, i, places, values):
        entries, indices, indptr = rows
        count = 0
        for k in range(np.intp(indptr[i]), np.intp(indptr[i + 1])):
            if entries[k] != 0:
                places[count], values[count] = indices[k], entries[k]
                count += 1
        return count

    return csr


@kernel(fastmath=frozenset())
def products(rows, begin, end, matrix, out):
    """Add x_i matrix to out[i - begin], for begin <= i < end.

    `matrix` is (d, m), `out` (end - begin, m) of the same type. Zeros of a row are left out.
    """
    d, m = matrix.shape
    places, factors = np.empty(d + 1, dtype=np.int64), np.empty(d + 1, dtype=matrix.dtype)
    for first in range(0, m, _COLUMNS_AT_ONCE):
        last = min(first + _COLUMNS_AT_ONCE, m)
        for i in range(begin, end):
            total = out[i - begin, first:last]
            count = row_entries(rows, i, places, factors)
            k = 0
            while k + 4 <= count:
                a, b, c, e = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
                of_a, of_b = matrix[places[k], first:last], matrix[places[k + 1], first:last]
                of_c, of_e = matrix[places[k + 2], first:last], matrix[places[k + 3], first:last]
                for j in range(last - first):
                    total[j] = total[j] + a * of_a[j] + b * of_b[j] + c * of_c[j] + e * of_e[j]
                k += 4
            while k < count:
                a, of_a = factors[k], matrix[places[k], first:last]
                for j in range(last - first):
                    total[j] = total[j] + a * of_a[j]
                k += 1


# pi in three parts, of which the first two have few digits: multiples of them are exact.
_HIGH, _MIDDLE, _LOW = (
    np.float32(3.140625),
    np.float32(0.0009670257568359375),
    np.float32(6.2783295730096264e-7),
)
_PER_PI = np.float32(1.0 / np.pi)
_HALF, _ONE, _TWO = np.float32(0.5), np.float32(1.0), np.float32(2.0)


@kernel(fastmath=frozenset())
def cosines(phases, factor):
    """Replace phases, (n, m) float32, by factor * cos(phase)."""
    for i in range(phases.shape[0]):
        row = phases[i]
        for j in range(row.shape[0]):
            t = row[j]
            turns = np.floor(t * _PER_PI + _HALF)
            r = ((t - turns * _HIGH) - turns * _MIDDLE) - turns * _LOW
            sign = _ONE - _TWO * (turns - _TWO * np.floor(turns * _HALF))
            s = r * r
            p = np.float32(-2.7557319e-7)
            p = p * s + np.float32(2.4801587e-5)
            p = p * s + np.float32(-1.3888889e-3)
            p = p * s + np.float32(4.1666667e-2)
            p = p * s + np.float32(-0.5)
            row[j] = factor * (sign * (p * s + _ONE))
