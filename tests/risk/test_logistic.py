"""The logistic risk, compared with its formula in fifty digits."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.certificate import proved_by, upper_bound
from widemargin.data import as_rows
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import LogisticRisk
from widemargin.rounding import gamma
from widemargin.solvers.smooth_newton import SmoothNewton


def exact_loss(margin):
    """Return log(1 + exp(-margin)) of a float, as a Decimal."""
    return (1 + (-Decimal(float(margin))).exp()).ln()


def exact_value(risk, S):
    with localcontext() as context:
        context.prec = 50
        terms = zip(risk.cost.tolist(), (risk.y * S).tolist())
        return sum(Decimal(c) * exact_loss(m) for c, m in terms)


def exact_dual(risk, A):
    """Return the sum of c H(alpha / c)."""
    total = Decimal(0)
    with localcontext() as context:
        context.prec = 60
        for c, a in zip(risk.cost.tolist(), (risk.y * A).tolist()):
            part = min(Decimal(a), Decimal(c) - Decimal(a))
            if part > 0:
                p = part / Decimal(c)
                # By its series where it is tiny: 1 - p would take too many digits.
                rest = -p + p * p / 2 if p < Decimal("1e-30") else (1 - p) * (1 - p).ln()
                total -= Decimal(c) * (p * p.ln() + rest)
    return total


def random_risk(seed, n=12, scale=2.0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    cost = rng.random(n) * (rng.random(n) < 0.8)
    cost[:2] = 1.0
    return LogisticRisk(y, cost), scale * rng.standard_normal(n), rng


SCALES = [1e-12, 1.0, 30.0, 300.0]


@pytest.mark.parametrize("scale", SCALES)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_values_have_nearly_all_digits(scale, seed):
    risk, S, _ = random_risk(seed, scale=scale)
    expected = exact_value(risk, S)
    assert abs(Decimal(risk.value(S)) - expected) <= Decimal(gamma(48)) * expected
    A = risk.slopes(S)[0]
    expected = exact_dual(risk, A)
    assert abs(Decimal(risk.dual(A)) - expected) <= Decimal(gamma(48)) * expected


@pytest.mark.parametrize("fraction", [1e-300, 1e-17, 1e-8, 0.3, 0.5])
def test_entropies_near_both_bounds(fraction):
    cost = np.array([3.0, 0.7, 1e10, 1e-12])
    risk, low = LogisticRisk(np.ones(4), cost), fraction * cost
    for A in (low, cost - low):
        expected = exact_dual(risk, A)
        assert abs(Decimal(risk.dual(A)) - expected) <= Decimal(gamma(48)) * expected
    assert risk.dual(np.zeros(4)) == risk.dual(cost) == 0.0


@pytest.mark.parametrize("scale", SCALES)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_the_bound_holds_at_all_scores_within_the_error(scale, seed):
    risk, S, rng = random_risk(seed, scale=scale)
    for size in (0.0, 1e-15, 1e-3):
        error = size * scale * rng.random(S.size)
        low = 1e-17 * scale * rng.standard_normal(S.size)
        bound = risk.bound(S, error, low)
        with localcontext() as context:
            context.prec = 50
            worst = [Decimal(s) + Decimal(t) for s, t in zip(S.tolist(), low.tolist())]
            worst = [s - int(y) * Decimal(e) for s, y, e in zip(worst, risk.y, error.tolist())]
            losses = ((1 + (-int(y) * s).exp()).ln() for s, y in zip(worst, risk.y))
            value = sum(Decimal(c) * loss for c, loss in zip(risk.cost.tolist(), losses))
        assert Decimal(bound.value) >= value
        assert bound.value - bound.rounding <= exact_value(risk, S) * (1 + Decimal("1e-12"))


@given(seed=st.integers(0, 10**6))
@settings(deadline=None)
def test_planes_lines_and_the_dual_agree(seed):
    risk, S, rng = random_risk(seed)
    cut, (A, weight) = risk.cut(S), risk.slopes(S)
    np.testing.assert_allclose(A, -cut.slope, rtol=1e-14)
    assert cut.value == pytest.approx(risk.value(S))
    assert cut.slope @ S + cut.constant == pytest.approx(cut.value)
    assert risk.dual(A) == pytest.approx(cut.constant)
    D, h = rng.standard_normal(S.size), 1e-5
    assert risk.value(S + D) >= cut.value + cut.slope @ D
    other = risk.feasible(rng.standard_normal(S.size) * risk.cost)
    assert risk.dual(other) <= risk.value(S) + other @ S + 1e-12
    sums = risk.line(S, D).evaluate([0.0, 0.7])
    for step, value, slope, curvature in zip((0.0, 0.7), *sums[:3]):
        near = [risk.value(S + (step + t) * D) for t in (-h, 0.0, h)]
        assert value == pytest.approx(near[1])
        assert slope == pytest.approx((near[2] - near[0]) / (2 * h), abs=1e-6)
        assert curvature == pytest.approx((near[2] - 2 * near[1] + near[0]) / h**2, abs=1e-3)
    np.testing.assert_allclose(risk.slopes(S, 0.4)[0], risk.slopes(S + 0.4)[0])
    assert weight.diagonal @ D**2 == pytest.approx(sums.curvatures[0])


@pytest.mark.parametrize("scale", [*SCALES, 1e30])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_the_best_offset_balances_the_slopes(scale, seed):
    risk, S, _ = random_risk(seed, scale=scale)
    b = risk.best_offset(S)
    # The slope changes its sign within a rounding error of b and of the scores.
    near = 4e-15 * (1.0 + abs(b) + np.abs(S).max())
    assert risk.slopes(S, b - near)[0].sum() >= -1e-12 * risk.cost.sum()
    assert risk.slopes(S, b + near)[0].sum() <= 1e-12 * risk.cost.sum()


@pytest.mark.parametrize("sign", [1, -1])
def test_rows_of_one_label_have_no_loss_at_their_best_offset(sign):
    risk = LogisticRisk([sign, sign, -sign], [1.0, 2.0, 0.0])
    S = np.array([5.0, -7.0, 0.0])
    assert risk.value(S + risk.best_offset(S)) == 0.0
    assert LogisticRisk([sign], [0.0]).best_offset(np.array([2.0])) == 0.0


def test_dual_variables_are_repaired():
    risk = LogisticRisk([1, -1, 1], [1.0, 2.0, 0.0])
    A = risk.feasible(np.array([3.0, 0.5, 1.0]))
    assert risk.dual(A) >= 0.0
    assert risk.dual(np.array([1.1, 0.0, 0.0])) == -np.inf
    assert risk.dual(np.array([-0.1, 0.0, 0.0])) == -np.inf
    A = risk.balanced(np.array([1.0, -0.25, 0.0]))
    np.testing.assert_allclose(A, [0.25, -0.25, 0.0])


def test_a_row_far_from_the_others_gives_up_what_is_too_much_at_its_own_slope():
    """The height falls there faster than it does on average over the rows.

    The first row is the shortest one, and takes all of the excess. At its margin the slope of its
    entropy is 22; the mean over the rows is 3.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal(40)
    y = np.where(rng.random(40) < 1.0 / (1.0 + np.exp(-x)), 1, -1)
    rows = as_rows(np.append(0.0, x - 20.0)[:, None])
    risk = LogisticRisk(np.append(1, y), np.ones(41))
    problem = Problem(rows, risk, Intercept.FREE)
    state = SmoothNewton(0).solve(problem, State.zero(problem), Monitor(tol=1e-14, max_iter=300))
    least = upper_bound(problem, state.coef, state.offset).value
    A = risk.balanced(risk.slopes(rows.scores(state.coef) + state.offset)[0])
    assert least * (1 - 1e-12) < proved_by(problem, A, rows.combine(A), 1e-16).value <= least
    A[0] *= 1.5
    for tol in (1e-1, 1e-16):  # roughly, and as closely as can be
        assert proved_by(problem, A, rows.combine(A), tol).value <= least
