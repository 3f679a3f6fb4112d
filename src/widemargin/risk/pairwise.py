"""The pairwise hinge: rows of higher grade should have a score higher by one.

    r(s) = sum over pairs (i, j) of one group with y_i > y_j of  u_i u_j max(0, 1 - s_i + s_j)

Joachims 2006, section 3.2: with two grades this is the loss of the ROC area, with several grades
that of ordinal regression, and with groups (the documents of a query) that of ranking. Grades are
any numbers, and may all differ. Algorithm 2 of the paper computes a slope in O(n R + n log n) for
R grades. Here a Fenwick tree over the grades makes it O(n log n) for any R.

A pair's weight is the product of its rows' weights, so a row of weight two counts as two rows. A
group's own weight is a factor of the pair's weight; rows get its square root.

A row's loss depends on all other rows, and -r*(-A) is a linear programme. So lower bounds come
from planes below r: `cut` computes one at any scores. It is valid even if the scores are rounded,
since each pair's loss is in it as a whole or not at all.
"""

from copy import copy

import numpy as np
from numpy import ndarray as Array

from widemargin import passes
from widemargin.arrays import move_to
from widemargin.passes.sweeps import BLUR, weigh_pairs
from widemargin.risk.base import Bound, Cut, CutLine, Risk
from widemargin.rounding import SUM


class PairwiseHinge(Risk):
    """A sum of hinge losses over pairs of rows.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Grades.
    weight : ndarray of shape (n,)
        u_i >= 0.
    group : ndarray of int, shape (n,), or None
        Group of each row; pairs are of one group. None: all rows are one group.
    """

    outputs = ()

    def __init__(self, y: Array, weight: Array, group: Array | None = None) -> None:
        y = np.asarray(y)
        weight = np.asarray(weight, dtype=np.float64)
        group = np.zeros(y.size, dtype=np.intp) if group is None else np.asarray(group)
        self.n_rows = y.size
        self.rows, self.level, self.starts, self.n_levels = _levels(y, weight > 0.0, group)
        self.groups = group[self.rows[self.starts[:-1]]]  # groups with pairs
        self.weight = weight[self.rows]
        self.member = np.repeat(np.arange(self.n_levels.size), np.diff(self.starts))

    def count_pairs(self) -> Array:
        """Return how many pairs there are in each group, (g,)."""
        return self._sum_pairs(np.ones(self.weight.size))

    def weigh_pairs(self) -> Array:
        """Return the weight of all pairs of each group, (g,)."""
        return self._sum_pairs(self.weight)

    def _sum_pairs(self, weight: Array) -> Array:
        ends = np.cumsum(self.n_levels)
        by_level = np.bincount((ends - self.n_levels)[self.member] + self.level, weight)
        return weigh_pairs(ends, by_level)

    def scaled(self, factors: Array) -> "PairwiseHinge":
        """Return this risk with the pairs of each group also multiplied by `factors`, (g,)."""
        risk = copy(self)
        risk.weight = self.weight * np.sqrt(factors)[self.member]
        return risk

    def move_to(self, array: Array) -> "PairwiseHinge":
        """Return this risk with its arrays moved to where `array` is."""
        risk = copy(self)
        for name in ("rows", "starts", "member", "level", "weight"):
            setattr(risk, name, move_to(getattr(self, name), array))
        return risk

    def value(self, S: Array) -> float:
        return self._pairs(S[self.rows])[0]

    def bound(self, S: Array, error: Array, low: Array | None = None) -> Bound:
        """As in `Risk`: the better of two bounds.

        For the first one, the margin of all pairs is widened by the errors. For the second one,
        the error of each row is multiplied by the weight of all rows that it may be paired with.
        That is much less if few rows have large errors.
        """
        if self.rows.size == 0:
            return Bound(0.0, 0.0)
        if low is not None:
            error = error + np.abs(low)
        S = S[self.rows]
        error = error[self.rows] + BLUR * np.abs(S)
        wider = 2.0 * float(error.max())
        margin = 1.0 + wider
        value, constant, _, blur = self._pairs(S / margin)
        bound = Bound(margin * (value + blur), wider * (value + constant) + margin * blur)
        if bound.rounding <= SUM * bound.value:
            return bound
        value, _, _, blur = self._pairs(S)
        whole = np.bincount(self.member, self.weight)[self.member]
        blur += (1.0 + SUM) * float((self.weight * whole * error).sum())
        return min(bound, Bound(value + blur, blur))

    def cut(self, S: Array) -> Cut:
        value, constant, slope, _ = self._pairs(S[self.rows])
        return Cut(value, self._spread(slope), constant, None, int(np.count_nonzero(slope)))

    def line(self, S: Array, D: Array) -> "PairwiseLine":
        return PairwiseLine(self, S[self.rows], D[self.rows])

    def _spread(self, values: Array) -> Array:
        """Return values of the rows in pairs as values of all rows, (n,)."""
        spread = np.zeros_like(values, shape=self.n_rows)
        spread[self.rows] = values
        return spread

    def _pairs(self, S: Array) -> tuple[float, float, Array, float]:
        """Return value, -r* of the slope, slope, and a bound on the value's rounding error.

        S are the scores of the rows in pairs.
        """
        if S.size == 0:
            return 0.0, 0.0, S, 0.0
        return passes.of(S).pair_sums(
            S, self.starts, self.n_levels, self.member, self.level, self.weight
        )


class PairwiseLine(CutLine):
    """The pairwise hinge along S + step * D, for the rows in pairs."""

    def at(self, step: float) -> tuple[float, float]:
        value, _, slope, _ = self.risk._pairs(self.S + step * self.D)
        return value, float(slope @ self.D)


def _levels(y: Array, counted: Array, group: Array) -> tuple[Array, Array, Array, Array]:
    """Find the rows that are in pairs, and number their grades from 0 within each group.

    Return these rows, group by group, (m,), their levels, (m,), the ends of the groups, (g + 1,),
    and the number of levels of each group, (g,).
    """
    rows = np.lexsort((y, group))
    rows = rows[counted[rows]]
    if rows.size == 0:
        return rows, rows, np.zeros(1, dtype=np.intp), rows
    new_group, new_level = (np.r_[True, np.diff(values[rows]) != 0] for values in (group, y))
    new_level |= new_group
    member = np.cumsum(new_group) - 1
    n_levels = np.bincount(member, weights=new_level).astype(np.intp)
    level = np.cumsum(new_level) - 1
    level -= level[new_group][member]
    kept = n_levels[member] > 1
    rows, level, member = rows[kept], level[kept], member[kept]
    in_order = np.lexsort((rows, member))  # in the order of the input, not by grade
    sizes = np.bincount(member, minlength=n_levels.size)[n_levels > 1]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return rows[in_order], level[in_order].astype(np.int32), starts, n_levels[n_levels > 1]
