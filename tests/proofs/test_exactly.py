"""Bounds hold for optima in fractions, without any slip, at all scales."""

from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from exact_points import exact_optimum
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from proofs.test_region import solved, state_of

from widemargin.data import as_rows
from widemargin.problem import Intercept, Problem
from widemargin.proofs.leave_one_out import leave_one_out_scores
from widemargin.proofs.region import region_of
from widemargin.proofs.screening import dual_bounds
from widemargin.risk import Hinge, SquaredHinge


@st.composite
def scaled_problems(draw):
    """Features and costs of any size, features far from zero, float32, rows of weight zero."""
    n, d = draw(st.integers(2, 12)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.standard_normal((n, d)) * draw(st.sampled_from([1e-7, 1e-3, 1.0, 1e3, 1e7]))
    X *= 10.0 ** (draw(st.sampled_from([0.0, 1.0, 3.0])) * rng.uniform(-1, 1, d))
    X += draw(st.sampled_from([0.0, 0.0, 1.0, 1e4])) * np.abs(X).max()
    X[rng.random((n, d)) < draw(st.sampled_from([0.0, 0.5]))] = 0.0
    X = X.astype(draw(st.sampled_from([np.float32, np.float64])))
    y = np.where(rng.random(n) < draw(st.sampled_from([0.5, 0.2])), 1, -1)
    y[0], y[1] = 1, -1
    largest = float(np.square(X.astype(float)).sum(axis=1).max()) or 1.0
    cost = draw(st.sampled_from([1e-2, 1.0, 30.0])) * rng.integers(0, 4, n)
    cost[:2] = np.maximum(cost[:2], 0.01)
    if draw(st.booleans()):
        cost = cost / largest
    rows = as_rows(sp.csr_matrix(X) if draw(st.booleans()) else X)
    risk = draw(st.sampled_from([Hinge, SquaredHinge]))
    return Problem(rows, risk(y, cost), draw(st.sampled_from(Intercept)))


how = st.sampled_from(["solved", "precise", "rough", "random", "far"])


def start(problem, how, seed):
    with np.errstate(all="ignore"):
        if how == "precise":
            return solved(problem, 1e-14, "newton", 100)
        return state_of(problem, how, seed)


def optimum(problem):
    with np.errstate(all="ignore"):
        for solver, tol in (("newton", 1e-10), ("acf", 1e-12), ("newton", 1e-14)):
            found = exact_optimum(problem, solved(problem, tol, solver, 300))
            if found is not None:
                return found
    return None


def fractions(values):
    return [Fraction(value) for value in np.asarray(values, dtype=np.float64).tolist()]


def dense(rows):
    X = rows.matrix
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def products(problem, v):
    """Return x_i.w + b for all rows, exactly; b is the last of v, if there is one."""
    found = []
    for row in dense(problem.rows).tolist():
        x = fractions(row) + [Fraction(1)] * (len(v) - len(row))
        found.append(sum((a * b for a, b in zip(x, v)), Fraction(0)))
    return found


def within(interval, values):
    low, high = interval
    for a, value, b in zip(np.ravel(low).tolist(), values, np.ravel(high).tolist()):
        assert a == -np.inf or Fraction(a) <= value
        assert b == np.inf or value <= Fraction(b)


def check_exactly(problem, region, best):
    d = problem.rows.n_features
    w, b = best.v[:d], best.v[d] if len(best.v) > d else Fraction(0)
    basis = region.basis
    assert Fraction(basis.dual) <= best.objective <= Fraction(basis.primal)
    if np.isfinite(region.radius):
        square = sum(((a - c) ** 2 for a, c in zip(w, fractions(region.centre))), Fraction(0))
        if region.penalized:
            square += (b - Fraction(region.low)) ** 2
        assert square <= Fraction(region.radius) ** 2
        within(region.weights(), w)
    if not region.penalized:
        c = np.zeros(d) if region.c is None else region.c
        moved = b + sum((a * v for a, v in zip(fractions(c), w)), Fraction(0))
        within((region.low, region.high), [moved])
    within(region.scores(problem.rows), products(problem, best.v))


@settings(deadline=None, max_examples=15)
@given(problem=scaled_problems(), how=how, seed=st.integers(0, 2**32 - 1))
def test_the_optimum_in_fractions_is_in_the_region(problem, how, seed):
    best = optimum(problem)
    event("found" if best else "not found")
    assume(best is not None)
    region = region_of(problem, start(problem, how, seed), tol=1e-8)
    check_exactly(problem, region, best)
    bounds = dual_bounds(problem, region)
    if problem.risk.loss.is_smooth:  # slopes are rounded where they are not at a bound
        low, high = bounds
        bounds = low * (1 - 2.0**-50), high * (1 + 2.0**-50)
    within(bounds, best.alpha)


@settings(deadline=None, max_examples=15)
@given(problem=scaled_problems(), how=how, seed=st.integers(0, 2**32 - 1))
def test_the_optimum_in_fractions_without_a_row(problem, how, seed):
    region = region_of(problem, start(problem, how, seed), tol=1e-8)
    low, high = leave_one_out_scores(problem, region)
    counted = np.flatnonzero(problem.risk.cost > 0.0)
    found = 0
    for row in np.random.default_rng(seed).permutation(counted)[:4]:
        cost = problem.risk.cost.copy()
        cost[row] = 0.0
        if not cost.any():
            continue
        risk = problem.risk.over(problem.risk.y, cost)
        rest = Problem(problem.rows, risk, problem.intercept)
        best = optimum(rest)
        if best is None:
            continue
        found += 1
        within((low[row], high[row]), [products(problem, best.v)[row]])
        check_exactly(rest, region_of(rest, start(problem, how, seed), tol=1e-8), best)
    event("found" if found else "not found")
