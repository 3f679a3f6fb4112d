"""Dual coordinate descent: LIBLINEAR's, and its successor with adaptive frequencies.

Problem
    min over w, b   1/2 |w|^2 + sum_i c_i loss(y_i (w.x_i + b))      hinge, squared hinge
Dual
    max over alpha  sum_i (alpha_i - shift_i alpha_i^2 / 2) - 1/2 |w|^2
    with            w = sum_i alpha_i y_i x_i,   0 <= alpha_i <= upper_i
    hinge           upper_i = c_i,        shift_i = 0
    squared hinge   upper_i = infinity,   shift_i = 1 / (2 c_i)
    free intercept  sum_i alpha_i y_i = 0

One step maximises the dual exactly over one alpha_i and updates w. Two schedules decide
which rows are visited:

"dcd"  Every active row once, in random order; rows that press against a bound harder than
       any violation of the last pass are left out until the rest is solved.
       Hsieh et al. 2008, Algorithm 3 (LIBLINEAR's solvers 1 and 3).
"acf"  Rows are visited in proportion to preferences that grow while visits pay.
       Glasmachers & Dogan, Algorithms 2 to 4 (AVSF), with one change: a pass is a part of
       their sweep, in which no row comes twice. The relative frequencies are the same,
       but a second visit to a row finds the others moved on.

A free intercept is the multiplier of the dual's equality: the method of multipliers adds
-1/2 (B sum_i alpha_i y_i)^2 to the dual, which is a constant feature B of every row with a
penalised coefficient v; b absorbs B v again and again, until v vanishes.
"""

from dataclasses import dataclass

import numpy as np

from widemargin.certificate import Certificate, dual_value, primal_value
from widemargin.kernels import coordinate as kernels
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.solvers.schedule import SCHEDULES

# A gap check costs about one pass over all rows. It is made when the losses seen in passing
# promise that it will succeed, and in any case after this many passes, or once the passes
# have grown by this share since the last check.
_PASSES_BETWEEN_CHECKS = 10.0
_SHARE_BETWEEN_CHECKS = 0.25

# Below this tolerance w is kept in double precision from the start.
_SINGLE_PRECISION_TOL = 1e-5
# B^2 of a free intercept over the mean |x_i|^2. Larger makes the rows pull on one another
# through B, which slows every step; smaller makes b move slowly. From 0.003 to 0.1 the
# passes needed hardly differ from those without an intercept; at 1 they double.
_CONSTANT_FEATURE = 0.03
# Single precision is given up once it blurs the dual value by this share of the gap allowed.
_BLUR_ALLOWED = 0.05


@dataclass(frozen=True)
class CoordinateDescent:
    """Solver for margin risks over rows in memory.

    Parameters
    ----------
    schedule : {"dcd", "acf"}
    seed : int
        Of the order in which rows are visited.
    """

    schedule: str = "acf"
    seed: int = 0

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified."""
        if not hasattr(problem.rows, "arrays"):
            raise TypeError(
                f"solver {self.schedule!r} needs rows in memory, not {type(problem.rows).__name__}"
            )
        return _Descent(problem, state, monitor, self.schedule, self.seed).run()


class _Descent:
    """One run: the arrays that kernels work on, and the best points seen."""

    def __init__(self, problem, state, monitor, schedule, seed):
        self.problem, self.monitor = problem, monitor
        rows, risk = problem.rows, problem.risk
        counted = np.flatnonzero(risk.cost > 0.0).astype(np.uint32)
        self.n_counted = max(1, counted.size)
        self.schedule = SCHEDULES[schedule](counted, rows.n_rows, seed)
        self.norms = rows.squared_norms()
        self.alpha = state.dual.copy()
        self.offset = np.zeros(3)  # [b, v, B] of the kernels
        if problem.intercept is Intercept.PENALIZED:
            self.offset[2] = 1.0
        elif problem.intercept is Intercept.FREE:
            self.offset[0] = state.offset
            self.offset[2] = np.sqrt(_CONSTANT_FEATURE * self.norms.mean()) or 1.0
        # Single precision halves what random access to w costs, and the exact w is put in
        # its place at every check.
        single = rows.dtype == np.float32 and monitor.tol >= _SINGLE_PRECISION_TOL
        self.w = np.zeros(rows.n_features, dtype=np.float32 if single else np.float64)
        # The loss each row had when last visited: the primal value, a little out of date.
        self.seen_loss = np.zeros(rows.n_rows)
        self.best = State(state.coef, state.offset, state.dual)
        self.best_primal, self.best_dual = np.inf, -np.inf

    def run(self):
        monitor = self.monitor
        self._check()
        while monitor.status == "running":
            with monitor.phase("passes"):
                self._pass()
            if monitor.must_stop() or self._worth_checking():
                self._check()
        return self.best

    def _pass(self):
        risk = self.problem.risk
        visits = self.schedule.run_pass(
            (
                self.problem.rows.arrays,
                self.norms,
                risk.y,
                risk.cost,
                risk.squared,
                self.alpha,
                self.w,
                self.offset,
                self.seen_loss,
            ),
            self.problem.rows.rows_per_call,
            self.monitor.must_stop,
        )
        self.monitor.iteration += visits / self.n_counted
        if self.problem.intercept is Intercept.FREE:
            self.offset[0] += self.offset[2] * self.offset[1]

    def _worth_checking(self):
        since = self.monitor.iteration - self.checked_at
        grown = _SHARE_BETWEEN_CHECKS * self.monitor.iteration
        if since < max(1.0, grown):
            return False
        if since >= _PASSES_BETWEEN_CHECKS:
            return True
        primal, dual = self._estimate()
        return self.optimism * (primal - dual) <= self.monitor.tol * primal

    def _estimate(self):
        """Return primal and dual value as well as they can be told without a pass."""
        w = self.w.astype(np.float64, copy=False)
        penalty = 0.5 * float(w @ w)
        if self.problem.intercept is Intercept.PENALIZED:
            penalty += 0.5 * float(self.offset[1]) ** 2
        risk = self.problem.risk
        return penalty + float(self.seen_loss.sum()), risk.dual(self.alpha * risk.y) - penalty

    def _check(self):
        """Certify the current point, put the exact w in place, remember the best."""
        problem, monitor = self.problem, self.monitor
        with monitor.phase("checks"):
            promised_primal, promised_dual = self._estimate()
            if problem.intercept is Intercept.FREE:
                _balance(self.alpha, problem.risk)
            dual, coef = dual_value(problem, self.alpha)
            scores = problem.rows.scores(coef) if coef.any() else np.zeros(problem.rows.n_rows)
            offset = self._best_offset(scores)
            primal = primal_value(problem, coef, offset, scores)
            if primal < self.best_primal:
                self.best_primal = primal
                self.best.coef, self.best.offset = coef, offset
            if dual > self.best_dual:
                self.best_dual = dual
                self.best.dual = self.alpha.copy()
            self._resume_from(coef)
        monitor.check(
            Certificate(self.best_primal, self.best_dual), self.best, self.schedule.last_count
        )
        promised = promised_primal - promised_dual
        found = self.best_primal - self.best_dual
        self.optimism = np.clip(found / promised, 0.2, 5.0) if promised > 0.0 else 1.0
        self.checked_at = monitor.iteration

    def _best_offset(self, scores):
        if self.problem.intercept is Intercept.FREE:
            return self.problem.risk.best_offset(scores)
        return float(self.offset[1] * self.offset[2])

    def _resume_from(self, coef):
        """Replace w by the exact one; in double precision, if single was too coarse."""
        if self.w.dtype == np.float32:
            w = self.w.astype(np.float64)
            blur = 0.5 * abs(float(w @ w) - float(coef @ coef))
            if blur > _BLUR_ALLOWED * self.monitor.tol * self.best_primal:
                self.w = self.w.astype(np.float64)
        self.w[:] = coef
        if self.problem.intercept is not Intercept.NONE:
            self.offset[1] = self.offset[2] * float(self.alpha @ self.problem.risk.y)


def _balance(alpha, risk):
    """Make sum_i alpha_i y_i zero in place, moving rows between their bounds first.

    At the optimum those have no slope, so the dual value hardly changes; what they cannot
    take is left to the certificate's own repair.
    """
    excess = float(alpha @ risk.y)
    if excess == 0.0:
        return
    upper = np.inf if risk.squared else risk.cost
    between = (alpha > 0.0) & (alpha < upper)
    falling = risk.y == np.sign(excess)
    rising_room = alpha if risk.squared else risk.cost - alpha
    room = np.where(between, np.where(falling, alpha, rising_room), 0.0)
    total = float(room.sum())
    if total > 0.0:
        share = min(1.0, abs(excess) / total)
        alpha += np.where(falling, -share, share) * room
        if not risk.squared:
            np.minimum(alpha, risk.cost, out=alpha)
