"""The best points of a run of Newton's method, and their certificate: see newton.py.

Values between checks come from slacks that are updated step by step. They only decide when a
certificate is worth its cost. certificate.py computes the certificate, from products of the
coefficients and of the dual variables. If the last full pass has computed these products, they are
used.
"""

from typing import NamedTuple

import numpy as np

from widemargin.certificate import (
    Certificate,
    certificate_of,
    feasible_near,
    proved_by,
    upper_bound,
)
from widemargin.data.rows import Rows
from widemargin.monitor import Monitor
from widemargin.problem import Problem, State
from widemargin.risk import Bound, MarginRisk
from widemargin.solvers.multiple import lifted
from widemargin.solvers.newton_settings import NewtonSettings
from widemargin.solvers.sharing import product

#: a problem of two classes, over any rows
MarginProblem = Problem[Rows, MarginRisk]


class Point(NamedTuple):
    """A point, and its values.

    Attributes
    ----------
    alpha : ndarray of shape (n,)
        Its dual variables, none of them negative.
    total : float
        The sum of A = alpha y.
    combined : ndarray of shape (d,)
        X^T A.
    primal, dual, smoothing_gap : float
        Its values, and the part of the gap due to smoothing.
    balancing : float
        What balancing A costs, if losses are squared.
    known : tuple of ndarray (n,) and ndarray (d,), or None
        If X^T A was not computed by the rows for this A: the alpha for which it was, and its
        X^T A. Only some of the rows differ.
    """

    alpha: np.ndarray
    total: float
    combined: np.ndarray
    primal: float
    dual: float
    smoothing_gap: float
    balancing: float
    known: tuple[np.ndarray, np.ndarray] | None = None


class Best:
    """The best primal point and the best dual variables so far, and how the gap has fallen.

    Attributes
    ----------
    state : State
        Both of them.
    primal, dual : float
        Their values.
    is_exact : bool
        Whether the primal value comes from scores computed by the rows.
    scored : tuple of ndarray (d,) and ndarray (n,), or None
        Coefficients, and their scores as computed by the rows.
    combined : tuple of ndarray (n,) and ndarray (d,), or None
        Dual variables alpha, and X^T (alpha y) as computed by the rows. Those of `state` are the
        same, or differ in some of the rows.
    """

    def __init__(
        self, problem: MarginProblem, place: State, monitor: Monitor, settings: NewtonSettings
    ):
        self.problem, self.risk = problem, problem.risk
        self.monitor, self.settings = monitor, settings
        self.state = place
        # Without dual variables, the bound is zero: no objective is negative.
        self.primal, self.dual = np.inf, -np.inf if np.any(place.dual) else 0.0
        self.is_exact = False
        self.scored: tuple[np.ndarray, np.ndarray] | None = None
        self.combined: tuple[np.ndarray, np.ndarray] | None = None
        self.least_gap, self.fruitless, self.slow = np.inf, 0, 0

    @property
    def gap(self) -> float:
        return self.primal - self.dual

    def estimate(self) -> Certificate:
        """Return the certificate that the values would make if they were exact."""
        return Certificate(self.primal, self.dual)

    def take(self, primal: float, coef: np.ndarray, offset: float, is_exact: bool) -> None:
        """Keep a primal point, if it is better."""
        if primal < self.primal:
            self.primal, self.is_exact = primal, is_exact
            self.state.coef, self.state.offset = coef, offset

    def take_dual(self, dual: float, alpha: np.ndarray) -> None:
        """Keep dual variables, if they are better."""
        if dual > self.dual:
            self.dual, self.state.dual = dual, alpha

    def look_for_progress(self) -> None:
        """Count the iterations without progress, and those with little."""
        gap, settings = self.gap, self.settings
        enough = (1.0 - settings.progress) * self.least_gap
        self.fruitless = 0 if gap < enough else self.fruitless + 1
        enough = (1.0 - settings.progress_by_parts) * self.least_gap
        if not self.is_slow:
            self.slow = 0 if gap < enough else self.slow + 1
        self.least_gap = min(gap, self.least_gap)

    @property
    def is_stuck(self) -> bool:
        """Whether too many iterations made no progress: scales are too different."""
        return self.fruitless >= self.settings.patience

    @property
    def is_slow(self) -> bool:
        """Whether steps over some of the rows have made too little progress to be used again."""
        return self.slow >= self.settings.patience_with_parts

    def certified(self) -> Certificate:
        """Return the certificate of the best points."""
        problem, state, tol = self.problem, self.state, self.monitor.tol
        scores = self._scores()
        dual = self._proved()
        primal = upper_bound(problem, state.coef, state.offset, scores, tol)
        if primal.value - dual.value > tol * primal.value:
            here = state.coef, state.offset, primal
            state.coef, state.offset, primal = lifted(
                problem, state.coef, state.offset, scores, here, tol
            )
        return certificate_of(primal, dual)

    def _scores(self) -> np.ndarray:
        rows, coef = self.problem.rows, self.state.coef
        if self.scored is not None and self.scored[0] is coef:
            return self.scored[1]
        if not coef.any():
            return np.zeros(rows.n_rows, like=rows.like)
        return product(rows.plain, "scores", coef, self.monitor)

    def _proved(self) -> Bound:
        problem, alpha, tol = self.problem, self.state.dual, self.monitor.tol
        if self.combined is not None:
            known, combined = self.combined
            A, change = self.risk.signed(alpha), None
            if known is not alpha:
                change = A - self.risk.signed(known)
                combined = combined + product(problem.rows.plain, "combine", change, self.monitor)
            bound = proved_by(problem, A, combined, tol, change)
            if bound.value > -np.inf:  # they are feasible as they are
                return bound
        A = feasible_near(problem, alpha)
        combined = product(problem.rows.plain, "combine", A, self.monitor)
        return proved_by(problem, A, combined, tol)
