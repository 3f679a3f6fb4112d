"""Starting points at one cost, from the solution at another."""

from dataclasses import dataclass

import numpy as np

from widemargin.problem import Intercept, Problem, State


@dataclass(frozen=True)
class Trail:
    """The change of the dual variables of a hinge loss as C grows.

    Solutions of such problems are piecewise linear in C (Hastie et al. 2004). Dual variables at
    their upper bounds follow these, and those at zero mostly stay there. The others continue their
    last change.

    Attributes
    ----------
    free : ndarray of shape (m,)
        Rows with dual variables between their bounds.
    rate : ndarray of shape (m,), float32
        How much these grow when C grows by one.
    """

    free: np.ndarray
    rate: np.ndarray

    @classmethod
    def of(
        cls, before: np.ndarray, former_C: float, dual: np.ndarray, cost: np.ndarray, C: float
    ) -> "Trail":
        """Return the trail to `dual`, (n,), at C, from `before`, at former_C."""
        free = np.flatnonzero((dual > 0.0) & (dual < cost)).astype(np.uint32)
        return cls(free, ((dual[free] - before[free]) / (C - former_C)).astype(np.float32))

    def followed(self, problem: Problem, state: State, former_C: float, C: float) -> State:
        """Return a start for `problem` at C, extrapolated from `state`, at former_C."""
        dual = C / former_C * state.dual  # right for those at their bounds
        dual[self.free] = state.dual[self.free] + (C - former_C) * self.rate
        return State(state.coef, state.offset, np.clip(dual, 0.0, problem.risk.cost))


def carried(problem: Problem, state: State, ratio: float) -> State:
    """Return a start for `problem`, whose costs are `ratio` times those of `state`.

    All dual variables may grow by `ratio`. But if hardly any row is inside the margin, they hardly
    change. So they are multiplied by the factor in between that maximises the dual.
    """
    if problem.penalty.is_sparse:
        return state  # its solver goes by the weights
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
