"""Which rows do not matter at the optimum, by the region where it is.

A residual that stays on one straight piece of the loss throughout the region fixes the row's dual
variable (gap-safe screening: Ndiaye et al. 2017). Where the loss is zero, that is zero, and the
row can be left out. Where the loss is steepest, it is at its bound: the losses of all such rows
are one linear function, which one row, their mean, has as well. By convexity the loss of the
mean is nowhere more than theirs, so the optimum stays where it is.
"""

import numpy as np
from numpy import ndarray as Array

from widemargin.problem import Problem
from widemargin.proofs.region import Interval, Region
from widemargin.risk import MarginRisk

_ROUNDING = 2.0**-50


def dual_bounds(problem: Problem, region: Region) -> Interval:
    """Return bounds on the dual variables alpha of the optimum, (n,)."""
    risk = problem.risk
    assert isinstance(risk, MarginRisk)
    scores = region.scores(problem.rows)
    positive = risk.sign > 0
    ends = (
        risk.target - np.where(positive, scores.high, -scores.low),
        risk.target - np.where(positive, scores.low, -scores.high),
    )
    blur = [_ROUNDING * (np.abs(end) + np.abs(risk.target)) for end in ends]
    return Interval(_slope(risk, ends[0] - blur[0], -1.0), _slope(risk, ends[1] + blur[1], 1.0))


def _slope(risk: MarginRisk, residual: Array, side: float) -> Array:
    """Return the slope of each row's loss at its residual, (n,): at kinks that of one side."""
    loss, lower, upper = risk.loss, risk.lower, risk.upper
    if loss.is_smooth:
        excess = residual - np.clip(residual, -loss.eps, loss.eps)
        slope = np.clip(excess / loss.bend, loss.low, loss.high) * risk.cost
        return np.where(risk.cost > 0.0, slope, 0.0)
    above = residual >= loss.eps if side > 0.0 else residual > loss.eps
    below = residual < -loss.eps if side > 0.0 else residual <= -loss.eps
    return np.where(above, upper, np.where(below, lower, 0.0))


def settled_at(bounds: Interval) -> tuple[Array, Array]:
    """Return which rows have no dual weight at the optimum, and which are at a bound, (n,)."""
    same = bounds.low == bounds.high
    return same & (bounds.low == 0.0), same & (bounds.low != 0.0)


def mean_rows(problem: Problem, alpha: Array, at_bound: Array) -> tuple[Array, Array, Array]:
    """Return the rows that take the place of those at a bound: X (m, d), targets and costs (m,).

    One for each sign and each bound. The target of a label is the label.
    """
    risk, rows = problem.risk, problem.rows.plain
    assert isinstance(risk, MarginRisk)
    sign, means, targets, costs = risk.sign, [], [], []
    for one in (1, -1):
        for side in (1.0, -1.0):
            index = at_bound & (sign == one) & (np.sign(alpha) == side)
            if index.any():
                weight = np.where(index, risk.cost, 0.0)
                cost = float(weight.sum())
                means.append(rows.combine(weight / cost))
                targets.append(float(weight @ risk.y) / cost)
                costs.append(cost)
    shape = len(means), rows.n_features
    return np.reshape(means, shape), np.array(targets), np.array(costs)
