import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.risk import CrammerSinger, Hinge
from widemargin.risk.multiclass import _balancing_factors


def random_risk(seed, n=12):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    cost = rng.random(n) * (rng.random(n) < 0.8)
    S = rng.standard_normal((n, k)) * 2
    if rng.random() < 0.3:
        S = np.round(S)
    return CrammerSinger(rng.integers(0, k, n), cost, k), S, rng


def by_hand(risk, S):
    total = 0.0
    for scores, own, cost in zip(S, risk.y, risk.cost, strict=True):
        total += cost * max(
            0.0 if j == own else 1.0 + score - scores[own] for j, score in enumerate(scores)
        )
    return total


seeds = st.integers(0, 10**6)


@given(seed=seeds)
def test_value_and_cut(seed):
    risk, S, rng = random_risk(seed)
    assert risk.value(S) == pytest.approx(by_hand(risk, S))
    cut = risk.cut(S)
    assert cut.value == pytest.approx(risk.value(S))
    assert np.vdot(cut.slope, S) + cut.constant == pytest.approx(cut.value, abs=1e-9)
    other = S + rng.standard_normal(S.shape)
    assert risk.value(other) >= np.vdot(cut.slope, other) + cut.constant - 1e-9
    np.testing.assert_array_equal(risk.unpack(cut.code), cut.slope)
    merged = risk.merge(cut.code, 0.25, risk.cut(other).code, 0.75)
    np.testing.assert_allclose(
        risk.unpack(merged), 0.25 * cut.slope + 0.75 * risk.cut(other).slope, atol=1e-12
    )
    assert risk.dual(-cut.slope) == pytest.approx(cut.constant, abs=1e-9)
    A = risk.weighted_sum([(0.5, cut.code), (0.25, risk.cut(other).code), (0.125, merged)])
    expected = 0.53125 * cut.slope + 0.34375 * risk.cut(other).slope
    np.testing.assert_allclose(A, -expected, atol=1e-12)


@given(seed=seeds, balanced=st.booleans())
def test_repaired_dual_variables_prove_a_bound(seed, balanced):
    """-r*(-A) <= r(S) + <A, S> for every S."""
    risk, S, rng = random_risk(seed)
    A = risk.feasible(rng.standard_normal(S.shape))
    A = risk.balanced(A) if balanced else A
    assert -np.inf < risk.dual(A) <= risk.value(S) + np.vdot(A, S) + 1e-9
    np.testing.assert_allclose(A.sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(risk.signed(risk.unsigned(A)), A)
    if balanced:
        np.testing.assert_allclose(A.sum(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(risk.balanced(A), A, rtol=1e-6, atol=1e-12)


def test_dual_is_minus_infinity_outside_its_domain():
    risk = CrammerSinger([0, 1], [1.0, 0.0], 3)
    assert risk.dual(np.array([[1.0, -0.5, -0.5], [0.0, 0.0, 0.0]])) == 1.0
    assert risk.dual(np.array([[1.5, -1.0, -0.5], [0.0, 0.0, 0.0]])) == -np.inf
    assert risk.dual(np.array([[-0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])) == -np.inf
    assert risk.dual(np.array([[0.0, 0.0, 0.0], [0.0, 0.1, -0.1]])) == -np.inf


@given(seed=seeds)
def test_the_line_is_the_risk_along_it(seed):
    risk, S, rng = random_risk(seed)
    D = rng.standard_normal(S.shape)
    steps = np.array([0.0, 0.3, 2.0])
    line = risk.line(S, D)
    sums = line.evaluate(steps)
    for j, step in enumerate(steps):
        assert sums.values[j] == pytest.approx(risk.value(S + step * D), abs=1e-12)
    # One subgradient each: convexity holds between any two of the points.
    for i in range(3):
        for j in range(3):
            tangent = sums.values[i] + sums.slopes[i] * (steps[j] - steps[i])
            assert sums.values[j] >= tangent - 1e-9
    # Rows on the same piece at two steps are so between them: without the others it is a line.
    ends = line.evaluate([0.0, 2.0])
    remaining = line.between(ends, 0)
    steps = [0.0, 1.0, 2.0]
    rest = line.evaluate(steps).values
    if remaining is not None:
        rest = rest - remaining.evaluate(steps).values
    assert rest[1] == pytest.approx(0.5 * (rest[0] + rest[2]), abs=1e-9)


@given(seed=seeds)
def test_two_classes_are_the_hinge(seed):
    rng = np.random.default_rng(seed)
    y, cost, s = rng.choice([-1, 1], 9), rng.random(9), rng.standard_normal(9) * 2
    pair = CrammerSinger((y + 1) // 2, cost, 2)
    assert pair.value(np.c_[-s / 2, s / 2]) == pytest.approx(Hinge(y, cost).value(s))


@given(seed=seeds)
def test_factors_make_a_circulation(seed):
    rng = np.random.default_rng(seed)
    k = rng.integers(1, 7)
    flow = rng.random((k, k)) * (rng.random((k, k)) < rng.choice([0.2, 0.5, 1.0]))
    factors = _balancing_factors(flow)
    assert np.all((factors >= 0.0) & (factors <= 1.0))
    scaled = np.where(np.eye(k, dtype=bool), 0.0, factors * flow)
    np.testing.assert_allclose(scaled.sum(axis=0), scaled.sum(axis=1), atol=1e-12)


def test_a_class_that_hardly_takes_part_does_not_matter():
    flow = np.array([[0.0, 2.0, 1e-3], [2.0, 0.0, 0.0], [0.0, 1e-18, 0.0]])
    factors = _balancing_factors(flow)
    assert factors[0, 1] == pytest.approx(1.0, abs=1e-12)
    assert factors[1, 0] == pytest.approx(1.0, abs=1e-12)


def test_what_balances_already_is_left_alone():
    ring = np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 2.0], [2.0, 0.0, 0.0]])
    np.testing.assert_allclose((_balancing_factors(ring) * ring), ring)


def test_a_class_without_rows():
    risk = CrammerSinger([0, 2, 2], [1.0, 1.0, 1.0], 4)
    assert risk.value(np.zeros((3, 4))) == 3.0
    assert risk.cut(np.zeros((3, 4))).active == 3
