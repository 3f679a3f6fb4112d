"""A sum over rows of losses of their residuals, by the numbers of losses.py.

    r(s) = sum_i c_i loss(t_i - u_i s_i),      u_i = +-1,  c_i >= 0

Rows with a label have the sign u_i = y_i and the target t_i = 1. Rows with a target have the
sign u_i = 1, see targets.py. With dual variables A (n,) written as A_i = alpha_i u_i, the dual
-r*(-A) is

    sum_i t_i alpha_i - eps |alpha_i| - shift_i alpha_i^2 / 2     for lower_i <= alpha_i <= upper_i

and minus infinity elsewhere. Both are exact, in float64.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy import ndarray as Array

from widemargin import passes
from widemargin.arrays import as_array
from widemargin.kernels.loss import knots
from widemargin.kernels.response import signs, targets
from widemargin.losses import HINGE, SQUARED_HINGE, Loss
from widemargin.risk.base import Bound, Cut, RowCurvature, RowLine, RowRisk, balanced_sides

# More than the roundings of a residual, of its further digits, and of its sum with an error.
_ROUNDINGS = 2.0**-51


class MarginRisk(RowRisk):
    """A sum of losses over rows.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels, -1 or +1; stored as int8.
    cost : ndarray of shape (n,)
        Weight of each row's loss: C times class weight times sample weight. Rows of cost zero
        are left out.
    """

    outputs = ()

    def __init__(self, y: Array, cost: Array, loss: Loss):
        self.y = as_array(y, np.int8)
        self.cost = as_array(cost, np.float64)
        self.loss = loss

    @property
    def name(self) -> str:
        return self.loss.name

    @property
    def is_smooth(self) -> bool:  # type: ignore[override]
        return self.loss.is_smooth

    def over(self, y: Array, cost: Array) -> "MarginRisk":
        """Return the same losses for other rows."""
        return type(self)(y, cost, self.loss)

    def part(self, begin: int, end: int) -> "MarginRisk":
        return self.over(self.y[begin:end], self.cost[begin:end])

    @property
    def sign(self) -> Array:
        """The sign of each row's score in its residual, (n,); not to be written to."""
        return signs(self.y)

    @property
    def target(self) -> Any:
        """The targets, (n,), or the one target of all rows."""
        return targets(self.y)

    def residuals(self, S: Array | float) -> Array:
        """Return the residuals at scores S, (n,)."""
        return self.target - self.sign * S

    def spread(self, has_offset: bool = False) -> float:
        """Return how large targets are, or how far from each other if scores have an offset."""
        return 1.0

    # --- by the numbers of the loss ---------------------------------------------------------

    @property
    def lower(self) -> Array:
        """Lower bounds of alpha, (n,)."""
        return self._scaled(self.loss.low)

    @property
    def upper(self) -> Array:
        """Upper bounds of alpha, (n,)."""
        return self._scaled(self.loss.high)

    @property
    def shift(self) -> Array:
        """The factor of alpha^2 / 2 in the dual, (n,); 0 for rows of cost zero."""
        return self.loss.bend / np.where(self.cost > 0.0, self.cost, np.inf)

    def _scaled(self, bound: float) -> Array:
        if math.isinf(bound):
            return np.where(self.cost > 0.0, bound, 0.0)
        return bound * self.cost

    def _excess(self, residual: Array) -> Array:
        """Return how far residuals are beyond eps, (n,)."""
        eps = self.loss.eps
        return residual if eps == 0.0 else residual - np.clip(residual, -eps, eps)

    def slopes(self, S: Array, offset: Any = 0.0) -> tuple[Array, RowCurvature]:
        loss = self.loss
        residual = self.residuals(S + offset)
        excess = self._excess(residual)
        a = np.clip(excess / loss.bend, loss.low, loss.high)
        middle = 0.0 if loss.is_one_sided or loss.eps > 0.0 else 1.0 / loss.bend
        curved = np.full(a.shape, middle)
        curved = np.divide(a, excess, out=curved, where=excess != 0.0)
        return self.cost * a * self.sign, RowCurvature(self.cost * curved)

    def losses(self, residual: Array) -> Array:
        """Return the loss of each row, (n,), at its residual."""
        loss, excess = self.loss, self._excess(residual)
        if not loss.is_smooth:
            return self.cost * np.maximum(loss.high * excess, loss.low * excess)
        a = np.clip(excess / loss.bend, loss.low, loss.high)
        return self.cost * a * (excess - 0.5 * loss.bend * a)

    def _dual_terms(self, alpha: Array) -> Array:
        """Return each row's term of the dual, (n,)."""
        terms = self._along_targets(alpha)
        if self.loss.eps > 0.0:
            terms = terms - self.loss.eps * np.abs(alpha)
        if self.loss.bend > 0.0:
            terms = terms - alpha * (0.5 * self.shift * alpha)  # alpha^2 alone might underflow
        return terms

    def row_terms(self, alpha: Array) -> Array:
        """Return each row's term of the dual at feasible alpha_i, (n,)."""
        return self._dual_terms(alpha)

    def _along_targets(self, alpha: Array) -> Array:
        """Return target times alpha, (n,)."""
        return alpha

    # --- the contract -----------------------------------------------------------------------

    def signed(self, alpha: Array) -> Array:
        return alpha * self.sign

    def unsigned(self, A: Array) -> Array:
        return A * self.sign

    def feasible(self, A: Array) -> Array:
        return np.clip(A * self.sign, self.lower, self.upper) * self.sign

    def balanced(self, A: Array) -> Array:
        return balanced_sides(A)

    def cut(self, S: Array) -> Cut:
        slope, value, constant, active = passes.of(S).margin_cut(
            self.y, self.cost, self.loss.numbers, S
        )
        return Cut(float(value), slope, float(constant), self._pack(slope), int(active))

    def line(self, S: Array, D: Array) -> "MarginLine":
        residual, rate = passes.of(S).margin_rates(self.y, S, D)
        return MarginLine(residual, rate, self.cost, self.loss)

    def walk(self, S: Array, T: Array, *numbers: float) -> tuple[Array, Callable]:
        """Move S towards T to where  1/2 a step^2 + b step + r  is lowest; on a GPU.

        See `passes.gpu.margin_walk`, also for `numbers`. Returns the slope of a plane farther on,
        and a function that waits for the rest: step; a, b and c; r at the end; the plane's Cut.
        """
        slope, lossy, wait = passes.of(S).margin_walk(
            self.y, self.cost, self.loss.numbers, S, T, *numbers
        )
        code = lossy if self._fits_a_bit else slope

        def found() -> tuple[float, tuple, float, Cut]:
            step, a, b, c, at_end, value, constant, active = wait().tolist()
            return step, (a, b, c), at_end, Cut(value, slope, constant, code, int(active))

        return slope, found

    def row_gaps(self, S: Array, alpha: Array) -> Array:
        """Return each row's contribution to the gap, (n,), where w = sum_i alpha_i u_i x_i.

        |w|^2 = sum_i alpha_i u_i s_i splits the gap by rows: the loss of row i, minus its dual
        term, plus alpha_i u_i s_i. Contributions are nonnegative.
        """
        along = self.sign * S
        return self.losses(self.target - along) - self._dual_terms(alpha) + alpha * along

    def value(self, S: Array) -> float:
        return float(self.losses(self.residuals(S)).sum())

    def bound(self, S: Array, error: Array, low: Array | None = None) -> Bound:
        residual = self.sign * S
        np.subtract(self.target, residual, out=residual)
        if low is not None:
            residual -= self.sign * low
        error = self._residual_error(residual, error)
        found = passes.of(residual).bounded_losses(residual, error, self.cost, self.loss.numbers)
        return Bound(*found)

    def _residual_error(self, residual: Array, error: Array) -> Array:
        """Return bounds on the errors of residuals, (n,): those of the scores, and rounding.

        Near zero a residual is exact. A loss that begins at eps > 0 may be all rounding there.
        """
        return error if self.loss.eps == 0.0 else error + _ROUNDINGS * np.abs(residual)

    def may_have_loss(self, S: Array, error: Array) -> Array:
        residual, eps = self.residuals(S), self.loss.eps
        error = self._residual_error(residual, error)
        lossy = residual + error > eps
        if not self.loss.is_one_sided:
            lossy |= residual - error < -eps
        return lossy & (self.cost > 0.0)

    def largest_lack(self, S: Array, error: Array) -> float:
        if not self.loss.is_one_sided:
            return math.inf
        lacks = (1.0 - self.loss.eps - self.y * S + error)[self.cost > 0.0]
        return float(lacks.max()) if lacks.size else 0.0

    def dual(self, A: Array) -> float:
        return passes.of(A).dual_height(self.y, self.cost, self.loss.numbers, A)

    def dual_sum(self, alpha: Array) -> float:
        """Return the dual at feasible alpha_i; their feasibility is not checked."""
        return float(self._dual_terms(alpha).sum())

    @property
    def _fits_a_bit(self) -> bool:
        """Whether a slope has only two possible values per row, so that a bit can store it."""
        return self.loss.is_one_sided and not self.loss.is_smooth

    def _pack(self, slope: Array) -> Array:
        """Return the code of a slope made by `cut`."""
        return np.packbits(slope != 0.0) if self._fits_a_bit else slope

    def unpack(self, code: Array) -> Array:
        if code.dtype != np.uint8:
            return code
        lossy = np.unpackbits(code)[: self.y.size].astype(bool)
        return np.where(lossy, -self.upper * self.sign, 0.0)

    def best_offset_at_zero(self) -> float:
        """Return the b that minimises r(b), which is the same for all rows."""
        # As if all rows with the same label were one.
        costs = np.bincount((self.y > 0).view(np.int8), self.cost, 2)
        return self.over(np.array([-1, 1]), costs).best_offset(np.zeros(2))

    def best_offset(self, S: Array) -> float:
        """Return the b that minimises r(S + b): the middle one if several do."""
        counted = self.cost > 0.0
        cost = self.cost[counted]
        # To the right of each place, the slope in b is weight b - moment.
        places, weight, moment = self._slope_in_offset(self.y[counted], S[counted], cost)
        rounding, end = 1e-12 * cost.sum(), places.size - 1
        slope = weight[1:] * places - moment[1:]
        if self.loss.is_smooth:
            tube = np.flatnonzero(np.abs(slope) <= self._no_slope(moment))
            if tube.size > 1:  # there is room for all rows
                return 0.5 * float(places[tube[0]] + places[tube[-1]])
            piece = int(np.searchsorted(slope, 0.0))
            if weight[piece] > rounding:
                return float(moment[piece] / weight[piece])
            return float(places[min(piece, end)])  # every b in between is as good
        first = np.searchsorted(slope, -rounding)
        last = np.searchsorted(slope, rounding, side="right")
        return 0.5 * float(places[min(first, end)] + places[min(last, end)])

    def _no_slope(self, moment: Array) -> float:
        """Return up to which size a slope in b is a rounding error.

        It is only asked where a slope may be zero over an interval with two ends.
        """
        has_tube = self.loss.eps > 0.0 and not self.loss.is_one_sided
        return 1e-13 * float(np.abs(moment).max()) if has_tube else -1.0

    def _slope_in_offset(self, y: Array, S: Array, cost: Array) -> tuple[Array, Array, Array]:
        """Return the places b, in order, where the slope of r in b changes, (m,).

        Also return weight and moment, of which the slope is made, to the left of the first place
        and to the right of each place, (m + 1,).
        """
        loss, sign, target = self.loss, signs(y), targets(y)
        positive = sign > 0
        if not loss.is_smooth:
            # The slope jumps where a residual passes eps or -eps, for either sign.
            kinks = (
                [(loss.eps, loss.high)]
                if loss.is_one_sided
                else [(loss.eps, loss.high), (-loss.eps, -loss.low)]
            )
            start = np.where(positive, -loss.high, loss.low) * cost
            places = np.concatenate([sign * (target - kink) - S for kink, _ in kinks])
            jumps = np.concatenate([jump * cost for _, jump in kinks])
            order = np.argsort(places)
            moment = -start.sum() - np.concatenate(([0.0], np.cumsum(jumps[order])))
            return places[order], np.zeros_like(moment), moment
        # With a sign of 1 residuals fall as b rises: they pass the knots from the last one on.
        steep = cost / loss.bend
        passed = zip(knots(*loss.numbers), (-1.0, 1.0, -1.0, 1.0))
        finite = [(knot, way * sign * steep) for knot, way in passed if math.isfinite(knot)]
        places = np.concatenate([sign * (target - knot) - S for knot, _ in finite])
        change = np.concatenate([of_weight for _, of_weight in finite])
        order = np.argsort(places)
        places, change = places[order], change[order]
        # At the far left, a row is on a linear piece, or on a parabola that never ends.
        bound = np.where(positive, -loss.high, loss.low)
        endless = np.isinf(bound)
        weight = np.where(endless, steep, 0.0).sum()
        straight = -np.where(endless, 0.0, bound) * cost
        moment = np.where(endless, steep * (sign * target - S - loss.eps), straight).sum()
        weight = weight + np.concatenate(([0.0], np.cumsum(change)))
        return places, weight, moment + np.concatenate(([0.0], np.cumsum(change * places)))


def Hinge(y: Array, cost: Array) -> MarginRisk:
    """Return the risk of hinge losses."""
    return MarginRisk(y, cost, HINGE)


def SquaredHinge(y: Array, cost: Array) -> MarginRisk:
    """Return the risk of squared hinge losses."""
    return MarginRisk(y, cost, SQUARED_HINGE)


class MarginLine(RowLine):
    """A sum of losses of residual_i + step * rate_i, as a function of the step."""

    def __init__(self, residual: Array, rate: Array, cost: Array, loss: Loss):
        super().__init__(residual, rate, cost)
        self.loss = loss

    def sums(self, steps: Array) -> tuple[Array, Array]:
        return self.passes.margin_sums(*self.vectors, self.loss.numbers, steps)

    def over(self, vectors: Iterable[Array]) -> "MarginLine":
        residual, rate, cost = vectors
        return MarginLine(residual, rate, cost, self.loss)
