import itertools
from fractions import Fraction

import numpy as np
import pytest
from fuzz.objective import exact_loss
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from strategies import RISKS, TARGET_RISKS

from widemargin.losses import Loss
from widemargin.risk import Hinge, MarginRisk, SquaredHinge

ALL = [*RISKS, *TARGET_RISKS]


def random_risk(kind, seed, n=12, ties=False):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    cost = rng.random(n) * (rng.random(n) < 0.8)
    cost[:2] = 1.0
    S = rng.standard_normal(n) * 2
    if ties:
        S, cost = np.round(S), np.ceil(cost)
    return kind(y, cost), S, rng


@pytest.mark.parametrize("kind", RISKS)
def test_value_is_the_sum_of_losses(kind):
    risk = kind([1, -1, 1], [2.0, 3.0, 0.0])
    expected = sum(
        c * float(exact_loss(risk.loss, Fraction(z))) for c, z in [(2.0, 0.5), (3.0, 1.25)]
    )
    assert risk.value(np.array([0.5, 0.25, -7.0])) == pytest.approx(expected)


@pytest.mark.parametrize("kind", ALL)
@given(seed=st.integers(0, 10**6))
def test_slope_supports_the_risk_from_below(kind, seed):
    risk, S, rng = random_risk(kind, seed)
    cut = risk.cut(S)
    assert cut.value == pytest.approx(risk.value(S))
    assert cut.slope @ S + cut.constant == pytest.approx(cut.value, abs=1e-9)
    residual = risk.target - risk.sign * S
    excess, below = np.abs(residual) > risk.loss.eps, residual > risk.loss.eps
    assert cut.active == np.count_nonzero(below if risk.loss.is_one_sided else excess)
    other = S + rng.standard_normal(S.size)
    assert risk.value(other) >= cut.slope @ other + cut.constant - 1e-9
    np.testing.assert_allclose(risk.unpack(cut.code), cut.slope)
    merged = risk.merge(cut.code, 0.25, risk.cut(other).code, 0.75)
    np.testing.assert_allclose(
        risk.unpack(merged), 0.25 * cut.slope + 0.75 * risk.cut(other).slope, atol=1e-12
    )
    A = risk.weighted_sum([(0.5, cut.code), (0.25, merged)])
    np.testing.assert_allclose(A, -0.5 * cut.slope - 0.25 * risk.unpack(merged), atol=1e-12)


@pytest.mark.parametrize("kind", ALL)
@given(seed=st.integers(0, 10**6))
def test_dual_is_the_conjugate(kind, seed):
    """-r*(-A) <= r(S) + A.S for every S, with equality where A is minus a slope."""
    risk, S, rng = random_risk(kind, seed)
    A = risk.feasible(rng.standard_normal(S.size) * risk.cost)
    assert risk.dual(A) <= risk.value(S) + A @ S + 1e-9
    cut = risk.cut(S)
    assert risk.dual(-cut.slope) == pytest.approx(cut.constant, abs=1e-9)


@pytest.mark.parametrize("kind", [Hinge, SquaredHinge])
def test_dual_is_minus_infinity_outside_its_domain(kind):
    risk = kind([1, -1], [1.0, 0.0])
    assert risk.dual(np.array([-0.1, 0.0])) == -np.inf
    assert risk.dual(np.array([0.5, -0.1])) == -np.inf
    assert risk.dual(np.array([2.0, 0.0])) == (1.0 if kind is SquaredHinge else -np.inf)


@pytest.mark.parametrize("kind", ALL)
def test_a_row_at_a_kink_is_on_the_piece_that_has_its_slope(kind):
    """A fuzzer's find: a line that begins at a kink was taken for the one below it."""
    eps = kind([1], [1.0]).loss.eps
    for residual in (-eps, eps):
        for direction in (1.0, -1.0):
            risk, S = kind([1], [1.0]), np.array([1.0 - residual])
            line = risk.line(S, np.array([direction]))
            sums = line.evaluate([0.0, 0.1])
            if line.between(sums, 0) is None:
                straight = sums.values[0] + 0.1 * sums.slopes[0] + 0.005 * sums.curvatures[0]
                assert sums.values[1] == pytest.approx(straight, abs=1e-12)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("ties", [False, True])
@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_best_offset_is_the_minimum(kind, ties, seed):
    risk, S, _ = random_risk(kind, seed, ties=ties)
    b = risk.best_offset(S)
    brute = minimize_scalar(
        lambda t: risk.value(S + t), bounds=(-60, 60), method="bounded", options={"xatol": 1e-9}
    )
    assert risk.value(S + b) <= brute.fun + 1e-7


def test_best_offset_takes_the_middle_of_a_flat_minimum():
    risk = Hinge([1, -1], [1.0, 1.0])
    assert risk.best_offset(np.array([3.0, -3.0])) == pytest.approx(0.0)


@pytest.mark.parametrize("kind", ALL)
@given(seed=st.integers(0, 10**6))
def test_row_gaps_sum_up_to_the_gap(kind, seed):
    risk, _, rng = random_risk(kind, seed)
    X = rng.standard_normal((12, 3))
    A = risk.feasible(rng.standard_normal(12) * risk.cost)
    w = X.T @ A
    shares = risk.row_gaps(X @ w, A * risk.sign)
    assert np.all(shares >= -1e-12)
    assert shares.sum() == pytest.approx(risk.value(X @ w) + w @ w - risk.dual(A))


@pytest.mark.parametrize("kind", ALL)
@given(seed=st.integers(0, 10**6))
def test_the_line_is_the_risk_along_it(kind, seed):
    risk, S, rng = random_risk(kind, seed)
    D = rng.standard_normal(S.size)
    steps = np.array([0.0, 0.3, 2.0])
    sums = risk.line(S, D).evaluate(steps)
    h = 1e-6
    for j, step in enumerate(steps):
        assert sums.values[j] == pytest.approx(risk.value(S + step * D), abs=1e-12)
        slope = (risk.value(S + (step + h) * D) - risk.value(S + (step - h) * D)) / (2 * h)
        assert sums.slopes[j] == pytest.approx(slope, abs=1e-5)
    # Rows that are on one piece at both steps make a parabola in between, the others the rest.
    part = risk.line(S, D).between(sums, 0)
    changed = sums.pieces[0] != sums.pieces[1]
    assert (part is None) == (not changed.any())
    expected = risk.over(risk.y[changed], risk.cost[changed]).value((S + 0.3 * D)[changed])
    assert (0.0 if part is None else part.evaluate(steps).values[1]) == pytest.approx(expected)
    rest = risk.over(risk.y[~changed], risk.cost[~changed]).line(S[~changed], D[~changed])
    first, last = (rest.evaluate([step]) for step in (0.0, 0.3))
    for share in (0.25, 0.5, 0.75):
        t = 0.3 * share
        parabola = first.values[0] + t * (first.slopes[0] + 0.5 * t * first.curvatures[0])
        assert rest.evaluate([t]).values[0] == pytest.approx(parabola, abs=1e-12)
    assert last.slopes[0] == pytest.approx(first.slopes[0] + 0.3 * first.curvatures[0], abs=1e-12)


@pytest.mark.parametrize("kind", ALL)
@given(seed=st.integers(0, 10**6))
def test_balanced_dual_variables_sum_to_zero(kind, seed):
    risk, S, rng = random_risk(kind, seed)
    A = risk.balanced(risk.feasible(rng.standard_normal(S.size)))
    assert A.sum() == pytest.approx(0.0, abs=1e-12)
    assert risk.dual(A) > -np.inf


@pytest.mark.parametrize("eps", [0.25, 0.7, 2.0])
@pytest.mark.parametrize("bend", [0.0, 0.5])
def test_bounds_hold_where_a_loss_begins_at_eps(eps, bend):
    """1 - y s is rounded there, and what is lost may be all of the loss."""
    loss = Loss("tube", eps=eps, low=-1.0, bend=bend)
    for y, side, steps in itertools.product((1, -1), (1.0, -1.0), range(-8, 9)):
        s = y * (1.0 - side * eps)
        S = np.array([s + steps * 2.0**-56])
        for low in (None, np.array([2.0**-57]), np.array([-(2.0**-57)])):
            exact = Fraction(float(S[0])) + (0 if low is None else Fraction(float(low[0])))
            bound = MarginRisk([y], [1e20], loss).bound(S, np.zeros(1), low)
            least = 10**20 * exact_loss(loss, 1 - y * exact)
            assert Fraction(bound.value) * (1 + Fraction(1, 10**13)) >= least


@pytest.mark.parametrize("cost", [1.0, 1e-150, 1e-156, 1e-160, 1e-170, 1e-300])
def test_the_dual_of_tiny_costs_is_no_sum_of_underflowed_squares(cost):
    costs = np.full(100, cost)
    risk = SquaredHinge(np.ones(100), costs)
    assert risk.dual(2.0 * costs) == pytest.approx(100 * cost, rel=1e-12, abs=0.0)
    assert risk.dual_sum(2.0 * costs) == pytest.approx(100 * cost, rel=1e-12, abs=0.0)
