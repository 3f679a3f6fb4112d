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

from widemargin.risk.base import CodedRisk, Cut
from widemargin.risk.measures import Measure
from widemargin.risk.sides import TwoSidedRisk
from widemargin.rounding import gamma


class LabellingRisk(TwoSidedRisk, CodedRisk):
    """The risk of a measure of two counts; see `TwoSidedRisk`."""

    def __init__(
        self,
        y: Array,
        C: float,
        measure: Measure,
        counts: Array | None = None,
        group: Array | None = None,
    ):
        super().__init__(y, C, counts, group)
        self.measure, self.takes_intercept = measure, measure.takes_intercept
        #: how many rows of each group are accepted, (g,), by measures of a fixed size
        self.n_accepted = measure.sizes(self.sides.high.sizes, self.sides.low.sizes)

    def cut(self, S: Array) -> Cut:
        high, low = self.sides.high, self.sides.low
        (missed_first, up), (accepted_first, down) = high.sorted(S, 1.0), low.sorted(S, -1.0)
        cuts = self.measure.worst(self.sides.sizes.astype(np.float64), up, down)
        wrong = high.first(cuts[:, 0], missed_first), low.first(cuts[:, 1], accepted_first)
        plane, code = self._plane(*wrong), np.packbits(np.concatenate(wrong))
        return plane._replace(value=plane.constant + float(plane.slope @ S), code=code)

    def blur(self, S: Array) -> float:
        # The labelling is the worst one but for rounding in sums of scores, and in losses.
        sums = self.sides.high.sums(np.abs(S)) + self.sides.low.sums(np.abs(S))
        blur = gamma(8 * self.n_terms + 64) * float(self.scale @ sums)
        return blur + gamma(self.scale.size + 64) * float(self.weight.sum())

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
        height = float((scale * self.sides.sizes * np.where(scale > 0.0, losses, 0.0)).sum())
        return Cut(np.nan, slope, height, None, int(counts[0].sum() + counts[1].sum()))

    def first_codes(self) -> list[Array]:
        are_high = np.repeat([True, False], [self.sides.high.rows.size, self.sides.low.rows.size])
        return [np.packbits(are_high), np.packbits(~are_high)]

    def largest_pulls(self, lengths: Array) -> tuple[float, float]:
        """Return the least sum of |slopes| of `first_codes`, and the largest one times |x_i|."""
        slopes = [np.abs(self.decoded(code).slope) for code in self.first_codes()]
        return min(float(s.sum()) for s in slopes), max(float(s @ lengths) for s in slopes)
