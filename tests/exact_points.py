"""The optimum itself in fractions: weights, intercept and dual variables of small problems.

Which rows are at their margin, and which are beyond it, makes the optimum the solution of a linear
system. A guess is right if its solution satisfies all conditions of an optimum, exactly.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from fuzz.polish import solved

from widemargin.losses import HINGE, SQUARED_HINGE
from widemargin.problem import Intercept

# Guesses of the rows at their margin: dual variables so near a bound, in parts of it, are there.
_AT_A_BOUND = (1e-9, 1e-6, 1e-3)
_MOST_SETS = 5


@dataclass
class Optimum:
    """An optimum in fractions; w is the only one, and so is b, which is part of `v`."""

    v: list  # weights, and the intercept, if there is one
    alpha: list  # (n,)
    objective: Fraction


def exact_optimum(problem, state):
    """Return the optimum of a problem with hinge or squared hinge losses; None if not found."""
    X, risk = problem.rows.matrix, problem.risk
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    cost = [Fraction(c) for c in risk.cost.tolist()]
    penalties = [Fraction(1)] * X.shape[1]
    signed = X * risk.y[:, None]
    if problem.intercept is not Intercept.NONE:
        penalties.append(Fraction(problem.intercept is Intercept.PENALIZED))
        signed = np.column_stack([signed, risk.y.astype(np.float64)])
    rows = [[Fraction(value) for value in row] for row in signed.tolist()]
    if risk.loss is SQUARED_HINGE:
        return _squared(rows, cost, penalties, np.flatnonzero(state.dual > 0.0).tolist())
    assert risk.loss is HINGE
    for near in _AT_A_BOUND:
        counted = risk.cost > 0.0
        inside = counted & (state.dual > near * risk.cost)
        inside &= state.dual < (1.0 - near) * risk.cost
        full = counted & ~inside & (state.dual >= 0.5 * risk.cost)
        sets = np.flatnonzero(inside).tolist(), np.flatnonzero(full).tolist()
        found = _hinge(rows, cost, penalties, *sets)
        if found is not None:
            return found
    return None


def _squared(rows, cost, penalties, lossy):
    size = len(penalties)
    for _ in range(_MOST_SETS):
        matrix = [[penalties[j] * (j == k) for k in range(size)] for j in range(size)]
        right = [Fraction(0)] * size
        for i in lossy:
            for j, value in enumerate(rows[i]):
                right[j] += 2 * cost[i] * value
                for k in range(size):
                    matrix[j][k] += 2 * cost[i] * value * rows[i][k]
        v = solved(matrix, right)
        if v is None:
            return None
        slacks = _slacks(rows, v)
        now = [i for i, slack in enumerate(slacks) if slack > 0 and cost[i] > 0]
        if now == lossy:
            alpha = [2 * c * max(s, Fraction(0)) for c, s in zip(cost, slacks)]
            return Optimum(v, alpha, _objective(penalties, v, slacks, cost, 2))
        lossy = now
    return None


def _hinge(rows, cost, penalties, inside, full):
    size, more = len(penalties), len(inside)
    if more > size:
        return None
    matrix = [[Fraction(0)] * (size + more) for _ in range(size + more)]
    right = [sum((cost[i] * rows[i][j] for i in full), Fraction(0)) for j in range(size)]
    right += [Fraction(1)] * more
    for j, penalty in enumerate(penalties):
        matrix[j][j] = penalty
    for m, i in enumerate(inside, size):
        for j, value in enumerate(rows[i]):
            matrix[m][j], matrix[j][m] = value, -value
    found = solved(matrix, right)
    if found is None:
        return None
    v, alpha = found[:size], [Fraction(0)] * len(rows)
    for i, value in zip(inside, found[size:]):
        alpha[i] = value
    for i in full:
        alpha[i] = cost[i]
    slacks = _slacks(rows, v)
    for i, (a, slack) in enumerate(zip(alpha, slacks)):
        if cost[i] == 0:
            continue
        if not 0 <= a <= cost[i] or (slack > 0 and a < cost[i]) or (slack < 0 and a > 0):
            return None
    return Optimum(v, alpha, _objective(penalties, v, slacks, cost, 1))


def _slacks(rows, v):
    return [1 - sum((x * w for x, w in zip(row, v) if x), Fraction(0)) for row in rows]


def _objective(penalties, v, slacks, cost, power):
    loss = sum((c * s**power for c, s in zip(cost, slacks) if s > 0), Fraction(0))
    return sum((p * w * w for p, w in zip(penalties, v)), Fraction(0)) / 2 + loss
