"""Dual coordinate descent for the multi-class hinge: LIBLINEAR's, with adaptive frequencies.

Problem
    min over W, b   1/2 |W|^2 + sum_i c_i max_j ([j != y_i] + s_ij - s_iy),   S = X W + b
Dual
    max over alpha  sum_ij alpha_ij - 1/2 |W|^2
    with            W = X^T A,   A_ij = -alpha_ij for j != y_i,   A_iy = sum_j alpha_ij <= c_i
    free intercept  sum_i A_i = 0

One step maximises the dual over all alpha_ij of one row, goes a little beyond the maximum, and
updates W: Keerthi et al. 2008, the sequential dual method (LIBLINEAR's solver 4). The variables of
a row are the shares B_i of its cost c_i that its classes have; the row's own class has what is
left of c_i. They form a simplex, and the step is a projection onto it (see kernels/multiclass.py).
Two schedules decide which rows are visited:

"dcd"  Every active row once, in random order. Shrinking leaves out rows whose shares are all with
       one class, if that is above the others by more than any violation of the last pass, until
       the rest is solved.
"acf"  Rows are visited in proportion to preferences, which grow with the gain of their visits, in
       passes in which no row occurs twice (see solvers/coordinate.py).

The intercept is found by the method of multipliers, see absorbed.py; here z = sum_i A_i.
"""

from typing import Any

import numpy as np

from widemargin import threads
from widemargin.arrays import for_kernels
from widemargin.certificate import lower_bound, upper_bound
from widemargin.data.rows import SingleRows
from widemargin.kernels import multiclass as kernels
from widemargin.kernels.coordinate import adaptive_order, shuffle
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Bound, CrammerSinger
from widemargin.solvers.absorbed import constant_feature, kept
from widemargin.solvers.descent import Descent, DescentSolver
from widemargin.solvers.schedule import Preferences, random_bits
from widemargin.solvers.settings import VisitSettings

#: a problem of several classes over rows in memory
ClassesProblem = Problem[SingleRows, CrammerSinger]


class _Descent(Descent):
    """One run: the arrays that the kernels work on."""

    schedule: "_Uniform | _Adaptive"

    def __init__(
        self, problem: ClassesProblem, state: State, monitor: Monitor, solver: DescentSolver
    ):
        super().__init__(problem, state, monitor, solver.settings)
        rows, risk = problem.rows, problem.risk
        (self.k,) = risk.outputs
        self.own = np.arange(rows.n_rows), risk.y
        self.y, self.cost = np.ascontiguousarray(risk.y), np.ascontiguousarray(risk.cost)
        counted = np.flatnonzero(self.cost > 0.0).astype(np.uint32)
        self.seen_gap = np.array(self.cost)  # at alpha = 0
        self.n_counted = max(1, counted.size)
        self.empty = np.setdiff1d(np.arange(self.k), self.y[counted])
        visits = self.settings.visits
        self.schedule = _SCHEDULES[solver.schedule](counted, rows.n_rows, solver.seed, visits)
        self.norms = for_kernels(rows.squared_norms())
        self.rows = _to_visit(rows, self.settings.worth_csr)
        self.forecast = self._forecast(self.n_counted, self.k * self.rows[0].size)
        self._start_from(state)
        self.exact_W = self._weights(np.float64)  # of the last check
        self.W = self._weights(np.float32) if self._single_will_do else self.exact_W
        self._intercept(counted, state)
        alpha = self._alpha()
        self.cold = not alpha.any()
        if not self.cold:
            A = risk.signed(alpha)
            self._model_weights(self.W)[:] = rows.combine(A)
            if problem.intercept is not Intercept.NONE:
                self.offset[1] = A.sum(axis=0)
            self.best_primal = upper_bound(problem, state.coef, state.offset, tol=monitor.tol)
        self.gains, self.rooms = np.zeros(counted.size), np.zeros(counted.size)

    def _start_from(self, state: State) -> None:
        """Set the shares B: alpha, and for the row's own class what is left of its cost."""
        risk = self.problem.risk
        self.shares = risk.unsigned(risk.feasible(risk.signed(state.dual)))
        self.shares[self.own] = np.maximum(0.0, self.cost - self.shares.sum(axis=1))

    def _alpha(self) -> np.ndarray:
        alpha = self.shares.copy()
        alpha[self.own] = 0.0
        return alpha

    def _weights(self, dtype: Any) -> np.ndarray:
        """Return zeros in the layout of the kernels' W, each line of classes on a cache line."""
        d, itemsize = self.problem.rows.n_features, np.dtype(dtype).itemsize
        if len(self.rows) == 1:
            return np.zeros((self.k, d), dtype)
        lanes = kernels.LINE // itemsize
        width = -(-self.k // lanes) * lanes
        room = np.zeros(d * width + lanes, dtype)
        begin = -(room.ctypes.data // itemsize) % lanes
        return room[begin : begin + d * width].reshape(d, width)

    def _model_weights(self, W: np.ndarray) -> np.ndarray:
        """Return the (d, k) view of the kernels' W."""
        return W.T if len(self.rows) == 1 else W[:, : self.k]

    def _intercept(self, counted: np.ndarray, state: State) -> None:
        intercept = self.problem.intercept
        self.offset, self.K = np.zeros((2, 0)), 0.0
        if intercept is not Intercept.NONE:
            self.offset = np.zeros((2, self.k))
            if counted.size:
                spread = float(self.norms[counted].mean())
                mean_cost, scale = float(self.cost[counted].mean()), self.settings.constant_feature
                self.K = constant_feature(intercept, spread, mean_cost, scale)
            self.offset[0] = kept(intercept, self.K) * state.offset

    def _first_check(self) -> None:
        if self.cold:
            self._check_at_zero()
        else:
            self._check()

    def _advance(self) -> bool:
        visits = self._pass()
        self.monitor.iteration += visits / self.n_counted
        return visits == 0 or self.forecast.is_due(
            self.monitor.iteration, float(self.seen_gap.sum()), self._dual_estimate
        )

    def _pass(self) -> int:
        """Visit the rows that the schedule names; return how many were visited."""
        rows = self.problem.rows
        width = self.W.shape[1] if len(self.rows) == 3 else self.k
        room = [np.zeros(width, self.W.dtype) for _ in range(2)]
        room += [np.zeros(self.k) for _ in range(2)]
        order = self.schedule.next_order()
        rows_per_call = max(1, rows.rows_per_call // self.k)
        visits = 0
        for begin in range(0, order.size, rows_per_call):
            visits = min(begin + rows_per_call, order.size)
            kernels.visit_rows(
                self.rows, self.norms, self.y, self.cost, self.shares, self.W, self.offset,
                self.K, self.seen_gap, order, begin, visits, self.settings.visits.overstep,
                self.gains, self.rooms, *room,
            )  # fmt: skip
            if self.monitor.must_stop():
                break
        if self.problem.intercept is not Intercept.NONE:
            goal = kept(self.problem.intercept, self.K) * self._model_offset()
            self.offset[0] += self.settings.absorbed * (goal - self.offset[0])
        if visits == order.size:
            now = self._model_offset()
            self.schedule.learn(order, self.gains[:visits], self.rooms[:visits], now)
        return visits

    def _dual_estimate(self) -> float:
        """Return the dual value at the current point, up to rounding and imbalance."""
        penalty = 0.5 * float(np.vdot(self.W, self.W))
        if self.problem.intercept is Intercept.PENALIZED:
            penalty += 0.5 * float(np.vdot(self.offset[1], self.offset[1]))
        return float(self.cost.sum() - self.shares[self.own].sum()) - penalty

    def _model_offset(self) -> np.ndarray:
        if self.problem.intercept is Intercept.NONE:
            return np.zeros(self.k)
        return self.offset[0] + self.K * self.offset[1]

    def _check(self) -> None:
        problem = self.problem
        with self.monitor.phase("checks"):
            W = np.array(self._model_weights(self.W), dtype=np.float64, order="C")
            self._model_weights(self.exact_W)[:] = W
            scores = self._scores()
            offset = self._without_empty_classes(self._model_offset(), scores)
            primal = upper_bound(problem, W, offset, scores, self.monitor.tol)
            if self.W.dtype == np.float32:
                # A.(X W), to compare with W.W
                product = float(self.cost @ scores[self.own] - np.vdot(self.shares, scores))
                if self._is_blurred(float(np.vdot(W, W)), product, primal.value):
                    self.W = self.exact_W
            if problem.intercept is Intercept.FREE:
                self._balance(scores + offset)
            alpha = self._alpha()
            dual, coef = lower_bound(problem, alpha, self.monitor.tol)
            self._remember(W, offset, scores, primal, alpha, dual)
            self._resume_from(coef, alpha, scores, offset)
        self._report()

    def _check_at_zero(self) -> None:
        """Certify W = 0 and alpha = 0, for which nothing has to be computed."""
        with self.monitor.phase("checks"):
            scores = np.zeros((self.cost.size, self.k))
            W = np.zeros((self.problem.rows.n_features, self.k))
            offset = self._without_empty_classes(self._model_offset(), scores)
            primal = upper_bound(self.problem, W, offset, scores, self.monitor.tol)
            self._remember(W, offset, scores, primal, scores, Bound(0.0, 0.0))
        self._report()

    def _without_empty_classes(self, offset: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return offsets so low, for classes without rows, that no row has a loss due to them."""
        if self.problem.intercept is not Intercept.FREE or self.empty.size == 0:
            return offset
        counted = self.cost > 0.0
        own = (scores[self.own] + offset[self.y])[counted]
        for j in self.empty:
            offset[j] = min(offset[j], np.min(own - scores[counted, j] - 1.0, initial=0.0))
        return offset

    def _scores(self) -> np.ndarray:
        """Return X W at the exact W, in float64."""
        rows = self.problem.rows
        S = np.zeros((rows.n_rows, self.k))
        if not self.exact_W.any():
            return S

        def chunk(begin: int, end: int) -> None:
            room = np.zeros(max(self.k, self.exact_W.shape[1]))
            for low in range(begin, end, rows_per_call):
                high = min(low + rows_per_call, end)
                kernels.all_scores(self.rows, self.exact_W, low, high, room, S)

        rows_per_call = max(1, rows.rows_per_call // self.k)
        threads.run(chunk, threads.chunks(rows.n_rows, self.k * rows.n_entries))
        return S

    def _balance(self, slopes: np.ndarray) -> None:
        """Make sum_i A_i zero, at little loss of dual value.

        Moves go from the class with the largest sum to the one with the smallest: shares move the
        other way, in the rows that lose least by it.
        """
        slopes[self.own] -= 1.0
        excess = -self.shares.sum(axis=0)
        excess += np.bincount(self.y, self.cost, self.k)
        for _ in range(self.k):
            to, off = np.argmax(excess), np.argmin(excess)
            amount = min(excess[to], -excess[off])
            if amount <= 0.0:
                break
            movable = np.flatnonzero(self.shares[:, off])
            loss = slopes[movable, off] - slopes[movable, to]
            order = movable[np.argsort(loss, kind="stable")]
            taken = np.minimum(np.cumsum(self.shares[order, off]), amount)
            order = order[: np.searchsorted(taken, amount) + 1]
            step = np.diff(taken[: order.size], prepend=0.0)
            self.shares[order, off] = np.maximum(0.0, self.shares[order, off] - step)
            self.shares[order, to] += step
            excess[to] -= amount
            excess[off] += amount

    def _resume_from(
        self, coef: np.ndarray, alpha: np.ndarray, scores: np.ndarray, offset: np.ndarray
    ) -> None:
        """Replace the tracked numbers by those of a check."""
        self._model_weights(self.W)[:] = coef
        if self.problem.intercept is not Intercept.NONE:
            self.offset[1] = self.problem.risk.signed(alpha).sum(axis=0)
        if self.problem.intercept is Intercept.FREE:
            self.offset[0] = offset
        kernels.row_gaps(self.y, self.shares, scores, offset, self.seen_gap)
        self.schedule.activate(self.seen_gap > 0.0)


class MulticlassDescent(DescentSolver):
    """Solver for the multi-class hinge over rows in memory."""

    descent = _Descent


def _to_visit(rows: SingleRows, worth_csr: float) -> tuple[np.ndarray, ...]:
    """Return the rows for the kernels: those given, or a CSR copy of dense rows full of zeros."""
    if len(rows.arrays) == 3:
        return rows.arrays
    (X,) = rows.arrays
    indptr = np.zeros(rows.n_rows + 1, dtype=np.uint64)
    for begin, end in rows.ranges(0, rows.n_rows):
        kernels.count_entries(X, begin, end, indptr)
    np.cumsum(indptr, out=indptr)
    if indptr[-1] >= worth_csr * X.size:
        return rows.arrays
    values = np.empty(indptr[-1], X.dtype)
    indices = np.empty(indptr[-1], np.uint16 if X.shape[1] <= 1 << 16 else np.uint32)
    for begin, end in rows.ranges(0, rows.n_rows):
        kernels.compress(X, indptr, begin, end, values, indices)
    return values, indices, indptr


class _Schedule:
    """An order of visits; the parameters are those of `schedule.Schedule`."""

    def __init__(self, rows: np.ndarray, seed: int):
        self.rows, self.order, self.last_count = rows, rows.copy(), rows.size
        self.generator = random_bits(seed)

    def _shuffled(self, count: int) -> np.ndarray:
        """Shuffle the first `count` of the order, and return them."""
        self.last_count = count
        shuffle(self.order, 0, count, self.generator)
        return self.order[:count]


class _Uniform(_Schedule):
    """All active rows once a pass, with shrinking."""

    def __init__(self, rows: np.ndarray, n_rows: int, seed: int, settings: VisitSettings):
        super().__init__(rows, seed)
        self._start_with(rows)

    def _start_with(self, active: np.ndarray) -> None:
        self.active = active
        self.offset: np.ndarray | None = None  # the intercept when rows were first left out
        self.tight = np.inf  # the room above which rows are shrunk away

    def activate(self, wanted: np.ndarray) -> None:
        """Reactivate the rows of the mask `wanted`, after a check of all rows."""
        wanted = wanted.copy()
        wanted[self.active] = True
        self._start_with(self.rows[wanted[self.rows]])

    def next_order(self) -> np.ndarray:
        if self.active.size == 0:  # what is left to gain is in shrunk rows
            self._start_with(self.rows)
        self.order[: self.active.size] = self.active
        return self._shuffled(self.active.size)

    def learn(
        self, order: np.ndarray, gains: np.ndarray, rooms: np.ndarray, offset: np.ndarray
    ) -> None:
        """Shrink rows with much room; reactivate all when the intercept has moved as far.

        An inactive row was at least that far from having anything to gain. The intercept changes
        all scores by the same amount, and only rows that are visited can hold it back.
        """
        self.active = np.sort(order[rooms <= self.tight])
        violation = -float(rooms.min(initial=0.0))
        self.tight = violation if violation > 0.0 else np.inf
        if self.offset is None:
            self.offset = offset
        elif np.max(np.abs(offset - self.offset), initial=0.0) > 0.5 * self.tight:
            self._start_with(self.rows)


class _Adaptive(_Schedule):
    """Rows in proportion to preferences, which adapt to the gains of visits."""

    def __init__(self, rows: np.ndarray, n_rows: int, seed: int, settings: VisitSettings):
        super().__init__(rows, seed)
        self.settings = settings
        self.preferences = Preferences(rows, n_rows, seed, settings)
        self.preference, self.mean_gain = self.preferences.preference, 0.0  # fading; 0 if unknown

    def activate(self, wanted: np.ndarray) -> None:
        """Do nothing: no row is inactive."""

    def next_order(self) -> np.ndarray:
        if self.mean_gain == 0.0:
            self.order[:] = self.rows
            return self._shuffled(self.rows.size)
        credit, least = self.preferences.credit, self.preferences.least
        return self._shuffled(adaptive_order(self.preference, credit, least, self.order))

    def learn(
        self, order: np.ndarray, gains: np.ndarray, rooms: np.ndarray, offset: np.ndarray
    ) -> None:
        """Raise the preferences of rows that gained more than the mean."""
        if self.mean_gain > 0.0:
            lowest, highest, rate, _ = self.settings.preferences
            self.mean_gain = kernels.prefer(
                order, gains, self.preference, lowest, highest, rate, 1.0 / self.rows.size,
                self.mean_gain,
            )  # fmt: skip
        elif gains.size:
            # If nothing was gained there is no mean gain: the next pass is uniform again.
            self.mean_gain = float(gains.mean())


_SCHEDULES: dict[str, type[_Uniform] | type[_Adaptive]] = {"dcd": _Uniform, "acf": _Adaptive}
