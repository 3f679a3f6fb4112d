"""From a point near the optimum to the optimum itself, in fractions.

Which rows are at their margin, and which are beyond it, makes the optimum the solution of a linear
system. Wrong guesses do no harm: any point's objective is an upper bound on the optimum.
"""

from fractions import Fraction

import numpy as np

from widemargin.losses import HINGE, SQUARED_HINGE
from widemargin.problem import Intercept

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
        With a Hinge or SquaredHinge.
    state : State
    """
    if problem.risk.loss not in (HINGE, SQUARED_HINGE):
        return None
    return _Polish(X, problem).objective_near(state)


class _Polish:
    def __init__(self, X, problem):
        risk = problem.risk
        counted = np.flatnonzero(risk.cost > 0.0)
        self.counted, self.squared = counted, risk.loss is SQUARED_HINGE
        self.cost = [Fraction(c) for c in risk.cost[counted].tolist()]
        self.penalties = [Fraction(1)] * X.shape[1]
        signed = X[counted].astype(np.float64) * risk.y[counted, None]
        if problem.intercept is not Intercept.NONE:
            self.penalties.append(Fraction(problem.intercept is Intercept.PENALIZED))
            signed = np.column_stack([signed, risk.y[counted].astype(np.float64)])
        # y_i (x_i, 1): scores of these are margins.
        self.rows = [[Fraction(value) for value in row] for row in signed.tolist()]

    def objective_near(self, state):
        alpha = state.dual[self.counted]
        cost = np.array([float(c) for c in self.cost])
        if self.squared:
            return self._squared(np.flatnonzero(alpha > 0.0).tolist())
        inside = (alpha > _AT_A_BOUND * cost) & (alpha < (1.0 - _AT_A_BOUND) * cost)
        return self._hinge(np.flatnonzero(inside), np.flatnonzero(alpha >= 0.5 * cost))

    def _squared(self, lossy):
        best = None
        for _ in range(_MOST_SETS):
            # (D + 2 sum_i c_i z_i z_i^T) v = 2 sum_i c_i z_i over rows with a loss
            size = len(self.penalties)
            matrix = [[Fraction(0)] * size for _ in range(size)]
            right = [Fraction(0)] * size
            for j, penalty in enumerate(self.penalties):
                matrix[j][j] = penalty
            for i in lossy:
                z, twice = self.rows[i], 2 * self.cost[i]
                for j, value in enumerate(z):
                    if value:
                        right[j] += twice * value
                        for k in range(size):
                            matrix[j][k] += twice * value * z[k]
            v = solved(matrix, right)
            if v is None:
                return best
            objective, slacks = self._objective(v)
            best = objective if best is None else min(best, objective)
            now = [i for i, slack in enumerate(slacks) if slack > 0]
            if now == lossy:
                return best
            lossy = now
        return best

    def _hinge(self, inside, above):
        at_margin = inside.tolist()
        full = sorted(set(above.tolist()) - set(at_margin))
        # D v - sum_M alpha_i z_i = sum_I c_i z_i,   z_i.v = 1 on M
        size, more = len(self.penalties), len(at_margin)
        if more > size:
            return None
        matrix = [[Fraction(0)] * (size + more) for _ in range(size + more)]
        columns = list(zip(*self.rows))
        right = [sum((self.cost[i] * column[i] for i in full), Fraction(0)) for column in columns]
        right += [Fraction(1)] * more
        for j, penalty in enumerate(self.penalties):
            matrix[j][j] = penalty
        for m, i in enumerate(at_margin, size):
            for j, value in enumerate(self.rows[i]):
                matrix[m][j], matrix[j][m] = value, -value
        v = solved(matrix, right)
        return None if v is None else self._objective(v[:size])[0]

    def _objective(self, v):
        slacks = [
            max(Fraction(0), 1 - sum((x * w for x, w in zip(z, v) if x), Fraction(0)))
            for z in self.rows
        ]
        power = 2 if self.squared else 1
        loss = sum((c * s**power for c, s in zip(self.cost, slacks) if s), Fraction(0))
        return sum((p * w * w for p, w in zip(self.penalties, v)), Fraction(0)) / 2 + loss, slacks


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
