"""Sums over rows for Newton's method: smoothed losses, at a point and along a line.

A loss is smoothed by a larger bend: see losses.py. Its slope in z = 1 - y s is then

    alpha = c clip(excess / bend, low, high),    excess = z shrunk towards zero by eps
"""

from widemargin.kernels.jit import kernel
from widemargin.kernels.loss import beyond, slope_at, steepness_of


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
        signed = alpha * y[i]
        height, bent = alpha - eps * abs(alpha), 0.5 * bend * a * alpha
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
