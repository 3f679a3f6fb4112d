"""Joint steps for free dual variables.

Coordinate descent knows which dual variables are at their bounds long before it has solved for the
others. With those at their bounds fixed, what is left is a linear system over the rows F with
free dual variables, at most a fifth of all rows:

    Q d = r      Q_ij = y_i y_j (x_i.x_j + intercept) + shift_i [i = j]
                 r_i = 1 - margin_i - shift_i alpha_i

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

from typing import NamedTuple

import numpy as np

# Step lengths: fractions of d; and along the part of r that is left over, multiples of the step
# that takes the largest dual variable across its box, or to the maximum before.
_FRACTIONS = (1.0, 0.5, 0.25, 0.1)
_FIRST_MULTIPLE, _GROWTH, _LAST_MULTIPLE = 1.0 / 64.0, 4.0, 64.0
# After how many iterations the gap is estimated, and for which multiples of w: one, and those that
# raise the margins of rows by this many times their mean error.
_ITERATIONS_BETWEEN_LOOKS = 4
_LIFTS = np.array([0.0, 1.0, 2.0, 4.0])
# A residual has no curvature if its curvature is this much smaller than that of single rows. It is
# zero if its square is this fraction of the first one.
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
        As in the kernels of coordinate descent.
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
        """Return these rows' contributions to the gap between alpha and w + X^T (change y).

        Multiples of that point are tried, too: see multiple.py.
        """
        moved = float(change @ (self.residual - residual - self.shift * change))
        along = float(change @ (1.0 - self.residual - self.shift * self.alpha))
        square = self.square + 2.0 * along + moved
        short = residual + self.shift * (self.alpha + change)  # 1 - margin
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

    def combine(self, change):
        """Return X^T (change y), the sum of (change y), and its dot product with `mean_dot`."""
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
        """Return Q (scaled / root) / root: the product with a matrix whose diagonal is 1."""
        product = self._scores(*self._combine(self.signs_over_root * scaled))
        product *= self.signs_over_root
        if self.risk.loss.is_smooth:
            product += self.shift_over_curvature * scaled
        return product

    def _farther(self, left, best):
        """Take longer and longer steps along `left` while the dual rises."""
        base, unit = best.change, self._across(left)
        multiple = _FIRST_MULTIPLE
        while multiple <= _LAST_MULTIPLE:
            here = self._better(base + multiple * unit * left, best)
            if here is best:
                break
            best, multiple = here, _GROWTH * multiple
        return best

    def _across(self, left):
        """Return the multiple of `left` that crosses the box, or reaches the dual's maximum."""
        largest = float(np.abs(left).max())
        if largest == 0.0:
            return 0.0
        across = float((self.upper - self.lower).max()) / largest
        scaled = self.root * left
        slope, bend = float(scaled @ scaled), float(scaled @ self._scaled_product(scaled))
        return min(across, slope / bend) if bend > 0.0 else across

    def _better(self, change, best):
        """Return the step of this change, clipped to the bounds, if it is better than `best`."""
        change = np.clip(self.alpha + change, self.lower, self.upper) - self.alpha
        w, z, w_mean_dot = combined = self.combine(change)
        bend = float(w @ w) + self.k * z * z - 2.0 * z * w_mean_dot
        bend += float((self.shift * change) @ change)
        gain = float(self.residual @ change) - 0.5 * bend
        return Step(gain, change, combined) if gain > best.gain else best


class Step(NamedTuple):
    """A change of dual variables, (m,), the gain of the dual, and `combine` of the change."""

    gain: float
    change: np.ndarray
    combined: tuple[np.ndarray, float, float]
