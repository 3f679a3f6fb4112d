"""Rows with targets in place of labels: every solver finds the optimum, and proves it."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from blocks import Blocks
from exact import optimum_of
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import TARGET_RISKS, problems

from widemargin.certificate import certify_state
from widemargin.data import as_rows
from widemargin.losses import TARGET_LOSSES, Shape
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import MarginRisk, TargetRisk
from widemargin.solvers import auto
from widemargin.solvers.registry import Place, names

IN_MEMORY, ON_DISK = names(Place.MEMORY), names(Place.DISK)
# Coordinate descent needs very many visits of large values at large costs.
EASY = {"scales": (0.1, 1.0), "costs": (0.01, 1.0), "risks": TARGET_RISKS}


def solve(problem, solver, tol=1e-4, state=None, **limits):
    limits.setdefault("max_iter", 100_000)
    monitor = Monitor(tol=tol, **limits)
    made = auto.make(solver, problem.risk, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = made.solve(problem, state or State.zero(problem), monitor)
    return state, monitor


def assert_certified(problem, state, best, tol):
    certificate = certify_state(problem, state)
    slip = 1e-7 * max(1.0, abs(best))
    assert certificate.dual - slip <= best <= certificate.primal + slip
    assert certificate.gap <= 1.01 * tol * certificate.primal


@pytest.mark.parametrize("solver", IN_MEMORY)
@settings(deadline=None, max_examples=30)
@given(problem=problems(**EASY))
def test_every_solver_finds_the_optimum(solver, problem):
    state, monitor = solve(problem, solver)
    assert monitor.status == "converged"
    assert_certified(problem, state, optimum_of(problem), 1e-4)
    assert np.all(state.dual[problem.risk.cost == 0.0] == 0.0)


@settings(deadline=None, max_examples=60)
@given(problem=problems(risks=TARGET_RISKS), far=st.sampled_from([0.01, 1.0, 30.0]))
def test_newton_finds_the_optimum_for_targets_of_any_size(problem, far):
    risk = problem.risk.over(far * problem.risk.y + far, problem.risk.cost)
    problem = Problem(problem.rows, risk, problem.intercept)
    state, monitor = solve(problem, "newton")
    assert monitor.status == "converged"
    assert_certified(problem, state, optimum_of(problem), 1e-4)


@pytest.mark.parametrize("solver", ON_DISK)
@settings(deadline=None, max_examples=15)
@given(problem=problems(scales=(1.0,), costs=(0.1,), risks=TARGET_RISKS))
def test_every_solver_on_disk_finds_the_optimum(solver, problem):
    matrix = sp.csr_matrix(problem.rows.matrix).astype(np.float32)
    there = Problem(Blocks(matrix, 4), problem.risk, problem.intercept)
    state, monitor = solve(there, solver, tol=1e-2, max_time=20.0)
    assert monitor.status == "converged"
    near = Problem(as_rows(matrix), problem.risk, problem.intercept)
    assert_certified(there, state, optimum_of(near), 1e-2)


def made(loss, y, X=None, C=1.0, intercept=Intercept.FREE, **shape):
    X = np.random.default_rng(0).standard_normal((len(y), 3)) if X is None else X
    risk = TargetRisk(y, np.full(len(y), C), TARGET_LOSSES[loss](Shape(**shape)))
    return Problem(as_rows(X), risk, intercept)


@pytest.mark.parametrize("solver", IN_MEMORY)
@pytest.mark.parametrize("loss", TARGET_LOSSES)
@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("target", [0.0, 0.1, 3.0])
def test_targets_that_are_all_the_same(solver, loss, intercept, target):
    """With a free intercept the best objective is zero.

    Coordinate descent begins there. A line search may end beside it by a rounding error of b,
    in which losses with a kink are linear.
    """
    problem = made(loss, np.full(20, target), intercept=intercept)
    state, monitor = solve(problem, solver, tol=1e-3, max_iter=1000)
    certificate = certify_state(problem, state)
    if target == 0.0 or intercept is Intercept.FREE:
        assert certificate.primal <= (0.0 if solver in ("dcd", "acf") else 1e-13)
        np.testing.assert_allclose(state.coef, 0.0, atol=1e-12)
        assert state.offset == pytest.approx(target)
    else:
        assert monitor.status == "converged"


@pytest.mark.parametrize("solver", IN_MEMORY)
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("intercept", Intercept)
def test_a_tube_with_room_for_all_targets(solver, loss, intercept):
    y = np.random.default_rng(1).uniform(-0.9, 0.9, 30)
    problem = made(loss, y, intercept=intercept, epsilon=1.0)
    state, monitor = solve(problem, solver, max_iter=1000)
    assert monitor.status == "converged"
    assert monitor.certificate.primal == 0.0
    assert not state.coef.any()


@pytest.mark.parametrize("solver", IN_MEMORY)
@pytest.mark.parametrize("loss", TARGET_LOSSES)
def test_targets_that_are_met_exactly(solver, loss):
    X = np.random.default_rng(2).integers(-3, 4, (20, 3)).astype(np.float64)
    problem = made(loss, X @ [1.0, -2.0, 0.5] + 4.0, X, C=10.0)
    state, monitor = solve(problem, solver)
    assert monitor.status == "converged"
    assert_certified(problem, state, optimum_of(problem), 1e-4)


@pytest.mark.parametrize("solver", ["dcd", "acf", "newton", "ocas"])
@pytest.mark.parametrize("loss", TARGET_LOSSES)
@pytest.mark.parametrize("intercept", Intercept)
def test_rows_with_the_target_one_are_rows_with_a_positive_label(solver, loss, intercept):
    """The same steps, by the other kernels.

    The slope of a smoothed loss is z / delta: Newton's steps enlarge the roundings of z.
    """
    rtol = 1e-6 if solver == "newton" else 1e-9
    rng = np.random.default_rng(3)
    X, risk = rng.standard_normal((40, 5)), made(loss, np.ones(40), epsilon=0.1).risk
    problem = Problem(as_rows(X), risk, intercept)
    labelled = Problem(as_rows(X), one_label(risk), intercept)
    for tol in (1e-2, 1e-6):
        state, _ = solve(problem, solver, tol)
        other, _ = solve(labelled, solver, tol)
        np.testing.assert_allclose(state.coef, other.coef, rtol=rtol, atol=1e-12)
        np.testing.assert_allclose(state.dual, other.dual, rtol=rtol, atol=1e-12)


def one_label(risk):
    return MarginRisk(np.ones(risk.y.size, np.int8), risk.cost, risk.loss)


@pytest.mark.parametrize("solver", IN_MEMORY)
@pytest.mark.parametrize("loss", TARGET_LOSSES)
def test_a_start_at_the_solution_is_certified_at_once(solver, loss):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((80, 5))
    problem = made(loss, X.sum(axis=1) + rng.standard_normal(80) + 7.0, X, epsilon=0.1)
    state, first = solve(problem, solver, tol=1e-3)
    _, second = solve(problem, solver, tol=1e-3, state=state)
    assert second.status == "converged"
    assert second.iteration <= 0.2 * first.iteration
    assert second.certificate.primal <= first.certificate.primal * (1.0 + 1e-12)


@pytest.mark.parametrize("solver", [*IN_MEMORY, "stream", "bm", "sbm"])
@pytest.mark.parametrize("length", [1e30, 1e14])
def test_scores_beyond_single_precision(solver, length):
    """A fuzzer's find: rows of float32 and large targets made w infinite, and then NaN."""
    X = np.array(
        [[-2.5e-10, -8.6e-12, -1.0], [-2e-33, -6.7e-35, -7.4e-23], [1.8e-10, -6.2e-10, 1.0]]
    )
    y, cost = 1e15 * np.array([-12.5, 60.1, -1032.8]), np.array([7.3e8, 2.9e4, 1.1e-4])
    X = (length * X).astype(np.float32)
    rows = as_rows(X) if solver in IN_MEMORY else Blocks(X)
    loss = TARGET_LOSSES["huber"](Shape(delta=1.36))
    problem = Problem(rows, TargetRisk(y, cost, loss), Intercept.NONE)
    _, monitor = solve(problem, solver, max_iter=50)
    assert all(np.isfinite([each.primal, each.dual]).all() for each in monitor.history)
