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
from widemargin.problem import State
from widemargin.solvers.multiple import lifted
from widemargin.solvers.sharing import product

# An iteration makes progress if the gap falls by this fraction. Steps over a working set make
# enough if it falls by the second one. So many iterations in a row without progress end the run,
# or the use of working sets.
_PROGRESS, _PROGRESS_BY_PARTS = 1e-6, 1e-4
_PATIENCE, _PATIENCE_WITH_PARTS = 30, 2


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
    is_fresh : bool
        Whether X^T A was computed by the rows for this A.
    """

    alpha: np.ndarray
    total: float
    combined: np.ndarray
    primal: float
    dual: float
    smoothing_gap: float
    balancing: float
    is_fresh: bool = True


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
        Dual variables alpha, and X^T (alpha y) as computed by the rows.
    """

    def __init__(self, problem, start, coef, offset, monitor):
        self.problem, self.risk, self.monitor = problem, problem.risk, monitor
        self.state = State(coef, offset, start.dual)
        # Without dual variables, the bound is zero: no objective is negative.
        self.primal, self.dual = np.inf, -np.inf if np.any(start.dual) else 0.0
        self.is_exact = False
        self.scored: tuple | None = None
        self.combined: tuple | None = None
        self.least_gap, self.fruitless, self.slow = np.inf, 0, 0

    @property
    def gap(self):
        return self.primal - self.dual

    def estimate(self) -> Certificate:
        """Return the certificate that the values would make if they were exact."""
        return Certificate(self.primal, self.dual)

    def take(self, primal, coef, offset, is_exact):
        """Keep a primal point, if it is better."""
        if primal < self.primal:
            self.primal, self.is_exact = primal, is_exact
            self.state.coef, self.state.offset = coef, offset

    def take_dual(self, dual, alpha):
        """Keep dual variables, if they are better."""
        if dual > self.dual:
            self.dual, self.state.dual = dual, alpha

    def look_for_progress(self):
        """Count the iterations without progress, and those with little."""
        gap = self.gap
        self.fruitless = 0 if gap < (1.0 - _PROGRESS) * self.least_gap else self.fruitless + 1
        self.slow = 0 if gap < (1.0 - _PROGRESS_BY_PARTS) * self.least_gap else self.slow + 1
        self.least_gap = min(gap, self.least_gap)

    @property
    def is_stuck(self):
        """Whether too many iterations made no progress: scales are too different."""
        return self.fruitless >= _PATIENCE

    @property
    def is_slow(self):
        """Whether steps over some of the rows make too little progress."""
        return self.slow >= _PATIENCE_WITH_PARTS

    def certified(self):
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

    def _scores(self):
        rows, coef = self.problem.rows, self.state.coef
        if self.scored is not None and self.scored[0] is coef:
            return self.scored[1]
        if not coef.any():
            return np.zeros(rows.n_rows, like=rows.like)
        scores = product(rows.plain, "scores", coef, self.monitor)
        return scores

    def _proved(self):
        problem, alpha = self.problem, self.state.dual
        if self.combined is not None and self.combined[0] is alpha:
            bound = proved_by(problem, self.risk.signed(alpha), self.combined[1], self.monitor.tol)
            if bound.value > -np.inf:  # they are feasible as they are
                return bound
        A = feasible_near(problem, alpha)
        combined = product(problem.rows.plain, "combine", A, self.monitor)
        return proved_by(problem, A, combined, self.monitor.tol)
