"""The penalty of the weights, by two numbers:  l1 |w|_1 + l2 / 2 |w|^2.

A penalty with an l1 above 0 makes most weights exactly zero. Its conjugate is what it takes off
the dual: with v = X^T A,

    sum_j max(0, |v_j| - l1)^2 / (2 l2)

which is infinite outside of |v_j| <= l1 where l2 is 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray as Array

from widemargin.rounding import squares

#: names of penalties in estimators
PENALTIES = ("l2", "l1", "elasticnet")


@dataclass(frozen=True)
class Penalty:
    """A penalty by its numbers; 1/2 |w|^2 by default."""

    l1: float = 0.0
    l2: float = 1.0

    @classmethod
    def called(cls, name: str, l1_ratio: Any = 0.5) -> "Penalty":
        """Return the penalty with a name; `l1_ratio` is the part of |w|_1 in an elastic net.

        "auto" is an elastic net; without an l1_ratio, "l2".
        """
        if name in ("elasticnet", "auto"):
            ratio = float(l1_ratio or 0.0)
        else:
            ratio = float(name == "l1")
        return cls(ratio, 1.0 - ratio)

    @property
    def name(self) -> str:
        if self.l1 == 0.0:
            return "l2"
        return "elasticnet" if self.l2 > 0.0 else "l1"

    @property
    def is_sparse(self) -> bool:
        """Whether weights may be zero because of the penalty."""
        return self.l1 > 0.0

    def value(self, w: Array | float) -> float:
        """Return the penalty of weights of any shape; its relative error is at most SUM."""
        value = 0.5 * self.l2 * squares(w) if self.l2 > 0.0 else 0.0
        return value + self.l1 * float(np.abs(w).sum()) if self.l1 > 0.0 else value

    def conjugate(self, sizes: Array) -> float:
        """Return the conjugate at v, from |v|; for an l2 above 0."""
        return squares(np.maximum(sizes - self.l1, 0.0)) / (2.0 * self.l2)

    def fitting_scale(self, sizes: Array) -> float:
        """Return the largest factor, at most 1, by which v has a finite conjugate."""
        largest = float(sizes.max(initial=0.0))
        if self.l2 > 0.0 or largest <= self.l1:
            return 1.0
        return (1.0 - 2.0**-50) * self.l1 / largest

    def lowest(self, gradient: Any, curvature: Any, w: Any) -> Any:
        """Return the z with the least  gradient (z - w) + curvature / 2 (z - w)^2 + penalty of z.

        Each weight by itself; the curvature is above 0.
        """
        free = curvature * w - gradient
        return (free - np.clip(free, -self.l1, self.l1)) / (curvature + self.l2)


#: 1/2 |w|^2
RIDGE = Penalty()
