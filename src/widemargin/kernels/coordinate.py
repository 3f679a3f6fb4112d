"""Passes of dual coordinate descent over rows with a two-class margin loss.

Row i has a label y_i = +-1, a cost c_i > 0 and a dual variable alpha_i. The dual is

    max  sum_i (alpha_i - eps |alpha_i| - shift_i alpha_i^2 / 2) - 1/2 |w|^2 - (intercept terms)
    with w = sum_i alpha_i y_i x_i,  lower_i <= alpha_i <= upper_i

for a loss = (low, high, bend) or (low, high, bend, eps), see losses.py: shift_i = bend / c_i,
lower_i = low c_i, upper_i = high c_i. Steps are compiled without eps where there is none: with
it they take a tenth longer.

The intercept is the array `offset` = [b, z, k], with z = sum_i alpha_i y_i kept up to date. The
score of row i is  w.x_i + b + z (k - mean_dot_i),  and the curvature of its variable is
|x_i|^2 + k - 2 mean_dot_i. A change of alpha_i y_i by one changes b by -mean_dot_i. Cases are:

    no intercept         k = 0
    a constant feature   b fixed, k its square; its coefficient times itself is z k
    rows less a mean mu  mean_dot_i = mu.x_i, and |mu|^2 added to k

An empty `mean_dot` stands for zeros. `seen_gap` has each row's contribution to the duality gap
when last visited, loss(r) - alpha r + eps |alpha| + shift alpha^2 / 2 >= 0 with r = 1 - margin.
`tally` has the sums of a pass, and what an adaptive pass hands to the next one, in the order
below.
"""

from typing import Any

import numpy as np
from numba.extending import register_jitable

from widemargin.kernels.jit import kernel
from widemargin.kernels.loss import beyond, slope_at, steepness_of
from widemargin.kernels.response import sign_of, target_of
from widemargin.kernels.rows import prefetch as rows_prefetch
from widemargin.kernels.rows import row_add, row_dot, row_prefetch
from widemargin.kernels.typing import Array, Rows

# mypy takes the typing context for an argument of the call.
prefetch: Any = rows_prefetch

GAIN, LARGEST, SMALLEST, MEAN_GAIN, TOO_LARGE, OFFSET = range(6)
TALLY_SIZE = 6
#: the status of a row: for how many uniform passes it rests, 0 to 254; or SHRUNK, for all
DUE, SHRUNK = 0, 255

# So small that a step divided by it goes beyond any bound.
_LEAST_CURVATURE = 1e-300
# How many visits ahead rows are prefetched.
_LOOK_AHEAD = 2


@register_jitable
def _step(
    residual: float, alpha: float, cost: float, curvature: float, loss: tuple[float, ...],
    overstep: float,
) -> Any:  # fmt: skip
    """Raise the dual over one variable, by a step `overstep` < 2 times as long as to its maximum.

    Return the new alpha, the gain, the row's contribution to the gap before, the slope at alpha,
    the square of the change of w by the step without bounds, and whether no change of alpha is a
    gain.
    """
    low, high, bend = loss[0], loss[1], loss[2]
    lower, upper = low * cost, high * cost
    excess, shift = residual, 0.0
    if len(loss) == 4:
        excess = beyond(residual, loss[3])
    if bend > 0.0:
        shift = bend / cost
        a = slope_at(excess, low, high, steepness_of(bend))
        gap = cost * a * (excess - 0.5 * bend * a)
    else:
        gap = max(upper * excess, lower * excess)
    gap += alpha * (0.5 * shift * alpha - residual)
    # The slope of the negative dual.
    pull = shift * alpha - residual
    # The curvature of an empty row is zero. Arithmetic may be reordered: nothing is divided by it.
    curvature = max(curvature + shift, _LEAST_CURVATURE)
    if len(loss) == 4:
        return _step_with_kink(alpha, pull, curvature, loss[3], lower, upper, overstep, gap)
    step = pull / curvature
    best = min(max(alpha - overstep * step, lower), upper)
    change = best - alpha
    gain = -change * (pull + 0.5 * change * curvature) if change != 0.0 else 0.0
    rests = pull >= 0.0 if alpha <= lower else (pull <= 0.0 if alpha >= upper else False)
    return best, gain, gap, pull, pull * step, rests


@register_jitable
def _step_with_kink(
    alpha: float, gradient: float, curvature: float, eps: float, lower: float, upper: float,
    overstep: float, gap: float,
) -> Any:  # fmt: skip
    """As `_step`, where -eps |alpha| makes a kink at zero: a soft threshold, then the bounds."""
    right = gradient + (eps if alpha >= 0.0 else -eps)
    left = gradient + (eps if alpha > 0.0 else -eps)
    rises, falls = (right < 0.0) & (alpha < upper), (left > 0.0) & (alpha > lower)
    pull = left if falls | (alpha >= upper) | ((alpha > lower) & (right > -left)) else right
    pull = right if rises else pull
    best = beyond(alpha - gradient / curvature, eps / curvature)
    farther = alpha + overstep * (best - alpha)
    # Beyond the kink the dual falls more steeply, and a longer step might lose.
    best = max(farther, 0.0) if best > 0.0 else (min(farther, 0.0) if best < 0.0 else 0.0)
    best = min(max(best, lower), upper)
    change = best - alpha
    gain = -change * (gradient + 0.5 * change * curvature) - eps * (abs(best) - abs(alpha))
    gap += eps * abs(alpha)
    return best, gain, gap, pull, pull * (pull / curvature), not (rises | falls)


@register_jitable
def _fetch(i: int, rows: Rows, norms: Array, cost: Array, alpha: Array, seen_gap: Array) -> None:
    """Prefetch what a visit of row i needs."""
    row_prefetch(rows, i)
    prefetch(norms, i)
    prefetch(cost, i)
    prefetch(alpha, i)
    prefetch(seen_gap, i)


# The code of a visit is in both passes below. As a function called from both, it took 1.7 times as
# long, however it was inlined.


@kernel
def uniform_pass(
    rows: Rows, norms: Array, mean_dot: Array, y: Array, cost: Array, loss: tuple[float, ...],
    alpha: Array, w: Array, offset: Array, seen_gap: Array, order: Array, begin: int, end: int,
    status: Array, rest: int, too_large: float, too_small: float, overstep: float, tally: Array,
) -> None:  # fmt: skip
    """Visit order[begin:end] once each, and set the status of each row.

    Rows at a bound with nothing to gain rest for `rest` passes. They are shrunk if their gradient
    is beyond `too_large` or `too_small`. tally[LARGEST] and tally[SMALLEST] are the bounds of the
    projected gradients of the others.
    """
    # Sums are in local variables: with arrays, each visit would wait for the last store.
    fixed, z, k = offset[0], offset[1], offset[2]
    is_centred = mean_dot.shape[0] > 0
    largest, smallest = tally[LARGEST], tally[SMALLEST]
    for t in range(begin, end):
        if t + _LOOK_AHEAD < end:
            _fetch(order[t + _LOOK_AHEAD], rows, norms, cost, alpha, seen_gap)
        i = order[t]
        sign = sign_of(y[i])
        row_mean_dot = mean_dot[i] if is_centred else 0.0
        residual = target_of(y[i]) - sign * (row_dot(rows, i, w) + fixed + z * (k - row_mean_dot))
        before = alpha[i]
        after, _, gap, pull, _, rests = _step(
            residual, before, cost[i], norms[i] + k - 2.0 * row_mean_dot, loss, overstep
        )
        seen_gap[i] = gap
        if after != before:
            alpha[i] = after
            change = sign * (after - before)
            row_add(rows, i, change, w)
            z += change
            fixed -= change * row_mean_dot
        if rests:
            status[i] = SHRUNK if (pull > too_large) | (pull < too_small) else rest
            pull = 0.0
        else:
            status[i] = DUE
        largest = max(largest, pull)
        smallest = min(smallest, pull)
    offset[0], offset[1] = fixed, z
    tally[LARGEST], tally[SMALLEST] = largest, smallest


@kernel
def due_rows(active: Array, status: Array, due: Array) -> tuple[int, int]:
    """Fill `due` with the `active` rows that are due; the others rest for one pass less.

    Shrunk rows are dropped from `active`. Return the number of rows left in it, and of rows due.
    """
    n_active = n_due = 0
    for i in active:
        now = status[i]
        # A branch would be mispredicted often: rows are always written, and maybe overwritten.
        active[n_active] = due[n_due] = i
        n_active += now != SHRUNK
        n_due += now == DUE
        status[i] = now - (now != DUE)
    return n_active, n_due


@register_jitable
def adaptive_visits(
    rows: Rows, norms: Array, mean_dot: Array, y: Array, cost: Array, loss: tuple[float, ...],
    alpha: Array, w: Array, offset: Array, seen_gap: Array, order: Array, begin: int, end: int,
    preference: Array, lowest: float, highest: float, rate: float, forgotten: float, fading: float,
    overstep: float, tally: Array,
) -> None:  # fmt: skip
    """Visit order[begin:end]; raise the preference of rows that gain more than the mean.

    A visit that changes nothing leaves the fraction `forgotten` of the row's preference.

    The preference becomes zero if a visit leaves a row at its bound and the squared change of w
    beyond the bound would be more than tally[TOO_LARGE]. tally[MEAN_GAIN] is the fading mean gain
    of a visit, or 0 if it is unknown. tally[LARGEST] is the largest squared change of w by a row.
    tally[SMALLEST] is the smallest gradient of the rows that lost their preference.
    """
    fixed, z, k = offset[0], offset[1], offset[2]
    is_centred = mean_dot.shape[0] > 0
    mean, total = tally[MEAN_GAIN], tally[GAIN]
    largest, smallest, too_large = tally[LARGEST], tally[SMALLEST], tally[TOO_LARGE]
    for t in range(begin, end):
        if t + _LOOK_AHEAD < end:
            _fetch(order[t + _LOOK_AHEAD], rows, norms, cost, alpha, seen_gap)
        i = order[t]
        sign = sign_of(y[i])
        row_mean_dot = mean_dot[i] if is_centred else 0.0
        residual = target_of(y[i]) - sign * (row_dot(rows, i, w) + fixed + z * (k - row_mean_dot))
        before = alpha[i]
        after, gain, gap, pull, push, _ = _step(
            residual, before, cost[i], norms[i] + k - 2.0 * row_mean_dot, loss, overstep
        )
        seen_gap[i] = gap
        if after != before:
            alpha[i] = after
            change = sign * (after - before)
            row_add(rows, i, change, w)
            z += change
            fixed -= change * row_mean_dot
            largest = max(largest, push)
        total += gain
        if after == before and push > too_large:
            preference[i] = 0.0
            smallest = min(smallest, abs(pull))
        elif after == before:
            preference[i] = max(forgotten * preference[i], lowest)
        elif mean > 0.0:
            wish = preference[i] * np.exp(rate * (gain / mean - 1.0))
            preference[i] = min(max(wish, lowest), highest)
        if mean > 0.0:
            mean = (1.0 - fading) * mean + fading * gain
    offset[0], offset[1] = fixed, z
    tally[MEAN_GAIN], tally[GAIN] = mean, total
    tally[LARGEST], tally[SMALLEST] = largest, smallest


@kernel
def adaptive_order(preference: Array, credit: Array, least: float, order: Array) -> int:
    """Fill order with row i once for each unit of its credit; return the number of entries.

    Each call adds to the credit of row i in proportion to its preference; fractions are kept for
    the next call. The most preferred row earns one unit, so it occurs once. All rows together earn
    at least `least` units, even if some rows then occur more than once.
    """
    total, highest = 0.0, 0.0
    for i in range(preference.shape[0]):
        total += preference[i]
        highest = max(highest, preference[i])
    if highest == 0.0:
        return 0
    scale = max(1.0 / highest, least / total)
    count = 0
    size = order.shape[0]
    for i in range(preference.shape[0]):
        earned = credit[i] + scale * preference[i]
        if count < size:
            # A branch would be mispredicted often: rows are always written, and maybe overwritten.
            order[count] = i
            comes = earned >= 1.0
            count += comes
            earned -= comes
        while earned >= 1.0 and count < size:
            order[count] = i
            count += 1
            earned -= 1.0
        credit[i] = earned
    return count


@register_jitable
def _below(state: Any, bound: int) -> Any:
    """Return the next state of xorshift64, and a random integer in [0, bound)."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    # The upper 32 bits, scaled: this needs no division, and the bias is too small to matter.
    return state, np.intp(((state >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@kernel
def shuffle(order: Array, begin: int, end: int, generator: Array) -> None:
    """Shuffle order[begin:end] in place; generator is the (1,) uint64 state of xorshift64."""
    state = generator[0]
    for i in range(end - 1, begin, -1):
        state, j = _below(state, i + 1 - begin)
        order[i], order[begin + j] = order[begin + j], order[i]
    generator[0] = state
