import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import problems

from widemargin import arrays
from widemargin.certificate import upper_bound
from widemargin.data import as_rows
from widemargin.problem import Intercept, Problem
from widemargin.risk import Bound, CrammerSinger, Hinge, SquaredHinge
from widemargin.solvers.multiple import best_multiple, improved

FACTORS = np.concatenate([np.linspace(1.0, 1.2, 41), np.geomspace(1.2, 1000.0, 60)])


def assert_best(problem, coef, offset, allowed):
    scores = problem.rows.scores(coef)
    factor, best = best_multiple(problem, coef, offset, scores, allowed)
    assert factor >= 1.0
    value = upper_bound(problem, factor * coef, best).value
    free = problem.intercept is Intercept.FREE
    for other in FACTORS:
        there = upper_bound(problem, other * coef, offset if free else other * offset).value
        assert value <= there + allowed + 1e-9 * there
    return factor


@settings(deadline=None, max_examples=100)
@given(problem=problems(), seed=st.integers(0, 2**32 - 1), size=st.sampled_from([0.01, 1.0]))
def test_no_other_multiple_is_better(problem, seed, size):
    rng = np.random.default_rng(seed)
    coef = size * rng.standard_normal(problem.rows.n_features)
    offset = 0.0 if problem.intercept is Intercept.NONE else float(rng.standard_normal())
    assert_best(problem, coef, offset, 1e-6 * upper_bound(problem, coef, offset).value)


@pytest.mark.parametrize("intercept", Intercept)
def test_several_classes(intercept):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    X = rng.standard_normal((60, 4)) + 3.0 * np.eye(4)[y]
    risk = CrammerSinger(y, np.full(60, 5.0), 3)
    problem = Problem(as_rows(X), risk, intercept)
    coef = 0.1 * np.stack([X[y == j].mean(axis=0) for j in range(3)], axis=1)
    offset = np.zeros(3) if intercept is Intercept.NONE else 0.1 * rng.standard_normal(3)
    assert assert_best(problem, coef, offset, 1e-6) > 1.5


@pytest.mark.parametrize("intercept", Intercept)
def test_part_by_part(intercept, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 4)), np.where(rng.random(60) < 0.5, -1, 1)
    problem = Problem(as_rows(X), Hinge(y, np.full(60, 10.0)), intercept)
    coef, scores = X[y > 0].mean(axis=0), X @ X[y > 0].mean(axis=0)
    whole = best_multiple(problem, coef, 0.0, scores, 1e-9)
    monkeypatch.setattr(arrays, "_ROWS_AT_ONCE", 7)
    assert best_multiple(problem, coef, 0.0, scores, 1e-9) == pytest.approx(whole)


@pytest.mark.parametrize("size", [1e-17, 1e-12, 1e-6])
@pytest.mark.parametrize("intercept", [Intercept.FREE, Intercept.NONE])
def test_what_rounding_has_blurred_is_not_multiplied(size, intercept):
    """Beside an offset of 1, scores of 1e-17 are lost; without it, a multiple has their digits."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), np.where(rng.random(60) < 0.3, 1, -1)
    problem = Problem(as_rows(X), SquaredHinge(y, np.full(60, 10.0)), intercept)
    coef = size * X[y > 0].sum(axis=0)
    offset = -1.0 if intercept is Intercept.FREE else 0.0
    scores, here = problem.rows.scores(coef), upper_bound(problem, coef, offset)
    coef, offset, primal = improved(problem, coef, offset, scores, here, Bound(0.0, 0.0), 1e-3)
    assert primal.value == pytest.approx(upper_bound(problem, coef, offset).value, rel=1e-9)
