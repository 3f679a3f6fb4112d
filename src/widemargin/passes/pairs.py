"""The pairwise hinge by operations on whole arrays, for processors that work on many rows at once.

    r(s) = sum over pairs (i, j) of one group with y_i > y_j of  u_i u_j max(0, 1 - s_i + s_j)

`risk.pairwise` sweeps over sorted rows, one after another. Here all rows are processed at once.
Only functions and operators that dispatch on their arguments (NEP 13 and 18) are used, so the
library of the arrays, NumPy or CuPy, does the work.

If the rows are sorted by group and score, those that have a loss with a given row are a window,
found by bisection. A wavelet matrix tells how much of the window has a higher, or lower, grade.
Two grades differ first in some bit. So bit by bit, from the highest, the rows are partitioned:
those without the bit come first, and each half keeps its order. A row's window follows the row's
own half. The other half of the window has a higher grade if the row's bit is 0, and a lower grade
if it is 1. This takes O(n log n) for the sort and O(n log R) for R grades.

Weights are added up in fixed point. Sums of integers do not depend on their order, which on a GPU
differs from run to run, and differences of prefix sums lose no digits.
"""

from collections.abc import Callable
from math import frexp, ldexp

import numpy as np
from numpy import ndarray as Array

from widemargin.kernels.pairwise import BLUR, MARGIN, MOST_NEAR
from widemargin.rounding import SUM

# The sum of all weights is below two to this power in fixed point, with room for rounding.
_WEIGHT_BITS = 60


def pair_sums(
    S: Array, starts: Array, n_levels: Array, member: Array, level: Array, weight: Array
) -> tuple[float, float, Array, float]:
    """Return the pairwise hinge at S and the plane that touches it there.

    S (n,) are the scores of the rows in pairs, group by group, which begin and end at starts
    (g + 1,). n_levels (g,), on the host, are the numbers of grades in each group. member, level
    and weight (n,) are each row's group, never decreasing; its grade, numbered from 0 within the
    group; and its u_i > 0.

    Returns the value; -r* of the slope; the slope (n,); and a bound on the rounding error of the
    value. If more than a few pairs are very close to their margin, the value is an upper bound.
    r(S') >= slope @ S' + constant, with equality at S but for such pairs.
    """
    order = _order(S, starts, member)
    S, level, weight = S[order], level[order], weight[order]
    begin, end = starts[:-1][member], starts[1:][member]  # sorted rows stay in their group's range
    windows = _windows(S, begin, end, int((starts[1:] - starts[:-1]).max()))
    unit = ldexp(1.0, frexp(float(weight.sum()))[1] - _WEIGHT_BITS)
    # Rounded down: a plane with smaller weights is still below the risk.
    units = np.floor(weight / unit).astype(np.int64)
    above, below = _weigh(windows, level, units, int(n_levels.max()))

    # The rounded weights, so that a pair has the same weight from either of its rows.
    whole, weight = float(weight.sum()), units * unit
    constant = float((weight * (below * unit)).sum())
    sorted_slope = weight * ((above - below) * unit)
    # Slopes sum to zero in each group, so any number may be subtracted from its scores. Relative
    # to the group's middle score they are small, and lose the fewest digits.
    score = S - S[(begin + end) // 2]
    value = constant + float((sorted_slope * score).sum())
    far = np.abs(score)
    terms = constant + float((weight * ((above + below) * unit) * far).sum())
    # A pair's weight may be too small by a unit of either row, times its loss, 1 and both scores.
    lost = S.size * (whole + 2.0 * float((weight * far).sum())) + 2.0 * whole * float(far.sum())
    blur = SUM * terms + 2.0 * unit * lost
    value += _losses_left_out(begin, windows[2], S, level, weight)
    slope = np.zeros_like(sorted_slope)
    slope[order] = sorted_slope
    return value, constant, slope, blur


def _order(S: Array, starts: Array, member: Array) -> Array:
    """Return the order of the rows by group and score, (n,)."""
    order = np.argsort(S, kind="stable")
    if starts.shape[0] == 2:
        return order
    return order[np.argsort(member[order], kind="stable")]


def _windows(S: Array, begin: Array, end: Array, largest: int) -> Array:
    """Return the windows of the rows that have a loss with each row, (4, n).

    The first two are the begin and end of the window of rows above it in a pair, the last two
    those of the rows below it.
    """
    above = _first_without(lambda other: _lossy(other, S), S, begin, end, largest)
    below = _first_without(lambda other: ~_lossy(S, other), S, begin, end, largest)
    return np.stack([begin, above, below, end])


def _losses_left_out(begin: Array, nearest: Array, S: Array, level: Array, weight: Array) -> float:
    """Return the losses of pairs that are not in the plane; see kernels/pairwise.py.

    begin (n,) is the begin of each row's group. nearest (n,) is the first row that is too near to
    be left out.
    """
    losses = 0.0
    for depth in range(1, MOST_NEAR + 2):
        below = np.maximum(nearest - depth, begin)
        short = 1.0 - (S - S[below])
        left = (nearest - depth >= begin) & (short > 0.0)
        if not bool(left.any()):
            return losses
        if depth <= MOST_NEAR:
            each = np.where(left & (level[below] < level), weight * weight[below] * short, 0.0)
            losses += float(each.sum())
    before = np.concatenate([np.zeros_like(weight, shape=1), np.cumsum(weight)])
    weight_below = before[nearest] - before[begin]
    most = 1.0 - MARGIN + BLUR * np.abs(S)
    return losses + float(np.where(left, weight * weight_below * most, 0.0).sum())


def _lossy(above: Array, below: Array) -> Array:
    """Return which pairs have a loss, in the same way from both sides, whatever rounding does."""
    return above - MARGIN < below


def _first_without(
    holds: Callable[[Array], Array], S: Array, begin: Array, end: Array, largest: int
) -> Array:
    """Return the first row from `begin` whose score lacks a property, or `end`, (n,).

    Rows are in increasing order of score, and those with the property come first. `largest` is the
    size of the largest group.
    """
    found = begin
    for bit in reversed(range(largest.bit_length())):
        further = found + (1 << bit)
        last = np.minimum(further, end) - 1
        found = np.where((further <= end) & holds(S[last]), further, found)
    return found


def _weigh(windows: Array, level: Array, units: Array, n_levels: int) -> tuple[Array, Array]:
    """Return the weight above each row in its first window, and below it in its second, (n,).

    The weights `units`, (n,), are integers. The windows, (4, n), are those of `_windows`.
    """
    above = np.zeros_like(units)
    below = np.zeros_like(units)
    places = np.arange(units.shape[0], like=units)
    parted_level = level
    for bit in reversed(range((n_levels - 1).bit_length())):
        has_bit = (parted_level >> bit) % 2 == 1
        lower = _prefix_sums(~has_bit)  # the new place of each row without the bit
        n_lower = lower[-1]
        moves = np.where(has_bit, n_lower + places - lower[:-1], lower[:-1])
        parted_level, units = _moved(parted_level, moves), _moved(units, moves)
        sums = _prefix_sums(units)

        is_upper = (level >> bit) % 2 == 1  # in the order of the sorted rows, as the windows
        in_lower = lower[windows]
        in_upper = n_lower + windows - in_lower
        edges = np.where(is_upper, in_lower[2:], in_upper[:2])
        parted_from = sums[edges[1]] - sums[edges[0]]
        above += np.where(is_upper, 0, parted_from)
        below += np.where(is_upper, parted_from, 0)
        windows = np.where(is_upper, in_upper, in_lower)
    return above, below


def _prefix_sums(values: Array) -> Array:
    """Return the sums of the values before each place, and of all, (n + 1,)."""
    sums = np.cumsum(values, dtype=np.int64)
    return np.concatenate([np.zeros_like(sums, shape=1), sums])


def _moved(values: Array, place: Array) -> Array:
    moved = np.zeros_like(values)
    moved[place] = values
    return moved
