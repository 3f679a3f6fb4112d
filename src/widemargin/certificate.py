"""The certificate of a model: primal value, dual value, and the duality gap between them.

For  P(w, b) = 1/2 |w|^2 + r(X w + b),  any dual variables A give a lower bound on every
P by weak duality:  P(w, b) >= D(A) = -r*(-A) - 1/2 |X^T A|^2,  if A satisfies the dual's
constraints. With a free intercept, these include  sum_i A_i = 0. So the objective of a model is
within ``primal - dual`` of the optimum, whichever solver found it. Other penalties have their own
conjugates in the place of the last term (penalty.py); that of |w|_1 is a constraint, too.

If -r*(-A) has no closed form, A is a convex combination of slopes of planes below r. The same
combination of their heights at zero is a lower bound on it. Such dual variables are given as
points: the risk recomputes the planes that touch r there.

Everything is computed in float64 from coefficients and dual variables. This module knows no
solver, and trusts none: dual variables that violate a constraint are repaired first, which can
only lower the bound. Rounding is part of the proof: the largest possible rounding error
(rounding.py) is added to the primal value and subtracted from the dual value.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray as Array

from widemargin.arrays import move_to, parts_of
from widemargin.data.rows import BlockRows, PreciseRows, Rows
from widemargin.hull_bounds import hull_bounds
from widemargin.markup import CertificateInNotebooks
from widemargin.problem import Intercept, Problem, State, Tangents
from widemargin.risk import Bound, CodedRisk, LowestMean, MarginRisk, Risk, RowRisk
from widemargin.risk.base import Offset
from widemargin.rounding import SUM, gamma, squares
from widemargin.row_sums import (
    MORE,
    TINY,
    ScoreErrors,
    Sums,
    closer_sums,
    column_sums,
    convex_weights,
    dual_sums,
    lengths,
    score_errors,
    sizes_of,
    tangent_sums,
)
from widemargin.words import percent_at_most, times_at_most

# A smaller relative gap counts as none: both values are rounded.
_ROUNDING = 1e-11
# If rounding may be more than this fraction of the tolerance, it is bounded more closely: rows in
# memory are multiplied in twice the precision.
_CLOSER_LOOK = 0.01
#: default tolerance that certificates are made for
FINE_TOL = 1e-8


@dataclass(frozen=True)
class Certificate(CertificateInNotebooks):
    """Bounds on the optimum of a training problem.

    Attributes
    ----------
    primal : float
        Objective value of the model; the optimum is at most this.
    dual : float
        Value of the dual variables; the optimum is at least this.
    parts : tuple of Certificate
        One per class if several problems were solved; their sum is this certificate.
    rounding : float
        How much of the gap is due to bounds on rounding errors, which both values include.
    floor : float
        0, unless objectives may be negative, as those of one-class problems. Then the relative
        gap is a fraction of -dual, or of this number if that is larger.
    """

    primal: float
    dual: float
    parts: tuple["Certificate", ...] = ()
    rounding: float = field(default=0.0, compare=False)
    floor: float = field(default=0.0, compare=False)

    @property
    def gap(self) -> float:
        """How far the model's objective is above the optimum, at most."""
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        """The gap as a fraction of the primal value, which is compared with `tol`."""
        size = self.primal if self.floor == 0.0 else max(-self.dual, self.floor)
        return self.gap / size if size != 0.0 else 0.0

    @classmethod
    def total(cls, parts: Iterable[Any]) -> "Certificate":
        """Return the certificate of several problems together."""
        parts = tuple(parts)
        if len(parts) == 1:
            return parts[0]
        primal = _rounded([part.primal for part in parts], math.inf)
        dual = _rounded([part.dual for part in parts], -math.inf)
        return cls(primal, dual, parts, math.fsum(part.rounding for part in parts))

    def as_dict(self) -> dict:
        """Return plain numbers, for JSON."""
        record = asdict(self) | {"gap": self.gap, "relative_gap": self.relative_gap}
        record["parts"] = [part.as_dict() for part in self.parts]
        if self.floor == 0.0:
            del record["floor"]
        return record

    def bound_in_words(self) -> str:
        """Say how far above the optimum the objective can be at most.

        This is relative to the dual value. The optimum is at least that, so the sentence is true
        for any gap.
        """
        if self.floor > 0.0:
            return self._negative_in_words()
        if self.primal == 0.0:  # objectives are never negative
            return "proved optimal"
        if self.dual > self.primal:
            return "with a lower bound above it: neither is to be trusted"
        if not self.dual > 0.0:
            return "with no useful bound on its distance to the optimum"
        excess = self.gap / self.dual
        if excess <= _ROUNDING:
            return "proved optimal"
        if excess > 1.0:
            return f"proved at most {times_at_most(self.primal, self.dual)} times the optimum"
        bound = percent_at_most(Fraction(self.primal) / Fraction(self.dual) - 1)
        return f"proved within {bound} of the optimum"

    def _negative_in_words(self) -> str:
        if self.dual > self.primal:
            return "with a lower bound above it: neither is to be trusted"
        if self.primal == 0.0 and -self.dual <= self.floor:
            return "proved optimal: no direction keeps the rows from the origin"
        if not self.primal < 0.0:
            return "with no useful bound on its distance to the optimum"
        # The optimum is below the primal value, and so larger in size.
        excess = Fraction(self.gap) / Fraction(-self.primal)
        return f"proved within {percent_at_most(excess)} of the optimum"

    def __str__(self) -> str:
        return f"objective {self.primal:.6g}, {self.bound_in_words()}"


def _rounded(values: list[float], towards: float) -> float:
    """Return the sum of values, rounded towards the side `towards`."""
    total = math.fsum(values)
    missing = math.fsum([*values, -total])
    return math.nextafter(total, towards) if missing * towards > 0.0 else total


def upper_bound(
    problem: Problem,
    coef: Array,
    offset: Offset,
    scores: Array | None = None,
    tol: float = FINE_TOL,
) -> Bound:
    """Return an upper bound on P(coef, offset), which exceeds it by rounding alone.

    `scores` = X coef saves a pass where it is known. If rounding may be more than a small
    fraction of `tol`, it is bounded more closely.
    """
    if scores is None:
        scores = problem.rows.plain.scores(coef)
    penalty = problem.penalty.value(coef)
    if problem.intercept is Intercept.PENALIZED:
        penalty += problem.penalty.value(offset)
    errors = score_errors(problem.rows, coef, offset)
    bound = _with_losses(problem.risk, penalty, scores, move_to(offset, scores), errors)
    if _is_blurred(bound, tol, problem.rows):
        return _closer_bound(problem, penalty, coef, offset, scores, errors)
    return bound


def _is_blurred(bound: Bound, tol: float, rows: Rows) -> bool:
    """Return whether rounding is too large, and rows can compute it more precisely."""
    blurred = bound.rounding > _CLOSER_LOOK * tol * bound.value
    return blurred and isinstance(rows, PreciseRows)


def bound_by_scores(
    risk: MarginRisk,
    intercept: Intercept,
    coef: Array,
    offset: float,
    scores: Array,
    errors: Array,
) -> Bound:
    """Return an upper bound on P(coef, offset) by the scores of all rows that may have a loss.

    Parameters
    ----------
    risk : MarginRisk
        Over these rows alone; the others have no loss.
    scores, errors : ndarray of shape (m,)
        X coef of these rows, and bounds on the errors of X coef + offset.
    """
    penalty = 0.5 * squares(coef.astype(np.float64))
    if intercept is Intercept.PENALIZED:
        penalty += 0.5 * squares(offset)
    return _with_losses(risk, penalty, scores, offset, errors)


def _with_losses(
    risk: Risk,
    penalty: float,
    scores: Array,
    offset: Offset,
    errors: "Array | ScoreErrors",
    low: Array | None = None,
) -> Bound:
    """Return an upper bound on `penalty` plus the losses at scores + offset, (n,) or (n, k)."""
    bounds = []
    # A risk that is not a sum over rows has only one part.
    sums = isinstance(risk, RowRisk)
    for part in parts_of(scores) if sums else [slice(0, len(scores))]:
        some = risk.part(part.start, part.stop)
        digits = None if low is None else low[part]
        bounds.append(some.bound(scores[part] + offset, errors[part], digits))
    total = math.fsum([penalty, *(bound.value for bound in bounds)])
    rounding = math.fsum([SUM * penalty, *(bound.rounding for bound in bounds)])
    return Bound((1.0 + 2.0 * SUM) * total, rounding + 2.0 * SUM * total)


def _closer_bound(
    problem: Problem,
    penalty: float,
    coef: Array,
    offset: Offset,
    scores: Array,
    errors: "ScoreErrors",
) -> Bound:
    """As `_with_losses`, with scores in twice the precision for rows that may have a loss."""
    rows, scores, known = problem.rows, scores + offset, errors[:]
    index = np.flatnonzero(problem.risk.may_have_loss(scores, known))
    low, largest = np.zeros_like(scores), np.zeros(index.size)
    offsets = np.atleast_1d(offset)
    for j, w in enumerate(coef.reshape(rows.n_features, -1).T):
        column = (index, j) if scores.ndim == 2 else index
        scores[column], low[column], sizes = rows.precise_scores(index, w, offsets[j])
        largest = np.maximum(largest, sizes)
    # Rounding errors of the second order, and products that underflow.
    known[index] = 2.0 * gamma(rows.longest_row + MORE) ** 2 * largest + TINY
    if rows.constant != 0.0:  # the intercept that users get is this product, rounded
        known += gamma(4) * abs(rows.constant) * float(np.abs(coef[-1]).max())
    return _with_losses(problem.risk, penalty, scores, 0.0, known, low)


def lower_bound(problem: Problem, dual: Any, tol: float = FINE_TOL) -> tuple[Bound, Array]:
    """Return a lower bound on every P, by a feasible point near `dual`, and X^T A of that point.

    Parameters
    ----------
    dual : ndarray of shape (n,) or (n, k), or Tangents
        As in a State.
    """
    risk, rows = problem.risk, problem.rows.plain
    if isinstance(risk, RowRisk):
        A = feasible_near(problem, dual)
        combined = rows.combine(A)
        return proved_by(problem, A, combined, tol), combined
    if isinstance(risk, CodedRisk):
        return _coded_bound(problem, dual)
    cuts = (risk.cut(rows.scores(coef)) for coef in dual.coefs)
    sums = tangent_sums(rows, convex_weights(dual), cuts, risk.n_terms)
    return sums.bound(problem.intercept), sums.combined


def feasible_near(problem: Problem, dual: Array) -> Array:
    """Return feasible dual variables A near those of a state."""
    risk = problem.risk
    assert isinstance(risk, RowRisk)
    A = np.empty_like(dual)
    for part in parts_of(dual):
        some = risk.part(part.start, part.stop)
        A[part] = some.feasible(some.signed(dual[part]))
    return risk.balanced(A) if problem.intercept is Intercept.FREE else A


def proved_by(
    problem: Problem,
    A: Array,
    combined: Array,
    tol: float = FINE_TOL,
    change: Array | None = None,
) -> Bound:
    """Return the bound of feasible dual variables A, where X^T A is `combined` up to rounding.

    With a `change`, (n,), `combined` is the sum of the products X^T (A - change) and X^T change.
    """
    if change is not None:
        sums = dual_sums(problem.rows, problem.risk, A, combined, change)
        bound = _bound_of(problem, A, sums)
        if not _is_blurred(bound, tol, problem.rows):
            return bound
        combined = problem.rows.plain.combine(A)
    return _bound_of(problem, A, best_sums(problem, A, combined, tol))


def _bound_of(problem: Problem, A: Array, sums: Sums) -> Bound:
    """Return the bound of feasible dual variables A with these sums."""
    if not problem.penalty.is_sparse:
        return sums.bound(problem.intercept)

    risk = problem.risk

    def height(scale: float) -> tuple[float, float]:
        parts = parts_of(A)
        whole = math.fsum(risk.part(p.start, p.stop).dual(scale * A[p]) for p in parts)
        return whole, risk.steepness(scale * A, whole)

    return sums.bound_by(problem.penalty, problem.intercept, height)


def best_sums(problem: Problem, A: Array, combined: Array, tol: float = FINE_TOL) -> Sums:
    """Return the sums of feasible dual variables A, with errors as close as `tol` asks for."""
    sums = dual_sums(problem.rows, problem.risk, A, combined)
    if _is_blurred(_bound_of(problem, A, sums), tol, problem.rows):
        return closer_sums(problem.rows, A, sums, problem.risk.steepest)
    return sums


def _coded_bound(problem: Problem, dual: Tangents) -> tuple[Bound, Array]:
    """Return the bound by planes that the risk knows by their codes, and X^T A.

    A free intercept needs planes whose slopes sum to zero together. The side with the larger sum
    is scaled down to the other one; what is left of the imbalance is rounding.
    """
    risk, rows = problem.risk, problem.rows
    parts, heights, totals = np.zeros((3, rows.n_rows)), np.zeros(3), np.zeros(3)
    for weight, code in zip(convex_weights(dual), dual.coefs, strict=True):
        cut = risk.decoded(code)
        total = float(cut.slope.sum())
        side = int(np.sign(total))  # the last one for negative sums
        parts[side] -= weight * cut.slope
        heights[side] += weight * cut.constant
        totals[side] += weight * abs(total)
    if problem.intercept is Intercept.FREE:
        least = min(totals[1], totals[-1])
        factors = [1.0, *(least / (total or 1.0) for total in totals[1:])]
        parts, heights = parts * np.reshape(factors, (3, 1)), heights * factors
    # All terms of a row have the same sign.
    A, error = parts.sum(axis=0), gamma(len(dual.coefs) + 128)
    sums = Sums(
        math.fsum(heights),
        rows.combine(A),
        column_sums(A),
        **sizes_of(rows, A),
        height_error=error,
        slope_error=error,
    )
    if problem.intercept is not Intercept.FREE:
        return sums.bound(problem.intercept), sums.combined
    bound = sums.bound(Intercept.NONE)
    # A little of one of the first planes balances the rest, and takes the place of as much of A.
    left = float(np.abs(sums.totals).sum()) + (SUM + error) * sums.size
    pull, longest = risk.largest_pulls(lengths(rows))
    part = (1.0 + SUM) * left / (pull or 1.0)
    length = (1.0 + SUM) * (math.sqrt(squares(sums.combined)) + longest)
    lost = part * (sums.height + 2.0 * length * length)
    return Bound(bound.value - lost, bound.rounding + lost), sums.combined


def certify_state(problem: Problem, state: State, tol: float = FINE_TOL) -> Certificate:
    """Return the certificate of `state`, computed from its numbers alone."""
    if isinstance(problem.risk, LowestMean):
        primal, dual, floor = hull_bounds(problem, state.coef, -state.offset, state.dual)
        rounding = primal.rounding + dual.rounding
        return Certificate(primal.value, dual.value, rounding=rounding, floor=floor)
    if isinstance(problem.rows, BlockRows) and isinstance(problem.risk, MarginRisk):
        return certify_in_one_pass(problem, state, tol=tol).certificate
    primal = upper_bound(problem, state.coef, state.offset, tol=tol)
    return certificate_of(primal, lower_bound(problem, state.dual, tol)[0])


def certificate_of(primal: Bound, dual: Bound) -> Certificate:
    """Return the certificate of two bounds; the dual value is at least 0."""
    dual_value = max(dual.value, 0.0)
    return Certificate(primal.value, dual_value, rounding=primal.rounding + dual.rounding)


class Checked(NamedTuple):
    """The results of one pass over the rows, for a state."""

    primal: Bound
    dual: Bound
    offset: float  # the best one, if it was asked for
    scores: Array  # (n,) X coef
    A: Array  # (n,) the dual variables that were certified
    combined: Array  # (d,) X^T A

    @property
    def certificate(self) -> Certificate:
        return certificate_of(self.primal, self.dual)


def certify_in_one_pass(
    problem: Problem, state: State, best_offset: bool = False, tol: float = FINE_TOL
) -> Checked:
    """Certify a state over rows on disk, in one pass and with little memory.

    With `best_offset`, a free intercept is first set to its optimum for `state.coef`.
    """
    risk = problem.risk
    assert isinstance(risk, MarginRisk)
    assert isinstance(state.dual, np.ndarray)
    free = problem.intercept is Intercept.FREE
    A = feasible_near(problem, state.dual)
    scores, combined = problem.rows.products(state.coef, A)
    offset = float(risk.best_offset(scores)) if free and best_offset else float(state.offset)
    primal = upper_bound(problem, state.coef, offset, scores, tol)
    return Checked(primal, proved_by(problem, A, combined, tol), offset, scores, A, combined)
