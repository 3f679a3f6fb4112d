"""Joint steps for free dual variables.

Coordinate descent knows which dual variables are at their bounds long before it has solved for the
others. With those at their bounds fixed, what is left is a linear system over the rows F with
free dual variables, at most a fifth of all rows:

    Q d = r      Q_ij = y_i y_j (x_i.x_j + intercept) + shift_i [i = j]
                 r_i = residual_i - shift_i alpha_i

It is solved by conjugate residuals (Stiefel 1955), with the diagonal as preconditioner. An
iteration costs two products with the rows F. It has three results:

- A primal point, w + X^T (d y), which has the rows F on the margin. alpha + d may violate its
  bounds. The point is much better than w: when the dual is solved to eight digits, margins are
  solved to four, and each of these errors is a loss.
- A dual point, alpha + d clipped to its bounds, for the step length at which the dual rises. -
Progress for contradictory rows (the same text with both labels). Q is singular there. The part of
  r that no d removes is a direction in which the dual rises and w stays the same. Dual variables
  follow it to their bounds; coordinate descent would take C |x|^2 visits.

GPCG (More and Toraldo 1991) alternates in this way between joint steps and projected gradients;
here passes of coordinate descent take the place of projected gradients.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from widemargin.data.rows import SingleRows
from widemargin.kernels import face as kernels
from widemargin.risk import MarginRisk

# Step lengths: fractions of d; and along the part of r that is left over, multiples of the step
# that takes the largest dual variable across its box, or to the maximum before.
_FRACTIONS = (1.0, 0.5, 0.25, 0.1)
_FIRST_MULTIPLE, _GROWTH, _LAST_MULTIPLE = 1.0 / 64.0, 4.0, 64.0


class Face:
    """The dual as a function of the change d of some variables:  r.d - 1/2 d.Q d.

    Parameters
    ----------
    rows : SingleRows of shape (n, d)
    index : ndarray of shape (m,), int
        The rows whose variables change. Their costs are positive.
    risk : MarginRisk
        Of all rows; its loss has eps = 0.
    alpha : ndarray of shape (n,)
    w : ndarray of shape (d,), float64
    offset, norms, mean_dot : ndarray of shape (3,), (n,), (n,) or (0,)
        As in the kernels of coordinate descent.
    """

    def __init__(
        self,
        rows: SingleRows,
        index: np.ndarray,
        risk: MarginRisk,
        alpha: np.ndarray,
        w: np.ndarray,
        offset: np.ndarray,
        norms: np.ndarray,
        mean_dot: np.ndarray,
    ):
        self.rows, self.index, self.mean_dot = rows, index, mean_dot
        self.low, self.high, self.bend = risk.loss.low, risk.loss.high, risk.loss.bend
        self.k, self.y = float(offset[2]), risk.y[index]
        self.system = np.empty((kernels.SYSTEM_SIZE, index.size))
        self.vectors = np.empty((kernels.VECTORS_SIZE, index.size))
        self.numbers = np.zeros(kernels.NUMBERS_SIZE)
        self.scratch, self.combined = np.empty(index.size), np.empty(rows.n_features)
        kernels.start(
            rows.arrays, index, risk.y, risk.cost, alpha, self.bend, w, offset, norms, mean_dot,
            self.system, self.numbers,
        )  # fmt: skip
        self.root, self.residual = self.system[kernels.ROOT], self.system[kernels.RIGHT]

    def solve(
        self, enough: float, slowest: float, most: float, must_stop: Callable[[], bool]
    ) -> tuple[np.ndarray, np.ndarray | None, float, int]:
        """Find d by conjugate residuals.

        They end when the gap contributions of these rows are at most `enough`, when these are more
        than `slowest` times those of the last estimate, or after `most` iterations. Only in the
        last case is `left` a direction.

        Returns
        -------
        change : ndarray of shape (m,)
            d.
        left : ndarray of shape (m,), or None
            The residual: a direction that is left over.
        gap : float
            The last estimate of these rows' gap contributions; infinite if there was none.
        n_iter : int
        """
        n_iter = max(1, self.rows.rows_per_call // max(1, 2 * self.index.size))
        self.numbers[kernels.BEGUN], how = 0.0, kernels.RUNNING
        while how == kernels.RUNNING:
            how = kernels.iterate(
                self.rows.arrays, self.index, self.mean_dot, self.k, self.system, self.y,
                self.vectors, self.numbers, self.low, self.high, self.bend, enough, slowest,
                most, n_iter, self.scratch, self.combined,
            )  # fmt: skip
            if must_stop():
                break
        change = self.vectors[kernels.CHANGE] / self.root
        left = self.vectors[kernels.RESIDUAL] / self.root if how != kernels.ENOUGH else None
        gap, made = self.numbers[kernels.GAP], self.numbers[kernels.ITERATIONS]
        return change, left, float(gap), int(made)

    def step(self, change: np.ndarray, left: np.ndarray | None) -> "Step":
        """Return the best step within the bounds, of those tried along both directions.

        It is zero if none of them raises the dual.
        """
        nothing = np.zeros(self.rows.n_features), 0.0, 0.0
        best = Step(0.0, np.zeros_like(change), nothing)
        for fraction in _FRACTIONS:
            best = self._better(fraction * change, best)
            if best.gain > 0.0:
                break
        if left is not None:
            best = self._farther(left, best)
        return best

    def combine(self, change: np.ndarray) -> tuple[np.ndarray, float, float]:
        """Return X^T (change y), the sum of (change y), and its dot product with `mean_dot`."""
        w = np.empty(self.rows.n_features)
        signed = change * self.system[kernels.LABEL]
        return w, *kernels.combine(self.rows.arrays, self.index, signed, self.mean_dot, w)

    def _scaled_product(self, scaled: np.ndarray) -> np.ndarray:
        """Return Q (scaled / root) / root: the product with a matrix whose diagonal is 1."""
        product = np.empty_like(scaled)
        kernels.multiply(
            self.rows.arrays, self.index, self.mean_dot, self.k, self.system, scaled, product,
            self.scratch, self.combined,
        )  # fmt: skip
        return product

    def _farther(self, left: np.ndarray, best: "Step") -> "Step":
        """Take longer and longer steps along `left` while the dual rises."""
        base, unit = best.change, self._across(left)
        multiple = _FIRST_MULTIPLE
        while multiple <= _LAST_MULTIPLE:
            here = self._better(base + multiple * unit * left, best)
            if here is best:
                break
            best, multiple = here, _GROWTH * multiple
        return best

    def _across(self, left: np.ndarray) -> float:
        """Return the multiple of `left` that crosses the box, or reaches the dual's maximum."""
        largest = float(np.abs(left).max())
        if largest == 0.0:
            return 0.0
        across = (self.high - self.low) * float(self.system[kernels.COST].max()) / largest
        scaled = self.root * left
        slope, bend = float(scaled @ scaled), float(scaled @ self._scaled_product(scaled))
        return min(across, slope / bend) if bend > 0.0 else across

    def _better(self, change: np.ndarray, best: "Step") -> "Step":
        """Return the step of this change, clipped to the bounds, if it is better than `best`."""
        clipped, w = np.empty_like(change), np.empty(self.rows.n_features)
        gain, *sums = kernels.clipped_gain(
            self.rows.arrays, self.index, self.mean_dot, self.k, self.system, self.low, self.high,
            change, clipped, self.scratch, w,
        )  # fmt: skip
        return Step(gain, clipped, (w, *sums)) if gain > best.gain else best


class Step(NamedTuple):
    """A change of dual variables, (m,), the gain of the dual, and `combine` of the change."""

    gain: float
    change: np.ndarray
    combined: tuple[np.ndarray, float, float]
