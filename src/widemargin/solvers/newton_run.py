"""A run of Newton's method on one problem: for the algorithm see newton.py.

If there are many rows, most of them stay on one piece of their loss from one point to the next.
Such rows are settled: their total loss is a quadratic function of (w, b), known from sums at one
point. The problem is solved for the other rows, the working set, until little is left of its gap.
Then a full pass over all rows proves the result, if the settled rows have stayed on their pieces.
A squared loss is curved for about half of all rows, and their Hessian costs more than several full
passes. There a subsample represents all rows (newton_subsample.py).
"""

import functools
import itertools

import numpy as np

from widemargin.arrays import move_to
from widemargin.certificate import feasible_near
from widemargin.data.rows import LeverageRows, Rows, SingleRows
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, State
from widemargin.solvers import newton_subsample
from widemargin.solvers.newton_best import Best, MarginProblem, Point
from widemargin.solvers.newton_direction import Part, QuadraticTerms, Slope
from widemargin.solvers.newton_settings import NewtonSettings, WorkingSetSettings
from widemargin.solvers.newton_steps import DualSums, NewtonSteps, Place, Shared, full_pass
from widemargin.solvers.sharing import product


def is_rare(rows: LeverageRows, settings: WorkingSetSettings) -> np.ndarray:
    """Return which rows have rare features, a mask (n,)."""
    return rows.spreads > settings.rare * np.sqrt(rows.n_features / rows.n_rows)


def can_use_subsample(problem: MarginProblem, settings: NewtonSettings) -> bool:
    """Return whether a subsample can represent all rows of a problem."""
    represented = newton_subsample.represented_rows(problem.rows, settings)
    enough = problem.risk.loss.is_parabola and represented > 0
    return enough and newton_subsample.are_balanced(problem.risk.sign, settings.subsample)


def has_many_entries(rows: Rows, settings: NewtonSettings) -> bool:
    """Return whether a full pass takes so long that some of the rows pay."""
    return rows.n_rows * rows.n_features >= settings.working_set.fewest_entries


class NewtonRun(NewtonSteps):
    """A run of Newton's method: the current point, and the best points seen.

    Vectors over rows leave out rows of cost zero.

    Parameters
    ----------
    problem : Problem
    start : State
    delta : float
    monitor : Monitor
    fraction : float
        What a pass over these rows counts for. Below one they are a sample, and the values found
        are not values of the problem.
    near : bool
        Whether the start is near the optimum.
    """

    subsample: newton_subsample.Subsample | None = None
    sampled: newton_subsample.Subsample | None = None

    def __init__(
        self,
        problem: MarginProblem,
        start: State,
        delta: float,
        monitor: Monitor,
        settings: NewtonSettings,
        fraction: float = 1.0,
        near: bool = False,
    ):
        self.problem = problem
        rows, risk = problem.rows, problem.risk
        y, cost, counted = risk.y, risk.cost, None
        if not (cost > 0.0).all():
            counted = np.flatnonzero(cost > 0.0)
            y, cost = y[counted], cost[counted]
        stiffness = {Intercept.FREE: 0.0, Intercept.PENALIZED: 1.0, Intercept.NONE: np.inf}
        center = np.zeros(rows.n_features, like=rows.like)
        quadratic = QuadraticTerms(stiffness[problem.intercept], center)
        offset = 0.0 if problem.intercept is Intercept.NONE else float(start.offset)
        place = Place(start.coef.astype(np.float64), offset, None)  # a copy
        shared = Shared(risk.loss, problem.intercept, monitor, settings)
        part = Part(rows, cost, counted, fraction)
        delta = risk.loss.bend if risk.loss.is_smooth else delta
        super().__init__(shared, part, y, quadratic, place, delta)
        self.is_known = False  # whether the slacks are
        self.near, self.is_bounded = near, False  # is_bounded: there was a useful lower bound
        self.best = Best(problem, State(self.coef, offset, start.dual), monitor, settings)
        self.uses_subsample = fraction == 1.0 and can_use_subsample(problem, settings)

    def run(self, tol: float) -> None:
        """Iterate until the relative gap is `tol`, or the monitor says stop."""
        monitor, near = self.monitor, self.settings.working_set.near
        if self.intercept is Intercept.FREE:
            self._find_center()
        if self.is_known:
            self.move_offset()
            point = self._evaluate()
        else:
            point = self._full_pass()
        while True:
            point = self._proved(point, tol)
            gradient = self.coef - point.combined
            gradient_gap = 0.5 * float(gradient @ gradient)
            self._remember(point)
            self.best.look_for_progress()
            if self.best.is_stuck:
                return
            unproved = not self.best.is_exact
            if self._is_done(tol, point.smoothing_gap):
                return
            if unproved and self.best.is_exact:
                # The point is not as good as its slacks said. Go on with recomputed slacks.
                point = self._full_pass()
                monitor.iteration += self.fraction
                continue
            allowed = tol * self.best.primal
            self.near = self.near or self.decrement <= near * point.primal
            there = None
            if self.near and self.uses_subsample:
                there = self._solve_subsample(point, allowed)
            if self.near and there is None and not self.best.is_slow:
                there = self._solve_working_set(point, allowed)
            if there is None:
                gaps = point.smoothing_gap, gradient_gap
                self.step(point.alpha, gradient, *gaps, allowed)
                there = self._evaluate()
            point = there

    # --- the subsample ----------------------------------------------------------------------

    def _proved(self, point: Point, tol: float) -> Point:
        """Return the point, with dual variables that prove `tol` if the subsample allows it."""
        needed = (1.0 - tol) * min(point.primal, self.best.primal)
        if self.subsample is None or max(point.dual, self.best.dual) >= needed:
            return point
        return self.subsample.prove(self.place, point, needed) or point

    def _solve_subsample(self, point: Point, allowed: float) -> Point | None:
        """Minimise the loss of the subsample; return as `_solve_working_set`."""
        start, settings = self.place, self.settings
        self.subsample = self.subsample or newton_subsample.choose(self, self.sampled)
        self.uses_subsample = self.subsample is not None
        if self.subsample is None:
            return None
        steps, gap = self.subsample.steps, point.primal - point.dual
        combined = self.subsample.begin(start, point)
        left = max(settings.working_set.left * allowed, settings.subsample.left * gap)
        steps.approach(left, combined)
        if self.monitor.must_stop():
            return None
        self.coef, self.offset = steps.coef, steps.offset
        there = self._full_pass()
        self.monitor.iteration += self.fraction
        self.uses_subsample = there.primal - there.dual < settings.subsample.left_if_good * gap
        if self._is_better(there, point, allowed):
            return there
        beyond = self.place
        self.coef, self.offset = start.coef, start.offset
        self.find_slack()
        with self.monitor.phase("line search"):
            step, way = self._search_towards(beyond)
            if step == 0.0:
                return None
            self.move(step, *way)
        return self._evaluate()

    def _search_towards(self, beyond: Place) -> tuple[float, tuple[np.ndarray, np.ndarray, float]]:
        """Return the best step towards a point; rates of the slacks, and the way in w and b."""
        assert beyond.z is not None
        way = beyond.z - self.z, beyond.coef - self.coef, beyond.offset - self.offset
        return self.search(*way), way

    # --- the working set --------------------------------------------------------------------

    def _solve_working_set(self, point: Point, allowed: float) -> Point | None:
        """Minimise over the working set, as if all other rows stayed on their pieces.

        Return the new point, or None if that was no progress.
        """
        working = self._working_set()
        if working is None:
            return None
        here, delta, settings = self.place, self.delta, self.settings.working_set
        start, z = here, self.z
        for _ in range(settings.rounds):
            part, combined = self._working_steps(working, point, start)
            left = max(settings.left * allowed, settings.left_of_gap * self.best.gap)
            part.approach(left, combined if start is here else None)
            if self.monitor.must_stop():
                return None
            self.coef, self.offset, self.delta = part.coef, part.offset, part.delta
            there = self._full_pass()
            self.monitor.iteration += self.fraction
            if self._is_better(there, point, allowed):
                self.is_bounded = self.is_bounded or there.dual > 0.0
                return there
            with self.monitor.phase("line search"):
                # Settled rows have changed pieces: they join the working set.
                beyond = self.place
                for knot in itertools.chain(*self.curved_slacks()):
                    working = working | ((z > knot) != (self.z > knot))
                (self.coef, self.offset, self.z), self.delta = (*here[:2], z), delta
                step, (rate, ahead, shift) = self._search_towards(beyond)
                many = np.count_nonzero(working) > settings.largest * z.size
                if many or step >= self.settings.short_step:
                    break
                coef, offset = self.coef + step * ahead, self.offset + step * shift
                start = Place(coef, offset, z + step * rate)
        if step == 0.0:
            return None
        with self.monitor.phase("line search"):
            self.z = z.copy()
            self.move(step, rate, ahead, shift)
        return self._evaluate()

    def _working_set(self) -> np.ndarray | None:
        """Return the rows nearest to another piece of their loss, a mask (n,).

        None if a working set is of no use here. A smooth loss is curved for so many rows that
        the others alone are no great help.
        """
        n, rows, z, settings = self.z.size, self.rows, self.z, self.settings
        if self.fraction < 1.0 or self.loss.is_smooth or not isinstance(rows, LeverageRows):
            return None
        if rows.n_features > settings.cholesky_features or not has_many_entries(rows, settings):
            return None
        limits, distance = settings.working_set, self._distance()
        spreads, rare = rows.spreads, is_rare(rows, limits)
        if self.counted is not None:
            spreads, rare = spreads[self.counted], rare[self.counted]
        some = slice(None, None, max(1, n // limits.probed))
        ratios = distance[some] / np.maximum(spreads[some], 1e-300)
        ratios = np.sort(ratios[ratios > 0.0])
        # If few rows have a loss, few rows will change pieces.
        fraction = limits.size_if_bounded if self.is_bounded else limits.size
        fraction = min(fraction, np.count_nonzero(z > 0.0) / n)
        width = float(ratios[int(fraction * ratios.size)]) if ratios.size else 0.0
        working = (distance <= width * spreads) | rare
        return working if np.count_nonzero(working) <= limits.largest * n else None

    def _distance(self) -> np.ndarray:
        """Return how far slacks are from another piece of their loss, (n,).

        The loss is smoothed at its kinks. Rows there have a negative distance.
        """
        z = self.z
        distances = [np.maximum(begin - z, z - end) for begin, end in self.curved_slacks()]
        return functools.reduce(np.minimum, distances)

    def _working_steps(
        self, working: np.ndarray, point: Point, start: Place
    ) -> tuple[NewtonSteps, np.ndarray]:
        """Return Newton steps over the working set, others settled, and X^T A of its rows.

        `start` is coef, offset and slacks of all rows.
        """
        index = np.flatnonzero(working)
        rows, A = self.take(index), self.sign[index] * point.alpha[index]
        combined = product(rows, "combine", A, self.monitor)
        pull = Slope(point.combined - combined, point.total - float(A.sum()))
        quadratic = QuadraticTerms(self.quadratic.stiffness, self.quadratic.center, pull)
        return self.steps_over(rows, index, self.cost[index], quadratic, start), combined

    def _is_better(self, there: Point, point: Point, allowed: float) -> bool:
        """Return whether steps over some of the rows have led to a better point."""
        bound = max(there.dual, self.best.dual)
        return there.primal < point.primal or there.primal - bound <= allowed

    # --- a start ----------------------------------------------------------------------------

    def certify_start(self, tol: float) -> bool:
        """Certify the start and choose delta by its gap; return whether to stop."""
        risk = self.problem.risk
        self.find_slack()
        self.is_known = True
        A = feasible_near(self.problem, self.best.state.dual)
        combined = product(self.rows, "combine", A, self.monitor)
        penalty = float(combined @ combined)
        if self.intercept is Intercept.PENALIZED:
            penalty += float(A.sum()) ** 2
        self.best.dual = risk.dual(A) - 0.5 * penalty
        self.best.primal = self._values(*self.dual_point())[0]
        self.best.is_exact = True
        done = self._is_done(tol)
        gap = (self.best.primal - max(self.best.dual, 0.0)) / (self.best.primal or 1.0)
        settings = self.settings
        largest = max(settings.warm_fraction * gap, settings.fraction_of_gap * tol)
        largest = min(settings.warm_smoothing, largest)
        if self.loss.is_smooth:
            return done
        # At the solution, between bounds, z = alpha delta / c, with smoothing gap (c - alpha) z.
        slope = risk.unsigned(A)[risk.cost > 0.0] / self.cost
        bound = np.where(slope > 0.0, self.loss.high, self.loss.low)
        inside = float((self.cost * slope * (bound - slope)).sum())
        self.delta = min(self.delta, largest * self.best.primal / max(inside, 1e-300))
        smoothing_gap = self.smoothing_gap(self.dual_point()[1])
        while smoothing_gap > largest * self.best.primal:
            self.delta *= 0.5
            smoothing_gap = self.smoothing_gap(self.dual_point()[1])
        return done

    # --- values and certificates ------------------------------------------------------------

    def _full_pass(self) -> Point:
        """Return the current point by a full pass over the rows; slacks are recomputed."""
        rows = self.rows
        # For few rows, compiling the fused pass takes longer than it saves.
        few = not has_many_entries(rows, self.settings)
        if few or not isinstance(rows, SingleRows) or self.intercept is Intercept.FREE:
            self.find_slack()
            self.move_offset()
            return self._evaluate()
        with self.monitor.phase("visit"):
            scores, self.z, alpha, combined, sums = full_pass(self, rows)
        self.is_exact, self.fresh = True, (self.coef, scores)
        return self._point(alpha, combined, *self._values(None, sums))

    def _evaluate(self) -> Point:
        """Return the current point, if its slacks are known."""
        A, sums = self.dual_point()
        values = self._values(A, sums)
        combined = self.combine(A)
        A *= self.sign
        return self._point(A, combined, *values)

    def _point(
        self,
        alpha: np.ndarray,
        combined: np.ndarray,
        primal: float,
        height: float,
        total: float,
        *costs: float,
    ) -> Point:
        smoothing_gap, balancing = costs
        dual = height - 0.5 * float(combined @ combined)
        return Point(alpha, total, combined, primal, dual, smoothing_gap, balancing)

    def _values(
        self, A: np.ndarray | None, sums: DualSums
    ) -> tuple[float, float, float, float, float]:
        """Return a point's values by the sums of `dual_point`; balance A if b is free.

        Primal value, dual value without the penalty of X^T A, sum of A, smoothing gap, balancing.
        """
        primal = 0.5 * float(self.coef @ self.coef) + sums.losses
        smoothing_gap = self.smoothing_gap(sums)
        penalty = 0.0
        scale_above = scale_below = 1.0
        if self.intercept is Intercept.PENALIZED:
            primal += 0.5 * self.offset**2
            penalty = 0.5 * (sums.above - sums.below) ** 2
        elif self.intercept is Intercept.FREE and sums.above != sums.below:
            # b is at its optimum, so there is little left to balance.
            least = min(sums.above, sums.below)
            scale_above = least / sums.above if sums.above > 0.0 else 1.0
            scale_below = least / sums.below if sums.below > 0.0 else 1.0
            assert A is not None
            A *= np.where(A > 0.0, scale_above, scale_below)
        balancing = (1.0 - scale_above) ** 2 * sums.bent_above
        balancing += (1.0 - scale_below) ** 2 * sums.bent_below
        height = scale_above * (sums.height_above - scale_above * sums.bent_above) - penalty
        height += scale_below * (sums.height_below - scale_below * sums.bent_below)
        total = scale_above * sums.above - scale_below * sums.below
        return primal, height, total, smoothing_gap, balancing

    def _remember(self, point: Point) -> None:
        best = self.best
        best.take(point.primal, self.coef, self.offset, self.is_exact)
        alpha = self.part.everywhere(point.alpha)
        best.take_dual(point.dual, alpha)
        # Only exact products count: a certificate has no bound for the rounding of fast ones.
        if self.counted is None and self.rows.plain is self.rows:
            if self.fresh is not None and best.state.coef is self.fresh[0]:
                best.scored = self.fresh
            if best.state.dual is alpha:
                best.combined = point.known or (alpha, point.combined)

    def _is_done(self, tol: float, smoothing_gap: float = 0.0) -> bool:
        """Return whether to stop. The result is certified by products computed afresh."""
        monitor, best = self.monitor, self.best
        if self.fraction < 1.0:
            # A sample needs a good point, not a proof.
            left = self.decrement + smoothing_gap
            return left <= tol * best.primal or monitor.must_stop()
        estimate = best.estimate()
        if estimate.relative_gap > tol and not monitor.must_stop():
            stop = monitor.check(estimate, best.state, self.n_curved)
            if stop:
                monitor.settle(best.certified())
            return stop
        certificate = best.certified()
        best.primal, best.dual = certificate.primal, certificate.dual
        if not best.is_exact:
            # Slacks were updated step by step, and every step has added rounding errors.
            best.is_exact = True
            self.coef, self.offset = best.state.coef, best.state.offset
        return monitor.check(certificate, best.state, self.n_curved)

    def _find_center(self) -> None:
        """Set the mean row as center: a free intercept allows any center."""
        n = self.y.size
        center = self.combine(np.full_like(self.cost, 1.0 / max(1, n)))
        self.quadratic.center = move_to(center, self.cost)
