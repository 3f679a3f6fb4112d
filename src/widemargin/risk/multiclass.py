"""The multi-class hinge of Crammer and Singer.

    r(S) = sum_i c_i max_j ([j != y_i] + s_ij - s_iy),      y_i the class of row i

With alpha_ij >= 0 for the wrong classes j of row i, dual variables A (n, k) are
A_ij = -alpha_ij there and A_iy = sum_j alpha_ij, and the dual -r*(-A) is

    sum_ij alpha_ij        for  sum_j alpha_ij <= c_i

and minus infinity elsewhere. With two classes and w = w_2 - w_1, this is the two-class hinge with
twice the cost, and half its objective.

Scores are stored class by class (Fortran order), so that kernels can vectorise over rows.
"""

from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy import ndarray as Array
from scipy.sparse.csgraph import connected_components

from widemargin import passes
from widemargin.arrays import as_array, move_to, on_host
from widemargin.risk.base import Bound, Cut, RowLine, RowRisk, Slopes

# Gaps between offsets may be this many times as wide as necessary: with the least width planes
# meet, and a plane taken there is of no use.
_ROOM = 16.0


class ClassRisk(RowRisk):
    """Losses of rows with classes, whose dual variables are alpha_ij >= 0 of the wrong classes j.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Class of each row, 0 to k - 1.
    cost : ndarray of shape (n,)
        Weight of each row's loss.
    n_classes : int
        k.
    """

    def __init__(self, y: Array, cost: Array, n_classes: int):
        self.y = as_array(y, np.min_scalar_type(max(1, n_classes - 1)))
        self.cost = as_array(cost, np.float64)
        self.outputs = (n_classes,)

    @property
    def _own(self) -> tuple[Array, Array]:
        """Index of each row's own class in (n, k) arrays."""
        return np.arange(self.y.size, like=self.y), self.y

    def part(self, begin: int, end: int) -> Self:
        return type(self)(self.y[begin:end], self.cost[begin:end], *self.outputs)

    def signed(self, alpha: Array) -> Array:
        A = -alpha
        A[self._own] = alpha.sum(axis=1)
        return A

    def unsigned(self, A: Array) -> Array:
        alpha = np.maximum(0.0, -A)
        alpha[self._own] = 0.0
        return alpha

    def balanced(self, A: Array) -> Array:
        alpha = self.unsigned(A)
        factors = _balancing_factors(self._flow(alpha))
        alpha *= move_to(factors, alpha)[self.y]
        return self.signed(alpha)

    def _flow(self, alpha: Array) -> Array:
        """Return the flow between classes, (k, k): the sum of alpha_ij over rows of each class."""
        (k,) = self.outputs
        own_class = np.arange(k, like=self.y)[:, None] == self.y
        return on_host(own_class.astype(np.float64) @ alpha)

    def unpack(self, code: Array) -> Array:
        return code


class CrammerSinger(ClassRisk):
    """A sum of multi-class hinge losses."""

    def value(self, S: Array) -> float:
        return float((self.cost * np.maximum(0.0, self._slack(S))).sum())

    def bound(self, S: Array, error: Array, low: Array | None = None) -> Bound:
        """As in `Risk`. A loss depends on two scores, so its error may be twice that of one."""
        if low is not None:
            error = error + np.abs(low).max(axis=1)
        slack = np.maximum(0.0, self._slack(S) + 2.0 * error)
        rounding = 2.0 * float((self.cost * error * (slack > 0.0)).sum())
        return Bound(float((self.cost * slack).sum()), rounding)

    def may_have_loss(self, S: Array, error: Array) -> Array:
        return (self._slack(S) + 2.0 * error > 0.0) & (self.cost > 0.0)

    def largest_lack(self, S: Array, error: Array) -> float:
        lacks = (self._slack(S) + 2.0 * error)[self.cost > 0.0]
        return float(lacks.max()) if lacks.size else 0.0

    def _slack(self, S: Array) -> Array:
        """Return 1 + s_j - s_y for the best wrong class j of each row, (n,), to the last digit."""
        own = S[self._own]
        others = S.copy()
        others[self._own] = -np.inf
        best = others.max(axis=1)
        ahead = best - own
        # The rounding error of the difference (Knuth): 1 + s_j - s_y may be as small as it is.
        back = ahead - best
        rest = (best - (ahead - back)) - (own + back)
        return (1.0 + ahead) + rest

    def useful_offset(self, S: Array, offset: Array) -> Array:
        """Return the offset with gaps between classes narrowed where they are too wide.

        A gap is too wide if it is more than 1 plus the largest difference of scores, with no class
        in between. Then rows of the upper classes have no loss from the lower ones, and all other
        rows pay for the distance.
        """
        counted = self.cost > 0.0
        if not bool(counted.any()):
            return offset
        some = S[counted]
        widest = _ROOM * (1.0 + float((some.max(axis=1) - some.min(axis=1)).max()))
        order = np.argsort(offset)
        gaps = np.diff(offset[order])
        if np.all(gaps <= widest):
            return offset
        near = np.empty_like(offset)
        near[order] = np.concatenate([[0.0], np.cumsum(np.minimum(gaps, widest))])
        middle = order[len(order) // 2]
        return near - near[middle]

    def feasible(self, A: Array) -> Array:
        """Return dual variables near A: rows that exceed their cost are scaled down to it."""
        alpha = self.unsigned(A)
        total = alpha.sum(axis=1)
        over = total > self.cost
        alpha[over] *= (self.cost[over] / total[over])[:, None]
        return self.signed(alpha)

    def dual(self, A: Array) -> float:
        alpha = -A
        alpha[self._own] = 0.0
        total = alpha.sum(axis=1)
        # Sums over classes are rounded, so cost and total may differ in the last digit.
        if np.any(alpha < 0.0) or np.any(total > self.cost * (1.0 + 1e-12)):
            return -np.inf
        return float(total.sum())

    def cut(self, S: Array) -> Cut:
        slope, code, value, constant, active = passes.of(S).multiclass_cut(self.y, self.cost, S)
        return Cut(float(value), slope, float(constant), code, int(active))

    def line(self, S: Array, D: Array) -> "MulticlassLine":
        return MulticlassLine(self.y, self.cost, S, D)

    def unpack(self, code: Array) -> Array:
        if code.ndim == 2:
            return code
        slope = np.zeros_like(self.cost, shape=(self.y.size, *self.outputs))
        lossy = np.flatnonzero(code != self.y)
        slope[lossy, code[lossy]] = self.cost[lossy]
        slope[lossy, self.y[lossy]] = -self.cost[lossy]
        return slope

    def weighted_sum(self, slopes: Slopes) -> Array:
        A = np.zeros_like(self.cost, shape=(self.y.size, *self.outputs), order="F")
        for weight, code in slopes:
            if code.ndim == 2:
                A -= weight * code
            else:
                passes.of(A).multiclass_mix(self.y, self.cost, weight, code, A)
        return A


class MulticlassLine(RowLine):
    """The multi-class hinge of classes y, (n,), along S + step * D."""

    def __init__(self, y: Array, cost: Array, S: Array, D: Array):
        super().__init__(y, cost, S, D)

    def sums(self, steps: Array) -> tuple[Array, Array]:
        return self.passes.multiclass_sums(*self.vectors, steps)

    def over(self, vectors: Iterable[Array]) -> "MulticlassLine":
        return MulticlassLine(*vectors)


def _balancing_factors(flow: Array) -> Array:
    """Return factors in [0, 1], (k, k), that make `flow` a circulation.

    Then as much flows into each class as out of it. There must be no flow between classes that
    cannot reach each other both ways. Among the others, scaling rows and columns against each
    other (Osborne's balancing) has a solution.
    """
    flow = np.where(np.eye(len(flow), dtype=bool), 0.0, flow)
    flow[flow <= 1e-30 * flow.max()] = 0.0  # rounding errors, whose products would underflow
    _, component = connected_components(flow > 0.0, connection="strong")
    flow[component[:, None] != component] = 0.0
    wanted = flow.copy()
    # First the excess is removed where it is, so that classes that are nearly balanced change
    # little. The class that is farthest from balance comes first.
    for _ in range(20 * len(flow)):
        out, into = flow.sum(axis=1), flow.sum(axis=0)
        smaller, larger = np.minimum(out, into), np.maximum(out, into)
        ratio = np.where(larger > 0.0, smaller / np.where(larger > 0.0, larger, 1.0), 1.0)
        a = ratio.argmin()
        if out[a] > into[a]:
            flow[a] *= ratio[a]
        else:
            flow[:, a] *= ratio[a]
    scale = np.ones(len(flow))
    for _ in range(1000):
        scaled = scale[:, None] * flow / scale
        out, into = scaled.sum(axis=1), scaled.sum(axis=0)
        if np.abs(out - into).max() <= 1e-15 * max(out.max(), 1e-300):
            break
        for a in np.flatnonzero(flow.any(axis=1)):
            out = scale[a] * (flow[a] / scale).sum()
            into = (scale * flow[:, a]).sum() / scale[a]
            scale[a] *= np.sqrt(into / out)
    factors = np.where(flow > 0.0, scale[:, None] / scale, 0.0)
    kept = np.divide(flow, wanted, out=np.zeros_like(flow), where=wanted > 0.0)
    return kept * factors / max(1.0, factors.max())
