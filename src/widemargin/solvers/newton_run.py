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
from widemargin.data.rows import LeverageRows, SingleRows
from widemargin.problem import Intercept
from widemargin.solvers import newton_subsample
from widemargin.solvers.newton_best import Best, Point
from widemargin.solvers.newton_direction import CHOLESKY_FEATURES, QuadraticTerms, Settled, Slope
from widemargin.solvers.newton_steps import FRACTION_OF_GAP, SHORT_STEP, NewtonSteps, full_pass
from widemargin.solvers.sharing import product

# If the start is not zero, the smoothing gap begins with at most this fraction of the start's gap,
# and at most this fraction of the objective: a larger delta would lead away from the start.
_WARM_FRACTION, _WARM_SMOOTHING = 0.02, 0.01

# The working set: rows nearest to another piece of their loss, relative to how far their scores
# may move. It is this fraction of all rows; the second one once there is a useful lower bound.
# With rare rows it may be larger; above the third fraction, it is not used.
_WORKING_SET, _SMALL_WORKING_SET, _LARGEST_WORKING_SET = 0.125, 0.03, 0.4
# Steps over the working set stop at this fraction of the gap allowed, or at this fraction of the
# gap before: if delta is far too small for the current point, all steps are short.
_LEFT_BY_WORKING_SET, _LEFT_OF_GAP = 0.5, 1e-3
# Steps over the subsample stop at this fraction of the gap before. If the full pass then finds
# more than the second fraction of it, the subsample is given up.
_LEFT_BY_SUBSAMPLE, _LEFT_BY_GOOD_SUBSAMPLE = 1e-3, 0.25
# With fewer rows times features than this, a full pass costs no more than a working set.
MANY_ENTRIES = 1 << 22
# How often settled rows that changed pieces join the working set before a short step is taken.
_ROUNDS = 3
# How many rows are sorted to find the size of the working set.
_PROBED = 1 << 12
# Near the optimum, the last step predicts a decrease by at most this fraction of the objective.
_NEAR = 0.1
# A row is rare if its score may move this many times as far as the root mean square.
_RARE = 3.0


def is_rare(rows):
    """Return which rows have rare features, a mask (n,)."""
    return rows.spreads > _RARE * np.sqrt(rows.n_features / rows.n_rows)


def can_use_subsample(problem):
    """Return whether a subsample can represent all rows of a problem."""
    enough = problem.risk.loss.is_parabola and newton_subsample.represented_rows(problem.rows) > 0
    return enough and newton_subsample.are_balanced(problem.risk.y)


def _are_many(rows):
    return MANY_ENTRIES <= rows.n_rows * rows.n_features <= CHOLESKY_FEATURES * rows.n_rows


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

    def __init__(self, problem, start, delta, monitor, fraction, near):
        self.problem = problem
        rows, risk = problem.rows, problem.risk
        y, cost, counted = risk.y, risk.cost, None
        if not (cost > 0.0).all():
            counted = np.flatnonzero(cost > 0.0)
            y, cost = y[counted], cost[counted]
        no_intercept = problem.intercept is Intercept.NONE
        stiffness = {Intercept.FREE: 0.0, Intercept.PENALIZED: 1.0, Intercept.NONE: np.inf}
        quadratic = QuadraticTerms(
            stiffness[problem.intercept], center=np.zeros(rows.n_features, like=rows.like)
        )
        super().__init__(
            rows,
            y,
            cost,
            counted,
            problem.intercept,
            quadratic,
            coef=start.coef.astype(np.float64),  # a copy
            offset=0.0 if no_intercept else float(start.offset),
            z=None,
            delta=risk.loss.bend if risk.loss.is_smooth else delta,
            loss=risk.loss,
            monitor=monitor,
            fraction=fraction,
        )
        self.near, self.is_bounded = near, False  # is_bounded: there was a useful lower bound
        self.best = Best(problem, start, self.coef, self.offset, monitor)
        self.uses_subsample = fraction == 1.0 and can_use_subsample(problem)
        self.subsample: newton_subsample.Subsample | None = None
        self.sampled: newton_subsample.Subsample | None = None
        self.spare: list[np.ndarray] = []  # vectors (n,) to overwrite: page faults take time

    def run(self, tol):
        """Iterate until the relative gap is `tol`, or the monitor says stop."""
        monitor = self.monitor
        if self.intercept is Intercept.FREE:
            self._find_center()
        if self.z is None:
            point = self._full_pass()
        else:
            self.move_offset()
            point = self._evaluate()
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
            self.near = self.near or self.decrement <= _NEAR * point.primal
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

    def _proved(self, point, tol):
        """Return the point, with dual variables that prove `tol` if the subsample allows it."""
        needed = (1.0 - tol) * min(point.primal, self.best.primal)
        if self.subsample is None or max(point.dual, self.best.dual) >= needed:
            return point
        better = self.subsample.prove(self.coef, self.offset, self.z, point, needed)
        return better or point

    def _solve_subsample(self, point, allowed):
        """Minimise the loss of the subsample; return as `_solve_working_set`."""
        coef, offset, z = self.coef, self.offset, self.z
        self.subsample = self.subsample or newton_subsample.choose(self, self.sampled)
        self.uses_subsample = self.subsample is not None
        if self.subsample is None:
            return None
        steps, gap = self.subsample.steps, point.primal - point.dual
        combined = self.subsample.begin(coef, offset, z, point)
        left = max(_LEFT_BY_WORKING_SET * allowed, _LEFT_BY_SUBSAMPLE * gap)
        steps.approach(left, combined)
        if self.monitor.must_stop():
            return None
        self.coef, self.offset = steps.coef, steps.offset
        self.spare.append(z)
        there = self._full_pass()
        self.monitor.iteration += self.fraction
        self.uses_subsample = there.primal - there.dual < _LEFT_BY_GOOD_SUBSAMPLE * gap
        if self._is_better(there, point, allowed):
            self._leave(point)
            return there
        ahead, shift, beyond = self.coef - coef, self.offset - offset, self.z
        self.coef, self.offset = coef, offset
        self.find_slack()
        with self.monitor.phase("line search"):
            rate = beyond - self.z
            step = self.search(rate, ahead, shift)
            if step == 0.0:
                return None
            self.move(step, rate, ahead, shift)
        return self._evaluate()

    # --- the working set --------------------------------------------------------------------

    def _solve_working_set(self, point, allowed):
        """Minimise over the working set, as if all other rows stayed on their pieces.

        Return the new point, or None if that was no progress.
        """
        working = self._working_set()
        if working is None:
            return None
        coef, offset, z = start = self.coef, self.offset, self.z
        delta = self.delta
        for _ in range(_ROUNDS):
            begun = self._working_steps(working, point, start)
            if begun is None:
                return None
            part, combined = begun
            left = max(_LEFT_BY_WORKING_SET * allowed, _LEFT_OF_GAP * self.best.gap)
            part.approach(left, combined if start[2] is z else None)
            if self.monitor.must_stop():
                return None
            self.coef, self.offset, self.delta = part.coef, part.offset, part.delta
            there = self._full_pass()
            self.monitor.iteration += self.fraction
            if self._is_better(there, point, allowed):
                self.is_bounded = self.is_bounded or there.dual > 0.0
                self._leave(point, z)
                return there
            with self.monitor.phase("line search"):
                # Settled rows have changed pieces: they join the working set.
                ahead, shift, rate = self.coef - coef, self.offset - offset, self.z - z
                for knot in itertools.chain(*self.curved_slacks()):
                    working = working | ((z > knot) != (self.z > knot))
                self.coef, self.offset, self.z, self.delta = coef, offset, z, delta
                step = self.search(rate, ahead, shift)
                if step >= SHORT_STEP or np.count_nonzero(working) > _LARGEST_WORKING_SET * z.size:
                    break
                start = coef + step * ahead, offset + step * shift, z + step * rate
        if step == 0.0:
            return None
        with self.monitor.phase("line search"):
            self.z = z.copy()
            self.move(step, rate, ahead, shift)
        return self._evaluate()

    def _working_set(self):
        """Return the rows nearest to another piece of their loss, a mask (n,).

        None if a working set is of no use here.
        """
        n, rows, z = self.z.size, self.rows, self.z
        if self.fraction < 1.0 or not _are_many(rows) or not isinstance(rows, LeverageRows):
            return None
        spreads, rare = rows.spreads, is_rare(rows)
        if self.counted is not None:
            spreads, rare = spreads[self.counted], rare[self.counted]
        distance = self._distance()
        some = slice(None, None, max(1, n // _PROBED))
        ratios = distance[some] / np.maximum(spreads[some], 1e-300)
        ratios = np.sort(ratios[ratios > 0.0])
        # If few rows have a loss, few rows will change pieces.
        fraction = _SMALL_WORKING_SET if self.is_bounded else _WORKING_SET
        fraction = min(fraction, np.count_nonzero(z > 0.0) / n)
        width = float(ratios[int(fraction * ratios.size)]) if ratios.size else 0.0
        working = (distance <= width * spreads) | rare
        return working if np.count_nonzero(working) <= _LARGEST_WORKING_SET * n else None

    def _distance(self):
        """Return how far slacks are from another piece of their loss, (n,).

        A loss with kinks is smoothed there. Rows on a smoothed kink have a negative distance.
        """
        z = self.z
        distances = [np.maximum(begin - z, z - end) for begin, end in self.curved_slacks()]
        distance = functools.reduce(np.minimum, distances)
        return np.abs(distance) if self.loss.is_smooth else distance

    def _working_steps(self, working, point, start):
        """Return Newton steps over the working set, others settled, and X^T A of its rows.

        `start` is coef, offset and slacks of all rows. None to stop at once.
        """
        index = np.flatnonzero(working)
        rows, A = self.take(index), self.y[index] * point.alpha[index]
        combined = product(rows, "combine", A, self.monitor)
        pull = Slope(point.combined - combined, point.total - float(A.sum()))
        d = rows.n_features
        second, first, total = np.zeros((d, d)), np.zeros(d), 0.0
        if self.loss.is_smooth:
            with self.monitor.phase("direction"):
                curved = np.flatnonzero((self.curvature().weight > 0.0) & ~working)
                sums = self.directions.kept_moments(curved, self.delta)
                if sums is None:
                    return None
                if curved.size:
                    second, first = np.tril(sums[0]) + np.tril(sums[0], -1).T, sums[1]
                    total = float(self.cost[curved].sum()) / self.delta
        settled = Settled(self.coef, self.offset, pull, second, first, total)
        quadratic = QuadraticTerms(self.quadratic.stiffness, self.quadratic.center, settled)
        return self.steps_over(rows, index, self.cost[index], quadratic, start), combined

    def _is_better(self, there, point, allowed):
        """Return whether steps over some of the rows have led to a better point."""
        bound = max(there.dual, self.best.dual)
        return there.primal < point.primal or there.primal - bound <= allowed

    def _leave(self, point, *vectors):
        """Keep vectors that are no longer needed, to overwrite them."""
        if self.best.state.dual is not point.alpha:
            vectors = point.alpha, *vectors
        self.spare = list(vectors)

    # --- a start ----------------------------------------------------------------------------

    def certify_start(self, tol):
        """Certify the start and choose delta by its gap; return whether to stop."""
        risk = self.problem.risk
        self.find_slack()
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
        largest = min(_WARM_SMOOTHING, max(_WARM_FRACTION * gap, FRACTION_OF_GAP * tol))
        if self.loss.is_smooth:
            return done
        # At the solution, between bounds, z = alpha delta / c, with smoothing gap (c - alpha) z.
        slope = (A * risk.y)[risk.cost > 0.0] / self.cost
        bound = np.where(slope > 0.0, self.loss.high, self.loss.low)
        inside = float((self.cost * slope * (bound - slope)).sum())
        self.delta = min(self.delta, largest * self.best.primal / max(inside, 1e-300))
        smoothing_gap = self.smoothing_gap(self.dual_point()[1])
        while smoothing_gap > largest * self.best.primal:
            self.delta *= 0.5
            smoothing_gap = self.smoothing_gap(self.dual_point()[1])
        return done

    # --- values and certificates ------------------------------------------------------------

    def _full_pass(self):
        """Return the current point by a full pass over the rows; slacks are recomputed."""
        self.is_exact = True
        small = self.rows.n_rows * self.rows.n_features < MANY_ENTRIES  # compiling takes longer
        if small or not isinstance(self.rows, SingleRows) or self.intercept is Intercept.FREE:
            self.find_slack()
            self.move_offset()
            return self._evaluate()
        with self.monitor.phase("visit"):
            z, alpha = (
                self.spare.pop() if self.spare else np.empty(self.y.size) for _ in range(2)
            )
            scores = np.empty(self.y.size) if self.fresh is None else self.fresh[1]
            combined, sums = full_pass(
                self.rows,
                self.counted,
                self.y,
                self.cost,
                self.coef,
                self.offset,
                self.smooth,
                self.loss.bend,
                scores,
                z,
                alpha,
            )
            self.z, self.fresh = z, (self.coef, scores)
        return self._point(alpha, combined, *self._values(None, sums))

    def _evaluate(self):
        """Return the current point, if its slacks are known."""
        A, sums = self.dual_point()
        values = self._values(A, sums)
        combined = self.combine(A)
        A *= self.y
        return self._point(A, combined, *values)

    def _point(self, alpha, combined, primal, height, total, *costs):
        dual = height - 0.5 * float(combined @ combined)
        return Point(alpha, total, combined, primal, dual, *costs)

    def _values(self, A, sums):
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
            A *= np.where(A > 0.0, scale_above, scale_below)
        balancing = (1.0 - scale_above) ** 2 * sums.bent_above
        balancing += (1.0 - scale_below) ** 2 * sums.bent_below
        height = scale_above * (sums.height_above - scale_above * sums.bent_above) - penalty
        height += scale_below * (sums.height_below - scale_below * sums.bent_below)
        total = scale_above * sums.above - scale_below * sums.below
        return primal, height, total, smoothing_gap, balancing

    def _remember(self, point):
        self.best.take(point.primal, self.coef, self.offset, self.is_exact)
        alpha = self.directions.everywhere(point.alpha)
        self.best.take_dual(point.dual, alpha)
        # Only exact products count: a certificate has no bound for the rounding of fast ones.
        if self.counted is None and self.rows.plain is self.rows:
            if self.fresh is not None:
                self.best.scored = self.fresh
            self.best.combined = (alpha, point.combined) if point.is_fresh else None

    def _is_done(self, tol, smoothing_gap=0.0):
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

    def _find_center(self):
        """Set the mean row as center: a free intercept allows any center."""
        n = self.y.size
        center = self.combine(np.full_like(self.cost, 1.0 / max(1, n)))
        self.quadratic.center = move_to(center, self.cost)
