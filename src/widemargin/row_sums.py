"""Sums over rows for a certificate, with bounds on their rounding errors (rounding.py)."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray as Array

from widemargin import passes
from widemargin.arrays import parts_of
from widemargin.data.rows import PreciseRows, Rows
from widemargin.penalty import Penalty
from widemargin.problem import Intercept, Tangents
from widemargin.risk import Bound, Cut, RowRisk
from widemargin.risk.base import Offset
from widemargin.rounding import SUM, gamma, squares

# How many roundings a score may have besides those of its sum: an offset is added, it is
# multiplied, subtracted from 1, or computed with coefficients that were multiplied.
MORE = 16
# The squares of smaller numbers underflow. This is far more than their sum can be.
TINY = 1e-150


def lengths(rows: Rows, part: slice = slice(None)) -> Array:
    """Return |x_i| of a part of the rows, rounded up."""
    lengths = rows.lengths[part] * (1.0 + gamma(rows.longest_row + MORE))
    lengths += TINY
    return lengths


@dataclass(frozen=True)
class ScoreErrors:
    """Bounds on the errors of computed scores, (n,), which are not stored.

    They are computed when they are read, for a part of the rows.
    """

    row_lengths: Array  # (n,) |x_i|
    per_length: float
    fixed: float

    def __getitem__(self, part: slice | int | Array) -> Array:
        lengths = self.row_lengths[part]
        if self.per_length == 0.0:  # coefficients are zero, and lengths may be infinite
            return np.full_like(lengths, self.fixed)
        errors = lengths * self.per_length
        errors += self.fixed
        return errors


def score_errors(rows: Rows, coef: Array, offset: Offset) -> ScoreErrors:
    """Return bounds on the errors of X coef + offset, as it is computed.

    The error of x_i.w is at most gamma(m) |x_i| |w| for rows with at most m entries.
    """
    if not coef.any():
        return ScoreErrors(rows.lengths, 0.0, 0.0)
    longest = math.sqrt(float(np.square(coef).sum(axis=0).max()))
    farthest = abs(offset) if isinstance(offset, float) else float(np.abs(offset).max())
    relative = (1.0 + SUM) * gamma(rows.longest_row + MORE)
    fixed = relative * (longest + farthest) * TINY + relative * farthest
    return ScoreErrors(rows.lengths, relative * (longest + TINY), fixed)


def dual_sums(
    rows: Rows, risk: RowRisk, A: Array, combined: Array, change: Array | None = None
) -> "Sums":
    """Return the sums over rows for feasible dual variables A.

    With a `change`, (n,), `combined` is the sum of the products X^T (A - change) and X^T change.
    """
    sizes = sizes_of(rows, A)
    if change is not None:
        sizes["more"] = _sum_error(rows, sizes, sizes_of(rows, change))
    heights = [risk.part(part.start, part.stop).dual(A[part]) for part in parts_of(A)]
    height = math.fsum(heights)
    return Sums(
        height,
        combined,
        totals=column_sums(A),
        **sizes,
        height_error=SUM + gamma(2 * A[:1].size),  # with the sum over a row's classes
        steepest=risk.steepness(A, height),
    )


def _sum_error(rows: Rows, sizes: dict[str, Any], change: dict[str, Any]) -> float:
    """Return the error of a sum of two products, as a length, beyond that of one for A.

    `sizes` and `change` are `sizes_of` A and of the change. With D for the change, X^T (A - D) has
    no more terms than A and D together, which are no larger. D is rounded, and so is the sum.
    """
    more = gamma(change["n_used"] + 4) * sizes["pull"]
    more += 2.0 * gamma(sizes["n_used"] + change["n_used"] + 68) * change["pull"]
    return more + rows.combine_error(sizes["size"] + 2.0 * change["size"])


def convex_weights(tangents: Tangents) -> list[float]:
    """Return the weights of planes as a list, nonnegative and with a sum of at most 1."""
    weights = np.maximum(tangents.weights, 0.0)
    return (weights / max(1.0, weights.sum())).tolist()


def tangent_sums(
    rows: Rows, weights: Sequence[float], cuts: Iterable[Cut], n_terms: int = 0
) -> "Sums":
    """Return the sums for a convex combination of planes, for a risk that is no sum over rows.

    A plane's own sums have as many terms as there are rows, or `n_terms`, if that is more.
    """
    A, height = np.zeros(rows.n_rows, like=rows.like), 0.0
    for weight, cut in zip(weights, cuts, strict=True):
        A -= weight * cut.slope
        height += weight * cut.constant
    # A row's slope is a difference of two sums over rows. All of these sums together are twice the
    # weight of all pairs, which is the height.
    error = gamma(2 * max(rows.n_rows, n_terms) + 2 * len(weights) + 64)
    longest = float(lengths(rows).max()) if height > 0.0 else 0.0
    sizes = sizes_of(rows, A)
    sizes |= {"size": 2.0 * height, "pull": sizes["pull"] + 2.0 * height * longest}
    combined, none = rows.combine(A), np.zeros(1)
    return Sums(height, combined, none, **sizes, height_error=error, slope_error=error)


def closer_sums(rows: PreciseRows, A: Array, sums: "Sums", steepest: float = 1.0) -> "Sums":
    """Return the sums with errors bounded per feature and, for two classes, the exact total.

    `steepest` is that of the risk: one row gives up the excess.
    """
    columns = A.reshape(len(A), -1).T
    terms = [rows.combine_sizes(np.ascontiguousarray(column)) for column in columns]
    sums = sums._replace(terms=np.stack(terms, axis=-1).reshape(sums.combined.shape))
    if A.ndim > 1:
        return sums
    total = math.fsum(A)
    can_give = np.flatnonzero(A * np.sign(total) >= abs(total))
    if can_give.size == 0:
        return sums
    # The excess is subtracted from the shortest row whose dual variable is large enough.
    row = int(can_give[rows.squared_norms()[can_give].argmin()])
    some = rows.take(np.array([row]))
    pull = abs(float(some.scores(sums.combined)[0]))
    pull += float(score_errors(some, sums.combined, 0.0)[0])
    pull += max(0.0, steepest - sums.steepest)
    return sums._replace(
        totals=np.array([total]),
        totals_error=0.0,
        pull_of_one=pull,
        longest=float(lengths(some)[0]),
    )


def column_sums(A: Array) -> Array:
    """Return the sum of A (n,) or of its columns, (1,) or (k,), by pairwise summation."""
    columns = [A] if A.ndim == 1 else [A[:, j] for j in range(A.shape[1])]
    return np.array([float(column.sum()) for column in columns])


def sizes_of(rows: Rows, A: Array) -> dict[str, Any]:
    """Return sums of |A_i|, with and without the rows' lengths."""
    sums, longest = [(0.0, 0.0, 0)], 0.0
    for part in parts_of(A):
        some, row_lengths = A[part], rows.lengths[part]
        if some.ndim > 1:
            some = np.abs(some).sum(axis=1)
        sums.append(passes.of(A).sizes(some, row_lengths))
        if sums[-1][2]:
            longest = max(longest, float(row_lengths.max()))
    sizes, pulls, counts = zip(*sums)
    size, more = math.fsum(sizes), 1.0 + gamma(rows.longest_row + MORE)
    return {
        "size": size,
        "pull": more * math.fsum(pulls) + TINY * size,
        "longest": more * longest + TINY,
        "more": rows.combine_error(size),
        "n_used": sum(counts),
    }


class Sums(NamedTuple):
    """Sums over rows, from which a lower bound is computed."""

    height: float  # -r*(-A)
    combined: Array  # X^T A
    totals: Array  # sum_i A_i, (k,)
    size: float  # sum_i |A_i|
    pull: float  # sum_i |A_i| |x_i|
    longest: float  # the largest |x_i|
    n_used: int  # how many A_i are not zero
    height_error: float  # relative to its terms
    more: float = 0.0  # error of X^T A, as a length, beyond that of a sum in float64
    slope_error: float = 0.0  # of A itself
    totals_error: float = SUM  # relative to a sum of |A_i|
    terms: Array | None = None  # |X|^T |A|, if it is known
    pull_of_one: float | None = None  # |x_i.combined| of the row that gives up the excess
    steepest: float = 1.0  # how fast the height falls with sum_i |A_i|, at most

    def plus(self, other: "Sums") -> "Sums":
        """Return the sums over two parts of the rows together."""
        return Sums(
            self.height + other.height,
            self.combined + other.combined,
            self.totals + other.totals,
            self.size + other.size,
            self.pull + other.pull,
            max(self.longest, other.longest),
            self.n_used + other.n_used + 1,
            max(self.height_error, other.height_error) + SUM,
            self.more + other.more,
            max(self.slope_error, other.slope_error),
            self.totals_error + other.totals_error,
            steepest=max(self.steepest, other.steepest),
        )

    @property
    def _unsure(self) -> float:
        """The error of a sum over rows, relative to the sum of the sizes of its terms."""
        return gamma(self.n_used + 64) + self.slope_error

    @property
    def _error(self) -> float:
        """A bound on the error of `combined`, as a length."""
        if self.terms is None:
            return self._unsure * self.pull + self.more
        return self._unsure * (1.0 + SUM) * math.sqrt(squares(self.terms))

    @property
    def _most_totals(self) -> Array:
        """How large the totals are at most, (k,)."""
        return np.abs(self.totals) + (self.totals_error + self.slope_error) * self.size

    def drift(self, intercept: Intercept) -> float:
        """Return how far `combined` may be from X^T A of dual variables that `bound` holds for.

        With a penalised intercept, the total is one more entry of X^T A.
        """
        if intercept is Intercept.FREE:
            moved = float(self._most_totals.sum()) * self.totals.size
            return self._error + math.sqrt(2.0) * self.longest * moved
        if intercept is Intercept.PENALIZED:
            return self._error + (self.totals_error + self.slope_error) * self.size
        return self._error

    def bound(self, intercept: Intercept) -> Bound:
        """Return height - 1/2 |combined|^2, minus bounds on rounding errors and imbalance."""
        square, error = squares(self.combined), self._error
        length = (1.0 + SUM) * math.sqrt(square)
        if self.terms is None:
            rounding = (length + 0.5 * error) * error
        else:
            rounding = self._unsure * float(np.abs(self.combined * self.terms).sum())
            rounding += 0.5 * error * error
        totals = self._most_totals
        if intercept is Intercept.PENALIZED:
            square += squares(totals)
        elif intercept is Intercept.FREE:
            # A sums to zero only up to rounding. Dual variables with sum zero are near: the
            # excess of a class moves along paths through at most k classes, so the total change
            # is at most k times the excess.
            moved = float(totals.sum()) * totals.size
            pull = math.sqrt(2.0) * self.longest * moved
            one = length * pull if self.pull_of_one is None else self.pull_of_one * moved
            rounding += self.steepest * moved + one + (error + 0.5 * pull) * pull
        terms = 2.0 * self.steepest * self.size + abs(self.height)
        rounding += self.height_error * terms + 2.0 * SUM * square
        return Bound(self.height - 0.5 * square - rounding, rounding)

    def bound_by(
        self,
        penalty: Penalty,
        intercept: Intercept,
        height: Callable[[float], tuple[float, float]],
    ) -> Bound:
        """As `bound`, for a penalty with |w|_1.

        The dual variables are multiplied by the largest factor, at most 1, with which X^T A is
        feasible, whatever the rounding errors. `height` returns -r* of a multiple of them, and how
        steeply it falls as they near zero.
        """
        moved, sizes = 0.0, np.abs(self.combined)
        if self.terms is None:
            errors = np.full(sizes.size, self._error)
        else:
            errors = self._unsure * (1.0 + SUM) * self.terms + TINY
        totals = self._most_totals
        if intercept is Intercept.PENALIZED:
            sizes = np.append(sizes, np.abs(self.totals))
            errors = np.append(errors, totals - np.abs(self.totals))
        elif intercept is Intercept.FREE:
            moved = float(totals.sum()) * totals.size
            errors += math.sqrt(2.0) * self.longest * moved
        most = (1.0 + SUM) * (sizes + errors)
        scale, without = penalty.fitting_scale(most), penalty.fitting_scale(sizes)
        raised, steepest = (self.height, self.steepest) if scale == 1.0 else height(scale)
        taken = penalty.conjugate(most) if penalty.l2 > 0.0 else 0.0
        taken *= 1.0 + 2.0 * SUM
        terms = 2.0 * steepest * self.size * scale + abs(raised)
        rounding = self.height_error * terms + steepest * scale * moved
        value = raised - taken - rounding
        # The height is concave, and not negative at zero.
        rounding += max(raised, 0.0) * (without - scale) / scale if scale > 0.0 else 0.0
        if penalty.l2 > 0.0:
            rounding += taken - penalty.conjugate(sizes)
        return Bound(value, rounding)
