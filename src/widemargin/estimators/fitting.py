"""Common parts of all fits: threads over problems, progress, callbacks, and reports of them."""

import math
import os
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack

from joblib import effective_n_jobs
from sklearn.exceptions import ConvergenceWarning

from widemargin import threads
from widemargin.certificate import Certificate
from widemargin.data import Rows
from widemargin.data.memory import MOST_FEATURES
from widemargin.data.rows import BlockRows
from widemargin.estimators.callbacks import LEVELS, GapLevels
from widemargin.estimators.checkpoint import Checkpoint
from widemargin.estimators.path_step import MadeWhenAsked
from widemargin.estimators.validation import check_bytes
from widemargin.monitor import FELL_SHORT, Interruption, Monitor, clock
from widemargin.problem import State
from widemargin.progress import ProgressLine
from widemargin.solvers import auto
from widemargin.solvers.registry import SOLVERS, THEN
from widemargin.words import at_most

# The most bytes that solvers need besides the rows: per row and per feature, and for each problem
# that they solve at the same time.
_PER_ROW, _PER_ROW_AND_PROBLEM = 200, 32
_PER_FEATURE, _PER_FEATURE_AND_PROBLEM = 128, 32
# The same for solvers that make whole passes over rows on disk: per row, and in all.
_PER_ROW_IN_PASSES, _IN_PASSES = 150, 40 << 20


def like(kind: type, estimator):
    """Return an unfitted estimator of a kind, with the parameters that both kinds have."""
    given = estimator.get_params(deep=False)
    shared = kind().get_params(deep=False).keys() & given.keys()
    return kind(**{name: given[name] for name in shared})


def load_if_fits(rows, estimator, n_problems: int = 1) -> Rows:
    """Return rows on disk as rows in memory, if they fit into the estimator's memory budget.

    Reading them once is far faster than in each pass. If the user names a solver, or wants
    checkpoints, which rows in memory do not have, the rows stay on disk.
    """
    checkpoint = getattr(estimator, "checkpoint", None)
    if not isinstance(rows, BlockRows) or estimator.solver != "auto" or checkpoint is not None:
        return rows
    per_row = _PER_ROW + _PER_ROW_AND_PROBLEM * n_problems
    per_feature = _PER_FEATURE + _PER_FEATURE_AND_PROBLEM * n_problems
    needed = rows.nbytes + per_row * rows.n_rows + per_feature * rows.n_features
    fits = needed <= budget_of(estimator) and rows.n_features <= MOST_FEATURES
    return rows.in_memory() if fits else rows


def choose_solver(model, problem, warm: bool = False) -> str:
    """Return the solver that a model names, or else the best one for such a problem.

    `warm` says that training starts from the solution of a similar problem.
    """
    rows, risk = problem.rows, problem.risk
    if model.solver != "auto":
        auto.check(model.solver, rows, risk)
        return model.solver
    in_passes = _PER_ROW_IN_PASSES * rows.n_rows + _IN_PASSES
    must_stream = model.checkpoint is not None or in_passes > budget_of(model)
    return auto.choose(rows, risk, warm, must_stream)


def budget_of(estimator) -> int:
    """Return how many bytes training may use for rows on disk."""
    budget = check_bytes("memory_budget", getattr(estimator, "memory_budget", None))
    return budget or auto.DEFAULT_BUDGET


def reads_from_now_on(rows) -> Callable[[], int]:
    """Return a function that returns how often all rows were read from disk since this call."""
    already = rows.times_read
    return lambda: rows.times_read - already


def share_threads(n_jobs: int, n_problems: int, rows: Rows, solver: str) -> tuple[int, int]:
    """Return how many problems to solve in parallel, and how many threads each of them gets.

    Problems over rows on disk are solved one by one, since the memory budget is for one. So are
    problems on a GPU: one problem, with one thread on the host, keeps a GPU busy.
    """
    declared, on_gpu = SOLVERS[solver], rows.device == "cuda"
    alone = "memory_budget" in declared.told or declared.shares_passes or on_gpu
    n_threads = 1 if alone else min(n_jobs, n_problems)
    splits = declared.splits_rows and not on_gpu
    return n_threads, n_jobs // n_threads if splits else 1


class Fit:
    """One call of `fit`: solves the problems, in parallel if there are threads.

    Parameters
    ----------
    estimator : estimator
        With tol, max_iter, max_time, n_jobs, verbose.
    problems : ProblemSet
    solver : str
        Its name.
    seeds : sequence of int
        One per problem.
    starts : list of State or None
    data : dict
        X, y and metadata, as callbacks receive them.
    """

    def __init__(self, estimator, problems, solver, seeds, starts, data):
        self.estimator, self.problems, self.starts = estimator, problems, starts
        self.solver, self.seeds, self.data = solver, seeds, data
        n_jobs = effective_n_jobs(estimator.n_jobs)
        self.n_threads, self.n_row_threads = share_threads(
            n_jobs, len(problems), problems.rows, solver
        )
        self.interruption = Interruption()
        self.states: list = [None] * len(problems)
        self.monitors: list = [None] * len(problems)
        self.unsolved = len(problems)
        self.checkpoints: list[Checkpoint] = []
        self.started, self.clock_started = time.perf_counter(), clock()
        self.times_read = reads_from_now_on(problems.rows)
        self.context = None
        self.line = None

    def run(self):
        estimator, count = self.estimator, len(self.problems)
        self.context = estimator._init_callback_context(
            max_subtasks=count, sequential_subtasks=False
        ).call_on_fit_task_begin(estimator=estimator, **self.data)
        with ExitStack() as stack:
            if estimator.verbose:
                self.line = stack.enter_context(ProgressLine(count, estimator.tol))
            stack.enter_context(self.interruption.watching())
            if SOLVERS[self.solver].shares_passes:
                self._solve_together()
            elif self.n_threads == 1:
                for index in range(count):
                    self._solve(index)
            else:
                with threads.pool(self.n_threads) as pool:
                    list(pool.map(self._solve, range(count)))
            if self.line is not None:
                total = Certificate.total(monitor.certificate for monitor in self.monitors)
                self.line.finish(f"{time.perf_counter() - self.started:.2f} s  {total}")
        if all(monitor.status == "converged" for monitor in self.monitors):
            for checkpoint in self.checkpoints:
                checkpoint.remove()
        self.context.call_on_fit_task_end(
            estimator=estimator, reconstruction_attributes=self._attributes, **self.data
        )

    def _solve(self, index):
        problem = self.problems[index]
        monitor, levels = self._begin(index, self._time_limit())
        start = self._start(index)
        checkpoint = self._checkpoint(index, problem)
        if checkpoint is not None:
            start = checkpoint.load() or start
            monitor.save = checkpoint.save
        seed = int(self.seeds[index])
        solver = auto.make(self.solver, problem.risk, seed, budget_of(self.estimator))
        with threads.lent(self.n_row_threads):
            self.states[index] = solver.solve(problem, start, monitor)
        if checkpoint is not None:
            checkpoint.save(self.states[index])
            self.checkpoints.append(checkpoint)
        self.unsolved -= 1
        if levels is not None:
            levels.end(self.states[index])
        self.states[index] = self._kept(self.states[index])

    def _solve_together(self):
        """Solve all problems at once, by a solver that shares passes among them."""
        count = len(self.problems)
        begun = [self._begin(index, self.estimator.max_time) for index in range(count)]
        solver = auto.make(self.solver, self.problems[0].risk, int(self.seeds[0]))
        with threads.lent(self.n_row_threads):
            self.states = solver.solve_together(
                MadeWhenAsked(self.problems.__getitem__, count),
                MadeWhenAsked(self._start, count),
                self.monitors,
                self._kept,
            )
        for state, (_, levels) in zip(self.states, begun, strict=True):
            if levels is not None:
                levels.end(state)

    def _kept(self, state):
        """Return a state in the form in which it waits for the others: classes may be many."""
        return state.packed() if len(self.problems) > 1 else state

    def _start(self, index):
        """Return the starting point of a problem."""
        start = self.starts[index]
        return State.zero(self.problems[index]) if start is None else start.unpacked()

    def _begin(self, index, max_time):
        """Return a problem's monitor, and the object that calls callbacks, or None."""
        levels = None
        if hasattr(self.estimator, "_skl_callbacks"):
            context = self.context.subcontext(
                task_name="problem", task_id=index, max_subtasks=LEVELS
            )
            levels = GapLevels(
                self.estimator, context, self.data, lambda state: self._attributes({index: state})
            )

        def on_check(record, state):
            if self.line is not None:
                self.line.show(record)
            return levels is not None and levels.on_check(record, state)

        self.monitors[index] = monitor = Monitor(
            tol=self.estimator.tol,
            max_iter=self.estimator.max_iter,
            max_time=max_time,
            interruption=self.interruption,
            on_check=on_check,
            problem=index,
            started=self.started,
            times_read=self.times_read,
        )
        return monitor, levels

    def _checkpoint(self, index, problem):
        """Return the checkpoint of a problem; None if there is none."""
        path = getattr(self.estimator, "checkpoint", None)
        if path is None:
            return None
        if len(self.problems) > 1:
            path = f"{os.fspath(path)}.{index}"
        return Checkpoint(path, problem)

    def _time_limit(self):
        """Return the seconds that one problem may take, so that all get the same time."""
        if self.estimator.max_time is None:
            return None
        left = self.clock_started + self.estimator.max_time - clock()
        return max(0.0, left) / math.ceil(self.unsolved / self.n_threads)

    def _attributes(self, running=None):
        """Return the attributes that a callback needs to predict with the present model."""

        def state(j):
            return (running or {}).get(j) or self.states[j] or State.zero(self.problems[j])

        return self.problems.attributes(MadeWhenAsked(state, len(self.problems)))

    def record(self):
        """Set the attributes that describe the training; warn if it fell short."""
        estimator = self.estimator
        account = Account(self.monitors)
        account.record(estimator, self.solver)
        account.warn(estimator, stacklevel=6)  # above this and two decorators


class Account:
    """A summary of a model's training, from the monitors of its problems."""

    def __init__(self, monitors):
        statuses = [monitor.status for monitor in monitors]
        self.certificate = Certificate.total(monitor.certificate for monitor in monitors)
        self.history = [record for monitor in monitors for record in monitor.history]
        self.n_iter = max(1, int(max(monitor.iteration for monitor in monitors)))  # rounded down
        self.status = next((s for s in statuses if s != "converged"), "converged")
        self.successors = sorted({m.handed_over_to for m in monitors if m.handed_over_to})

    def record(self, estimator, solver: str) -> None:
        """Set the attributes of a fitted estimator that describe its training."""
        estimator.certificate_ = self.certificate
        estimator.history_ = self.history
        estimator.n_iter_ = self.n_iter
        estimator.status_ = self.status
        estimator.solver_ = self.solver(solver)

    def solver(self, name: str) -> str:
        """Return the solver `name`, followed by the solvers that took over when it was stuck."""
        return THEN.join([name, *self.successors])

    def warn(self, estimator, stacklevel: int) -> None:
        """Warn if training stopped before it reached its tolerance."""
        if self.status not in FELL_SHORT:
            return
        worst = max(part.relative_gap for part in self.certificate.parts or [self.certificate])
        gap = f"with a relative duality gap of {at_most(worst)}, above tol={estimator.tol:g}"
        if self.status in ("max_iter", "max_time"):
            message = (
                f"training stopped at {self.status}={getattr(estimator, self.status)} {gap}. The "
                "model can be used, and up to that fraction of its objective could still be "
                f"saved: raise {self.status}, lower C or scale the features."
            )
        elif self.status == "rounding":
            message = (
                f"training stopped {gap}: float64 cannot prove more on this data. The model may "
                "be better than what is proved of it. Scale the features, or lower C."
            )
        else:
            message = (
                "training stopped: its lower bound is above its objective, so that neither can be "
                "trusted. Please report this, with the data if you can."
            )
        warnings.warn(message, ConvergenceWarning, stacklevel=stacklevel)
