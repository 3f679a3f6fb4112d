"""Rows that stand for all others, where losses are squared: for the problem see newton.py.

The Hessian of a squared hinge is a sum over all rows that have a loss, and takes as long as many
looks at them. The sum over some of them, drawn at random, is nearly the same matrix. So the losses
of these, with a linear term that makes their slope that of all rows at the last point looked at,
are nearly the same function: at its minimum a tenth of the gradient is left, or less. And by their
dual variables alone that point is proved to be as good as it is (newton_proof.py).
"""

import numpy as np

from widemargin.data.rows import LeverageRows
from widemargin.solvers import newton_proof
from widemargin.solvers.lockstep import Product, Requests
from widemargin.solvers.newton_direction import (
    CHOLESKY_FEATURES,
    QuadraticTerms,
    SettledLosses,
    Slope,
)
from widemargin.solvers.newton_steps import NewtonSteps

# One of so many rows stands for all. Where m of n do, d / m is about what a look leaves of the
# distance to the optimum, after a sample as large has left as much; and a proof by them costs
# n / m times that distance. So a share s takes s^1.5 times as many rows for each feature as this.
_ONE_IN, _ROWS_PER_FEATURE = (8, 16, 32, 64), 80
# Below so many rows times features, or entries of a row, Hessians cost no more than a few looks.
_ENTRIES, _ENTRIES_PER_ROW = 1 << 20, 8
# Nor do they where less than this share of rows has a loss, as it often is if a class is smaller
# than the second.
_LEAST_CURVED, _LEAST_CLASS = 0.3, 0.08
# Rows stand for themselves whose part in the Hessian is this many times that of the mean row: they
# have features that few curved rows have. They are looked for if one has the second part, and if
# they are less than this share.
_RARE, _VERY_RARE, _MOST_RARE = 10.0, 30.0, 0.1
# Rows whose squares tell about those of all.
_PROBED = 1 << 13
# Rows that are gone through together: a vector of all would have fresh pages, which cost time.
_AT_ONCE = 1 << 14


def are_balanced(y):
    """Return whether neither class is a small one."""
    positive = np.count_nonzero(y > 0) / y.size
    return _LEAST_CLASS <= positive <= 1.0 - _LEAST_CLASS


def represented_rows(rows):
    """Return how many rows each of some can stand for; 0 if none can."""
    if not isinstance(rows, LeverageRows) or rows.n_features > CHOLESKY_FEATURES:
        return 0
    few = rows.n_rows * rows.n_features < _ENTRIES
    if few or rows.n_entries < _ENTRIES_PER_ROW * rows.n_rows:
        return 0
    enough = rows.n_rows / (_ROWS_PER_FEATURE * max(1, rows.n_features))
    return max((count for count in _ONE_IN if count**1.5 <= enough), default=0)


def draw(n_rows, one_in, seed):
    """Return one of `one_in` rows, a power of two, at random: a mask (n,)."""
    lots = np.frombuffer(np.random.default_rng(seed).bytes(n_rows), np.uint8)
    return lots < 256 // one_in


def squares_if_rare(probed, curvature, factor, z, n_rows):
    """Return about the diagonal of the Hessian, (d,), if some rows have rare features.

    None if there are no such rows, or so many that they need not be looked for.

    Parameters
    ----------
    probed : Rows
        Some of the rows.
    curvature, z : ndarray of shape (m,)
        The curvature of each if it is curved, which it is where z > 0.
    factor : ndarray of shape (m,)
        How many of the `n_rows` rows each of them stands for.
    """
    squares = 1.0 + probed.combine_squares(np.where(z > 0.0, factor * curvature, 0.0))
    parts = curvature * probed.score_squares(1.0 / squares) * (n_rows / probed.n_features)
    some = squares.min() == 1.0 or parts.max() > _VERY_RARE
    n_rare = float(np.where(parts > _RARE, factor, 0.0).sum())
    return squares if some and n_rare <= _MOST_RARE * n_rows else None


def rare_rows(rows, cost, delta, squares, n_counted):
    """Return which rows have rare features, a mask (n,), by what `squares_if_rare` returned.

    Cost is (n,), zero for rows that do not count.
    """
    rare, limit = np.empty(rows.n_rows, dtype=bool), _RARE * delta * rows.n_features / n_counted
    for begin in range(0, rows.n_rows, _AT_ONCE):
        part = slice(begin, min(begin + _AT_ONCE, rows.n_rows))
        parts = rows.score_squares(1.0 / squares, part.start, part.stop)
        parts *= cost[part]
        rare[part] = parts > limit
    return rare


class Subsample:
    """Losses of some rows in place of those of all.

    Parameters
    ----------
    index, factor : ndarray of shape (m,)
        Which rows, of those that count, and how many each of them stands for.
    steps : NewtonSteps
        Newton's method over them, with costs that are `factor` times as large.
    """

    def __init__(self, index, factor, steps):
        self.index, self.factor, self.steps = index, factor, steps

    @classmethod
    def of_sample(cls, steps: NewtonSteps, index, of_all: NewtonSteps):
        """Return those of a sample of all rows, `index`, (m,), that was solved."""
        if steps.counted is not None:
            index = index[steps.counted]
        if of_all.counted is not None:
            index = np.searchsorted(of_all.counted, index)
        return cls(index, steps.cost / of_all.cost[index], steps)

    def begin(self, coef, offset, z, point) -> Requests:
        """Go to a point that was looked at; return X^T A of the subsample."""
        steps, d = self.steps, coef.size
        A = self.factor * steps.y * point.alpha[self.index]
        combined = yield Product(steps.rows.combine, steps.directions.everywhere(A))
        pull = Slope(point.combined - combined, point.total - float(A.sum()))
        straight = np.zeros((d, d)), np.zeros(d), 0.0
        steps.quadratic.settled = SettledLosses(coef, offset, pull, *straight)
        steps.coef, steps.offset, steps.z = coef, offset, z[self.index]
        return combined

    def prove(self, coef, offset, z, point, needed) -> Requests:
        """Return a point that was looked at with better dual variables, of a value of `needed`.

        None if the subsample cannot be witnesses of so much.
        """
        steps = self.steps
        steps.coef, steps.offset, steps.z = coef, offset, z[self.index]
        alpha = point.alpha[self.index]
        proof = yield from newton_proof.improve(steps, self.factor, point, alpha, needed)
        if proof is None:
            return None
        point.alpha[self.index] = proof.alpha
        return point._replace(
            combined=proof.combined, total=proof.total, dual=proof.dual, is_fresh=False
        )


def choose(of_all: NewtonSteps, sampled: Subsample | None):
    """Return subsample, chosen by what is known of the current point; None if they do not pay.

    They are those of a sample, `sampled`, unless some rows have to join them.
    """
    n, cost, delta, z = of_all.z.size, of_all.cost, of_all.delta, of_all.z
    if np.count_nonzero(z > 0.0) < _LEAST_CURVED * n:
        return None
    if sampled is None:
        index = np.arange(0, n, max(1, n // _PROBED))
        probed, factor = of_all.take(index), np.full(index.size, n / index.size)
        curvature, slack = cost[index] / delta, z[index]
    else:
        index, probed = sampled.index, sampled.steps.rows
        of_probed = cost[index] / delta, sampled.factor, z[index]
        curvature, factor, slack = map(sampled.steps.directions.everywhere, of_probed)
    squares = squares_if_rare(probed, curvature, factor, slack, n)
    if squares is None and sampled is not None:
        return sampled
    each = represented_rows(of_all.rows)
    chosen, rare = draw(n, each, seed=1), np.zeros(n, dtype=bool)
    if squares is not None:
        everywhere = of_all.directions.everywhere(cost)
        rare = rare_rows(of_all.rows, everywhere, delta, squares, n)
        rare = rare if of_all.counted is None else rare[of_all.counted]
    index = np.flatnonzero(chosen | rare)
    factor = np.where(rare[index], 1.0, float(each))
    start = of_all.coef, of_all.offset, z
    quadratic = QuadraticTerms(of_all.quadratic.stiffness, of_all.quadratic.center)
    steps = of_all.steps_over(of_all.take(index), index, factor * cost[index], quadratic, start)
    return Subsample(index, factor, steps)
