import numba
import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.data import as_rows
from widemargin.kernels import descent as kernels
from widemargin.kernels import forecast as places
from widemargin.losses import LOSSES
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import MarginRisk
from widemargin.solvers.coordinate import CoordinateDescent, _Descent
from widemargin.solvers.forecast import Forecast
from widemargin.solvers.settings import CheckSettings


def forecast(tol=1e-3, pauses=(1.0, np.inf), **settings):
    sizes = {"n_counted": 100, "n_entries": 10_000, "mean_pull": 1.0}
    settings = {"entries_between_checks": 0.0} | settings
    return Forecast(CheckSettings(**settings), tol, 1000, **sizes, pauses=pauses)


#: as runs call it
look = numba.njit(kernels._look)


def never():
    raise AssertionError("the dual value is not needed")


def test_a_check_is_due_when_it_will_succeed_by_both_estimates():
    plan = forecast()
    plan.likely_primal = 10.0
    assert not plan.is_due(2.0, 0.02, never)  # more than 1e-3 times 10
    assert not plan.is_due(2.0, 0.005, lambda: 1.0)  # more than 1e-3 times 1.005
    plan.likely_primal = 10.0
    assert plan.is_due(2.0, 0.005, lambda: 6.0)
    assert plan.likely_primal == pytest.approx(6.005)


def test_a_check_is_due_after_so_many_passes_whatever_the_gap():
    plan = forecast(passes=20.0, fraction=0.3)
    plan.likely_primal = 10.0
    assert not plan.is_due(19.9, 1e9, never)
    assert plan.is_due(20.0, 1e9, never)
    plan.plan[places.CHECKED_AT] = 100.0
    assert not plan.is_due(142.0, 1e9, never)  # not yet three tenths of them
    assert plan.is_due(143.0, 1e9, never)


@pytest.mark.parametrize(("n_entries", "patience"), [(10, 100), (1 << 14, 64), (1 << 20, 20)])
def test_small_problems_are_checked_rarely(n_entries, patience):
    plan = Forecast(CheckSettings(), 1e-3, 1000, 100, n_entries, 1.0).plan
    assert plan[places.PATIENCE] == patience


def test_no_check_comes_soon_after_another():
    plan = forecast()
    plan.likely_primal = 10.0
    plan.learn(1.0, 1.0)
    assert not plan.is_due(0.9, 0.0, never)
    assert plan.is_due(1.0, 0.0, lambda: 1.0)


def test_it_learns_how_far_predictions_are_from_what_is_found():
    plan = forecast()
    for seen, found, optimism in ((1.0, 0.5, 0.5), (1.0, 0.25, 0.25), (1.0, 1e-9, 0.01)):
        plan.predict(seen)
        plan.learn(found, seen)
        assert plan.optimism == pytest.approx(optimism)
    plan.predict(1.0)
    plan.learn(1e9, 1.0)
    assert plan.optimism == 20.0


def test_looks_become_rarer():
    plan, looks = forecast(), []
    for now in (0.0, 10.0, 100.0):
        plan.plan[places.NOW] = plan.plan[places.CHECKED_AT] = now
        places.plan_look(plan.plan)
        looks.append(plan.plan[places.NEXT_LOOK] - now)
    # A tenth more passes, but so many that they take longer than the look: 6.5536 times 10,000.
    assert looks == pytest.approx([1.0, 1.0, 10.0])
    plan.plan[places.CHECKED_AT] = 0.0  # a check is possible at once
    places.plan_look(plan.plan)
    assert plan.plan[places.NEXT_LOOK] - 100.0 == pytest.approx(6.5536)
    plan.plan[places.MOST_PASSES] = 103.0
    places.plan_look(plan.plan)
    assert plan.plan[places.NEXT_LOOK] == 103.0


@pytest.mark.parametrize("loss", LOSSES.values(), ids=lambda loss: loss.name)
@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_a_look_knows_the_dual_value(loss, intercept, shift):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 20)) + shift  # far from zero, rows are centred
    y = np.where(X[:, 0] + rng.standard_normal(80) > shift, 1, -1)
    problem = Problem(as_rows(X), MarginRisk(y, np.full(80, 0.1), loss), intercept)
    descent = _Descent(problem, State.zero(problem), Monitor(1e-9, 3), CoordinateDescent("acf"))
    descent._first_check()
    assert not descent._advance()
    assert (descent.mean.size > 0) == (intercept is Intercept.FREE and shift > 0.0)
    plan = descent.forecast.plan
    plan[places.TOL], plan[places.CHECKED_AT], plan[places.PATIENCE] = 1.0, 0.0, np.inf
    plan[places.LIKELY_PRIMAL] = 1e9
    risk, rows = problem.risk, X - (X.mean(axis=0) if descent.mean.size else 0.0)
    w = rows.T @ (descent.alpha * y)
    look(
        descent.alpha, descent.w, descent.offset[1], descent.seen_gap, descent.norms,
        descent.mean, risk.y, risk.cost, loss.step_numbers, plan,
    )  # fmt: skip
    dual = risk.dual(descent.alpha * y) - 0.5 * w @ w
    if intercept is Intercept.PENALIZED:
        dual -= 0.5 * float(descent.alpha @ y) ** 2
    seen = float(descent.seen_gap.sum())
    assert plan[places.PREDICTED] == pytest.approx(descent.forecast.optimism * seen)
    assert plan[places.LIKELY_PRIMAL] - plan[places.PREDICTED] == pytest.approx(dual)


def test_joint_steps_are_foreseen_for_free_rows():
    rng = np.random.default_rng(0)
    X = sp.random(300, 400, 0.05, format="csr", random_state=rng)
    y = np.where(X @ rng.standard_normal(400) > 0, 1, -1)
    problem = Problem(as_rows(X), MarginRisk(y, np.full(300, 1.0), LOSSES["hinge"]))
    descent = _Descent(problem, State.zero(problem), Monitor(1e-9, 3), CoordinateDescent("acf"))
    descent._first_check()
    descent._advance()
    plan, free = descent.forecast.plan, descent._free_rows()
    assert free.size > 0
    plan[places.TOL] = plan[places.CHECKED_AT] = 0.5
    expected = descent.seen_gap.sum() - 0.9 * descent.seen_gap[free].sum()
    for most, gap in ((300.0, expected), (free.size - 1.0, descent.seen_gap.sum())):
        plan[places.LEFT], plan[places.MOST_FREE], plan[places.LIKELY_PRIMAL] = 0.1, most, 1e9
        look(
            descent.alpha, descent.w, descent.offset[1], descent.seen_gap, descent.norms,
            descent.mean, problem.risk.y, problem.risk.cost, problem.risk.loss.step_numbers, plan,
        )  # fmt: skip
        assert plan[places.PREDICTED] == pytest.approx(descent.forecast.optimism * gap)
