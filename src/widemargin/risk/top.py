"""Risks of rankings: the area under a part of the ROC curve, and average precision.

Both are sums over groups of c n (loss of the worst ranking - what scores say against it), scaled
like the pairwise hinge: c n is C times the weight of the group. Scores are compared, so that an
intercept has no effect.

The area up to a false positive rate counts the pairs of positive rows with the m highest of N
negative rows. Its bound is the pairwise hinge over these pairs. It is convex, since the m highest
rows are those with the largest loss (Narasimhan & Agarwal 2013).

Average precision has the bound of Yue et al. 2007: over all rankings, the largest

    1 - AP - mean over pairs (i, j) of (s_i - s_j) if the ranking has j before i
"""

import numpy as np
from numpy import ndarray as Array

from widemargin.kernels import measures as kernels
from widemargin.passes.sweeps import pair_sums
from widemargin.risk.base import Cut
from widemargin.risk.sides import TwoSidedRisk


class PartialArea(TwoSidedRisk):
    """The hinge over pairs with the highest negative rows, a fraction `rate` of them."""

    def __init__(
        self,
        y: Array,
        C: float,
        rate: float,
        counts: Array | None = None,
        group: Array | None = None,
    ):
        super().__init__(y, C, counts, group)
        high, low = self.sides.high, self.sides.low
        self.most = np.maximum(1, np.floor(rate * low.sizes + 1e-9)).astype(np.int64)
        self.pull = np.sqrt(self.weight / (high.sizes * self.most))

    def cut(self, S: Array) -> Cut:
        high, low = self.sides.high, self.sides.low
        chosen = np.flatnonzero(low.first(self.most, low.sorted(S, -1.0)[0]))
        member = np.concatenate([high.member, low.member[chosen]])
        order = np.argsort(member, kind="stable")
        rows = np.concatenate([high.rows, low.rows[chosen]])[order]
        level = (order < high.rows.size).astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(high.sizes + self.most)])
        levels = np.full(self.most.size, 2)
        member = member[order]
        found = pair_sums(S[rows], starts, levels, member, level, self.pull[member])
        # Pairs whose margin is short of 1 by a hair's breadth are in the value, not in the plane.
        value, constant, slope, _ = found
        slope = np.bincount(rows, slope, minlength=self.n_rows)
        return Cut(value, slope, constant, None, int(np.count_nonzero(slope)))


class AveragePrecision(TwoSidedRisk):
    """The bound on 1 - AP; the mean over groups."""

    def cut(self, S: Array) -> Cut:
        sides = self.sides
        (high_order, high), (low_order, low) = (
            sides.high.sorted(S, -1.0),
            sides.low.sorted(S, -1.0),
        )
        ranks = np.empty(low.scores.size, dtype=np.int64)
        kernels.average_precision(high.starts, high.scores, low.starts, low.scores, ranks)
        sizes, n_low, member = sides.high.sizes, sides.low.sizes, sides.high.member
        # How many negative rows precede each positive one, in order of score.
        places = high.starts[sides.low.member] + ranks
        inside = ranks < sizes[sides.low.member]
        ahead = np.cumsum(np.bincount(places[inside], minlength=high.scores.size))
        ahead -= np.concatenate([[0], ahead])[high.starts[:-1]][member]
        nth = 1.0 + np.arange(high.scores.size) - high.starts[member]
        losses = np.bincount(member, ahead / (nth + ahead), minlength=sizes.size) / sizes
        of_pair = self.weight / (sizes * n_low)
        of_high, of_low = np.empty(ahead.size), np.empty(ranks.size)
        of_high[high_order] = -of_pair[member] * ahead
        behind = sizes[sides.low.member] - ranks
        of_low[low_order] = of_pair[sides.low.member] * behind
        height = float((self.weight * losses).sum())
        slope = np.bincount(sides.high.rows, of_high, minlength=self.n_rows)
        slope += np.bincount(sides.low.rows, of_low, minlength=self.n_rows)
        value = height + float(slope @ S)
        return Cut(value, slope, height, None, int(np.count_nonzero(slope)))
