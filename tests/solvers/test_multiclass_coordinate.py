import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris
from sklearn.svm import LinearSVC

from widemargin.certificate import certify_state, upper_bound
from widemargin.data import as_rows
from widemargin.kernels import multiclass as kernels
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import CrammerSinger
from widemargin.solvers.multiclass_coordinate import MulticlassDescent, _Descent

SCHEDULES = ["dcd", "acf"]


def text_like(n=300, d=200, k=5, density=0.05, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density, format="csr", random_state=rng, dtype=dtype)
    y = np.argmax(X @ rng.standard_normal((d, k)) + 0.1 * rng.standard_normal((n, k)), axis=1)
    return X, y, k


def make(X, y, k, cost=1.0, intercept=Intercept.NONE):
    return Problem(as_rows(X), CrammerSinger(y, np.full(len(y), cost), k), intercept)


def solve(problem, schedule="acf", tol=1e-3, state=None, **limits):
    limits.setdefault("max_iter", 100_000)
    monitor = Monitor(tol=tol, **limits)
    solver = MulticlassDescent(schedule, seed=0)
    return solver.solve(problem, state or State.zero(problem), monitor), monitor


def optimum(X, y, cost, k, intercept):
    """Return the optimal value of 1/2 |W|^2 (+ 1/2 |b|^2) + sum_i c_i xi_i, by Clarabel.

    Variables (W, b, xi), W and b class by class; constraints
    s_iy - s_ij + xi_i >= 1 for every wrong class j, xi_i >= 0.
    """
    counted = cost > 0.0
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)[counted]
    y, cost = y[counted], cost[counted]
    n, d = X.shape
    if intercept is not Intercept.NONE:
        X = np.c_[X, np.ones(n)]
    width = X.shape[1]
    penalty = np.ones((k, width))
    if intercept is Intercept.FREE:
        penalty[:, d] = 0.0
    P = sp.diags(np.concatenate([penalty.ravel(), np.zeros(n)]))
    margins = np.zeros((n, k, k, width))
    for i in range(n):
        for j in range(k):
            margins[i, j, y[i]] -= X[i]
            margins[i, j, j] += X[i]
    wrong = np.arange(k) != y[:, None]
    slack = np.broadcast_to(-np.eye(n)[:, None, :], (n, k, n))[wrong]
    A = np.block(
        [
            [margins.reshape(n, k, -1)[wrong], slack],
            [np.zeros((n, k * width)), -np.eye(n)],
        ]
    )
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-10
    solution = clarabel.DefaultSolver(
        sp.csc_matrix(P),
        np.concatenate([np.zeros(k * width), cost]),
        sp.csc_matrix(A),
        np.concatenate([-np.ones(len(slack)), np.zeros(n)]),
        [clarabel.NonnegativeConeT(A.shape[0])],
        options,
    ).solve()
    assert "Solved" in str(solution.status), solution.status
    return solution.obj_val


@st.composite
def small_problems(draw):
    """Rows dense or CSR; some zero, repeated or of no cost; some classes without a row."""
    n = draw(st.integers(3, 20))
    d = draw(st.integers(1, 5))
    k = draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # Costs far above one over |x|^2, or |x|^2 + 1, would take very many passes.
    scale, unit = draw(st.sampled_from([(0.1, 1.0), (1.0, 0.01), (1.0, 1.0), (10.0, 0.01)]))
    X = scale * rng.standard_normal((n, d))
    X[rng.random((n, d)) < draw(st.sampled_from([0.0, 0.5, 0.9]))] = 0.0
    if draw(st.booleans()):
        X[n // 2 :] = X[: n - n // 2]
    if draw(st.booleans()):
        X = np.round(X)
    X = X.astype(draw(st.sampled_from([np.float32, np.float64])))
    y = rng.integers(0, draw(st.integers(1, k)), n)
    cost = unit * rng.integers(0, 4, n)
    cost[0] = max(cost[0], 0.01)
    rows = sp.csr_matrix(X) if draw(st.booleans()) else X
    return make(rows, y, k, cost, draw(st.sampled_from(Intercept)))


@settings(max_examples=150, deadline=None)
@given(small_problems(), st.sampled_from(SCHEDULES))
def test_the_optimum_is_that_of_an_interior_point_solver(problem, schedule):
    state, monitor = solve(problem, schedule, max_iter=20_000)
    assert monitor.status == "converged"
    certificate = certify_state(problem, state)
    assert certificate.relative_gap <= 1.001e-3
    risk = problem.risk
    exact = optimum(problem.rows.matrix, risk.y, risk.cost, risk.outputs[0], problem.intercept)
    slack = 1e-7 * risk.cost.sum()
    assert certificate.dual <= exact + slack
    assert certificate.primal >= exact - slack
    assert np.all(state.dual[risk.cost == 0.0] == 0.0)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-10, 0), min_size=1, max_size=8),
    st.floats(1e-3, 10),
    st.randoms(use_true_random=False),
)
def test_the_threshold_projects_onto_the_simplex(below, cost, random):
    goal = np.array([*below, random.uniform(0, cost)])
    t, count = kernels.threshold(goal, cost, goal.max())
    nearest = np.maximum(0.0, goal - t)
    assert nearest.sum() == pytest.approx(cost)
    assert count == np.count_nonzero(goal > t)
    # The nearest point has no farther one on its side: (goal - p).(vertex - p) <= 0.
    for vertex in cost * np.eye(goal.size):
        assert (goal - nearest) @ (vertex - nearest) <= 1e-9 * (1.0 + cost) ** 2


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("k", [2, 7, 16, 20, 50, 130])
@pytest.mark.parametrize("types", [("f4", "f4"), ("f4", "f8"), ("f8", "f8")])
def test_scores_and_updates_reach_every_class(sparse, k, types):
    rng = np.random.default_rng(0)
    X = sp.random(40, 30, 0.3, format="csr", random_state=rng, dtype=types[0])
    problem = make(X if sparse else X.toarray() + np.float32(1e-3), rng.integers(0, k, 40), k)
    tol = 1e-3 if types[1] == "f4" else 1e-9
    descent = _Descent(problem, State.zero(problem), Monitor(tol, 100), MulticlassDescent("acf"))
    assert descent.W.dtype == types[1]
    for _ in range(3):
        descent._pass()
    W = descent._model_weights(descent.W)
    A = problem.risk.signed(descent._alpha())
    np.testing.assert_allclose(W, problem.rows.combine(A), atol=100 * np.finfo(types[1]).eps)
    descent._model_weights(descent.exact_W)[:] = W
    np.testing.assert_allclose(descent._scores(), problem.rows.scores(W), atol=1e-12)
    assert np.allclose(descent.shares.sum(axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("intercept", Intercept)
def test_history_closes_in_on_the_optimum(schedule, intercept):
    problem = make(*text_like(), 10.0, intercept)
    state, monitor = solve(problem, schedule)
    assert monitor.status == "converged"
    assert all(np.diff([record.primal for record in monitor.history]) <= 0)
    assert all(np.diff([record.dual for record in monitor.history]) >= 0)
    certificate = certify_state(problem, state)
    assert certificate.relative_gap <= 1e-3
    assert certificate.primal == pytest.approx(monitor.certificate.primal, rel=1e-12)
    assert certificate.dual == pytest.approx(monitor.certificate.dual, rel=1e-12)
    assert monitor.history[-1].phases.keys() == {"passes", "checks"}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("intercept", Intercept)
def test_tight_tolerances_are_reached(schedule, intercept):
    problem = make(*text_like(dtype=np.float64), 1.0, intercept)
    state, monitor = solve(problem, schedule, tol=1e-9)
    assert monitor.status == "converged"
    assert certify_state(problem, state).relative_gap <= 1e-9


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_same_seed_gives_the_same_bits(schedule):
    problem = make(*text_like(), 10.0, Intercept.FREE)
    first, _ = solve(problem, schedule)
    second, _ = solve(problem, schedule)
    np.testing.assert_array_equal(first.coef, second.coef)
    np.testing.assert_array_equal(first.offset, second.offset)
    np.testing.assert_array_equal(first.dual, second.dual)


@pytest.mark.parametrize("intercept", Intercept)
def test_a_warm_start_at_the_solution_stops_at_once(intercept):
    problem = make(*text_like(), 10.0, intercept)
    state, _ = solve(problem)
    again, monitor = solve(problem, state=state)
    assert monitor.iteration == 0
    assert monitor.status == "converged"
    assert certify_state(problem, again).relative_gap <= 1e-3


@pytest.mark.parametrize("intercept", Intercept)
def test_a_warm_start_saves_passes_and_infeasible_ones_are_repaired(intercept):
    X, y, k = text_like()
    state, cold = solve(make(X, y, k, 10.0, intercept))
    problem = make(X, y, k, 8.0, intercept)
    state, warm = solve(problem, state=state)
    assert certify_state(problem, state).relative_gap <= 1e-3
    assert warm.iteration < cold.iteration


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_limits_stop_with_an_honest_certificate(schedule):
    problem = make(*text_like(n=1000, d=50), 1e4, Intercept.FREE)
    state, monitor = solve(problem, schedule, tol=1e-12, max_iter=3)
    assert monitor.status == "max_iter"
    assert 3 <= monitor.iteration < 4.5
    certificate = certify_state(problem, state)
    assert certificate.primal == pytest.approx(monitor.certificate.primal, rel=1e-12)
    assert certificate.dual == pytest.approx(monitor.certificate.dual, rel=1e-12)
    _, monitor = solve(problem, schedule, tol=1e-15, max_time=0.05)
    assert monitor.status == "max_time"


def test_single_precision_is_given_up_where_it_blurs_the_dual():
    problem = make(*text_like())
    descent = _Descent(problem, State.zero(problem), Monitor(1e-3, 100), MulticlassDescent("acf"))
    descent._check()
    descent._pass()
    descent._check()
    assert descent.W.dtype == np.float32
    descent._pass()
    descent.W *= np.float32(1.01)
    descent._check()
    assert descent.W.dtype == np.float64
    A = problem.risk.signed(descent._alpha())
    np.testing.assert_array_equal(descent._model_weights(descent.W), problem.rows.combine(A))


def test_dense_rows_full_of_zeros_are_visited_as_csr():
    X, y, k = text_like()
    sparse, _ = solve(make(X, y, k))
    problem = make(X.toarray(), y, k)
    descent = _Descent(problem, State.zero(problem), Monitor(1e-3, 100), MulticlassDescent("acf"))
    for ours, theirs in zip(descent.rows, (X.data, X.indices, X.indptr), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    dense, _ = solve(problem)
    np.testing.assert_allclose(dense.coef, sparse.coef, atol=1e-5)


def test_shrinking_leaves_rows_out_and_brings_them_back():
    problem = make(*text_like(n=2000, d=50))
    descent = _Descent(problem, State.zero(problem), Monitor(1e-6, 100), MulticlassDescent("dcd"))
    descent._check()
    counts = []
    for _ in range(20):
        counts.append(descent.schedule.active.size)
        descent._pass()
    assert counts[0] == 2000
    assert counts[-1] < 1500
    assert np.all(np.diff(counts) <= 0)
    descent.schedule.activate(np.ones(2000, dtype=bool))
    assert descent.schedule.active.size == 2000


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("load", [load_iris, load_digits])
def test_liblinear_finds_the_same_optimum(schedule, load):
    X, y = load(return_X_y=True)
    X = X / X.max()
    problem = make(X, y, y.max() + 1)
    _, monitor = solve(problem, schedule, tol=1e-6)
    theirs = LinearSVC(
        multi_class="crammer_singer", fit_intercept=False, tol=1e-8, max_iter=10_000_000
    ).fit(X, y)
    value = upper_bound(problem, theirs.coef_.T, np.zeros(y.max() + 1)).value
    assert monitor.certificate.primal == pytest.approx(value, rel=2e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_free_intercept_does_not_swing(schedule):
    """The row of zeros sees nothing but the intercept, and could chase it for ever."""
    X = np.array([[0.0], [1.2478768], [-0.60838974], [-0.42319262]])
    cost = np.array([0.03, 0.03, 0.03, 0.02])
    problem = make(X, np.array([1, 3, 2, 5]), 6, cost, Intercept.FREE)
    _, monitor = solve(problem, schedule, max_iter=100)
    assert monitor.status == "converged"


def test_a_free_intercept_separates_one_class_from_none():
    X, y, k = text_like()
    state, monitor = solve(make(X, np.zeros_like(y), k, 1.0, Intercept.FREE))
    assert monitor.certificate.primal == monitor.certificate.dual == 0.0
    assert np.all(state.offset[1:] <= state.offset[0] - 1.0)


def test_nothing_to_solve_is_solved_at_once():
    X, y, k = text_like()
    for intercept in Intercept:
        _, monitor = solve(make(X, y, k, 0.0, intercept))
        assert monitor.status == "converged"
        assert monitor.iteration == 0
