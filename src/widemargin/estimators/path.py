"""Training along a path of costs, for one classifier or for all folds of a cross-validation.

Each value of C starts where the one before it ended. Folds are weights over the same rows, zero
for those held out, so that none of them copies X.
"""

import math
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from widemargin import threads
from widemargin.arrays import beside, on_host
from widemargin.certificate import Certificate
from widemargin.data import Rows
from widemargin.data.devices import placed
from widemargin.data.rows import coef_home, home
from widemargin.data.subset import Subset
from widemargin.estimators.fitting import Account, share_threads
from widemargin.estimators.problems import make_problems
from widemargin.estimators.validation import (
    check_bytes,
    check_costs,
    check_labels,
    check_matrix,
    check_same_length,
    check_weights,
    classes_of,
)
from widemargin.monitor import Interruption, Monitor
from widemargin.problem import Intercept, State
from widemargin.progress import ProgressBar
from widemargin.solvers import auto

# Parameters of LinearSVC that a path has no use for.
_NOT_OF_A_PATH = ("C", "probability", "warm_start", "checkpoint")


@dataclass(frozen=True)
class SVMPath:
    """Classifiers for a sequence of costs, as `widemargin.svm_path` returns them.

    Attributes
    ----------
    Cs : ndarray of shape (n_Cs,)
    coefs : ndarray of shape (n_Cs, 1, n_features) or (n_Cs, n_classes, n_features)
    intercepts : ndarray of shape (n_Cs, 1) or (n_Cs, n_classes)
    certificates : list of Certificate
    n_iter : ndarray of shape (n_Cs,)
        Passes over the rows or iterations, the most that any class took.
    solvers : list of str
        The solver used for each.
    statuses : list of str
        Why each training stopped: "converged", "max_iter", "max_time" or "interrupted".
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


def svm_path(X, y, *, Cs=20, sample_weight=None, **parameters) -> SVMPath:
    """Train a linear support vector classifier for each of several costs.

    From the smallest cost to the largest, each training starts where the one before it ended.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Or rows on disk, as `widemargin.open_rows` returns them.
    y : array-like of shape (n_samples,)
        Class labels.
    Cs : int or array-like of shape (n_Cs,), default=20
        Costs in any order, or how many from 1e-3 to 1e3, evenly spaced by their logarithms.
    sample_weight : array-like of shape (n_samples,), default=None
    **parameters
        Of `LinearSVC`: loss, tol and so on. Seconds of `max_time` are for the whole path.

    Returns
    -------
    SVMPath
        In the order of Cs. After Ctrl-C, only of those that were reached.

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
    rows = placed(X, model.device)
    path = CostPath(model, rows, classes, codes, [weights], n_costs=Cs.size)
    found = {}
    with ExitStack() as stack:
        bar = None
        if model.verbose:
            bar = stack.enter_context(ProgressBar(Cs.size, "values of C"))
        stack.enter_context(path.interruption.watching())
        for place in np.argsort(Cs, kind="stable"):
            path.advance(Cs[place])
            found[place] = path.attributes(0), Account(path.monitors[0]), path.solver
            if bar is not None:
                bar.advance(1, f"C = {Cs[place]:.3g}: {path.certificate(0)}")
            if path.interruption.requested:
                break
    path.warn(stacklevel=3)
    reached = sorted(found)
    attributes, accounts, solvers = zip(*(found[place] for place in reached), strict=True)
    return SVMPath(
        Cs=Cs[reached],
        coefs=np.stack([each["coef_"] for each in attributes]),
        intercepts=np.stack([each["intercept_"] for each in attributes]),
        certificates=[account.certificate for account in accounts],
        n_iter=np.array([account.n_iter for account in accounts]),
        solvers=list(solvers),
        statuses=[account.status for account in accounts],
        classes=classes,
    )


class CostPath:
    """Classifiers over the same rows, taken together from one cost to the next.

    Parameters
    ----------
    model : LinearSVC
        Says all but C.
    rows : Rows of shape (n, d)
    classes : ndarray of shape (k,)
    codes : ndarray of shape (n,)
        Position of each row's label in `classes`.
    weights : list of ndarray of shape (n,), or None in their place
        One per classifier.
    n_costs : int
        How many costs there will be, so that each gets its share of `model.max_time`.
    """

    def __init__(self, model, rows: Rows, classes, codes, weights, n_costs: int):
        self.model = model
        codes = np.asarray(codes, like=home(rows))
        self.make_problems = partial(make_problems, rows=rows, classes=classes, codes=codes)
        self.rows, self.weights, self.costs_left = rows, weights, n_costs
        self.n_jobs = effective_n_jobs(model.n_jobs)
        self.random = check_random_state(model.random_state)
        self.interruption = Interruption()
        self.started = time.perf_counter()
        self.sets: list = []
        self.states: list[list[State]] = []
        self.monitors: list[list[Monitor]] = []
        self.solver = ""
        self.C = math.nan
        self.n_solved = 0
        self.cut_short: list[tuple[float, str]] = []  # gap and limit of those that met one

    def advance(self, C: float) -> None:
        """Solve all problems at C, from where they are now."""
        model = clone(self.model).set_params(C=float(C))
        sets = [self.make_problems(model, weights=weights) for weights in self.weights]
        problems = [[of_one[j] for j in range(len(of_one))] for of_one in sets]
        if self.states:
            starts = [
                [_carried(*pair, C / self.C) for pair in zip(of_one, before, strict=True)]
                for of_one, before in zip(problems, self.states, strict=True)
            ]
        else:
            starts = [[State.zero(problem) for problem in of_one] for of_one in problems]
        self.solver = self._choose(problems[0][0])
        self.sets, self.C = sets, C
        self._solve(problems, starts)
        self.costs_left -= 1

    def go_over_to(self, C: float, states: list[list[State]], weights) -> None:
        """Go on with other classifiers: of these weights, at these states, which belong to C.

        The next call of `advance` begins there. It gets all the time that is left.
        """
        self.C, self.states, self.weights, self.costs_left = C, states, weights, 1

    def _choose(self, problem):
        if self.model.solver == "auto":
            return auto.choose(self.rows, problem.risk)
        auto.check(self.model.solver, self.rows, problem.risk)
        return self.model.solver

    def _solve(self, problems, starts):
        flat = [problem for of_one in problems for problem in of_one]
        flat_starts = [start for of_one in starts for start in of_one]
        together = auto.shares_passes(self.solver)
        n_threads, lent = share_threads(self.n_jobs, len(flat), self.rows, self.solver)
        seconds = self._share_of_time()
        if seconds is not None and not together:
            seconds /= math.ceil(len(flat) / n_threads)
        monitors = [
            partial(
                Monitor,
                tol=self.model.tol,
                max_iter=self.model.max_iter,
                max_time=seconds,
                interruption=self.interruption,
                problem=index,
                started=self.started,
            )
            for index in range(len(flat))
        ]
        budget = check_bytes("memory_budget", self.model.memory_budget) or auto.DEFAULT_BUDGET
        seeds = self.random.randint(np.iinfo(np.int32).max, size=len(flat))
        solvers = [
            auto.make(self.solver, problem.risk, int(seed), budget)
            for problem, seed in zip(flat, seeds, strict=True)
        ]

        def solve(index):
            monitor = monitors[index]()
            with threads.lent(lent):
                state = solvers[index].solve(flat[index], flat_starts[index], monitor)
            return state, monitor

        if together:
            watched = [make() for make in monitors]
            with threads.lent(lent):
                states = solvers[0].solve_together(flat, flat_starts, watched)
            solved = list(zip(states, watched, strict=True))
        elif n_threads == 1:
            solved = [solve(index) for index in range(len(flat))]
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                solved = list(pool.map(solve, range(len(flat))))
        self.states, self.monitors = [], []
        for of_one in problems:
            some, solved = solved[: len(of_one)], solved[len(of_one) :]
            self.states.append([state for state, _ in some])
            self.monitors.append([monitor for _, monitor in some])
            for _, monitor in some:
                if monitor.status in ("max_iter", "max_time"):
                    self.cut_short.append((monitor.certificate.relative_gap, monitor.status))
        self.n_solved += len(flat)

    def _share_of_time(self):
        if self.model.max_time is None:
            return None
        left = self.started + self.model.max_time - time.perf_counter()
        return max(0.0, left) / max(1, self.costs_left)

    def attributes(self, which: int) -> dict[str, np.ndarray]:
        """Return coef_ and intercept_ of a classifier."""
        return self.sets[which].attributes(self.states[which])

    def scores(self, which: int, index) -> np.ndarray:
        """Return scores by a classifier of the rows that `index` names, (m, 1) or (m, k)."""
        attributes = self.attributes(which)
        coef = beside(attributes["coef_"].T, coef_home(self.rows))
        return on_host(pick(self.rows, index).scores(coef)) + attributes["intercept_"]

    def certificate(self, which: int) -> Certificate:
        return Certificate.total(monitor.certificate for monitor in self.monitors[which])

    def warn(self, stacklevel: int) -> None:
        """Warn of trainings that a limit ended before their tolerance."""
        warn_of_limits(self.model, self.cut_short, self.n_solved, stacklevel + 1)


def warn_of_limits(model, cut_short, n_solved: int, stacklevel: int) -> None:
    """Warn of trainings that a limit ended before their tolerance.

    Parameters
    ----------
    model : estimator
        With tol and the limits.
    cut_short : list of (float, str)
        Relative gaps of those that met one, and its name.
    n_solved : int
        How many trainings there were.
    """
    if not cut_short:
        return
    gap, limit = max(cut_short)
    warnings.warn(
        f"{len(cut_short)} of {n_solved} trainings stopped at a limit, the worst at "
        f"{limit}={getattr(model, limit)} with a relative duality gap of {gap:.2g}, "
        f"above tol={model.tol:g}. They can be used, and up to that fraction of the "
        f"objective could still be saved: raise {limit}, leave out large Cs or scale the "
        "features.",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


def pick(rows: Rows, index) -> Rows:
    """Return the rows that `index`, integers, names."""
    if hasattr(rows, "blocks"):
        return Subset(rows, index)
    return rows.take(np.asarray(index, like=home(rows)))


def _carried(problem, state, ratio):
    """Return a start for `problem`, whose costs are `ratio` times those that `state` is for.

    The dual variables may all grow by `ratio`. Where hardly a row is left inside the margin they
    hardly change, though: of the factors between, the one is best that maximises the dual.
    """
    factor = ratio
    if ratio > 1.0:
        risk, w = problem.risk, state.coef
        height, highest = (
            risk.dual(risk.feasible(risk.signed(f * state.dual))) for f in (1.0, ratio)
        )
        # The dual along the ray is  f slope - f^2 (curvature + |w|^2) / 2.
        curvature = 2.0 * (ratio * height - highest) / (ratio * ratio - ratio)
        slope = height + 0.5 * curvature
        bend = curvature + float(np.vdot(w, w))
        if problem.intercept is Intercept.PENALIZED:
            bend += float(np.vdot(state.offset, state.offset))
        if bend > 0.0:
            factor = min(max(slope / bend, 1.0), ratio)
    return State(state.coef, state.offset, factor * state.dual)
