"""Terms that looser ones hide in whole bounds: rounding, kinks, and the gap without a row."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proofs.test_region import state_of
from strategies import RISKS, TARGET_RISKS, problems

from widemargin.data import as_rows
from widemargin.problem import Intercept, Problem
from widemargin.proofs.leave_one_out import _Without
from widemargin.proofs.path import _radius, solution_of
from widemargin.proofs.region import Region, _end, region_of
from widemargin.proofs.screening import _slope
from widemargin.risk import Hinge
from widemargin.row_sums import dual_sums


@settings(deadline=None, max_examples=40)
@given(
    problem=problems(scales=(0.1, 1.0), costs=(0.01, 1.0), risks=(*RISKS, *TARGET_RISKS)),
    how=st.sampled_from(["solved", "rough", "random"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_gap_without_a_row_is_that_of_its_dual_variables(problem, how, seed):
    region = region_of(problem, state_of(problem, how, seed), tol=1e-8)
    found, own, risk = _Without(problem, region), region.basis, problem.risk
    rows, free = problem.rows.plain, problem.intercept is Intercept.FREE
    penalized = problem.intercept is Intercept.PENALIZED
    b = own.offset if penalized else 0.0
    losses = risk.losses(risk.residuals(own.scores))
    primal = risk.value(own.scores) + 0.5 * (own.coef @ own.coef + b * b)
    for row in range(problem.rows.n_rows):
        A = own.A.copy()
        removed, A[row] = A[row], 0.0
        if free and removed != 0.0:
            others = removed * own.A < 0.0
            alpha = risk.unsigned(own.A)
            inside = others & (alpha > risk.lower) & (alpha < risk.upper)
            most = np.abs(own.A[own.A * removed > 0.0]).max()
            if np.abs(own.A[inside]).sum() > 2.0 * most:
                others = inside
            whole = float(np.abs(A[others]).sum())
            if not whole > abs(removed) * (1.0 + 1e-12):
                # Where both are the same, roundings may say that there is no bound.
                assert whole >= abs(removed) * (1.0 - 1e-12) or np.isinf(found.radius[row])
                continue
            A[others] *= 1.0 - abs(removed) / whole
        v, total = rows.combine(A), float(A.sum()) if penalized else 0.0
        dual = risk.dual_sum(risk.unsigned(A)) - 0.5 * (v @ v + total * total)
        apart = np.sum((own.coef - v) ** 2) + (b - total) ** 2
        square = primal - losses[row] - dual - 0.25 * apart
        slip = 1e-9 * (1.0 + abs(primal) + abs(dual))
        assert found.radius[row] ** 2 >= square - slip
        if not risk.loss.is_smooth:  # else what scaling does to squares is bounded
            assert found.radius[row] ** 2 <= max(square, 0.0) + 1e-6 * (1.0 + abs(primal)) + slip


@settings(deadline=None, max_examples=30)
@given(
    problem=problems(scales=(0.1, 1.0), costs=(0.01, 1.0), risks=(*RISKS, *TARGET_RISKS)),
    how=st.sampled_from(["solved", "rough", "random"]),
    ratio=st.sampled_from([1.1, 2.0, 30.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_between_two_costs_the_gap_is_that_of_points_in_between(problem, how, ratio, seed):
    def at(C):
        risk = problem.risk.over(problem.risk.y, problem.risk.cost * C)
        return Problem(problem.rows, risk, problem.intercept)

    states = [state_of(at(C), how, seed) for C in (1.0, ratio)]
    ends = (1.0, ratio), (at(1.0), at(ratio)), states
    first, second = (solution_of(*each, problem.rows, 1e-8) for each in zip(*ends))
    penalized = problem.intercept is Intercept.PENALIZED
    for t in (0.0, 0.1, 0.5, 0.8, 1.0):
        risk = at((1.0 - t) + t * ratio).risk
        A = (1.0 - t) * first.basis.A + t * second.basis.A
        w = (1.0 - t) * first.w + t * second.w
        offset = (1.0 - t) * first.basis.offset + t * second.basis.offset
        v, total = problem.rows.combine(A), float(A.sum()) if penalized else 0.0
        scores = problem.rows.scores(w[: problem.rows.n_features])
        primal = risk.value(scores + offset) + 0.5 * (w @ w)
        dual = risk.dual_sum(risk.unsigned(A)) - 0.5 * (v @ v + total * total)
        slip = 1e-9 * (1.0 + first.basis.primal + second.basis.primal)
        low, high = max(0.0, t - 0.1), min(1.0, t + 0.1)
        for piece in ((low, t), (t, high), (low, high)):
            radius = _radius(ratio - 1.0, first, second, *piece)
            assert radius**2 >= primal - dual - slip


def test_scores_by_a_known_optimum_include_their_rounding():
    rng = np.random.default_rng(0)
    for _ in range(30):
        X = rng.standard_normal((3, 200)) * 10.0 ** rng.uniform(-4, 4, 200)
        w = rng.standard_normal(200) * 10.0 ** rng.uniform(-4, 4, 200)
        low, high = Region(w, 0.0, 1.0, 1.0).scores(as_rows(X))
        for a, x, b in zip(low.tolist(), X.tolist(), high.tolist()):
            exact = sum(map(Fraction.__mul__, map(Fraction, x), map(Fraction, w.tolist())))
            assert Fraction(a) <= exact + 1 <= Fraction(b)


def test_the_end_of_an_intercept_includes_the_rounding_of_its_slope():
    rng = np.random.default_rng(1)
    for _ in range(30):
        n = 4000
        X, y = np.zeros((n, 1)), np.where(rng.random(n) < 0.5, 1, -1)
        A = y * rng.random(n)
        A[0] -= A.sum() - 1e-12  # nearly all of the sum is rounding
        risk = Hinge(y, np.full(n, 1e6))
        sums = dual_sums(as_rows(X), risk, A, np.zeros(1))
        exact = sum(map(Fraction, A.tolist()))
        for sign in (-1.0, 1.0):
            end = _end(sums, 0.0, 1.0, sign)
            slope = -int(sign) * exact
            assert end == math.inf or (slope > 0 and Fraction(end) >= 1 / slope)


@pytest.mark.parametrize(("side", "expected"), [(1.0, 2.0), (-1.0, 0.0)])
def test_at_a_kink_all_slopes_are_possible(side, expected):
    risk = Hinge(np.array([1, -1]), np.full(2, 2.0))
    assert _slope(risk, np.zeros(2), side).tolist() == [expected, expected]
