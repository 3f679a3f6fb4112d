"""Sparse weights: proximal Newton steps over working sets of features.

For penalties with |w|_1, of which most weights are zero at the optimum. A working set has the
features whose weights are not zero, and those whose |x_j . A| is largest. On it, quadratic models
of the losses are minimised by coordinate descent (feature_models.py), each followed by a line
search (Yuan, Ho & Lin 2012; Massias, Gramfort & Salmon 2018). Then all features are looked at
again: that one pass over the rows also makes the certificate.
"""

from dataclasses import dataclass

import numpy as np
from numpy import ndarray as Array

from widemargin.certificate import certificate_of, proved_by, upper_bound
from widemargin.data.memory import RowsInMemory
from widemargin.data.rows import SingleRows
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Bound
from widemargin.solvers.base import Solver
from widemargin.solvers.feature_models import Move, Point, features_of
from widemargin.solvers.feature_settings import DEFAULTS, FeatureSettings

# Values of the objective differ by so much, relatively, for rounding alone.
_BLUR = 2.0**-46
# Steps that are tried together when a whole step is too long, and how often.
_SHORTER, _TRIES = (0.5, 0.25, 0.125, 0.0625), 10
# After so many working sets on which no step was possible, a run is over.
_IN_VAIN = 3


@dataclass(frozen=True)
class FeatureDescent(Solver):
    """Solver for sparse weights and smooth losses, over rows in memory."""

    settings: FeatureSettings = DEFAULTS

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        SingleRows.require(problem.rows, "coordinate descent over features")
        if not isinstance(problem.rows, RowsInMemory):
            raise TypeError("coordinate descent over features needs an array or a CSR matrix")
        if not problem.risk.is_smooth:
            raise ValueError(
                f"penalty={problem.penalty.name!r} needs a smooth loss, and "
                f"{problem.risk.name} has a kink"
            )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return _Run(problem, state, monitor, self.settings).run()


class _Run:
    """One run: the current point, and the best points that were certified."""

    def __init__(
        self, problem: Problem, state: State, monitor: Monitor, settings: FeatureSettings
    ):
        self.problem, self.monitor, self.settings = problem, monitor, settings
        self.risk, self.penalty = problem.risk, problem.penalty
        self.best = State(state.coef, state.offset, state.dual)
        self.best_primal, self.best_dual = Bound(np.inf, 0.0), Bound(-np.inf, 0.0)
        with monitor.phase("columns"):
            self.features = features_of(problem, settings)
        self.coef = np.array(state.coef, dtype=np.float64)
        self.offset = float(state.offset)
        self.pulls = np.empty(0)  # |X^T A| at the last check, (d,)

    @property
    def allowed(self) -> float:
        """How large the gap of a working set may be when it is left."""
        gap, goal = self.best_primal.value - self.best_dual.value, 0.5 * self.monitor.tol
        return max(self.settings.of_gap * gap, goal * self.best_primal.value)

    def run(self) -> State:
        self._choose(np.flatnonzero(self.coef))
        self._start()
        self._check()
        in_vain = 0
        while self.monitor.status == "running":
            self._choose(self._next_set())
            with self.monitor.phase("steps"):
                moved = self._step(at_first=True)
                in_vain = 0 if moved else in_vain + 1
                while moved and not self.monitor.must_stop():
                    moved = self._step()
            self._check()
            if in_vain >= _IN_VAIN and self.monitor.status == "running":
                self.monitor.status = "rounding"  # no step lowers the objective as it is computed
        return self.best

    def _start(self) -> None:
        """Start at zero, if that is better; the offset comes first."""
        self.scores = self._products() + self.offset
        if self.coef.any() or self.offset:
            at_start = self._objective()
            if not at_start < self.risk.value(np.zeros_like(self.scores)):
                self.coef[:], self.offset = 0.0, 0.0
                self._choose(np.empty(0, dtype=np.int64))
                self.scores = np.zeros_like(self.scores)
        if not self.coef.any() and self.problem.intercept is Intercept.FREE:
            while self._step(only_offset=True) and not self.monitor.must_stop():
                pass

    # --- working sets -----------------------------------------------------------------------

    def _choose(self, chosen: Array) -> None:
        if self.features.takes_all:
            chosen = np.arange(self.coef.size)
        self.chosen = chosen
        self.features.choose(chosen)

    def _next_set(self) -> Array:
        """Return the weights that are not zero, and others that have most to gain."""
        settings, used = self.settings, self.coef != 0.0
        support = np.flatnonzero(used)
        others = np.flatnonzero((self.pulls > settings.near * self.penalty.l1) & ~used)
        size = int(max(settings.smallest_set, settings.growth * support.size))
        if others.size > size:
            others = others[np.argpartition(self.pulls[others], -size)[-size:]]
        return np.sort(np.concatenate([support, others]))

    # --- steps ------------------------------------------------------------------------------

    def _step(self, only_offset: bool = False, at_first: bool = False) -> bool:
        """Make a step on the working set; return whether another one may be worth it.

        None is made if the gap is small, unless it is the first one on this set.
        """
        A, curvature = self.risk.slopes(self.scores)
        slopes = -A
        weights = self.coef[self.chosen]
        gradient = self.features.gradient(slopes)
        looks = not (only_offset or at_first)
        if looks and self._gap_of_set(A, gradient) <= self.allowed:
            return False
        point = Point(weights, self.offset, slopes, curvature.diagonal)
        if only_offset:
            whole = float(point.curvatures.sum())
            move = -float(slopes.sum()) / whole if whole > 0.0 else 0.0
            to = Move(weights, self.offset + move, np.full_like(self.scores, move))
        else:
            least = 1e-13 * self.best_primal.value if self.best_primal.value < np.inf else 0.0
            to = self.features.minimise(point, gradient, least, self.monitor)
        promised = float(gradient @ (to.weights - weights)) + float(slopes.sum()) * (
            to.offset - self.offset
        )
        before = self._penalty(weights, self.offset)
        promised += self._penalty(to.weights, to.offset) - before
        moved = self._search(point, to, before, promised)
        self.monitor.iteration += 1
        return moved and not (only_offset and -promised <= 1e-12 * self.best_value)

    def _search(self, point: Point, to: Move, before: float, promised: float) -> bool:
        """Go to `to`, or a part of the way; return whether there was a way."""
        value = before + self.risk.value(self.scores)
        self.best_value = value
        if not promised < -_BLUR * _BLUR * value:
            return False
        line, steps = self.risk.line(self.scores, to.scores), np.ones(1)
        for _ in range(_TRIES):
            values = line.evaluate(steps).values
            for place, step in enumerate(steps.tolist()):
                weights = point.weights + step * (to.weights - point.weights)
                offset = point.offset + step * (to.offset - point.offset)
                values[place] += self._penalty(weights, offset)
            allowed = value + self.settings.decrease * steps * promised + _BLUR * value
            if np.any(values <= allowed):
                step = float(steps[np.argmin(np.where(values <= allowed, values, np.inf))])
                self._go(point, to, step)
                return True
            steps = steps[-1] * np.array(_SHORTER)
        return False

    def _go(self, point: Point, to: Move, step: float) -> None:
        if step == 1.0:
            self.coef[self.chosen], self.offset = to.weights, to.offset
        else:
            self.coef[self.chosen] += step * (to.weights - point.weights)
            self.offset += step * (to.offset - point.offset)
        self.scores = self.scores + step * to.scores

    def _penalty(self, weights: Array, offset: float) -> float:
        value = self.penalty.value(weights)
        if self.problem.intercept is Intercept.PENALIZED:
            value += self.penalty.value(offset)
        return value

    def _objective(self) -> float:
        return self._penalty(self.coef, self.offset) + self.risk.value(self.scores)

    def _gap_of_set(self, A: Array, gradient: Array) -> float:
        """Return the gap of the problem that has the working set's features alone."""
        if self.best_primal.value == np.inf:
            return np.inf
        A = self._feasible(A)
        sizes = np.abs(gradient)
        if self.problem.intercept is Intercept.PENALIZED:
            sizes = np.append(sizes, abs(float(A.sum())))
        scale = self._best_scale(A, sizes)
        taken = self.penalty.conjugate(scale * sizes) if self.penalty.l2 > 0.0 else 0.0
        return self._objective() - self.risk.dual(scale * A) + taken

    # --- checks -----------------------------------------------------------------------------

    def _products(self) -> Array:
        """Return X w, computed from the weights."""
        return self.features.scores(self.coef[self.chosen])

    def _feasible(self, A: Array) -> Array:
        """Return feasible dual variables near A, but for the bounds of X^T A."""
        A = self.risk.feasible(A)
        return self.risk.balanced(A) if self.problem.intercept is Intercept.FREE else A

    def _best_scale(self, A: Array, sizes: Array) -> float:
        """Return a factor on A, at most 1, for a good lower bound; |X^T A| are `sizes`."""
        most = self.penalty.fitting_scale(sizes)
        half, whole = self.risk.dual(0.5 * most * A), self.risk.dual(most * A)
        bent = 4.0 * (2.0 * half - whole)  # the height is  rise t - bent t^2 / 2, or nearly
        rise = whole + 0.5 * bent
        over = most * sizes[most * sizes > self.penalty.l1] if self.penalty.l2 > 0.0 else sizes[:0]

        def slope(t: float) -> float:
            pushed = np.maximum(t * over - self.penalty.l1, 0.0)
            taken = float(over @ pushed) / self.penalty.l2 if over.size else 0.0
            return rise - bent * t - taken

        if slope(1.0) >= 0.0:
            return most
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) > 0.0 else (low, middle)

        def bound(scale: float) -> float:
            taken = self.penalty.conjugate(scale * sizes) if self.penalty.l2 > 0.0 else 0.0
            return float(self.risk.dual(scale * A)) - taken

        return max((most, most * low), key=bound)

    def _check(self) -> None:
        """Certify the current point; all features are looked at."""
        problem, monitor = self.problem, self.monitor
        with monitor.phase("checks"):
            products = self._products()
            self.scores = products + self.offset
            primal = upper_bound(problem, self.coef, self.offset, products, monitor.tol)
            A = self._feasible(self.risk.slopes(self.scores)[0])
            combined = problem.rows.combine(A)
            self.pulls = np.abs(combined)
            sizes = self.pulls
            if problem.intercept is Intercept.PENALIZED:
                sizes = np.append(sizes, abs(float(A.sum())))
            scale = self._best_scale(A, sizes)
            A, combined = self.risk.feasible(scale * A), scale * combined
            dual = proved_by(problem, A, combined, monitor.tol)
            if primal.value < self.best_primal.value:
                self.best_primal = primal
                self.best.coef, self.best.offset = self.coef.copy(), self.offset
            if dual.value > self.best_dual.value:
                self.best_dual, self.best.dual = dual, self.risk.unsigned(A)
        certificate = certificate_of(self.best_primal, self.best_dual)
        monitor.check(certificate, self.best, int(np.count_nonzero(A)))
