"""The best points of a run stay as they were certified, whatever the run does next."""

import numpy as np
import pytest

from widemargin.data import as_rows
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Hinge, LogisticRisk, SquaredHinge
from widemargin.solvers import auto
from widemargin.solvers.registry import Place, RiskKind, names

RISKS = {"hinge": Hinge, "squared_hinge": SquaredHinge, "logistic": LogisticRisk}
CASES = [
    (risk, solver)
    for risk in RISKS
    for solver in names(Place.MEMORY, RiskKind.LOGISTIC if risk == "logistic" else RiskKind.MARGIN)
]


@pytest.mark.parametrize("intercept", list(Intercept))
@pytest.mark.parametrize(("risk", "solver"), CASES)
def test_no_certified_point_changes(risk, solver, intercept):
    rng = np.random.default_rng(2)
    # Passes over rows far larger than the offset make primal values rise and fall.
    X = 1e3 * rng.standard_normal((31, 1))
    y = np.where(rng.random(31) < 0.3, 1, -1)
    problem = Problem(as_rows(X), RISKS[risk](y, np.full(31, 0.0744)), intercept)
    seen = []

    def keep(record, state):
        seen.append((state.coef, state.coef.copy(), state.dual, state.dual.copy()))
        return False

    monitor = Monitor(1e-12, max_iter=60, on_check=keep)
    auto.make(solver, problem.risk, seed=0).solve(problem, State.zero(problem), monitor)
    assert seen
    for coef, coef_then, dual, dual_then in seen:
        np.testing.assert_array_equal(coef, coef_then)
        np.testing.assert_array_equal(dual, dual_then)
