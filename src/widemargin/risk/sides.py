"""Risks of positive and negative rows: they fall with the scores of the former, and rise with the
latter's."""

import numpy as np
from numpy import ndarray as Array

from widemargin.passes.sweeps import BLUR, sorted_by_group
from widemargin.risk.base import Bound, Risk
from widemargin.risk.measures import Sorted
from widemargin.rounding import gamma


class TwoSidedRisk(Risk):
    """A mean over groups, of what is computed from positive and negative rows.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    C : float
    counts : ndarray of int, shape (n,), or None
        How often each row counts, 0 or more times. None: once.
    group : ndarray of int, shape (n,), or None
        Group of each row. The risk is the mean over groups, times the number of rows. None: all
        rows are one group. Groups without rows of both labels are left out.
    """

    outputs = ()

    def __init__(
        self, y: Array, C: float, counts: Array | None = None, group: Array | None = None
    ):
        self.n_rows, self.sides = y.size, Sides(y, counts, group)
        #: C times the weight of a row of each group, and of the group, (g,)
        self.scale = C * self.sides.weight
        self.weight = self.scale * self.sides.sizes
        self.n_terms = max(y.size, int(self.sides.sizes.sum()))

    def value(self, S: Array) -> float:
        return self.cut(S).value

    def blur(self, S: Array) -> float:
        """Return a bound on the rounding error of the value of `cut` at S."""
        sides = self.sides.high, self.sides.low
        largest = max(float(np.abs(S[side.once]).max(initial=0.0)) for side in sides)
        return gamma(32 * self.n_terms + 64) * float(self.weight.sum()) * (1.0 + 2.0 * largest)

    def bound(self, S: Array, error: Array, low: Array | None = None) -> Bound:
        error = error + BLUR * np.abs(S) + (0.0 if low is None else np.abs(low))
        worst = self.sides.worst_scores(S, error)
        plane, blur = self.cut(worst), self.blur(worst)
        moved = float(np.abs(plane.slope) @ np.abs(worst - S))
        return Bound(plane.value + blur, moved + 2.0 * blur)


class Sides:
    """Positive and negative rows, group by group, as often as they count.

    Groups without rows of both labels are left out. `sizes` (g,) are their numbers of rows, and
    `weight` (g,) how much a row of each counts in a mean over groups, 1 on average.
    """

    def __init__(self, y: Array, counts: Array | None, group: Array | None):
        units = np.arange(y.size) if counts is None else np.repeat(np.arange(y.size), counts)
        group = np.zeros(y.size, dtype=np.intp) if group is None else group
        labels = y[units]
        #: the groups that are not left out
        self.groups = np.intersect1d(group[units[labels > 0]], group[units[labels < 0]])
        units = units[np.isin(group[units], self.groups)]
        units = units[np.argsort(group[units], kind="stable")]
        member, labels = np.searchsorted(self.groups, group[units]), y[units]
        self.high, self.low = (
            Side(units[of_side], member[of_side], self.groups.size)
            for of_side in (labels > 0, labels < 0)
        )
        self.sizes = self.high.sizes + self.low.sizes
        self.weight = self.sizes.sum() / (max(1, self.groups.size) * self.sizes)

    def worst_scores(self, S: Array, error: Array) -> Array:
        """Return the scores within `error` of S at which risks of this kind are largest."""
        worst = S.copy()
        worst[self.high.once] -= error[self.high.once]
        worst[self.low.once] += error[self.low.once]
        return worst


class Side:
    """The units of one label: their rows, group by group, as often as each of them counts."""

    def __init__(self, rows: Array, member: Array, n_groups: int):
        self.rows, self.member = rows, member
        self.once = np.unique(rows)
        self.sizes = np.bincount(member, minlength=n_groups)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])

    def sorted(self, S: Array, sign: float) -> tuple[Array, Sorted]:
        """Return the units in order of sign * S within each group, and their scores."""
        if self.rows.size == 0:
            return self.rows, Sorted(np.empty(0), self.starts)
        order, scores = sorted_by_group(sign * S[self.rows], self.starts, self.member)
        return order, Sorted(sign * scores, self.starts)

    def first(self, counts: Array, order: Array) -> Array:
        """Return which units, (m,), are among the first `counts` of their groups in an order."""
        chosen = np.zeros(order.size, dtype=bool)
        if counts.size == 1:
            chosen[order[: counts[0]]] = True
            return chosen
        places = np.arange(order.size) - self.starts[self.member]
        chosen[order] = places < counts[self.member]
        return chosen

    def count(self, chosen: Array) -> Array:
        """Return how many units of each group are chosen, (g,)."""
        if self.sizes.size == 1:
            return np.array([np.count_nonzero(chosen)])
        return np.bincount(self.member[chosen], minlength=self.sizes.size)

    def sums(self, values: Array) -> Array:
        """Return the sums over the units of each group, (g,), of values of the rows, (n,)."""
        return np.bincount(self.member, values[self.rows], minlength=self.sizes.size)

    def add(self, values: Array, chosen: Array, total: Array) -> None:
        """Add the values of groups, (g,), to `total` (n,) for each of the chosen units."""
        rows = self.rows[chosen]
        of_units = values[0] if values.size == 1 else values[self.member[chosen]]
        if self.once.size < self.rows.size:  # some count several times: times are exact
            rows, first, times = np.unique(rows, return_index=True, return_counts=True)
            of_units = np.broadcast_to(of_units, chosen[chosen].shape)[first] * times
        total[rows] += of_units
