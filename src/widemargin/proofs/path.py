"""Where the optima of all C between two solved ones are, and what they say of held-out rows.

Take the solutions at C_1 and C_2, and C = (1 - t) C_1 + t C_2. Costs are proportional to C, losses
are convex in w, and duals concave in C and A together. So the weights and the dual variables in
between have, with sums of losses r for C = 1,

    gap <= (1 - t) gap_1 + t gap_2 + t (1 - t) K
    K = (C_2 - C_1) (r_1 - r_2) - 1/2 |w_1 - w_2|^2 - 1/2 |w(A_1) - w(A_2)|^2

and the optimum at C is in a ball around them, as in proofs/region.py. Held-out rows that are wrong
throughout bound the error of all C of the interval from below (Shibagaki et al. 2015 do this from
one solution). A free intercept may be any number: the best one for the held-out rows is taken.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray as Array

from widemargin.data.rows import Rows
from widemargin.problem import Intercept, Problem, State
from widemargin.proofs.region import Basis, basis_of
from widemargin.rounding import gamma, squares
from widemargin.row_sums import lengths, score_errors

# More than the rounding of costs, and of the sums of two objectives.
_ROUNDING = 1e-13


class Solution(NamedTuple):
    """A problem's solution at one C."""

    basis: Basis
    drift: float
    w: Array  # with a penalised intercept
    v: Array  # w of its dual variables, likewise
    losses: float  # for C = 1
    scores: Array  # (m,) of held-out rows, by the mean of w and v
    errors: Array  # (m,) of these
    sizes: Array  # (m,) |x|, of (x, 1) for a penalised intercept


def solution_of(C: float, problem: Problem, state: State, rows: Rows, tol: float) -> Solution:
    """Return what bounds need of a problem's state at C; `rows` are held out."""
    state = state.unpacked()
    basis = basis_of(problem, State(state.coef.astype(np.float64), state.offset, state.dual), tol)
    penalized = problem.intercept is Intercept.PENALIZED
    b = [basis.offset] if penalized else []
    total = [float(basis.sums.totals[0])] if penalized else []
    w, v = np.append(basis.coef, b), np.append(basis.sums.combined, total)
    middle, offset = 0.5 * (basis.coef + basis.sums.combined), 0.5 * (sum(b) + sum(total))
    scores = rows.scores(middle) + offset
    errors = score_errors(rows, middle, offset)[:]
    errors += gamma(8) * lengths(rows) * math.sqrt(squares(middle))
    losses = (basis.primal - 0.5 * squares(w)) / C
    drift = basis.sums.drift(problem.intercept)
    sizes = np.sqrt(lengths(rows) ** 2 + penalized) * (1.0 + _ROUNDING)
    return Solution(basis, drift, w, v, losses, scores, errors, sizes)


def scores_between(
    width: float, a: Solution, b: Solution, s: float, t: float
) -> tuple[Array, Array]:
    """Return bounds on scores, (m,), by the optimum at each C from C_1 + s width to C_1 + t width.

    They are without a free intercept.
    """
    ends = [(1.0 - p) * a.scores + p * b.scores for p in (s, t)]
    out = _radius(width, a, b, s, t) * a.sizes + np.maximum(a.errors, b.errors)
    out += gamma(16) * (np.abs(ends[0]) + np.abs(ends[1]) + out)
    return np.minimum(*ends) - out, np.maximum(*ends) + out


def _radius(width: float, a: Solution, b: Solution, s: float, t: float) -> float:
    """Return the radius of a ball that has the optimum of each C from s to t."""
    apart = max(0.0, math.sqrt(squares(a.v - b.v)) - a.drift - b.drift)
    curve = width * (a.losses - b.losses) - 0.5 * squares(a.w - b.w) - 0.5 * apart * apart
    gaps = [solution.basis.primal - solution.basis.dual for solution in (a, b)]
    gap = max((1.0 - p) * gaps[0] + p * gaps[1] for p in (s, t))
    gap += max(s * (1.0 - s), t * (1.0 - t), 0.25 * (s <= 0.5 <= t)) * max(0.0, curve)
    gap += _ROUNDING * (a.basis.primal + b.basis.primal)
    return math.sqrt(max(0.0, gap)) * (1.0 + _ROUNDING) + max(a.drift, b.drift)


def least_over_offsets(first: Array, last: Array, positive: Array, weights: Array) -> float:
    """Return the least weight of rows that are wrong at one offset, whichever it is.

    Positive rows are wrong up to the offset `first`, negative ones beyond the offset `last`.
    """
    ups, downs = np.argsort(first[positive]), np.argsort(last[~positive])
    wrong_up = np.append(np.cumsum(weights[positive][ups][::-1])[::-1], 0.0)
    wrong_down = np.append(0.0, np.cumsum(weights[~positive][downs]))
    at = np.append(last[~positive][downs], np.inf)
    left = np.searchsorted(first[positive][ups], at, side="left")
    return max(0.0, float(np.min(wrong_up[left] + wrong_down)) - _ROUNDING)
