"""Sums over rows for Newton's method: smooth losses, at a point and along a line.

One text serves both losses. With z = 1 - y s, a row's smooth loss has the slope in z

    alpha = c min(max(z, 0) / delta, cap)         hinge: cap 1;  squared hinge: delta 1/2, no cap

so that it is c z^2 / (2 delta) from 0 to cap delta, and goes on as a straight line from there.
"""

import numpy as np

from widemargin.kernels.jit import kernel
from widemargin.kernels.rows import add_rows, row_dot, scores

# Rows that stay in the innermost cache from their scores to their sum.
VISITED_AT_ONCE = 32


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
def visit(rows, index, y, cost, w, offset, delta, cap, begin, end, S, z, alpha, out):
    """As `dual_point`, for begin <= j < end, but z, too, is computed, and X^T A is added to out.

    All are (m,), of the rows `index`, (m,); None is all of them. S, z and alpha receive scores
    x.w, slacks and dual variables.
    """
    above, below, loss_above, loss_below, aligned = 0.0, 0.0, 0.0, 0.0, 0.0
    A, pulls = np.empty(VISITED_AT_ONCE), np.empty(VISITED_AT_ONCE)
    at = np.empty(VISITED_AT_ONCE, np.uint64)
    for low in range(begin, end, VISITED_AT_ONCE):
        high = min(low + VISITED_AT_ONCE, end)
        score, slack, signs, duals = S[low:high], z[low:high], y[low:high], alpha[low:high]
        if index is None:
            scores(rows, w, low, high, S)
        else:
            for j in range(high - low):
                score[j] = row_dot(rows, index[low + j], w)
        for j in range(high - low):
            slack[j] = 1.0 - signs[j] * (score[j] + offset)
        sums = dual_point(slack, signs, cost[low:high], delta, cap, A)
        above += sums[0]
        below += sums[1]
        loss_above += sums[2]
        loss_below += sums[3]
        aligned += sums[4]
        count = 0
        for j in range(high - low):
            duals[j] = A[j] * signs[j]
            at[count] = low + j if index is None else index[low + j]
            pulls[count] = A[j]
            count += 1 if A[j] != 0.0 else 0
        add_rows(rows, at[:count], pulls[:count], out)
    return above, below, loss_above, loss_below, aligned
