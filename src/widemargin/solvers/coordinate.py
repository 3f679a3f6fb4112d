"""Dual coordinate descent: LIBLINEAR's algorithm, and its successor with adaptive frequencies.

Problem
    min over w, b   1/2 |w|^2 + sum_i c_i loss(1 - y_i (w.x_i + b))      any of losses.py
Dual
    max over alpha  sum_i (alpha_i - eps |alpha_i| - shift_i alpha_i^2 / 2) - 1/2 |w|^2
    with            w = sum_i alpha_i y_i x_i,   lower_i <= alpha_i <= upper_i
    hinge           0 <= alpha_i <= c_i,         shift_i = 0
    squared hinge   0 <= alpha_i,                shift_i = 1 / (2 c_i)
    smooth hinge    0 <= alpha_i <= c_i,         shift_i = 1 / c_i
    free intercept  sum_i alpha_i y_i = 0

One step maximises the dual over one alpha_i, goes a little beyond the maximum, and updates w. Two
schedules decide which rows are visited:

"dcd"  Every active row once, in random order. Shrinking leaves out rows at a bound whose
       gradient is larger than any violation of the last pass, until the rest is solved.
       Hsieh et al. 2008, Algorithm 3 (LIBLINEAR's solvers 1 and 3), with one change: a row at a
       bound with a gradient that keeps it there rests for two passes.
"acf"  Rows are visited in proportion to preferences, which grow with the gain of their visits.
       Glasmachers & Dogan, Algorithms 2 to 4 (AVSF), with one change: a pass is a part of
       their sweep in which no row occurs twice. The relative frequencies are the same, but at
       its second visit a row finds that the other rows have changed. Before some checks the
       free dual variables are optimised jointly, see face.py.

The intercept is found by the method of multipliers, see absorbed.py. A free intercept makes an
equality constraint in the dual. Under it, w.(x_i - mu) + b is the same model for every mu. Rows
with a large mean are centred implicitly, without changing them: through the mean, every step
changes the scores of all rows, which makes coordinate descent very slow.
"""

from typing import TypeAlias

import numpy as np

from widemargin.arrays import for_kernels
from widemargin.certificate import lower_bound, upper_bound
from widemargin.data.rows import SingleRows
from widemargin.kernels.descent import CHECK
from widemargin.kernels.face import free_rows
from widemargin.kernels.forecast import PENALIZED
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Bound, MarginRisk
from widemargin.solvers.absorbed import constant_feature, kept
from widemargin.solvers.descent import Descent, DescentSolver
from widemargin.solvers.face import Face
from widemargin.solvers.schedule import SCHEDULES, Schedule

# A difference of large numbers is known to no smaller fraction of these numbers.
_DIGITS_LEFT = 1e-14
# A call makes at most this part of the visits that rows allow, and at most so many: about 0.01 s.
_PARTS_OF_CALL, _VISITS_PER_CALL = 4, 1 << 18


#: w (d,) and offset
PrimalPoint: TypeAlias = tuple[np.ndarray, float]
#: a problem of two classes over rows in memory
MarginProblem = Problem[SingleRows, MarginRisk]


class _Descent(Descent):
    """One run: the arrays that the kernels work on."""

    schedule: Schedule

    def __init__(
        self, problem: MarginProblem, state: State, monitor: Monitor, solver: DescentSolver
    ):
        super().__init__(problem, state, monitor, solver.settings)
        rows, risk = problem.rows, problem.risk
        self.seen_gap = risk.losses(risk.residuals(0.0))  # at alpha = 0
        counted = np.flatnonzero(risk.cost > 0.0).astype(np.uint32)
        self.n_counted = max(1, counted.size)
        self.joint, visits = self.settings.joint, self.settings.visits
        self.schedule = SCHEDULES[solver.schedule](counted, rows.n_rows, solver.seed, visits)
        pauses = self.schedule.pauses
        self.forecast = self._forecast(self.n_counted, rows.n_entries, pauses=pauses)
        self.norms = for_kernels(rows.squared_norms())
        self.worked_on_faces = 0.0  # in passes
        self.left_by_face = np.inf  # the gap left by the last joint step, if it is known
        self.put_off = False  # whether the last check was postponed
        self.solves_faces = self.schedule.faces and risk.loss.eps == 0.0
        self._foresee_joint_steps()
        self.alpha = risk.unsigned(risk.feasible(risk.signed(state.dual)))
        self.offset = np.zeros(3)  # [b, z, k] of the kernels
        self.mean, self.mean_dot = np.empty(0), np.empty(0)
        self.K = 0.0
        if problem.intercept is not Intercept.NONE and counted.size:
            self._set_intercept(counted, state)
        single = self._single_will_do and self.mean_dot.size == 0
        self.w = np.zeros(rows.n_features, dtype=np.float32 if single else np.float64)
        self.is_cold = not self.alpha.any()
        if not self.is_cold:
            inside = (self.alpha > risk.lower) & (self.alpha < risk.upper)
            self.schedule.inform(inside & (self.alpha != 0.0), ~inside & (self.alpha != 0.0))

    def _foresee_joint_steps(self) -> None:
        """Tell the forecast whether a joint step before a check may leave a much smaller gap."""
        joint, n_features = self.joint, self.problem.rows.n_features
        pays = n_features >= joint.many_features and self.monitor.tol < joint.foreseen_below
        if self.solves_faces and not self.problem.risk.loss.is_smooth and pays:
            self.forecast.foresee_joint_steps(joint.left, joint.rows_per_feature * n_features)
        self.forecast.plan[PENALIZED] = self.problem.intercept is Intercept.PENALIZED

    def _set_intercept(self, counted: np.ndarray, state: State) -> None:
        """Set K. If rows have a large mean, centre them implicitly."""
        rows, cost, intercept = self.problem.rows, self.problem.risk.cost, self.problem.intercept
        spread = float(self.norms[counted].mean())
        if intercept is Intercept.FREE:
            mean = rows.combine(np.where(cost > 0.0, 1.0 / self.n_counted, 0.0))
            common = float(mean @ mean)
            if common > self.settings.common_part * spread:
                self.mean, self.mean_dot = mean, rows.scores(mean)
                self.offset[2] = common
                # |x - mean|^2 = |x|^2 + |mean|^2 - 2 x.mean, but at least its rounding error.
                least = _DIGITS_LEFT * (self.norms + common)
                self.norms = np.maximum(self.norms, 2.0 * self.mean_dot - common + least)
                spread = max(spread - common, _DIGITS_LEFT * spread)
        mean_cost, scale = float(cost[counted].mean()), self.settings.constant_feature
        self.K = constant_feature(intercept, spread, mean_cost, scale)
        self.offset[0] = kept(intercept, self.K) * state.offset
        self.offset[2] += self.K

    def _first_check(self) -> None:
        if self.is_cold:
            self._check_at_zero()
        else:
            # The coefficients of a warm start are near those of its dual variables; maybe better.
            self._certify((self.best.coef, self.best.offset))

    def _check_at_zero(self) -> None:
        """Certify w = 0 and alpha = 0, for which few things have to be computed."""
        risk = self.problem.risk
        with self.monitor.phase("checks"):
            w, scores, offset = np.zeros(self.w.size), np.zeros(self.alpha.size), 0.0
            if self.problem.intercept is Intercept.FREE:
                self.offset[0] = offset = risk.best_offset_at_zero()
                self.seen_gap = risk.losses(risk.residuals(offset))
            primal = upper_bound(self.problem, w, offset, scores, self.monitor.tol)
            self._remember(w, offset, scores, primal, self.alpha.copy(), Bound(0.0, 0.0))
        self._report()

    def _advance(self) -> bool:
        risk, rows = self.problem.risk, self.problem.rows
        how = self.schedule.run(
            rows.arrays, self.norms, self.mean_dot, risk.y, risk.cost, risk.loss.step_numbers,
            self.alpha, self.w, self.offset, self.seen_gap, self.mean, self.K,
            kept(self.problem.intercept, self.K), self.forecast.plan,
            min(max(1, rows.rows_per_call // _PARTS_OF_CALL), _VISITS_PER_CALL),
        )  # fmt: skip
        self.monitor.iteration = self.forecast.now
        return how == CHECK

    def _free_rows(self) -> np.ndarray:
        """Return the rows with free dual variables."""
        risk, index = self.problem.risk, np.empty(self.alpha.size + 1, dtype=np.uint32)
        bounds = risk.loss.low, risk.loss.high
        return index[: free_rows(self.alpha, risk.cost, self.norms, *bounds, index)]

    def _coefficients(self) -> np.ndarray:
        """Return a copy of the model's w: the kernels' w, minus z times the mean."""
        w = self.w.astype(np.float64)
        if self.mean.size:
            w -= self.offset[1] * self.mean
        return w

    def _check(self) -> None:
        ahead = None
        if self.solves_faces:
            promising = self.forecast.is_promising
            ahead = self._solve_together()
            if ahead is None and np.isfinite(self.forecast.predicted):
                self.forecast.predict(float(self.seen_gap.sum()))
            elif promising and self._is_vain():
                self.forecast.learn(self.left_by_face, float(self.seen_gap.sum()))
                return
        self._certify(ahead)

    def _is_vain(self) -> bool:
        """Return whether to postpone a check that would fail; never two in a row."""
        fails = self.forecast.allowed < self.left_by_face < np.inf
        self.put_off = fails and not self.put_off and not self.monitor.must_stop()
        return self.put_off

    def _certify(self, ahead: PrimalPoint | None) -> None:
        """Certify alpha, with its own w or with a primal point `ahead` of it: w and offset."""
        problem = self.problem
        with self.monitor.phase("checks"):
            tracked = self._coefficients()
            w, offset = (tracked, self._model_offset()) if ahead is None else ahead
            scores = problem.rows.scores(w) if w.any() else np.zeros(problem.rows.n_rows)
            if problem.intercept is Intercept.FREE:
                offset = problem.risk.best_offset(scores)
            primal = upper_bound(problem, w, offset, scores, self.monitor.tol)
            if self.w.dtype == np.float32 and tracked.any():  # not yet at a start
                # (alpha y).(X w) with the w of alpha, to compare with the tracked w.w
                product = float(problem.risk.signed(self.alpha) @ scores)
                if self._is_blurred(float(tracked @ w), product, primal.value):
                    self.w = self.w.astype(np.float64)
            if problem.intercept is Intercept.FREE:
                _balance(self.alpha, scores + offset, problem.risk)
            dual, coef = Bound(0.0, 0.0), np.zeros_like(w)
            if self.alpha.any():
                dual, coef = lower_bound(problem, self.alpha, self.monitor.tol)
            if problem.intercept is Intercept.FREE:
                # Balancing has changed w; the score of the mean row stays the same.
                self.offset[0] = offset
                if self.mean.size:
                    self.offset[0] += float((w - coef) @ self.mean)
            self._remember(w, offset, scores, primal, self.alpha.copy(), dual)
        self._report()
        begun = self.monitor.iteration > 0.0 or self.alpha.any() or self._model_offset()
        if begun and self.monitor.status == "running":
            with self.monitor.phase("checks"):
                self._resume_from(coef, scores)

    def _solve_together(self) -> PrimalPoint | None:
        """Optimise free dual variables jointly, if that pays.

        Return the primal point, w and offset, of the solution without bounds; None if nothing
        was done.
        """
        forecast, seen = self.forecast, float(self.seen_gap.sum())
        promising, allowed = forecast.is_promising, forecast.allowed
        if forecast.optimism * seen <= allowed:
            return None  # a check alone will succeed
        if not promising and forecast.optimism * seen * seen <= allowed * forecast.seen_then:
            return None  # as many passes as since the last check will do
        free = self._free_rows()
        if free.size > self.w.size:
            return None
        fraction = free.size / max(1, self.problem.rows.n_rows)
        passes = self.joint.work * self.monitor.iteration - self.worked_on_faces
        if not 0.0 < fraction <= min(self.joint.largest, passes / self.joint.fewest_iterations):
            return None
        with self.monitor.phase("faces"):
            slowest = self.joint.slowest if promising else np.inf
            return self._move_together(free, passes / fraction, slowest)

    def _move_together(self, free: np.ndarray, most: float, slowest: float) -> PrimalPoint:
        """Change the dual variables `free`; return the primal point ahead of them."""
        risk, rows = self.problem.risk, self.problem.rows
        face = Face(
            rows,
            free,
            risk,
            self.alpha,
            self.w.astype(np.float64, copy=False),
            self.offset,
            self.norms,
            self.mean_dot,
        )
        enough = self.joint.wanted * self.forecast.allowed
        change, left, gap, n_iter = face.solve(enough, slowest, most, self.monitor.must_stop)
        self.worked_on_faces += n_iter * free.size / rows.n_rows
        w, z, _ = face.combine(change)
        if self.mean.size:
            w -= z * self.mean
        ahead = self._coefficients() + w, self._model_offset() + self.K * z
        step = face.step(change, left)
        w, z, w_mean_dot = step.combined
        self.left_by_face = gap - step.gain
        self.alpha[free] += step.change
        np.add(self.w, w.astype(self.w.dtype), out=self.w)
        self.offset[0] -= w_mean_dot
        self.offset[1] += z
        return ahead

    def _model_offset(self) -> float:
        return float(self.offset[0] + self.K * self.offset[1])

    def _resume_from(self, coef: np.ndarray, scores: np.ndarray) -> None:
        """Replace the tracked numbers by those of a check.

        `scores` may be those of a point ahead, which passes will soon reach.
        """
        risk = self.problem.risk
        self.w[:] = coef
        self.offset[1] = float(self.alpha @ risk.sign)
        self.seen_gap[:] = risk.row_gaps(scores + self._model_offset(), self.alpha)
        self.schedule.activate(self.seen_gap > 0.0)


class CoordinateDescent(DescentSolver):
    """Solver for margin risks over rows in memory."""

    descent = _Descent


def _balance(alpha: np.ndarray, scores: np.ndarray, risk: MarginRisk) -> None:
    """Make sum_i alpha_i y_i zero in place, at the least loss of dual value.

    The dual's slope in alpha_i is about r_i - eps sign(alpha_i) - shift_i alpha_i. Moves
    that reduce the excess lower dual variables of rows with its sign, and raise the others. Those
    that gain the most come first. A dual variable without a bound is at most doubled, or set to 0.
    """
    excess, loss = float(alpha @ risk.sign), risk.loss
    falling = risk.sign == np.sign(excess)
    above = np.abs(alpha) if loss.high == np.inf else risk.upper - alpha
    below = np.abs(alpha) if loss.low == -np.inf else alpha - risk.lower
    room = np.where(falling, below, above)
    movable = np.flatnonzero(room > 0.0)
    slope = risk.residuals(scores)[movable]
    if loss.eps > 0.0:
        slope -= loss.eps * np.sign(alpha[movable])
    if loss.is_smooth:
        slope -= loss.bend * (alpha[movable] / risk.cost[movable])
    gain = np.where(falling[movable], -slope, slope)
    order = movable[np.argsort(-gain)]
    taken = np.minimum(np.cumsum(room[order]), abs(excess))
    step = np.diff(taken, prepend=0.0)
    alpha[order] += np.where(falling[order], -step, step)
