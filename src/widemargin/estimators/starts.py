"""Where training begins at one cost, after it has ended at another."""

from dataclasses import dataclass

import numpy as np

from widemargin.problem import Intercept, State


@dataclass(frozen=True)
class Trail:
    """Where the dual variables of a hinge loss are going as C grows.

    Solutions of such problems are piecewise linear in C (Hastie et al. 2004). Rows at their upper
    bounds follow these, and rows at zero mostly stay there; the others go on as they have gone.

    Attributes
    ----------
    free : ndarray of shape (m,)
        Rows between their bounds.
    rate : ndarray of shape (m,), float32
        By how much their variables grow when C grows by one.
    """

    free: np.ndarray
    rate: np.ndarray

    @classmethod
    def of(cls, before, former_C, dual, cost, C):
        """Return what leads on from `dual`, (n,), at C, where it was `before` at former_C."""
        free = np.flatnonzero((dual > 0.0) & (dual < cost)).astype(np.uint32)
        return cls(free, ((dual[free] - before[free]) / (C - former_C)).astype(np.float32))

    def followed(self, problem, state, former_C, C):
        """Return a start for `problem` at C, as far on from `state`, at former_C, as C is."""
        dual = C / former_C * state.dual  # of those at their bounds
        dual[self.free] = state.dual[self.free] + (C - former_C) * self.rate
        return State(state.coef, state.offset, np.clip(dual, 0.0, problem.risk.cost))


def carried(problem, state, ratio):
    """Return a start for `problem`, whose costs are `ratio` times those that `state` is for.

    The dual variables may all grow by `ratio`. Where hardly a row is left inside the margin they
    hardly change, though: of the factors between, the one is best that maximises the dual.
    """
    factor = ratio
    if ratio > 1.0:
        risk, w = problem.risk, state.coef
        height, highest = (
            risk.dual(risk.feasible(risk.signed(f * state.dual))) for f in (1.0, ratio)
        )
        # The dual along the ray is  f slope - f^2 (curvature + |w|^2) / 2.
        curvature = 2.0 * (ratio * height - highest) / (ratio * ratio - ratio)
        slope = height + 0.5 * curvature
        bend = curvature + float(np.vdot(w, w))
        if problem.intercept is Intercept.PENALIZED:
            bend += float(np.vdot(state.offset, state.offset))
        if bend > 0.0:
            factor = min(max(slope / bend, 1.0), ratio)
    return State(state.coef, state.offset, factor * state.dual)
