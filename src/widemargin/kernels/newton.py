"""Sums over rows for Newton's method: smooth losses, at a point and along a line.

One text serves both losses. With z = 1 - y s, a row's smooth loss has the slope in z

    alpha = c min(max(z, 0) / delta, cap)         hinge: cap 1;  squared hinge: delta 1/2, no cap

so that it is c z^2 / (2 delta) from 0 to cap delta, and goes on as a straight line from there.
"""

from widemargin.kernels.jit import kernel
from widemargin.kernels.rows import four_adds, four_dots, row_add, row_dot

# Rows that stay in the innermost cache from their scores to their sum.
VISITED_AT_ONCE = 64


@kernel
def smooth_slope(z, rate, cost, delta, cap, step):
    """Return the smooth losses' slope along z + step * rate, its curvature, and sum of |terms|."""
    slope, curvature, size = 0.0, 0.0, 0.0
    steepness = 1.0 / delta
    for i in range(z.shape[0]):
        u = (z[i] + step * rate[i]) * steepness
        pull = cost[i] * rate[i]
        term = pull * min(max(u, 0.0), cap)
        slope += term
        size += abs(term)
        curved = 1.0 if (u > 0.0) & (u < cap) else 0.0
        curvature += curved * pull * rate[i]
    return slope, curvature * steepness, size


@kernel
def curvature(z, cost, delta, cap, weight):
    """weight (n,) receives curvatures of the smooth losses; return how many, and their sum."""
    count, total = 0.0, 0.0
    steepness, edge = 1.0 / delta, cap * delta
    for i in range(z.shape[0]):
        curved = 1.0 if (z[i] > 0.0) & (z[i] < edge) else 0.0
        weight[i] = curved * cost[i] * steepness
        count += curved
        total += weight[i]
    return count, total


@kernel
def dual_point(z, y, cost, delta, cap, A):
    """A (n,) receives alpha y; return sums over the rows of either sign.

    Of alpha of positive rows, of negative ones; of their losses c max(0, z)^p; and of alpha z.
    """
    above, below, loss_above, loss_below, aligned = 0.0, 0.0, 0.0, 0.0, 0.0
    steepness = 1.0 / delta
    squared = cap > 1.0
    for i in range(z.shape[0]):
        inside = max(z[i], 0.0)
        alpha = cost[i] * min(inside * steepness, cap)
        loss = cost[i] * (inside * inside if squared else inside)
        positive = 1.0 if y[i] > 0 else 0.0
        above += positive * alpha
        below += (1.0 - positive) * alpha
        loss_above += positive * loss
        loss_below += (1.0 - positive) * loss
        aligned += alpha * z[i]
        A[i] = alpha * y[i]
    return above, below, loss_above, loss_below, aligned


@kernel
def visit(rows, index, y, cost, w, offset, delta, cap, begin, end, z, A, out):
    """As `dual_point`, for begin <= j < end, but z, too, is computed, and X^T A is added to out.

    y, cost, z and A are (m,), of the rows `index`, (m,); or (n,), of all rows, if that is empty.
    """
    above, below, loss_above, loss_below, aligned = 0.0, 0.0, 0.0, 0.0, 0.0
    all_rows = index.shape[0] == 0
    for low in range(begin, end, VISITED_AT_ONCE):
        high = min(low + VISITED_AT_ONCE, end)
        fours = low + (high - low) // 4 * 4
        for j in range(low, fours, 4):
            at = (j, j + 1, j + 2, j + 3)
            if not all_rows:
                at = (index[j], index[j + 1], index[j + 2], index[j + 3])
            z[j], z[j + 1], z[j + 2], z[j + 3] = four_dots(rows, at, w)
        for j in range(fours, high):
            z[j] = row_dot(rows, j if all_rows else index[j], w)
        for j in range(low, high):
            z[j] = 1.0 - y[j] * (z[j] + offset)
        part = slice(low, high)
        sums = dual_point(z[part], y[part], cost[part], delta, cap, A[part])
        above += sums[0]
        below += sums[1]
        loss_above += sums[2]
        loss_below += sums[3]
        aligned += sums[4]
        for j in range(low, fours, 4):
            at = (j, j + 1, j + 2, j + 3)
            if not all_rows:
                at = (index[j], index[j + 1], index[j + 2], index[j + 3])
            four_adds(rows, at, (A[j], A[j + 1], A[j + 2], A[j + 3]), out)
        for j in range(fours, high):
            row_add(rows, j if all_rows else index[j], A[j], out)
    return above, below, loss_above, loss_below, aligned
