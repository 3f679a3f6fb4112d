"""The multinomial risk, compared with its formula in fifty digits, and with two classes."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.certificate import lower_bound, upper_bound
from widemargin.data import as_rows
from widemargin.problem import Intercept, Problem
from widemargin.risk import LogisticRisk, MultinomialRisk
from widemargin.rounding import gamma


def random_risk(seed, scale=2.0, n=9):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 5))
    y, cost = rng.integers(0, k, n), rng.random(n) * (rng.random(n) < 0.8)
    return MultinomialRisk(y, cost, k), scale * rng.standard_normal((n, k)), rng


def exact_value(risk, S):
    total = Decimal(0)
    with localcontext() as context:
        context.prec = 50
        for y, c, scores in zip(risk.y.tolist(), risk.cost.tolist(), S.tolist()):
            scores = [Decimal(s) for s in scores]
            total += Decimal(c) * sum((s - scores[y]).exp() for s in scores).ln()
    return total


@pytest.mark.parametrize("scale", [1e-12, 1.0, 20.0])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_values_and_bounds(scale, seed):
    risk, S, rng = random_risk(seed, scale)
    expected, allowed = exact_value(risk, S), gamma(60 + 16 * scale)
    assert abs(Decimal(risk.value(S)) - expected) <= Decimal(allowed) * expected
    error = 1e-3 * rng.random(len(S))
    bound = risk.bound(S, error)
    worst = S + error[:, None] * rng.choice([-1.0, 1.0], S.shape)
    assert Decimal(bound.value) >= exact_value(risk, worst)
    assert bound.value - bound.rounding <= risk.value(S) * (1.0 + 1e-9)


@given(seed=st.integers(0, 10**6))
@settings(deadline=None)
def test_planes_lines_and_the_dual_agree(seed):
    risk, S, rng = random_risk(seed)
    cut, (A, curvature) = risk.cut(S), risk.slopes(S)
    D, h = rng.standard_normal(S.shape), 1e-5
    assert cut.constant + np.vdot(cut.slope, S) == pytest.approx(cut.value)
    assert risk.dual(risk.feasible(A)) == pytest.approx(cut.constant, rel=1e-9)
    assert risk.value(S + D) >= cut.value + np.vdot(cut.slope, D) - 1e-12
    sums = risk.line(S, D).evaluate([0.0, 0.7])
    for step, value, slope, bent in zip((0.0, 0.7), *sums[:3]):
        near = [risk.value(S + (step + t) * D) for t in (-h, 0.0, h)]
        assert value == pytest.approx(near[1])
        assert slope == pytest.approx((near[2] - near[0]) / (2 * h), abs=1e-6)
        assert bent == pytest.approx((near[2] - 2 * near[1] + near[0]) / h**2, abs=1e-3)
    ones = np.ones(S.shape)
    for j in range(S.shape[1]):
        column = np.zeros(S.shape)
        column[:, j] = 1.0
        np.testing.assert_allclose(
            curvature.times(column).sum(axis=0), curvature.total[:, j], atol=1e-12
        )
        total = np.vdot(column, curvature.times(column))
        assert total == pytest.approx(curvature.diagonal[:, j].sum())
    np.testing.assert_allclose(curvature.times(ones), 0.0, atol=1e-14)
    b = risk.best_offset(S)
    assert np.abs(risk.slopes(S, b)[0].sum(axis=0)).max() <= 1e-9 * max(1.0, risk.cost.sum())
    alpha = rng.random(S.shape) * risk.cost[:, None]
    alpha[np.arange(len(S)), risk.y] = 0.0
    other = risk.feasible(risk.signed(alpha))
    assert risk.dual(other) <= risk.value(S) + np.vdot(other, S) + 1e-12
    balanced = risk.balanced(other)
    assert np.abs(balanced.sum(axis=0)).max() <= 1e-12
    assert risk.dual(balanced) > -np.inf


@pytest.mark.parametrize("intercept", Intercept)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_two_classes_are_those_of_twice_the_cost(intercept, seed):
    """With opposite coefficients, of half the size, the objective is half as large."""
    rng = np.random.default_rng(seed)
    X, y, cost = rng.standard_normal((8, 3)), rng.integers(0, 2, 8), rng.random(8)
    w, b = rng.standard_normal(3), 0.0 if intercept is Intercept.NONE else 0.3
    together = Problem(as_rows(X), MultinomialRisk(y, cost, 2), intercept)
    alone = Problem(as_rows(X), LogisticRisk(2 * y - 1, 2.0 * cost), intercept)
    W, offsets = np.stack([-0.5 * w, 0.5 * w], axis=1), np.array([-0.5 * b, 0.5 * b])
    found = upper_bound(together, W, offsets).value
    assert 2.0 * found == pytest.approx(upper_bound(alone, w, b).value)
    alpha = rng.random(8) * cost
    both = np.zeros((8, 2))
    both[np.arange(8), 1 - y] = alpha
    if intercept is Intercept.FREE:
        y[:2] = 0, 1
    found = lower_bound(together, both)[0].value
    assert 2.0 * found == pytest.approx(
        lower_bound(alone, 2.0 * alpha)[0].value, rel=1e-8, abs=1e-8
    )


@pytest.mark.parametrize(("far", "seed"), [(1e-3, 7), (1.0, 6), (30.0, 2)])
def test_the_best_offset_takes_few_looks_at_the_rows(far, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    S, looks = far * rng.standard_normal((500, 3)), []
    risk = MultinomialRisk(rng.integers(3, size=500), np.full(500, 0.3), 3)
    losses = risk.value
    monkeypatch.setattr(risk, "value", lambda S: (looks.append(1), losses(S))[1])
    S = S + risk.best_offset(S)
    found = len(looks)
    assert found <= 9
    risk.best_offset(S)
    assert len(looks) - found <= 3
