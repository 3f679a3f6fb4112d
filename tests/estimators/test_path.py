"""Paths over C: warm starts are for speed, never for other results."""

import signal
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from blocks import Blocks
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from strategies import multiclass_problems, problems

from widemargin import LinearSVC, LinearSVCCV, svm_path
from widemargin.data import as_rows
from widemargin.data.subset import Subset
from widemargin.estimators.path import CostPath
from widemargin.estimators.starts import Trail, carried
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Hinge
from widemargin.solvers import auto
from widemargin.solvers.coordinate import CoordinateDescent
from widemargin.solvers.newton import Newton

_random = np.random.default_rng(0)
X = _random.normal(size=(150, 6))
Y = (X @ _random.normal(size=6) + 2 * _random.normal(size=150) > 0).astype(int)
Y3 = np.digitize(X[:, 0] + _random.normal(size=150), [-0.5, 0.5])
COSTS = np.logspace(-2, 1, 5)

SETTINGS = [
    (Y, {}),
    (Y, {"loss": "hinge", "penalized_intercept": True}),
    (Y3, {"loss": "hinge"}),
    (Y3, {"fit_intercept": False, "class_weight": "balanced"}),
    (Y3, {"multi_class": "crammer_singer"}),
    (Y, {"solver": "ocas"}),
    (Y3, {"solver": "newton", "loss": "hinge"}),
]


@pytest.mark.parametrize(("y", "parameters"), SETTINGS)
def test_the_same_as_separate_fits(y, parameters):
    """Each is within its certified gap of the optimum, and the bounds of both agree."""
    path = svm_path(X, y, Cs=COSTS, random_state=0, **parameters)
    assert path.statuses == ["converged"] * 5
    for place, C in enumerate(COSTS):
        separate = LinearSVC(C=C, random_state=0, **parameters).fit(X, y)
        assert path.coefs[place].shape == separate.coef_.shape
        assert path.intercepts[place].shape == separate.intercept_.shape
        found, other = path.certificates[place], separate.certificate_
        for part in found.parts or (found,):
            assert part.relative_gap <= 1e-3
        assert found.dual <= other.primal * (1 + 1e-9)
        assert other.dual <= found.primal * (1 + 1e-9)
    np.testing.assert_array_equal(path.classes, np.unique(y))


def test_predictions_at_tight_tolerance():
    path = svm_path(X, Y3, Cs=COSTS, tol=1e-10, random_state=0)
    for place, C in enumerate(COSTS):
        separate = LinearSVC(C=C, tol=1e-10, random_state=0).fit(X, Y3)
        np.testing.assert_allclose(path.coefs[place], separate.coef_, atol=1e-3)
        np.testing.assert_allclose(path.intercepts[place], separate.intercept_, atol=1e-3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_warm_starts_take_fewer_passes(load, loss):
    rows, y = load(return_X_y=True)
    rows = scale(rows)
    costs = np.logspace(-3, 2, 12)
    settings = {"loss": loss, "solver": "dcd", "random_state": 0}
    path = svm_path(rows, y, Cs=costs, **settings)
    cold = sum(LinearSVC(C=C, **settings).fit(rows, y).n_iter_ for C in costs)
    print(f"{load.__name__}, {loss}: {path.n_iter.sum()} passes, {cold} without warm starts")
    assert path.n_iter.sum() < 0.9 * cold


def test_order_is_that_of_the_costs_given():
    order = [3, 0, 4, 2, 1]
    path = svm_path(X, Y, Cs=COSTS, random_state=0)
    other = svm_path(X, Y, Cs=COSTS[order], random_state=0)
    np.testing.assert_array_equal(other.Cs, COSTS[order])
    np.testing.assert_array_equal(other.coefs, path.coefs[order])
    assert other.certificates == [path.certificates[place] for place in order]


def test_costs_by_number():
    path = svm_path(X, Y, Cs=4, tol=0.1)
    np.testing.assert_allclose(path.Cs, [1e-3, 1e-1, 1e1, 1e3])


@pytest.mark.parametrize("Cs", [0, -1, [], [[1.0]], [1.0, -1.0], [np.nan], [np.inf], "all", None])
def test_costs_that_are_none(Cs):
    with pytest.raises(ValueError, match="Cs"):
        svm_path(X, Y, Cs=Cs)


@pytest.mark.parametrize("name", ["C", "probability", "warm_start", "checkpoint"])
def test_parameters_of_no_use(name):
    with pytest.raises(TypeError, match=f"svm_path takes no {name}"):
        svm_path(X, Y, **{name: 1})


def test_layouts_threads_and_weights():
    weights = _random.integers(0, 3, Y3.size)
    expected = svm_path(X, Y3, Cs=COSTS, sample_weight=weights, tol=1e-8, random_state=0)
    for rows in (sp.csr_matrix(X), np.float32(X), Blocks(X, 40)):
        found = svm_path(
            rows, Y3, Cs=COSTS[:2], sample_weight=weights, tol=1e-6, random_state=0, n_jobs=2
        )
        for one, other in zip(found.certificates, expected.certificates):
            assert one.primal == pytest.approx(other.primal, rel=1e-5)
    again = svm_path(X, Y3, Cs=COSTS, sample_weight=weights, tol=1e-8, random_state=0)
    np.testing.assert_array_equal(again.coefs, expected.coefs)


@pytest.mark.parametrize("solver", ["dcd", "acf", "ocas"])
def test_going_ahead_changes_nothing(solver):
    settings = {"Cs": COSTS, "loss": "hinge", "solver": solver, "tol": 1e-4, "random_state": 0}
    alone, side_by_side = (svm_path(X, Y3, n_jobs=n_jobs, **settings) for n_jobs in (1, 2))
    np.testing.assert_array_equal(side_by_side.coefs, alone.coefs)
    np.testing.assert_array_equal(side_by_side.n_iter, alone.n_iter)


@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_states_are_let_go_when_their_problems_go_on(solver, monkeypatch):
    """Of all costs together no more states are held than there are problems, and one."""
    made, alive = [], []

    def note(states):
        made.extend(map(weakref.ref, states))
        alive.append(sum(state() is not None for state in made))
        return states

    for kind in (Newton, CoordinateDescent):
        solve = kind.solve
        monkeypatch.setattr(kind, "solve", lambda *given, solve=solve: note([solve(*given)])[0])
    y = np.digitize(X[:, 0], np.quantile(X[:, 0], np.linspace(0, 1, 13)[1:-1]))
    svm_path(X, y, Cs=COSTS, loss="hinge", solver=solver, random_state=0)
    assert len(made) == 12 * COSTS.size
    assert max(alive) <= 12 + 1


def test_an_error_ends_what_was_begun_ahead():
    rng = np.random.default_rng(0)
    rows, y = rng.standard_normal((2000, 50)), rng.integers(0, 2, 2000)

    def scorer(model, X, y):
        raise RuntimeError("no score")

    # At the second cost each fold would take hours.
    search = LinearSVCCV(
        Cs=[1e-6, 1e4], cv=2, loss="hinge", solver="dcd", scoring=scorer, n_jobs=2,
        tol=1e-9, max_iter=10**9,
    )  # fmt: skip
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="no score"):
        search.fit(rows, y)
    assert threading.active_count() == before


def test_a_limit_is_told_once():
    with pytest.warns(ConvergenceWarning, match=r"of 5 trainings .* max_iter=2 ") as caught:
        path = svm_path(X, Y, Cs=COSTS, tol=1e-12, max_iter=2, solver="dcd", random_state=0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "max_iter" in path.statuses


@pytest.mark.usefixtures("time_by_looks")
def test_time_is_shared():
    rng = np.random.default_rng(0)
    rows, y = rng.standard_normal((2000, 50), dtype=np.float32), rng.integers(0, 2, 2000)
    with pytest.warns(ConvergenceWarning):
        svm_path(rows[:50], y[:50], Cs=2, tol=1e-12, max_iter=1, solver="dcd")  # compiles
    with pytest.warns(ConvergenceWarning, match=r"max_time=0\.5"):
        path = svm_path(
            rows, y, Cs=[1e3, 1e4, 1e5], tol=1e-12, max_time=0.5, max_iter=10**9, solver="dcd"
        )
    assert path.statuses == ["max_time"] * 3
    assert path.n_iter.min() > 1


def test_ctrl_c_keeps_what_was_reached(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    advance = CostPath.advance

    def press_at_second(self, C):
        if COSTS[1] == C:
            signal.raise_signal(signal.SIGINT)
        advance(self, C)

    monkeypatch.setattr(CostPath, "advance", press_at_second)
    try:
        path = svm_path(X, Y, Cs=COSTS[::-1], tol=1e-12, random_state=0)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    np.testing.assert_array_equal(path.Cs, COSTS[1::-1])
    assert path.statuses == ["interrupted", "converged"]
    assert 0.0 <= path.certificates[0].relative_gap <= 1.0


def test_verbose_in_a_log_file():
    code = (
        "import numpy as np; from widemargin import svm_path, progress\n"
        "progress._SECONDS_BETWEEN_LOG_LINES = 0.0\n"
        "X = np.random.default_rng(0).normal(size=(60, 3))\n"
        "svm_path(X, X[:, 0] > 0, Cs=[0.1, 1], verbose=1, random_state=0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "\x1b" not in done.stderr
    first, second, last = done.stderr.splitlines()
    assert "1 of 2 values of C" in first
    assert "C = 1: objective" in second
    assert last.endswith("2 of 2 values of C")


# --- parts ----------------------------------------------------------------------------------


@given(st.one_of(problems(), multiclass_problems()), st.sampled_from([1.0, 1.5, 4.0, 100.0]))
@settings(max_examples=40)
def test_the_factor_is_the_best_between(problem, ratio):
    """Of all multiples of a solution's dual variables from 1 to ratio, none has a higher dual."""
    from widemargin.certificate import lower_bound

    solver = auto.make("dcd", problem.risk, seed=0)
    monitor = Monitor(tol=1e-6, max_iter=300)
    state = solver.solve(problem, State.zero(problem), monitor)
    assume(monitor.status == "converged")
    risk = problem.risk
    raised = (
        type(risk)(risk.y, ratio * risk.cost, *risk.outputs)
        if risk.outputs
        else risk.over(risk.y, ratio * risk.cost)
    )
    later = Problem(problem.rows, raised, problem.intercept)
    start = carried(later, state, ratio)
    assert start.coef is state.coef
    if problem.intercept is Intercept.FREE:
        return  # balancing may cost any multiple something
    (best, _), _ = lower_bound(later, start.dual)
    for factor in np.linspace(1.0, ratio, 7):
        (other, _), _ = lower_bound(later, factor * state.dual)
        assert best >= other - 1e-3 * abs(other) - 1e-9


def _solved(rows, y, C, intercept=Intercept.PENALIZED):
    problem = Problem(rows, Hinge(y, np.full(len(y), C)), intercept)
    monitor = Monitor(tol=1e-12, max_iter=10_000)
    return problem, auto.make("acf", problem.risk, seed=0).solve(
        problem, State.zero(problem), monitor
    )


def test_a_trail_leads_to_the_solution():
    """Where no row reaches or leaves a bound, solutions are linear in C: on both sides of 1."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    y = np.where(X[:, 0] + rng.normal(size=40) > 0.0, 1, -1)
    rows = as_rows(X)
    costs = 1.0, 1.001, 1.003
    (_, first), (_, second), (problem, last) = (_solved(rows, y, C) for C in costs)
    assert np.any((second.dual > 0.0) & (second.dual < costs[1]))  # some are free
    trail = Trail.of(first.dual, costs[0], second.dual, np.full(40, costs[1]), costs[1])
    start = trail.followed(problem, second, *costs[1:])
    np.testing.assert_allclose(start.dual, last.dual, atol=2e-5)
    assert np.abs(second.dual - last.dual).max() > 1e-3
    assert start.coef is second.coef


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.01, 3.0, 1e4]))
@settings(max_examples=20)
def test_a_trail_keeps_the_bounds(seed, C):
    rng = np.random.default_rng(seed)
    cost = rng.random(30) * (rng.random(30) < 0.8)
    before, now = (np.clip(f * rng.normal(size=30), 0.0, f * cost) for f in (0.5, 1.0))
    problem = Problem(as_rows(rng.normal(size=(30, 2))), Hinge(np.ones(30), C * cost))
    state = State(np.zeros(2), 0.0, now)
    dual = Trail.of(before, 0.5, now, cost, 1.0).followed(problem, state, 1.0, C).dual
    assert np.all((dual >= 0.0) & (dual <= C * cost))
    assert np.all(dual[now == 0.0] == 0.0)
    at_bound = (now == cost) & (cost > 0.0)
    np.testing.assert_allclose(dual[at_bound], C * cost[at_bound])


def test_a_path_leaves_a_trail(monkeypatch):
    """Of a hinge, in coordinate descent, and from the third cost on."""
    followed = []
    lead = Trail.followed

    def spied(self, problem, state, former_C, C):
        followed.append((former_C, C))
        return lead(self, problem, state, former_C, C)

    monkeypatch.setattr(Trail, "followed", spied)
    Cs = [0.1, 0.2, 0.5, 1.0]
    svm_path(X, Y, Cs=Cs, solver="acf", loss="hinge", n_jobs=1)
    assert followed == [(0.2, 0.5), (0.5, 1.0)]
    followed.clear()
    svm_path(X, Y, Cs=Cs, solver="acf", loss="squared_hinge")
    svm_path(X, Y, Cs=Cs, solver="newton", loss="hinge")
    assert followed == []


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_a_subset_is_a_copy(seed):
    rng = np.random.default_rng(seed)
    rows = as_rows(rng.normal(size=(12, 3)))
    index = rng.integers(0, 12, rng.integers(1, 20))
    subset, copied = Subset(rows, index), rows.take(index)
    assert (subset.n_rows, subset.n_features) == (index.size, 3)
    W, G = rng.normal(size=(3, 2)), rng.normal(size=(index.size, 2))
    np.testing.assert_allclose(subset.scores(W), copied.scores(W))
    np.testing.assert_allclose(subset.combine(G), copied.combine(G), atol=1e-12)
    np.testing.assert_allclose(subset.combine(G[:, 0]), copied.combine(G[:, 0]), atol=1e-12)
    np.testing.assert_allclose(subset.squared_norms(), copied.squared_norms())
    some = rng.integers(0, index.size, 4)
    np.testing.assert_allclose(subset.take(some).scores(W), copied.take(some).scores(W))
