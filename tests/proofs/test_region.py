"""Optima solved far more precisely are where the region of a rough state says."""

import math

import numpy as np
import pytest
from exact import optimum_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import RISKS, TARGET_RISKS, problems

from widemargin.certificate import certify_state
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.proofs.region import region_of
from widemargin.solvers.auto import make

some_problems = problems(scales=(0.1, 1.0), costs=(0.01, 1.0), risks=(*RISKS, *TARGET_RISKS))
how = st.sampled_from(["solved", "rough", "random", "far"])


def solved(problem, tol, solver="newton", max_iter=10_000):
    monitor = Monitor(tol=tol, max_iter=max_iter)
    return make(solver, problem.risk, seed=0).solve(problem, State.zero(problem), monitor)


def state_of(problem, how, seed):
    """States near the optimum and far from it, whose parts need not belong together."""
    if how == "solved":
        return solved(problem, 1e-9)
    state = solved(problem, 0.1, "dcd", max_iter=3)
    if how == "rough":
        return state
    rng, size = np.random.default_rng(seed), 0.3 if how == "random" else 3.0
    noise = size * rng.standard_normal(problem.rows.n_features)
    offset = 0.0 if problem.intercept is Intercept.NONE else state.offset + size * rng.normal()
    dual = state.dual + size * problem.risk.cost * rng.standard_normal(state.dual.size)
    return State(state.coef + noise, offset, dual)


def exact_state(problem):
    """The optimum, and how far it may be from w* and P*."""
    state = solved(problem, 1e-13)
    gap = certify_state(problem, state).gap
    best = optimum_of(problem)
    primal = certify_state(problem, state).primal
    assume(gap <= 1e-8 * max(primal, 1e-3))  # a few problems are hard for any solver
    assert primal == pytest.approx(best, rel=1e-5, abs=1e-5)
    return state, math.sqrt(2.0 * max(gap, 0.0)) + 1e-9


def best_offsets(problem, state):
    """All intercepts that are as good as that of a state, as far as they are kinks."""
    rows, risk = problem.rows.plain, problem.risk
    if problem.intercept is not Intercept.FREE:
        return np.array([state.offset])
    scores = rows.scores(state.coef)
    counted = risk.cost > 0.0
    target = np.broadcast_to(risk.target, scores.shape)
    kinks = np.concatenate(
        [(risk.sign * (target - e) - scores)[counted] for e in (risk.loss.eps, -risk.loss.eps)]
    )
    kinks = np.append(kinks, state.offset)
    values = np.array([risk.value(scores + b) for b in kinks])
    return kinks[values <= risk.value(scores + state.offset) + 1e-13]


def check_region(problem, region, slip, state):
    """The optimum is in the region, and its scores are in the intervals."""
    distance = np.sum((state.coef - region.centre) ** 2)
    if region.penalized:
        distance += (state.offset - region.low) ** 2
    assert math.sqrt(distance) <= region.radius + slip
    low, high = region.weights()
    assert np.all((low <= state.coef + slip) & (state.coef - slip <= high))
    slips = 1e-6 + slip * (2.0 + 2.0 * np.sqrt(problem.rows.squared_norms()))
    interval = region.scores(problem.rows)
    moved = 0.0 if region.c is None else float(region.c @ state.coef)
    far = 0.0 if region.c is None else np.linalg.norm(region.c)
    for b in best_offsets(problem, state):
        if not region.penalized:
            error = 1e-6 + slip * (1.0 + far) * 2.0
            assert region.low - error <= b + moved <= region.high + error
        scores = problem.rows.plain.scores(state.coef) + b
        assert np.all(interval.low <= scores + slips * (1.0 + far))
        assert np.all(scores - slips * (1.0 + far) <= interval.high)


@settings(deadline=None, max_examples=60)
@given(problem=some_problems, how=how, seed=st.integers(0, 2**32 - 1))
def test_the_optimum_is_in_the_region_of_any_state(problem, how, seed):
    region = region_of(problem, state_of(problem, how, seed), tol=1e-8)
    state, slip = exact_state(problem)
    check_region(problem, region, slip, state)


@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("risk", RISKS[:3])
def test_the_region_is_as_small_as_its_gap(intercept, risk):
    """It shrinks to a point as a state is solved, the intercept too."""
    from widemargin.data import as_rows

    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5)) + 3.0
    y = np.where(X @ [1.0, -1.0, 1.0, 0.0, 0.0] - 3.0 + rng.standard_normal(200) > 0, 1, -1)
    problem = Problem(as_rows(X), risk(y, np.ones(200)), intercept)
    widths = []
    for tol in (1e-2, 1e-5, 1e-8):
        state = solved(problem, tol)
        region = region_of(problem, state, tol)
        gap = certify_state(problem, state).gap
        assert region.radius <= 1.001 * math.sqrt(gap) + 1e-12
        low, high = region.scores(problem.rows)
        widths.append(float(np.mean(high - low)))
    assert widths[2] <= 3e-2
    assert widths[2] <= max(0.02 * widths[0], 1e-3)
    assert np.all(low <= high)
