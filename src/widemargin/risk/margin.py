"""Two-class margin losses: hinge and squared hinge.

    r(s) = sum_i c_i max(0, 1 - y_i s_i)^p,      y_i = +-1,  c_i >= 0,  p = 1 or 2

With dual variables A (n,) written as A_i = alpha_i y_i, the dual -r*(-A) is

    hinge           sum_i alpha_i                              for 0 <= alpha_i <= c_i
    squared hinge   sum_i alpha_i - alpha_i^2 / (4 c_i)        for 0 <= alpha_i

and minus infinity elsewhere. Both are exact, in float64.
"""

import math
from abc import abstractmethod

import numpy as np

from widemargin import passes
from widemargin.arrays import as_array, parts_of
from widemargin.risk.base import Bound, Cut, LineSums, RowRisk


class MarginRisk(RowRisk):
    """A sum of margin losses over rows.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels, -1 or +1; kept as int8.
    cost : ndarray of shape (n,)
        Weight of each row's loss: C times class weight times sample weight. A row of cost
        zero counts for nothing, as if it were not there.
    """

    outputs = ()
    #: whether the loss is squared; with `y` and `cost` all that kernels need.
    squared: bool

    def __init__(self, y, cost):
        self.y = as_array(y, np.int8)
        self.cost = as_array(cost, np.float64)

    def part(self, begin, end):
        """Return the risk of the rows from `begin` to `end`, without a copy."""
        return type(self)(self.y[begin:end], self.cost[begin:end])

    def signed(self, alpha):
        return alpha * self.y

    unsigned = signed

    def feasible(self, A):
        return np.clip(A * self.y, 0.0, self._upper()) * self.y

    def balanced(self, A):
        """Return A with sum zero, by scaling down the side that weighs more."""
        parts = list(parts_of(A))
        above = math.fsum(float(np.maximum(A[part], 0.0).sum()) for part in parts)
        below = -math.fsum(float(np.minimum(A[part], 0.0).sum()) for part in parts)
        if above == below:
            return A
        balanced, least = np.empty_like(A), min(above, below)
        for part in parts:
            factors = np.where(A[part] > 0.0, least / (above or 1.0), least / (below or 1.0))
            np.multiply(A[part], factors, out=balanced[part])
        return balanced

    def cut(self, S):
        slope, value, constant, active = passes.of(S).margin_cut(
            self.y, self.cost, self.squared, S
        )
        return Cut(float(value), slope, float(constant), self._pack(slope), int(active))

    def line(self, S, D):
        slack, rate = passes.of(S).margin_line(self.y, self.cost, self.squared, S, D)
        return MarginLine(slack, rate, self.squared)

    def walk(self, S, T, *numbers):
        """Go from S towards T to where  1/2 a step^2 + b step + r  is lowest; on a GPU.

        See `passes.gpu.margin_walk`, also for `numbers`. Returns the slope of a plane farther on,
        and a function that waits for the rest: step; a, b and c; r at the end; the plane's Cut.
        """
        slope, lossy, wait = passes.of(S).margin_walk(
            self.y, self.cost, self.squared, S, T, *numbers
        )
        code = slope if self.squared else lossy  # as `_pack` has it

        def found():
            step, a, b, c, at_end, value, constant, active = wait().tolist()
            return step, (a, b, c), at_end, Cut(value, slope, constant, code, int(active))

        return slope, found

    def gap_shares(self, S, alpha):
        """Return each row's share of the duality gap, (n,), where w = sum_i alpha_i y_i x_i.

        |w|^2 = sum_i alpha_i y_i s_i splits the gap by rows: the loss of row i, less its
        dual term, plus alpha_i y_i s_i. No share is negative.
        """
        return self._losses(S) - self._dual_terms(alpha) + alpha * (self.y * S)

    def value(self, S):
        """Return r(S)."""
        return float(self._losses(S).sum())

    def bound(self, S, error, low=None):
        slack = self.y * S
        np.subtract(1.0, slack, out=slack)
        if low is not None:
            slack -= self.y * low
        slack += error
        return self._bound(np.maximum(slack, 0.0, out=slack), error)

    def may_have_loss(self, S, error):
        return (1.0 - self.y * S + error > 0.0) & (self.cost > 0.0)

    def largest_lack(self, S, error):
        lacks = (1.0 - self.y * S + error)[self.cost > 0.0]
        return float(lacks.max()) if lacks.size else 0.0

    def dual_sum(self, alpha):
        """Return the dual at alpha_i that are known to be feasible."""
        return float(self._dual_terms(alpha).sum())

    @abstractmethod
    def best_offset(self, S):
        """Return the b that minimises r(S + b)."""

    @abstractmethod
    def _upper(self):
        """Return the upper bounds of alpha, (n,)."""

    @abstractmethod
    def _bound(self, slack, error):
        """Return the losses of slacks that are rounded up already, and how much that adds."""

    @abstractmethod
    def _pack(self, slope):
        """Return the code of a slope that `cut` found."""

    @abstractmethod
    def _losses(self, S):
        """Return the loss of each row, (n,)."""

    @abstractmethod
    def _dual_terms(self, alpha):
        """Return each row's term of the dual, (n,)."""

    def _slack(self, S):
        return np.maximum(0.0, 1.0 - self.y * S)

    def _breakpoints(self, S):
        """Return, in increasing order, the offsets b at which rows cross the margin.

        y (s + b) = 1 at b = y - s. Below its breakpoint a positive row has a loss, above
        it a negative one; so each breakpoint passed adds the row's weight to the slope.
        """
        counted = self.cost > 0.0
        y, cost = self.y[counted], self.cost[counted]
        points = y - S[counted]
        order = np.argsort(points)
        return points[order], cost[order], y[order] > 0


class Hinge(MarginRisk):
    """r(s) = sum_i c_i max(0, 1 - y_i s_i)."""

    squared = False

    def _upper(self):
        return self.cost

    def _losses(self, S):
        return self.cost * self._slack(S)

    def _bound(self, slack, error):
        rounding = float((self.cost * error * (slack > 0.0)).sum())
        return Bound(float((self.cost * slack).sum()), rounding)

    def _dual_terms(self, alpha):
        return alpha

    def _pack(self, slope):
        return np.packbits(slope != 0.0)  # a bit per row: whether it has a loss

    def unpack(self, code):
        if code.dtype != np.uint8:
            return code
        lossy = np.unpackbits(code)[: self.y.size].astype(bool)
        return np.where(lossy, -self.cost * self.y, 0.0)

    def dual(self, A):
        alpha = A * self.y
        if np.any(alpha < 0.0) or np.any(alpha > self.cost):
            return -np.inf
        return self.dual_sum(alpha)

    def best_offset(self, S):
        """Return the b that minimises r(S + b): the middle one, where there are several."""
        points, cost, positive = self._breakpoints(S)
        slope = np.cumsum(cost) - cost[positive].sum()  # to the right of each breakpoint
        rounding = 1e-12 * cost.sum()
        first = np.searchsorted(slope, -rounding)
        last = np.searchsorted(slope, rounding, side="right")
        return 0.5 * float(
            points[min(first, points.size - 1)] + points[min(last, points.size - 1)]
        )


class SquaredHinge(MarginRisk):
    """r(s) = sum_i c_i max(0, 1 - y_i s_i)^2."""

    squared = True

    def _upper(self):
        return np.where(self.cost > 0.0, np.inf, 0.0)

    def _losses(self, S):
        return self.cost * self._slack(S) ** 2

    def _bound(self, slack, error):
        weighed = self.cost * slack
        rounding = 2.0 * float((weighed * error).sum())
        return Bound(float((weighed * slack).sum()), rounding)

    def _dual_terms(self, alpha):
        # A row of cost zero has alpha zero, and its term would be 0 / 0.
        cost = np.where(self.cost > 0.0, self.cost, 1.0)
        return alpha - alpha * (alpha / (4.0 * cost))  # alpha^2 alone might underflow

    def _pack(self, slope):
        return slope

    def unpack(self, code):
        return code

    def dual(self, A):
        alpha = A * self.y
        if np.any(alpha < 0.0) or np.any(alpha[self.cost == 0.0] > 0.0):
            return -np.inf
        return self.dual_sum(alpha)

    def best_offset(self, S):
        """Return the b that minimises r(S + b)."""
        points, cost, positive = self._breakpoints(S)
        # Left of all breakpoints the positive rows are active; each one passed swaps sides.
        # The slope at b is 2 (weight * b - moment) over the rows active there.
        swap = np.where(positive, -cost, cost)
        weight = cost[positive].sum() + np.concatenate(([0.0], np.cumsum(swap)))
        moment = (cost * points)[positive].sum() + np.concatenate(
            ([0.0], np.cumsum(swap * points))
        )
        slope = weight[:-1] * points - moment[:-1]  # half the slope, at each breakpoint
        piece = int(np.searchsorted(slope, 0.0))
        if weight[piece] <= 1e-12 * cost.sum():  # no row is active: every b here is best
            return float(points[min(piece, points.size - 1)])
        return float(moment[piece] / weight[piece])


class MarginLine:
    """sum_i max(0, slack_i + step * rate_i)^p, p = 1 or 2, as a function of the step."""

    def __init__(self, slack, rate, squared):
        self.slack, self.rate, self.squared = slack, rate, squared
        self.size, self.passes = slack.size, passes.of(slack)

    def evaluate(self, steps):
        steps = np.asarray(steps, dtype=np.float64)
        sums, pieces = self.passes.margin_sums(self.slack, self.rate, self.squared, steps)
        return LineSums(*sums.T, pieces)

    def between(self, sums, j):
        rows = self.passes.changed(sums.pieces, j)
        if rows is None:
            return None
        return MarginLine(self.slack[rows], self.rate[rows], self.squared)
