"""Losses of regression: a sum over rows of losses of target - score; see margin.py."""

import math

import numpy as np
from numpy import ndarray as Array

from widemargin.arrays import as_array
from widemargin.losses import Loss
from widemargin.risk.margin import MarginRisk


class TargetRisk(MarginRisk):
    """A sum of losses over rows with targets.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Targets; stored as float64.
    cost : ndarray of shape (n,)
        Weight of each row's loss.
    """

    def __init__(self, y: Array, cost: Array, loss: Loss):
        self.y = as_array(y, np.float64)
        self.cost = as_array(cost, np.float64)
        self.loss = loss

    @property
    def name(self) -> str:
        return f"{self.loss.name} {self.loss.numbers}"  # of which users choose some

    @property
    def steepest(self) -> float:  # type: ignore[override]
        return float(np.abs(self.y[self.cost > 0.0]).max(initial=0.0))

    @property
    def at_zero(self) -> float:
        with np.errstate(over="ignore"):
            return float(self.losses(self.y).sum())

    def spread(self, has_offset: bool = False) -> float:
        # In units of a power of two, so that squares neither overflow nor vanish.
        unit = 2.0 ** (math.frexp(self.steepest)[1] - 1)
        targets = self.y[self.cost > 0.0] / unit
        if has_offset and targets.size:
            targets = targets - targets.mean()
        spread = unit * math.sqrt(float(targets @ targets) / max(1, targets.size))
        return spread if 0.0 < spread < math.inf else 1.0

    def _along_targets(self, alpha: Array) -> Array:
        return self.y * alpha

    def largest_lack(self, S: Array, error: Array) -> float:
        return math.inf  # no multiple of the scores is better for all rows

    def best_offset_at_zero(self) -> float:
        targets = self.y[self.cost > 0.0]
        if targets.size:
            middle = 0.5 * float(targets.min() + targets.max())
            if float(np.abs(targets - middle).max()) <= self.loss.eps:
                return middle  # the objective is zero, without a rounding error
        return self.best_offset(np.zeros(self.y.size))
