"""The logistic loss of rows with labels, c log(1 + exp(-m)) at the margin m = y s.

With e = exp(-|m|), the slope of a row's loss is -c p, where p = 1 / (1 + exp(m)) is e / (1 + e)
or 1 / (1 + e), and its curvature is c e / (1 + e)^2. None of these overflows or loses digits,
whatever the margin. Dual variables alpha lie between 0 and c, and have the term

    c H(alpha / c),      H(p) = -p log p - (1 - p) log(1 - p)
"""

import math
from typing import Any

from numba.extending import register_jitable

from widemargin.kernels.jit import kernel
from widemargin.kernels.rows import prefetch as rows_prefetch
from widemargin.kernels.rows import row_add, row_dot, row_prefetch
from widemargin.kernels.typing import Array, Rows

# mypy takes the typing context for an argument of the call.
prefetch: Any = rows_prefetch

# How many visits ahead rows are prefetched.
_LOOK_AHEAD = 2
# The root of a visit is found to this fraction of the first residual, in at most so many steps.
_LEFT, _MOST_STEPS = 0.1, 40


@register_jitable
def entropy(alpha: float, cost: float) -> float:
    """Return c H(alpha / c), to the last digits also near both bounds; 0 at the bounds."""
    rest = cost - alpha
    if not (alpha > 0.0 and rest > 0.0):
        return 0.0
    # The smaller of the two is known to the last digit, and so are both logarithms.
    p = min(alpha, rest) / cost
    return -cost * (p * math.log(p) + (1.0 - p) * math.log1p(-p)) if p > 0.0 else 0.0


@kernel
def losses(y: Array, cost: Array, S: Array, out: Array) -> float:
    """out (n,) receives the loss of each row; return their sum."""
    total = 0.0
    for i in range(S.shape[0]):
        m = y[i] * S[i]
        out[i] = cost[i] * (math.log1p(math.exp(-abs(m))) + max(-m, 0.0))
        total += out[i]
    return total


@kernel
def entropies(alpha: Array, cost: Array, out: Array) -> None:
    """out (n,) receives the term of each dual variable."""
    for i in range(alpha.shape[0]):
        out[i] = entropy(alpha[i], cost[i])


@kernel
def slopes(y: Array, cost: Array, S: Array, b: float, A: Array, weight: Array) -> None:
    """A and weight (n,) receive minus the slopes, and the curvatures, at S + b."""
    for i in range(S.shape[0]):
        m = y[i] * (S[i] + b)
        e = math.exp(-abs(m))
        r = 1.0 / (1.0 + e)
        A[i] = y[i] * cost[i] * (e * r if m > 0.0 else r)
        weight[i] = cost[i] * e * r * r


@kernel
def slope_sums(y: Array, cost: Array, S: Array, b: float) -> tuple[float, float, float]:
    """Return the sums at S + b: of slopes in b, of their sizes, and of curvatures."""
    above, below, curvature = 0.0, 0.0, 0.0
    for i in range(S.shape[0]):
        m = y[i] * (S[i] + b)
        e = math.exp(-abs(m))
        r = 1.0 / (1.0 + e)
        pull = cost[i] * (e * r if m > 0.0 else r)
        above += pull if y[i] > 0 else 0.0
        below += 0.0 if y[i] > 0 else pull
        curvature += cost[i] * e * r * r
    return below - above, below + above, curvature


@kernel
def cut(y: Array, cost: Array, S: Array, slope: Array) -> tuple[float, float]:
    """slope (n,) receives the slope at S; return loss, and -r* of the slope."""
    value, constant = 0.0, 0.0
    for i in range(S.shape[0]):
        m = y[i] * S[i]
        e = math.exp(-abs(m))
        r = 1.0 / (1.0 + e)
        near_zero = math.log1p(e)
        value += cost[i] * (near_zero + max(-m, 0.0))
        constant += cost[i] * (near_zero + abs(m) * (e * r))
        slope[i] = -y[i] * cost[i] * (e * r if m > 0.0 else r)
    return value, constant


@kernel
def along(margin: Array, rate: Array, cost: Array, step: float) -> tuple[float, float, float]:
    """Return value, slope and curvature in the step, at margin + step rate, all (n,)."""
    value, slope, curvature = 0.0, 0.0, 0.0
    for i in range(margin.shape[0]):
        m = margin[i] + step * rate[i]
        e = math.exp(-abs(m))
        r = 1.0 / (1.0 + e)
        value += cost[i] * (math.log1p(e) + max(-m, 0.0))
        slope -= cost[i] * rate[i] * (e * r if m > 0.0 else r)
        curvature += cost[i] * (rate[i] * e * r) * (rate[i] * r)
    return value, slope, curvature


@kernel
def descend(
    rows: Rows, norms: Array, y: Array, cost: Array, logit: Array, alpha: Array, w: Array,
    offset: Array, order: Array, begin: int, end: int,
) -> float:  # fmt: skip
    """Visit order[begin:end] once each; return about the sum of their contributions to the gap.

    A visit raises the dual over one alpha: with its logit v = log(alpha / (c - alpha)), the margin
    m and q = |x|^2 + k, the maximum is where  v + m + q (c / (1 + exp(-v)) - alpha)  is zero.
    `offset` is [fixed, z, k], as in coordinate.py, without means.
    """
    fixed, z, k = offset[0], offset[1], offset[2]
    total = 0.0
    for t in range(begin, end):
        if t + _LOOK_AHEAD < end:
            ahead = order[t + _LOOK_AHEAD]
            row_prefetch(rows, ahead)
            prefetch(logit, ahead)
            prefetch(alpha, ahead)
        i = order[t]
        c, before, q = cost[i], alpha[i], norms[i] + k
        m = y[i] * (row_dot(rows, i, w) + fixed + k * z)
        low, high = -m - q * (c - before), -m + q * before
        v, after = logit[i], before
        first = residual = v + m
        enough = _LEFT * abs(first)
        curvature = after * (c - after) / c
        for _ in range(_MOST_STEPS):
            if residual < 0.0:
                low = max(low, v)
            else:
                high = min(high, v)
            v -= residual / (1.0 + q * curvature)
            if not (low <= v <= high):
                v = 0.5 * (low + high)
            e = math.exp(-abs(v))
            r = 1.0 / (1.0 + e)
            after = c * (r if v > 0.0 else e * r)
            curvature = c * e * r * r
            residual = v + m + q * (after - before)
            if abs(residual) <= enough:
                break
        change = after - before
        total += 0.5 * abs(change * first) * (1.0 + q * curvature)
        if change != 0.0:
            logit[i], alpha[i] = v, after
            row_add(rows, i, y[i] * change, w)
            z += y[i] * change
    offset[1] = z
    return total
