"""Rows that stand for all others, where losses are squared: for the problem see newton.py.

The Hessian of a squared hinge is a sum over all rows that have a loss, and takes as long as many
looks at them. The sum over some of them, drawn at random, is nearly the same matrix. So the losses
of these, with a linear term that makes their slope that of all rows at the last point looked at,
are nearly the same function: at its minimum a tenth of the gradient is left, or less.
"""

import numpy as np

from widemargin.solvers import newton_proof
from widemargin.solvers.lockstep import Asking, Product
from widemargin.solvers.newton_direction import Settled, Slope

# This share of the rows stands for all, if there are so many of them for each feature: with fewer,
# the two Hessians are too far apart.
SHARE, _ROWS_PER_FEATURE = 16, 100
# And if this share of rows has a loss, which it hardly has if a class has less than the second:
# the Hessian of few rows is soon made. They are not to be more than the third share in the end.
_LEAST_CURVED, _LEAST_CLASS, _MOST = 0.3, 0.15, 0.2
# And if each has so many entries: with fewer, the Hessian costs no more than two or three looks.
_ENTRIES_PER_ROW = 30
# Rows stand for themselves whose part in the Hessian is this many times that of the mean row:
# they have features that few curved rows have.
_RARE = 10.0
# Rows whose squares tell about those of all.
_PROBED = 1 << 13


def pay(z):
    """Return whether so many rows have a loss, by their slacks, that deputies pay."""
    return np.count_nonzero(z > 0.0) >= _LEAST_CURVED * z.size


def are_enough(rows, y):
    """Return whether there are so many rows, and of either class, that some can stand for all."""
    enough = SHARE * _ROWS_PER_FEATURE * rows.n_features
    if not hasattr(rows, "score_squares") or rows.n_rows < enough:
        return False
    if rows.n_entries < _ENTRIES_PER_ROW * rows.n_rows:
        return False
    positive = np.count_nonzero(y > 0) / rows.n_rows
    return _LEAST_CLASS <= positive <= 1.0 - _LEAST_CLASS


def drawn(n_rows):
    """Return which rows a draw is about, one of so many, a mask (n,)."""
    return np.frombuffer(np.random.default_rng(0).bytes(n_rows), np.uint8) < 256 // SHARE


def draw(rows, counted, cost, delta, z, squares=None):
    """Return which rows stand for all, (m,), and how many each of them stands for, (m,).

    None if that would not pay.

    Parameters
    ----------
    rows : Rows
    counted : ndarray of shape (n,) or None
        Which rows count; None for all.
    cost, z : ndarray of shape (n,)
        Their costs and slacks: where z > 0, the curvature is cost / delta.
    delta : float
    squares : ndarray of shape (d,) or None
        As `squares_if_rare` returns them.
    """
    chosen, rare = drawn(z.size), None
    if squares is not None:
        shares = rows.score_squares(1.0 / squares)
        if counted is not None:
            shares = shares[counted]
        shares *= cost
        rare = shares > _limit(rows.n_features, z.size) * delta
        chosen |= rare
    index = np.flatnonzero(chosen)
    if index.size > _MOST * z.size:
        return None
    factor = np.full(index.size, float(SHARE))
    if rare is not None:
        factor[rare[index]] = 1.0
    return index, factor


def squares_if_rare(rows, counted, cost, delta, z):
    """Return about the diagonal of the Hessian, (d,); None where no rows have rare features.

    These are features that few curved rows have. Parameters are as `draw` has them.
    """
    step = max(1, z.size // _PROBED)
    some = slice(None, None, step)
    probed = rows.take(some if counted is None else counted[some])
    curvature = cost[some] / delta
    squares = 1.0 + step * probed.combine_squares(np.where(z[some] > 0.0, curvature, 0.0))
    shares = curvature * probed.score_squares(1.0 / squares)
    is_plain = squares.min() > 1.0 and shares.max() <= _limit(rows.n_features, z.size)
    return None if is_plain else squares


def _limit(n_features, n_rows):
    """Return the share of a Hessian that makes a row a rare one."""
    return _RARE * n_features / n_rows


class Deputies:
    """Losses of some rows in place of those of all.

    Parameters
    ----------
    index, factor : ndarray of shape (m,)
        As `draw` returns them.
    steps : NewtonSteps
        Newton's method over them, with costs that are `factor` times as large.
    """

    def __init__(self, index, factor, steps):
        self.index, self.factor, self.steps = index, factor, steps

    def begin(self, coef, offset, z, point) -> Asking:
        """Go to a point that was looked at; return X^T A of the deputies."""
        steps, d = self.steps, coef.size
        A = self.factor * steps.y * point.alpha[self.index]
        combined = yield Product(steps.rows, "combine", A)
        pull = Slope(point.combined - combined, point.total - float(A.sum()))
        straight = np.zeros((d, d)), np.zeros(d), 0.0
        steps.ground.settled = Settled(coef, offset, pull, *straight)
        steps.coef, steps.offset, steps.z = coef, offset, z[self.index]
        return combined

    def prove(self, coef, offset, z, point, needed) -> Asking:
        """Have the dual variables of a point that was looked at prove `needed`; return their value.

        None, and they stay as they are, if the deputies cannot be witnesses of so much.
        """
        steps = self.steps
        steps.coef, steps.offset, steps.z = coef, offset, z[self.index]
        alpha = point.alpha[self.index]
        better = yield from newton_proof.improve(steps, self.factor, point, alpha, needed)
        if better is None:
            return None
        point.alpha[self.index] = better[0]
        return better[1]
