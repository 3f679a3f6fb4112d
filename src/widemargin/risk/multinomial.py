"""The multinomial logistic loss:  r(S) = sum_i c_i (log sum_j exp(s_ij) - s_iy),  y the class.

With probabilities p_i, the softmax of row i's scores, slopes are -A with A_iy = c_i (1 - p_iy) and
A_ij = -c_i p_ij for the wrong classes j. So alpha_ij = c_i p_ij >= 0, as for Crammer and Singer's
loss, and the dual -r*(-A) is

    - sum_i c_i sum_j p_ij log p_ij      for  sum_(j wrong) alpha_ij <= c_i

where p_iy is 1 - sum_j alpha_ij / c_i. As with two classes, see logistic.py, the gap of a point
and the A at its scores is half the squared gradient. Rounding is bounded as there.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy import ndarray as Array
from numpy.typing import ArrayLike

from widemargin.risk.base import Bound, Curvature, Cut, LineSums, SmoothRisk
from widemargin.risk.multiclass import ClassRisk
from widemargin.rounding import gamma

# More than the relative error of a loss or of a probability of k classes is this times k + 48.
_UNIT = gamma(1)
_ROUNDINGS = 2.0**-50
_STEEPEST = 1500.0
_FAR = 40.0
# Newton steps to the best offsets, and halvings of one of them.
_MOST_STEPS, _MOST_HALVINGS = 100, 40


class MultinomialRisk(ClassRisk, SmoothRisk):
    """A sum of multinomial logistic losses over rows.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Class of each row, 0 to k - 1.
    cost : ndarray of shape (n,)
        Weight of each row's loss.
    n_classes : int
        k.
    """

    name = "multinomial"
    steepest = _STEEPEST

    @property
    def at_zero(self) -> float:
        return float(self.cost.sum()) * math.log(self.outputs[0])

    @property
    def _error(self) -> float:
        return (self.outputs[0] + 48) * _UNIT

    def _ahead(self, S: Array) -> Array:
        """Return how far the scores of each row are above that of its own class, (n, k)."""
        return np.asfortranarray(S - S[self._own][:, None])

    def _parts(self, ahead: Array) -> tuple[Array, Array, Array]:
        """Return exp(ahead - the highest), sums of it without the own class, and the highest."""
        highest = np.maximum(ahead.max(axis=1), 0.0)
        powers = np.exp(ahead - highest[:, None])
        own = powers[self._own]
        powers[self._own] = 0.0
        others = powers.sum(axis=1)
        powers[self._own] = own
        return powers, others, highest

    def _losses(self, ahead: Array) -> Array:
        powers, others, highest = self._parts(ahead)
        # The own class has a power of 1 where it is the highest: log1p keeps all digits.
        own = powers[self._own]
        rest = np.where(highest > 0.0, np.log(own + others), np.log1p(others))
        return self.cost * (highest + rest)

    def value(self, S: Array) -> float:
        return float(self._losses(self._ahead(S)).sum())

    def bound(self, S: Array, error: Array, low: Array | None = None) -> Bound:
        """As in `Risk`. A difference of two scores may be off by twice the error of one."""
        ahead = self._ahead(S)
        error = 2.0 * error + _ROUNDINGS * np.abs(ahead).max(axis=1)
        if low is not None:
            error = error + 2.0 * np.abs(low).max(axis=1)
        ahead += error[:, None]
        ahead[self._own] = 0.0
        powers, others, _ = self._parts(ahead)
        value = float(self._losses(ahead).sum())
        pulls = self.cost * others / (powers[self._own] + others)
        return Bound((1.0 + self._error) * value, float(pulls @ error) + 2.0 * self._error * value)

    def may_have_loss(self, S: Array, error: Array) -> Array:
        ahead = self._ahead(S)
        ahead[self._own] = -np.inf
        return (ahead.max(axis=1) + 2.0 * error > -_FAR) & (self.cost > 0.0)

    def largest_lack(self, S: Array, error: Array) -> float:
        return math.inf

    def slopes(self, S: Array, offset: Array | float = 0.0) -> tuple[Array, "SoftmaxCurvature"]:
        powers, others, _ = self._parts(self._ahead(S + offset))
        total = powers[self._own] + others
        p = powers / total[:, None]
        A = -self.cost[:, None] * p
        A[self._own] = self.cost * (others / total)
        return A, SoftmaxCurvature(p, self.cost)

    def cut(self, S: Array) -> Cut:
        A = self.slopes(S)[0]
        return Cut(self.value(S), -A, self._height(self.unsigned(A)), -A, int(self.cost.size))

    def line(self, S: Array, D: Array) -> "SoftmaxLine":
        return SoftmaxLine(self, S, D)

    # --- the dual ---------------------------------------------------------------------------

    def feasible(self, A: Array) -> Array:
        """Return dual variables near A: rows that exceed their cost are scaled down to it."""
        alpha = self.unsigned(A)
        total, most = alpha.sum(axis=1), (1.0 - self._error) * self.cost
        over = total > most
        alpha[over] *= (most[over] / total[over])[:, None]
        return self.signed(alpha)

    def dual(self, A: Array) -> float:
        alpha = -A
        alpha[self._own] = 0.0
        if np.any(alpha < 0.0) or np.any(alpha.sum(axis=1) > self.cost):
            return -np.inf
        return self._height(alpha)

    def _height(self, alpha: Array) -> float:
        """Return the dual at feasible alpha, (n, k), which are 0 for the own classes."""
        cost = np.where(self.cost > 0.0, self.cost, 1.0)
        p, total = alpha / cost[:, None], alpha.sum(axis=1)
        of_others, own = total / cost, np.maximum(cost - total, 0.0) / cost
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(p > 0.0, p * np.log(p), 0.0).sum(axis=1)
            logs = np.where(of_others < 0.5, np.log1p(-of_others), np.log(own))
            terms += np.where(own > 0.0, own * logs, 0.0)
        return float(-(self.cost * terms).sum())

    # --- the intercept ----------------------------------------------------------------------

    def best_offset(self, S: Array) -> Array:
        """Return offsets (k,) that minimise r(S + offset); those of classes without rows fall."""
        offset, value = np.zeros(self.outputs), self.value(S)
        for _ in range(_MOST_STEPS):
            A, curvature = self.slopes(S, offset)
            slope = -A.sum(axis=0)
            if np.abs(slope).sum() <= 1e-15 * np.abs(A).sum():
                break
            rounding = _ROUNDINGS * value
            step = -np.linalg.pinv(curvature.total, hermitian=True) @ slope
            step *= min(1.0, 50.0 / max(1e-300, float(np.abs(step).max())))
            for _ in range(_MOST_HALVINGS):
                here = self.value(S + (offset + step))
                if here <= value + rounding:
                    break
                step *= 0.5
            if not here <= value + rounding:
                break
            offset, value = offset + step, here
            if -float(slope @ step) <= 2.0**-20 * rounding:  # no digit of the value changes
                break
        return offset


@dataclass
class SoftmaxCurvature(Curvature):
    """Curvatures of the losses at probabilities p, (n, k), of rows of these costs."""

    p: Array
    cost: Array

    def times(self, U: Array) -> Array:
        V = self.p * U
        V -= self.p * V.sum(axis=1)[:, None]
        V *= self.cost[:, None]
        return V

    @property
    def diagonal(self) -> Array:
        return self.cost[:, None] * self.p * (1.0 - self.p)

    @property
    def total(self) -> Array:
        weighted = self.cost[:, None] * self.p
        return np.diag(weighted.sum(axis=0)) - self.p.T @ weighted


class SoftmaxLine:
    """The multinomial losses along S + step * D."""

    def __init__(self, risk: MultinomialRisk, S: Array, D: Array):
        self.risk, self.S, self.D = risk, S, D

    def evaluate(self, steps: ArrayLike) -> LineSums:
        """Return values, slopes and curvatures at all `steps`; there are no pieces."""
        steps = np.asarray(steps, dtype=np.float64)
        sums = []
        for step in steps:
            there = self.S + step * self.D
            A, curvature = self.risk.slopes(there)
            bent = float(np.vdot(self.D, curvature.times(self.D)))
            sums.append((self.risk.value(there), -float(np.vdot(A, self.D)), bent))
        values, slopes, curvatures = np.array(sums).T
        return LineSums(values, slopes, curvatures, np.empty((steps.size, 0)))
