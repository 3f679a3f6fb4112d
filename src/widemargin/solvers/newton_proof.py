"""A better proof of a good point, where losses are squared: for the problem see newton.py.

Dual variables alpha_i = 2 c_i max(0, z_i), taken from a point, leave the gap

    primal(w) - dual(alpha) = 1/2 |g|^2,      g = w - X^T A

though w itself is about 1/2 g^T H^-1 g above the optimum, with H = I + sum_i 2 c_i x_i x_i^T over
rows that have a loss: where costs are large, less by many orders of magnitude. So it is alpha that
is changed. For witnesses, some of these rows, with weights v_i >= 2 c_i that make about the same H,

    alpha_i + v_i y_i x_i.u,      (I + sum_i v_i x_i x_i^T) u = g

leaves no slope but u, and costs sum_i (v_i / 2 c_i) v_i (x_i.u)^2 / 2: as many times
1/2 g^T H^-1 g as each witness stands for rows. No dual variable may be negative; what
had to be cut off is a slope again, a much smaller one, for another round.
"""

import numpy as np

from widemargin import passes
from widemargin.problem import Intercept
from widemargin.solvers.lockstep import Asking
from widemargin.solvers.newton_direction import Curved, Slope

# Rounds at most, and how much less than before each has to leave.
_ROUNDS, _PROGRESS = 6, 0.5


def improve(steps, factor, point, alpha, needed) -> Asking:
    """Return better dual variables of the witnesses, (m,), and the dual value they lead to.

    None if that is not `needed` at least.

    Parameters
    ----------
    steps : NewtonSteps
        Over the witnesses, at the point, with costs that are `factor` times as large.
    factor : ndarray of shape (m,)
        How many rows each of them stands for.
    point
        What all rows tell of the point: `combined` is X^T A, (d,), `total` the sum of A.
    alpha : ndarray of shape (m,)
        The witnesses' dual variables, as they are.
    needed : float
    """
    y, begin = steps.y, alpha
    with steps.monitor.phase("proof"):
        curved = steps.curvature()
        weight, rate = curved.weight, 0.0
        bend = steps.delta * factor / steps.cost  # 1 / (2 c) of the witnesses themselves
        others = point.total - float(y @ begin)
    left = point.primal - needed
    combined, total, short = point.combined, point.total, np.inf
    for _ in range(_ROUNDS):
        slope = Slope(steps.coef - combined, _offset_slope(steps, total))
        way = yield from steps.directions.find(slope, curved, steps.delta, left)
        if way is None:
            return None
        ahead, shift = way
        change = yield from steps.scores(ahead)
        with steps.monitor.phase("proof"):
            rate = rate + passes.of(change).rates(y, change, shift)
            alpha = np.maximum(begin + weight * rate, 0.0)
            curved = _where(curved, alpha > 0.0)
            if steps.intercept is Intercept.FREE:
                alpha = _balanced(alpha, y, others)
            more = alpha - begin
            if 0.5 * float(more @ (bend * more)) > left:
                return None
        pull = yield from steps.combine(y * more)
        lift = float(y @ more)
        combined, total = point.combined + pull, point.total + lift
        height = float(more.sum()) - 0.5 * float(more @ (bend * (alpha + begin)))
        dual = point.dual + height - float(pull @ (point.combined + 0.5 * pull))
        if steps.intercept is Intercept.PENALIZED:
            dual -= lift * (point.total + 0.5 * lift)
        if dual >= needed:
            return alpha, dual
        short, before = needed - dual, short
        if not short < _PROGRESS * before:
            return None
    return None


def _where(curved, kept):
    """Return some of the curved rows, given by a mask, (m,)."""
    weight = np.where(kept, curved.weight, 0.0)
    return Curved(weight, int(np.count_nonzero(weight)), float(weight.sum()), curved.plain)


def _offset_slope(steps, total):
    """Return the slope in b, where the sum of A is `total`."""
    return steps.ground.stiffness * steps.offset - total if steps.has_intercept else 0.0


def _balanced(alpha, y, others):
    """Return alpha, (m,), with y . alpha + others = 0: one side is made smaller."""
    excess = float(y @ alpha) + others
    side = y > 0 if excess > 0.0 else y < 0
    weight = float(alpha[side].sum())
    return np.where(side, alpha * max(0.0, 1.0 - abs(excess) / max(weight, 1e-300)), alpha)
