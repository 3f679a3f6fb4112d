"""The risk of a measure: over all labellings of the rows, the largest loss that scores allow.

    r(s) = sum over groups of  c max(0, max over labellings y' of  n loss(y', y) - sum y_i s_i)

The inner sum is over the rows that y' gets wrong, c is C times the weight of the group, and n its
number of rows. This is Joachims's bound (ICML 2005), by margin rescaling. Its scale is that of a
sum of hinge losses: for the error rate it would be C sum_i max(0, 1 - y_i s_i). The most violated
labelling is found exactly, see kernels/measures.py, in O(n log n) for the sort.

For measures of the k highest rows, y' accepts k rows. If k is the number of positive rows, as for
the break-even point, y' misses as many rows as it accepts false ones. Else there are more wrong
rows of one kind, and Joachims's bound becomes small if just their scores do, in whatever order the
others are. So with q errors that could be avoided, the sum is q times the mean score of the missed
rows, minus q times that of the false ones (Kar, Narasimhan & Jain, ICML 2015).

A plane below r is a labelling, and is stored as one bit per row. So a certificate need not find it
again: it computes the loss of any labelling by its counts, and knows the plane.
"""

import numpy as np
from numpy import ndarray as Array

from widemargin.passes.sweeps import sorted_by_group
from widemargin.risk.base import Bound, CodedRisk, Cut, CutLine
from widemargin.risk.measures import Measure, Sorted
from widemargin.rounding import gamma


class LabellingRisk(CodedRisk):
    """The risk of a measure of two counts.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    C : float
    measure : Measure
    counts : ndarray of int, shape (n,), or None
        How often each row counts, 0 or more times. None: once.
    group : ndarray of int, shape (n,), or None
        Group of each row. The risk is the mean over groups, times the number of rows. None: all
        rows are one group. Groups without rows of both labels are left out.
    """

    outputs = ()

    def __init__(
        self,
        y: Array,
        C: float,
        measure: Measure,
        counts: Array | None = None,
        group: Array | None = None,
    ):
        self.measure, self.n_rows = measure, y.size
        self.takes_intercept = measure.takes_intercept
        self.sides = Sides(y, counts, group)
        self.sizes = self.sides.sizes
        #: c of each group, (g,)
        self.scale = C * self.sides.weight

    def value(self, S: Array) -> float:
        return self.cut(S).value

    def cut(self, S: Array) -> Cut:
        high, low = self.sides.high, self.sides.low
        (missed_first, up), (accepted_first, down) = high.sorted(S, 1.0), low.sorted(S, -1.0)
        cuts = self.measure.worst(self.sizes.astype(np.float64), up, down)
        wrong = high.first(cuts[:, 0], missed_first), low.first(cuts[:, 1], accepted_first)
        plane = self._plane(*wrong)
        value = plane.constant + float(plane.slope @ S)
        return plane._replace(value=value, code=np.packbits(np.concatenate(wrong)))

    def decoded(self, code: Array) -> Cut:
        n_high, n_low = self.sides.high.rows.size, self.sides.low.rows.size
        wrong = np.unpackbits(code, count=n_high + n_low).astype(bool)
        return self._plane(wrong[:n_high], wrong[n_high:])

    def _plane(self, missed: Array, accepted: Array) -> Cut:
        """Return the plane of a labelling, by the units that it gets wrong; its value is unset.

        In groups in which the labelling is none of the measure's, the plane is zero.
        """
        high, low = self.sides.high, self.sides.low
        counts = high.count(missed), low.count(accepted)
        losses = self.measure.losses(*counts, high.sizes, low.sizes)
        swaps = np.minimum(*counts)
        scale = np.where((counts[0] + counts[1] > 0) & (losses >= 0.0), self.scale, 0.0)
        slope = np.zeros(self.n_rows)
        for side, wrong, sign in ((high, missed, -1.0), (low, accepted, 1.0)):
            pulls = sign * scale
            if self.measure.is_of_fixed_size:
                pulls = pulls * swaps / np.maximum(1, side.count(wrong))
            side.add(pulls, wrong, slope)
        height = float((scale * self.sizes * np.where(scale > 0.0, losses, 0.0)).sum())
        return Cut(np.nan, slope, height, None, int(counts[0].sum() + counts[1].sum()))

    def bound(self, S: Array, error: Array, low: Array | None = None) -> Bound:
        worst = self.sides.worst_scores(S, error if low is None else error + np.abs(low))
        cut = self.cut(worst)
        # The labelling is the worst one but for rounding in sums of scores.
        sums = self.sides.high.sums(np.abs(worst)) + self.sides.low.sums(np.abs(worst))
        blur = gamma(8 * self.n_rows + 64) * (float(self.scale @ sums) + cut.constant)
        moved = float(np.abs(cut.slope) @ np.abs(worst - S))
        return Bound(cut.value + blur, moved + 2.0 * blur)

    def line(self, S: Array, D: Array) -> CutLine:
        return CutLine(self, S, D)

    def first_codes(self) -> list[Array]:
        are_high = np.repeat([True, False], [self.sides.high.rows.size, self.sides.low.rows.size])
        return [np.packbits(are_high), np.packbits(~are_high)]

    def largest_pulls(self, lengths: Array) -> tuple[float, float]:
        """Return the least sum of |slopes| of `first_codes`, and the largest one times |x_i|."""
        slopes = [np.abs(self.decoded(code).slope) for code in self.first_codes()]
        return min(float(s.sum()) for s in slopes), max(float(s @ lengths) for s in slopes)


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
        if self.once.size == self.rows.size:
            total[rows] += of_units
        else:
            total += np.bincount(rows, np.broadcast_to(of_units, rows.shape), total.size)
