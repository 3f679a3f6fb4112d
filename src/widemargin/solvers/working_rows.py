"""One-versus-rest problems of few positive rows among many, solved over working sets of rows.

At the optimum of such a problem with an intercept, most negative rows have no loss: their dual
variables are zero. So a problem is solved over a working set: the positive rows, and the negative
rows that had the largest scores. The result has a certificate for all rows:

- The dual variables, with zeros for all other rows, have the same dual value in the whole problem.
- A pass over all rows lists those with a score above a threshold t. The others have no loss if
  t + b <= -1 by more than the rounding of a score. If b is too large for that, it is lowered.

Rows that were listed join the working set, and the problem is solved again. The first set has a
sample of the negative rows, which also tells which threshold how many rows are above. Several
problems share each pass. Usually two passes are enough.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from widemargin.certificate import bound_by_scores, certificate_of, score_errors
from widemargin.data.memory import CsrRows, csr_in_place
from widemargin.kernels.labels import scores_above, take_rows
from widemargin.monitor import Monitor, clock
from widemargin.problem import Intercept, Problem, SparseCoef, SparseDual, State
from widemargin.risk import Bound, MarginRisk
from widemargin.solvers import auto
from widemargin.solvers.compact import without_smallest
from widemargin.solvers.settings import WorkingRowsSettings

# Single precision is enough for coefficients if the tolerance is far above its rounding.
_SINGLE_TOL = 1e-5


@dataclass(eq=False)
class Task:
    """A problem to be solved; `state` is its solution, or where another solver has to begin.

    Attributes
    ----------
    make : callable
        Returns the problem, which takes memory for all rows.
    positives : ndarray
        The positive rows.
    is_compact : bool
        Whether the smallest coefficients may be left out, as far as the tolerance allows.
    is_done : bool
        Whether `state` is the solution.
    """

    make: Callable[[], Problem]
    positives: np.ndarray
    monitor: Monitor
    seed: int
    is_compact: bool
    state: State | None = None
    is_done: bool = False


class Sample:
    """Some of the rows that count, shared by all problems.

    Attributes
    ----------
    index : ndarray
        Rows of the first working sets.
    probes : CsrRows
        Other rows, whose scores tell how many rows have scores above a threshold. Scores of rows
        that were trained on would not.
    fraction : float
        The number of probes, as a fraction of all rows.
    """

    def __init__(self, rows: CsrRows, cost: np.ndarray, settings: WorkingRowsSettings, seed: int):
        counted = np.flatnonzero(cost > 0.0)
        size = min(counted.size // 2, settings.sample)
        chosen = np.random.default_rng(seed).choice(counted, 2 * size, replace=False)
        self.index = np.sort(chosen[:size])
        self.fraction = size / counted.size
        self.probes = rows.take(np.sort(chosen[size:]))


class WorkingRows:
    """Solves problems over the same CSR rows, some of them at a time.

    Parameters
    ----------
    rows : CsrRows
    sample : Sample
    solver : str
        The solver of the problems over working sets.
    settings : WorkingRowsSettings
    """

    def __init__(self, rows: CsrRows, sample: Sample, solver: str, settings: WorkingRowsSettings):
        self.rows, self.sample, self.solver, self.settings = rows, sample, solver, settings
        self.place = np.full(rows.n_features, -1, dtype=np.int32)
        self.longest = float(rows.lengths.max(initial=0.0))
        per_label = 12 * self.room + 8 * rows.n_features
        self.at_once = max(1, min(settings.at_once, settings.bytes_at_once // per_label))

    @property
    def room(self) -> int:
        """How many rows of a problem can be listed."""
        return int(min(self.rows.n_rows, max(self.settings.room, self.rows.n_rows // 8)))

    def solve(self, tasks: Iterable[Task]) -> None:
        """Solve all problems; those that need all rows are left to another solver."""
        waiting: deque[Task] = deque(tasks)
        active: list[_Run] = []
        while waiting or active:
            while waiting and len(active) < self.at_once:
                task = waiting.popleft()
                if not task.monitor.must_stop():  # else not even begun
                    active.append(_Run(self, task))
            trained = [run for run in active if run.train()]
            if trained:
                self._pass(trained)
            active = [run for run in trained if run.goes_on()]

    def take(self, index: np.ndarray) -> tuple[CsrRows, np.ndarray]:
        """Return some rows without the columns that they do not use, and the columns in use."""
        values, _, indptr = self.rows.arrays
        count = int((indptr[index + 1] - indptr[index]).sum())
        starts = np.empty(index.size + 1, dtype=np.int32)
        columns, used = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32)
        taken = np.empty(count, dtype=values.dtype)
        n_used = take_rows(self.rows.arrays, index, self.place, taken, columns, starts, used)
        matrix = csr_in_place(taken, columns, starts, max(1, n_used))
        return CsrRows(matrix), used[:n_used]

    def _pass(self, runs: list["_Run"]) -> None:
        """List the rows with the largest scores of each problem."""
        single = all(run.coef.dtype == np.float32 for run in runs)
        W = np.zeros((self.rows.n_features, len(runs)), np.float32 if single else np.float64)
        for j, run in enumerate(runs):
            W[run.used, j] = run.coef
        low = np.full(len(runs), -np.inf)
        scores = self._above(self.sample.probes, W, low, self.sample.probes.n_rows)[2]
        thresholds = np.array([run.threshold(s) for run, s in zip(runs, scores)])
        counts, index, found = self._above(self.rows, W, thresholds, self.room)
        for j, run in enumerate(runs):
            n_listed = min(int(counts[j]), self.room)
            run.listed = index[j, :n_listed].astype(np.intp), found[j, :n_listed]
            run.at, run.overflows = float(thresholds[j]), counts[j] > self.room

    @staticmethod
    def _above(
        rows: CsrRows, W: np.ndarray, thresholds: np.ndarray, room: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        counts = np.zeros(thresholds.size, dtype=np.int64)
        index = np.empty((thresholds.size, room), dtype=np.uint32)
        found = np.empty((thresholds.size, room))
        step = max(1, rows.rows_per_call // thresholds.size)
        for begin in range(0, rows.n_rows, step):
            end = min(begin + step, rows.n_rows)
            scores_above(rows.arrays, W, begin, end, thresholds, counts, index, found)
        return counts, index, found


class _Run:
    """One problem: its working set, and the best points so far."""

    def __init__(self, solver: WorkingRows, task: Task):
        self.solver, self.task, self.settings = solver, task, solver.settings
        self.problem = task.make()
        self.risk: MarginRisk = self.problem.risk
        self.index = np.union1d(task.positives, solver.sample.index)
        self.alpha = np.zeros(self.index.size)
        self.rounds, self.offset = 0, 0.0
        self.tol = self.settings.first_tol
        self.left_out = 1.0  # how much of what the tolerance allows
        self.dual, self.primal = Bound(-math.inf, 0.0), Bound(math.inf, 0.0)
        self.coef, self.used = np.zeros(0, np.float32), np.zeros(0, np.int32)
        self.listed = np.empty(0, np.intp), np.empty(0)
        self.at, self.overflows = math.inf, False
        self.wanted = self.settings.listed
        self.rows, _ = solver.take(self.index[:0])
        self.best_dual = SparseDual(np.empty(0, np.uint32), np.empty(0), solver.rows.n_rows)

    def train(self) -> bool:
        """Solve the problem over the working set; return False if another solver has to."""
        solver, problem, monitor = self.solver, self.problem, self.task.monitor
        if self.index.size > self.settings.largest * solver.rows.n_rows:
            return False
        self.rounds += 1
        self.rows, self.used = solver.take(self.index)
        risk = self.risk.over(self.risk.y[self.index], self.risk.cost[self.index])
        part = Problem(self.rows, risk, problem.intercept)
        start = State.zero(part)
        if self.alpha.any():
            start = State(self.rows.combine(risk.signed(self.alpha)), self.offset, self.alpha)
        left = None if monitor.deadline is None else max(0.0, monitor.deadline - clock())
        inner = Monitor(self.tol, monitor.max_iter, left, monitor.interruption)
        state = auto.make(solver.solver, risk, self.task.seed).solve(part, start, inner)
        monitor.iteration += 1 + inner.iteration * self.index.size / solver.rows.n_rows
        certificate = inner.certificate
        assert certificate is not None
        self.alpha, self.offset = state.dual, float(state.offset)
        if certificate.dual > self.dual.value:
            self.dual = Bound(certificate.dual, certificate.rounding)
            support = np.flatnonzero(state.dual)
            self.best_dual = SparseDual(
                self.index[support].astype(np.uint32), state.dual[support], solver.rows.n_rows
            )
        slack = monitor.tol * certificate.primal - certificate.gap
        self.coef = self._left(state.coef, self.left_out * slack)
        return True

    def _left(self, coef: np.ndarray, slack: float) -> np.ndarray:
        """Return the coefficients that are kept."""
        if not self.task.is_compact:
            return coef[: self.used.size]
        kept = without_smallest(coef[: self.used.size], self.settings.squares * slack)
        return kept.astype(np.float32) if self.task.monitor.tol >= _SINGLE_TOL else kept

    def threshold(self, probes: np.ndarray) -> float:
        """Return a threshold for the scores to list, by those of the probes."""
        place = max(0, probes.size - 1 - math.ceil(self.wanted * self.solver.sample.fraction))
        return float(np.partition(probes, place)[place])

    def goes_on(self) -> bool:
        """Certify the problem; return whether it goes on with a larger working set."""
        monitor = self.task.monitor
        own = self.rows.scores(self.coef.astype(np.float64))
        is_new = ~np.isin(self.listed[0], self.index, assume_unique=True)
        listed, scores = self.listed[0][is_new], self.listed[1][is_new]
        if self.overflows:
            return False
        found = np.concatenate([self.index, listed]), np.concatenate([own, scores])
        primal, offset = self._best_bound(*found)
        if self.task.state is None or primal.value < self.primal.value:
            self.primal = primal
            n_features = self.solver.rows.n_features
            coef = SparseCoef.of(self.coef, self.used, n_features)
            self.task.state = State(coef, offset, self.best_dual)
        self.task.state.dual = self.best_dual
        certificate = certificate_of(self.primal, self.dual)
        if certificate.rounding > self.settings.blurred * monitor.tol * certificate.primal:
            return False
        if monitor.check(certificate, self.task.state, self.index.size):
            self.task.is_done = True
            return False
        self._extend(listed, scores, offset)
        return self.rounds < self.settings.rounds

    def _best_bound(self, index: np.ndarray, scores: np.ndarray) -> tuple[Bound, float]:
        """Return an upper bound on the objective, and its intercept.

        `index` and `scores` are those of all rows that may have a loss with that intercept.
        """
        intercept = self.problem.intercept
        risk = self.risk.over(self.risk.y[index], self.risk.cost[index])
        offsets = [self.offset]
        if intercept is Intercept.FREE or self.rounds == 1:
            offsets.append(float(risk.best_offset(scores)))
        bounds = []
        most = self._most_offset()
        if min(offsets) > most:  # more rows may have a loss than are listed
            self.wanted *= self.settings.more
        for offset in {min(offset, most) for offset in offsets}:
            errors = score_errors(self.solver.rows, self.coef, offset)
            found = bound_by_scores(risk, intercept, self.coef, offset, scores, errors[index])
            bounds.append((found.value, offset, found))
        _, offset, primal = min(bounds)
        return primal, offset

    def _most_offset(self) -> float:
        """Return an intercept with which rows that are not listed surely have no loss."""
        if not math.isfinite(self.at):
            return math.inf
        errors = score_errors(self.solver.rows, self.coef, abs(self.at) + 2.0)
        error = errors.per_length * self.solver.longest + errors.fixed
        return -1.0 - self.at - (1.01 * error + 1e-15 * (2.0 + abs(self.at)))

    def _extend(self, listed: np.ndarray, scores: np.ndarray, offset: float) -> None:
        """Take the rows with the largest scores into the working set; drop others without need."""
        lossy = int(np.count_nonzero(scores + offset > -1.0))
        if lossy == 0 and self.rounds > 1:
            self.tol *= self.settings.closer
            self.left_out *= self.settings.closer
        else:
            self.tol = min(self.tol, self.settings.of_tol * self.task.monitor.tol)
        count = min(listed.size, max(2 * lossy, self.settings.added))
        best = listed[np.argpartition(-scores, count - 1)[:count]] if count else listed
        support = np.flatnonzero(self.alpha)
        kept = self.index  # of the sample, only what is needed: other sets would come in turn
        if self.rounds == 1:
            kept = np.union1d(self.task.positives, self.index[support])
        index = np.union1d(kept, best)
        alpha = np.zeros(index.size)
        alpha[np.searchsorted(index, self.index[support])] = self.alpha[support]
        self.index, self.alpha = index, alpha
