"""The mean of the lowest scores, with minus sign: the risk of one-class problems.

    r(s) = - min { a.s :  0 <= a_i <= cap_i,  sum_i a_i = 1 }
         = min over rho of  - rho + sum_i cap_i max(0, rho - s_i)

With cap_i = 1 / (nu n), a.s is the mean over a fraction nu of the rows, those of the lowest
scores. Unlike other risks it may be negative, and -r*(-a) is zero for every feasible a.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy import ndarray as Array

from widemargin.risk.base import Bound, Cut, Risk


class Lowest(NamedTuple):
    """The weights a of the lowest scores, (n,), and the highest score among them."""

    weights: Array
    level: float


class LowestMean(Risk):
    """Minus the mean of the lowest scores.

    Parameters
    ----------
    caps : ndarray of shape (n,)
        The largest weight of each row, 0 or more. Their sum is at least 1, up to rounding.
    """

    outputs = ()

    def __init__(self, caps: Array) -> None:
        self.caps = caps

    @cached_property
    def _same(self) -> float:
        """The cap of all rows, or 0 if they differ."""
        low, high = float(self.caps.min()), float(self.caps.max())
        return high if low == high else 0.0

    def lowest(self, S: Array) -> Lowest:
        """Return the weights of the rows of lowest score, and the level of the last of them."""
        order = np.argsort(S)
        filled = np.cumsum(self.caps[order])
        last = min(int(np.searchsorted(filled, 1.0)), S.size - 1)
        weights = np.zeros(S.size)
        weights[order[:last]] = self.caps[order[:last]]
        before = float(filled[last - 1]) if last else 0.0
        weights[order[last]] = min(max(0.0, 1.0 - before), float(self.caps[order[last]]))
        return Lowest(weights, float(S[order[last]]))

    def mean(self, S: Array) -> float:
        """Return the mean of the lowest scores."""
        if not self._same:
            return float(self.lowest(S).weights @ S)
        count = min(int(1.0 / self._same), S.size - 1)
        parted = np.partition(S, count)
        whole = self._same * float(parted[:count].sum())
        return whole + max(0.0, 1.0 - self._same * count) * float(parted[count])

    def value(self, S: Array) -> float:
        return -self.mean(S)

    def bound(self, S: Array, error: Array, low: Array | None = None) -> Bound:
        lowered = S - error if low is None else S + low - error
        return Bound(-self.mean(lowered), float(self.caps @ error))

    def cut(self, S: Array) -> Cut:
        weights = self.lowest(S).weights
        return Cut(-float(weights @ S), -weights, 0.0, None, int(np.count_nonzero(weights)))
