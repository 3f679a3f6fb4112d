"""Bounds without a row hold for the optimum of the problem without it, solved by itself."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from proofs.test_region import best_offsets, how, solved, some_problems, state_of
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from widemargin import LinearSVC, LinearSVR, prove
from widemargin.certificate import certify_state
from widemargin.problem import Intercept, Problem
from widemargin.proofs.leave_one_out import leave_one_out_scores
from widemargin.proofs.region import region_of


def without(problem, row):
    cost = problem.risk.cost.copy()
    cost[row] = 0.0
    return Problem(problem.rows, problem.risk.over(problem.risk.y, cost), problem.intercept)


@settings(deadline=None, max_examples=50)
@given(problem=some_problems, how=how, seed=st.integers(0, 2**32 - 1))
def test_any_row_can_be_left_out(problem, how, seed):
    region = region_of(problem, state_of(problem, how, seed), tol=1e-8)
    low, high = leave_one_out_scores(problem, region)
    counted = np.flatnonzero(problem.risk.cost > 0.0)
    for row in np.random.default_rng(seed).choice(counted, min(2, counted.size), replace=False):
        rest = without(problem, row)
        if not np.any(rest.risk.cost > 0.0):
            continue
        state = solved(rest, 1e-13)
        certificate = certify_state(rest, state)
        assume(certificate.gap <= 1e-8 * max(certificate.primal, 1e-3))
        slip = (math.sqrt(2.0 * max(certificate.gap, 0.0)) + 1e-9) * 2.0
        slip *= 2.0 + 2.0 * float(np.sqrt(problem.rows.squared_norms().max()))
        score = problem.rows.plain.scores(state.coef)[row]
        for b in best_offsets(rest, state):
            assert low[row] <= score + b + slip + 1e-6
            assert score + b - slip - 1e-6 <= high[row]


@pytest.mark.parametrize("ways", [{}, {"penalized_intercept": True}, {"fit_intercept": False}])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_error_is_between_its_bounds_and_these_are_close(ways, loss):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)[::4]
    y = y[::4]
    parameters = {"loss": loss, "C": 0.01, "random_state": 0, **ways}
    found = prove(LinearSVC(tol=1e-8, **parameters).fit(X, y), X, y).leave_one_out()
    wrong = 0
    for row in range(len(y)):
        weight = np.ones(len(y))
        weight[row] = 0.0
        model = LinearSVC(tol=1e-8, **parameters).fit(X, y, weight)
        score = model.decision_function(X[row : row + 1])[0]
        assert found.low[row] - 1e-3 <= score <= found.high[row] + 1e-3
        wrong += (score > 0.0) != y[row]
    assert found.least_error <= wrong / len(y) <= found.most_error
    if loss == "hinge":
        assert found.most_error <= wrong / len(y) + 0.12


@settings(deadline=None, max_examples=25)
@given(problem=some_problems, how=how, seed=st.integers(0, 2**32 - 1), n_removed=st.integers(0, 4))
def test_several_rows_can_be_left_out(problem, how, seed, n_removed):
    """As `Proof.influence_bounds` does it: the region of the rest, by the state of all."""
    rng = np.random.default_rng(seed)
    state, rest = state_of(problem, how, seed), problem
    for row in rng.choice(problem.rows.n_rows, min(n_removed, problem.rows.n_rows - 1)):
        rest = without(rest, row)
    assume(np.any(rest.risk.cost > 0.0))
    region = region_of(rest, state, tol=1e-8)
    exact = solved(rest, 1e-13)
    certificate = certify_state(rest, exact)
    assume(certificate.gap <= 1e-8 * max(certificate.primal, 1e-3))
    distance = np.sum((exact.coef - region.centre) ** 2)
    if problem.intercept is Intercept.PENALIZED:
        distance += (exact.offset - region.low) ** 2
    assert math.sqrt(distance) <= region.radius + math.sqrt(2 * max(certificate.gap, 0)) + 1e-7


def test_rows_are_left_out_of_fitted_models():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    parameters = {"C": 0.01, "loss": "hinge", "tol": 1e-7, "random_state": 0}
    model = LinearSVC(**parameters).fit(X, y)
    proof = prove(model, X, y)
    gone = np.arange(10)
    rest = proof.influence_bounds(gone)
    again = LinearSVC(**parameters).fit(X[10:], y[10:])
    low, high = rest.score_bounds(X)
    scores = again.decision_function(X)
    assert np.all((low - 1e-3 <= scores) & (scores <= high + 1e-3))
    assert rest.settled_mask(X).mean() > 0.3
    low, high = rest.objective_bounds
    assert low[0] <= again.certificate_.primal
    assert again.certificate_.dual <= high[0]
    assert np.array_equal(
        proof.influence_bounds(np.isin(np.arange(569), gone)).irrelevant_rows, rest.irrelevant_rows
    )
    with pytest.raises(ValueError, match="no rows"):
        proof.influence_bounds(np.arange(569))
    found = prove(LinearSVR(tol=1e-6).fit(X, y), X, y).leave_one_out()
    assert np.isnan(found.least_error)
    assert np.all(found.low <= found.high)


def test_several_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    X = rng.standard_normal((60, 4)) + 2.0 * np.eye(4)[y]
    parameters = {"C": 0.05, "loss": "hinge", "tol": 1e-8, "random_state": 0}
    found = prove(LinearSVC(**parameters).fit(X, y), X, y).leave_one_out()
    wrong = 0
    for row in range(60):
        weight = np.ones(60)
        weight[row] = 0.0
        model = LinearSVC(**parameters).fit(X, y, weight)
        scores = model.decision_function(X[row : row + 1])[0]
        assert np.all((found.low[row] - 1e-3 <= scores) & (scores <= found.high[row] + 1e-3))
        wrong += model.predict(X[row : row + 1])[0] != y[row]
    assert found.least_error <= wrong / 60 <= found.most_error < 1.0
