"""Dual coordinate descent on logistic losses: LIBLINEAR's solver 7.

Dual
    max over alpha  sum_i c_i H(alpha_i / c_i) - 1/2 |w|^2,   w = sum_i alpha_i y_i x_i
                    0 < alpha_i < c_i;  sum_i alpha_i y_i = 0 with a free intercept

One step maximises the dual over one alpha_i, to a tenth of its slope, and updates w. A pass visits
every row once, in random order; Yu, Huang & Lin 2011, Algorithm 5. Their inner iteration is
Newton's method on alpha or on c - alpha, whichever is smaller. Here it is Newton's method on
log(alpha / (c - alpha)), which is kept from visit to visit: it needs no logarithm, mostly one
exponential, and no choice between the two. A bracket keeps it from jumping to and fro.

The intercept is found by the method of multipliers, see absorbed.py.
"""

import numpy as np

from widemargin.certificate import feasible_near, proved_by, upper_bound
from widemargin.data.rows import SingleRows
from widemargin.kernels import logistic as kernels
from widemargin.kernels.coordinate import shuffle
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import LogisticRisk
from widemargin.solvers.absorbed import constant_feature, kept
from widemargin.solvers.descent import Descent, DescentSolver
from widemargin.solvers.schedule import random_bits

# No dual variable is nearer to a bound than this fraction of its cost, at a start.
_NEAREST = 1e-9
# A call makes at most this part of the visits that rows allow, about 0.01 s.
_PARTS_OF_CALL = 8


class _Passes:
    """The order of visits: all rows that count, shuffled anew for each pass."""

    def __init__(self, rows: np.ndarray, seed: int):
        self.order, self.generator = rows, random_bits(seed)
        self.begin = self.last_count = rows.size

    def next(self, most: int) -> tuple[int, int]:
        """Return the part of the order to visit next, (begin, end)."""
        if self.begin == self.last_count:
            shuffle(self.order, 0, self.last_count, self.generator)
            self.begin = 0
        begin, self.begin = self.begin, min(self.begin + most, self.last_count)
        return begin, self.begin


class _LogisticDescent(Descent):
    """One run: the arrays that the kernel works on."""

    schedule: _Passes

    def __init__(
        self,
        problem: Problem[SingleRows, LogisticRisk],
        state: State,
        monitor: Monitor,
        solver: DescentSolver,
    ):
        super().__init__(problem, state, monitor, solver.settings)
        rows, risk = problem.rows, problem.risk
        counted = np.flatnonzero(risk.cost > 0.0).astype(np.uint32)
        self.schedule = _Passes(counted, solver.seed)
        self.forecast = self._forecast(max(1, counted.size), rows.n_entries)
        self.norms, self.K = rows.squared_norms(), 0.0
        if problem.intercept is not Intercept.NONE and counted.size:
            spread, mean_cost = float(self.norms[counted].mean()), float(risk.cost[counted].mean())
            scale = self.settings.constant_feature
            self.K = constant_feature(problem.intercept, spread, mean_cost, scale)
        self.offset = np.array([0.0, 0.0, self.K])  # [fixed, z, k] of the kernel
        self.seen, self.last_seen = 0.0, np.inf
        alpha = np.asarray(state.dual, dtype=np.float64)
        if np.any(state.coef) and not alpha.any():
            scores = rows.scores(state.coef) + state.offset
            alpha = risk.unsigned(risk.slopes(scores)[0])
        self.alpha = risk.unsigned(feasible_near(problem, alpha))
        self.offset[0] = kept(problem.intercept, self.K) * state.offset
        self.offset[1] = float(risk.signed(self.alpha).sum())

    def _first_check(self) -> None:
        self._check()

    def _advance(self) -> bool:
        rows, risk, passes = self.problem.rows, self.problem.risk, self.schedule
        if passes.last_count == 0:
            return True
        begin, end = passes.next(max(1, rows.rows_per_call // _PARTS_OF_CALL))
        self.seen += kernels.descend(
            rows.arrays, self.norms, risk.y, risk.cost, self.logit, self.alpha, self.w,
            self.offset, passes.order, begin, end,
        )  # fmt: skip
        self.monitor.iteration += (end - begin) / passes.last_count
        if end < passes.last_count:
            return False
        fixed = kept(self.problem.intercept, self.K)
        self.offset[0] = fixed * (self.offset[0] + self.K * self.offset[1])
        self.last_seen, self.seen = self.seen, 0.0
        return self.forecast.is_due(self.monitor.iteration, self.last_seen, self._dual_value)

    def _dual_value(self) -> float:
        """Return the dual value, up to rounding and imbalance."""
        value = float(self.problem.risk.entropies(self.alpha).sum()) - 0.5 * float(self.w @ self.w)
        if self.problem.intercept is Intercept.PENALIZED:
            value -= 0.5 * float(self.offset[1]) ** 2
        return value

    def _check(self) -> None:
        """Certify alpha and its w, and go on from there."""
        problem, risk, tol = self.problem, self.problem.risk, self.monitor.tol
        with self.monitor.phase("checks"):
            A = feasible_near(problem, self.alpha)
            w = problem.rows.combine(A)
            scores = problem.rows.scores(w) if w.any() else np.zeros(self.alpha.size)
            offset = self._model_offset(scores)
            primal = upper_bound(problem, w, offset, scores, tol)
            self.alpha = risk.unsigned(A)
            dual = proved_by(problem, A, w, tol)
            self._remember(w, offset, scores, primal, self.alpha.copy(), dual)
            self.seen_gap = np.full(1, min(self.last_seen, primal.value - dual.value))
        self._report()
        if self.monitor.status == "running":
            self._resume_from(A, w, offset)

    def _model_offset(self, scores: np.ndarray) -> float:
        if self.problem.intercept is Intercept.FREE:
            return float(self.problem.risk.best_offset(scores))
        return float(self.offset[0] + self.K * self.offset[1])

    def _resume_from(self, A: np.ndarray, w: np.ndarray, offset: float) -> None:
        """Replace the tracked numbers by those of a check."""
        risk, cost = self.problem.risk, self.problem.risk.cost
        near = _NEAREST * cost
        inside = np.clip(self.alpha, near, cost - near)
        moved = inside - self.alpha
        self.alpha, self.w = inside, w.copy()  # w may be the best point; passes change self.w
        if moved.any():
            self.w += self.problem.rows.combine(risk.signed(moved))
        with np.errstate(divide="ignore", invalid="ignore"):
            self.logit = np.log(self.alpha) - np.log(cost - self.alpha)
        if self.problem.intercept is Intercept.FREE:
            self.offset[0] = offset  # one that is penalised is a multiplier, and goes on
        self.offset[1] = float(risk.signed(self.alpha).sum())


class LogisticDescent(DescentSolver):
    """Solver for logistic risks over rows in memory."""

    descent = _LogisticDescent
