"""Logistic risks: every solver finds the optimum of a conic solver, and proves it."""

import warnings
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from blocks import Blocks
from exact import logistic_optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from strategies import problems

from tests.four_methods import FourMethods
from widemargin.certificate import certify_state, lower_bound, upper_bound
from widemargin.data import as_rows
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import LogisticRisk
from widemargin.solvers import auto
from widemargin.solvers.registry import Place, RiskKind, names
from widemargin.solvers.smooth_newton import SmoothNewton, SmoothNewtonSettings

IN_MEMORY = names(Place.MEMORY, RiskKind.LOGISTIC)
ON_DISK = names(Place.DISK, RiskKind.LOGISTIC)
EASY = {"scales": (0.1, 1.0), "costs": (0.01, 1.0), "risks": (LogisticRisk,)}
SCALES = (1e-30, 1e-8, 1.0, 1e5, 1e16, 1e30)


def solve(problem, solver="newton", tol=1e-4, state=None, **limits):
    limits.setdefault("max_iter", 100_000)
    monitor = Monitor(tol=tol, **limits)
    made = auto.make(solver, problem.risk, seed=0) if isinstance(solver, str) else solver
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = made.solve(problem, state or State.zero(problem), monitor)
    return state, monitor


def optimum_of(problem):
    risk = problem.risk
    return logistic_optimum(problem.rows.matrix, risk.y, risk.cost, intercept=problem.intercept)


def assert_certified(problem, state, best, tol):
    certificate = certify_state(problem, state)
    slip = 1e-7 * max(1.0, abs(best))
    assert certificate.dual - slip <= best <= certificate.primal + slip
    assert certificate.gap <= 1.01 * tol * certificate.primal


@pytest.mark.parametrize("solver", IN_MEMORY)
@settings(deadline=None, max_examples=15)
@given(problem=problems(**EASY))
def test_every_solver_finds_the_optimum(solver, problem):
    state, monitor = solve(problem, solver)
    assert monitor.status == "converged"
    assert_certified(problem, state, optimum_of(problem), 1e-4)
    assert np.all(state.dual[problem.risk.cost == 0.0] == 0.0)


CONJUGATE = SmoothNewton(settings=SmoothNewtonSettings(cholesky_features=0))


@pytest.mark.parametrize("solver", [SmoothNewton(), CONJUGATE], ids=["cholesky", "cg"])
@settings(deadline=None, max_examples=40)
@given(problem=problems(risks=(LogisticRisk,)))
def test_newton_reaches_any_tolerance_in_a_few_iterations(solver, problem):
    state, monitor = solve(problem, solver, 1e-9, max_iter=2000)
    assert monitor.status == "converged"
    assert len(monitor.history) < 40
    assert_certified(problem, state, optimum_of(problem), 1e-9)


def test_the_gap_falls_faster_than_by_squares():
    """Half the squared gradient is the gap, and Newton's gradients fall quadratically."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    y = np.where(X[:, 0] + rng.standard_normal(300) > 0, 1, -1)
    for intercept in Intercept:
        problem = Problem(as_rows(X), LogisticRisk(y, np.full(300, 1.0)), intercept)
        _, monitor = solve(problem, tol=1e-9)
        gaps = [record.relative_gap for record in monitor.history]
        assert gaps[-1] <= max(1e-10, 100.0 * gaps[-2] ** 2)
        assert len(gaps) <= 8


@pytest.mark.parametrize("solver", ON_DISK)
@settings(deadline=None, max_examples=8)
@given(problem=problems(scales=(1.0,), costs=(0.1,), risks=(LogisticRisk,)))
def test_every_solver_on_disk_finds_the_optimum(solver, problem):
    matrix = sp.csr_matrix(problem.rows.matrix).astype(np.float32)
    there = Problem(Blocks(matrix, 4), problem.risk, problem.intercept)
    state, monitor = solve(there, solver, tol=1e-3, max_time=20.0)
    assert monitor.status == "converged"
    near = Problem(as_rows(matrix), problem.risk, problem.intercept)
    assert_certified(there, state, optimum_of(near), 1e-3)


@pytest.mark.parametrize("solver", names(Place.PRODUCTS, RiskKind.LOGISTIC))
def test_rows_known_by_products_alone(solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    y = np.where(X[:, 0] > 0, 1, -1)
    for intercept in Intercept:
        problem = Problem(FourMethods(as_rows(X)), LogisticRisk(y, np.ones(60)), intercept)
        state, monitor = solve(problem, solver, 1e-3)
        assert monitor.status == "converged"
        best = logistic_optimum(X, y, np.ones(60), intercept=intercept)
        assert_certified(problem, state, best, 1e-3)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_the_same_as_scikit_learn(C):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 6)) * 10.0 ** rng.integers(-1, 2, 6)
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(200) > 0.2, 1, -1)
    peer = LogisticRegression(C=C, tol=1e-10, solver="newton-cholesky", max_iter=1000).fit(X, y)
    problem = Problem(as_rows(X), LogisticRisk(y, np.full(200, C)), Intercept.FREE)
    state, monitor = solve(problem, tol=1e-10)
    assert monitor.status in ("converged", "rounding")
    np.testing.assert_allclose(state.coef, peer.coef_[0], rtol=1e-5, atol=1e-7)
    assert state.offset == pytest.approx(peer.intercept_[0], rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("C", [1e-10, 1.0, 1e10])
@pytest.mark.parametrize("scale", SCALES)
def test_rows_of_any_size_end_with_a_true_certificate(scale, C, intercept):
    rng = np.random.default_rng(2)
    X = scale * rng.standard_normal((40, 3))
    X[20:30] = X[:10]
    X = np.c_[X, np.full(40, scale)]
    for y in (np.where(X[:, 0] > 0, 1, -1), np.where(rng.random(40) < 0.5, 1, -1)):
        problem = Problem(as_rows(X), LogisticRisk(y, np.full(40, C)), intercept)
        state, monitor = solve(problem, tol=1e-6, max_iter=500)
        assert monitor.status in ("converged", "rounding", "max_iter")
        assert np.isfinite(state.coef).all()
        certificate = certify_state(problem, state)
        assert Decimal(certificate.primal) >= exact_objective(problem, X, state)
        if scale * scale * C < 1e16:  # else a constant feature's rounding is larger than tol
            assert monitor.status == "converged"


@pytest.mark.parametrize("seed", [4, 5, 8, 9, 10, 12])
def test_an_objective_that_falls_by_many_orders_of_magnitude(seed):
    """What is summed up step by step is then less than its rounding, and may be negative."""
    rng = np.random.default_rng(seed)
    X = 1e30 * np.c_[rng.standard_normal((40, 3)), np.ones(40)]
    risk = LogisticRisk(np.where(X[:, 0] > 0, 1, -1), np.ones(40))
    problem = Problem(as_rows(X), risk, Intercept.PENALIZED)
    state, monitor = solve(problem, tol=1e-6, max_iter=150)
    assert monitor.status in ("converged", "rounding", "max_iter")
    assert min(record.gap for record in monitor.history) >= 0.0
    assert Decimal(certify_state(problem, state).primal) >= exact_objective(problem, X, state)


def exact_objective(problem, X, state):
    risk = problem.risk
    with localcontext() as context:
        context.prec = 400  # of 1 + exp(-m), up to the smallest floats
        context.Emin, context.Emax = -(10**9), 10**9
        coef = [Fraction(w) for w in state.coef.tolist()]
        total = sum(w * w for w in coef) / 2
        if problem.intercept is Intercept.PENALIZED:
            total += Fraction(state.offset) ** 2 / 2
        total = Decimal(total.numerator) / Decimal(total.denominator)
        for x, y, c in zip(np.asarray(X, dtype=np.float64).tolist(), risk.y, risk.cost.tolist()):
            s = sum((Fraction(a) * w for a, w in zip(x, coef)), Fraction(state.offset))
            m = int(y) * Decimal(s.numerator) / Decimal(s.denominator)
            loss = (1 + (-abs(m)).exp()).ln() if abs(m) < 10**6 else Decimal(0)
            total += Decimal(c) * (loss + max(-m, Decimal(0)))
    return total


def exact_dual(problem, X, A):
    """The dual at feasible A, without a free intercept."""
    risk = problem.risk
    with localcontext() as context:
        context.prec = 60
        context.Emin, context.Emax = -(10**9), 10**9
        columns = [*np.asarray(X, dtype=np.float64).T.tolist()]
        if problem.intercept is Intercept.PENALIZED:
            columns.append([1.0] * len(A))
        A = [Fraction(a) for a in A.tolist()]
        w = [sum(Fraction(x) * a for x, a in zip(column, A)) for column in columns]
        square = sum(v * v for v in w) / 2
        total = -Decimal(square.numerator) / Decimal(square.denominator)
        for a, y, c in zip(A, risk.y, risk.cost.tolist()):
            alpha = int(y) * a
            for part in (alpha, Fraction(c) - alpha):
                p = Decimal(part.numerator) / Decimal(part.denominator)
                total -= p * (p / Decimal(c)).ln() if p > 0 else 0
    return total


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from(SCALES),
    far=st.booleans(),
    intercept=st.sampled_from([Intercept.NONE, Intercept.PENALIZED]),
)
def test_bounds_hold_in_exact_arithmetic(seed, scale, far, intercept):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    X = scale * rng.standard_normal((n, d)) + (1e10 * scale if far else 0.0)
    y = np.where(rng.random(n) < 0.5, 1, -1)
    risk = LogisticRisk(y, 10.0 ** rng.integers(-9, 9, n))
    problem = Problem(as_rows(X), risk, intercept)
    offset = float(rng.standard_normal()) if intercept is Intercept.PENALIZED else 0.0
    state = State(rng.standard_normal(d) / scale, offset, None)
    for tol in (1e-1, 1e-12):  # the second one is proved in twice the precision
        upper = upper_bound(problem, state.coef, offset, tol=tol)
        assert Decimal(upper.value) >= exact_objective(problem, X, state)
        alpha = risk.cost * rng.random(n) ** 8
        lower, _ = lower_bound(problem, alpha, tol)
        assert Decimal(lower.value) <= exact_dual(problem, X, alpha * y)


def test_a_warm_start_ends_at_once():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 3)), np.where(rng.random(50) < 0.5, 1, -1)
    problem = Problem(as_rows(X), LogisticRisk(y, np.ones(50)), Intercept.FREE)
    state, _ = solve(problem, tol=1e-8)
    _, monitor = solve(problem, tol=1e-8, state=state)
    assert monitor.iteration == 0


def test_limits_leave_a_certificate():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 3)), np.where(rng.random(50) < 0.5, 1, -1)
    problem = Problem(as_rows(X), LogisticRisk(y, np.full(50, 100.0)), Intercept.FREE)
    state, monitor = solve(problem, tol=1e-12, max_iter=1)
    assert monitor.status == "max_iter"
    assert certify_state(problem, state).primal == pytest.approx(monitor.certificate.primal)
    state, monitor = solve(problem, tol=1e-12, on_check=lambda record, state: True)
    assert monitor.status == "callback"
    assert certify_state(problem, state).gap == pytest.approx(monitor.certificate.gap)


@pytest.mark.parametrize(("C", "tol", "chosen"), [(1.0, 1e-3, "dcd"), (1.0, 1e-9, "newton")])
def test_small_costs_are_for_coordinate_descent(C, tol, chosen):
    X = sp.random(50, 2000, 0.01, "csr", random_state=0, dtype=np.float64)
    rows, y = as_rows(X), np.resize([1, -1], 50)
    assert auto.choose(rows, LogisticRisk(y, np.full(50, C)), tol=tol) == chosen
    assert auto.choose(rows, LogisticRisk(y, np.full(50, 1e6 * C)), tol=tol) == "newton"
    assert auto.choose(FourMethods(rows), LogisticRisk(y, np.full(50, C)), tol=tol) == "newton"


def test_a_hessian_of_many_features_is_made_only_after_many_steps(monkeypatch):
    rng = np.random.default_rng(0)
    X = sp.random(300, 200, 0.2, "csr", random_state=0, dtype=np.float64)
    y = np.where(rng.random(300) < 0.5, 1, -1)
    made = []
    moments = type(as_rows(X)).moments
    monkeypatch.setattr(
        type(as_rows(X)), "moments", lambda *given: made.append(1) or moments(*given)
    )
    for C, expected in ((1e-3, False), (1e4, True)):
        made.clear()
        problem = Problem(as_rows(X), LogisticRisk(y, np.full(300, C)), Intercept.FREE)
        _, monitor = solve(problem, tol=1e-8)
        assert monitor.status == "converged"
        assert bool(made) == expected
