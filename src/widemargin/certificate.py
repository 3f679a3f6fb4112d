"""The proof that comes with a model: primal value, dual value, and the gap between them.

For  P(w, b) = 1/2 |w|^2 + r(X w + b)  any dual variables A give a lower bound on every
P: weak duality,  P(w, b) >= D(A) = -r*(-A) - 1/2 |X^T A|^2,  if A satisfies the dual's
constraints; with a free intercept these include  sum_i A_i = 0. So a model is within
``primal - dual`` of the best there is, whoever found it and however.

Where -r*(-A) has no closed form, A is a convex combination of slopes of planes under r, and the
same combination of their heights at zero is a lower bound on it. Such dual variables are given
as points: the planes that touch r there are found again, by asking the risk.

All of it is computed in float64 from coefficients and dual variables. No solver is known
here, and none is trusted: dual variables that break a constraint are repaired first, which
can only weaken the bound, never falsify it.
"""

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from widemargin.arrays import beside
from widemargin.data.products import products
from widemargin.data.rows import home
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import MarginRisk, RowRisk
from widemargin.words import percent_at_most, times_at_most

# A gap that is a smaller part of its values than this may as well be none: both were rounded.
_ROUNDING = 1e-12
# Rows that are summed over together, where there may be too many for memory.
_ROWS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Certificate:
    """Bounds on the optimum of a training problem.

    Attributes
    ----------
    primal : float
        Objective value of the model; the optimum is at most this.
    dual : float
        Value of the dual variables; the optimum is at least this.
    parts : tuple of Certificate
        One per class where several problems were solved; their sum is this certificate.
    """

    primal: float
    dual: float
    parts: tuple["Certificate", ...] = ()

    @property
    def gap(self) -> float:
        """How far, at most, the model's objective is above the optimum."""
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        """The gap as a fraction of the primal value: what `tol` bounds."""
        return self.gap / self.primal if self.primal != 0.0 else 0.0

    @classmethod
    def total(cls, parts) -> "Certificate":
        """Return the certificate of several problems solved side by side."""
        parts = tuple(parts)
        if len(parts) == 1:
            return parts[0]
        return cls(sum(p.primal for p in parts), sum(p.dual for p in parts), parts)

    def as_dict(self) -> dict:
        """Return plain numbers, for JSON."""
        record = asdict(self) | {"gap": self.gap, "relative_gap": self.relative_gap}
        record["parts"] = [part.as_dict() for part in self.parts]
        return record

    def bound_in_words(self) -> str:
        """Say how far above the optimum the objective can be at most.

        In parts of the dual value: the optimum is at least that, so the sentence is true
        however large the gap is.
        """
        if self.primal == 0.0:  # no objective is less
            return "proved optimal"
        if not self.dual > 0.0:
            return "with no useful bound on its distance to the optimum"
        excess = max(self.gap, 0.0) / self.dual
        if excess <= _ROUNDING:
            return "proved optimal"
        if excess > 1.0:
            return f"proved at most {times_at_most(self.primal, self.dual)} times the optimum"
        bound = percent_at_most(Fraction(self.primal) / Fraction(self.dual) - 1)
        return f"proved within {bound} of the optimum"

    def __str__(self) -> str:
        return f"objective {self.primal:.6g}, {self.bound_in_words()}"


def primal_value(problem: Problem, coef, offset, scores=None) -> float:
    """Return P(coef, offset); `scores` = X coef saves a pass where it is known."""
    if scores is None:
        scores = problem.rows.scores(coef)
    penalty = 0.5 * float(np.vdot(coef, coef))
    if problem.intercept is Intercept.PENALIZED:
        penalty += 0.5 * float(np.vdot(offset, offset))
    return penalty + problem.risk.value(scores + beside(offset, scores))


def dual_value(problem: Problem, dual) -> tuple[float, np.ndarray]:
    """Return D at a feasible point near `dual`, and X^T A there.

    Parameters
    ----------
    dual : ndarray of shape (n,) or (n, k), or Tangents
        As a State's.
    """
    risk = problem.risk
    if isinstance(risk, RowRisk):
        A = risk.feasible(risk.signed(dual), balanced=problem.intercept is Intercept.FREE)
        height = risk.dual(A)
    else:
        A, height = _tangent_sum(problem, dual)
    coef = problem.rows.combine(A)
    penalty = 0.5 * float(np.vdot(coef, coef))
    if problem.intercept is Intercept.PENALIZED:
        penalty += 0.5 * float((A.sum(axis=0) ** 2).sum())
    return height - penalty, coef


def _tangent_sum(problem, tangents):
    """Return A of the planes that touch the risk at the given points, and their height at 0."""
    weights = np.maximum(tangents.weights, 0.0)
    weights = weights / max(1.0, weights.sum())
    A, height = np.zeros(problem.rows.n_rows, like=home(problem.rows)), 0.0
    for weight, coef in zip(weights.tolist(), tangents.coefs):
        cut = problem.risk.cut(problem.rows.scores(coef))
        A -= weight * cut.slope
        height += weight * cut.constant
    return A, height


def certify_state(problem: Problem, state: State) -> Certificate:
    """Return the certificate of `state`, from nothing but its numbers."""
    if hasattr(problem.rows, "blocks") and isinstance(problem.risk, MarginRisk):
        return certify_in_one_pass(problem, state).certificate
    primal = primal_value(problem, state.coef, state.offset)
    dual, _ = dual_value(problem, state.dual)
    return Certificate(primal, dual)


def parts_of(n_rows):
    """Yield slices of rows: sums over all rows at once would need much memory."""
    for begin in range(0, n_rows, _ROWS_AT_ONCE):
        yield slice(begin, min(begin + _ROWS_AT_ONCE, n_rows))


class Checked(NamedTuple):
    """What one pass over the rows tells about a state."""

    certificate: Certificate
    offset: float  # the best one, where it was asked for
    scores: np.ndarray  # (n,) X coef + offset
    A: np.ndarray  # (n,) the dual variables that were certified
    combined: np.ndarray  # (d,) X^T A


def certify_in_one_pass(problem: Problem, state: State, best_offset: bool = False) -> Checked:
    """Certify a state over rows on disk, at the price of one pass and little memory.

    With `best_offset`, a free intercept is first moved to where it is best for `state.coef`.
    """
    risk, n = problem.risk, problem.rows.n_rows
    assert isinstance(risk, MarginRisk)
    assert isinstance(state.dual, np.ndarray)
    free = problem.intercept is Intercept.FREE
    A = np.empty(n)
    for part in parts_of(n):
        some = risk.part(part.start, part.stop)
        A[part] = some.feasible(some.signed(state.dual[part]))
    if free:
        A = risk.feasible(A, balanced=True)
    scores, combined = products(problem.rows, state.coef, A)
    offset = float(risk.best_offset(scores)) if free and best_offset else float(state.offset)
    scores += offset
    primal = 0.5 * float(state.coef @ state.coef)
    dual = -0.5 * float(combined @ combined)
    if problem.intercept is Intercept.PENALIZED:
        primal += 0.5 * offset**2
        dual -= 0.5 * float(A.sum()) ** 2
    for part in parts_of(n):
        some = risk.part(part.start, part.stop)
        primal += some.value(scores[part])
        dual += some.dual(A[part])
    return Checked(Certificate(primal, dual), offset, scores, A, combined)
