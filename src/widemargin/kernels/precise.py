"""Products with rows in twice the working precision, and sizes of their terms.

Ogita, Rump & Oishi 2005, Dot2: the rounding error of each product and each sum is computed by
Dekker's and Knuth's exact transformations, and these errors are added up separately. Compilers
must not reorder any of it.
"""

from widemargin.kernels.jit import kernel

# Splits a float64 into two halves of 26 bits.
_SPLITTER = 134217729.0


@kernel(fastmath=frozenset())
def _add_product(high, low, x, w):
    """Return high + low + x w, again in two parts."""
    product = x * w
    t = _SPLITTER * x
    x_high = t - (t - x)
    x_low = x - x_high
    t = _SPLITTER * w
    w_high = t - (t - w)
    w_low = w - w_high
    lost = x_low * w_low - (((product - x_high * w_high) - x_low * w_high) - x_high * w_low)
    total = high + product
    t = total - high
    lost += (high - (total - t)) + (product - t)
    return total, low + lost


@kernel(fastmath=frozenset())
def scores(rows, index, w, offset, high, low, sizes):
    """high[j] + low[j] = x_i . w + offset, i = index[j]; sizes[j] is the sum of its |terms|."""
    for j in range(index.shape[0]):
        i = index[j]
        total, lost, size = offset, 0.0, abs(offset)
        if len(rows) == 1:
            x = rows[0][i]
            for k in range(x.shape[0]):
                total, lost = _add_product(total, lost, float(x[k]), w[k])
                size += abs(x[k] * w[k])
        else:
            values, indices, indptr = rows
            for k in range(indptr[i], indptr[i + 1]):
                total, lost = _add_product(total, lost, float(values[k]), w[indices[k]])
                size += abs(values[k] * w[indices[k]])
        high[j] = total + lost
        low[j] = lost - (high[j] - total)
        sizes[j] = size


@kernel
def combine_sizes(rows, g, begin, end, out):
    """out += sum of |g[i]| |x_i|, feature by feature, over begin <= i < end."""
    for i in range(begin, end):
        size = abs(g[i])
        if size == 0.0:
            continue
        if len(rows) == 1:
            x = rows[0][i]
            for k in range(x.shape[0]):
                out[k] += size * abs(x[k])
        else:
            values, indices, indptr = rows
            for k in range(indptr[i], indptr[i + 1]):
                out[indices[k]] += size * abs(values[k])
