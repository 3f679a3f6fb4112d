"""Dual coordinate descent as published, for losses with slopes from 0 upwards.

Row i has a label y_i = +-1, a dual variable 0 <= alpha_i <= upper_i, and a loss with the dual term
alpha_i - shift_i alpha_i^2 / 2. The gradient of the negative dual is

    G_i = y_i (w.x_i + z k) - 1 + shift_i alpha_i,    z = sum_i alpha_i y_i

for a constant feature whose square is k; 0 without an intercept. `offset` is [0, z, k], as in
coordinate.py, whose kernels take overrelaxed steps and let rows rest.
"""

from typing import Any

import numpy as np
from numba.extending import register_jitable

from widemargin.kernels.jit import IN_ORDER, kernel
from widemargin.kernels.rows import row_add, row_dot, row_prefetch

Array = np.ndarray

LARGEST, SMALLEST, EPS, NEXT_EPS = range(4)
#: what `stream_visits` and `remember` count: rows in memory, entries of these, where the next row
#: would begin, and visits since eps was set
COUNT, LIVE, FILLED, VISITS = range(4)
# So small that a step divided by it goes beyond any bound.
_LEAST_CURVATURE = 1e-300


@register_jitable
def _projected(gradient: float, alpha: float, upper: float) -> float:
    """Return the projected gradient: 0 if a bound keeps the variable from going downhill."""
    if alpha == 0.0:
        return min(gradient, 0.0)
    return max(gradient, 0.0) if alpha == upper else gradient


@register_jitable
def _is_pushed(
    gradient: float, alpha: float, upper: float, too_large: float, too_small: float
) -> bool:
    """Return whether a variable is at a bound, with a gradient beyond a threshold."""
    if alpha == 0.0:
        return gradient > too_large
    return alpha == upper and gradient < too_small


@register_jitable
def _best(gradient: float, alpha: float, upper: float, curvature: float) -> float:
    """Return the variable's best value, others fixed."""
    return min(max(alpha - gradient / max(curvature, _LEAST_CURVATURE), 0.0), upper)


@kernel
def sweep(
    rows: tuple, norms: Array, y: Array, upper: Array, shift: Array, alpha: Array, w: Array,
    offset: Array, order: Array, begin: int, end: int, too_large: float, too_small: float,
    shrunk: Array, gains: Array, extremes: Array,
) -> None:  # fmt: skip
    """Visit order[begin:end], each row once or more often.

    A row at a bound whose gradient is beyond `too_large` or `too_small` is marked in `shrunk`.
    extremes[LARGEST] and [SMALLEST] are those of the other rows' projected gradients; gains[t] is
    by how much visit t raised the dual.
    """
    z, k = offset[1], offset[2]
    largest, smallest = extremes[LARGEST], extremes[SMALLEST]
    for t in range(begin, end):
        if t + 2 < end:
            row_prefetch(rows, order[t + 2])
        i = order[t]
        sign, before = np.float64(y[i]), alpha[i]
        gradient = sign * (row_dot(rows, i, w) + z * k) - 1.0 + shift[i] * before
        gains[t] = 0.0
        if _is_pushed(gradient, before, upper[i], too_large, too_small):
            shrunk[i] = True
            continue
        projected = _projected(gradient, before, upper[i])
        largest, smallest = max(largest, projected), min(smallest, projected)
        curvature = norms[i] + k + shift[i]
        after = _best(gradient, before, upper[i], curvature)
        if after != before:
            change = after - before
            gains[t] = -change * (gradient + 0.5 * change * curvature)
            alpha[i] = after
            row_add(rows, i, sign * change, w)
            z += sign * change
    offset[1] = z
    extremes[LARGEST], extremes[SMALLEST] = largest, smallest


@kernel
def prefer(
    order: Array, gains: Array, lowest: float, highest: float, rate: float, fading: float,
    mean: float, preference: Array,
) -> float:  # fmt: skip
    """Change the preferences of the rows of a sweep by their gains, visit by visit.

    Glasmachers & Dogan, Algorithm 4. `mean` is the fading mean of gains, which is returned.
    """
    for t in range(order.shape[0]):
        i = order[t]
        if mean > 0.0:
            wish = preference[i] * np.exp(rate * (gains[t] / mean - 1.0))
            preference[i] = min(max(wish, lowest), highest)
        mean = (1.0 - fading) * mean + fading * gains[t]
    return mean


@kernel(fastmath=IN_ORDER)  # a credit of 1 must not become 0.999...
def schedule(rows: Array, preference: Array, credit: Array, order: Array) -> int:
    """Fill `order` with each of `rows` as often as its credit allows; return how many entries.

    Glasmachers & Dogan, Algorithm 3. Credits grow by n p_i / sum_j p_j; fractions are kept.
    """
    total = 0.0
    for i in rows:
        total += preference[i]
    scale, count = rows.shape[0] / total, 0
    for i in rows:
        credit[i] += scale * preference[i]
        while credit[i] >= 1.0:
            order[count] = i
            count += 1
            credit[i] -= 1.0
    return count


# --- StreamSVM: rows that come and go ---------------------------------------------------------
#
# Memory is a pair of arrays of entries, (values, indices). Row i is in memory if starts[i] >= 0:
# its entries are lengths[i] from there on. The first counts[COUNT] of `members` are these rows.
# Random choices are made by `draws`, numbers between 0 and 1.


@register_jitable
def _forget(place: Any, members: Array, counts: Array, starts: Array, lengths: Array) -> None:
    """Remove the row at this place of `members` from memory."""
    i = members[place]
    counts[COUNT] -= 1
    counts[LIVE] -= lengths[i]
    members[place] = members[counts[COUNT]]
    starts[i] = -1


@kernel
def remember(
    block: tuple, first: int, row: int, wanted: Array, room: int, draws: Array, entries: tuple,
    starts: Array, lengths: Array, norms: Array, members: Array, counts: Array,
) -> tuple[int, int]:  # fmt: skip
    """Copy the `wanted` rows of a block into memory, from `row` on; row 0 is row `first` of all.

    Where `room` entries would be too few, rows in memory are evicted at random. Return the next
    row, and how many draws were used: fewer than all rows are copied if draws run out, or if holes
    have to be closed first.
    """
    new_values, new_indices, indptr = block
    values, indices = entries
    used = 0
    while row < indptr.shape[0] - 1:
        i, begin = first + row, np.intp(indptr[row])
        length = np.intp(indptr[row + 1]) - begin
        if starts[i] >= 0 or not wanted[i]:
            row += 1
            continue
        while counts[LIVE] + length > room and counts[COUNT] > 0 and used < draws.shape[0]:
            place = np.intp(draws[used] * counts[COUNT])
            used += 1
            _forget(place, members, counts, starts, lengths)
        if counts[LIVE] + length > room or counts[FILLED] + length > values.shape[0]:
            break
        start, square = counts[FILLED], 0.0
        for k in range(length):
            x = new_values[begin + k]
            values[start + k], indices[start + k] = x, new_indices[begin + k]
            square += np.float64(x) * np.float64(x)
        starts[i], lengths[i], norms[i] = start, length, square
        members[counts[COUNT]] = i
        counts[COUNT] += 1
        counts[LIVE] += length
        counts[FILLED] += length
        row += 1
    return row, used


@kernel
def close_holes(in_order: Array, entries: tuple, starts: Array, lengths: Array) -> int:
    """Move the rows `in_order`, by where they start, next to each other; return their end."""
    values, indices = entries
    end = 0
    for i in in_order:
        start = starts[i]
        for k in range(np.intp(lengths[i])):
            values[end + k], indices[end + k] = values[start + k], indices[start + k]
        starts[i] = end
        end += lengths[i]
    return end


@kernel
def stream_visits(
    entries: tuple, starts: Array, lengths: Array, norms: Array, members: Array, counts: Array,
    y: Array, upper: Array, shift: Array, alpha: Array, w: Array, offset: Array, draws: Array,
    per_eps: int, full: float, beta: float, extremes: Array,
) -> int:  # fmt: skip
    """Visit a random row of those in memory for each of `draws`; return how many visits were made.

    Matsushima, Vishwanathan & Smola 2012, Algorithm 2: rows at a bound are evicted if their
    gradient is beyond extremes[EPS], which becomes the largest projected gradient after `per_eps`
    visits, and is multiplied by `beta` at each visit if memory has more than `full` entries.
    """
    values, indices = entries
    z, k = offset[1], offset[2]
    for t in range(draws.shape[0]):
        if counts[COUNT] == 0:
            offset[1] = z
            return t
        if counts[LIVE] > full:
            extremes[EPS] *= beta
        place = np.intp(draws[t] * counts[COUNT])
        i = members[place]
        start, end = starts[i], starts[i] + lengths[i]
        score = z * k
        for j in range(start, end):
            score += np.float64(values[j]) * w[indices[j]]
        sign, before = np.float64(y[i]), alpha[i]
        gradient = sign * score - 1.0 + shift[i] * before
        if _is_pushed(gradient, before, upper[i], extremes[EPS], -extremes[EPS]):
            _forget(place, members, counts, starts, lengths)
        else:
            projected = _projected(gradient, before, upper[i])
            extremes[LARGEST] = max(extremes[LARGEST], projected)
            extremes[SMALLEST] = min(extremes[SMALLEST], projected)
            extremes[NEXT_EPS] = max(extremes[NEXT_EPS], abs(projected))
            after = _best(gradient, before, upper[i], norms[i] + k + shift[i])
            if after != before:
                alpha[i] = after
                change = sign * (after - before)
                for j in range(start, end):
                    w[indices[j]] += change * np.float64(values[j])
                z += change
        counts[VISITS] += 1
        if counts[VISITS] == per_eps:
            extremes[EPS], extremes[NEXT_EPS], counts[VISITS] = extremes[NEXT_EPS], 0.0, 0
    offset[1] = z
    return draws.shape[0]
