"""What cutting planes remember of each plane, so that others can check the bound.

A plane under the risk is a slope, and the bundle's solution is a convex combination of slopes:
the dual variables that prove its bound. Where the risk knows its own dual, these are one array,
and slopes are remembered packed. Where it does not, a plane is remembered by the point at which
it touches the risk: whoever has the rows can find the plane again.
"""

import numpy as np

from widemargin.certificate import feasible_near
from widemargin.problem import Intercept, Problem, Tangents
from widemargin.risk import RowRisk


def proof_for(problem: Problem):
    """Return what remembers planes of this problem."""
    return DualVariables(problem) if isinstance(problem.risk, RowRisk) else Points(problem)


class DualVariables:
    """Slopes, packed by the risk; their combination is one array of dual variables."""

    def __init__(self, problem):
        self.problem, self.risk = problem, problem.risk
        self.merge = problem.risk.merge

    def known(self, dual, first_cut):
        """Yield (slope, constant, code) of the planes that `dual` stands for."""
        risk = self.risk
        A = feasible_near(self.problem, dual)
        if self.problem.intercept is Intercept.FREE and not A.any():
            # The first cut alone would leave the intercept nothing to hold on to.
            A = risk.balanced(risk.feasible(-first_cut.slope))
        if A.any():
            yield -A, risk.dual(A), -A

    def code(self, cut, coef):
        """Return what to remember of a cut made at `coef`."""
        return cut.code

    def dual(self, slopes):
        """Return the dual variables of a State for a combination [(weight, code)]."""
        return self.risk.unsigned(self.risk.weighted_sum(slopes))


class Points:
    """Points at which planes touch; as `DualVariables`."""

    def __init__(self, problem):
        self.problem = problem

    def known(self, dual, first_cut):
        for coef in dual.coefs:
            cut = self.problem.risk.cut(self.problem.rows.scores(coef))
            yield cut.slope, cut.constant, self.code(cut, coef)

    def code(self, cut, coef):
        return Tangents(np.ones(1), coef[None])

    def merge(self, code, weight, other, other_weight):
        return Tangents.weighted_sum([(weight, code), (other_weight, other)])

    def dual(self, slopes):
        return Tangents.weighted_sum(slopes)
