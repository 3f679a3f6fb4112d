"""Sums over rows for Newton's method: smoothed losses, at a point and along a line.

A loss is smoothed by a larger bend: see losses.py. Its slope in the residual z is then

    alpha = c clip(excess / bend, low, high),    excess = z shrunk towards zero by eps
"""

import numpy as np

from widemargin.kernels.jit import kernel
from widemargin.kernels.loss import beyond, slope_at, steepness_of
from widemargin.kernels.response import sign_of, target_of
from widemargin.kernels.rows import add_rows, row_dot, scores

# So many rows stay in the innermost cache from their scores to their sum.
ROWS_AT_ONCE = 32


@kernel
def smooth_slope(z, rate, cost, smooth, step):
    """Return the smoothed losses' slope along z + step * rate, its curvature, sum of |terms|."""
    eps, low, high, bend = smooth
    slope, curvature, size = 0.0, 0.0, 0.0
    steepness = steepness_of(bend)
    for i in range(z.shape[0]):
        excess = beyond(z[i] + step * rate[i], eps)
        a = slope_at(excess, low, high, steepness)
        pull = cost[i] * rate[i]
        term = pull * a
        slope += term
        size += abs(term)
        curved = (a == excess * steepness) & (excess != 0.0)
        curvature += pull * rate[i] if curved else 0.0
    return slope, curvature * steepness, size


@kernel
def curvature(z, cost, smooth, weight):
    """weight (n,) receives the smoothed losses' curvatures; return how many, and their sum."""
    eps, low, high, bend = smooth
    count, total = 0.0, 0.0
    steepness = steepness_of(bend)
    for i in range(z.shape[0]):
        excess = beyond(z[i], eps)
        steep = excess * steepness
        curved = 1.0 if (steep > low) & (steep < high) & (excess != 0.0) else 0.0
        weight[i] = curved * cost[i] * steepness
        count += curved
        total += weight[i]
    return count, total


@kernel
def dual_point(z, y, cost, smooth, bend, A):
    """A (n,) receives the dual variables alpha y of the smoothed losses; return eight sums.

    `bend` is that of the loss itself. Over rows with positive A, and over rows with negative A:
    the sums of |A|, of alpha - eps |alpha|, and of bend alpha^2 / 2 c. Over all rows: the sums of
    the losses themselves, and of alpha times excess.
    """
    eps, low, high, wide = smooth
    above, below, height_above, height_below = 0.0, 0.0, 0.0, 0.0
    bent_above, bent_below, losses, aligned = 0.0, 0.0, 0.0, 0.0
    steepness, own_steepness = steepness_of(wide), steepness_of(bend)
    for i in range(z.shape[0]):
        excess = beyond(z[i], eps)
        a = slope_at(excess, low, high, steepness)
        own = slope_at(excess, low, high, own_steepness)
        losses += cost[i] * own * (excess - 0.5 * bend * own)
        alpha = cost[i] * a
        signed = alpha * sign_of(y[i])
        height, bent = target_of(y[i]) * alpha - eps * abs(alpha), 0.5 * bend * a * alpha
        is_above = 1.0 if signed > 0.0 else 0.0
        above += max(signed, 0.0)
        below -= min(signed, 0.0)
        height_above += is_above * height
        height_below += (1.0 - is_above) * height
        bent_above += is_above * bent
        bent_below += (1.0 - is_above) * bent
        aligned += alpha * excess
        A[i] = signed
    return above, below, height_above, height_below, bent_above, bent_below, losses, aligned


@kernel
def fused_pass(rows, index, y, cost, w, offset, smooth, bend, begin, end, S, z, alpha, sums, out):
    """As `dual_point`, for begin <= j < end, but it also computes z, and adds X^T A to out.

    Vectors are (m,), of the rows `index`, (m,), or of all rows if it is None. S, z and alpha
    receive scores x.w, slacks and dual variables. The sums are added to `sums`, (8,).
    """
    A, pulls = np.empty(ROWS_AT_ONCE), np.empty(ROWS_AT_ONCE)
    at = np.empty(ROWS_AT_ONCE, np.uint64)
    for low in range(begin, end, ROWS_AT_ONCE):
        high = min(low + ROWS_AT_ONCE, end)
        score, slack, own, duals = S[low:high], z[low:high], y[low:high], alpha[low:high]
        if index is None:
            scores(rows, w, low, high, S)
        else:
            for j in range(high - low):
                score[j] = row_dot(rows, index[low + j], w)
        for j in range(high - low):
            slack[j] = target_of(own[j]) - sign_of(own[j]) * (score[j] + offset)
        more = dual_point(slack, own, cost[low:high], smooth, bend, A)
        for k in range(len(more)):
            sums[k] += more[k]
        count = 0
        for j in range(high - low):
            duals[j] = A[j] * sign_of(own[j])
            at[count] = low + j if index is None else index[low + j]
            pulls[count] = A[j]
            count += 1 if A[j] != 0.0 else 0
        add_rows(rows, at[:count], pulls[:count], out)
