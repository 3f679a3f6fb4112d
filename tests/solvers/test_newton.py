from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

import widemargin
from tests.blocks import Blocks
from tests.data.on_disk import write
from tests.exact import optimum
from tests.four_methods import FourMethods
from tests.strategies import problems
from widemargin import threads
from widemargin.certificate import certify_state
from widemargin.data import as_rows
from widemargin.data.disk import open_rows
from widemargin.data.memory import RowsInMemory
from widemargin.losses import HINGE, Loss
from widemargin.monitor import Interruption, Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Hinge, MarginRisk, SquaredHinge
from widemargin.solvers import (
    auto,
    newton,
    newton_direction,
    newton_run,
    newton_steps,
    newton_subsample,
    sharing,
)
from widemargin.solvers.coordinate import CoordinateDescent
from widemargin.solvers.newton import Newton
from widemargin.solvers.newton_settings import NewtonSettings

RISKS = [Hinge, SquaredHinge]

AS_IT_IS = NewtonSettings()
#: working sets for few rows, too
SMALL_SETS = replace(AS_IT_IS, working_set=replace(AS_IT_IS.working_set, fewest_entries=1))
#: subsamples of few and short rows, too
SUBSAMPLING = replace(
    SMALL_SETS, subsample=replace(AS_IT_IS.subsample, fewest_entries=1, entries_per_row=1)
)
NO_CHOLESKY = replace(AS_IT_IS, cholesky_features=0)
#: no iteration makes progress
STUCK = replace(AS_IT_IS, patience=1, progress=1.0)


def tall(n=3000, d=8, seed=0, dtype=np.float32, sparse=False):
    """Rows of few features, a tenth of them with the wrong label."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    if sparse:
        X[rng.random((n, d)) < 0.8] = 0.0
    y = np.where(X @ rng.standard_normal(d) + 0.3 > 0, 1, -1)
    y[rng.random(n) < 0.1] *= -1
    return (sp.csr_matrix(X) if sparse else X), y


def tall_problem(C=1.0, risk=Hinge, intercept=Intercept.FREE, **data):
    X, y = tall(**data)
    return Problem(as_rows(X), risk(y, np.full(len(y), C)), intercept)


def solve(problem, tol=1e-3, state=None, settings=AS_IT_IS, **limits):
    limits.setdefault("max_iter", 2000)
    monitor = Monitor(tol=tol, **limits)
    solver = Newton(settings=settings)
    return solver.solve(problem, state or State.zero(problem), monitor), monitor


def assert_certified(problem, state, monitor):
    """The certificate reported is what the state proves by itself."""
    again = certify_state(problem, state, monitor.tol)
    scale = 1e-9 * max(1e-300, again.primal)
    assert np.isfinite(state.coef).all()
    assert again.primal == pytest.approx(monitor.certificate.primal, rel=1e-12, abs=scale)
    assert again.dual == pytest.approx(monitor.certificate.dual, rel=1e-9, abs=scale)


# --- the optimum ------------------------------------------------------------------------------


@settings(max_examples=150)
@given(problems(), st.sampled_from([1e-3, 1e-8]), st.booleans())
def test_it_finds_the_optimum(problem, tol, small_sets):
    state, monitor = solve(problem, tol, settings=SMALL_SETS if small_sets else AS_IT_IS)
    assert monitor.status == "converged"
    assert_certified(problem, state, monitor)
    risk = problem.risk
    best = optimum(
        problem.rows.matrix,
        risk.y,
        risk.cost,
        loss=risk.loss,
        intercept=problem.intercept,
    )
    slack = 1e-6 * max(1.0, abs(best))
    assert monitor.certificate.dual <= best + slack
    assert monitor.certificate.primal >= best - slack
    assert monitor.certificate.primal <= best * (1.0 + 2.0 * tol) + slack
    assert np.all(state.dual[risk.cost == 0.0] == 0.0)


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("sparse", [False, True])
def test_tall_rows_take_few_iterations(risk, intercept, sparse):
    problem = tall_problem(10.0, risk, intercept, n=70_000, sparse=sparse)
    state, monitor = solve(problem)
    assert monitor.status == "converged"
    assert monitor.iteration < 8  # after a sample, most of the way is done
    assert_certified(problem, state, monitor)
    primal = [record.primal for record in monitor.history]
    dual = [record.dual for record in monitor.history]
    rounding = monitor.certificate.rounding  # the last ones are proved
    assert all(np.diff(primal) <= rounding + 1e-12 * primal[0])
    assert all(np.diff(dual) >= -rounding)
    assert monitor.phases.keys() == {"scores", "combine", "direction", "line search"}


def ugly_inputs():
    """Yield named X, y that have broken solvers before."""
    rng = np.random.default_rng(1)
    n = 120
    X = rng.standard_normal((n, 4))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(n) > 0, 1, -1)
    y[:2] = 1, -1
    yield "far from the origin", X + 1e4, y
    yield "far, single precision", (X + 1e3).astype(np.float32), y
    yield "columns of all sizes", X * np.array([1e-4, 1.0, 1e2, 1e4]), y
    yield "constant columns", np.c_[X, np.ones(n), np.zeros(n)], y
    yield "rows of zeros", X * (np.arange(n)[:, None] % 2), y
    yield "nothing but zeros", 0.0 * X, y
    yield "repeated rows", np.repeat(X[:10], 12, axis=0), np.where(rng.random(n) < 0.5, 1, -1)
    yield "repeated columns", np.c_[X, X, X], y
    yield "features of single rows", np.c_[X, np.eye(n)[:, :3]], y
    yield "separable", X + 2.0 * np.sign(X[:, :1]), np.where(X[:, 0] > 0, 1, -1)
    yield "more features than rows", rng.standard_normal((10, 50)), np.repeat([1, -1], 5)
    yield "two rows", np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, -1])
    yield "the same row twice", np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([1, -1])
    yield "few of one class", X, np.where(np.arange(n) < 2, 1, -1)


@pytest.mark.parametrize(
    ("name", "X", "y"), list(ugly_inputs()), ids=lambda v: v if type(v) is str else ""
)
@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("settings", [AS_IT_IS, SMALL_SETS], ids=["as it is", "small sets"])
def test_ugly_inputs(name, X, y, risk, settings):
    for intercept in Intercept:
        for C in (1e-6, 1.0, 1e6):
            # At such a cost rounding is in the way of more digits.
            for tol in (1e-3, 1e-6 if C == 1e6 else 1e-8):
                problem = Problem(as_rows(X), risk(y, np.full(len(y), C)), intercept)
                state, monitor = solve(problem, tol, settings=settings)
                assert monitor.status == "converged", (intercept, C, tol)
                assert np.isfinite(state.coef).all()
                assert certify_state(problem, state).relative_gap <= 1.01 * tol


@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("cost", [0.0, 1.0])
def test_rows_of_one_class_or_of_none(intercept, cost):
    X, _ = tall(n=50)
    problem = Problem(as_rows(X), Hinge(np.ones(50), np.full(50, cost)), intercept)
    state, monitor = solve(problem, 1e-6)
    assert monitor.status == "converged"
    assert np.isfinite([*state.coef, state.offset]).all()


def test_unbalanced_rows_whose_optimum_is_constant():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 10)).astype(np.float32)
    y = np.where(rng.random(20_000) < 0.01, 1, -1)
    problem = Problem(as_rows(X), Hinge(y, np.ones(20_000)))
    state, monitor = solve(problem)
    assert monitor.status == "converged"
    assert monitor.iteration < 20
    assert np.abs(state.coef).max() < 0.01


# --- rows that count for nothing --------------------------------------------------------------


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_no_cost_are_as_if_they_were_not_there(risk, intercept, sparse):
    X, y = tall(sparse=sparse)
    cost = np.where(np.arange(len(y)) % 5 == 0, 0.0, 3.0)
    whole = Problem(as_rows(X), risk(y, cost), intercept)
    kept = np.flatnonzero(cost)
    part = Problem(as_rows(X[kept]), risk(y[kept], cost[kept]), intercept)
    state, monitor = solve(whole, 1e-8)
    other, _ = solve(part, 1e-8)
    assert_certified(whole, state, monitor)
    assert monitor.certificate.primal == pytest.approx(certify_state(part, other).primal, rel=1e-8)
    np.testing.assert_array_equal(state.dual[cost == 0.0], 0.0)
    assert max(record.active_rows for record in monitor.history) <= kept.size


# --- warm starts ------------------------------------------------------------------------------


@pytest.mark.parametrize("risk", RISKS)
def test_a_warm_start_at_the_solution_stops_at_once(risk):
    problem = tall_problem(10.0, risk)
    state, _ = solve(problem)
    again, monitor = solve(problem, state=state)
    assert monitor.status == "converged"
    assert monitor.iteration == 0
    np.testing.assert_array_equal(again.coef, state.coef)


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("intercept", Intercept)
def test_a_start_from_another_C_takes_fewer_iterations(risk, intercept):
    before, _ = solve(tall_problem(10.0, risk, intercept))
    problem = tall_problem(20.0, risk, intercept)
    _, cold = solve(problem)
    start = State(before.coef, before.offset, 2.0 * before.dual)
    state, warm = solve(problem, state=start)
    assert warm.status == "converged"
    assert warm.iteration < cold.iteration
    assert_certified(problem, state, warm)


@settings(max_examples=60)
@given(
    problems(), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-3, 1.0, 1e3]), st.booleans()
)
def test_no_start_is_made_worse_and_any_start_will_do(problem, seed, scale, small_sets):
    rng = np.random.default_rng(seed)
    start = State(
        scale * rng.standard_normal(problem.rows.n_features),
        0.0 if problem.intercept is Intercept.NONE else scale * float(rng.standard_normal()),
        scale * rng.random(problem.rows.n_rows),
    )
    given_coef, given_dual = start.coef.copy(), start.dual.copy()
    before = certify_state(problem, start)
    newton_settings = SMALL_SETS if small_sets else AS_IT_IS
    state, monitor = solve(problem, 1e-6, state=start, settings=newton_settings)
    after = certify_state(problem, state)
    assert monitor.status == "converged"
    assert after.primal <= before.primal * (1.0 + 1e-12)
    assert after.dual >= before.dual - 1e-12 * abs(before.dual)
    np.testing.assert_array_equal(start.coef, given_coef)
    np.testing.assert_array_equal(start.dual, given_dual)


def test_a_row_at_the_edge_of_its_curve_does_not_stop_w():
    """The same row with both labels: any b in an interval is as good, and w is best at zero."""
    loss = Loss("huber", low=-0.5, high=1.0, bend=0.25)
    risk = MarginRisk(np.array([1, -1]), np.full(2, 2.0), loss)
    problem = Problem(as_rows(np.full((2, 1), -13.849)), risk, Intercept.FREE)
    start = State(np.array([0.0174]), 0.991, np.array([2.0, 2.0]))
    state, monitor = solve(problem, 1e-6, state=start, max_iter=20)
    assert monitor.status == "converged"
    assert_certified(problem, state, monitor)


def test_delta_is_small_where_most_rows_are_at_the_kink():
    """Rows of the larger class on the margin, which say nothing of delta but by their duals."""
    X, _ = tall(n=1000)
    y = np.where(np.arange(1000) < 100, 1, -1)
    problem = Problem(as_rows(X), Hinge(y, np.full(1000, 2.0)), Intercept.FREE)
    alpha = np.where(y > 0, 2.0, 2.0 * 100 / 900)
    start = State(np.zeros(8), -1.0, alpha)
    monitor = Monitor(1e-6, 100)
    run = newton_run.NewtonRun(problem, start, 1.5, monitor, AS_IT_IS, near=True)
    run.certify_start(monitor.tol)
    to_come = run.delta * float((alpha * (1.0 - alpha / 2.0)).sum())
    assert to_come == pytest.approx(0.01 * monitor.certificate.primal)


# --- several problems -------------------------------------------------------------------------


def classes(n=40_000, rows=None):
    """One problem per class, a fold of its rows left out."""
    X, _ = tall(n=n)
    label = np.argmax(X[:, :3] + np.random.default_rng(0).standard_normal((n, 3)), axis=1)
    rows = as_rows(X) if rows is None else rows(as_rows(X))
    cost = np.where(np.arange(n) % 4 == 0, 0.0, 1.0)
    return [
        Problem(rows, RISKS[k % 2](np.where(label == k, 1, -1), 10.0**k * cost), intercept)
        for k, intercept in enumerate(Intercept)
    ]


def solve_together(problems, monitors, settings=AS_IT_IS):
    """Return the states of problems that share passes."""
    solve = Newton(settings=settings).solve
    return sharing.together(
        problems[0].rows,
        [partial(solve, p, State.zero(p), monitor) for p, monitor in zip(problems, monitors)],
    )


@pytest.mark.parametrize("n_threads", [1, 2])
def test_together_is_as_apart(n_threads):
    together = classes()
    monitors = [Monitor(1e-6, 1000) for _ in together]
    with threads.lent(n_threads):
        states = solve_together(together, monitors)
    for problem, state, monitor in zip(together, states, monitors):
        alone, its_monitor = solve(problem, 1e-6)
        assert monitor.status == "converged"
        assert_certified(problem, state, monitor)
        assert monitor.iteration == pytest.approx(its_monitor.iteration, abs=2)
        np.testing.assert_allclose(state.coef, alone.coef, rtol=1e-2, atol=1e-3)


def test_together_shares_passes():
    together = classes(n=300, rows=FourMethods)
    monitors = [Monitor(1e-3, 1000) for _ in together]
    solve_together(together, monitors)
    counter = together[0].rows
    shared = len(counter.made)
    assert any(ndim == 2 for _, ndim in counter.made)
    counter.made.clear()
    for problem in together:
        solve(problem)
    assert shared < 0.7 * len(counter.made)


def test_a_problem_that_stops_leaves_the_others_alone():
    together = classes(n=3000)
    monitors = [Monitor(1e-8, 1000), Monitor(1e-8, 1), Monitor(1e-8, 1000)]
    states = solve_together(together, monitors)
    assert [monitor.status for monitor in monitors] == ["converged", "max_iter", "converged"]
    for problem, state, monitor in zip(together, states, monitors):
        assert_certified(problem, state, monitor)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_same_threads_give_the_same_bits(n_threads, sparse):
    problem = tall_problem(n=70_000, sparse=sparse)
    with threads.lent(n_threads):
        first, _ = solve(problem)
        second, _ = solve(problem)
    np.testing.assert_array_equal(first.coef, second.coef)
    np.testing.assert_array_equal(first.dual, second.dual)


# --- conjugate gradients, and rows elsewhere --------------------------------------------------


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("kind", ["dense", "csr", "elsewhere"])
def test_conjugate_gradients_find_the_same(risk, intercept, kind):
    problem = tall_problem(5.0, risk, intercept, n=400, sparse=kind == "csr")
    factorised, _ = solve(problem, 1e-6)
    if kind == "elsewhere":
        problem = Problem(FourMethods(problem.rows), problem.risk, intercept)
    state, monitor = solve(problem, 1e-6, settings=NO_CHOLESKY)
    assert monitor.status == "converged"
    assert_certified(problem, state, monitor)
    np.testing.assert_allclose(state.coef, factorised.coef, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("risk", RISKS)
def test_rows_on_disk(risk, tmp_path):
    X, y = tall(n=300, sparse=True)
    problem = Problem(open_rows(write(tmp_path / "rows", X, y)), risk(y, np.ones(300)))
    state, monitor = solve(problem)
    assert monitor.status == "converged"
    assert_certified(problem, state, monitor)


def test_many_features():
    rng = np.random.default_rng(0)
    X = sp.random(300, 1500, 0.02, format="csr", random_state=rng, dtype=np.float32)
    y = np.where(rng.random(300) < 0.5, 1, -1)
    for risk in RISKS:
        problem = Problem(as_rows(X), risk(y, np.ones(300)))
        state, monitor = solve(problem)
        assert monitor.status == "converged"
        assert_certified(problem, state, monitor)


# --- the working set, and settled rows ---------------------------------------------------------


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("parts", [SMALL_SETS, SUBSAMPLING], ids=["small sets", "subsampling"])
def test_few_looks_at_all_rows_are_enough(risk, intercept, parts):
    """Features that few rows have, of which a sample has fewer: they are found all the same."""
    rng = np.random.default_rng(0)
    n = 60_000
    X = rng.standard_normal((n, 12)).astype(np.float32)
    X[:, 8:] = rng.random((n, 4)) < np.array([0.3, 0.02, 0.002, 0.0002])
    y = np.where(X @ rng.standard_normal(12) + rng.standard_normal(n) > 0, 1, -1)
    problem = Problem(as_rows(X), risk(y, np.full(n, 10.0)), intercept)
    looked_at_all, reference = solve(problem, 1e-8)
    state, monitor = solve(problem, settings=parts)
    assert monitor.status == "converged"
    assert_certified(problem, state, monitor)
    assert monitor.certificate.dual <= reference.certificate.primal
    assert monitor.certificate.primal >= reference.certificate.dual
    assert len(monitor.history) <= 4
    tight, monitor = solve(problem, 1e-8, settings=parts)
    assert monitor.status == "converged"
    np.testing.assert_allclose(tight.coef, looked_at_all.coef, rtol=1e-3, atol=1e-3)


def few_rows_in_moments():
    """Count the rows whose squares are summed up."""
    counts, original = [], RowsInMemory.moments

    def moments(self, index, weight, center):
        counts.append(index.size)
        return original(self, index, weight, center)

    return counts, mock.patch.object(RowsInMemory, "moments", moments)


@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("C", [0.1, 100.0])
def test_a_subsample_represents_all_rows(intercept, sparse, C):
    n = 24_000
    X, y = tall(n=n, d=8, sparse=sparse)
    cost = np.full(n, C)
    cost[::7] = 0.0
    problem = Problem(as_rows(X), SquaredHinge(y, cost), intercept)
    counts, counting = few_rows_in_moments()
    with counting:
        state, monitor = solve(problem, 1e-9, settings=SUBSAMPLING)
    assert monitor.status == "converged"
    assert_certified(problem, state, monitor)
    assert max(counts) < n / 8
    assert np.all(state.dual[::7] == 0.0)
    # scikit-learn's primal Newton method knows nothing of samples, and of no free intercept.
    if intercept is not Intercept.FREE:
        fit_intercept = intercept is Intercept.PENALIZED
        peer = LinearSVC(C=C, dual=False, tol=1e-10, fit_intercept=fit_intercept)
        peer.fit(X[cost > 0.0].astype(np.float64), y[cost > 0.0])
        np.testing.assert_allclose(state.coef, peer.coef_[0], atol=1e-4 * np.abs(state.coef).max())


def run_at(rows, y, cost, z):
    """A run with slacks z of the rows that count."""
    problem = Problem(as_rows(rows), SquaredHinge(y, cost), Intercept.NONE)
    monitor = Monitor(tol=1e-3, max_iter=100)
    run = newton_run.NewtonRun(problem, State.zero(problem), 0.5, monitor, SUBSAMPLING, near=True)
    run.z = z
    return run


@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_rare_features_stand_for_themselves(sparse, some):
    rng = np.random.default_rng(0)
    n = 40_000
    X = np.hstack([rng.standard_normal((n, 6)), rng.random((n, 2)) < [0.2, 0.001]])
    cost = np.full(n, 2.0)
    if some:
        cost[rng.random(n) > 0.8] = 0.0
    counted = np.flatnonzero(cost)
    z, rare = rng.standard_normal(counted.size), X[counted, 7] > 0.0
    run = run_at(sp.csr_matrix(X) if sparse else X, np.ones(n), cost, z)
    subsample = newton_subsample.choose(run, None)
    index, factor = subsample.index, subsample.factor
    assert np.all(np.isin(np.flatnonzero(rare), index))
    assert np.all(factor[rare[index]] == 1.0)
    assert factor.sum() == pytest.approx(counted.size, rel=0.05)
    # The point of it: the Hessian is about that of all rows, along each direction.
    curved = 4.0 * (z > 0.0)[:, None] * X[counted]
    whole = np.eye(8) + X[counted].T @ curved
    part = np.eye(8) + X[counted][index].T @ (factor[:, None] * curved[index])
    ratios = np.linalg.eigvals(np.linalg.solve(whole, part)).real
    assert ratios.min() > 0.75
    assert ratios.max() < 1.3


def test_without_rare_features_all_factors_are_equal():
    X, y = tall(n=20_000, d=8)
    ones = np.ones(y.size)
    subsample = newton_subsample.choose(run_at(X, y, ones, ones), None)
    assert np.unique(subsample.factor).size == 1
    assert subsample.factor.sum() == pytest.approx(y.size, rel=0.1)


def test_few_rows_with_a_loss_have_no_subsample():
    X, y = tall(n=20_000, d=8)
    ones = np.ones(y.size)
    few = np.where(np.arange(y.size) % 5, -1.0, 1.0)
    assert newton_subsample.choose(run_at(X, y, ones, few), None) is None


def test_more_rows_for_each_feature_need_a_smaller_subsample():
    def represented(n, settings):
        rows = as_rows(np.ones((n, 8), dtype=np.float32))
        return newton_subsample.represented_rows(rows, settings)

    assert represented(20_000, AS_IT_IS) == 0  # a Hessian of so few costs next to nothing
    found = [represented(n, SUBSAMPLING) for n in (9_000, 20_000, 50_000, 200_000)]
    assert found == [0, 8, 16, 32]
    enough, too_few = (np.where(np.arange(100) < count, 1, -1) for count in (10, 5))
    assert newton_subsample.are_balanced(enough, AS_IT_IS.subsample)
    assert not newton_subsample.are_balanced(too_few, AS_IT_IS.subsample)


def test_where_many_rows_are_rare_none_is():
    """Half of the rows have features which no curved row has."""
    rng = np.random.default_rng(0)
    X = np.eye(8)[rng.integers(8, size=20_000)]
    z = np.where(X[:, :4].any(axis=1), 1.0, -1.0)
    ones = np.ones(z.size)
    subsample = newton_subsample.choose(run_at(X, ones, ones, z), None)
    assert np.unique(subsample.factor).tolist() == [8.0]


@pytest.mark.parametrize("of_few", [False, True])
def test_the_sample_becomes_the_subsample_if_no_rows_have_to_join(of_few):
    rng = np.random.default_rng(0)
    n = 24_000
    X, y = tall(n=n, d=8)
    if of_few:
        X[:, 0] = rng.random(n) < 0.002
    cost = np.full(n, 10.0)
    cost[::7] = 0.0
    problem = Problem(as_rows(X), SquaredHinge(y, cost), Intercept.NONE)
    chosen, original = [], newton_subsample.choose

    def choose(of_all, sampled):
        chosen.append((sampled, original(of_all, sampled)))
        return chosen[-1][1]

    with mock.patch.object(newton_subsample, "choose", choose):
        state, monitor = solve(problem, 1e-6, settings=SUBSAMPLING)
    assert_certified(problem, state, monitor)
    ((sampled, subsample),) = chosen
    assert (subsample is sampled) == (not of_few)
    # Places among the rows that count, and what each stands for.
    counted = np.flatnonzero(cost)
    taken = counted[sampled.index]
    np.testing.assert_array_equal(sampled.steps.take(slice(None)).matrix, X[taken])
    np.testing.assert_array_equal(sampled.steps.y, y[taken])
    np.testing.assert_allclose(sampled.factor * sampled.index.size, counted.size, rtol=0.05)


@pytest.mark.parametrize("intercept", Intercept)
def test_a_poor_subsample_is_given_up(intercept, monkeypatch):
    """It represents some features ten times too strongly, and others not at all."""
    problem = tall_problem(C=100.0, risk=SquaredHinge, intercept=intercept, n=20_000, d=8)

    def choose(of_all, sampled):
        index, factor = np.arange(40), np.full(40, 50.0)
        quadratic = newton_direction.QuadraticTerms(
            of_all.quadratic.stiffness, of_all.quadratic.center
        )
        of_part = of_all.take(index), index, factor * of_all.cost[index]
        steps = of_all.steps_over(*of_part, quadratic, of_all.place)
        return newton_subsample.Subsample(index, factor, steps)

    monkeypatch.setattr(newton_subsample, "choose", choose)
    state, monitor = solve(problem, 1e-6, settings=SUBSAMPLING)
    assert monitor.status == "converged"
    assert_certified(problem, state, monitor)


def test_iterations_that_bring_next_to_nothing_are_not_progress():
    """Hypothesis found these rows: for thousands of iterations the gap fell by 1e-5 of itself."""
    X = np.array(
        [
            [-0.15588301, -0.03488678, -0.04887737, 0.04859479],
            [-0.22974202, 0.05382419, 0.15089045, -0.0515305],
            [0.06967198, 0.09523833, -0.18617459, -0.11571486],
            [-0.0896702, -0.01271069, -0.01563921, -0.03993428],
            [0.02717096, 0.05210027, 0.03202541, 0.10441073],
            [0.26567614, -0.22346525, -0.00444396, -0.12491637],
        ]
    )
    risk = Hinge(np.array([1, -1, -1, -1, -1, -1]), np.array([0.01, 0.01, 2.0, 1.0, 3.0, 3.0]))
    problem = Problem(as_rows(X), risk, Intercept.FREE)
    _, monitor = solve(problem, 1e-8, settings=SMALL_SETS)
    assert monitor.status == "converged"
    assert monitor.iteration < 100


def test_quadratic_terms_are_the_penalty_and_the_losses_of_settled_rows():
    rng = np.random.default_rng(0)
    X, A, stiffness = rng.standard_normal((50, 4)), rng.standard_normal(50), 1.0

    def objective(w, b):
        return 0.5 * w @ w + 0.5 * stiffness * b * b - A @ (X @ w + b)

    pull = newton_direction.Slope(X.T @ A, A.sum())
    quadratic = newton_direction.QuadraticTerms(stiffness, np.zeros(4), pull)
    w, b, ahead, shift = rng.standard_normal(4), 0.7, rng.standard_normal(4), -0.4
    before, at, after = (objective(w + t * ahead, b + t * shift) for t in (-1.0, 0.0, 1.0))
    slope = quadratic.slope(w, b)
    assert slope.coef @ ahead + slope.offset * shift == pytest.approx(0.5 * (after - before))
    assert quadratic.curvature(ahead, shift) == pytest.approx(after - 2.0 * at + before)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("delta", "cap"), [(0.4, 1.0), (0.5, np.inf)])
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("some", [False, True])
def test_a_visit_is_scores_and_their_answer_combined(sparse, delta, cap, n_threads, some):
    X, y = tall(n=20_003, d=11, sparse=sparse)
    rows, rng = as_rows(X), np.random.default_rng(0)
    index = np.flatnonzero(rng.random(y.size) < 0.7) if some else None
    places = np.arange(y.size) if index is None else index
    y, cost, w = y[places].astype(np.int8), rng.random(places.size), rng.standard_normal(11)
    with threads.lent(n_threads):
        loss = replace(HINGE, high=cap, bend=0.5 if cap > 1.0 else 0.0)
        shared = newton_steps.Shared(loss, Intercept.NONE, Monitor(1e-3, 10), AS_IT_IS)
        part = newton_direction.Part(rows, cost, index, 1.0)
        quadratic = newton_direction.QuadraticTerms(np.inf, np.zeros(11))
        place = newton_steps.Place(w, 0.2, None)
        steps = newton_steps.NewtonSteps(shared, part, y, quadratic, place, delta)
        scores, z, found, combined, sums = newton_steps.full_pass(steps, rows)
    X = X.toarray() if sparse else X
    expected = 1.0 - y * (X[places].astype(np.float64) @ w + 0.2)
    alpha = cost * np.clip(expected / delta, 0.0, cap)
    losses = cost * np.maximum(expected, 0.0) ** (2 if cap > 1.0 else 1)
    np.testing.assert_allclose(scores, X[places].astype(np.float64) @ w, atol=1e-12)
    np.testing.assert_allclose(z, expected, atol=1e-12)
    np.testing.assert_allclose(found, alpha, atol=1e-12)
    np.testing.assert_allclose(combined, X[places].T.astype(np.float64) @ (alpha * y), atol=1e-8)
    positive = y > 0
    bent = losses if cap > 1.0 else 0.0 * losses
    totals = [
        total.sum()
        for values in (alpha, alpha, bent)
        for total in (values[positive], values[~positive])
    ]
    np.testing.assert_allclose(sums, [*totals, losses.sum(), alpha @ expected], rtol=1e-10)


# --- moments of rows --------------------------------------------------------------------------


@pytest.mark.parametrize("density", [0.05, 0.5, None])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_moments(density, n_threads):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9000, 40)).astype(np.float32)
    if density is not None:
        X[rng.random(X.shape) > density] = 0.0
    rows = as_rows(X if density is None else sp.csr_matrix(X))
    index = np.flatnonzero(rng.random(9000) < 0.7)
    weight = rng.random(index.size)
    for center in (np.zeros(40), rng.standard_normal(40)):
        with threads.lent(n_threads):
            second, first = rows.moments(index, weight, center)
        less = X[index].astype(np.float64) - center
        np.testing.assert_allclose(first, weight @ less, atol=1e-9)
        np.testing.assert_allclose(np.tril(second), np.tril((less.T * weight) @ less), atol=1e-9)
    squares = (X.astype(np.float64) ** 2).T @ np.arange(9000.0)
    np.testing.assert_allclose(rows.combine_squares(np.arange(9000.0)), squares, rtol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_spreads_tell_rows_with_rare_features(sparse):
    X, _ = tall(n=4000, sparse=sparse)
    dense = (X.toarray() if sparse else X).astype(np.float64)
    dense[:, 3] = np.arange(4000) < 3
    dense[:, 5] = 0.0
    rows = as_rows(sp.csr_matrix(dense) if sparse else dense)
    squares = (dense**2).sum(axis=0)
    squares += (dense**2).mean()
    np.testing.assert_allclose(rows.spreads, np.sqrt(dense**2 @ (1.0 / squares)), rtol=1e-9)
    assert set(np.argsort(-rows.spreads)[:3]) == {0, 1, 2}
    rare = newton_run.is_rare(rows, AS_IT_IS.working_set)
    assert rare[:3].all()
    assert rare.mean() < 0.02


# --- stopping ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3000, 70_000])
def test_iterations_run_out(n):
    problem = tall_problem(100.0, n=n)
    state, monitor = solve(problem, 1e-12, max_iter=2)
    assert monitor.status == "max_iter"
    assert 2 <= monitor.iteration < 3
    assert_certified(problem, state, monitor)


@pytest.mark.parametrize("n", [3000, 70_000])
def test_time_runs_out(n):
    problem = tall_problem(n=n)
    state, monitor = solve(problem, 1e-12, max_time=0.0)
    assert monitor.status == "max_time"
    assert_certified(problem, state, monitor)


@pytest.mark.parametrize("settings", [NO_CHOLESKY, AS_IT_IS], ids=["cg", "cholesky"])
def test_it_is_interrupted(settings):
    problem = tall_problem(1e4)
    interruption = Interruption()

    def request(record, state):
        interruption.requested = len(monitor.history) == 3

    monitor = Monitor(1e-12, 1000, interruption=interruption, on_check=request)
    state = Newton(settings=settings).solve(problem, State.zero(problem), monitor)
    assert monitor.status == "interrupted"
    assert_certified(problem, state, monitor)


@pytest.mark.parametrize("settings", [NO_CHOLESKY, AS_IT_IS], ids=["cg", "cholesky"])
def test_no_time_is_lost_before_it_stops(settings):
    """Asked to stop in the midst of an iteration, it ends with what it has."""
    problem = tall_problem(1e4)
    monitor = Monitor(1e-12, 1000)
    looks = iter(range(1000))
    monitor.must_stop = lambda: next(looks) >= 4 or Monitor.must_stop(monitor)
    state = Newton(settings=settings).solve(problem, State.zero(problem), monitor)
    assert len(monitor.history) <= 4
    assert_certified(problem, state, monitor)


def test_a_callback_stops():
    problem = tall_problem(1e4)
    monitor = Monitor(1e-12, 1000, on_check=lambda record, state: len(monitor.history) == 5)
    state = Newton().solve(problem, State.zero(problem), monitor)
    assert monitor.status == "callback"
    assert len(monitor.history) == 5
    assert_certified(problem, state, monitor)


@pytest.mark.parametrize("risk", [Hinge, SquaredHinge])
def test_what_it_is_stuck_with_is_handed_over(risk):
    """Coordinate descent goes on from where it was, to the same tolerance."""
    problem = tall_problem(1.0, risk) if risk is not Hinge else tall_problem(1.0)
    monitor = Monitor(1e-3, 1000)
    state = Newton(settings=STUCK).solve(problem, State.zero(problem), monitor)
    assert monitor.status == "converged"
    assert "passes" in monitor.phases
    assert monitor.handed_over_to == "acf"
    assert_certified(problem, state, monitor)


def test_who_takes_over_has_the_seed_of_the_fit_and_is_named(monkeypatch):
    make, seeds = auto.make, []
    monkeypatch.setattr(
        auto, "make", lambda *given, **more: replace(make(*given, **more), settings=STUCK)
    )

    class Noted(CoordinateDescent):
        def solve(self, problem, state, monitor):
            seeds.append(self.seed)
            return super().solve(problem, state, monitor)

    monkeypatch.setattr(newton, "CoordinateDescent", Noted)
    problem = tall_problem(1.0)
    X, y = problem.rows.matrix, problem.risk.y
    for random_state in (1, 1, 2):
        model = widemargin.LinearSVC(loss="hinge", solver="newton", random_state=random_state).fit(
            X, y
        )
        assert model.solver_ == "newton, then acf"
        assert model.status_ == "converged"
    assert seeds[0] == seeds[1] != seeds[2]
    path = widemargin.svm_path(X, y, Cs=[1.0], loss="hinge", solver="newton")
    assert path.solvers == ["newton, then acf"]
    several = widemargin.LinearSVC(loss="hinge", solver="newton").fit(X, np.arange(y.size) % 3)
    assert several.solver_ == "newton, then acf"
    rows = Blocks(X, 100)
    on_disk = widemargin.LinearSVC(loss="hinge", solver="newton", random_state=0).fit(rows, y)
    assert on_disk.solver_ == "newton, then ocas"
