import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from widemargin.risk import Hinge, SquaredHinge

RISKS = [Hinge, SquaredHinge]


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
    power = 2 if risk.squared else 1
    expected = 2.0 * 0.5**power + 3.0 * 1.25**power
    assert risk.value(np.array([0.5, 0.25, -7.0])) == pytest.approx(expected)


@pytest.mark.parametrize("kind", RISKS)
@given(seed=st.integers(0, 10**6))
def test_slope_supports_the_risk_from_below(kind, seed):
    risk, S, rng = random_risk(kind, seed)
    cut = risk.cut(S)
    assert cut.value == pytest.approx(risk.value(S))
    assert cut.slope @ S + cut.constant == pytest.approx(cut.value, abs=1e-9)
    assert cut.active == np.count_nonzero(risk.y * S < 1.0)
    other = S + rng.standard_normal(S.size)
    assert risk.value(other) >= cut.slope @ other + cut.constant - 1e-9
    np.testing.assert_allclose(risk.unpack(cut.code), cut.slope)
    mixed = risk.merge(cut.code, 0.25, risk.cut(other).code, 0.75)
    np.testing.assert_allclose(
        risk.unpack(mixed), 0.25 * cut.slope + 0.75 * risk.cut(other).slope, atol=1e-12
    )
    A = risk.mixed([(0.5, cut.code), (0.25, mixed)])
    np.testing.assert_allclose(A, -0.5 * cut.slope - 0.25 * risk.unpack(mixed), atol=1e-12)


@pytest.mark.parametrize("kind", RISKS)
@given(seed=st.integers(0, 10**6))
def test_dual_is_the_conjugate(kind, seed):
    """-r*(-A) <= r(S) + A.S for every S, with equality where A is minus a slope."""
    risk, S, rng = random_risk(kind, seed)
    A = risk.feasible(rng.standard_normal(S.size) * risk.cost)
    assert risk.dual(A) <= risk.value(S) + A @ S + 1e-9
    cut = risk.cut(S)
    assert risk.dual(-cut.slope) == pytest.approx(cut.constant, abs=1e-9)


@pytest.mark.parametrize("kind", RISKS)
def test_dual_is_minus_infinity_outside_its_domain(kind):
    risk = kind([1, -1], [1.0, 0.0])
    assert risk.dual(np.array([-0.1, 0.0])) == -np.inf
    assert risk.dual(np.array([0.5, -0.1])) == -np.inf
    assert risk.dual(np.array([2.0, 0.0])) == (1.0 if risk.squared else -np.inf)


@pytest.mark.parametrize("kind", RISKS)
@pytest.mark.parametrize("ties", [False, True])
@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_best_offset_is_the_minimum(kind, ties, seed):
    risk, S, _ = random_risk(kind, seed, ties=ties)
    b = risk.best_offset(S)
    brute = minimize_scalar(
        lambda t: risk.value(S + t), bounds=(-20, 20), method="bounded", options={"xatol": 1e-9}
    )
    assert risk.value(S + b) <= brute.fun + 1e-7


def test_best_offset_takes_the_middle_of_a_flat_minimum():
    risk = Hinge([1, -1], [1.0, 1.0])
    assert risk.best_offset(np.array([3.0, -3.0])) == pytest.approx(0.0)


@pytest.mark.parametrize("kind", RISKS)
@given(seed=st.integers(0, 10**6))
def test_gap_shares_are_the_gap_row_by_row(kind, seed):
    risk, _, rng = random_risk(kind, seed)
    X = rng.standard_normal((12, 3))
    A = risk.feasible(rng.standard_normal(12) * risk.cost)
    w = X.T @ A
    shares = risk.gap_shares(X @ w, A * risk.y)
    assert np.all(shares >= -1e-12)
    assert shares.sum() == pytest.approx(risk.value(X @ w) + w @ w - risk.dual(A))


@pytest.mark.parametrize("kind", RISKS)
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
    lossy = risk.y * (S + steps[:, None] * D) <= 1.0
    some = np.flatnonzero((lossy[0] != lossy[1]) & (risk.cost > 0.0))
    part = risk.line(S, D).between(sums, 0)
    if some.size == 0:
        assert part is None
    else:
        expected = kind(risk.y[some], risk.cost[some]).value(S[some] + 0.3 * D[some])
        assert part.evaluate(steps).values[1] == pytest.approx(expected, abs=1e-12)


@given(seed=st.integers(0, 10**6))
def test_balanced_dual_variables_sum_to_zero(seed):
    risk, S, rng = random_risk(Hinge, seed)
    A = risk.balanced(risk.feasible(rng.standard_normal(S.size)))
    assert A.sum() == pytest.approx(0.0, abs=1e-12)
    assert risk.dual(A) > -np.inf
