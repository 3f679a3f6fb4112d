from types import SimpleNamespace

import exact
import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.certificate import certify_state
from widemargin.data import as_rows
from widemargin.kernels import face as kernels
from widemargin.kernels.forecast import CHECKED_AT, MOST_PASSES, TOL
from widemargin.losses import Loss
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Hinge, SquaredHinge, TargetRisk
from widemargin.solvers.coordinate import CoordinateDescent, _Descent
from widemargin.solvers.face import Face
from widemargin.solvers.settings import CoordinateSettings, JointSettings


def never():
    return False


def gap_of(face, change, residual):
    """The gap contributions of a face's rows, after a change that leaves this residual."""
    loss = face.low, face.high, face.bend
    square = face.numbers[kernels.W_SQUARE]
    of_rows = face.system, face.y
    return kernels.gap_of(*of_rows, *loss, square, face.root * change, residual / face.root)


def Pinball(y, cost):
    return TargetRisk(np.linspace(1.0, 3.0, y.size), cost, Loss("pinball", low=-0.01))


class Dense:
    """A face, and beside it r and Q written out: rows less a mean, one constant feature more."""

    def __init__(self, risk_type, n=12, d=30, seed=0, X=None, y=None):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, d)) if X is None else X
        y = rng.choice([-1, 1], n) if y is None else y
        n, d = X.shape
        self.cost = rng.uniform(1.0, 2.0, n)
        self.alpha = rng.uniform(0.2, 0.8, n) * self.cost
        w, mean = rng.standard_normal(d) / d, rng.standard_normal(d) / d
        b, z, constant = 0.3, -0.2, 0.1
        mean_dot, k = X @ mean, mean @ mean + constant
        risk = risk_type(y, self.cost)
        norms = (X * X).sum(axis=1)
        offset = np.array([b, z, k])
        place = as_rows(X), np.arange(n), risk
        self.face = Face(*place, self.alpha, w, offset, norms, mean_dot)
        shift = 0.5 / self.cost if risk.loss.is_smooth else np.zeros(n)
        centred, y = X - mean, np.asarray(risk.sign)
        self.Q = np.outer(y, y) * (centred @ centred.T + constant) + np.diag(shift)
        scores = X @ w + b + z * (k - mean_dot)
        self.r = risk.target - y * scores - shift * self.alpha
        self.upper = np.inf if risk.loss.is_smooth else self.cost
        self.X, self.y = X, y

    def gain(self, change):
        return self.r @ change - 0.5 * change @ self.Q @ change


@pytest.mark.parametrize("risk", [Hinge, SquaredHinge, Pinball])
def test_the_system_is_solved(risk):
    dense = Dense(risk)
    change, left, _, n_iter = dense.face.solve(0.0, np.inf, 200, never)
    np.testing.assert_allclose(change, np.linalg.solve(dense.Q, dense.r), rtol=1e-5)
    assert n_iter <= 4 * dense.y.size
    assert np.abs(left).max() < 1e-6 * np.abs(dense.r).max()


@pytest.mark.parametrize("risk_type", [Hinge, SquaredHinge, Pinball])
def test_the_gap_of_its_rows(risk_type):
    """That between alpha, w = X^T (alpha y), and the best of some multiples of the point ahead."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 80)), rng.choice([-1, 1], 60)
    alpha = rng.uniform(0.02, 0.04, 60)
    risk = risk_type(y, np.full(60, 2.0))
    y = np.asarray(risk.sign)
    w, norms = X.T @ (alpha * y), (X * X).sum(axis=1)
    face = Face(as_rows(X), np.arange(len(X)), risk, alpha, w, np.zeros(3), norms, np.empty(0))
    change, *_ = face.solve(0.0, np.inf, 6, never)
    ahead = w + X.T @ (change * y)
    shift = 0.25 if risk.loss.is_smooth else 0.0
    residual = risk.target - y * (X @ ahead) - shift * (alpha + change)

    def gap(factor):
        primal = 0.5 * factor**2 * ahead @ ahead + risk.value(factor * (X @ ahead))
        return primal - (risk.dual(alpha * y) - 0.5 * w @ w)

    here, usual = gap_of(face, change, residual), np.abs(risk.residuals(X @ ahead)).mean()
    assert here == pytest.approx(min(gap(1.0 + usual * lift) for lift in (0.0, 1.0, 2.0, 4.0)))


def test_it_ends_when_the_gap_of_its_rows_is_small():
    dense = Dense(Hinge, n=60, d=80)
    gaps = []
    for most in (4, 8, 12):
        change, *_ = dense.face.solve(0.0, np.inf, most, never)
        gaps.append(gap_of(dense.face, change, dense.r - dense.Q @ change))
    assert gaps[0] > gaps[1] > gaps[2]
    _, left, gap, n_iter = dense.face.solve(0.5 * (gaps[1] + gaps[2]), np.inf, 1000, never)
    assert left is None
    assert gap == pytest.approx(gaps[2])
    assert n_iter == 12


def test_it_ends_where_passes_are_as_fast():
    dense = Dense(Hinge, n=60, d=80)
    assert dense.face.solve(0.0, 0.0, 1000, never)[3] == 8  # at the second look


@pytest.mark.parametrize("risk", [Hinge, SquaredHinge])
@pytest.mark.parametrize("seed", range(5))
def test_a_step_keeps_bounds_and_raises_the_dual(risk, seed):
    dense = Dense(risk, n=40, d=20, seed=seed)  # more rows than features: bounds are met
    solution = dense.face.solve(0.0, np.inf, 30, never)[:2]
    _, change, (combined, z, w_mean_dot) = dense.face.step(*solution)
    after = dense.alpha + change
    assert np.all(after >= 0.0)
    assert np.all(after <= dense.upper)
    assert dense.gain(change) > 0.0
    signed = change * dense.y
    np.testing.assert_allclose(combined, dense.X.T @ signed)
    assert z == pytest.approx(signed.sum())
    assert w_mean_dot == pytest.approx(signed @ dense.face.mean_dot)


@pytest.mark.parametrize("risk", [Hinge, SquaredHinge, Pinball])
def test_gains_and_the_diagonal(risk):
    dense = Dense(risk)
    change = np.random.default_rng(1).uniform(-0.1, 0.1, dense.y.size)
    step = dense.face._better(change, SimpleNamespace(gain=-np.inf))
    assert step.gain == pytest.approx(dense.gain(change))
    np.testing.assert_allclose(dense.face.root**2, np.diag(dense.Q))


def test_a_step_is_none_where_all_is_best():
    dense = Dense(Hinge)
    dense.face.residual = np.zeros_like(dense.r)
    _, change, (combined, z, w_mean_dot) = dense.face.step(dense.r, None)
    assert not change.any()
    assert not combined.any()
    assert z == w_mean_dot == 0.0


def test_rows_that_contradict_each_other_go_to_their_bounds():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((3, 10)), 2, axis=0)
    y = np.tile([1, -1], 3)
    risk, norms = Hinge(y, np.full(6, 50.0)), (X * X).sum(axis=1)
    alpha = np.full(6, 0.1)
    place = as_rows(X), np.arange(6), risk
    face = Face(*place, alpha, np.zeros(10), np.zeros(3), norms, np.empty(0))
    change, left, *_ = face.solve(0.0, np.inf, 100, never)
    np.testing.assert_allclose(left * norms, np.ones(6))  # nothing takes it away
    _, change, (combined, *_) = face.step(change, left)
    np.testing.assert_allclose(alpha + change, 50.0)
    np.testing.assert_allclose(combined, 0.0, atol=1e-10)


def contradictory_text(n=600, d=500, twins=20, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.05, format="csr", random_state=rng)
    y = np.where(X @ rng.standard_normal(d) > 0, 1, -1)
    return sp.vstack([X, X[:twins]], format="csr"), np.concatenate([y, -y[:twins]])


def solve(problem, tol=1e-3, max_iter=100_000, **changes):
    """Solve with changes of the settings; return state and monitor."""
    monitor = Monitor(tol=tol, max_iter=max_iter)
    solver = CoordinateDescent("acf", seed=0, settings=CoordinateSettings(**changes))
    return solver.solve(problem, State.zero(problem), monitor), monitor


@pytest.mark.parametrize("risk", [Hinge, SquaredHinge])
@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("layout", ["csr", "dense"])
def test_where_passes_crawl_faces_are_solved(risk, intercept, layout):
    X, y = contradictory_text()
    rows = as_rows(X.toarray() if layout == "dense" else X)
    problem = Problem(rows, risk(y, np.full(y.size, 1e4)), intercept)
    # The fraction of free rows is larger in so small a problem.
    state, monitor = solve(problem, joint=JointSettings(largest=0.9))
    assert monitor.status == "converged"
    assert monitor.history[-1].phases["faces"] > 0.0
    certificate = certify_state(problem, state)
    assert certificate.relative_gap <= 1e-3
    best = exact.optimum(X, y, problem.risk.cost, loss=problem.risk.loss, intercept=intercept)
    assert certificate.dual <= best * (1 + 1e-6)
    assert certificate.primal >= best * (1 - 1e-6)
    without = solve(problem, max_iter=2 * monitor.iteration, joint=JointSettings(largest=0.0))
    assert without[1].status == "max_iter"


@pytest.mark.parametrize("risk", [Hinge, SquaredHinge])
@pytest.mark.parametrize("intercept", Intercept)
def test_ahead_free_rows_are_where_they_should_be(risk, intercept):
    X, y = contradictory_text(n=300, twins=0)
    X = X.toarray() + 0.3  # rows have a large part in common, and are taken less their mean
    problem = Problem(as_rows(X), risk(y, np.full(y.size, 0.02)), intercept)
    descent = _Descent(problem, State.zero(problem), Monitor(1e-3, 100), CoordinateDescent("acf"))
    descent._check()
    assert (descent.mean.size == 0) == (intercept is not Intercept.FREE)
    descent.forecast.plan[CHECKED_AT] = np.inf  # no check is due
    descent.forecast.plan[MOST_PASSES] = 5
    assert not descent._advance()
    before = descent.offset.copy()
    upper = np.inf if risk is SquaredHinge else 0.02
    free = np.flatnonzero((descent.alpha > 0.0) & (descent.alpha < upper))
    assert free.size > 20
    alpha = descent.alpha.copy()
    descent.forecast.plan[TOL] = 1e-14  # so that it is solved to the end
    w, offset = descent._move_together(free, 500, np.inf)
    # Over all rows, alpha + change is 2 c slack, or leaves no slack.
    margins = y[free] * (X[free] @ w + offset)
    change = _balanced_change(descent, problem, free, alpha, w)
    shift = 0.5 / problem.risk.cost[free] if problem.risk.loss.is_smooth else 0.0
    if intercept is Intercept.FREE:
        # At a fixed offset: what the mean row has is in it, and is found again at a check.
        residual = 1.0 - margins - shift * (alpha[free] + change)
        np.testing.assert_allclose(y[free] * residual, np.mean(y[free] * residual), atol=1e-6)
    else:
        np.testing.assert_allclose(margins + shift * (alpha[free] + change), 1.0, atol=1e-6)
    # What was done is what kernels track.
    np.testing.assert_allclose(descent.w, X.T @ (descent.alpha * y), atol=1e-6)
    assert descent.offset[1] == pytest.approx(descent.alpha @ y)
    moved = (descent.alpha - alpha) * y
    assert abs(moved.sum()) > 1e-6
    mean_dot = descent.mean_dot if descent.mean_dot.size else np.zeros(y.size)
    assert descent.offset[0] == pytest.approx(before[0] - moved @ mean_dot)


def _balanced_change(descent, problem, free, alpha, w):
    """The change of dual variables that leads to w, by least squares."""
    X, y = problem.rows.matrix, problem.risk.y
    mean = descent.mean if descent.mean.size else 0.0
    rows = y[free, None] * (X[free] - mean)
    start = (X - mean).T @ (alpha * y)
    return np.linalg.lstsq(rows.T, w - start, rcond=None)[0]


def test_few_rows_are_taken():
    X, y = contradictory_text()
    problem = Problem(as_rows(X), Hinge(y, np.full(y.size, 1e4)), Intercept.NONE)
    state, monitor = solve(problem, tol=0.1)
    free = (state.dual > 0.0) & (state.dual < 1e4)
    assert free.mean() > 0.2
    assert "faces" not in monitor.history[-1].phases
