"""Inner loops over rows, with one source for all layouts.

Kernels take rows as a tuple of arrays. The length of the tuple tells the layout:

- ``(values,)``: dense, values (n, d) in C order;
- ``(values, indices, indptr)``: CSR; indices and indptr viewed as *unsigned* integers,
  since signed ones need a wrap-around test at every access.

The layout of `row_dot`, `row_add` and `row_prefetch` is resolved when a kernel is compiled.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from widemargin.kernels.jit import IN_ORDER, REORDERING_MATH, kernel

_OPTIONS: Any = {"fastmath": set(REORDERING_MATH), "error_model": "numpy"}
# For scattered access: the gathers and scatters of a vectorised loop take two to three times
# as long as scalar code. All options are given, since an overload inherits the others from its
# caller.
_OPTIONS_IN_ORDER: Any = {"fastmath": set(IN_ORDER), "error_model": "numpy"}
_CACHE_LINE = 64  # bytes
# If at least one of _READ_ON of so many rows has to be added, all of them are. Else rows are
# prefetched so many rows before they are added.
_AT_ONCE, _READ_ON, _AHEAD = 512, 8, 8
# Dense rows of up to so many bytes are added four at a time, longer ones one by one: four streams
# take up to twice as long as one.
_SHORT_ROW = 256


def row_dot(rows, i, w):
    """Return x_i . w, accumulated in w's type."""
    raise NotImplementedError("only inside compiled kernels")


def row_add(rows, i, step, w):
    """Add step * x_i to w in place."""
    raise NotImplementedError("only inside compiled kernels")


def row_prefetch(rows, i):
    """Prefetch row i; costs nothing if it is in the cache.

    With prefetched rows, random order takes as long as the stored order.
    """
    raise NotImplementedError("only inside compiled kernels")


@intrinsic
def prefetch(typing_context, array, index):
    """Prefetch array.data[index] (flat index), by the processor's instruction."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte_pointer = ir.IntType(8).as_pointer()
        integer = ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte_pointer)
        declaration = ir.FunctionType(ir.VoidType(), [byte_pointer, integer, integer, integer])
        instruction = cgutils.get_or_insert_function(
            builder.module, declaration, "llvm.prefetch.p0"
        )
        for_read, keep_in_all_caches, data_cache = integer(0), integer(3), integer(1)
        builder.call(instruction, [address, for_read, keep_in_all_caches, data_cache])
        return context.get_dummy_value()

    return types.void(array, index), generate


@overload(row_dot, jit_options=_OPTIONS)
def _row_dot_dense(rows, i, w):
    if len(rows) != 1:
        return None

    def dense(rows, i, w):
        x = rows[0][i]
        total = w.dtype.type(0)
        for k in range(x.shape[0]):
            total += x[k] * w[k]
        return total

    return dense


@overload(row_dot, jit_options=_OPTIONS_IN_ORDER)
def _row_dot_csr(rows, i, w):
    if len(rows) != 3:
        return None

    def csr(rows, i, w):
        # Four sums at a time, so that no addition waits for the one before.
        values, indices, indptr = rows
        k, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        zero = w.dtype.type(0)
        a, b, c, d = zero, zero, zero, zero
        while k + np.uint64(4) <= end:
            a += values[k] * w[indices[k]]
            b += values[k + np.uint64(1)] * w[indices[k + np.uint64(1)]]
            c += values[k + np.uint64(2)] * w[indices[k + np.uint64(2)]]
            d += values[k + np.uint64(3)] * w[indices[k + np.uint64(3)]]
            k += np.uint64(4)
        while k < end:
            a += values[k] * w[indices[k]]
            k += np.uint64(1)
        return (a + b) + (c + d)

    return csr


@overload(row_add, jit_options=_OPTIONS)
def _row_add_dense(rows, i, step, w):
    if len(rows) != 1:
        return None

    def dense(rows, i, step, w):
        x = rows[0][i]
        factor = w.dtype.type(step)
        for k in range(x.shape[0]):
            w[k] += factor * x[k]

    return dense


@overload(row_add, jit_options=_OPTIONS_IN_ORDER)
def _row_add_csr(rows, i, step, w):
    if len(rows) != 3:
        return None

    def csr(rows, i, step, w):
        values, indices, indptr = rows
        factor = w.dtype.type(step)
        for k in range(indptr[i], indptr[i + 1]):
            w[indices[k]] += factor * values[k]

    return csr


@overload(row_prefetch, jit_options=_OPTIONS)
def _row_prefetch(rows, i):
    per_line = _CACHE_LINE // (rows[0].dtype.bitwidth // 8)
    if len(rows) == 1:

        def dense(rows, i):
            width = rows[0].shape[1]
            start = np.intp(i) * width
            # The hardware prefetches the rest of a long row by itself.
            for k in range(start, start + min(width, 8 * per_line), per_line):
                prefetch(rows[0], k)

        return dense

    def csr(rows, i):
        values, indices, indptr = rows
        for k in range(indptr[i], indptr[i + 1], per_line):
            prefetch(values, k)
            prefetch(indices, k)

    return csr


@kernel(fastmath=IN_ORDER)
def _scores_csr(values, indices, indptr, w, begin, end, out):
    """As `scores`, with the code of row_dot; a row begins where the last one ended."""
    one, three, four = np.uint64(1), np.uint64(3), np.uint64(4)
    k = np.uint64(indptr[begin])
    for i in range(begin, end):
        stop = np.uint64(indptr[i + 1])
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        while k + three < stop:
            a += values[k] * w[indices[k]]
            b += values[k + one] * w[indices[k + one]]
            c += values[k + np.uint64(2)] * w[indices[k + np.uint64(2)]]
            d += values[k + three] * w[indices[k + three]]
            k += four
        while k < stop:
            a += values[k] * w[indices[k]]
            k += one
        out[i] = (a + b) + (c + d)


@kernel
def scores(rows, w, begin, end, out):
    """out[i] = x_i . w for begin <= i < end."""
    if len(rows) == 1:
        for i in range(begin, end):
            out[i] = row_dot(rows, i, w)
    else:
        _scores_csr(rows[0], rows[1], rows[2], w, begin, end, out)


@kernel(fastmath=IN_ORDER)
def _combine_csr(values, indices, indptr, g, begin, end, out):
    """As `combine`, with the code of row_add, two entries at a time."""
    one, two = np.uint64(1), np.uint64(2)
    k = np.uint64(indptr[begin])
    for i in range(begin, end):
        stop = np.uint64(indptr[i + 1])
        factor = g[i]
        if factor != 0.0:
            while k + one < stop:
                first, second = factor * values[k], factor * values[k + one]
                out[indices[k]] += first
                out[indices[k + one]] += second
                k += two
            if k < stop:
                out[indices[k]] += factor * values[k]
        k = stop


@kernel
def _add_short_rows(rows, g, begin, end, out):
    """As `combine`, for dense rows; four at a time."""
    values = rows[0]
    last = end - (end - begin) % 4
    for i in range(begin, last, 4):
        a, b, c, d = g[i], g[i + 1], g[i + 2], g[i + 3]
        x, y, u, v = values[i], values[i + 1], values[i + 2], values[i + 3]
        for k in range(out.shape[0]):
            out[k] += (a * x[k] + b * y[k]) + (c * u[k] + d * v[k])
    for i in range(last, end):
        row_add(rows, i, g[i], out)


@kernel
def combine(rows, g, begin, end, out):
    """out += sum of g[i] x_i over begin <= i < end."""
    if len(rows) == 1:
        at = np.empty(_AT_ONCE, np.uint64)
        for low in range(begin, end, _AT_ONCE):
            high = min(low + _AT_ONCE, end)
            count = 0
            for i in range(low, high):
                at[count] = i
                count += 1 if g[i] != 0.0 else 0
            # Reading on is faster than leaving out a few rows: the hardware prefetches a stream.
            if _READ_ON * count <= high - low:
                for j in range(count):
                    row_prefetch(rows, at[min(j + _AHEAD, count - 1)])
                    row_add(rows, at[j], g[at[j]], out)
            elif rows[0].shape[1] * rows[0].itemsize <= _SHORT_ROW:
                _add_short_rows(rows, g, low, high, out)
            else:
                for i in range(low, high):
                    row_add(rows, i, g[i], out)
    else:
        _combine_csr(rows[0], rows[1], rows[2], g, begin, end, out)


@kernel(fastmath=IN_ORDER)
def _add_rows_csr(values, indices, indptr, at, g, out):
    """As `add_rows`, two entries at a time."""
    one, two = np.uint64(1), np.uint64(2)
    for j in range(g.shape[0]):
        factor = g[j]
        k, stop = np.uint64(indptr[at[j]]), np.uint64(indptr[at[j] + one])
        while k + one < stop:
            first, second = factor * values[k], factor * values[k + one]
            out[indices[k]] += first
            out[indices[k + one]] += second
            k += two
        if k < stop:
            out[indices[k]] += factor * values[k]


@kernel
def add_rows(rows, at, g, out):
    """out += sum of g[j] x_i, i = at[j], unsigned; four dense rows at a time."""
    if len(rows) == 1:
        values = rows[0]
        fours = g.shape[0] // 4 * 4
        for j in range(0, fours, 4):
            a, b, c, d = g[j], g[j + 1], g[j + 2], g[j + 3]
            x, y, u, v = values[at[j]], values[at[j + 1]], values[at[j + 2]], values[at[j + 3]]
            for k in range(out.shape[0]):
                out[k] += (a * x[k] + b * y[k]) + (c * u[k] + d * v[k])
        for j in range(fours, g.shape[0]):
            row_add(rows, at[j], g[j], out)
    else:
        _add_rows_csr(rows[0], rows[1], rows[2], at, g, out)


@kernel
def scores_many(rows, W, begin, end, out):
    """out[i] = x_i . W for begin <= i < end; W is (k, d) for dense rows, (d, k) for CSR."""
    if len(rows) == 1:
        for i in range(begin, end):
            for j in range(W.shape[0]):
                out[i, j] = row_dot(rows, i, W[j])
    else:
        values, indices, indptr = rows
        total = np.empty(W.shape[1])
        for i in range(begin, end):
            total[:] = 0.0
            for k in range(indptr[i], indptr[i + 1]):
                w = W[indices[k]]
                for j in range(W.shape[1]):
                    total[j] += values[k] * w[j]
            for j in range(W.shape[1]):
                out[i, j] = total[j]


@kernel
def scores_by_class(rows, W, begin, end, out):
    """As `scores_many`, with W (k, d) for CSR rows, too: for few rows and many features."""
    for j in range(W.shape[0]):
        for i in range(begin, end):
            out[i, j] = row_dot(rows, i, W[j])


@kernel
def combine_many(rows, G, begin, end, out):
    """out += sum of x_i G[i] over begin <= i < end; out as W of `scores_many`.

    Most of G is zero: a slope of a multi-class loss has two entries per row.
    """
    if len(rows) == 1:
        for i in range(begin, end):
            for j in range(G.shape[1]):
                if G[i, j] != 0.0:
                    row_add(rows, i, G[i, j], out[j])
    else:
        values, indices, indptr = rows
        for i in range(begin, end):
            for j in range(G.shape[1]):
                g = G[i, j]
                if g != 0.0:
                    for k in range(indptr[i], indptr[i + 1]):
                        out[indices[k], j] += g * values[k]


@kernel
def squared_norms(rows, begin, end, out):
    """out[i] = |x_i|^2 for begin <= i < end, in float64."""
    if len(rows) == 1:
        values = rows[0]
        for i in range(begin, end):
            total = 0.0
            for k in range(values.shape[1]):
                total += np.float64(values[i, k]) * values[i, k]
            out[i] = total
    else:
        values, indptr = rows[0], rows[-1]
        for i in range(begin, end):
            total = 0.0
            for k in range(indptr[i], indptr[i + 1]):
                total += np.float64(values[k]) * values[k]
            out[i] = total


@kernel
def score_squares(rows, v, begin, end, out):
    """out[i - begin] = x_i^2 . v, the square feature by feature, for begin <= i < end."""
    if len(rows) == 1:
        values = rows[0]
        for i in range(begin, end):
            x, total = values[i], 0.0
            for k in range(x.shape[0]):
                total += np.float64(x[k]) * x[k] * v[k]
            out[i - begin] = total
    else:
        values, indices, indptr = rows
        for i in range(begin, end):
            total = 0.0
            for k in range(indptr[i], indptr[i + 1]):
                total += np.float64(values[k]) * values[k] * v[indices[k]]
            out[i - begin] = total


@kernel
def combine_squares(rows, g, begin, end, out):
    """out += sum of g[i] x_i^2, feature by feature, over begin <= i < end."""
    if len(rows) == 1:
        values = rows[0]
        for i in range(begin, end):
            for k in range(values.shape[1]):
                out[k] += g[i] * values[i, k] * values[i, k]
    else:
        values, indices, indptr = rows
        for i in range(begin, end):
            for k in range(indptr[i], indptr[i + 1]):
                out[indices[k]] += g[i] * values[k] * values[k]


@kernel
def copy_scaled(values, index, factor, center, out):
    """out[j] = factor[j] (x_i - center), i = index[j], of dense rows."""
    for j in range(index.shape[0]):
        x, to = values[index[j]], out[j]
        for k in range(x.shape[0]):
            to[k] = factor[j] * (x[k] - center[k])


@kernel
def copy_scaled_csr(rows, index, factor, center, out):
    """As `copy_scaled`, of CSR rows."""
    values, indices, indptr = rows
    for j in range(index.shape[0]):
        i, scale, to = index[j], factor[j], out[j]
        for k in range(center.shape[0]):
            to[k] = -scale * center[k]
        for k in range(np.intp(indptr[i]), np.intp(indptr[i + 1])):
            to[indices[k]] += scale * values[k]


@kernel(fastmath=IN_ORDER)
def add_gram_csr(rows, index, weight, out):
    """out (d, d) += the upper triangle of sum_j weight[j] x_i x_i^T, i = index[j], of CSR rows."""
    values, indices, indptr = rows
    one = np.uint64(1)
    for j in range(index.shape[0]):
        i = index[j]
        k, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        while k < end:
            factor = weight[j] * values[k]
            target = out[indices[k]]
            m = k
            while m < end:
                target[indices[m]] += factor * values[m]
                m += one
            k += one


@kernel
def copy_rows(rows, index, out):
    """Copy the CSR rows `index`, (m,), to the front of the arrays `out`, whose indptr is set."""
    values, indices, indptr = rows
    to = np.uint64(0)
    for i in index:
        for k in range(indptr[i], indptr[i + 1]):
            out[0][to] = values[k]
            out[1][to] = indices[k]
            to += np.uint64(1)
