"""Dual coordinate descent for the multi-class hinge: LIBLINEAR's, with adaptive frequencies.

Problem
    min over W, b   1/2 |W|^2 + sum_i c_i max_j ([j != y_i] + s_ij - s_iy),   S = X W + b
Dual
    max over alpha  sum_ij alpha_ij - 1/2 |W|^2
    with            W = X^T A,   A_ij = -alpha_ij for j != y_i,   A_iy = sum_j alpha_ij <= c_i
    free intercept  sum_i A_i = 0

One step goes to the maximum over all alpha_ij of one row, and a little beyond, and updates
W: Keerthi et al. 2008, the sequential dual method (LIBLINEAR's solver 4). With what is left
of c_i as the share of the row's own class, a row's variables are the shares B_i of a simplex
and the step is a projection onto it (see kernels/multiclass.py). Two schedules decide which rows
are visited:

"dcd"  Every active row once, in random order; rows that have all shares with one class, and
       higher above the others than any violation of the last pass, are left out until
       the rest is solved.
"acf"  Rows are visited in proportion to preferences that grow while visits pay, in passes
       that no row comes twice in (see solvers/coordinate.py).

A free intercept is the multiplier of the dual's equality, found by the method of multipliers
as in solvers/coordinate.py: a constant feature, whose coefficients b absorbs again and again.
"""

from dataclasses import dataclass

import numpy as np

from widemargin import threads
from widemargin.certificate import Certificate, dual_value, primal_value
from widemargin.kernels import coordinate as orders
from widemargin.kernels import multiclass as kernels
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State

# A gap check costs about one pass over all rows. It is made when the gap seen in passing
# promises that it will succeed; in any case after this many passes, and after so many that
# they have grown by this share since the last check.
_PASSES_BETWEEN_CHECKS = 20.0
_SHARE_BETWEEN_CHECKS = 0.25
# Below this tolerance W is kept in double precision from the start.
_SINGLE_PRECISION_TOL = 1e-5
# Single precision is given up once it blurs the dual value by this share of the gap allowed.
_BLUR_ALLOWED = 0.05
# K of a free intercept, over the mean |x_i|^2 plus one over the mean cost.
_CONSTANT_FEATURE = 0.03
# How much of K z the offset b absorbs after each pass. All of it, with steps that go beyond
# the maximum, can swing to and fro for ever where rows are few.
_ABSORBED = 0.5
# Dense rows with a smaller share of entries that are not zero are visited as CSR.
_WORTH_CSR = 0.25
# Glasmachers & Dogan's constants, and the least share of all rows that a pass visits.
_LOWEST, _HIGHEST, _RATE = 1.0 / 20.0, 20.0, 1.0 / 5.0
_SMALLEST_PASS = 0.2


@dataclass(frozen=True)
class MulticlassDescent:
    """Solver for the multi-class hinge over rows in memory.

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
        (self.k,) = risk.outputs
        self.own = np.arange(rows.n_rows), risk.y
        self.y, self.cost = np.ascontiguousarray(risk.y), np.ascontiguousarray(risk.cost)
        counted = np.flatnonzero(self.cost > 0.0).astype(np.uint32)
        self.n_counted = max(1, counted.size)
        self.empty = np.setdiff1d(np.arange(self.k), self.y[counted])
        self.schedule = _SCHEDULES[schedule](counted, rows.n_rows, seed)
        self.norms = rows.squared_norms()
        self.rows = _to_visit(rows)
        self._start_from(state)
        single = rows.dtype == np.float32 and monitor.tol >= _SINGLE_PRECISION_TOL
        self.exact_W = self._weights(np.float64)  # of the last check
        # Single precision halves what random access to W costs, and the exact W is put in
        # its place at every check.
        self.W = self._weights(np.float32) if single else self.exact_W
        self._intercept(counted, state)
        self.best = State(state.coef, state.offset, state.dual)
        self.best_primal, self.best_dual = np.inf, -np.inf
        alpha = self._alpha()
        self.cold = not alpha.any()
        if not self.cold:
            A = risk.signed(alpha)
            self._model_weights(self.W)[:] = rows.combine(A)
            if problem.intercept is not Intercept.NONE:
                self.offset[1] = A.sum(axis=0)
            self.best_primal = primal_value(problem, state.coef, state.offset)
        # Each row's share of the gap when last visited: their sum is the gap, a little out of
        # date. At alpha = 0 it is the cost.
        self.seen_gap = self.cost.copy()
        self.gains, self.rooms = np.zeros(counted.size), np.zeros(counted.size)
        # What the gap was expected to be, and how far from it the last check was.
        self.predicted = np.inf
        self.optimism = 1.0

    def _start_from(self, state):
        """Set the shares B: alpha, and what is left of its cost as the row's own."""
        risk = self.problem.risk
        self.shares = risk.unsigned(risk.feasible(risk.signed(state.dual)))
        self.shares[self.own] = np.maximum(0.0, self.cost - self.shares.sum(axis=1))

    def _alpha(self):
        alpha = self.shares.copy()
        alpha[self.own] = 0.0
        return alpha

    def _weights(self, dtype):
        """Return zeros in the layout of the kernels' W, each line of classes on a cache line."""
        d, itemsize = self.problem.rows.n_features, np.dtype(dtype).itemsize
        if len(self.rows) == 1:
            return np.zeros((self.k, d), dtype)
        lanes = kernels.LINE // itemsize
        width = -(-self.k // lanes) * lanes
        room = np.zeros(d * width + lanes, dtype)
        begin = -(room.ctypes.data // itemsize) % lanes
        return room[begin : begin + d * width].reshape(d, width)

    def _model_weights(self, W):
        """Return the (d, k) view of the kernels' W."""
        return W.T if len(self.rows) == 1 else W[:, : self.k]

    def _intercept(self, counted, state):
        self.offset, self.K = np.zeros((2, 0)), 0.0
        if self.problem.intercept is not Intercept.NONE:
            self.offset, self.K = np.zeros((2, self.k)), 1.0
        if self.problem.intercept is Intercept.FREE:
            self.offset[0] = state.offset
            cost = self.cost[counted]
            if counted.size:
                self.K = _CONSTANT_FEATURE * float(self.norms[counted].mean() + 1.0 / cost.mean())

    def run(self):
        monitor = self.monitor
        if self.cold:
            self._check_at_zero()
        else:
            self._check()
        while monitor.status == "running":
            with monitor.phase("passes"):
                visits = self._pass()
            if visits == 0 or monitor.must_stop() or self._worth_checking():
                self._check()
        return self.best

    def _pass(self):
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
                self.K, self.seen_gap, order, begin, visits, self.gains, self.rooms, *room,
            )  # fmt: skip
            if self.monitor.must_stop():
                break
        self.monitor.iteration += visits / self.n_counted
        if self.problem.intercept is Intercept.FREE:
            self.offset[0] += _ABSORBED * self.K * self.offset[1]
        if visits == order.size:
            now = self._model_offset()
            self.schedule.learn(order, self.gains[:visits], self.rooms[:visits], now)
        return visits

    def _worth_checking(self):
        """Tell, at the price of a sum over rows, whether a check would succeed."""
        now = self.monitor.iteration
        since = now - self.checked_at
        if since >= max(_PASSES_BETWEEN_CHECKS, _SHARE_BETWEEN_CHECKS * now):
            return True
        # Seen just before each row was mended: the gap itself is 0.6 to 1.0 of the sum.
        self.predicted = self.optimism * float(self.seen_gap.sum())
        if since < min(1.0, 0.1 * now) or self.predicted > self.monitor.tol * self.likely_primal:
            return False
        # Likely values may be far too high still, and better ones cost a sum over features.
        self.likely_primal = self._dual_estimate() + self.predicted
        return self.predicted <= self.monitor.tol * self.likely_primal

    def _dual_estimate(self):
        """Return the dual value at the current point, up to rounding and imbalance."""
        penalty = 0.5 * float(np.vdot(self.W, self.W))
        if self.problem.intercept is Intercept.PENALIZED:
            penalty += 0.5 * float(np.vdot(self.offset[1], self.offset[1]))
        return float(self.cost.sum() - self.shares[self.own].sum()) - penalty

    def _model_offset(self):
        if self.problem.intercept is Intercept.NONE:
            return np.zeros(self.k)
        return self.offset[0] + self.K * self.offset[1]

    def _check(self):
        """Certify the current point, put the exact W in place, remember the best."""
        problem, monitor = self.problem, self.monitor
        with monitor.phase("checks"):
            W = np.array(self._model_weights(self.W), dtype=np.float64, order="C")
            self._model_weights(self.exact_W)[:] = W
            scores = self._scores()
            offset = self._without_empty_classes(self._model_offset(), scores)
            primal = primal_value(problem, W, offset, scores)
            if self.W.dtype == np.float32:
                self._give_up_single_precision_if_blurred(W, scores, primal)
            if problem.intercept is Intercept.FREE:
                self._balance(scores + offset)
            alpha = self._alpha()
            dual, coef = dual_value(problem, alpha)
            self._remember(W, offset, primal, alpha, dual)
            self._resume_from(coef, alpha, scores, offset)
        self._report()

    def _check_at_zero(self):
        """Certify W = 0 and alpha = 0, where nothing need be computed and all is in place."""
        with self.monitor.phase("checks"):
            scores = np.zeros((self.cost.size, self.k))
            W = np.zeros((self.problem.rows.n_features, self.k))
            offset = self._without_empty_classes(self._model_offset(), scores)
            primal = primal_value(self.problem, W, offset, scores)
            self._remember(W, offset, primal, scores, 0.0)
        self._report()

    def _remember(self, W, offset, primal, alpha, dual):
        if primal < self.best_primal:
            self.best_primal = primal
            self.best.coef, self.best.offset = W, offset
        if dual > self.best_dual:
            self.best_dual = dual
            self.best.dual = alpha

    def _report(self):
        self.monitor.check(
            Certificate(self.best_primal, self.best_dual), self.best, self.schedule.last_count
        )
        if np.isfinite(self.predicted) and self.predicted > 0.0:
            found = self.best_primal - self.best_dual
            self.optimism = float(np.clip(self.optimism * found / self.predicted, 1.0, 20.0))
        self.likely_primal = self.best_primal
        self.checked_at = self.monitor.iteration

    def _without_empty_classes(self, offset, scores):
        """Return a free offset so low, for classes without a row, that no row pays for them."""
        if self.problem.intercept is not Intercept.FREE or self.empty.size == 0:
            return offset
        counted = self.cost > 0.0
        own = (scores[self.own] + offset[self.y])[counted]
        for j in self.empty:
            offset[j] = min(offset[j], np.min(own - scores[counted, j] - 1.0, initial=0.0))
        return offset

    def _scores(self):
        """Return X W at the exact W, in float64."""
        rows = self.problem.rows
        S = np.zeros((rows.n_rows, self.k))
        if not self.exact_W.any():
            return S

        def share(begin, end):
            room = np.zeros(max(self.k, self.exact_W.shape[1]))
            for low in range(begin, end, rows_per_call):
                high = min(low + rows_per_call, end)
                kernels.all_scores(self.rows, self.exact_W, low, high, room, S)

        rows_per_call = max(1, rows.rows_per_call // self.k)
        threads.run(share, threads.shares(rows.n_rows, self.k * rows.n_entries))
        return S

    def _give_up_single_precision_if_blurred(self, W, scores, primal):
        """Go on in double precision if the W tracked differs too much from that of alpha.

        A.(X W) is W.W but for that difference, and blurs the dual value as much.
        """
        product = float(self.cost @ scores[self.own] - np.vdot(self.shares, scores))
        blur = abs(float(np.vdot(W, W)) - product)
        if blur > _BLUR_ALLOWED * self.monitor.tol * min(primal, self.best_primal):
            self.W = self.exact_W

    def _balance(self, slopes):
        """Make sum_i A_i zero, at little loss of dual value.

        From the class with the largest sum to that with the smallest, as long as they differ:
        shares move the other way, in the rows that lose least by it.
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

    def _resume_from(self, coef, alpha, scores, offset):
        """Put the exact numbers of a check in place of those tracked in passing."""
        self._model_weights(self.W)[:] = coef
        if self.problem.intercept is not Intercept.NONE:
            self.offset[1] = self.problem.risk.signed(alpha).sum(axis=0)
        if self.problem.intercept is Intercept.FREE:
            self.offset[0] = offset
        kernels.gap_shares(self.y, self.shares, scores, offset, self.seen_gap)
        self.schedule.activate(self.seen_gap > 0.0)


def _to_visit(rows):
    """Return the kernels' rows: those given, or a CSR copy of dense ones full of zeros."""
    if len(rows.arrays) == 3:
        return rows.arrays
    (X,) = rows.arrays
    indptr = np.zeros(rows.n_rows + 1, dtype=np.uint64)
    for begin, end in rows.ranges(0, rows.n_rows):
        kernels.count_entries(X, begin, end, indptr)
    np.cumsum(indptr, out=indptr)
    if indptr[-1] >= _WORTH_CSR * X.size:
        return rows.arrays
    values = np.empty(indptr[-1], X.dtype)
    indices = np.empty(indptr[-1], np.uint16 if X.shape[1] <= 1 << 16 else np.uint32)
    for begin, end in rows.ranges(0, rows.n_rows):
        kernels.compress(X, indptr, begin, end, values, indices)
    return values, indices, indptr


class _Schedule:
    """Which rows a pass visits, and in which order."""

    def __init__(self, rows, n_rows, seed):
        self.rows = rows  # (m,) uint32: the rows that count
        self.order = rows.copy()
        # xorshift64 must not start at zero.
        self.generator = np.array([2 * seed + 1], dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        self.last_count = rows.size

    def _shuffled(self, count):
        self.last_count = count
        orders.shuffle(self.order, 0, count, self.generator)
        return self.order[:count]


class _Uniform(_Schedule):
    """All active rows once a pass; rows that sit tight are shrunk away."""

    def __init__(self, rows, n_rows, seed):
        super().__init__(rows, n_rows, seed)
        self._start_with(rows)

    def _start_with(self, active):
        self.active = active
        self.tight = np.inf  # the room above which rows are shrunk away
        self.offset = None  # of the scores when rows were first shrunk away

    def activate(self, wanted):
        """Bring back the rows of the mask `wanted`, after a look at all of them."""
        wanted = wanted.copy()
        wanted[self.active] = True
        self._start_with(self.rows[wanted[self.rows]])

    def next_order(self):
        if self.active.size == 0:  # whatever is left to gain, it is not where it was looked for
            self._start_with(self.rows)
        self.order[: self.active.size] = self.active
        return self._shuffled(self.active.size)

    def learn(self, order, gains, rooms, offset):
        """Leave out rows with much room; bring all back once the intercept has used it up."""
        self.active = np.sort(order[rooms <= self.tight])
        violation = -float(rooms.min(initial=0.0))
        self.tight = violation if violation > 0.0 else np.inf
        if self.offset is None:
            self.offset = offset
        elif 2.0 * np.abs(offset - self.offset).max() > self.tight:
            self._start_with(self.rows)


class _Adaptive(_Schedule):
    """Rows in proportion to preferences, which adapt to what visits have gained."""

    def __init__(self, rows, n_rows, seed):
        super().__init__(rows, n_rows, seed)
        self.preference = np.zeros(n_rows)
        self.preference[rows] = 1.0
        # Credits start spread out, so that rows of equal preference do not come in step.
        self.credit = np.random.default_rng(seed).random(n_rows)
        self.mean_gain = 0.0  # fading; zero until known

    def activate(self, wanted):
        """Do nothing: no row is ever left out."""

    def next_order(self):
        count = self.rows.size
        if self.mean_gain == 0.0:
            self.order[:] = self.rows
        else:
            least = _SMALLEST_PASS * count
            count = orders.adaptive_order(self.preference, self.credit, least, self.order)
        return self._shuffled(count)

    def learn(self, order, gains, rooms, offset):
        """Raise the preferences of rows that gained more than the mean."""
        if self.mean_gain > 0.0:
            self.mean_gain = kernels.prefer(
                order, gains, self.preference, _LOWEST, _HIGHEST, _RATE,
                1.0 / self.rows.size, self.mean_gain,
            )  # fmt: skip
        elif gains.size:
            # A pass without gain teaches nothing: the next one is uniform again.
            self.mean_gain = float(gains.mean())


_SCHEDULES = {"dcd": _Uniform, "acf": _Adaptive}
