"""From a point near the optimum to the optimum itself, in fractions.

Which rows are at their margin, and which are beyond it, makes the optimum the solution of a linear
system. Wrong guesses do no harm: any point's objective is an upper bound on the optimum.
"""

from fractions import Fraction

import numpy as np
from fuzz.objective import exact_loss

from widemargin.losses import HINGE
from widemargin.problem import Intercept
from widemargin.risk import MarginRisk

# Dual variables so near a bound, in parts of it, are taken to be there.
_AT_A_BOUND = 1e-6
_MOST_SETS = 5


def polished(X, problem, state) -> Fraction | None:
    """Return the objective at the exact optimum for the pieces of the losses that `state` is on.

    None where that system has no solution, or more than one.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    problem : Problem
        With a hinge, or a smooth loss of residuals.
    state : State
    """
    loss = problem.risk.loss
    if loss.is_smooth:
        return _SmoothPolish(X, problem).objective_near(state)
    return _Polish(X, problem).objective_near(state) if loss is HINGE else None


class SignedRows:
    """The rows that count, as they are in u_i (x_i, 1), and what their weights cost."""

    def __init__(self, X, problem):
        risk, penalty = problem.risk, problem.penalty
        self.counted = np.flatnonzero(risk.cost > 0.0)
        self.cost = [Fraction(c) for c in risk.cost[self.counted].tolist()]
        self.l1 = [Fraction(penalty.l1)] * X.shape[1]
        self.l2 = [Fraction(penalty.l2)] * X.shape[1]
        is_margin = isinstance(risk, MarginRisk)
        sign = np.asarray(risk.sign if is_margin else risk.y)[self.counted].astype(np.float64)
        signed = X[self.counted].astype(np.float64) * sign[:, None]
        if problem.intercept is not Intercept.NONE:
            penalized = Fraction(problem.intercept is Intercept.PENALIZED)
            self.l1.append(self.l1[0] * penalized)
            self.l2.append(self.l2[0] * penalized)
            signed = np.column_stack([signed, sign])
        # Scores of these are margins.
        self.rows = [[Fraction(value) for value in row] for row in signed.tolist()]
        target = np.broadcast_to(risk.target if is_margin else 1.0, len(risk.cost))[self.counted]
        self.target = [Fraction(t) for t in target.tolist()]

    def scores(self, v):
        """Return the margins at the weights v, of which the last may be the offset."""
        return [sum((x * w for x, w in zip(z, v) if x and w), Fraction(0)) for z in self.rows]

    def residuals(self, v):
        return [t - s for t, s in zip(self.target, self.scores(v))]

    def penalty(self, v):
        return sum(
            (one * abs(w) + two * w * w / 2 for one, two, w in zip(self.l1, self.l2, v)),
            Fraction(0),
        )


class _Polish(SignedRows):
    """Of the hinge."""

    def objective_near(self, state):
        alpha = state.dual[self.counted]
        cost = np.array([float(c) for c in self.cost])
        inside = (alpha > _AT_A_BOUND * cost) & (alpha < (1.0 - _AT_A_BOUND) * cost)
        return self._hinge(np.flatnonzero(inside), np.flatnonzero(alpha >= 0.5 * cost))

    def _hinge(self, inside, above):
        at_margin = inside.tolist()
        full = sorted(set(above.tolist()) - set(at_margin))
        # D v - sum_M alpha_i z_i = sum_I c_i z_i,   z_i.v = 1 on M
        size, more = len(self.l2), len(at_margin)
        if more > size:
            return None
        matrix = [[Fraction(0)] * (size + more) for _ in range(size + more)]
        columns = list(zip(*self.rows))
        right = [sum((self.cost[i] * column[i] for i in full), Fraction(0)) for column in columns]
        right += [Fraction(1)] * more
        for j, penalty in enumerate(self.l2):
            matrix[j][j] = penalty
        for m, i in enumerate(at_margin, size):
            for j, value in enumerate(self.rows[i]):
                matrix[m][j], matrix[j][m] = value, -value
        found = solved(matrix, right)
        if found is None:
            return None
        v = found[:size]
        losses = zip(self.cost, self.residuals(v))
        return self.penalty(v) + sum((c * r for c, r in losses if r > 0), Fraction(0))


class _SmoothPolish(SignedRows):
    """Of losses that are parabolas between straight lines, and weights of which some are zero."""

    def __init__(self, X, problem):
        super().__init__(X, problem)
        self.loss = problem.risk.loss
        self.eps, self.bend = Fraction(self.loss.eps), Fraction(self.loss.bend)

    def objective_near(self, state):
        v = [Fraction(w) for w in state.coef.tolist()]
        v += [Fraction(state.offset)] * (len(self.l2) - len(v))
        best, residuals, before = None, self.residuals(v), None
        for _ in range(_MOST_SETS):
            signs = [(w > 0) - (w < 0) if l1 else 1 for w, l1 in zip(v, self.l1)]
            pieces = [self._piece(r) for r in residuals]
            if (signs, pieces) == before:
                break
            before = signs, pieces
            found = self._lowest(signs, pieces)
            if found is None:
                break
            v, residuals = found, self.residuals(found)
            losses = zip(self.cost, residuals)
            lost = sum((c * exact_loss(self.loss, r) for c, r in losses), Fraction(0))
            objective = self.penalty(v) + lost
            best = objective if best is None else min(best, objective)
        return best

    def _piece(self, residual):
        """Return (slope, its rate): the slope is slope + rate * residual around this one."""
        beyond = 0 if abs(residual) <= self.eps else (1 if residual > 0 else -1)
        if not beyond:
            return Fraction(0), Fraction(0)
        slope, low, high = (
            (residual - beyond * self.eps) / self.bend,
            self.loss.low,
            self.loss.high,
        )
        if slope >= high:
            return Fraction(high), Fraction(0)
        if slope <= low:
            return Fraction(low), Fraction(0)
        return -beyond * self.eps / self.bend, 1 / self.bend

    def _lowest(self, signs, pieces):
        """Return the weights where all pieces and signs are as given, if they are."""
        used = [j for j, sign in enumerate(signs) if sign]
        # D v = sum_i c_i slope_i z_i - l1 sign, with residuals t_i - z_i.v
        matrix = [[self.l2[j] * (j == k) for k in used] for j in used]
        right = [-self.l1[j] * signs[j] for j in used]
        for cost, z, target, (slope, rate) in zip(self.cost, self.rows, self.target, pieces):
            some = [z[j] for j in used]
            pull = cost * (slope + rate * target)
            for a, x in enumerate(some):
                if x:
                    right[a] += pull * x
                    for b, other in enumerate(some):
                        if rate and other:
                            matrix[a][b] += cost * rate * x * other
        found = solved(matrix, right)
        if found is None:
            return None
        v = [Fraction(0)] * len(signs)
        for j, value in zip(used, found):
            v[j] = value
        return v


def solved(matrix, right):
    """Return the solution of a system of equations in fractions; None where there is not one."""
    rows = [[*row, value] for row, value in zip(matrix, right)]
    size = len(rows)
    for j in range(size):
        pivot = next((i for i in range(j, size) if rows[i][j]), None)
        if pivot is None:
            return None
        rows[j], rows[pivot] = rows[pivot], rows[j]
        first = rows[j]
        for row in rows[j + 1 :]:
            if row[j]:
                factor = row[j] / first[j]
                for k in range(j + 1, size + 1):
                    if first[k]:
                        row[k] -= factor * first[k]
    solution = [Fraction(0)] * size
    for j in reversed(range(size)):
        rest = sum((rows[j][k] * solution[k] for k in range(j + 1, size)), Fraction(0))
        solution[j] = (rows[j][size] - rest) / rows[j][j]
    return solution
