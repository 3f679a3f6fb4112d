from collections import Counter
from functools import partial

import numpy as np
import pytest
from exact import optimum
from four_methods import FourMethods
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from strategies import multiclass_problems, problems, ranking_problems

from widemargin import LinearSVC, threads
from widemargin.certificate import certify_state
from widemargin.data import as_rows
from widemargin.losses import HINGE
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import CrammerSinger, Hinge, PairwiseHinge, SquaredHinge
from widemargin.solvers.coordinate import CoordinateDescent
from widemargin.solvers.cutting_plane import CuttingPlanes
from widemargin.solvers.line_search import Penalty, bracketed, exact
from widemargin.solvers.oracle import Oracle
from widemargin.solvers.registry import RiskKind, names
from widemargin.solvers.settings import CuttingPlaneSettings

METHODS = names(risk=RiskKind.ANY)


def noisy(n=2000, d=20, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal((d, classes)) + rng.standard_normal((n, classes))
    return X, scores.argmax(axis=1)


def binary(intercept=Intercept.FREE, risk=Hinge, cost=0.1, **shape):
    X, codes = noisy(**shape)
    return Problem(as_rows(X), risk(2 * codes - 1, np.full(len(codes), cost)), intercept)


def multiclass(intercept=Intercept.FREE, cost=0.1, classes=4, **shape):
    X, codes = noisy(classes=classes, **shape)
    risk = CrammerSinger(codes, np.full(len(codes), cost), classes)
    return Problem(as_rows(X), risk, intercept)


def pairs_of(risk):
    """Return row, row and weight of each pair (m,)."""
    upper, lower = np.nonzero(
        (risk.member[:, None] == risk.member) & (risk.level[:, None] > risk.level)
    )
    return risk.rows[upper], risk.rows[lower], risk.weight[upper] * risk.weight[lower]


def ranking(cost=0.1, grades=5, **shape):
    X, _ = noisy(**shape)
    rng = np.random.default_rng(1)
    y = np.digitize(
        X.sum(axis=1) + 3 * rng.standard_normal(len(X)), np.linspace(-4, 4, grades - 1)
    )
    risk = PairwiseHinge(y, np.ones(len(X)), rng.integers(0, 3, len(X)))
    share = cost * len(X) / risk.weigh_pairs().sum()
    return Problem(as_rows(X), risk.scaled(np.full(3, share)), Intercept.NONE)


def solve(problem, method="ocas", tol=1e-3, state=None, smallest_step=0.02, **limits):
    limits.setdefault("max_iter", 3000)
    monitor = Monitor(tol=tol, **limits)
    solver = CuttingPlanes(method, CuttingPlaneSettings(smallest_step=smallest_step))
    return solver.solve(problem, state or State.zero(problem), monitor), monitor


@settings(deadline=None, max_examples=100)
@given(problem=problems(), method=st.sampled_from(METHODS))
def test_a_solved_problem_is_certified_at_the_exact_optimum(problem, method):
    state, monitor = solve(problem, method, tol=1e-4, max_iter=20_000)
    assert monitor.status == "converged"
    certificate = certify_state(problem, state)
    assert certificate.relative_gap <= 1.01e-4
    best = optimum(
        problem.rows.matrix,
        problem.risk.y,
        problem.risk.cost,
        loss=problem.risk.loss,
        intercept=problem.intercept,
    )
    slip = 1e-7 * max(1.0, abs(best))
    assert certificate.dual - slip <= best <= certificate.primal + slip


@settings(deadline=None, max_examples=60)
@given(
    problem=problems() | multiclass_problems() | ranking_problems(),
    smallest_step=st.sampled_from([0.0, 0.02]),
)
def test_ocas_never_loses_what_it_has(problem, smallest_step):
    """Its best objective never rises and its lower bound never falls."""
    _, monitor = solve(problem, "ocas", tol=1e-6, smallest_step=smallest_step, max_iter=300)
    assert_nothing_is_lost(monitor)


def assert_nothing_is_lost(monitor):
    primal = np.array([record.primal for record in monitor.history])
    dual = np.array([record.dual for record in monitor.history])
    # The last record is proved anew, and includes what rounding may have done.
    slip = monitor.certificate.rounding + 1e-9 * primal[:-1]
    assert np.all(np.diff(primal) <= slip)
    assert np.all(np.diff(dual) >= -slip)
    assert np.all(dual <= primal)


# Of problems whose intercept ran away, whose constraints were lost beside larger ones, or whose
# last plane was asked for again and again.
RUNAWAYS = [
    (1973945471, 7, 2, 4),
    (69948588, 8, 1, 3),
    (1821737898, 11, 1, 5),
    (28679533, 15, 2, 4),
    (1982721719, 14, 2, 5),
    (468187118, 7, 2, 5),
    (2096348033, 7, 1, 5),
]


def test_weights_that_do_not_balance_prove_nothing():
    """A class has no rows, and one has a ten-thousandth of the others' weight.

    Its constraint is then nearly a combination of the others, and weights that break it seem to
    prove too much.
    """
    X = np.zeros((3, 3))
    X[:, 2] = 4.180988467257788, -2.155971630897659, -8.652130762749417
    X[1, 1], X[2, 0] = -4.526492921104459, -20.19986129147251
    risk = CrammerSinger(np.array([0, 1, 3]), np.array([0.01, 300.0, 300.0]), 4)
    problem = Problem(as_rows(X), risk, Intercept.FREE)
    _, monitor = solve(problem, tol=1e-6, smallest_step=0.0, max_iter=50)
    assert monitor.status == "converged"
    assert_nothing_is_lost(monitor)


def test_what_is_left_of_a_weight_is_no_imbalance():
    """All planes with a weight balance, but for one of weight 1e-33: the bound counts."""
    X = 3.0 * np.random.RandomState(0).uniform(size=(20, 3))
    risk = Hinge(np.where(X[:, 0] < 1.0, 1, -1), np.ones(20))
    _, monitor = solve(Problem(as_rows(X), risk, Intercept.FREE), max_iter=100)
    assert monitor.status == "converged"
    assert monitor.iteration < 100


@pytest.mark.parametrize(("seed", "n", "d", "k"), RUNAWAYS)
def test_offsets_of_classes_that_hardly_count(seed, n, d, k):
    """Classes without rows, or of little weight beside others, hold hardly on to their offsets."""
    rng = np.random.default_rng(seed)
    X, y = np.round(rng.standard_normal((n, d)), 2), rng.integers(0, k, n)
    cost = 100.0 * rng.integers(0, 4, n)
    y[:2], cost[:2] = (0, 1), np.maximum(cost[:2], 0.01)
    problem = Problem(as_rows(X), CrammerSinger(y, cost, k), Intercept.FREE)
    state, monitor = solve(problem, tol=1e-6, max_iter=300)
    assert monitor.status == "converged"
    assert_nothing_is_lost(monitor)
    assert np.abs(state.offset).max() < 1e4


def test_a_line_on_which_nothing_bends_is_not_followed():
    """Its slope is rounding, and so would be everything that lies far along it."""
    risk = Hinge(np.array([1, -1]), np.ones(2))
    line = risk.line(np.zeros(2), np.full(2, 1e-300))
    for search in (exact, partial(bracketed, tolerance=0.0)):
        step, value = search(Penalty(0.0, -1e-30, 1.0), line, guess=0.1)
        assert step <= 1.0
        assert value == pytest.approx(3.0)


def test_a_plane_taken_where_pairs_are_at_the_margin_is_found_again():
    """One step ends where pairs are at the margin, the next leads along it to a plane.

    It is remembered by its point, whose scores are rounded otherwise when the bound is proved.
    """
    X = np.array(
        [
            [-0.7054978, -1.7744118],
            [1.406357, 0.92708653],
            [1.406357, 0.92708653],
            [-2.511678, -0.33629125],
            [-2.511678, -0.33629125],
            [-0.6130273, -0.7208992],
        ],
        dtype=np.float32,
    )
    weight, group = np.array([1.0, 1.0, 1.0, 2.0, 1.0, 3.0]), np.array([1, 1, 1, 0, 0, 0])
    risk = PairwiseHinge(np.array([2, 1, 0, 1, 0, 2]), weight, group)
    _, monitor = solve(Problem(as_rows(X), risk, Intercept.NONE), tol=1e-6, smallest_step=0.0)
    assert monitor.status == "converged"
    assert monitor.iteration < 20
    assert np.all(np.diff([record.dual for record in monitor.history]) >= -1e-9)


def test_a_very_long_step_leaves_true_scores():
    """A target next to the center may be the way to a point far off, rounding and all."""
    X = np.array([[0.0], [1.2304449632071826], [11.098881555693673], [0.0], [0.0], [-17.0]])
    weight = np.array([0.1, 0.1, 0.2, 0.2, 0.30000000000000004, 0.0])
    risk = PairwiseHinge(np.array([3, 2, 4, 1, 0, 0]), weight)
    problem = Problem(as_rows(X), risk, Intercept.NONE)
    _, monitor = solve(problem, tol=1e-8, smallest_step=0.02, max_iter=50)
    assert monitor.status == "converged"
    assert np.all(np.diff([record.primal for record in monitor.history]) <= 1e-9)


@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("make", [binary, multiclass])
def test_an_answer_to_a_very_long_step_is_true(make, intercept):
    problem = make(intercept)
    oracle = Oracle(problem, Monitor(1e-3, 1))
    w = 1e-9 * np.ones((problem.rows.n_features, *problem.risk.outputs))
    b = 1e-9 * np.ones(problem.risk.outputs)
    center, target = oracle.place(1e9 * w, 1e9 * b), oracle.place(1e9 * w - w, 1e9 * b - b)
    oracle.begin(center, State.zero(problem).dual)
    answer = oracle.step(center, target, lambda penalty, line: (9e8, 0.0), 0.0, 0.1)
    true = problem.rows.scores(oracle.split(answer.center)[0]) + oracle.split(answer.center)[1]
    np.testing.assert_allclose(answer.center.scores, true, rtol=1e-12, atol=1e-13)
    value = answer.center.penalty + problem.risk.value(true)
    assert answer.value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("make", [binary, multiclass])
def test_every_method_gets_there(method, intercept, make):
    problem = make(intercept)
    state, monitor = solve(problem, method)
    assert monitor.status == "converged"
    certificate = certify_state(problem, state)
    assert certificate.relative_gap <= 1e-3
    assert certificate.primal == pytest.approx(monitor.certificate.primal, rel=1e-12)
    assert certificate.dual == pytest.approx(monitor.certificate.dual, rel=1e-12)
    phases = {"scores", "planes", "reduced problem", "certificate"}
    if method != "cpa":
        phases.add("line search")
    assert monitor.history[-1].phases.keys() == phases


@settings(deadline=None, max_examples=100)
@given(problem=ranking_problems(), method=st.sampled_from(METHODS))
def test_ranking_is_classification_of_differences(problem, method):
    state, monitor = solve(problem, method, tol=1e-4, max_iter=20_000)
    assert monitor.status == "converged"
    certificate = certify_state(problem, state)
    assert certificate.relative_gap <= 1.01e-4
    X = problem.rows.matrix
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    upper, lower, cost = pairs_of(problem.risk)
    best = optimum(
        X[upper] - X[lower], np.ones(cost.size), cost, loss=HINGE, intercept=Intercept.NONE
    )
    slip = 1e-7 * max(1.0, abs(best))
    assert certificate.dual - slip <= best <= certificate.primal + slip


@pytest.mark.parametrize("method", METHODS)
def test_every_method_ranks(method):
    problem = ranking()
    state, monitor = solve(problem, method)
    assert monitor.status == "converged"
    certificate = certify_state(problem, state)
    assert certificate.primal == pytest.approx(monitor.certificate.primal, rel=1e-12)
    assert certificate.dual == pytest.approx(monitor.certificate.dual, rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_squared_hinge_agrees_with_coordinate_descent(method):
    problem = binary(risk=SquaredHinge)
    state, _ = solve(problem, method, tol=1e-5)
    other = CoordinateDescent("dcd").solve(problem, State.zero(problem), Monitor(1e-5, 10_000))
    certificate = certify_state(problem, state)
    assert certificate.primal == pytest.approx(certify_state(problem, other).primal, rel=2e-5)


def test_an_exact_step_saves_iterations_at_large_cost():
    problem = binary(Intercept.NONE, cost=10.0)
    iterations = {method: solve(problem, method)[1].iteration for method in ("cpa", "ocas")}
    assert iterations["cpa"] > 4 * iterations["ocas"]


def test_one_product_each_way_per_iteration():
    problem = binary()
    rows = FourMethods(problem.rows)
    _, monitor = solve(Problem(rows, problem.risk, problem.intercept))
    passes = Counter(name for name, _ in rows.made)
    # At the start the scores of zero and two planes, at the end the certificate.
    assert passes["scores"] == monitor.iteration + 2
    assert passes["combine"] == monitor.iteration + 3


def test_threads_split_the_rows_and_change_nothing():
    problem = multiclass(n=30_000, d=5)
    alone, _ = solve(problem)
    with threads.lent(3):
        assert len(threads.chunks(30_000, 1 << 30)) == 3
        together, _ = solve(problem)
        again, _ = solve(problem)
    np.testing.assert_array_equal(together.coef, again.coef)
    np.testing.assert_allclose(together.coef, alone.coef, atol=1e-6)
    assert certify_state(problem, together).relative_gap <= 1e-3


@pytest.mark.parametrize("make", [binary, multiclass, ranking])
@pytest.mark.parametrize("method", ["cpa", "ocas"])
def test_a_warm_start_at_the_solution_stops_at_once(make, method):
    problem = make()
    state, _ = solve(problem, method)
    again, monitor = solve(problem, method, state=state)
    assert monitor.iteration == 0
    assert certify_state(problem, again).relative_gap <= 1e-3


@pytest.mark.parametrize("make", [binary, ranking])
def test_a_warm_start_from_another_cost_is_faster(make):
    state, _ = solve(make(cost=0.1))
    problem = make(cost=0.15)
    cold = solve(problem)[1].iteration
    warm = solve(problem, state=state)[1].iteration
    assert warm < cold


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", [multiclass, ranking])
def test_limits_stop_with_an_honest_certificate(method, make):
    problem = make(cost=100.0)
    state, monitor = solve(problem, method, tol=1e-12, max_iter=7)
    assert monitor.status == "max_iter"
    assert monitor.iteration == 7
    certificate = certify_state(problem, state, monitor.tol)
    assert certificate.primal == pytest.approx(monitor.certificate.primal, rel=1e-12)
    assert certificate.dual == pytest.approx(monitor.certificate.dual, rel=1e-12)


def test_a_callback_that_stops_gets_a_certified_state():
    problem = binary()
    state, monitor = solve(problem, tol=1e-9, on_check=lambda record, state: True)
    assert monitor.status == "callback"
    assert certify_state(problem, state).dual == pytest.approx(monitor.certificate.dual)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("intercept", Intercept)
def test_rows_all_equal(method, intercept):
    y = np.repeat([1, -1], [30, 20])
    problem = Problem(as_rows(np.ones((50, 3))), Hinge(y, np.ones(50)), intercept)
    _, monitor = solve(problem, method)
    assert monitor.status == "converged"
    codes = np.repeat([0, 1, 2], [20, 20, 10])
    risk = CrammerSinger(codes, np.ones(50), 3)
    problem = Problem(as_rows(np.ones((50, 3))), risk, intercept)
    _, monitor = solve(problem, method)
    assert monitor.status == "converged"


@pytest.mark.parametrize("method", METHODS)
def test_rows_that_tell_nothing_leave_the_intercept_free_to_move(method):
    y = np.repeat([1, -1], [30, 20])
    problem = Problem(as_rows(np.zeros((50, 3))), Hinge(y, np.ones(50)), Intercept.FREE)
    state, monitor = solve(problem, method, smallest_step=0.0)
    assert monitor.status == "converged"
    assert monitor.certificate.primal == pytest.approx(40.0, rel=1.001e-3)
    # Searches that begin near the last step come nearer in several.
    assert monitor.iteration <= (10 if method in ("gca2", "tca") else 3)
    assert state.offset == pytest.approx(1.0, abs=5e-3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("intercept", Intercept)
def test_costs_so_large_that_planes_are_nearly_dependent(method, intercept):
    """An honest certificate, whether or not the gap closes."""
    for make in (binary, multiclass):
        problem = make(intercept, cost=1e9, n=300, d=4)
        state, monitor = solve(problem, method, max_iter=300)
        certificate = certify_state(problem, state)
        assert 0.0 <= certificate.dual <= certificate.primal * (1 + 1e-12)
        assert certificate.gap == pytest.approx(
            monitor.certificate.gap, rel=1e-9, abs=1e-9 * certificate.primal
        )
        if method == "ocas":
            assert certificate.relative_gap <= 1e-3


def test_separable_rows_at_any_cost():
    X, _ = noisy(n=200, d=50)
    y = np.where(X @ np.ones(50) > 0, 1, -1)
    problem = Problem(as_rows(X), Hinge(y, np.full(200, 1e8)), Intercept.FREE)
    _, monitor = solve(problem)
    assert monitor.status == "converged"


def test_small_steps_come_after_many_of_zero():
    """Hands of cards that tell nothing: for long, the best step is to stay at zero."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.integers(1, 5, (3000, 5)), rng.integers(1, 14, (3000, 5))].astype(float)
    shares = np.array([50, 42, 5, 2, 0.4, 0.2, 0.1, 0.1, 0.1, 0.1]) / 100
    risk = CrammerSinger(rng.choice(10, size=3000, p=shares), np.full(3000, 100 / 3000), 10)
    problem = Problem(as_rows(X), risk, Intercept.NONE)
    greedy = solve(problem, tol=1e-2, smallest_step=0.0)[1].iteration
    cured = solve(problem, tol=1e-2)[1].iteration
    assert cured < 0.5 * greedy


@pytest.mark.parametrize("method", ["cpa", "ocas", "gca", "gca2"])
def test_planes_too_steep_for_float64_bring_no_warning_of_numpy(method, recwarn):
    """Steps in a column that is a huge constant make slopes that have no squares."""
    y = np.arange(20) % 2
    for seed in range(4):
        X = np.c_[np.full(20, 1e16), np.random.default_rng(seed).standard_normal((20, 2))]
        model = LinearSVC(loss="squared_hinge", solver=method, C=1.0, max_iter=300).fit(X, y)
        assert np.isfinite(model.certificate_.gap)
    assert {warning.category for warning in recwarn} <= {ConvergenceWarning}
