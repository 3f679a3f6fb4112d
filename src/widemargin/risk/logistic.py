"""The logistic loss:  r(S) = sum_i c_i log(1 + exp(-y_i s_i)),  y_i = +-1.

Its dual is, with alpha_i = y_i A_i between 0 and c_i and entropies H,

    -r*(-A) = sum_i c_i H(alpha_i / c_i),      H(p) = -p log p - (1 - p) log(1 - p)

At scores S the slopes are -A with alpha_i = c_i / (1 + exp(y_i s_i)). They are feasible, and r(S)
is their dual value minus A.S. So a point w with A at its scores, and sum_i A_i = 0 for a free
intercept, has the gap 1/2 |w - X^T A|^2: it falls with the square of the gradient.

Bounds on rounding errors take for granted that exp, log and log1p are off by less than 8 units in
the last place; those of C libraries in use are off by less than 4. What is below the smallest
float64 counts as zero.
"""

import math

import numpy as np
from numpy import ndarray as Array
from numpy.typing import ArrayLike

from widemargin import threads
from widemargin.arrays import as_array
from widemargin.kernels import logistic as kernels
from widemargin.risk.base import (
    Bound,
    Cut,
    LineSums,
    RowCurvature,
    SmoothRisk,
    balanced_sides,
)
from widemargin.rounding import gamma

# More than the relative error of a loss, of a slope or of an entropy, as they are computed here.
_ERROR = gamma(48)
# More than the roundings of a margin, of its further digits, and of its sum with an error.
_ROUNDINGS = 2.0**-51
# Losses of margins beyond this are smaller than any rounding.
_FAR = 40.0
# exp(-_VANISHED) is zero in float64.
_VANISHED = 800.0
# More than log(c / alpha) of any two numbers.
_STEEPEST = 1500.0
# After so many steps the bracket of an intercept has no number left inside.
_MOST_STEPS = 2200


class LogisticRisk(SmoothRisk):
    """A sum of logistic losses over rows.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels, -1 or +1; stored as int8.
    cost : ndarray of shape (n,)
        Weight of each row's loss. Rows of cost zero are left out.
    """

    outputs = ()
    name = "logistic"
    # H(p) - H(p - q) is at most H(q), since H is concave, and H(q) / q at most 1 - log q.
    steepest = _STEEPEST

    def __init__(self, y: Array, cost: Array):
        self.y = as_array(y, np.int8)
        self.cost = as_array(cost, np.float64)

    def part(self, begin: int, end: int) -> "LogisticRisk":
        return LogisticRisk(self.y[begin:end], self.cost[begin:end])

    def over(self, y: Array, cost: Array) -> "LogisticRisk":
        """Return the same losses for other rows."""
        return LogisticRisk(y, cost)

    # --- at scores --------------------------------------------------------------------------

    def losses(self, S: Array) -> Array:
        """Return the loss of each row, (n,)."""
        out = np.empty(S.size)
        threads.run(kernels.losses, self._cut(2, S, out))
        return out

    def value(self, S: Array) -> float:
        return float(self.losses(S).sum())

    def bound(self, S: Array, error: Array, low: Array | None = None) -> Bound:
        margin = self.y * S
        error = error + _ROUNDINGS * np.abs(margin)
        if low is not None:
            error = error + np.abs(low)
        # Of the lowest margins the losses are the largest, and so are their slopes.
        worst = self.y * (margin - error)
        value = self.value(worst)
        pulls = np.abs(self.slopes(worst)[0])
        return Bound((1.0 + _ERROR) * value, float(pulls @ error) + 2.0 * _ERROR * value)

    def may_have_loss(self, S: Array, error: Array) -> Array:
        return (self.y * S - error < _FAR) & (self.cost > 0.0)

    def largest_lack(self, S: Array, error: Array) -> float:
        return math.inf  # no score is without a loss

    def slopes(self, S: Array, offset: float = 0.0) -> tuple[Array, "RowCurvature"]:
        A, weight = np.empty(S.size), np.empty(S.size)
        threads.run(kernels.slopes, self._cut(4, S, float(offset), A, weight))
        return A, RowCurvature(weight)

    def cut(self, S: Array) -> Cut:
        slope = np.empty(S.size)
        value, constant = threads.sums(kernels.cut, self._cut(4, S, slope))
        return Cut(float(value), slope, float(constant), slope, int(np.count_nonzero(slope)))

    def line(self, S: Array, D: Array) -> "LogisticLine":
        return LogisticLine(self.y * S, self.y * D, self.cost)

    def _cut(self, work: int, S: Array, *others: Array | float) -> list[tuple]:
        """Return the arguments of each thread's call of a kernel."""
        return [
            tuple(
                each[begin:end] if isinstance(each, np.ndarray) else each
                for each in (self.y, self.cost, S, *others)
            )
            for begin, end in threads.chunks(S.size, 8 * work * S.size)
        ]

    # --- the dual ---------------------------------------------------------------------------

    def signed(self, alpha: Array) -> Array:
        return alpha * self.y

    def unsigned(self, A: Array) -> Array:
        return A * self.y

    def feasible(self, A: Array) -> Array:
        return np.clip(A * self.y, 0.0, self.cost) * self.y

    def balanced(self, A: Array) -> Array:
        return balanced_sides(A)

    def dual(self, A: Array) -> float:
        alpha = A * self.y
        if np.any(alpha < 0.0) or np.any(alpha > self.cost):
            return -np.inf
        return float(self.entropies(alpha).sum())

    def steepness(self, A: Array, height: float) -> float:
        # Of a sum with total zero, either side is half. H is concave, so that scaling a side down
        # by a fraction loses no more than that fraction of its terms.
        size = float(np.abs(A).sum())
        return 2.1 * height / size if size > 0.0 else self.steepest

    def entropies(self, alpha: Array) -> Array:
        """Return each row's term of the dual, (n,), at feasible alpha."""
        terms = np.empty(alpha.size)
        kernels.entropies(np.ascontiguousarray(alpha), self.cost, terms)
        return terms

    def unpack(self, code: Array) -> Array:
        return code

    # --- the intercept ----------------------------------------------------------------------

    def best_offset(self, S: Array) -> float:
        """Return the b that minimises r(S + b).

        If all rows that count have the same label, there is none; then no row has a loss there.
        """
        counted = self.cost > 0.0
        positive = counted & (self.y > 0)
        above = float(self.cost[positive].sum())
        below = float(self.cost[counted & (self.y < 0)].sum())
        if above == 0.0 or below == 0.0:
            if above == below:
                return 0.0
            some = S[counted]
            return _VANISHED - float(some.min()) if above else -_VANISHED - float(some.max())
        some = S[counted]
        odds = math.log(above / below)
        low, high = odds - float(some.max()), odds - float(some.min())
        step = min(max(0.0, low), high)
        for _ in range(_MOST_STEPS):
            slope, size, curvature = threads.sums(kernels.slope_sums, self._cut(3, S, step))
            if abs(slope) <= 4e-16 * size:
                break
            if slope < 0.0:
                low = step
            else:
                high = step
            ahead = step - slope / curvature if curvature > 0.0 else math.nan
            ahead = ahead if low < ahead < high else 0.5 * low + 0.5 * high
            if ahead in (low, high):
                break
            step = ahead
        return step


class LogisticLine:
    """The losses of rows with margins that change at constant rates, (n,) each."""

    def __init__(self, margin: Array, rate: Array, cost: Array):
        self.vectors = margin, rate, cost

    def evaluate(self, steps: ArrayLike) -> LineSums:
        """Return values, slopes and curvatures at all `steps`; there are no pieces."""
        steps = np.asarray(steps, dtype=np.float64)
        size = self.vectors[0].size
        cuts = threads.chunks(size, 32 * size)
        parts = [tuple(v[begin:end] for v in self.vectors) for begin, end in cuts]
        sums = [
            threads.sums(kernels.along, [(*part, step) for part in parts])
            for step in steps.tolist()
        ]
        values, slopes, curvatures = np.array(sums).T
        return LineSums(values, slopes, curvatures, np.empty((steps.size, 0)))
