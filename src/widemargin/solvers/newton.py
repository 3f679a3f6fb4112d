"""Newton's method on a smooth hinge: for many rows of few features.

Problem
    min over w, b   1/2 |w|^2 (+ 1/2 b^2 if penalised) + sum_i c_i loss(y_i (w.x_i + b))
                    hinge, squared hinge
Dual
    max over alpha  sum_i (alpha_i - shift_i alpha_i^2 / 2) - 1/2 |X^T A|^2,   A_i = alpha_i y_i
    hinge           0 <= alpha_i <= c_i,  shift_i = 0
    squared hinge   0 <= alpha_i,         shift_i = 1 / (2 c_i)
    free intercept  sum_i A_i = 0

With z_i = 1 - y_i s_i, the hinge is rounded off between 0 and delta:

    h(z) = 0 | z^2 / (2 delta) | z - delta / 2      for  z <= 0 | 0 < z < delta | z >= delta

Its slopes alpha_i = c_i clip(z_i / delta, 0, 1) are feasible in the dual of the hinge itself, so
every gradient, w - X^T A, comes with a lower bound on the true problem, and

    primal(w) - dual(alpha) = sum_i (c_i max(0, z_i) - alpha_i z_i) + 1/2 |w - X^T A|^2

says how much of the gap is due to rounding off, and how much to a gradient that is not zero.
delta shrinks as soon as the former is what is left. The squared hinge is smooth as it is.

Each iteration
    1. takes alpha from z, and X^T A from the rows: gradient, dual value, certificate;
    2. solves  (I + sum_i k_i x_i x_i^T) p = -gradient  over the rows with a curvature k_i, for
       which 0 < z_i < delta: by Cholesky, or by conjugate gradients where features are many;
    3. takes X p from the rows, and goes as far along p as is best, which z alone tells;
    4. moves b to where it is best, which z alone tells too, so that sum_i A_i = 0 holds.

A cold start on many rows solves a random sample of them first.

When delta shrinks, the direction is that of the new problem with the rows that were curved in the
old one: what changes is z, in proportion to delta, more than which rows are between the bounds.

Problems over the same rows are solved in lock-step and share passes over them (see lockstep.py).

Memory beyond the rows: six vectors of n numbers, a copy of the sample, d^2 numbers for Cholesky.
"""

from dataclasses import dataclass

import numpy as np

from widemargin import passes
from widemargin.arrays import beside
from widemargin.certificate import Certificate, primal_value
from widemargin.data.rows import Rows, home
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.solvers import lockstep
from widemargin.solvers.coordinate import CoordinateDescent
from widemargin.solvers.cutting_plane import CuttingPlanes
from widemargin.solvers.lockstep import Asking, Product
from widemargin.solvers.newton_direction import Curved, Directions, Slope

# Problems solved side by side at most; and bytes that they may need, some 64 for every row, on the
# host and on a GPU.
_SIDE_BY_SIDE, _BYTES_PER_ROW = 16, 64
_BYTES, _BYTES_ON_GPU = 1 << 27, 1 << 32

# At w = 0 all rows have z = 1, and all are curved at first.
_FIRST_DELTA = 1.5
# delta shrinks by this factor, to where rounding off makes this share of the gap allowed.
_SHRINK, _SHARE_OF_GAP = 0.2, 0.3
# With a start that is not zero, rounding off may begin with this share of the objective at most.
_WARM_ROUNDING = 0.01
# After a step shorter than this, rows are curved that come to be on half the way. (Squared, the
# hinge is curved on all of one side, and what is kept of the last Hessian is worth more.)
_SHORT_STEP, _WAY_AHEAD = 0.95, 0.5
# An iteration brings something if the gap falls by this share; so many that do not are enough.
_PROGRESS, _PATIENCE = 1e-6, 30
# The slope left along a line, as a share of the slope at its beginning.
_SLOPE_LEFT = 1e-3

# A cold start solves this share of the rows first, if they are this many: to a gap that is about
# as large as what tells the sample from the whole.
_SAMPLE_SHARE, _SAMPLE_ROWS, _SAMPLE_ROWS_PER_FEATURE = 16, 1000, 20
_SAMPLE_TOL = 3e-3
# A GPU takes about as long for fewer rows as for these.
_SAMPLE_ROWS_ON_GPU = 100_000


@dataclass(frozen=True)
class Newton:
    """Solver for margin risks over any rows; fast where rows are many and features few."""

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified."""
        return self.solve_together([problem], [state], [monitor])[0]

    def solve_together(
        self, problems: list[Problem], states: list[State], monitors: list[Monitor]
    ) -> list[State]:
        """Solve problems over the same rows, sharing passes over them; return as `solve`."""
        solved: list[State] = []
        rows = problems[0].rows
        room = _BYTES if home(rows) is None else _BYTES_ON_GPU
        count = min(max(2, room // (_BYTES_PER_ROW * rows.n_rows)), _SIDE_BY_SIDE)
        for begin in range(0, len(problems), count):
            some = slice(begin, begin + count)
            solved += _side_by_side(problems[some], states[some], monitors[some])
        return solved


def _side_by_side(problems, states, monitors):
    sample = None if all(map(_is_warm, states)) else _Sample.of(problems[0].rows)
    return lockstep.run(
        [_solve(*of_one, sample) for of_one in zip(problems, states, monitors)], monitors
    )


def _is_warm(state):
    return bool(np.any(state.coef) or np.any(state.dual))


@dataclass(frozen=True)
class _Sample:
    """Some rows, drawn at random."""

    rows: Rows
    index: np.ndarray
    share: float

    @classmethod
    def of(cls, rows):
        """Return a sample of rows in memory, or None where it would not pay."""
        size = rows.n_rows // _SAMPLE_SHARE
        least = _SAMPLE_ROWS if home(rows) is None else _SAMPLE_ROWS_ON_GPU
        enough = max(least, _SAMPLE_ROWS_PER_FEATURE * rows.n_features)
        if not hasattr(rows, "moments") or size < enough:
            return None
        index = np.random.default_rng(0).choice(rows.n_rows, size, replace=False)
        index.sort()
        index = np.asarray(index, like=home(rows))
        return cls(rows.take(index), index, size / rows.n_rows)

    def of_problem(self, problem):
        """Return the problem that the sampled rows make in place of all."""
        risk = problem.risk
        part = type(risk)(risk.y[self.index], risk.cost[self.index] / self.share)
        return Problem(self.rows, part, problem.intercept)


# --- one problem ----------------------------------------------------------------------------


def _solve(problem, state, monitor, sample) -> Asking:
    """Improve `state`: the algorithm of one problem."""
    delta = _FIRST_DELTA
    warm = _is_warm(state)
    if not warm and sample is not None:
        first = _Descent(sample.of_problem(problem), state, delta, monitor, sample.share)
        yield from first.run(max(_SAMPLE_TOL, monitor.tol))
        start = State(first.best.coef, first.best.offset, state.dual)
        delta = first.delta
    else:
        start = state
    descent = _Descent(problem, start, delta, monitor)
    done = False
    if warm:
        done = yield from descent.take_stock(monitor.tol)
    if not done:
        yield from descent.run(monitor.tol)
    if descent.is_stuck:
        # Features of very different scales: one by one, rows still get there.
        in_memory = hasattr(problem.rows, "arrays")
        solver = CoordinateDescent() if in_memory else CuttingPlanes("ocas")
        return solver.solve(problem, descent.best, monitor)
    return descent.best


class _Descent:
    """Newton's method from a start: where it is, and the best points seen.

    Vectors over rows leave out rows of cost zero.
    """

    def __init__(self, problem, start, delta, monitor, share=1.0):
        self.problem, self.monitor = problem, monitor
        self.share = share  # of the rows that count as one pass
        risk = problem.risk
        self.y, self.cost, self.counted = risk.y, risk.cost, None
        if not (risk.cost > 0.0).all():
            self.counted = np.flatnonzero(risk.cost > 0.0)
            self.y, self.cost = risk.y[self.counted], risk.cost[self.counted]
        self.coef = start.coef.astype(np.float64)  # a copy
        self.offset = float(start.offset)
        self.delta, self.cap = (0.5, np.inf) if risk.squared else (delta, 1.0)
        # The penalty's curvature in b; infinite, it stays where it is.
        self.stiffness = {
            Intercept.FREE: 0.0,
            Intercept.PENALIZED: 1.0,
            Intercept.NONE: np.inf,
        }[problem.intercept]
        if problem.intercept is Intercept.NONE:
            self.offset = 0.0
        self.z: np.ndarray | None = None
        self.directions = Directions(
            problem.rows, self.cost, self.counted, self.stiffness, monitor, share
        )
        self.n_curved = 0
        self.best = State(self.coef, self.offset, start.dual)
        # No dual variables at all prove that no objective is below zero.
        self.best_primal, self.best_dual = np.inf, -np.inf if np.any(start.dual) else 0.0
        self.least_gap, self.fruitless = np.inf, 0
        self.best_is_exact = False  # whether its value comes from scores as the rows gave them

    def run(self, tol) -> Asking:
        """Iterate until the relative gap is `tol`, or the monitor says stop."""
        monitor = self.monitor
        if self.z is None:
            yield from self._find_slack()
        if self.problem.intercept is Intercept.FREE:
            yield from self._find_center()
        self._move_offset()
        around = None
        while True:
            A, primal, height, rounding = self._dual_point()
            combined = yield from self._combine(A)
            dual = height - 0.5 * float(combined @ combined)
            gradient = self.coef - combined
            slanting = 0.5 * float(gradient @ gradient)
            self._remember(primal, dual, A)
            self._look_for_progress()
            if self.is_stuck:
                return
            unproved = not self.best_is_exact
            stop = yield from self._is_done(tol)
            if stop:
                return
            if unproved and self.best_is_exact:
                # Not as good as it seemed: go on from there, with slacks that are true again.
                yield from self._find_slack()
                monitor.iteration += self.share
                continue
            allowed = tol * self.best_primal
            shrink = 1.0
            if slanting <= rounding and rounding > 0.0:
                shrink = min(1.0, max(_SHRINK, _SHARE_OF_GAP * allowed / rounding))
            with monitor.phase("direction"):
                curved = self._curvature(around if shrink == 1.0 else None)
            slope = Slope(gradient, 0.0)
            if shrink < 1.0:
                slope = yield from self._shrink(shrink, slope, curved, A)
            ahead = yield from self.directions.find(slope, curved, self.delta, allowed)
            if ahead is None or monitor.must_stop():
                continue  # to say where we are
            change = yield from self._scores(ahead)
            with monitor.phase("line search"):
                around = self._advance(ahead, change, slope, curved)
                self._move_offset()
            monitor.iteration += self.share

    def take_stock(self, tol) -> Asking:
        """Certify the start, and choose delta by its gap; return whether to stop."""
        risk = self.problem.risk
        yield from self._find_slack()
        balanced = self.problem.intercept is Intercept.FREE
        A = risk.feasible(risk.signed(self.best.dual), balanced=balanced)
        combined = yield Product(self.problem.rows, "combine", A)
        penalty = float(combined @ combined)
        if self.problem.intercept is Intercept.PENALIZED:
            penalty += float(A.sum()) ** 2
        self.best_dual = risk.dual(A) - 0.5 * penalty
        _, self.best_primal, _, rounding = self._dual_point()
        self.best_is_exact = True
        done = yield from self._is_done(tol)
        gap = (self.best_primal - max(self.best_dual, 0.0)) / (self.best_primal or 1.0)
        largest = min(_WARM_ROUNDING, max(_SHARE_OF_GAP * gap, _SHARE_OF_GAP * tol))
        while not risk.squared and rounding > largest * self.best_primal:
            self.delta *= 0.5
            rounding = self._dual_point()[-1]
        return done

    # --- the proof --------------------------------------------------------------------------

    def _dual_point(self):
        """Return A of the current point, its primal and dual values, and what rounding off costs.

        The dual value lacks the penalty of X^T A.
        """
        A, *sums = passes.of(self.z).dual_point(self.z, self.y, self.cost, self.delta, self.cap)
        above, below, loss_above, loss_below, aligned = map(float, sums)
        squared = self.problem.risk.squared
        loss = loss_above + loss_below
        primal = 0.5 * float(self.coef @ self.coef) + loss
        rounding = 0.0 if squared else max(0.0, loss - aligned)
        penalty = 0.0
        scale_above = scale_below = 1.0
        if self.problem.intercept is Intercept.PENALIZED:
            primal += 0.5 * self.offset**2
            penalty = 0.5 * (above - below) ** 2
        elif self.problem.intercept is Intercept.FREE and above != below:
            # b is where it is best, so that little is left to balance.
            least = min(above, below)
            scale_above = least / above if above > 0.0 else 1.0
            scale_below = least / below if below > 0.0 else 1.0
            A *= np.where(A > 0.0, scale_above, scale_below)
        height = scale_above * above + scale_below * below - penalty
        if squared:  # alpha^2 / (4 c) is the loss itself
            height -= scale_above**2 * loss_above + scale_below**2 * loss_below
        return A, primal, height, rounding

    def _remember(self, primal, dual, A):
        if primal < self.best_primal:
            self.best_primal, self.best_is_exact = primal, False
            self.best.coef, self.best.offset = self.coef, self.offset
        if dual > self.best_dual:
            self.best_dual = dual
            self.best.dual = self.problem.risk.unsigned(self.directions.everywhere(A))

    def _look_for_progress(self):
        gap = self.best_primal - self.best_dual
        self.fruitless = 0 if gap < (1.0 - _PROGRESS) * self.least_gap else self.fruitless + 1
        self.least_gap = min(gap, self.least_gap)

    @property
    def is_stuck(self):
        """Whether many iterations have brought nothing: numbers are too far apart."""
        return self.fruitless >= _PATIENCE

    def _is_done(self, tol) -> Asking:
        """Return whether to stop; the point that is handed out has its value proved anew."""
        monitor = self.monitor
        if self.share < 1.0:
            return self._gap() <= tol or monitor.must_stop()
        if not self.best_is_exact and (self._gap() <= tol or monitor.must_stop()):
            # Slacks were moved step by step, and rounding has come with every step.
            coef, offset = self.best.coef, self.best.offset
            scores = np.zeros(self.problem.rows.n_rows, like=home(self.problem.rows))
            if coef.any():
                scores = yield Product(self.problem.rows, "scores", coef)
            self.best_primal = primal_value(self.problem, coef, offset, scores)
            self.best_is_exact = True
            self.coef, self.offset = coef, offset
        certificate = Certificate(self.best_primal, self.best_dual)
        return monitor.check(certificate, self.best, self.n_curved)

    def _gap(self):
        return Certificate(self.best_primal, self.best_dual).relative_gap

    # --- products ---------------------------------------------------------------------------

    def _scores(self, w) -> Asking:
        """Return the scores of the rows that count."""
        scores = yield Product(self.problem.rows, "scores", w)
        return scores if self.counted is None else scores[self.counted]

    def _combine(self, g) -> Asking:
        combined = yield Product(self.problem.rows, "combine", self.directions.everywhere(g))
        return combined

    def _find_slack(self) -> Asking:
        scores = 0.0
        if self.coef.any():
            scores = yield from self._scores(self.coef)
        self.z = 1.0 - self.y * (scores + self.offset)

    def _find_center(self) -> Asking:
        """Take the mean row: with a free intercept, rows less anything make the same problem."""
        n = self.y.size
        center = yield from self._combine(np.full_like(self.cost, 1.0 / max(1, n)))
        self.directions.center = beside(center, self.cost)

    def _shrink(self, factor, slope, curved, A) -> Asking:
        """Shrink delta; return the slope as it would be if the same rows stayed curved.

        They will be, in the end, most of them: their alpha stays about the same, and so z will
        shrink with delta. Taken at z as it is, alpha would be at its bound for most.
        """
        self.delta *= factor
        growth = np.where(curved.weight > 0.0, (1.0 / factor - 1.0) * A, 0.0)
        combined = yield from self._combine(growth)
        curved.weight /= factor
        curved.total /= factor
        return Slope(slope.coef - combined, slope.offset - float(growth.sum()))

    # --- along a line -----------------------------------------------------------------------

    def _advance(self, ahead, change, slope, curved):
        """Go along `ahead` as far as is best; `change` are its scores.

        Return how far to both sides rows should be taken for curved next time, as rates (n,) and
        a share of them; or None. A step that is not whole says that rows became curved which were
        not; there will be more of their kind.
        """
        shift = 0.0
        total = curved.total + self.stiffness
        if 0.0 < total < np.inf:
            shift = -(slope.offset + float(curved.weight @ change)) / total
        rate = passes.of(change).rates(self.y, change, shift)
        curvature, incline = float(ahead @ ahead), float(self.coef @ ahead)
        if self.problem.intercept is Intercept.PENALIZED:
            curvature += shift**2
            incline += self.offset * shift
        step, _ = self._lowest(rate, incline, curvature, guess=1.0, slope_left=_SLOPE_LEFT)
        self.coef = self.coef + step * ahead
        self.offset += step * shift
        self.z += step * rate
        if step >= _SHORT_STEP or self.problem.risk.squared:
            return None
        return rate, _WAY_AHEAD * step

    def _move_offset(self):
        """Move b to where it is best, for the smooth losses."""
        if self.problem.intercept is Intercept.NONE or self.z.size == 0:
            return
        rate = -self.y.astype(np.float64)
        slope = self.stiffness * self.offset
        step, curvature = self._lowest(rate, slope, self.stiffness, guess=0.0, slope_left=0.0)
        self.offset += step
        self.z += step * rate
        if self.problem.intercept is Intercept.FREE and curvature == 0.0:
            step = self._middle()
            self.offset += step
            self.z += step * rate

    def _middle(self):
        """Return the way to the middle of the offsets that are as good as this one.

        There are some where no row is curved; at their edge, one row of one class would stop every
        move of w.
        """
        z, edge = self.z, self.cap * self.delta
        positive, lossless = self.y > 0, z <= 0.0
        # How far each row lets b go, to either side, before its slope changes.
        way = np.where(lossless, z, edge - z)
        low = float(np.where(positive == lossless, way, -np.inf).max())
        high = -float(np.where(positive == lossless, -np.inf, way).max())
        return 0.5 * (low + high) if np.isfinite(low) and np.isfinite(high) else 0.0

    def _lowest(self, rate, slope, curvature, guess, slope_left):
        """Return how far along z + t rate it is best to go, and the curvature there."""
        way = self.z, rate, self.cost, self.delta, self.cap
        return passes.of(rate).lowest(*way, slope, curvature, guess, slope_left)

    def _curvature(self, around):
        """Return which of the rows that count are curved, and the curvature of each.

        With `around`, the mean curvature that far to both sides of z.
        """
        arguments = self.z, self.cost, self.delta, self.cap
        if around is None:
            weight, count, total = passes.of(self.z).curvature(*arguments)
        else:
            weight, count, total = passes.of(self.z).mean_curvature(*arguments, *around)
        self.n_curved = int(count)
        return Curved(weight, self.n_curved, float(total), plain=around is None)
