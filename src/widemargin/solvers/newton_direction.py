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
from widemargin.solvers.newton_settings import NewtonSettings
from widemargin.solvers.sharing import product


class Part(NamedTuple):
    """Some of a problem's rows.

    Attributes
    ----------
    rows : Rows
    cost : ndarray of shape (m,)
        Of the rows that count: rows of cost zero are left out of vectors.
    counted : ndarray of shape (m,) or None
        Which rows these are; None for all.
    fraction : float
        What a pass over `rows` counts for.
    """

    rows: Rows
    cost: np.ndarray
    counted: np.ndarray | None
    fraction: float

    def everywhere(self, values: np.ndarray) -> np.ndarray:
        """Return values of the rows that count, and zero for the others, (n,)."""
        if self.counted is None:
            return values
        everywhere = np.zeros_like(values, shape=self.rows.n_rows)
        everywhere[self.counted] = values
        return everywhere


@dataclass
class Curved:
    """Rows where the smoothed losses are curved, among those that count.

    Attributes
    ----------
    weight : ndarray of shape (n,)
        Curvatures, cost / delta, and zero for other rows.
    count : int
        How many are not zero.
    total : float
        Their sum.
    """

    weight: np.ndarray
    count: int
    total: float

    @cached_property
    def index(self) -> np.ndarray:
        """Their indices, (m,)."""
        return passes.of(self.weight).places(self.weight, self.count)


class Slope(NamedTuple):
    """A gradient, in w and in b."""

    coef: np.ndarray
    offset: float


@dataclass
class QuadraticTerms:
    """All terms but the losses of the rows at hand: the penalty, and what other rows add.

    Attributes
    ----------
    stiffness : float
        The penalty's curvature in b. If it is infinite, b is fixed.
    center : ndarray of shape (d,)
        What is subtracted from the rows.
    pull : Slope or None
        Minus the gradient of the losses of rows that stay on one linear piece: X^T A of these
        rows, and the sum of A.
    """

    stiffness: float
    center: np.ndarray
    pull: Slope | None = None

    def slope(self, coef: np.ndarray, offset: float) -> Slope:
        """Return the gradient at a point."""
        of_offset = self.stiffness * offset if self.stiffness < np.inf else 0.0
        if self.pull is None:
            return Slope(coef, of_offset)
        return Slope(coef - self.pull.coef, of_offset - self.pull.offset)

    def curvature(self, ahead: np.ndarray, shift: float) -> float:
        """Return the curvature along a direction."""
        of_offset = self.stiffness * shift**2 if self.stiffness < np.inf else 0.0
        return float(ahead @ ahead) + of_offset


#: a direction in w and in b
Way = tuple[np.ndarray, float]
#: two sums over rows, see `GramRows.moments`
Moments = tuple[np.ndarray, np.ndarray]


class Directions:
    """Finds one direction after another for one problem."""

    def __init__(
        self, part: Part, quadratic: QuadraticTerms, monitor: Monitor, settings: NewtonSettings
    ):
        self.part, self.quadratic = part, quadratic
        self.monitor, self.settings = monitor, settings
        # Which rows were curved last, and their moments.
        self.kept: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def find(self, slope: Slope, curved: Curved, delta: float, allowed: float) -> Way | None:
        """Return - H^-1 slope, in w and in b; b is at its optimum for each w.

        None if the monitor says stop, or if numbers are so large that there is no direction.
        `allowed` is the gap allowed.
        """
        if curved.count == 0:
            return -slope.coef, 0.0
        rows = self.part.rows
        many = rows.n_features > self.settings.cholesky_features
        if many or not isinstance(rows, GramRows):
            return self._conjugate_gradients(slope, curved, allowed)
        with self.monitor.phase("direction"):
            sums = self._hessian(rows, curved, delta)
            if sums is None:
                return None
            second, first = sums
            total = curved.total + self.quadratic.stiffness
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

    def _hessian(self, rows: GramRows, curved: Curved, delta: float) -> Moments | None:
        """Return two sums over the curved rows: of k_i x_i x_i^T, and of k_i x_i.

        None if the monitor says stop.
        """
        if rows.weighs_all_rows:
            weight = self.part.everywhere(curved.weight)
            return rows.moments(None, weight, self.quadratic.center)
        if curved.count * rows.n_features**2 > rows.little_work:
            return self._kept_moments(rows, curved.index, delta)
        return self._moments(rows, curved.index, curved.weight[curved.index])

    def _without_offset(
        self, hessian: np.ndarray, first: np.ndarray, total: float, slope: Slope
    ) -> Moments:
        """Return the Hessian and the gradient with b eliminated."""
        # Of centred rows, and with b eliminated.
        gradient = move_to(slope.coef, first)
        if slope.offset != 0.0:
            center = move_to(self.quadratic.center, first)
            gradient = gradient - slope.offset * (center + first / total)
        if self.quadratic.stiffness < np.inf:
            hessian = hessian - np.outer(first, first / total)
        return hessian, gradient

    def _kept_moments(self, rows: GramRows, index: np.ndarray, delta: float) -> Moments | None:
        """Return the moments of rows with the curvature cost / delta.

        Either all these rows are summed up, or the last moments are updated by the rows that
        have changed, whichever are fewer.
        """
        members = np.zeros_like(self.part.cost, dtype=bool)
        members[index] = True
        signs = [(1.0, index)]
        if self.kept is not None:
            before, second, first = self.kept
            left, joined = np.flatnonzero(before & ~members), np.flatnonzero(members & ~before)
            if left.size + joined.size < index.size:
                signs = [(-1.0, left), (1.0, joined)]
        for sign, changed in signs:
            sums = self._moments(rows, changed, self.part.cost[changed])
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

    def _moments(self, rows: GramRows, index: np.ndarray, weight: np.ndarray) -> Moments | None:
        """Return the weighted sums of x_i x_i^T and of x_i; None if the monitor says stop."""
        d = rows.n_features
        if self.part.counted is not None:
            index = self.part.counted[index]
        second, first = np.zeros((d, d), like=rows.like), np.zeros(d, like=rows.like)
        at_once = max(256, rows.multiplications_per_call // max(1, d * d))
        for begin in range(0, index.size, at_once):
            if self.monitor.must_stop():
                return None
            some = slice(begin, begin + at_once)
            more = rows.moments(index[some], weight[some], self.quadratic.center)
            if begin == 0:
                second, first = more
            else:
                second, first = second + more[0], first + more[1]
        return second, first

    def _conjugate_gradients(self, slope: Slope, curved: Curved, allowed: float) -> Way:
        part, rows = self.part, self.part.rows
        fraction = part.fraction * curved.count / rows.n_rows
        if isinstance(rows, SingleRows) and 2 * curved.count < rows.n_rows:
            weight, index = curved.weight[curved.index], curved.index
            rows = rows.take(index if part.counted is None else part.counted[index])
        else:
            weight = part.everywhere(curved.weight)
        total = curved.total + self.quadratic.stiffness
        gradient, first = slope.coef, np.zeros_like(slope.coef)
        if self.quadratic.stiffness < np.inf:
            first = product(rows, "combine", weight, self.monitor)
            gradient = gradient - first * (slope.offset / total)
        scaling = np.ones_like(gradient)
        if isinstance(rows, GramRows):
            scaling = np.maximum(1.0, 1.0 + rows.combine_squares(weight) - first**2 / total)
        # Accurate enough to bring the gradient's part of the gap below the gap allowed.
        gap = max(0.5 * float(gradient @ gradient), 1e-300)
        forcing = float(np.clip(np.sqrt(0.1 * allowed / gap), 1e-3, 0.1))
        ahead, residual = np.zeros_like(gradient), -gradient
        scaled = residual / scaling
        way, size = scaled, float(residual @ scaled)
        enough = forcing**2 * size
        for _ in range(self.settings.cg_steps):
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
