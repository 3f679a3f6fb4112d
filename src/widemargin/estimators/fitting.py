"""Common parts of all fits: progress, callbacks, checkpoints, and reports of the training."""

import os
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from widemargin.arrays import RandomState
from widemargin.certificate import Certificate
from widemargin.data import Rows
from widemargin.data.memory import MOST_FEATURES
from widemargin.data.rows import BlockRows
from widemargin.estimators.batch import Batch, Limits, MadeWhenAsked, Plan
from widemargin.estimators.callbacks import LEVELS, GapLevels
from widemargin.estimators.checkpoint import Checkpoint
from widemargin.estimators.validation import check_bytes
from widemargin.fitted import Probabilistic
from widemargin.monitor import DONE, FELL_SHORT, Monitor, Record
from widemargin.problem import Problem, State
from widemargin.progress import ProgressLine
from widemargin.solvers import auto
from widemargin.solvers.registry import SOLVERS, THEN, quoted
from widemargin.solvers.sharing import together
from widemargin.words import at_most

#: scikit-learn's solvers of logistic regression
SOLVERS_ELSEWHERE = ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga")
# The most bytes that solvers need besides the rows: per row and per feature, and for each problem
# that they solve at the same time.
_PER_ROW, _PER_ROW_AND_PROBLEM = 200, 32
_PER_FEATURE, _PER_FEATURE_AND_PROBLEM = 128, 32
# The same for solvers that make whole passes over rows on disk: per row, and in all.
_PER_ROW_IN_PASSES, _IN_PASSES = 150, 40 << 20


def named_solver(model: BaseEstimator) -> str:
    """Return the solver that a model names, or "auto"; scikit-learn's names say nothing here."""
    return "auto" if model.solver in SOLVERS_ELSEWHERE else model.solver


def like(kind: type, estimator: BaseEstimator) -> Any:
    """Return an unfitted estimator of a kind, with the parameters that both kinds have."""
    given = estimator.get_params(deep=False)
    shared = kind().get_params(deep=False).keys() & given.keys()
    return kind(**{name: given[name] for name in shared})


def load_if_fits(rows: Rows, estimator: BaseEstimator, n_problems: int = 1) -> Rows:
    """Return rows on disk as rows in memory, if they fit into the estimator's memory budget.

    Reading them once is far faster than in each pass. If the user names a solver, or wants
    checkpoints, which rows in memory do not have, the rows stay on disk.
    """
    checkpoint = getattr(estimator, "checkpoint", None)
    named = named_solver(estimator) != "auto"
    if not isinstance(rows, BlockRows) or named or checkpoint is not None:
        return rows
    per_row = _PER_ROW + _PER_ROW_AND_PROBLEM * n_problems
    per_feature = _PER_FEATURE + _PER_FEATURE_AND_PROBLEM * n_problems
    needed = rows.nbytes + per_row * rows.n_rows + per_feature * rows.n_features
    fits = needed <= budget_of(estimator) and rows.n_features <= MOST_FEATURES
    return rows.in_memory() if fits else rows


def choose_solver(model: BaseEstimator, problem: Problem, warm: bool = False) -> str:
    """Return the solver that a model names, or else the best one for such a problem.

    `warm` says that training starts from the solution of a similar problem.
    """
    rows, risk = problem.rows, problem.risk
    name = named_solver(model)
    if name != "auto":
        auto.check(name, rows, risk, problem.penalty.name)
        return name
    in_passes = _PER_ROW_IN_PASSES * rows.n_rows + _IN_PASSES
    must_stream = model.checkpoint is not None or in_passes > budget_of(model)
    penalty = problem.penalty.name
    return auto.choose(rows, risk, warm, must_stream, model.tol, penalty=penalty)


def check_checkpoint(model: BaseEstimator, solver: str) -> None:
    """Raise ValueError if a checkpoint is wanted and the solver keeps none."""
    if model.checkpoint is not None and not SOLVERS[solver].keeps_checkpoints:
        keepers = quoted(tuple(name for name in SOLVERS if SOLVERS[name].keeps_checkpoints))
        raise ValueError(
            f"checkpoint goes with {keepers}, for rows on disk; solver {solver!r} keeps none"
        )


def seeds_of(random_state: RandomState, count: int) -> list[int]:
    """Return the seeds of problems."""
    if isinstance(random_state, int):
        return _seeds_of(random_state, count)
    return _drawn(check_random_state(random_state), count)


@lru_cache
def _seeds_of(seed: int, count: int) -> list[int]:
    # Making a RandomState takes a tenth of the smallest fits.
    return _drawn(check_random_state(seed), count)


def _drawn(random: np.random.RandomState, count: int) -> list[int]:
    return random.randint(np.iinfo(np.int32).max, size=count).tolist()


def budget_of(estimator: BaseEstimator) -> int:
    """Return how many bytes training may use for rows on disk."""
    budget = check_bytes("memory_budget", getattr(estimator, "memory_budget", None))
    return budget or auto.DEFAULT_BUDGET


@dataclass(eq=False)
class Fit(Batch):
    """One call of `fit`: solves the problems, in parallel if there are threads."""

    estimator: BaseEstimator
    problems: Any  # a ProblemSet or an OrderingProblem
    solver: str
    seeds: Sequence[int]
    starts: list[State | None]
    data: dict[str, Any]  # X, y and metadata, as callbacks receive them

    def __post_init__(self) -> None:
        count = len(self.problems)
        self.limits = Limits.of(self.estimator, self.problems.rows)
        n_jobs = effective_n_jobs(self.estimator.n_jobs)
        plan = Plan.of(n_jobs, count, self.problems[0], self.solver)
        super().__init__(count, plan, self.limits.seconds_left)
        self.interruption = self.limits.interruption
        self.states: list = [None] * count
        self.monitors: list = [None] * count
        self.checkpoints: list[Checkpoint] = []
        self.context: Any = None
        self.line: ProgressLine | None = None

    def train(self) -> None:
        estimator, count = self.estimator, len(self.problems)
        self.context = estimator._init_callback_context(
            max_subtasks=count, sequential_subtasks=False
        ).call_on_fit_task_begin(estimator=estimator, **self.data)
        with ExitStack() as stack:
            if estimator.verbose:
                self.line = stack.enter_context(ProgressLine(count, estimator.tol))
            stack.enter_context(self.interruption.watching())
            self.run()
            if self.line is not None:
                total = Certificate.total(monitor.certificate for monitor in self.monitors)
                seconds = time.perf_counter() - self.limits.started
                self.line.finish(f"{seconds:.2f} s  {total}")
        if all(monitor.status in DONE for monitor in self.monitors):
            for checkpoint in self.checkpoints:
                checkpoint.remove()
        self.context.call_on_fit_task_end(
            estimator=estimator, reconstruction_attributes=self._attributes, **self.data
        )

    def meet(self, places: range, functions: list[Callable[[], None]]) -> None:
        together(self.problems.rows, functions)

    def solve(self, index: int, seconds: float | None) -> None:
        problem = self.problems[index]
        monitor, levels = self._begin(index, seconds)
        start = self.starts[index]
        start = State.zero(problem) if start is None else start.unpacked()
        checkpoint = self._checkpoint(index, problem)
        if checkpoint is not None:
            start = checkpoint.load() or start
            monitor.save = checkpoint.save
        seed = int(self.seeds[index])
        solver = auto.make(
            self.solver,
            problem.risk,
            seed,
            budget_of(self.estimator),
            may_change=named_solver(self.estimator) == "auto",
        )
        self.states[index] = solver.solve(problem, start, monitor)
        if checkpoint is not None:
            checkpoint.save(self.states[index])
            self.checkpoints.append(checkpoint)
        if levels is not None:
            levels.end(self.states[index])
        if len(self.problems) > 1:  # states wait for each other: classes may be many
            self.states[index] = self.states[index].packed()

    def _begin(self, index: int, seconds: float | None) -> tuple[Monitor, GapLevels | None]:
        """Return a problem's monitor, and the object that calls callbacks, or None."""
        levels = None
        if hasattr(self.estimator, "_skl_callbacks"):
            context = self.context.subcontext(
                task_name="problem", task_id=index, max_subtasks=LEVELS
            )
            levels = GapLevels(
                self.estimator, context, self.data, lambda state: self._attributes({index: state})
            )

        def on_check(record: Record, state: State) -> bool:
            if self.line is not None:
                self.line.show(record)
            return levels is not None and levels.on_check(record, state)

        self.monitors[index] = monitor = self.limits.monitor(index, seconds, on_check)
        return monitor, levels

    def _checkpoint(self, index: int, problem: Problem) -> Checkpoint | None:
        """Return the checkpoint of a problem; None if there is none."""
        path = getattr(self.estimator, "checkpoint", None)
        if path is None:
            return None
        if len(self.problems) > 1:
            path = f"{os.fspath(path)}.{index}"
        return Checkpoint(path, problem)

    def _attributes(self, running: dict[int, State] | None = None) -> dict[str, Any]:
        """Return the attributes that a callback needs to predict with the present model."""

        def state(j: int) -> State:
            return (running or {}).get(j) or self.states[j] or State.zero(self.problems[j])

        return self.problems.attributes(MadeWhenAsked(state, len(self.problems)))

    def record(self) -> None:
        """Set the attributes that describe the training; warn if it fell short."""
        estimator = self.estimator
        account = Account(self.monitors)
        account.record(estimator, self.solver)
        account.warn(estimator, stacklevel=6)  # above this and two decorators


def fit_one(model: BaseEstimator, problems: Any, start: State | None, data: dict) -> Fit:
    """Solve the one problem of `problems` by cutting planes; set what the model predicts with.

    `data` is as in `Fit`. "auto" is "ocas".
    """
    solver = "ocas" if model.solver == "auto" else model.solver
    auto.check(solver, problems.rows, problems.risk)
    fit = Fit(model, problems, solver, [0], [start], data)
    fit.train()
    for name, value in problems.attributes(fit.states).items():
        setattr(model, name, value)
    model.n_samples_fit_ = problems.rows.n_rows
    return fit


class Account:
    """A summary of a model's training, from the monitors of its problems."""

    def __init__(self, monitors: Sequence[Monitor]) -> None:
        statuses = [monitor.status for monitor in monitors]
        self.certificate = Certificate.total(monitor.certificate for monitor in monitors)
        self.history = [record for monitor in monitors for record in monitor.history]
        self.n_iter = max(1, int(max(monitor.iteration for monitor in monitors)))  # rounded down
        self.status = next((s for s in statuses if s not in DONE), statuses[0])
        self.successors = sorted({m.handed_over_to for m in monitors if m.handed_over_to})

    def record(self, estimator: BaseEstimator, solver: str) -> None:
        """Set the attributes of a fitted estimator that describe its training."""
        estimator.certificate_ = self.certificate
        estimator.history_ = self.history
        # scikit-learn's logistic regression has an array.
        logistic = isinstance(estimator, Probabilistic)
        estimator.n_iter_ = np.array([self.n_iter]) if logistic else self.n_iter
        estimator.status_ = self.status
        estimator.solver_ = self.solver(solver)

    def solver(self, name: str) -> str:
        """Return the solver `name`, followed by the solvers that took over when it was stuck."""
        return THEN.join([name, *self.successors])

    def warn(self, estimator: BaseEstimator, stacklevel: int) -> None:
        """Warn if training stopped before it reached its tolerance."""
        if self.status not in FELL_SHORT:
            return
        worst = max(part.relative_gap for part in self.certificate.parts or [self.certificate])
        published = SOLVERS[estimator.solver_.split(THEN)[0]].published
        short = "before its paper's rule held for" if published else "above"
        gap = f"with a relative duality gap of {at_most(worst)}, {short} tol={estimator.tol:g}"
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
