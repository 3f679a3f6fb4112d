"""Train along a path of costs: one classifier, or all folds of a cross-validation.

The training at each C starts from the solution at the C before it. Folds are weights over the same
rows. Held-out rows have weight zero, so no fold copies X.
"""

import math
import warnings
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from widemargin import threads
from widemargin.arrays import Matrix, Vector, move_to, on_host
from widemargin.certificate import Certificate
from widemargin.data import Rows
from widemargin.data.devices import placed
from widemargin.data.rows import BlockRows, SingleRows
from widemargin.data.subset import Subset
from widemargin.estimators.batch import Limits, MadeWhenAsked, Plan
from widemargin.estimators.fitting import (
    Account,
    budget_of,
    choose_solver,
    load_if_fits,
    named_solver,
)
from widemargin.estimators.folds import Weights
from widemargin.estimators.path_step import Step
from widemargin.estimators.problems import ProblemSet, make_problems, with_constant
from widemargin.estimators.starts import Trail
from widemargin.estimators.validation import (
    check_costs,
    check_labels,
    check_matrix,
    check_same_length,
    check_weights,
    classes_of,
)
from widemargin.monitor import FELL_SHORT, Interruption, Monitor
from widemargin.problem import State
from widemargin.progress import ProgressBar
from widemargin.solvers import auto
from widemargin.words import at_most

# Parameters of LinearSVC that svm_path does not accept.
_NOT_OF_A_PATH = ("C", "probability", "warm_start", "checkpoint")


@dataclass(frozen=True)
class SVMPath:
    """Classifiers for several values of C: the result of `widemargin.svm_path`.

    Attributes
    ----------
    Cs : ndarray of shape (n_Cs,)
    coefs : ndarray of shape (n_Cs, 1, n_features) or (n_Cs, n_classes, n_features)
    intercepts : ndarray of shape (n_Cs, 1) or (n_Cs, n_classes)
    certificates : list of Certificate
    n_iter : ndarray of shape (n_Cs,)
        Number of passes over the rows or of iterations, the maximum over classes.
    solvers : list of str
        The solver used for each C.
    statuses : list of str
        Why each training stopped: "converged", "max_iter", "max_time",
        "rounding" or "interrupted".
    classes : ndarray of shape (n_classes,)
    """

    Cs: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    certificates: list[Certificate]
    n_iter: np.ndarray
    solvers: list[str]
    statuses: list[str]
    classes: np.ndarray

    @classmethod
    def of(cls, Cs: np.ndarray, found: dict[int, tuple], classes: np.ndarray) -> "SVMPath":
        """Return the path at the places in `Cs` that have (attributes, account, solver)."""
        reached = sorted(found)
        attributes, accounts, solvers = zip(*(found[place] for place in reached), strict=True)
        return cls(
            Cs=Cs[reached],
            coefs=np.stack([each["coef_"] for each in attributes]),
            intercepts=np.stack([each["intercept_"] for each in attributes]),
            certificates=[account.certificate for account in accounts],
            n_iter=np.array([account.n_iter for account in accounts]),
            solvers=[account.solver(name) for account, name in zip(accounts, solvers)],
            statuses=[account.status for account in accounts],
            classes=classes,
        )


@threads.one_for_blas()
def svm_path(
    X: Matrix,
    y: Vector,
    *,
    Cs: Vector = 20,
    sample_weight: Vector | None = None,
    **parameters: Any,
) -> SVMPath:
    """Train a linear support vector classifier for each of several values of C.

    Training goes from the smallest C to the largest. Each one is warm-started from the one before.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Or rows on disk from `widemargin.open_rows`.
    y : array-like of shape (n_samples,)
        Class labels.
    Cs : int or array-like of shape (n_Cs,), default=20
        Values of C in any order, or the number of values from 1e-3 to 1e3, evenly spaced on a
        logarithmic scale.
    sample_weight : array-like of shape (n_samples,), default=None
    **parameters
        Parameters of `LinearSVC`: loss, tol and so on. `max_time` is for the whole path.

    Returns
    -------
    SVMPath
        The classifiers in the order of Cs; after Ctrl-C, only those that were trained.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import svm_path
    >>> path = svm_path(*load_iris(return_X_y=True), Cs=[0.1, 1, 10], random_state=0)
    >>> path.coefs.shape
    (3, 3, 4)
    >>> max(certificate.relative_gap for certificate in path.certificates) <= 1e-3
    True
    """
    from widemargin.estimators.linear_svc import LinearSVC

    for name in _NOT_OF_A_PATH:
        if name in parameters:
            raise TypeError(f"svm_path takes no {name}: it trains one model for each of Cs")
    model = LinearSVC(**parameters)
    model._check_parameters()
    Cs = check_costs("Cs", Cs)
    X = check_matrix(model, X, reset=True)
    y = check_labels(y)
    check_same_length(X, y)
    classes, codes = classes_of(y)
    weights = check_weights(sample_weight, X)
    rows = with_constant(load_if_fits(placed(X, model.device), model, len(classes)), model)
    order = np.argsort(Cs, kind="stable")
    path = CostPath(model, rows, classes, codes, [weights], n_costs=Cs.size, ahead=Cs[order])
    found = _follow(path, Cs, order)
    path.warn(stacklevel=4)  # past a decorator
    return SVMPath.of(Cs, found, classes)


def _follow(path: "CostPath", Cs: np.ndarray, order: np.ndarray) -> dict[int, tuple]:
    """Return (attributes, account, solver) for the places of `order`, until Ctrl-C."""
    found = {}
    with ExitStack() as stack:
        stack.enter_context(path)
        bar = None
        if path.model.verbose:
            bar = stack.enter_context(ProgressBar(Cs.size, "values of C"))
        stack.enter_context(path.interruption.watching())
        for place in order:
            path.advance(Cs[place])
            found[place] = path.attributes(0), Account(path.monitors[0]), path.solver
            if bar is not None:
                bar.advance(1, f"C = {Cs[place]:.3g}: {path.certificate(0)}")
            if path.interruption.requested:
                break
    return found


@dataclass(eq=False)
class CostPath:
    """Classifiers over the same rows, trained together at one cost after the other.

    `model` has all parameters but C, and its `max_time` is divided among `n_costs` costs.
    `classes` (k,) and `codes` (n,) are as in `ProblemSet`, and `weights` has one item per
    classifier.

    `ahead` are the first costs, in order. If problems are solved in parallel, a problem that is
    solved at one cost starts at the next one, while others are still solved. The path must then be
    used as a context manager, which stops such problems at its end.

    `single` stores coefficients in single precision from one cost to the next. This takes half the
    memory, and is accurate enough for scores.
    """

    model: BaseEstimator
    rows: Rows
    classes: np.ndarray
    codes: np.ndarray
    weights: Weights
    n_costs: int
    ahead: Iterable[float] = ()
    single: bool = False

    def __post_init__(self) -> None:
        self.codes = np.asarray(self.codes, like=self.rows.like)
        self.costs_left, self.left_ahead = self.n_costs, deque(self.ahead)
        self.n_jobs = effective_n_jobs(self.model.n_jobs)
        self.random = check_random_state(self.model.random_state)
        self.limits = Limits.of(self.model, self.rows)
        self.sets: list[ProblemSet] = []
        self.states: list[list[State]] = []
        self.monitors: list[list[Monitor]] = []
        self.solver, self.C = "", math.nan
        self.n_solved = 0
        self.cut_short: list[tuple[float, str]] = []  # gaps and limits of stopped trainings
        self.trails: dict[int, Trail] = {}
        # At all costs but the first, there is a solution at a similar cost. The first cost uses
        # the same solver, because another one would have to be compiled for it alone.
        self.warm = self.n_costs > 1
        self.begun: Step | None = None  # the step at the next cost
        self.pool: ThreadPoolExecutor | None = None

    @property
    def interruption(self) -> Interruption:
        return self.limits.interruption

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._abandon()
        if self.pool is not None:
            self.pool.shutdown()

    def advance(self, C: float) -> None:
        """Solve all problems at C, warm-started from their present states."""
        if self.begun is None or self.begun.C != C:
            self._abandon()
            self.begun = self._step(C, self.costs_left)
        step, self.begun = self.begun, None
        if self.left_ahead and self.left_ahead[0] == C:
            self.left_ahead.popleft()
        # From here on, only the step refers to the states at the last cost. It frees each of them
        # after its use.
        step.follow(enumerate(chain.from_iterable(self.states)), self.C)
        self.states, self.sets = [], []
        if self.pool is None and step.plan.n_at_once > 1:
            self.pool = threads.pool(self.n_jobs)
        try:
            step.run(self.pool, partial(self._go_ahead, step))
        except BaseException:
            step.abandon()
            raise
        self.costs_left -= 1
        self.C, self.sets, self.solver = C, step.sets, step.plan.solver
        self.states, self.monitors = step.by_set(step.states), step.by_set(step.monitors)
        self.n_solved += step.n_problems
        self.cut_short += [
            (monitor.certificate.relative_gap, monitor.status)
            for monitor in step.monitors
            if monitor.status in FELL_SHORT
        ]

    def go_over_to(self, C: float, states: list[list[State]], weights: Weights) -> None:
        """Continue with other classifiers, with these weights, from these states at C.

        The next call of `advance` may take all the time that is left. It stores coefficients in
        full precision.
        """
        self._abandon()
        self.trails.clear()
        self.single, self.warm = False, True
        self.C, self.states, self.weights, self.costs_left = C, states, weights, 1

    def _step(self, C: float, costs_left: int) -> Step:
        """Return the step at C; `costs_left` is the number of costs from C on."""
        model = clone(self.model).set_params(C=float(C))
        known = self.rows, self.classes, self.codes
        sets = [make_problems(model, *known, weights) for weights in self.weights]
        first, n_problems = sets[0][0], sum(map(len, sets))
        solver = choose_solver(self.model, first, self.warm)
        plan = Plan.of(self.n_jobs, n_problems, first, solver)
        seconds = self.limits.seconds_left
        if seconds is not None:
            seconds /= max(1, costs_left)
        seeds = self.random.randint(np.iinfo(np.int32).max, size=n_problems)
        budget, may_change = budget_of(self.model), named_solver(self.model) == "auto"
        solvers = [auto.make(solver, first.risk, int(seed), budget, may_change) for seed in seeds]
        keep = np.float32 if self.single else np.float64
        return Step(C, sets, solvers, plan, self.limits, seconds, self.trails, keep)

    def _go_ahead(self, step: Step, index: int) -> Future | None:
        """Submit a solved problem at the next cost; return its future, or None."""
        if not self.left_ahead:
            return None
        if self.begun is None:
            self.begun = self._step(self.left_ahead[0], self.costs_left - 1)
        if self.pool is None or self.begun.plan.n_at_once == 1:
            return None
        return self.begun.go_ahead(self.pool, index, step)

    def _abandon(self) -> None:
        """Stop the problems at the next cost, if any have begun."""
        if self.begun is not None:
            self.begun.abandon()
            self.begun = None

    def attributes(self, which: int) -> dict[str, np.ndarray]:
        """Return coef_ and intercept_ of a classifier."""
        return self.sets[which].attributes(self.states[which])

    def mean_attributes(self) -> dict[str, np.ndarray]:
        """Return the means of coef_ and intercept_ over all classifiers."""

        def mean(j: int) -> State:
            states = [of_one[j] for of_one in self.states]
            coef = np.asarray(np.mean([on_host(s.coef) for s in states], axis=0, dtype=np.float64))
            return State(coef, np.mean([s.offset for s in states], axis=0), np.empty(0))

        return self.sets[0].attributes(MadeWhenAsked(mean, len(self.states[0])))

    def scores(self, which: int, index: np.ndarray) -> np.ndarray:
        """Return the scores of the rows `index` by a classifier, (m, 1) or (m, k)."""
        rows = pick(self.rows, index)
        if isinstance(rows, SingleRows):
            # The problems are scored one by one: an array of all coefficients would be large.
            scores = [rows.scores(state.coef) + state.offset for state in self.states[which]]
            return np.column_stack(scores)
        attributes = self.attributes(which)
        coef = move_to(attributes["coef_"].T, self.rows.coef_like)
        return on_host(rows.scores(coef)) + attributes["intercept_"]

    def certificate(self, which: int) -> Certificate:
        return Certificate.total(monitor.certificate for monitor in self.monitors[which])

    def warn(self, stacklevel: int) -> None:
        """Warn of trainings that a limit stopped before they reached their tolerance."""
        warn_of_limits(self.model, self.cut_short, self.n_solved, stacklevel + 1)


def warn_of_limits(
    model: BaseEstimator, cut_short: list[tuple[float, str]], n_solved: int, stacklevel: int
) -> None:
    """Warn of trainings that a limit stopped before they reached their tolerance.

    `cut_short` has the relative gap and the limit of each of them, of `n_solved` in all. `model`
    has tol and the limits as parameters.
    """
    if not cut_short:
        return
    gap, limit = max(cut_short)
    where, advice = f"{limit}={getattr(model, limit, None)}", f"raise {limit}, leave"
    if limit not in ("max_iter", "max_time"):
        where, advice = "what float64 can prove", "leave"
    warnings.warn(
        f"{len(cut_short)} of {n_solved} trainings stopped at a limit, the worst at "
        f"{where} with a relative duality gap of {at_most(gap)}, "
        f"above tol={model.tol:g}. They can be used, and up to that fraction of the "
        f"objective could still be saved: {advice} out large Cs or scale the "
        "features.",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


def pick(rows: Rows, index: np.ndarray) -> Rows:
    """Return the rows `index`, an array of integers."""
    if isinstance(rows, BlockRows):
        return Subset(rows, index)
    return rows.take(np.asarray(index, like=rows.like))
