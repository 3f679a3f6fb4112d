"""Better dual variables for a good point, if losses are squared: for the problem see newton.py.

The dual variables alpha_i = 2 c_i max(0, z_i) of a point leave the gap

    primal(w) - dual(alpha) = 1/2 |g|^2,      g = w - X^T A

But w itself is only about 1/2 g^T H^-1 g above the optimum, with H = I + sum_i 2 c_i x_i x_i^T
over the rows with a loss. For large costs that is less by many orders of magnitude. So alpha is
changed, for a subsample of these rows with weights v_i that make about the same H:

    alpha_i + v_i y_i x_i.u,      (I + sum_i v_i x_i x_i^T) u = g

The gradient is then u. The change costs sum_i (v_i x_i.u)^2 / (4 c_i). This is 1/2 g^T H^-1 g
times the number of rows that each row of the subsample represents, v_i / (2 c_i). No dual variable
may be negative. Where one has to be clipped, a smaller gradient is left for another round, without
the rows that were clipped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from widemargin import passes
from widemargin.problem import Intercept
from widemargin.solvers.newton_best import Point
from widemargin.solvers.newton_direction import Curved, Slope
from widemargin.solvers.newton_steps import NewtonSteps


class Proof(NamedTuple):
    """Dual variables of the subsample, (m,); X^T A, (d,), sum of A and dual value of all rows."""

    alpha: np.ndarray
    combined: np.ndarray
    total: float
    dual: float


def improve(
    steps: NewtonSteps, factor: np.ndarray, point: Point, alpha: np.ndarray, needed: float
) -> Proof | None:
    """Return a Proof with better dual variables; None if its value is below `needed`.

    Parameters
    ----------
    steps : NewtonSteps
        Over the subsample, at the point, with costs multiplied by `factor`.
    factor : ndarray of shape (m,)
        How many rows each row of the subsample represents.
    point : Point
        The point, by a full pass: see newton_best.py.
    alpha : ndarray of shape (m,)
        The present dual variables of the subsample.
    needed : float
    """
    y, begin, settings = steps.sign, alpha, steps.settings.subsample
    with steps.monitor.phase("proof"):
        curved = whole = steps.curvature()
        rate = np.zeros_like(begin)
        bend = steps.delta * factor / steps.cost  # 1 / (2 c) of the rows themselves
        natural = np.maximum(steps.z, 0.0) / bend

        def price(alpha: np.ndarray) -> float:
            """Return what it costs the subsample not to have alpha = 2 c max(0, z)."""
            return 0.5 * float((bend * (alpha - natural)) @ (alpha - natural))

        others, price_of_others = point.total - float(y @ begin), point.balancing - price(begin)
    left = point.primal - needed
    slope = Slope(steps.coef - point.combined, _offset_slope(steps, point.total))
    short = np.inf
    for _ in range(settings.proof_rounds):
        way = steps.directions.find(slope, curved, steps.delta, left)
        if way is None:
            return None
        ahead, shift = way
        change = steps.scores(ahead)
        with steps.monitor.phase("proof"):
            rate += passes.of(change).rates(y, change, shift)
            alpha = np.maximum(begin + whole.weight * rate, 0.0)
            curved = _part(whole, alpha > 0.0)
            if steps.intercept is Intercept.FREE and not _balance(alpha, y, others):
                return None
            if price(alpha) > left:
                return None
            more = y * (alpha - begin)
        pull = steps.combine(more)
        combined, total = point.combined + pull, point.total + float(more.sum())
        slope = Slope(steps.coef - combined, _offset_slope(steps, total))
        # A sum of nonnegative terms of the gap: a difference of large values would be no proof.
        gap = 0.5 * (float(slope.coef @ slope.coef) + slope.offset**2)
        gap += price(alpha) + price_of_others
        if gap <= left:
            return Proof(alpha, combined, total, point.primal - gap)
        if not gap - left < settings.proof_progress * short:
            return None
        short = gap - left
    return None


def _part(curved: Curved, kept: np.ndarray) -> Curved:
    """Return the curved rows of a mask, (m,)."""
    weight = np.where(kept, curved.weight, 0.0)
    return Curved(weight, int(np.count_nonzero(weight)), float(weight.sum()))


def _offset_slope(steps: NewtonSteps, total: float) -> float:
    """Return the slope in b, where the sum of A is `total`."""
    return steps.quadratic.stiffness * steps.offset - total if steps.has_intercept else 0.0


def _balance(alpha: np.ndarray, y: np.ndarray, others: float) -> bool:
    """Make y . alpha + others = 0 by scaling one side of alpha, (m,) down; return if it can."""
    excess = float(y @ alpha) + others
    side = y > 0 if excess > 0.0 else y < 0
    weight = float(alpha[side].sum())
    if abs(excess) > weight:
        return False
    alpha[side] *= 1.0 - abs(excess) / (weight or 1.0)
    return True
