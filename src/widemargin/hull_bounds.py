"""Bounds on the optimum of a one-class problem, with their rounding errors.

    P(w, rho) = 1/2 |w|^2 - rho + sum_i cap_i max(0, rho - w.x_i)
    D(a)      = - 1/2 |X^T a|^2          for 0 <= a_i <= cap_i, sum_i a_i = 1

-D is half the squared distance from the origin to a point of the rows' soft hull: the points
X^T a. No P is below any D, and none of the optima is positive.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray as Array

from widemargin.data.rows import Rows
from widemargin.problem import Problem
from widemargin.risk import Bound, LowestMean
from widemargin.rounding import SUM, gamma, squares
from widemargin.row_sums import score_errors, sizes_of

# A distance of the hull that is this fraction of the rows' root mean square length counts as none.
_NO_DISTANCE = 1e-3


class HullBounds(NamedTuple):
    """An upper and a lower bound on the optimum, and what a smaller objective counts as."""

    primal: Bound
    dual: Bound
    floor: float


def hull_bounds(problem: Problem, coef: Array, rho: float, dual: Array) -> HullBounds:
    """Return the bounds of a point (coef, rho) and of dual variables near feasible ones."""
    risk, rows = problem.risk, problem.rows.plain
    assert isinstance(risk, LowestMean)
    return HullBounds(
        _primal(rows, risk.caps, coef, rho),
        _dual(rows, risk.caps, feasible_weights(risk.caps, dual)),
        smallest_objective(rows, risk.caps),
    )


def smallest_objective(rows: Rows, caps: Array) -> float:
    """Return the size of an objective that counts as none: of a distance near zero."""
    mean = float(caps @ rows.squared_norms()) / float(caps.sum())
    return 0.5 * _NO_DISTANCE**2 * mean


def feasible_weights(caps: Array, dual: Array) -> Array:
    """Return weights near `dual`, between 0 and the caps, with a sum of 1 up to rounding."""
    weights = np.clip(dual, 0.0, caps)
    total = math.fsum(weights)
    if total > 1.0:
        return weights / total
    room = caps - weights
    left = math.fsum(room)
    if left > 0.0:
        weights += room * min(1.0, (1.0 - total) / left)
    return weights


def _primal(rows: Rows, caps: Array, coef: Array, rho: float) -> Bound:
    scores = rows.scores(coef)
    errors = score_errors(rows, coef, 0.0)[:] if coef.any() else np.zeros(scores.size)
    short = np.maximum(rho - scores + errors, 0.0)
    losses = float(caps @ short)
    moved = float(caps[short > 0.0] @ errors[short > 0.0])
    penalty = 0.5 * squares(coef)
    # Caps were rounded, too, so that each term may be off.
    rounding = 4.0 * SUM * (penalty + abs(rho) + losses)
    return Bound(penalty - rho + losses + rounding, 2.0 * (rounding + moved))


def _dual(rows: Rows, caps: Array, weights: Array) -> Bound:
    sizes = sizes_of(rows, weights)
    combined = rows.combine(weights)
    length = math.sqrt(squares(combined))
    # Feasible weights are near: what lacks to a sum of 1 finds room, as the caps sum to 1 or more.
    moved = abs(1.0 - math.fsum(weights)) + 2.0 * SUM
    error = SUM * length + gamma(sizes["n_used"] + 64) * sizes["pull"] + sizes["more"]
    error += (1.0 + SUM) * moved * float(rows.lengths[caps > 0.0].max())
    rounding = (1.0 + SUM) * (length + 0.5 * error) * error + SUM * length * length
    return Bound(-0.5 * length * length - rounding, rounding)
