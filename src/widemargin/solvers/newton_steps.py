"""Newton steps on the smoothed losses of some rows: for the problem see newton.py.

The rows are all rows of a problem, a subsample, or a working set. In the last case, the other rows
are settled: they stay on one piece of their losses, so their total loss is a quadratic function of
(w, b), which is added to the penalty.
"""

from typing import NamedTuple

import numpy as np

from widemargin import passes, threads
from widemargin.data.rows import Rows
from widemargin.kernels import newton as kernels
from widemargin.kernels.loss import knots
from widemargin.monitor import Monitor
from widemargin.problem import Intercept
from widemargin.risk import Loss
from widemargin.solvers.newton_direction import Curved, Directions, QuadraticTerms, Slope
from widemargin.solvers.sharing import product

# delta shrinks by at most this factor, until the smoothing gap is this fraction of the gap
# allowed.
_SHRINK, FRACTION_OF_GAP = 0.2, 0.3
# After a step shorter than this, each row has its mean curvature over a step as long to both
# sides. If the steps after it are longer, it is the mean over a third of the step. (A squared
# hinge is curved on all of one side, and updating the last Hessian is worth more.)
SHORT_STEP, _WAY_AHEAD, _LITTLE_AHEAD = 0.5, 1.0, 0.3
# The slope left by a line search, as a fraction of the first slope.
_SLOPE_LEFT = 1e-3
# At most this many steps over a working set or subsample: then a full pass tells more.
_STEPS = 20


class DualSums(NamedTuple):
    """Sums over the rows, of their dual variables A = alpha y at a point.

    `above` is for rows with positive A, `below` for the others.
    """

    above: float  # of A
    below: float  # of -A
    height_above: float  # of alpha - eps |alpha|
    height_below: float
    bent_above: float  # of shift alpha^2 / 2
    bent_below: float
    losses: float
    aligned: float  # of alpha z - eps |alpha|


class NewtonSteps:
    """A point, the slacks of the rows there, and steps from it.

    Parameters
    ----------
    rows : Rows
    y, cost : ndarray of shape (n,)
        Of the rows that count.
    counted : ndarray of shape (n,) or None
        Which rows these are; None for all.
    intercept : Intercept
    quadratic : QuadraticTerms
        The penalty, and the losses of settled rows.
    coef : ndarray of shape (d,)
    offset : float
    z : ndarray of shape (n,) or None
        Slacks at the point, of the rows that count; None if they are not known yet.
    delta : float
        The bend of the smooth losses, see kernels/newton.py.
    loss : Loss
    monitor : Monitor
    fraction : float
        What a pass over these rows counts for.
    """

    def __init__(
        self,
        rows: Rows,
        y,
        cost,
        counted,
        intercept: Intercept,
        quadratic: QuadraticTerms,
        coef,
        offset: float,
        z,
        delta: float,
        loss: Loss,
        monitor: Monitor,
        fraction: float,
    ):
        self.rows, self.y, self.cost, self.counted = rows, y, cost, counted
        self.intercept, self.quadratic = intercept, quadratic
        self.coef, self.offset, self.z = coef, offset, z
        self.delta, self.loss = delta, loss
        self.monitor, self.fraction = monitor, fraction
        self.directions = Directions(rows, cost, counted, quadratic, monitor, fraction)
        # Mean curvatures are taken along rates (n,), over this step to both sides.
        self.around: tuple[np.ndarray, float] | None = None
        self.n_curved = 0
        self.decrement = np.inf  # by how much the last step was to lower the objective
        self.is_exact = False  # whether slacks come from scores computed by the rows
        self.fresh: tuple | None = None  # coefficients, and their scores computed by the rows

    @property
    def smooth(self):
        """The numbers of the smoothed losses."""
        return *self.loss.numbers[:3], self.delta

    @property
    def has_intercept(self):
        return self.intercept is not Intercept.NONE

    def approach(self, allowed, combined):
        """Take steps until smoothing gap and gradient gap are below `allowed` together.

        `combined` is X^T A at the beginning, (d,), or None if it is not known.
        """
        if self.has_intercept:
            self.move_offset()
            combined = None
        for _ in range(_STEPS):
            if self.monitor.must_stop():
                return
            A, sums = self.dual_point()
            if combined is None:
                combined = self.combine(A)
            gradient = self.quadratic.slope(self.coef, self.offset).coef - combined
            smoothing_gap, gradient_gap = (
                self.smoothing_gap(sums),
                0.5 * float(gradient @ gradient),
            )
            if smoothing_gap + gradient_gap <= allowed:
                return
            moved = self.step(A * self.y, gradient, smoothing_gap, gradient_gap, allowed)
            if not moved:
                return
            combined = None

    def step(self, alpha, gradient, smoothing_gap, gradient_gap, allowed):
        """Take one Newton step; return whether there was a direction.

        Parameters
        ----------
        alpha : ndarray of shape (n,)
            The dual variables of the current point, none of them negative.
        gradient : ndarray of shape (d,)
        smoothing_gap, gradient_gap : float
            The two parts of the gap.
        allowed : float
            The gap allowed.
        """
        shrink = 1.0
        if gradient_gap <= smoothing_gap and smoothing_gap > 0.0:
            shrink = min(1.0, max(_SHRINK, FRACTION_OF_GAP * allowed / smoothing_gap))
        with self.monitor.phase("direction"):
            curved = self.curvature(self.around if shrink == 1.0 else None)
        slope = Slope(gradient, 0.0)
        if shrink < 1.0:
            slope = self._shrink(shrink, curved, alpha)
        way = self.directions.find(slope, curved, self.delta, allowed)
        if way is None or self.monitor.must_stop():
            return False
        ahead, shift = way
        self.decrement = -0.5 * float(slope.coef @ ahead)
        change = self.scores(ahead)
        with self.monitor.phase("line search"):
            rate = passes.of(change).rates(self.y, change, shift)
            step = self.search(rate, ahead, shift)
            self.move(step, rate, ahead, shift)
            is_short, was_short = step < SHORT_STEP, self.around is not None
            self.around = None
            if (is_short or was_short) and not self.loss.is_smooth:
                # Rows became curved on the way; more rows of their kind will.
                self.around = rate, step * (_WAY_AHEAD if is_short else _LITTLE_AHEAD)
        self.monitor.iteration += self.fraction
        return True

    def dual_point(self):
        """Return A of the current point, and sums over the rows."""
        of_rows = self.z, self.y, self.cost
        A, *sums = passes.of(self.z).dual_point(*of_rows, self.smooth, self.loss.bend)
        return A, DualSums(*map(float, sums))

    def smoothing_gap(self, sums):
        """Return the part of the gap due to smoothing, by the sums of `dual_point`."""
        if self.loss.is_smooth:
            return 0.0
        return max(0.0, sums.losses - sums.aligned)

    # --- products ---------------------------------------------------------------------------

    def scores(self, w):
        """Return the scores of the rows that count."""
        scores = product(self.rows, "scores", w, self.monitor)
        return scores if self.counted is None else scores[self.counted]

    def combine(self, g):
        return product(self.rows, "combine", self.directions.everywhere(g), self.monitor)

    def find_slack(self):
        scores = 0.0
        if self.coef.any():
            scores = self.scores(self.coef)
            self.fresh = self.coef, scores
        self.z = 1.0 - self.y * (scores + self.offset)
        self.is_exact = True

    def _shrink(self, factor, curved, alpha):
        """Shrink delta; return the slope as if the same rows stayed curved.

        Most of them will: their alpha changes little, so z shrinks with delta. With z unchanged,
        alpha would be at its bound for most of them. The gradient before, a small one, is left
        out of the slope: along features that no curved row has, it may lead far away.
        """
        self.delta *= factor
        growth = np.where(curved.weight > 0.0, (1.0 / factor - 1.0) * self.y * alpha, 0.0)
        combined = self.combine(growth)
        curved.weight /= factor
        curved.total /= factor
        return Slope(-combined, -float(growth.sum()))

    # --- some of the rows -------------------------------------------------------------------

    def take(self, index):
        """Return some of the rows that count."""
        return self.rows.take(index if self.counted is None else self.counted[index])

    def steps_over(self, rows, index, cost, quadratic, start):
        """Return Newton steps over some rows from `start`: coef, offset, slacks of all rows."""
        coef, offset, z = start
        return NewtonSteps(
            rows,
            self.y[index],
            cost,
            None,
            self.intercept,
            quadratic,
            coef,
            offset,
            z[index],
            self.delta,
            self.loss,
            self.monitor,
            self.fraction * index.size / z.size,
        )

    # --- along a line -----------------------------------------------------------------------

    def search(self, rate, ahead, shift):
        """Return the best step along (ahead, shift), where slacks change at `rate`, (n,)."""
        slope = self.quadratic.slope(self.coef, self.offset)
        incline = float(slope.coef @ ahead) + slope.offset * shift
        curvature = self.quadratic.curvature(ahead, shift)
        return self._lowest(rate, incline, curvature, guess=1.0, slope_left=_SLOPE_LEFT)[0]

    def move(self, step, rate, ahead, shift):
        """Take a step, and move b to its optimum."""
        self.coef = self.coef + step * ahead
        self.offset += step * shift
        self.z += step * rate
        self.is_exact = False
        self.move_offset()

    def curved_slacks(self):
        """Return the intervals of slacks where a smoothed loss is curved; some are unbounded."""
        first, second, third, last = knots(*self.smooth)
        return [(third, last)] if self.loss.is_one_sided else [(first, second), (third, last)]

    def move_offset(self):
        """Move b to its optimum, for the smoothed losses."""
        if self.intercept is Intercept.NONE or self.z.size == 0:
            return
        rate = -self.y.astype(np.float64)
        slope = self.quadratic.slope(self.coef, self.offset).offset
        stiffness = self.quadratic.offset_curvature
        step, curvature = self._lowest(rate, slope, stiffness, guess=0.0, slope_left=0.0)
        self.offset += step
        self.z += step * rate
        if curvature == 0.0:
            step = self._middle()
            self.offset += step
            self.z += step * rate

    def _middle(self):
        """Return the step to the middle of the offsets that are as good as this one.

        There are several if no row is curved. At the edge of their interval, a single row would
        stop every move of w.
        """
        # How far each row lets slacks rise, and fall, before its slope changes.
        rise = np.full_like(self.z, np.inf)
        fall = np.full_like(self.z, np.inf)
        for begin, end in self.curved_slacks():
            rise = np.where(self.z <= begin, np.minimum(rise, begin - self.z), rise)
            fall = np.where(self.z >= end, np.minimum(fall, self.z - end), fall)
        positive = self.y > 0  # whose slacks fall as b rises
        low = -float(np.where(positive, rise, fall).min())
        high = float(np.where(positive, fall, rise).min())
        return 0.5 * (low + high) if np.isfinite(low) and np.isfinite(high) else 0.0

    def _lowest(self, rate, slope, curvature, guess, slope_left):
        """Return the best step along z + t rate, and the curvature there."""
        way = self.z, rate, self.cost, self.smooth
        return passes.of(rate).lowest(*way, slope, curvature, guess, slope_left)

    def curvature(self, around=None):
        """Return the curved rows among those that count, and the curvature of each.

        With `around` = (rates, step), these are means over that step to both sides of z.
        """
        arguments = self.z, self.cost, self.smooth
        if around is None:
            weight, count, total = passes.of(self.z).curvature(*arguments)
        else:
            weight, count, total = passes.of(self.z).mean_curvature(*arguments, *around)
        self.n_curved = int(count)
        return Curved(weight, self.n_curved, float(total), plain=around is None)


def full_pass(rows, index, y, cost, coef, offset, smooth, bend, scores, z, alpha):
    """Return X^T A at a point and sums over rows in memory, by a single pass over the rows.

    y and cost are (m,), of the rows `index`, (m,), or of all rows if it is None. scores, z and
    alpha, (m,), receive the scores without the offset, the slacks and the dual variables. For the
    sums see `dual_point` in kernels/newton.py.
    """
    of_rows = rows.arrays, index, y, cost
    of_point = coef, offset, smooth, bend

    def chunk(begin, end):
        combined, sums = np.zeros(coef.size), np.zeros(len(DualSums._fields))
        for low, high in rows.ranges(begin, end):
            kernels.fused_pass(*of_rows, *of_point, low, high, scores, z, alpha, sums, combined)
        return combined, sums

    chunks = threads.run(chunk, threads.chunks(y.size, rows.n_entries))
    combined, sums = (sum(parts[1:], start=parts[0]) for parts in zip(*chunks))
    return combined, DualSums(*map(float, sums))
