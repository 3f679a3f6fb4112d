"""Passes of dual coordinate descent over rows with a two-class margin loss.

Per row i there is a label y_i = +-1, a cost c_i > 0 and a dual variable alpha_i; the dual
is  max  sum_i (alpha_i - shift_i alpha_i^2 / 2) - 1/2 |w|^2 - 1/2 v^2 - b sum_i alpha_i y_i
with  w = sum_i alpha_i y_i x_i,  v = B sum_i alpha_i y_i,  0 <= alpha_i <= upper_i:

    hinge           upper_i = c_i        shift_i = 0
    squared hinge   upper_i = infinity   shift_i = 1 / (2 c_i)

`offset` is the array [b, v, B]: a fixed offset b of all scores, and the coefficient v of a
constant feature B (B = 0: none). `seen_loss` keeps the loss that each row had when last
visited. `tally` receives a pass's sums, in the order below.
"""

import numpy as np
from numba.extending import register_jitable

from widemargin.kernels.jit import kernel
from widemargin.kernels.rows import row_add, row_dot, row_prefetch

GAIN, LARGEST, SMALLEST, MEAN_GAIN = range(4)
TALLY_SIZE = 4

# How many visits ahead the next rows are fetched from memory.
_LOOK_AHEAD = 2


@register_jitable
def _step(rows, i, norms, y, cost, squared, alpha, w, offset, seen_loss):
    """Maximise the dual over alpha_i; return its gradient there before, and the gain."""
    sign = np.float64(y[i])
    margin = sign * (row_dot(rows, i, w) + offset[0] + offset[1] * offset[2])
    before = alpha[i]
    curvature = norms[i] + offset[2] * offset[2]
    slack = max(0.0, 1.0 - margin)
    if squared:
        shift = 0.5 / cost[i]
        upper = np.inf
        loss = cost[i] * slack * slack
    else:
        shift = 0.0
        upper = cost[i]
        loss = cost[i] * slack
    seen_loss[i] = loss
    gradient = margin - 1.0 + shift * before
    curvature += shift
    after = min(max(before - gradient / curvature, 0.0), upper)
    change = after - before
    gain = 0.0
    if change != 0.0:
        gain = -change * (gradient + 0.5 * change * curvature)
        alpha[i] = after
        row_add(rows, i, sign * change, w)
        offset[1] += sign * change * offset[2]
    return gradient, before, upper, gain


@kernel
def uniform_pass(
    rows, norms, y, cost, squared, alpha, w, offset, seen_loss, order, begin, end, kept,
    too_large, too_small, tally,
):  # fmt: skip
    """Visit order[begin:end] once each, shrinking rows that press hard against a bound.

    Rows that stay are moved to order[kept:...]; the new end of the kept rows is returned.
    tally[LARGEST], tally[SMALLEST] bound the projected gradients met.
    """
    for t in range(begin, end):
        if t + _LOOK_AHEAD < end:
            row_prefetch(rows, order[t + _LOOK_AHEAD])
        i = order[t]
        gradient, before, upper, gain = _step(
            rows, i, norms, y, cost, squared, alpha, w, offset, seen_loss
        )
        tally[GAIN] += gain
        violation = gradient
        if before == 0.0 and gradient >= 0.0:
            if gradient > too_large:
                continue
            violation = 0.0
        elif before == upper and gradient <= 0.0:
            if gradient < too_small:
                continue
            violation = 0.0
        order[kept] = i
        kept += 1
        tally[LARGEST] = max(tally[LARGEST], violation)
        tally[SMALLEST] = min(tally[SMALLEST], violation)
    return kept


@kernel
def adaptive_pass(
    rows, norms, y, cost, squared, alpha, w, offset, seen_loss, order, begin, end,
    preference, lowest, highest, rate, fading, tally,
):  # fmt: skip
    """Visit order[begin:end], raising the preference of rows that gain above the mean.

    tally[MEAN_GAIN] is the fading mean gain of a visit; 0 means not known yet.
    """
    for t in range(begin, end):
        if t + _LOOK_AHEAD < end:
            row_prefetch(rows, order[t + _LOOK_AHEAD])
        i = order[t]
        gain = _step(rows, i, norms, y, cost, squared, alpha, w, offset, seen_loss)[3]
        tally[GAIN] += gain
        mean = tally[MEAN_GAIN]
        if mean > 0.0:
            wish = preference[i] * np.exp(rate * (gain / mean - 1.0))
            preference[i] = min(max(wish, lowest), highest)
            tally[MEAN_GAIN] = (1.0 - fading) * mean + fading * gain


@kernel
def adaptive_order(preference, credit, scale, order):
    """Fill order with row i once for every unit of credit it has earned; return how many.

    Each call earns row i `preference[i] * scale`; fractions are kept for the next call.
    """
    count = 0
    for i in range(preference.shape[0]):
        earned = credit[i] + scale * preference[i]
        while earned >= 1.0 and count < order.shape[0]:
            order[count] = i
            count += 1
            earned -= 1.0
        credit[i] = earned
    return count


@kernel
def shuffle(order, count, generator):
    """Shuffle order[:count] in place; generator is the (1,) uint64 state of xorshift64."""
    state = generator[0]
    for i in range(count - 1, 0, -1):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        # The upper 32 bits scaled to [0, i]: no division, no bias that matters here.
        j = ((state >> np.uint64(32)) * np.uint64(i + 1)) >> np.uint64(32)
        order[i], order[j] = order[j], order[i]
    generator[0] = state
