"""Dual variables that are improved for a proof, by those of a subsample."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exact import optimum
from tests.solvers.test_newton import (
    AS_IT_IS,
    SUBSAMPLING,
    assert_certified,
    solve,
    solve_together,
    tall,
)
from tests.strategies import problems
from widemargin.certificate import certify_state, lower_bound
from widemargin.data import as_rows
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import SquaredHinge
from widemargin.solvers import newton_proof, newton_run, newton_subsample
from widemargin.solvers.newton_direction import QuadraticTerms
from widemargin.solvers.newton_subsample import Subsample


def squared_problem(X, y, cost, intercept):
    return Problem(as_rows(X), SquaredHinge(y, cost), intercept)


def near(problem, scale, seed=0):
    """A point that is `scale` times |w| away from the optimum."""
    state, _ = solve(problem, 1e-10)
    away = np.random.default_rng(seed).standard_normal(state.coef.size)
    away *= scale * np.linalg.norm(state.coef) / np.linalg.norm(away)
    return State(state.coef + away, state.offset, np.zeros(problem.rows.n_rows))


def prove(problem, state, index, factor, needed, settings=AS_IT_IS):
    """Return a point as all rows have it, and as the subsample has improved it, or None.

    `index` and `factor` are as `Subsample` has them; `needed` is a function of the point.
    """
    monitor = Monitor(tol=1e-3, max_iter=100)
    run = newton_run.NewtonRun(problem, state, 0.5, monitor, settings, near=True)
    point = run._full_pass()
    before = point._replace(alpha=run.part.everywhere(point.alpha).copy())
    quadratic = QuadraticTerms(run.quadratic.stiffness, run.quadratic.center)
    of_part = run.take(index), index, factor * run.cost[index]
    steps = run.steps_over(*of_part, quadratic, run.place)
    better = Subsample(index, factor, steps).prove(run.place, point, needed(point))
    if better is not None:
        better = better._replace(alpha=run.part.everywhere(better.alpha))
    return before, better


def assert_true(problem, point):
    """What is said of dual variables is what they are."""
    alpha, y, cost = point.alpha, problem.risk.y, problem.risk.cost
    assert np.all(alpha >= 0.0)
    assert np.all(alpha[cost == 0.0] == 0.0)
    size = float(alpha.sum()) + 1e-300
    X = problem.rows.matrix
    combined = np.asarray(X.T.astype(np.float64) @ (alpha * y)).ravel()
    np.testing.assert_allclose(point.combined, combined, atol=1e-9 * size)
    assert point.total == pytest.approx(float(alpha @ y), abs=1e-12 * size)
    if problem.intercept is Intercept.FREE:
        assert abs(point.total) <= 1e-12 * size
    (again, rounding), _ = lower_bound(problem, alpha)
    assert point.dual == pytest.approx(again, rel=1e-9, abs=2.0 * rounding)


@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("C", [1.0, 1e2, 1e6])
def test_a_subsample_proves_what_slopes_do_not(intercept, sparse, dtype, C):
    n = 4000
    X, y = tall(n=n, d=6, sparse=sparse, dtype=dtype)
    cost = C * np.random.default_rng(1).random(n)
    cost[::5] = 0.0
    problem = squared_problem(X, y, cost, intercept)
    index = np.arange(0, n - n // 5, 4)
    before, after = prove(
        problem, near(problem, 1e-3), index, np.full(index.size, 4.0), lambda p: 0.999 * p.primal
    )
    assert_true(problem, before)
    assert_true(problem, after)
    assert after.primal == before.primal
    assert after.dual >= 0.999 * after.primal
    counted = np.flatnonzero(cost)
    others = np.setdiff1d(np.arange(n), counted[index])
    np.testing.assert_array_equal(after.alpha[others], before.alpha[others])
    if C > 1.0:
        assert before.dual < 0.99 * before.primal


@pytest.mark.parametrize("intercept", Intercept)
def test_subsamples_far_from_no_loss_leave_next_to_no_slope(intercept):
    """If nothing is cut off, the slope that is left is u, a thousandth of a millionth of g."""
    n, C = 2000, 1e6
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 5))
    y = np.where(rng.random(n) < 0.5, 1, -1)  # nothing to learn: all rows have a loss
    problem = squared_problem(X, y, np.full(n, C), intercept)
    state = near(problem, 1e-6)
    before, after = prove(
        problem, state, np.arange(n), np.ones(n), lambda p: (1.0 - 1e-9) * p.primal
    )
    assert np.all(after.alpha > 0.0)
    slopes = [np.linalg.norm(state.coef - point.combined) for point in (before, after)]
    assert slopes[1] < 1e-6 * slopes[0]


@pytest.mark.parametrize("intercept", Intercept)
def test_what_is_cut_off_takes_another_round(intercept):
    """So far away that many dual variables would be negative."""
    n = 3000
    X, y = tall(n=n, d=6)
    problem = squared_problem(X, y, np.full(n, 1e4), intercept)
    state, index, factor = near(problem, 0.02), np.arange(0, n, 3), np.full(n // 3, 3.0)

    def needed(point):
        return 0.99 * point.primal

    before, after = prove(problem, state, index, factor, needed)
    assert_true(problem, after)
    assert np.count_nonzero((after.alpha == 0.0) & (before.alpha > 0.0)) > 10
    one_round = replace(AS_IT_IS, subsample=replace(AS_IT_IS.subsample, proof_rounds=1))
    assert prove(problem, state, index, factor, needed, one_round)[1] is None


@settings(max_examples=200)
@given(problems(), st.integers(0, 2**31), st.floats(1e-6, 1.0))
def test_nothing_false_is_proved(problem, seed, scale):
    """Of any point, by any rows: what is proved is true, and below the optimum."""
    risk = problem.risk
    if not risk.loss.is_parabola or not risk.cost.any():
        return
    rng = np.random.default_rng(seed)
    n_counted = np.count_nonzero(risk.cost)
    index = np.flatnonzero(rng.random(n_counted) < 0.7)
    factor = rng.choice([1.0, 8.0], index.size)
    coef = scale * rng.standard_normal(problem.rows.n_features)
    state = State(coef, 0.0, np.zeros(problem.rows.n_rows))
    best = optimum(
        problem.rows.matrix, risk.y, risk.cost, loss=risk.loss, intercept=problem.intercept
    )
    share = rng.choice([0.5, 0.99, 1.0])
    _, after = prove(problem, state, index, factor, lambda p: max(p.dual, share * p.primal))
    if after is not None:
        assert after.dual <= best + 1e-6 * max(1.0, abs(best))
        (again, _), _ = lower_bound(problem, after.alpha)
        assert again == pytest.approx(after.dual, rel=1e-7, abs=1e-9 * after.primal)


def ugly_rows(kind, n):
    X, y = tall(n=n, d=8, dtype=np.float64)
    if kind == "no column":
        X[:, 3] = 0.0
    elif kind == "constant column":
        X[:, 3] = 5.0
    elif kind == "twice the same columns":
        X[:, 4:] = X[:, :4]
    elif kind == "twice the same rows":
        X[n // 2 :], y[n // 2 :] = X[: n // 2], y[: n // 2]
    elif kind == "columns far apart":
        X *= 10.0 ** np.arange(-3, 5)
    elif kind == "a column of few rows":
        X[:, 3] = np.where(np.arange(n) % 2000 == 0, 1.0, 0.0)
    return X, y


UGLY = [
    "no column",
    "constant column",
    "twice the same columns",
    "twice the same rows",
    "columns far apart",
    "a column of few rows",
]


@pytest.mark.parametrize("kind", UGLY)
@pytest.mark.parametrize("intercept", Intercept)
def test_ugly_rows_are_solved_and_certified(kind, intercept):
    n = 20_000
    X, y = ugly_rows(kind, n)
    problem = squared_problem(X, y, np.full(n, 100.0), intercept)
    state, monitor = solve(problem, 1e-3, settings=SUBSAMPLING)
    assert monitor.status == "converged"
    assert_certified(problem, state, monitor)
    assert certify_state(problem, state).relative_gap <= 1e-3


@pytest.mark.parametrize("intercept", [Intercept.NONE, Intercept.PENALIZED])
def test_subsamples_without_a_loss_prove_nothing(intercept):
    n = 1000
    X, y = tall(n=n, d=6)
    problem = squared_problem(X, y, np.full(n, 1e4), intercept)
    state = near(problem, 1e-2)
    z = 1.0 - y * (X @ state.coef + state.offset)
    index = np.flatnonzero(z < 0.0)
    _, after = prove(problem, state, index, np.ones(index.size), lambda p: 0.999 * p.primal)
    assert after is None


@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("C", [1.0, 100.0, 1e4])
def test_two_looks_at_all_rows_are_enough(intercept, sparse, C):
    """Whatever C is: after a sample, one look, and a proof at the second one."""
    n = 60_000
    X, y = tall(n=n, d=6, sparse=sparse)
    problem = squared_problem(X, y, np.full(n, C), intercept)
    state, monitor = solve(problem, 1e-3, settings=SUBSAMPLING)
    assert monitor.status == "converged"
    assert_certified(problem, state, monitor)
    assert len(monitor.history) == 2
    if C > 1.0:
        assert "proof" in monitor.phases


@pytest.mark.parametrize("intercept", Intercept)
def test_sums_over_the_subsample_are_not_trusted(intercept):
    n = 60_000
    X, y = tall(n=n, d=6)
    problem = squared_problem(X, y, np.full(n, 100.0), intercept)
    improve, asked = newton_proof.improve, []

    def boast(*arguments):
        proof = improve(*arguments)
        asked.append(proof)
        return proof and proof._replace(combined=10.0 * proof.combined)

    with mock.patch.object(newton_proof, "improve", boast):
        state, monitor = solve(problem, 1e-3, settings=SUBSAMPLING)
    assert any(asked)
    assert_certified(problem, state, monitor)


def test_problems_side_by_side_prove_each_their_own():
    n = 30_000
    X, _ = tall(n=n, d=6)
    rng = np.random.default_rng(0)
    rows = as_rows(sp.csr_matrix(X))
    several = [
        Problem(rows, SquaredHinge(np.where(X[:, k] + noise > 0, 1, -1), np.full(n, C)), intercept)
        for k, (C, intercept) in enumerate(zip([10.0, 1e3, 1e5], Intercept))
        for noise in [rng.standard_normal(n)]
    ]
    monitors = [Monitor(tol=1e-3, max_iter=100) for _ in several]
    states = solve_together(several, monitors, SUBSAMPLING)
    for problem, state, monitor in zip(several, states, monitors):
        assert monitor.status == "converged"
        assert_certified(problem, state, monitor)


def test_a_warm_start_has_a_subsample_and_a_proof_too():
    n = 30_000
    X, y = tall(n=n, d=6)
    problem = squared_problem(X, y, np.full(n, 1e3), Intercept.FREE)
    chosen, original = [], newton_subsample.choose

    def choose(of_all, sampled):
        chosen.append(sampled)
        return original(of_all, sampled)

    start = near(problem, 0.05)
    with mock.patch.object(newton_subsample, "choose", choose):
        state, monitor = solve(problem, 1e-3, start, SUBSAMPLING)
    assert monitor.status == "converged"
    assert_certified(problem, state, monitor)
    assert chosen == [None]
    assert "proof" in monitor.phases


def test_what_it_costs_to_balance_counts():
    """With b beside its best place, one side of the dual variables has to be made smaller."""
    n = 4000
    X, y = tall(n=n, d=6)
    problem = squared_problem(X, y, np.full(n, 100.0), Intercept.FREE)
    state, index = near(problem, 1e-4), np.arange(0, n, 2)
    state.offset += 0.05
    with mock.patch.object(newton_run.NewtonRun, "move_offset"):
        before, after = prove(
            problem, state, index, np.full(index.size, 2.0), lambda p: 0.97 * p.primal
        )
    assert before.balancing > 1e-4 * before.primal
    assert_true(problem, after)
