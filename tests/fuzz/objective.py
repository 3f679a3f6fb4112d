"""Objectives in exact arithmetic, from the numbers of a problem and of a point.

Each float64 is a whole number of 2^-1074, so that integers are all it takes.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from fuzz.measures import measure_risk

from widemargin.losses import HINGE, SQUARED_HINGE
from widemargin.penalty import RIDGE
from widemargin.problem import Intercept
from widemargin.risk import CrammerSinger, PairwiseHinge, SmoothRisk
from widemargin.risk.sides import TwoSidedRisk

# Losses that are powers, of whole numbers in place of fractions.
_POWERS = {HINGE: 1, SQUARED_HINGE: 2}

_PLACES = 1074
_ONE = 1 << _PLACES


def _whole(value) -> int:
    """Return a float in units of 2^-1074."""
    numerator, denominator = float(value).as_integer_ratio()
    return numerator * (_ONE // denominator)


def _wholes(array):
    return [_whole(value) for value in np.ravel(array).tolist()]


class ExactProblem:
    """A problem whose objective is computed without rounding, at any point.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    risk : Hinge, SquaredHinge, CrammerSinger, PairwiseHinge or a measure's
        Its costs and weights, as they are in float64, are the problem's.
    intercept : Intercept
    penalty : Penalty
    """

    def __init__(self, X, risk, intercept, penalty=RIDGE):
        X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
        self.risk, self.intercept, self.penalty = risk, intercept, penalty
        # Few columns of a row are zero, and those cost most.
        self.rows = [
            [(j, _whole(value)) for j, value in enumerate(row) if value != 0.0]
            for row in X.tolist()
        ]

    def objective(self, coef, offset=0.0) -> Fraction:
        """Return P(coef, offset); coef is (d,) or (d, k), offset a number or (k,)."""
        sizes = _wholes(coef)
        if self.intercept is Intercept.PENALIZED:
            sizes += _wholes(offset)
        penalty = Fraction(sum(w * w for w in sizes), 2 * _ONE**2) * Fraction(self.penalty.l2)
        if self.penalty.is_sparse:
            penalty += Fraction(sum(map(abs, sizes)), _ONE) * Fraction(self.penalty.l1)
        return penalty + self._risk_at(self.risk, coef, offset)

    def _risk_at(self, risk, coef, offset):
        columns = [_wholes(column) for column in np.atleast_2d(np.transpose(coef))]
        offsets = [_ONE * b for b in _wholes(np.broadcast_to(offset, len(columns)))]
        scores = [  # in units of 2^-2148
            [b + sum(x * w[j] for j, x in row) for w, b in zip(columns, offsets)]
            for row in self.rows
        ]
        one = _ONE * _ONE
        if isinstance(risk, CrammerSinger):
            total = 0
            for own, cost, of_row in zip(risk.y.tolist(), _wholes(risk.cost), scores):
                worst = max(one * (j != own) + s for j, s in enumerate(of_row))
                total += cost * (worst - of_row[own])
            return Fraction(total, one * _ONE)
        if isinstance(risk, SmoothRisk):
            total = Fraction(0)
            for y, cost, of_row in zip(risk.y.tolist(), risk.cost.tolist(), scores):
                of_row = [Fraction(s, one) for s in of_row]
                ahead = [-y * of_row[0]]
                if risk.outputs:
                    ahead = [s - of_row[y] for j, s in enumerate(of_row) if j != y]
                total += Fraction(cost) * log_sum(ahead) if cost > 0.0 else 0
            return total
        scores = [s for (s,) in scores]
        if isinstance(risk, PairwiseHinge):
            return Fraction(_pairs(risk, scores, one), one * one)
        if isinstance(risk, TwoSidedRisk):
            return measure_risk(risk, [Fraction(s, one) for s in scores])
        if risk.loss not in _POWERS:
            total = Fraction(0)
            signs, targets = risk.sign.tolist(), np.broadcast_to(risk.target, len(scores)).tolist()
            for sign, target, cost, s in zip(signs, targets, risk.cost.tolist(), scores):
                residual = Fraction(target) - int(sign) * Fraction(s, one)
                total += Fraction(cost) * exact_loss(risk.loss, residual)
            return total
        total, power = 0, _POWERS[risk.loss]
        for y, cost, s in zip(risk.y.tolist(), _wholes(risk.cost), scores):
            total += cost * max(0, one - int(y) * s) ** power
        return Fraction(total, _ONE * one**power)


def log_sum(ahead) -> Fraction:
    """Return log(1 + sum of exp) of some Fractions, in sixty digits, rounded down."""
    with localcontext() as context:
        context.prec = 80
        highest = max(0, *ahead)
        powers = [
            Decimal(0) if a - highest < -(10**6) else _decimal(a - highest).exp()
            for a in (0, *ahead)
        ]
        if highest == 0:
            others = sum(powers[1:])
            # By its series where it is tiny: log(1 + x) would have no digits left.
            log = others - others * others / 2 if others < Decimal("1e-30") else (1 + others).ln()
        else:
            log = sum(powers).ln()
        return highest + Fraction(log) * (1 - Fraction(1, 10**55))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def exact_loss(loss, residual):
    """Return the loss of a residual, a Fraction, for one unit of cost."""
    eps, low, high, bend = loss.numbers
    excess = residual - min(max(residual, -Fraction(eps)), Fraction(eps))
    if bend == 0.0:
        return excess * Fraction(high if excess > 0 else low)
    slope = excess / Fraction(bend)
    slope = slope if high == math.inf else min(slope, Fraction(high))
    slope = slope if low == -math.inf else max(slope, Fraction(low))
    return slope * (excess - Fraction(bend) * slope / 2)


def _pairs(risk, scores, one):
    """Return the sum over pairs, each looked at."""
    total = 0
    weights, levels, members = _wholes(risk.weight), risk.level.tolist(), risk.member.tolist()
    known = [scores[row] for row in risk.rows.tolist()]
    for i, (level, member) in enumerate(zip(levels, members)):
        pulled = 0
        for j, (other, its) in enumerate(zip(levels, members)):
            if its == member and other < level:
                pulled += weights[j] * max(0, one - known[i] + known[j])
        total += weights[i] * pulled
    return total
