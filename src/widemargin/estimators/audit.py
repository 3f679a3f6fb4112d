"""How far models of any library are from the optimum of their problem, at most."""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from widemargin import threads
from widemargin.arrays import Matrix, Vector
from widemargin.certificate import Certificate, certificate_of, feasible_near, upper_bound
from widemargin.data import as_rows
from widemargin.estimators.foreign import Ours, as_ours
from widemargin.estimators.linear_svr import LinearSVR
from widemargin.estimators.problems import ProblemSet, make_problems, with_constant
from widemargin.estimators.targets import target_problems
from widemargin.estimators.validation import (
    check_labels,
    check_matrix,
    check_same_length,
    check_targets,
    check_weights,
)
from widemargin.labels import places_of
from widemargin.monitor import raise_out_of_range
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Bound, LogisticRisk, MarginRisk
from widemargin.rounding import squares


@dataclass(frozen=True)
class Audit:
    """What `audit` found out about a model.

    Attributes
    ----------
    certificate : Certificate
        The objective of the model's coefficients, and a lower bound on every objective.
    better : LinearSVC, LinearSVR or LogisticRegression
        A model of the same problem, trained from there until `tol`, with its own certificate.
    """

    certificate: Certificate
    better: Ours

    @property
    def excess(self) -> float:
        """How far the objective is above the optimum at most, as a fraction of the optimum."""
        if self.certificate.primal == 0.0:
            return 0.0
        dual = self.certificate.dual
        return self.certificate.gap / dual if dual > 0.0 else math.inf

    @property
    def least_excess(self) -> float:
        """How far the objective is above the optimum at least, as a fraction of the optimum."""
        # A rounding error may be more than two nearly equal objectives differ by.
        primal = self.certificate.primal - self.certificate.rounding
        best = self.better.certificate_.primal
        return max(0.0, primal / best - 1.0) if best > 0.0 else 0.0

    def __str__(self) -> str:
        found = f"objective {self.certificate.primal:.6g}, {self.certificate.bound_in_words()}"
        if self.better.certificate_.primal >= self.certificate.primal:
            return found
        return f"{found}; here is one {self.better.certificate_.bound_in_words()}"


@threads.one_for_blas()
def audit(
    model: Any,
    X: Matrix,
    y: Vector,
    sample_weight: Vector | None = None,
    *,
    tol: float = 1e-3,
    max_time: float | None = None,
    **parameters: Any,
) -> Audit:
    """Prove how far a model of any library is from the optimum of its training problem.

    Its objective is computed from its coefficients. The lower bound needs dual variables: the
    slopes of the losses at its scores, scaled to their best size, are where training starts,
    unless zero is better. It goes on until `tol`, or for `max_time` seconds.

    Parameters
    ----------
    model : fitted estimator, or tuple of (coef, intercept)
        scikit-learn's LinearSVC, LinearSVR, SVC and SVR with kernel="linear", SGDClassifier,
        LogisticRegression; what `read_liblinear` returns; or a model of ours. A plain model is
        (coef, intercept), with None for no intercept, and needs C and loss.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
    sample_weight : array-like of shape (n_samples,), default=None
        The data that `model` was trained on.
    tol : float, default=1e-3
        Relative gap of the better model. The bound on the excess is about as precise.
    max_time : float or None, default=None
        Seconds that our training may take.
    **parameters
        Parameters of `LinearSVC`, `LinearSVR` or `LogisticRegression`. They say what `model`
        minimises where it does not tell, or how to train: C, loss, penalized_intercept, solver,
        n_jobs.

    Returns
    -------
    Audit

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import SGDClassifier
    >>> from widemargin import audit
    >>> X, y = load_iris(return_X_y=True)
    >>> found = audit(SGDClassifier(random_state=0).fit(X, y), X, y)
    >>> found.excess > 1.0
    True
    >>> found.better.certificate_.relative_gap <= 1e-3
    True
    """
    ours = as_ours(model, y, **parameters)
    ours.set_params(tol=tol, max_time=max_time, warm_start=True)
    ours._check_parameters()
    X = check_matrix(ours, X, reset=False)
    y = check_targets(y) if isinstance(ours, LinearSVR) else check_labels(y)
    check_same_length(X, y)
    problems = _problems(ours, X, y, check_weights(sample_weight, X))
    shape = len(ours.intercept_), problems.rows.n_rows
    states = problems.states(ours.coef_, ours.intercept_, scipy.sparse.csr_array(shape))
    primals, starts = [], []
    with np.errstate(over="ignore", invalid="ignore"):
        for j, state in enumerate(states):
            primal, start = _looked_at(problems[j], state.unpacked())
            primals.append(primal)
            starts.append(start.packed())
    for name, value in problems.attributes(starts).items():
        setattr(ours, name, value)
    ours.dual_variables_ = problems.dual(starts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the audit says how far it came
        better = ours.fit(X, y, sample_weight)
    parts = better.certificate_.parts or (better.certificate_,)
    found = Certificate.total(
        certificate_of(primal, Bound(part.dual, part.rounding))
        for primal, part in zip(primals, parts, strict=True)
    )
    return Audit(found, better.set_params(warm_start=False))


def _problems(ours: Ours, X: Matrix, y: np.ndarray, weights: np.ndarray | None) -> ProblemSet:
    """Return the problems that the model was trained on."""
    rows = with_constant(as_rows(X), ours)
    if isinstance(ours, LinearSVR):
        problems: ProblemSet = target_problems(ours, rows, y, weights)
        if len(problems) != len(ours.intercept_):
            raise ValueError(
                f"the model has {len(ours.intercept_)} targets, and y has {len(problems)}"
            )
        return problems
    return make_problems(ours, rows, ours.classes_, places_of(y, ours.classes_), weights)


def _looked_at(problem: Problem, state: State) -> tuple[Bound, State]:
    """Return a bound on the objective of a state, and a start there with dual variables.

    A state that is worse than zero is no place to start from: training would take far longer.
    """
    scores = problem.rows.plain.scores(state.coef)
    primal = upper_bound(problem, state.coef, state.offset, scores)
    if not math.isfinite(primal.value):
        raise_out_of_range(primal.value, 0.0)
    if primal.value > problem.risk.at_zero:
        return primal, State.zero(problem)
    if isinstance(problem.risk, LogisticRisk):
        slope = problem.risk.cut(scores + state.offset).slope
        alpha = problem.risk.unsigned(feasible_near(problem, problem.risk.unsigned(-slope)))
        return primal, State(state.coef, state.offset, alpha)
    if not isinstance(problem.risk, MarginRisk):
        return primal, state
    slope = problem.risk.cut(scores + state.offset).slope
    A = feasible_near(problem, problem.risk.unsigned(-slope))
    # Along the ray of A the dual is  f slope - f^2 bend / 2.
    half, whole = problem.risk.dual(0.5 * A), problem.risk.dual(A)
    curvature = 4.0 * (2.0 * half - whole)
    bend = curvature + squares(problem.rows.plain.combine(A))
    if problem.intercept is Intercept.PENALIZED:
        bend += squares(float(A.sum()))
    best = (whole + 0.5 * curvature) / bend if bend > 0.0 else 1.0
    alpha = problem.risk.unsigned(min(max(best, 0.0), 1.0) * A)
    return primal, State(state.coef, state.offset, alpha)
