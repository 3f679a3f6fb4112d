"""What cutting planes store for each plane, so that the bound can be recomputed.

A plane below the risk is a slope. The bundle's solution is a convex combination of slopes: the
dual variables of its bound. If the risk has a dual in closed form, these are one array, and
packed slopes are stored. Otherwise, the point at which a plane touches the risk is stored: the
plane can be recomputed from it and the rows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from widemargin.certificate import feasible_near
from widemargin.data.rows import Rows
from widemargin.problem import Intercept, Problem, Tangents
from widemargin.risk import CodedRisk, Cut, RowRisk

#: (weight, code of a slope) of a convex combination
Slopes = Sequence[tuple[float, Any]]


def proof_for(problem: Problem) -> "DualVariables | Points":
    """Return the proof of this problem: what it stores for each plane."""
    if isinstance(problem.risk, RowRisk):
        return DualVariables(problem)
    return Codes(problem) if isinstance(problem.risk, CodedRisk) else Points(problem)


class DualVariables:
    """Slopes, packed by the risk; their combination is one array of dual variables."""

    def __init__(self, problem: Problem[Rows, RowRisk]):
        self.problem, self.risk = problem, problem.risk
        self.merge = problem.risk.merge

    def known(self, dual: np.ndarray, first_cut: Cut) -> Iterator[tuple]:
        """Yield (slope, constant, code) of the planes of the dual variables `dual`."""
        risk = self.risk
        A = feasible_near(self.problem, dual)
        if self.problem.intercept is Intercept.FREE and not A.any():
            # With the first cut alone, nothing would hold back a free intercept.
            A = risk.balanced(risk.feasible(-first_cut.slope))
        if A.any():
            yield -A, risk.dual(A), -A

    def code(self, cut: Cut, coef: np.ndarray) -> Any:
        """Return the code to store for a cut made at `coef`."""
        return cut.code

    def dual(self, slopes: Slopes) -> Any:
        """Return the dual variables of a State for a combination [(weight, code)]."""
        return self.risk.unsigned(self.risk.weighted_sum(slopes))


class Points:
    """Points at which planes touch the risk; methods as in `DualVariables`."""

    def __init__(self, problem: Problem):
        self.problem = problem

    def known(self, dual: Tangents, first_cut: Cut) -> Iterator[tuple]:
        for coef in dual.coefs:
            cut = self.problem.risk.cut(self.problem.rows.scores(coef))
            yield cut.slope, cut.constant, self.code(cut, coef)

    def code(self, cut: Cut, coef: np.ndarray) -> Tangents:
        return Tangents(np.ones(1), coef[None])

    def merge(
        self, code: Tangents, weight: float, other: Tangents, other_weight: float
    ) -> Tangents:
        return Tangents.weighted_sum([(weight, code), (other_weight, other)])

    def dual(self, slopes: Slopes) -> Tangents:
        return Tangents.weighted_sum(slopes)


class Codes(Points):
    """The risk's own codes of planes, in the place of points."""

    def known(self, dual: Any, first_cut: Any) -> Iterator:
        codes = list(dual.coefs)
        if not codes and self.problem.intercept is Intercept.FREE:
            codes = self.problem.risk.first_codes()
        for code in codes:
            cut = self.problem.risk.decoded(code)
            yield cut.slope, cut.constant, Tangents(np.ones(1), code[None])

    def code(self, cut: Cut, coef: np.ndarray) -> Tangents:
        assert cut.code is not None
        return Tangents(np.ones(1), cut.code[None])
