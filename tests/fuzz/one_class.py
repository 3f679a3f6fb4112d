"""One-class problems: exact objectives, and the least one that anybody has found.

    P(w, rho) = 1/2 |w|^2 - rho + sum_i cap_i max(0, rho - w.x_i),   cap_i = c_i / (nu sum of c)

Of all multiples of w, each with its best rho, the least P is -(m(w) / |w|)^2 / 2, where m(w) is
the mean of the lowest scores, if that is above 0.
"""

import warnings
from fractions import Fraction

import numpy as np
from exact import nearest_point
from fuzz.polish import solved

from widemargin import LinearOneClassSVM

_LOOSE = 1e-6
_AT_A_BOUND = 1e-6


class OneClass:
    """The problem of a case, in fractions."""

    def __init__(self, case):
        n = len(case.X)
        weights = np.ones(n) if case.sample_weight is None else case.sample_weight
        counted = np.flatnonzero(weights > 0.0)
        self.X = np.asarray(case.X, dtype=np.float64)[counted]
        self.rows = [[Fraction(value) for value in row] for row in self.X.tolist()]
        weights = [Fraction(weight) for weight in weights[counted].tolist()]
        total = Fraction(case.parameters["nu"]) * sum(weights)
        self.caps = [weight / total for weight in weights]

    def objective(self, coef, rho) -> Fraction:
        """Return P(coef, rho), of floats or fractions."""
        w, rho = [Fraction(value) for value in coef], Fraction(rho)
        short = (max(0, rho - score) for score in self._scores(w))
        losses = sum(cap * each for cap, each in zip(self.caps, short) if each)
        return sum(v * v for v in w) / 2 - rho + losses

    def best_multiple(self, coef) -> Fraction:
        """Return the least objective of all multiples of `coef`."""
        w = [Fraction(value) for value in coef]
        square = sum(v * v for v in w)
        left, mean = Fraction(1), Fraction(0)
        for score, cap in sorted(zip(self._scores(w), self.caps)):
            mean += min(cap, left) * score
            left -= min(cap, left)
        return -mean * mean / (2 * square) if mean > 0 else Fraction(0)

    def largest_sum(self, coef, rho) -> float:
        """Return the objective with all terms of all sums as they are, without their signs."""
        sizes = np.abs(rho) + np.abs(self.X) @ np.abs(coef)
        caps = np.array([float(cap) for cap in self.caps])
        return float(caps @ sizes) + abs(rho) + float(coef @ coef)

    def polished(self, weights) -> list[Fraction]:
        """Return the objective where these dual variables say at which pieces the optimum is.

        With F the rows at their caps and M those between zero and there: w = X^T a, rho = w.x_i
        of M, and the a sum to 1.
        """
        caps = np.array([float(cap) for cap in self.caps])
        inside = (weights > _AT_A_BOUND * caps) & (weights < (1.0 - _AT_A_BOUND) * caps)
        full = np.flatnonzero(weights >= (1.0 - _AT_A_BOUND) * caps).tolist()
        mine, d = np.flatnonzero(inside).tolist(), self.X.shape[1]
        if not mine or len(mine) > d + 1:
            return []
        # Unknown are the a of M, and rho:  sum_j a_j x_i.x_j - rho = - sum over F cap_j x_i.x_j
        given = [sum(self.caps[j] * self.rows[j][k] for j in full) for k in range(d)]
        matrix, right = [], []
        for i in mine:
            row = self.rows[i]
            matrix.append([_dot(row, self.rows[j]) for j in mine] + [Fraction(-1)])
            right.append(-_dot(row, given))
        matrix.append([Fraction(1)] * len(mine) + [Fraction(0)])
        right.append(1 - sum(self.caps[j] for j in full))
        found = solved(matrix, right)
        if found is None:
            return []
        w = [given[k] + sum(a * self.rows[j][k] for a, j in zip(found, mine)) for k in range(d)]
        return [self.best_multiple(w)] if any(w) else []

    def _scores(self, w):
        return [_dot(row, w) for row in self.rows]


def _dot(a, b):
    return sum((x * y for x, y in zip(a, b) if x and y), Fraction(0))


def one_class_failures(case, model, slack=Fraction(0)) -> list[str]:
    """Return what is wrong with the certificate of a one-class model."""
    coef, rho, part = model.coef_[0], -float(model.intercept_[0]), model.certificate_
    if not (np.isfinite(coef).all() and np.isfinite(rho)):
        return [f"coefficients are not finite: {coef}, {rho}"]
    if not (np.isfinite(part.primal) and np.isfinite(part.dual)):
        return [f"not finite: primal {part.primal}, dual {part.dual}"]
    exact, found = OneClass(case), []
    own = exact.objective(coef.tolist(), rho)
    if part.dual > part.primal:
        found.append(f"the gap is {part.gap:g}, below zero")
    if Fraction(part.primal) < own - slack * abs(own):
        found.append(f"primal value {part.primal!r}, exact objective {float(own)!r}: below it")
    loose = _LOOSE * exact.largest_sum(coef, rho) + 3.0 * part.rounding
    if part.primal > float(own) + loose:
        found.append(f"primal value {part.primal!r}, exact objective {float(own)!r}: too loose")
    least, whose = min(_known(exact, case, model, own), key=lambda known: known[0])
    if Fraction(part.dual) > least + slack * abs(least):
        above = float(Fraction(part.dual) - least)
        found.append(
            f"dual value {part.dual!r} is above an objective by {above:g} (found by {whose})"
        )
    if model.status_ == "converged" and not part.relative_gap <= case.parameters["tol"]:
        found.append(f"converged, with a gap of {part.relative_gap:g}")
    return found


def _known(exact, case, model, own):
    """Return objectives (P, who found it), all of them no less than the optimum."""
    known = [(own, "itself"), (Fraction(0), "zero"), (exact.best_multiple(model.coef_[0]), "it")]
    largest = float(np.abs(exact.X).max(initial=0.0))
    if largest == 0.0:
        return known
    X = np.ldexp(exact.X, -int(np.frexp(largest)[1]))
    caps = np.array([float(cap) for cap in exact.caps])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        other = LinearOneClassSVM(nu=case.parameters["nu"], tol=1e-12, max_time=0.3)
        other.fit(X, sample_weight=caps)
    directions = [(other.coef_[0], other.dual_variables_.toarray()[0], "a longer run")]
    directions += _by_clarabel(X, caps)
    for w, weights, who in directions:
        if np.isfinite(w).all() and w.any():
            known.append((exact.best_multiple(w.tolist()), who))
            known += [(value, f"{who}, polished") for value in exact.polished(weights)]
    return known


def _by_clarabel(X, caps):
    """Return (w, a, who) as an interior-point solver finds them for the dual problem."""
    solution = nearest_point(X, caps)
    if "Solved" not in str(solution.status):
        return []
    d = X.shape[1]
    found = np.array(solution.x)
    return [(found[:d], found[d:], "Clarabel")]
