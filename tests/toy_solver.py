"""A solver in one file: exact coordinate steps, one row after the other."""

import numpy as np

from widemargin.certificate import certificate_of, lower_bound, upper_bound
from widemargin.problem import State
from widemargin.solvers.base import Solver
from widemargin.solvers.registry import Declaration, Place, RiskKind

TOY = Declaration(
    name="toy",
    summary="exact coordinate steps in plain Python",
    classes={RiskKind.MARGIN: "toy_solver:Toy"},
    rows=(Place.MEMORY,),
    counts="pass",
)


class Toy(Solver):
    """Solver for the hinge loss over few rows in memory, without an intercept."""

    def solve(self, problem, state, monitor):
        rows, risk = problem.rows, problem.risk
        X = rows.combine(np.eye(rows.n_rows)).T  # dense, whatever the layout is
        norms, alpha = rows.squared_norms(), np.array(state.dual)
        while not monitor.must_stop():
            dual, w = lower_bound(problem, alpha)
            certificate = certificate_of(upper_bound(problem, w, 0.0), dual)
            state = State(w, 0.0, alpha.copy())
            monitor.check(certificate, state, len(X))
            w = np.array(w)
            for i, (x, y) in enumerate(zip(X, risk.y)):
                new = np.clip(alpha[i] + (1.0 - y * (x @ w)) / norms[i], 0.0, risk.cost[i])
                w += (new - alpha[i]) * y * x
                alpha[i] = new
            monitor.iteration += 1
        return state
