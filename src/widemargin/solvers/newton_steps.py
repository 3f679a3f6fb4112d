"""Newton steps on the smoothed losses of some rows: for the problem see newton.py.

The rows are all rows of a problem, a subsample, or a working set. In the last case, the other rows
are settled: they stay on one linear piece of their losses, so their total loss is a linear
function of (w, b), which is added to the penalty.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from widemargin import passes, threads
from widemargin.data.rows import Rows, SingleRows
from widemargin.kernels import newton as kernels
from widemargin.kernels.loss import knots
from widemargin.kernels.response import signs, targets
from widemargin.monitor import Monitor
from widemargin.problem import Intercept
from widemargin.risk import Loss
from widemargin.solvers.newton_direction import Curved, Directions, Part, QuadraticTerms, Slope
from widemargin.solvers.newton_settings import NewtonSettings
from widemargin.solvers.sharing import product

# A slack so near to the edge of its curve, as a fraction of delta, is there but for rounding.
_EDGE = 1e-12


class DualSums(NamedTuple):
    """Sums over the rows, of their dual variables A = alpha y at a point.

    `above` is for rows with positive A, `below` for the others.
    """

    above: float  # of A
    below: float  # of -A
    height_above: float  # of target alpha - eps |alpha|
    height_below: float
    bent_above: float  # of shift alpha^2 / 2
    bent_below: float
    losses: float
    aligned: float  # of alpha z - eps |alpha|


@dataclass(frozen=True)
class Shared:
    """What all steps of a run share."""

    loss: Loss
    intercept: Intercept
    monitor: Monitor
    settings: NewtonSettings


class Place(NamedTuple):
    """A point, and the slacks z of some rows there, (n,); None if they are not known yet."""

    coef: np.ndarray
    offset: float
    z: np.ndarray | None


class NewtonSteps:
    """A point, the slacks of the rows there, and steps from it.

    Parameters
    ----------
    shared : Shared
    part : Part
        The rows.
    y : ndarray of shape (n,)
        Labels of the rows that count, or their targets: see kernels/response.py.
    quadratic : QuadraticTerms
        The penalty, and the losses of settled rows.
    place : Place
    delta : float
        The bend of the smooth losses, see kernels/newton.py.
    """

    z: np.ndarray

    def __init__(
        self,
        shared: Shared,
        part: Part,
        y: np.ndarray,
        quadratic: QuadraticTerms,
        place: Place,
        delta: float,
    ):
        self.shared, self.part = shared, part
        self.rows, self.cost, self.counted, self.fraction = part
        self.loss, self.intercept = shared.loss, shared.intercept
        self.monitor, self.settings = shared.monitor, shared.settings
        self.y, self.sign, self.quadratic, self.delta = y, signs(y), quadratic, delta
        self.coef, self.offset = place.coef, place.offset
        if place.z is not None:
            self.z = place.z
        self.directions = Directions(part, quadratic, self.monitor, self.settings)
        self.n_curved = 0
        self.decrement = np.inf  # by how much the last step was to lower the objective
        self.is_exact = False  # whether slacks come from scores computed by the rows
        # Coefficients, and their scores as computed by the rows.
        self.fresh: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def smooth(self) -> tuple[float, float, float, float]:
        """The numbers of the smoothed losses."""
        return *self.loss.numbers[:3], self.delta

    @property
    def place(self) -> Place:
        return Place(self.coef, self.offset, self.z)

    @property
    def has_intercept(self) -> bool:
        return self.intercept is not Intercept.NONE

    def approach(self, allowed: float, combined: np.ndarray | None) -> None:
        """Take steps until smoothing gap and gradient gap are below `allowed` together.

        `combined` is X^T A at the beginning, (d,), or None if it is not known.
        """
        if self.has_intercept:
            self.move_offset()
            combined = None
        for _ in range(self.settings.most_steps):
            if self.monitor.must_stop():
                return
            A, sums = self.dual_point()
            if combined is None:
                combined = self.combine(A)
            gradient = self.quadratic.slope(self.coef, self.offset).coef - combined
            smoothing_gap = self.smoothing_gap(sums)
            gradient_gap = 0.5 * float(gradient @ gradient)
            if smoothing_gap + gradient_gap <= allowed:
                return
            if not self.step(A * self.sign, gradient, smoothing_gap, gradient_gap, allowed):
                return
            combined = None

    def step(
        self,
        alpha: np.ndarray,
        gradient: np.ndarray,
        smoothing_gap: float,
        gradient_gap: float,
        allowed: float,
    ) -> bool:
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
        shrink, settings = 1.0, self.settings
        if gradient_gap <= smoothing_gap and smoothing_gap > 0.0:
            wanted = settings.fraction_of_gap * allowed / smoothing_gap
            shrink = min(1.0, max(settings.shrink, wanted))
        with self.monitor.phase("direction"):
            curved = self.curvature()
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
            rate = passes.of(change).rates(self.sign, change, shift)
            self.move(self.search(rate, ahead, shift), rate, ahead, shift)
        self.monitor.iteration += self.fraction
        return True

    def dual_point(self) -> tuple[np.ndarray, DualSums]:
        """Return A of the current point, and sums over the rows."""
        of_rows = self.z, self.y, self.cost
        A, *sums = passes.of(self.z).dual_point(*of_rows, self.smooth, self.loss.bend)
        return A, DualSums(*map(float, sums))

    def smoothing_gap(self, sums: DualSums) -> float:
        """Return the part of the gap due to smoothing, by the sums of `dual_point`."""
        if self.loss.is_smooth:
            return 0.0
        return max(0.0, sums.losses - sums.aligned)

    # --- products ---------------------------------------------------------------------------

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Return the scores of the rows that count."""
        scores = product(self.rows, "scores", w, self.monitor)
        return scores if self.counted is None else scores[self.counted]

    def combine(self, g: np.ndarray) -> np.ndarray:
        return product(self.rows, "combine", self.part.everywhere(g), self.monitor)

    def find_slack(self) -> None:
        scores: np.ndarray | float = 0.0
        if self.coef.any():
            scores = self.scores(self.coef)
            self.fresh = self.coef, scores
        self.z = targets(self.y) - self.sign * (scores + self.offset)
        self.is_exact = True

    def _shrink(self, factor: float, curved: Curved, alpha: np.ndarray) -> Slope:
        """Shrink delta; return the slope as if the same rows stayed curved.

        Most of them will: their alpha changes little, so z shrinks with delta. With z unchanged,
        alpha would be at its bound for most of them. The gradient before, a small one, is left
        out of the slope: along features that no curved row has, it may lead far away.
        """
        self.delta *= factor
        growth = np.where(curved.weight > 0.0, (1.0 / factor - 1.0) * self.sign * alpha, 0.0)
        combined = self.combine(growth)
        curved.weight /= factor
        curved.total /= factor
        return Slope(-combined, -float(growth.sum()))

    # --- some of the rows -------------------------------------------------------------------

    def take(self, index: np.ndarray) -> Rows:
        """Return some of the rows that count."""
        return self.rows.take(index if self.counted is None else self.counted[index])

    def steps_over(
        self,
        rows: Rows,
        index: np.ndarray,
        cost: np.ndarray,
        quadratic: QuadraticTerms,
        start: Place,
    ) -> "NewtonSteps":
        """Return Newton steps over some rows, from a start with the slacks of all rows."""
        assert start.z is not None
        part = Part(rows, cost, None, self.fraction * index.size / start.z.size)
        place = start._replace(z=start.z[index])
        return NewtonSteps(self.shared, part, self.y[index], quadratic, place, self.delta)

    # --- along a line -----------------------------------------------------------------------

    def search(self, rate: np.ndarray, ahead: np.ndarray, shift: float) -> float:
        """Return the best step along (ahead, shift), where slacks change at `rate`, (n,)."""
        slope = self.quadratic.slope(self.coef, self.offset)
        incline = float(slope.coef @ ahead) + slope.offset * shift
        curvature = self.quadratic.curvature(ahead, shift)
        left = self.settings.slope_left
        return self._lowest(rate, incline, curvature, guess=1.0, slope_left=left)[0]

    def move(self, step: float, rate: np.ndarray, ahead: np.ndarray, shift: float) -> None:
        """Take a step, and move b to its optimum."""
        self.coef = self.coef + step * ahead
        self.offset += step * shift
        self.z += step * rate
        self.is_exact = False
        self.move_offset()

    def curved_slacks(self) -> list[tuple[float, float]]:
        """Return the intervals of slacks where a smoothed loss is curved; some are unbounded."""
        first, second, third, last = knots(*self.smooth)
        return [(third, last)] if self.loss.is_one_sided else [(first, second), (third, last)]

    def move_offset(self) -> None:
        """Move b to its optimum, for the smoothed losses."""
        if self.intercept is Intercept.NONE or self.z.size == 0:
            return
        rate = -self.sign.astype(np.float64)
        slope = self.quadratic.slope(self.coef, self.offset).offset
        stiffness = self.quadratic.stiffness
        step, curvature = self._lowest(rate, slope, stiffness, guess=0.0, slope_left=0.0)
        self.offset += step
        self.z += step * rate
        if stiffness == 0.0 and curvature * self.delta <= self._largest_cost:
            step = self._middle()
            self.offset += step
            self.z += step * rate

    @cached_property
    def _largest_cost(self) -> float:
        """The largest cost; divided by delta, the largest curvature that one row can have."""
        return float(self.cost.max())

    def _middle(self) -> float:
        """Return the step to the middle of the offsets that are as good as this one.

        There are several if no row is curved, but for one that is at the edge of its curve up to
        rounding. At the edge of their interval, a single row would stop every move of w.
        """
        # How far each row lets slacks rise, and fall, before its slope changes.
        rise = np.full_like(self.z, np.inf)
        fall = np.full_like(self.z, np.inf)
        edge = _EDGE * self.delta
        for begin, end in self.curved_slacks():
            if bool(((self.z > begin + edge) & (self.z < end - edge)).any()):
                return 0.0
            below, above = self.z <= begin + edge, self.z >= end - edge
            rise = np.where(below, np.minimum(rise, np.maximum(begin - self.z, 0.0)), rise)
            fall = np.where(above, np.minimum(fall, np.maximum(self.z - end, 0.0)), fall)
        positive = self.sign > 0  # whose slacks fall as b rises
        low = -float(np.where(positive, rise, fall).min())
        high = float(np.where(positive, fall, rise).min())
        return 0.5 * (low + high) if np.isfinite(low) and np.isfinite(high) else 0.0

    def _lowest(
        self, rate: np.ndarray, slope: float, curvature: float, guess: float, slope_left: float
    ) -> tuple[float, float]:
        """Return the best step along z + t rate, and the curvature there."""
        way = self.z, rate, self.cost, self.smooth
        return passes.of(rate).lowest(*way, slope, curvature, guess, slope_left)

    def curvature(self) -> Curved:
        """Return the curved rows among those that count, and the curvature of each."""
        weight, count, total = passes.of(self.z).curvature(self.z, self.cost, self.smooth)
        self.n_curved = int(count)
        return Curved(weight, self.n_curved, float(total))


class FullPass(NamedTuple):
    """What `full_pass` computes for some rows: all but the sums are (m,)."""

    scores: np.ndarray  # without the offset
    z: np.ndarray
    alpha: np.ndarray
    combined: np.ndarray  # (d,) X^T A
    sums: DualSums


def full_pass(steps: NewtonSteps, rows: SingleRows) -> FullPass:
    """Return scores, slacks, dual variables, X^T A and sums by a single pass over the rows.

    `rows` are those of the steps. For the sums see `dual_point` in kernels/newton.py.
    """
    y, coef = steps.y, steps.coef
    of_rows = rows.arrays, steps.counted, y, steps.cost
    of_point = coef, steps.offset, steps.smooth, steps.loss.bend
    vectors = np.empty(y.size), np.empty(y.size), np.empty(y.size)

    def chunk(begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        combined, sums = np.zeros(coef.size), np.zeros(len(DualSums._fields))
        for low, high in rows.ranges(begin, end):
            kernels.fused_pass(*of_rows, *of_point, low, high, *vectors, sums, combined)
        return combined, sums

    chunks = threads.run(chunk, threads.chunks(y.size, rows.n_entries))
    combined, sums = (sum(parts[1:], start=parts[0]) for parts in zip(*chunks))
    return FullPass(*vectors, combined, DualSums(*map(float, sums)))
