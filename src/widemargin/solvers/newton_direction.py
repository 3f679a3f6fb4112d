"""The direction of Newton's method, - H^-1 gradient, by Cholesky or by conjugate gradients.

    H = I + sum_i k_i x_i x_i^T,      and one row and column more for an intercept

is a sum over the rows with a curvature k_i. The intercept is eliminated: for every w, b is at its
optimum. With a free intercept, the mean may be subtracted from the rows. That is the same
problem, with smaller rounding errors.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from widemargin import passes
from widemargin.arrays import move_to
from widemargin.data.rows import GramRows, Rows, SingleRows
from widemargin.monitor import Monitor
from widemargin.solvers.sharing import product

# Up to this many features the Hessian is computed and factorised. At 784 dense features that
# takes half to nine tenths of the time of conjugate gradients.
CHOLESKY_FEATURES = 1000
# At most this many steps of conjugate gradients: then a new point tells more.
_CG_STEPS = 250


@dataclass
class Curved:
    """Rows where the smoothed losses are curved, among those that count.

    Attributes
    ----------
    weight : ndarray of shape (n,)
        Curvatures, zero for other rows.
    count : int
        How many are not zero.
    total : float
        Their sum.
    plain : bool
        Whether all curvatures are cost / delta.
    """

    weight: np.ndarray
    count: int
    total: float
    plain: bool

    @cached_property
    def index(self):
        """Their indices, (m,)."""
        return passes.of(self.weight).places(self.weight, self.count)


class Slope(NamedTuple):
    """A gradient, in w and in b."""

    coef: np.ndarray
    offset: float


class Settled(NamedTuple):
    """Losses of rows that stay on one piece: a quadratic function of (w, b).

    Attributes
    ----------
    coef, offset : ndarray of shape (d,), float
        A point.
    pull : Slope
        Minus the gradient at this point: X^T A and the sum of A.
    second, first, total : ndarray of shape (d, d), ndarray of shape (d,), float
        Sums over the centred rows: of curvature (x - center)(x - center)^T, of
        curvature (x - center), and of curvature. All zeros for the hinge.
    """

    coef: np.ndarray
    offset: float
    pull: Slope
    second: np.ndarray
    first: np.ndarray
    total: float


@dataclass
class QuadraticTerms:
    """All terms but the losses of the rows at hand: the penalty, and the settled losses.

    Attributes
    ----------
    stiffness : float
        The penalty's curvature in b. If it is infinite, b is fixed.
    center : ndarray of shape (d,)
        What is subtracted from the rows.
    settled : Settled or None
    """

    stiffness: float
    center: np.ndarray
    settled: Settled | None = None

    def slope(self, coef, offset) -> Slope:
        """Return the gradient at a point."""
        of_offset = self.stiffness * offset if self.stiffness < np.inf else 0.0
        settled = self.settled
        if settled is None:
            return Slope(coef, of_offset)
        way = coef - settled.coef
        risen = offset - settled.offset + float(self.center @ way)
        of_b = float(settled.first @ way) + settled.total * risen
        bent = settled.second @ way + risen * settled.first + of_b * self.center
        return Slope(coef + bent - settled.pull.coef, of_offset + of_b - settled.pull.offset)

    @property
    def offset_curvature(self) -> float:
        """The curvature in b alone."""
        return self.stiffness + (0.0 if self.settled is None else self.settled.total)

    def curvature(self, ahead, shift) -> float:
        """Return the curvature along a direction."""
        curvature = float(ahead @ ahead)
        if self.stiffness < np.inf:
            curvature += self.stiffness * shift**2
        if self.settled is not None:
            second, first, total = self.settled[3:]
            shift = shift + float(self.center @ ahead)
            along = float(ahead @ (second @ ahead)) + 2.0 * shift * float(first @ ahead)
            curvature += along + total * shift**2
        return curvature


class Directions:
    """Finds one direction after another for one problem.

    Parameters
    ----------
    rows : Rows
    cost : ndarray of shape (n,)
        Of the rows that count.
    counted : ndarray of shape (n,) or None
        Which rows these are; None for all.
    quadratic : QuadraticTerms
    monitor : Monitor
    fraction : float
        What a pass over `rows` counts for.
    """

    def __init__(
        self,
        rows: Rows,
        cost,
        counted,
        quadratic: QuadraticTerms,
        monitor: Monitor,
        fraction: float,
    ):
        self.rows, self.cost, self.counted = rows, cost, counted
        self.quadratic, self.monitor, self.fraction = quadratic, monitor, fraction
        self.kept: tuple | None = None  # which rows were curved last, and their moments

    def find(self, slope, curved, delta, allowed):
        """Return - H^-1 slope, in w and in b; b is at its optimum for each w.

        None if the monitor says stop, or if numbers are so large that there is no direction.
        `allowed` is the gap allowed.
        """
        settled = self.quadratic.settled
        if curved.count == 0 and settled is None:
            return -slope.coef, 0.0
        if self.rows.n_features > CHOLESKY_FEATURES or not isinstance(self.rows, GramRows):
            return self._conjugate_gradients(slope, curved, allowed)
        with self.monitor.phase("direction"):
            sums = self._hessian(curved, delta)
            if sums is None:
                return None
            second, first = sums
            total = curved.total + self.quadratic.stiffness
            if settled is not None:
                second, first = second + settled.second, first + settled.first
                total += settled.total
            hessian, gradient = self._without_offset(second, first, total, slope)
            on_diagonal = hessian.ravel(order="K")[:: gradient.size + 1]
            on_diagonal += 1.0
            ahead, jitter = passes.of(gradient).solve_definite(hessian, gradient), 1e-14
            while ahead is None and jitter < 1.0:  # rounding has made it indefinite
                on_diagonal += jitter * (on_diagonal - 1.0)
                ahead = passes.of(gradient).solve_definite(hessian, gradient)
                jitter *= 10.0
            if ahead is None:
                return None
            shift = 0.0
            if 0.0 < total < np.inf:
                # sum_i k_i x_i . ahead, of rows without the center subtracted
                center, first = move_to(self.quadratic.center, ahead), move_to(first, ahead)
                moved = float((first + (total - self.quadratic.stiffness) * center) @ ahead)
                shift = (moved - slope.offset) / total
            return move_to(-ahead, slope.coef), shift

    def _hessian(self, curved, delta):
        """Return two sums over the curved rows: of k_i x_i x_i^T, and of k_i x_i.

        None if the monitor says stop.
        """
        work = curved.count * self.rows.n_features**2
        if self.rows.weighs_all_rows:
            return self.rows.moments(None, self.everywhere(curved.weight), self.quadratic.center)
        if curved.plain and work > self.rows.little_work:
            return self.kept_moments(curved.index, delta)
        return self._moments(curved.index, curved.weight[curved.index])

    def _without_offset(self, hessian, first, total, slope):
        """Return the Hessian and the gradient with b eliminated."""
        # Of centred rows, and with b eliminated.
        gradient = move_to(slope.coef, first)
        if slope.offset != 0.0:
            center = move_to(self.quadratic.center, first)
            gradient = gradient - slope.offset * (center + first / total)
        if self.quadratic.stiffness < np.inf:
            hessian = hessian - np.outer(first, first / total)
        return hessian, gradient

    def kept_moments(self, index, delta):
        """Return the moments of rows with the curvature cost / delta.

        Either all these rows are summed up, or the last moments are updated by the rows that
        have changed, whichever are fewer.
        """
        members = np.zeros_like(self.cost, dtype=bool)
        members[index] = True
        signs = [(1.0, index)]
        if self.kept is not None:
            before, second, first = self.kept
            left, joined = np.flatnonzero(before & ~members), np.flatnonzero(members & ~before)
            if left.size + joined.size < index.size:
                signs = [(-1.0, left), (1.0, joined)]
        for sign, changed in signs:
            sums = self._moments(changed, self.cost[changed])
            if sums is None:
                self.kept = None
                return None
            if len(signs) == 1:
                second, first = sums
            else:
                second += sign * sums[0]
                first += sign * sums[1]
        self.kept = (members, second, first)
        return second / delta, first / delta

    def _moments(self, index, weight):
        """Return the weighted sums of x_i x_i^T and of x_i; None if the monitor says stop."""
        rows, d = self.rows, self.rows.n_features
        if self.counted is not None:
            index = self.counted[index]
        sums = None
        at_once = max(256, rows.multiplications_per_call // max(1, d * d))
        for begin in range(0, index.size, at_once):
            if self.monitor.must_stop():
                return None
            part = slice(begin, begin + at_once)
            more = rows.moments(index[part], weight[part], self.quadratic.center)
            sums = more if sums is None else (sums[0] + more[0], sums[1] + more[1])
        return (0.0, 0.0) if sums is None else sums

    def everywhere(self, values):
        """Return values of the rows that count, and zero for the others, (n,)."""
        if self.counted is None:
            return values
        everywhere = np.zeros_like(values, shape=self.rows.n_rows)
        everywhere[self.counted] = values
        return everywhere

    def _conjugate_gradients(self, slope, curved, allowed):
        rows = self.rows
        fraction = self.fraction * curved.count / rows.n_rows
        if isinstance(rows, SingleRows) and 2 * curved.count < rows.n_rows:
            weight = curved.weight[curved.index]
            rows = rows.take(curved.index if self.counted is None else self.counted[curved.index])
        else:
            weight = self.everywhere(curved.weight)
        total = curved.total + self.quadratic.stiffness
        gradient, first = slope.coef, np.zeros_like(slope.coef)
        if self.quadratic.stiffness < np.inf:
            first = product(rows, "combine", weight, self.monitor)
            gradient = gradient - first * (slope.offset / total)
        scaling = np.ones_like(gradient)
        if isinstance(rows, GramRows):
            scaling = np.maximum(1.0, 1.0 + rows.combine_squares(weight) - first**2 / total)
        # Accurate enough to bring the gradient's part of the gap below the gap allowed.
        gradient_gap = 0.5 * float(gradient @ gradient)
        forcing = (
            float(np.clip(np.sqrt(0.1 * allowed / gradient_gap), 1e-3, 0.1))
            if gradient_gap
            else 0.1
        )
        ahead, residual = np.zeros_like(gradient), -gradient
        scaled = residual / scaling
        way, size = scaled, float(residual @ scaled)
        enough = forcing**2 * size
        for _ in range(_CG_STEPS):
            if size <= enough or self.monitor.must_stop():
                break
            way = rows.rounded("scores", way)
            change = product(rows, "scores", way, self.monitor)
            change = change - float(weight @ change) / total
            curved_change = rows.rounded("combine", weight * change)
            image = product(rows, "combine", curved_change, self.monitor) + way
            step = size / float(way @ image)
            ahead += step * way
            residual = residual - step * image
            scaled = residual / scaling
            before, size = size, float(residual @ scaled)
            way = scaled + (size / before) * way
            self.monitor.iteration += fraction
        return ahead, -(slope.offset + float(first @ ahead)) / total
