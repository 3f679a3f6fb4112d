"""Free dual variables, solved for together.

Coordinate descent finds out which dual variables are at their bounds long before it has solved
for the others. With those at their bounds held there, what is left is a linear system over the
rows F whose dual variables are free, a fifth of all or fewer:

    Q d = r      Q_ij = y_i y_j (x_i.x_j + intercept) + shift_i [i = j]
                 r_i = 1 - margin_i - shift_i alpha_i

It is solved by conjugate residuals (Stiefel 1955), preconditioned by the diagonal: an iteration
costs two products with the rows F. Three things come of it:

- A primal point, w + X^T (d y), that has the rows F on the margin. It need not care whether
  alpha + d keeps the bounds, and is far better than w: while the dual is solved to eight
  digits, margins are so to four, and each of them is a loss.
- A dual point, alpha + d projected to the bounds, as far along as the dual rises.
- A way out where rows contradict each other (the same text with both labels). Q is singular
  there, and what no d takes away from r is a direction in which the dual rises and w stays:
  dual variables follow it to their bounds, which takes coordinate descent C |x|^2 visits.

More and Toraldo's GPCG (1991) goes from face to face of the box in this way, with projected
gradients where we have passes of coordinate descent.
"""

from typing import NamedTuple

import numpy as np

# How far along a direction to try: shares of all of it, and, of what is left over, multiples of
# the step that takes the largest dual variable across its box, or to the maximum before.
_FRACTIONS = (1.0, 0.5, 0.25, 0.1)
_FIRST_MULTIPLE, _GROWTH, _LAST_MULTIPLE = 1.0 / 64.0, 4.0, 64.0
# After how many iterations the gap is looked at, and with which multiples of w: one and those that
# lift rows by so many times what they are away from the margin.
_ITERATIONS_BETWEEN_LOOKS = 4
_LIFTS = np.array([0.0, 1.0, 2.0, 4.0])
# What is left has no curvature if it is this much smaller than that of rows one by one, and is
# nothing if its square is this fraction of what it was.
_NO_CURVATURE = 1e-13
_NOTHING = 1e-24


class Face:
    """The dual as a function of the change d of some variables:  r.d - 1/2 d.Q d.

    Parameters
    ----------
    rows : Rows of shape (m, d)
    risk : MarginRisk
        Of these rows; its loss has eps = 0.
    alpha : ndarray of shape (m,)
    w : ndarray of shape (d,)
    offset, norms, mean_dot : ndarray of shape (3,), (m,), (m,) or (0,)
        As the kernels of coordinate descent have them.
    """

    def __init__(self, rows, risk, alpha, w, offset, norms, mean_dot):
        self.rows, self.alpha, self.mean_dot = rows, alpha, mean_dot
        self.y, self.risk = risk.y.astype(np.float64), risk
        self.shift, self.lower, self.upper = risk.shift, risk.lower, risk.upper
        b, z, self.k = offset
        margins = self.y * self._scores(w, z, -b)
        self.residual = 1.0 - margins - self.shift * alpha
        self.square = float(w @ w)
        curvature = norms + self.k + self.shift - (2.0 * mean_dot if mean_dot.size else 0.0)
        self.root = np.sqrt(curvature)
        self.signs_over_root, self.shift_over_curvature = (
            self.y / self.root,
            self.shift / curvature,
        )

    def solve(self, enough, slowest, most, must_stop):
        """Find d by conjugate residuals.

        They end once these rows' share of the gap is down to `enough`, or from one look at it to
        the next has become no less than `slowest` times what it was; or after `most` iterations,
        and then what is left counts.

        Returns
        -------
        change : ndarray of shape (m,)
            d.
        left : ndarray of shape (m,), or None
            A direction that it has left over.
        gap : float
            Their share of the gap when last looked at; infinite if it was not.
        n_iter : int
        """
        residual = self.residual / self.root
        change = np.zeros_like(residual)
        direction, image = residual, self._scaled_product(residual)
        curvature = float(residual @ image)
        square = float(residual @ residual)
        nothing = _NOTHING * square
        n_iter, gap = 0, np.inf
        while n_iter < most and square > nothing and curvature > _NO_CURVATURE * square:
            step = curvature / float(image @ image)
            change += step * direction
            residual = residual - step * image
            square = float(residual @ residual)
            n_iter += 1
            if n_iter % _ITERATIONS_BETWEEN_LOOKS == 0:
                gap, last = self._gap(change / self.root, self.root * residual), gap
                if gap <= enough or gap > slowest * last:
                    return change / self.root, None, gap, n_iter
            if must_stop():
                break
            of_residual = self._scaled_product(residual)
            curvature, before = float(residual @ of_residual), curvature
            direction = residual + curvature / before * direction
            image = of_residual + curvature / before * image
        return change / self.root, residual / self.root, gap, n_iter

    def _gap(self, change, residual):
        """Return these rows' share of the gap between alpha and w + X^T (change y).

        Or the best multiple of that which is tried, see multiple.py.
        """
        moved = float(change @ (self.residual - residual - self.shift * change))
        along = float(change @ (1.0 - self.residual - self.shift * self.alpha))
        square = self.square + 2.0 * along + moved
        short = residual + self.shift * (self.alpha + change)  # of the margin, if positive
        usual = float(np.abs(short).mean())
        gaps = []
        for more in usual * _LIFTS:
            still = (1.0 + more) * short - more
            gaps_of_rows = self.risk.losses(still) - self.alpha * (
                still - 0.5 * self.shift * self.alpha
            )
            distance = more * more * square + 2.0 * more * (along + moved) + moved
            gaps.append(float(gaps_of_rows.sum()) + 0.5 * distance)
        return min(gaps)

    def step(self, change, left) -> "Step":
        """Return a step within bounds, of those along both directions about the best.

        It is none if none raises the dual.
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

    def combine(self, change):
        """Return X^T (change y), and the sums of (change y) and of its multiples of `mean_dot`."""
        return self._combine(change * self.y)

    def _combine(self, signed):
        w_mean_dot = float(signed @ self.mean_dot) if self.mean_dot.size else 0.0
        return self.rows.combine(signed), float(signed.sum()), w_mean_dot

    def _scores(self, w, z, w_mean_dot):
        scores = self.rows.scores(w)
        if offset := z * self.k - w_mean_dot:
            scores += offset
        if self.mean_dot.size:
            scores -= z * self.mean_dot
        return scores

    def _scaled_product(self, scaled):
        """Return Q (scaled / root) / root: of the matrix whose diagonal is 1."""
        product = self._scores(*self._combine(self.signs_over_root * scaled))
        product *= self.signs_over_root
        if self.risk.loss.is_smooth:
            product += self.shift_over_curvature * scaled
        return product

    def _farther(self, left, best):
        """Follow `left` from a step as long as the dual rises."""
        base, unit = best.change, self._across(left)
        multiple = _FIRST_MULTIPLE
        while multiple <= _LAST_MULTIPLE:
            here = self._better(base + multiple * unit * left, best)
            if here is best:
                break
            best, multiple = here, _GROWTH * multiple
        return best

    def _across(self, left):
        """Return how many times `left` it is across the box, or to the dual's maximum."""
        largest = float(np.abs(left).max())
        if largest == 0.0:
            return 0.0
        across = float((self.upper - self.lower).max()) / largest
        scaled = self.root * left
        slope, bend = float(scaled @ scaled), float(scaled @ self._scaled_product(scaled))
        return min(across, slope / bend) if bend > 0.0 else across

    def _better(self, change, best):
        """Return the step of this change, put within bounds, if it is better than `best`."""
        change = np.clip(self.alpha + change, self.lower, self.upper) - self.alpha
        w, z, w_mean_dot = combined = self.combine(change)
        bend = float(w @ w) + self.k * z * z - 2.0 * z * w_mean_dot
        bend += float((self.shift * change) @ change)
        gain = float(self.residual @ change) - 0.5 * bend
        return Step(gain, change, combined) if gain > best.gain else best


class Step(NamedTuple):
    """A change of dual variables, (m,), what the dual gains, and what `combine` makes of it."""

    gain: float
    change: np.ndarray
    combined: tuple[np.ndarray, float, float]
