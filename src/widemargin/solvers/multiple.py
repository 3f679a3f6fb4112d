"""The best multiple of a primal point.

Dual methods know w = X^T A of their dual variables A. Long before the optimum the rows on the
margin are nearly there, half of them a little inside, and at a large cost each of these little
losses counts: t w, with t just above 1, lifts most of them out, and its primal value

    f(t) = 1/2 t^2 |w|^2 + r(t X w)

may be nearer to the optimum than that of w by an order of magnitude or two. It costs no pass over
the rows.
"""

import numpy as np

from widemargin.certificate import parts_of
from widemargin.problem import Intercept
from widemargin.risk import LineSums, MarginRisk
from widemargin.solvers.line_search import Penalty, bracketed

# What the search may well leave over, as a share of the gap allowed.
_LEFT_OVER = 0.02
# How far t is from 1, to begin with.
_FIRST_STEP = 0.01
# The largest t to be believed in: it multiplies the rounding of scores, which are known together
# with an offset that may be much larger than they are.
_FARTHEST = 1e3


def improved(problem, coef, offset, scores, certificate, tol):
    """Return coef, offset and primal value of a point's best multiple, where itself will not do.

    That is where the gap of `certificate`, which has its primal value, is above `tol`.
    """
    allowed = tol * certificate.primal
    if certificate.gap <= allowed or not coef.any():
        return coef, offset, certificate.primal
    factor, moved, primal = best_multiple(problem, coef, offset, scores, _LEFT_OVER * allowed)
    if factor > _FARTHEST:
        return coef, offset, certificate.primal
    return factor * coef, moved, primal


def best_multiple(problem, coef, offset, scores, allowed):
    """Return about the best factor t >= 1, the offset that goes with t coef, and the primal value.

    Parameters
    ----------
    coef : ndarray of shape (d,) or (d, k)
    offset : float or ndarray of shape (k,)
        A penalised one is multiplied, too.
    scores : ndarray of shape (n,) or (n, k)
        X coef + offset.
    allowed : float
        How far above the minimum of f the value may be.
    """
    risk, free = problem.risk, problem.intercept is Intercept.FREE
    fixed = offset if free else 0.0
    penalty = float(np.vdot(coef, coef)) + (0.0 if free else float(np.vdot(offset, offset)))
    ray = _Ray(risk, scores, fixed)
    growth, value = bracketed(Penalty(penalty, penalty, 0.5 * penalty), ray, _FIRST_STEP, allowed)
    factor = 1.0 + growth
    if not free:
        return factor, factor * offset, value
    if isinstance(risk, MarginRisk):
        moved = factor * (scores - offset)
        offset = risk.best_offset(moved)
        moved += offset
        value = 0.5 * factor * factor * penalty + sum(
            risk.part(part.start, part.stop).value(moved[part]) for part in parts_of(moved.size)
        )
    return factor, offset, value


class _Ray:
    """The risk at  scores + step (scores - fixed), part by part of the rows, to need no memory."""

    def __init__(self, risk, scores, fixed):
        self.risk, self.scores, self.fixed = risk, scores, fixed

    def evaluate(self, steps):
        total = 0.0
        for part in parts_of(len(self.scores)):
            some = self.scores[part]
            line = self.risk.part(part.start, part.stop).line(some, some - self.fixed)
            total = total + np.stack(line.evaluate(steps)[:2])
        # What curves on one piece may not on the next: the search wants bounds.
        return LineSums(*total, np.zeros(len(steps)), np.empty((len(steps), 0)))
