"""A subsample in place of all rows, for squared losses: for the problem see newton.py.

The Hessian of a squared hinge is a sum over all rows with a loss. It takes as long as many full
passes. The sum over a random subsample is nearly the same matrix. So the loss of the subsample,
times the number of rows that each of its rows represents, is nearly the loss of all rows. A
linear term makes the two gradients equal at the point of the last full pass. At the minimum of
this function, a tenth of the gradient over all rows is left, or less. The dual variables of the
subsample alone are enough to prove that this point is as good as it is (newton_proof.py).
"""

from __future__ import annotations

import numpy as np

from widemargin.data.rows import LeverageRows, Rows
from widemargin.solvers import newton_proof
from widemargin.solvers.newton_best import Point
from widemargin.solvers.newton_direction import QuadraticTerms, Slope
from widemargin.solvers.newton_settings import NewtonSettings, SubsampleSettings
from widemargin.solvers.newton_steps import NewtonSteps, Place

# How many rows are processed together: a vector for all rows would cost page faults.
_AT_ONCE = 1 << 14


def are_balanced(y: np.ndarray, settings: SubsampleSettings) -> bool:
    """Return whether both classes have enough rows."""
    positive = np.count_nonzero(y > 0) / y.size
    return bool(settings.least_class <= positive <= 1.0 - settings.least_class)


def represented_rows(rows: Rows, settings: NewtonSettings) -> int:
    """Return how many rows each row of a subsample can represent; 0 if a subsample is no use."""
    some = settings.subsample
    if not isinstance(rows, LeverageRows) or rows.n_features > settings.cholesky_features:
        return 0
    few = rows.n_rows * rows.n_features < some.fewest_entries
    if few or rows.n_entries < some.entries_per_row * rows.n_rows:
        return 0
    enough = rows.n_rows / (some.rows_per_feature * max(1, rows.n_features))
    return max((count for count in some.one_in if count**1.5 <= enough), default=0)


def draw(n_rows: int, one_in: int, seed: int) -> np.ndarray:
    """Return one of `one_in` rows, a power of two, at random: a mask (n,)."""
    lots = np.frombuffer(np.random.default_rng(seed).bytes(n_rows), np.uint8)
    return lots < 256 // one_in


def squares_if_rare(
    probed: LeverageRows,
    curvature: np.ndarray,
    factor: np.ndarray,
    z: np.ndarray,
    n_rows: int,
    settings: SubsampleSettings,
) -> np.ndarray | None:
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
    some = squares.min() == 1.0 or parts.max() > settings.very_rare
    n_rare = float(np.where(parts > settings.rare, factor, 0.0).sum())
    return squares if some and n_rare <= settings.most_rare * n_rows else None


def rare_rows(
    rows: LeverageRows, cost: np.ndarray, squares: np.ndarray, limit: float
) -> np.ndarray:
    """Return which rows have a part above `limit` in the Hessian, times delta: a mask (n,).

    `squares` is what `squares_if_rare` returned. `cost` is (n,), zero for rows that do not count.
    """
    rare = np.empty(rows.n_rows, dtype=bool)
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

    def __init__(self, index: np.ndarray, factor: np.ndarray, steps: NewtonSteps):
        self.index, self.factor, self.steps = index, factor, steps

    @classmethod
    def of_sample(cls, steps: NewtonSteps, index: np.ndarray, of_all: NewtonSteps) -> Subsample:
        """Return the subsample made of a sample that was solved: rows `index`, (m,), of all."""
        if steps.counted is not None:
            index = index[steps.counted]
        if of_all.counted is not None:
            index = np.searchsorted(of_all.counted, index)
        return cls(index, steps.cost / of_all.cost[index], steps)

    def begin(self, place: Place, point: Point) -> np.ndarray:
        """Start from a point of a full pass; return X^T A of the subsample."""
        steps = self.steps
        A = self.factor * steps.sign * point.alpha[self.index]
        combined = steps.combine(A)
        steps.quadratic.pull = Slope(point.combined - combined, point.total - float(A.sum()))
        self._move_to(place)
        return combined

    def _move_to(self, place: Place) -> None:
        assert place.z is not None
        self.steps.coef, self.steps.offset = place.coef, place.offset
        self.steps.z = place.z[self.index]

    def prove(self, place: Place, point: Point, needed: float) -> Point | None:
        """Return the point of a full pass with better dual variables, of a value of `needed`.

        None if the dual variables of the subsample cannot prove so much.
        """
        self._move_to(place)
        alpha = point.alpha[self.index]
        proof = newton_proof.improve(self.steps, self.factor, point, alpha, needed)
        if proof is None:
            return None
        known = point.known or (point.alpha, point.combined)
        alpha = point.alpha.copy()
        alpha[self.index] = proof.alpha
        of_proof = point._replace(combined=proof.combined, total=proof.total, dual=proof.dual)
        return of_proof._replace(alpha=alpha, known=known)


def choose(of_all: NewtonSteps, sampled: Subsample | None) -> Subsample | None:
    """Return a subsample that suits the current point; None if it would not pay.

    It is the one of the initial sample, `sampled`, unless rows with rare features must be added.
    """
    settings, rows = of_all.settings.subsample, of_all.rows
    n, cost, delta, z = of_all.z.size, of_all.cost, of_all.delta, of_all.z
    if np.count_nonzero(z > 0.0) < settings.least_curved * n:
        return None
    if sampled is None:
        index = np.arange(0, n, max(1, n // settings.probed))
        probed, factor = of_all.take(index), np.full(index.size, n / index.size)
        curvature, slack = cost[index] / delta, z[index]
    else:
        index, probed = sampled.index, sampled.steps.rows
        of_probed = cost[index] / delta, sampled.factor, z[index]
        curvature, factor, slack = map(sampled.steps.part.everywhere, of_probed)
    assert isinstance(probed, LeverageRows)
    assert isinstance(rows, LeverageRows)
    squares = squares_if_rare(probed, curvature, factor, slack, n, settings)
    if squares is None and sampled is not None:
        return sampled
    each = represented_rows(rows, of_all.settings)
    chosen, rare = draw(n, each, seed=1), np.zeros(n, dtype=bool)
    if squares is not None:
        limit = settings.rare * delta * rows.n_features / n
        rare = rare_rows(rows, of_all.part.everywhere(cost), squares, limit)
        rare = rare if of_all.counted is None else rare[of_all.counted]
    index = np.flatnonzero(chosen | rare)
    factor = np.where(rare[index], 1.0, float(each))
    quadratic = QuadraticTerms(of_all.quadratic.stiffness, of_all.quadratic.center)
    of_part = of_all.take(index), index, factor * cost[index]
    steps = of_all.steps_over(*of_part, quadratic, of_all.place)
    return Subsample(index, factor, steps)
