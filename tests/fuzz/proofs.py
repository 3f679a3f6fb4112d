"""Bounds on the weights of the optimum, beside a point that is near it."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

import widemargin
from widemargin.losses import HINGE, SQUARED_HINGE

# Far more than the radius is rounded.
_ROUNDING = 1e-9
# No number of a case is so large.
_FAR = Fraction(1e300)


def proof_failures(model, data, known) -> list[str]:
    """Return what is wrong with the bounds that `prove` finds for a model.

    `known` has for each problem the coefficients of a point, (d,), and how far its exact objective
    is above a lower bound, a Fraction.
    """
    low, high = map(np.atleast_2d, widemargin.prove(model, **data).weight_bounds())
    if not (low <= high).all():  # nor are they NaN
        return ["bounds on weights are in the wrong order"]
    found = []
    for j, (coef, excess) in enumerate(known):
        # The objective is strongly convex: its optimum is within this distance of the point.
        radius = math.sqrt(2.0 * float(min(max(excess, Fraction(0)), _FAR)))
        radius += _ROUNDING * (radius + float(np.abs(coef).max(initial=0.0)))
        if (low[j] > coef + radius).any() or (high[j] < coef - radius).any():
            found.append(f"bounds on the weights of problem {j} leave the optimum out")
    return found


def exact_failures(proof, problems, X, without, best) -> list[str]:
    """Return which bounds on the optima of problems are false, all of them without any slip.

    Parameters
    ----------
    proof : Proof
    problems : list of Problem
    X : ndarray of shape (n, d)
    without : list of int
        The rows that are left out, each by itself.
    best : callable
        From a problem to its Optimum, see exact_points.py, or None.
    """
    if not all(problem.risk.loss in (HINGE, SQUARED_HINGE) for problem in problems):
        return []
    found, bounds = [], _bounds_without(proof, problems, X, without)
    for j, problem in enumerate(problems):
        optimum = best(problem)
        if optimum is not None:
            found += _failures_of(proof, j, problem, X, optimum)
        for removed, (low, high) in bounds:
            cost = problem.risk.cost.copy()
            cost[removed] = 0.0
            optimum = best(replace(problem, risk=problem.risk.over(problem.risk.y, cost)))
            if optimum is None:
                continue
            rows = removed if len(removed) == 1 else range(len(X))
            ends = (_of_problem(end, j, True)[list(rows)].tolist() for end in (low, high))
            scores = [_score(X[row].tolist(), optimum.v) for row in rows]
            if not all(map(_is_within, scores, *ends)):
                found.append(f"bounds without rows {removed} of problem {j} leave it out")
    return found


def _bounds_without(proof, problems, X, without):
    """Return (rows, bounds on scores without them): of each by itself, and of all together."""
    left_out = proof.leave_one_out()[:2]
    bounds = [([row], left_out) for row in without if problems[0].risk.cost[row] > 0.0]
    if len(without) > 1 and np.delete(problems[0].risk.cost, without).any():
        bounds.append((without, proof.influence_bounds(remove=without).score_bounds(X)))
    return bounds


def _failures_of(proof, j, problem, X, optimum):
    """Return which bounds on the optimum of one problem are false."""
    found, d = [], X.shape[1]
    for name, bounds, values in (
        ("weights", proof.weight_bounds(), optimum.v[:d]),
        ("scores", proof.score_bounds(X), [_score(row, optimum.v) for row in X.tolist()]),
        ("dual variables", proof.dual_bounds, optimum.alpha),
        ("objective", [end[j : j + 1] for end in proof.objective_bounds], [optimum.objective]),
    ):
        low, high = (_of_problem(end, j, name == "scores").tolist() for end in bounds)
        # Slopes of a smooth loss are rounded where they are not at a bound.
        slip = 2.0**-50 if name == "dual variables" and problem.risk.loss.is_smooth else 0.0
        for value, a, b in zip(values, low, high, strict=True):
            if not _is_within(value, a, b, slip):
                found.append(f"bounds on the {name} of problem {j} leave the optimum out")
                break
    return found


def _of_problem(values, j, in_columns):
    """Return the numbers of one problem, of arrays that may be of one problem alone."""
    values = np.asarray(values)
    if values.ndim == 1:
        return values
    return values[:, j] if in_columns else values[j]


def _is_within(value, low, high, slip=0.0):
    low, high = low * (1.0 - slip), high * (1.0 + slip)
    return (low == -math.inf or Fraction(low) <= value) and (
        high == math.inf or value <= Fraction(high)
    )


def _score(row, v):
    offset = v[len(row)] if len(v) > len(row) else Fraction(0)
    return sum((Fraction(x) * w for x, w in zip(row, v) if x), offset)
