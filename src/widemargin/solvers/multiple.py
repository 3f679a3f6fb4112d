"""The best multiple of a primal point.

Dual methods have w = X^T A of their dual variables A. Long before the optimum, rows on the margin
nearly have their final scores, and half of them are a little inside. For large costs, each of
these small losses counts. t w, with t slightly above 1, removes most of them. Its primal value

    f(t) = 1/2 t^2 |w|^2 + r(t X w)

may be nearer to the optimum than that of w by one or two orders of magnitude. This takes no pass
over the rows.
"""

from typing import Any, TypeAlias

import numpy as np

from widemargin.arrays import parts_of
from widemargin.certificate import score_errors, upper_bound
from widemargin.problem import Intercept, Problem
from widemargin.risk import Bound, LineSums, MarginRisk
from widemargin.solvers.line_search import Penalty, bracketed

# The search may stop this far from the best t, as a fraction of the gap allowed.
_LEFT_OVER = 0.02
# Rows may lack this much of their margins due to rounding; and the least that is made up for.
_ALL_ROUNDING, _LAST_DIGITS = 1e-6, 2.0**-50
# The first step of t from 1.
_FIRST_STEP = 0.01


#: coef, offset, and the bound on their primal value; an offset is a float, or (k,)
Point: TypeAlias = tuple[np.ndarray, Any, Bound]


def improved(
    problem: Problem,
    coef: np.ndarray,
    offset: Any,
    scores: np.ndarray,
    primal: Bound,
    dual: Bound,
    tol: float,
) -> Point:
    """Return coef, offset and primal bound of a point's best multiple, if the point will not do.

    It will not do if the gap between its bound `primal` and the bound `dual` is above `tol`.
    `scores` are X coef.
    """
    allowed = tol * primal.value
    if primal.value - dual.value <= allowed or not coef.any():
        return coef, offset, primal
    factor, moved = best_multiple(problem, coef, offset, scores, _LEFT_OVER * allowed)
    if not np.isfinite(factor):
        return coef, offset, primal
    best = _better(problem, factor, coef, moved, scores, (coef, offset, primal), tol)
    if best[2].value - dual.value <= allowed:
        return best
    return lifted(problem, coef, offset, scores, best, tol)


def lifted(
    problem: Problem, coef: np.ndarray, offset: Any, scores: np.ndarray, best: Point, tol: float
) -> Point:
    """Return a multiple without losses, if the losses are due to rounding alone; else `best`.

    Rows on the margin may lack its last digit, which counts if costs are very large.
    `best` is a point with its primal bound.
    """
    lack = problem.risk.largest_lack(scores + offset, score_errors(problem.rows, coef, offset)[:])
    if not lack <= _ALL_ROUNDING:
        return best
    factor = 1.0 + 2.0 * max(lack, _LAST_DIGITS)
    return _better(problem, factor, coef, factor * offset, scores, best, tol)


def _better(
    problem: Problem,
    factor: float,
    coef: np.ndarray,
    offset: Any,
    scores: np.ndarray,
    best: Point,
    tol: float,
) -> Point:
    """Return factor times coef, this offset, and their bound, if it is better than `best`."""
    scaled = factor * coef
    bound = upper_bound(problem, scaled, offset, factor * scores, tol)
    return (scaled, offset, bound) if bound.value < best[2].value else best


def best_multiple(
    problem: Problem, coef: np.ndarray, offset: Any, scores: np.ndarray, allowed: float
) -> tuple[float, Any]:
    """Return nearly the best factor t >= 1, and the offset for t coef.

    Parameters
    ----------
    coef : ndarray of shape (d,) or (d, k)
    offset : float or ndarray of shape (k,)
        A penalised offset is multiplied, too.
    scores : ndarray of shape (n,) or (n, k)
        X coef.
    allowed : float
        How far f may be above its minimum.
    """
    risk, free = problem.risk, problem.intercept is Intercept.FREE
    penalty = float(np.vdot(coef, coef)) + (0.0 if free else float(np.vdot(offset, offset)))
    ray = _Ray(risk, scores, offset, free)
    growth, _ = bracketed(Penalty(penalty, penalty, 0.5 * penalty), ray, _FIRST_STEP, allowed)
    factor = 1.0 + growth
    if not free:
        return factor, factor * offset
    if isinstance(risk, MarginRisk):
        offset = risk.best_offset(factor * scores)
    return factor, offset


class _Ray:
    """The risk at (1 + step) scores + offset, by parts of the rows, to save memory.

    An offset that is not `free` is multiplied, too.
    """

    def __init__(self, risk: Any, scores: np.ndarray, offset: Any, free: bool):
        self.risk, self.scores, self.offset, self.free = risk, scores, offset, free

    def evaluate(self, steps: Any) -> LineSums:
        total: Any = 0.0
        for part in parts_of(self.scores):
            some = self.scores[part]
            start = some + self.offset
            line = self.risk.part(part.start, part.stop).line(start, some if self.free else start)
            total = total + np.stack(line.evaluate(steps)[:2])
        # A curvature holds for one piece only. Without it, the search relies on bounds.
        values, slopes = total
        return LineSums(values, slopes, np.zeros(len(steps)), np.empty((len(steps), 0)))
