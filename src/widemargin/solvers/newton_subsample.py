"""A subsample in place of all rows, for squared losses: for the problem see newton.py.

The Hessian of a squared hinge is a sum over all rows with a loss. It takes as long as many full
passes. The sum over a random subsample is nearly the same matrix. So the loss of the subsample,
times the number of rows that each of its rows represents, is nearly the loss of all rows. A
linear term makes the two gradients equal at the point of the last full pass. At the minimum of
this function, a tenth of the gradient over all rows is left, or less. The dual variables of the
subsample alone are enough to prove that this point is as good as it is (newton_proof.py).
"""

import numpy as np

from widemargin.data.rows import LeverageRows
from widemargin.solvers import newton_proof
from widemargin.solvers.newton_direction import CHOLESKY_FEATURES, QuadraticTerms, Settled, Slope
from widemargin.solvers.newton_steps import NewtonSteps

# A subsample has one row in s, for one of these s. If it has m of n rows, a step by it leaves
# about d / m of the distance to the optimum, as did a step by a sample of that size before it;
# and a proof by it costs n / m times that distance. So it takes s^1.5 times this many rows per
# feature.
_ONE_IN, _ROWS_PER_FEATURE = (8, 16, 32, 64), 80
# With fewer rows times features, or entries per row, a Hessian costs no more than a few full
# passes.
_ENTRIES, _ENTRIES_PER_ROW = 1 << 20, 8
# Nor does it cost more if less than this fraction of rows has a loss. That is often so if one
# class is smaller than the second fraction.
_LEAST_CURVED, _LEAST_CLASS = 0.3, 0.08
# A row represents only itself if its part in the Hessian is this many times that of the mean row:
# it has features that few curved rows have. Such rows are looked for if one has the second part,
# and used if they are less than the third number, a fraction of all rows.
_RARE, _VERY_RARE, _MOST_RARE = 10.0, 30.0, 0.1
# How many rows are probed for rare features.
_PROBED = 1 << 13
# How many rows are processed together: a vector for all rows would cost page faults.
_AT_ONCE = 1 << 14


def are_balanced(y):
    """Return whether both classes have enough rows."""
    positive = np.count_nonzero(y > 0) / y.size
    return _LEAST_CLASS <= positive <= 1.0 - _LEAST_CLASS


def represented_rows(rows):
    """Return how many rows each row of a subsample can represent; 0 if a subsample is no use."""
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
    """Return an estimate of the Hessian's diagonal, (d,), if some rows have rare features.

    None if there are no such rows, or too many.

    Parameters
    ----------
    probed : Rows
        Some of the rows.
    curvature, z : ndarray of shape (m,)
        The curvature of each row if it is curved, that is, where z > 0.
    factor : ndarray of shape (m,)
        How many of the `n_rows` rows each of them represents.
    """
    squares = 1.0 + probed.combine_squares(np.where(z > 0.0, factor * curvature, 0.0))
    parts = curvature * probed.score_squares(1.0 / squares) * (n_rows / probed.n_features)
    some = squares.min() == 1.0 or parts.max() > _VERY_RARE
    n_rare = float(np.where(parts > _RARE, factor, 0.0).sum())
    return squares if some and n_rare <= _MOST_RARE * n_rows else None


def rare_rows(rows, cost, delta, squares, n_counted):
    """Return which rows have rare features, a mask (n,).

    `squares` is what `squares_if_rare` returned. `cost` is (n,), zero for rows that do not count.
    """
    rare, limit = np.empty(rows.n_rows, dtype=bool), _RARE * delta * rows.n_features / n_counted
    for begin in range(0, rows.n_rows, _AT_ONCE):
        part = slice(begin, min(begin + _AT_ONCE, rows.n_rows))
        parts = rows.score_squares(1.0 / squares, part.start, part.stop)
        parts *= cost[part]
        rare[part] = parts > limit
    return rare


class Subsample:
    """A subsample, and Newton's method on its loss.

    Parameters
    ----------
    index, factor : ndarray of shape (m,)
        Its rows, among those that count, and how many rows each of them represents.
    steps : NewtonSteps
        Newton steps over these rows, with costs multiplied by `factor`.
    """

    def __init__(self, index, factor, steps):
        self.index, self.factor, self.steps = index, factor, steps

    @classmethod
    def of_sample(cls, steps: NewtonSteps, index, of_all: NewtonSteps):
        """Return the subsample made of a sample that was solved: rows `index`, (m,), of all."""
        if steps.counted is not None:
            index = index[steps.counted]
        if of_all.counted is not None:
            index = np.searchsorted(of_all.counted, index)
        return cls(index, steps.cost / of_all.cost[index], steps)

    def begin(self, coef, offset, z, point):
        """Start from a point of a full pass; return X^T A of the subsample."""
        steps, d = self.steps, coef.size
        A = self.factor * steps.y * point.alpha[self.index]
        combined = steps.combine(A)
        pull = Slope(point.combined - combined, point.total - float(A.sum()))
        straight = np.zeros((d, d)), np.zeros(d), 0.0
        steps.quadratic.settled = Settled(coef, offset, pull, *straight)
        steps.coef, steps.offset, steps.z = coef, offset, z[self.index]
        return combined

    def prove(self, coef, offset, z, point, needed):
        """Return the point of a full pass with better dual variables, of a value of `needed`.

        None if the dual variables of the subsample cannot prove so much.
        """
        steps = self.steps
        steps.coef, steps.offset, steps.z = coef, offset, z[self.index]
        alpha = point.alpha[self.index]
        proof = newton_proof.improve(steps, self.factor, point, alpha, needed)
        if proof is None:
            return None
        point.alpha[self.index] = proof.alpha
        return point._replace(
            combined=proof.combined, total=proof.total, dual=proof.dual, is_fresh=False
        )


def choose(of_all: NewtonSteps, sampled: Subsample | None):
    """Return a subsample that suits the current point; None if it would not pay.

    It is the one of the initial sample, `sampled`, unless rows with rare features must be added.
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
