"""Where Newton's method goes: - H^-1 gradient, by Cholesky or by conjugate gradients.

    H = I + sum_i k_i x_i x_i^T,      and one row and column more for an intercept

over the rows with a curvature k_i. The intercept is eliminated: for every w, b follows to where it
is best. With a free intercept rows may be taken less their mean, which is the same problem, but
not the same rounding.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from widemargin import passes
from widemargin.arrays import beside
from widemargin.data.rows import Rows, home
from widemargin.monitor import Monitor
from widemargin.solvers.lockstep import PAUSE, Asking, Product

# Up to this many features the Hessian is made and factorised: at 784, dense, that takes half to
# nine tenths of the time of conjugate gradients.
_CHOLESKY_FEATURES = 1000
# Steps of conjugate gradients at most: beyond, a new point tells more.
_CG_STEPS = 250


@dataclass
class Curved:
    """Rows where the smooth losses are curved, among those that count, and how much.

    Attributes
    ----------
    weight : ndarray of shape (n,)
        Curvatures, zero for other rows.
    count : int
        How many are not zero.
    total : float
        Their sum.
    plain : bool
        Whether those are cost / delta.
    """

    weight: np.ndarray
    count: int
    total: float
    plain: bool

    @cached_property
    def index(self):
        """Which rows they are, (m,)."""
        return passes.of(self.weight).places(self.weight, self.count)


class Slope(NamedTuple):
    """The smooth problem's gradient, in w and in b."""

    coef: np.ndarray
    offset: float


class Directions:
    """Finds one direction after the other, for one problem.

    Parameters
    ----------
    rows : Rows
    cost : ndarray of shape (n,)
        Of the rows that count.
    counted : ndarray of shape (n,) or None
        Which rows these are; None for all.
    stiffness : float
        The penalty's curvature in b; infinite without an intercept.
    monitor : Monitor
    share : float
        What a pass over `rows` counts for.
    """

    def __init__(
        self, rows: Rows, cost, counted, stiffness: float, monitor: Monitor, share: float
    ):
        self.rows, self.cost, self.counted = rows, cost, counted
        self.stiffness, self.monitor, self.share = stiffness, monitor, share
        self.center = np.zeros(rows.n_features, like=home(rows))  # beside the rows
        self.kept: tuple | None = None  # which rows were curved last, and their moments

    def find(self, slope, curved, delta, allowed) -> Asking:
        """Return - H^-1 slope, where b follows w to where it is best.

        None to stop at once, or if numbers are so large that there is none. `allowed` is the gap
        allowed.
        """
        if curved.count == 0:
            return -slope.coef
        if self.rows.n_features > _CHOLESKY_FEATURES or not hasattr(self.rows, "moments"):
            ahead = yield from self._conjugate_gradients(slope, curved, allowed)
            return ahead
        with self.monitor.phase("direction"):
            sums = self._hessian(curved, delta)
            if sums is None:
                return None
            second, first = sums
            hessian, gradient = self._without_offset(second, first, slope, curved)
            on_diagonal = hessian.ravel(order="K")[:: gradient.size + 1]
            on_diagonal += 1.0
            solution = passes.of(gradient).solve_definite(hessian, gradient)
        yield PAUSE
        with self.monitor.phase("direction"):
            ahead, jitter = solution(), 1e-14
            while ahead is None and jitter < 1.0:  # rounding has made it indefinite
                on_diagonal += jitter * (on_diagonal - 1.0)
                ahead = passes.of(gradient).solve_definite(hessian, gradient)()
                jitter *= 10.0
            return None if ahead is None else beside(-ahead, slope.coef)

    def _hessian(self, curved, delta):
        """Return the weighted sums of squares of the curved rows, and of these themselves.

        None if the monitor says stop.
        """
        work = curved.count * self.rows.n_features**2
        if getattr(self.rows, "weighs_all_rows", False):
            return self.rows.moments(None, self.everywhere(curved.weight), self.center)
        if curved.plain and work > getattr(self.rows, "little_work", 0):
            return self._kept_moments(curved.index, delta)
        return self._moments(curved.index, curved.weight[curved.index])

    def _without_offset(self, hessian, first, slope, curved):
        """Return the Hessian and the gradient where b follows w to where it is best."""
        # Of rows less the center, and with b eliminated.
        total = curved.total + self.stiffness
        gradient = beside(slope.coef, first)
        if slope.offset != 0.0:
            gradient = gradient - slope.offset * (beside(self.center, first) + first / total)
        if self.stiffness < np.inf:
            hessian = hessian - np.outer(first, first / total)
        return hessian, gradient

    def _kept_moments(self, index, delta):
        """Return the moments of rows with the curvature cost / delta.

        Of rows that were curved the last time and those that are now, the fewer are summed up:
        all of the latter, or those that are one but not the other.
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
        """Return sums of weighted squares of rows and of rows; or None to stop at once."""
        rows, d = self.rows, self.rows.n_features
        if self.counted is not None:
            index = self.counted[index]
        sums = None
        at_once = max(256, rows.multiplications_per_call // max(1, d * d))
        for begin in range(0, index.size, at_once):
            if self.monitor.must_stop():
                return None
            part = slice(begin, begin + at_once)
            more = rows.moments(index[part], weight[part], self.center)
            sums = more if sums is None else (sums[0] + more[0], sums[1] + more[1])
        return (0.0, 0.0) if sums is None else sums

    def everywhere(self, values):
        """Return values of the rows that count, and zero for the others, (n,)."""
        if self.counted is None:
            return values
        everywhere = np.zeros_like(values, shape=self.rows.n_rows)
        everywhere[self.counted] = values
        return everywhere

    def _conjugate_gradients(self, slope, curved, allowed) -> Asking:
        rows = self.rows
        share = self.share * curved.count / rows.n_rows
        if hasattr(rows, "arrays") and 2 * curved.count < rows.n_rows:
            weight = curved.weight[curved.index]
            rows = rows.take(curved.index if self.counted is None else self.counted[curved.index])
        else:
            weight = self.everywhere(curved.weight)
        total = curved.total + self.stiffness
        gradient, first = slope.coef, np.zeros_like(slope.coef)
        if self.stiffness < np.inf:
            first = yield Product(rows, "combine", weight)
            gradient = gradient - first * (slope.offset / total)
        scaling = np.ones_like(gradient)
        if hasattr(rows, "combine_squares"):
            scaling = np.maximum(1.0, 1.0 + rows.combine_squares(weight) - first**2 / total)
        # As exact as it takes to bring the gradient's part of the gap below what is allowed.
        slanting = 0.5 * float(gradient @ gradient)
        forcing = float(np.clip(np.sqrt(0.1 * allowed / slanting), 1e-3, 0.1)) if slanting else 0.1
        ahead, residual = np.zeros_like(gradient), -gradient
        scaled = residual / scaling
        way, size = scaled, float(residual @ scaled)
        enough = forcing**2 * size
        for _ in range(_CG_STEPS):
            if size <= enough or self.monitor.must_stop():
                break
            change = yield Product(rows, "scores", way)
            change = change - float(weight @ change) / total
            image = yield Product(rows, "combine", weight * change)
            image = image + way
            step = size / float(way @ image)
            ahead += step * way
            residual = residual - step * image
            scaled = residual / scaling
            before, size = size, float(residual @ scaled)
            way = scaled + (size / before) * way
            self.monitor.iteration += share
        return ahead
