"""Where the optimum of a problem is, by the gap of any state.

Weights. With w(A) = X^T A of feasible dual variables A, strong convexity of P and -D says

    P(w, b) - P* >= 1/2 |w - w*|^2      D* - D(A) >= 1/2 |w(A) - w*|^2

The sum of both is a ball around the middle of w and w(A): Ndiaye et al. 2017 have the first half,

    |w* - (w + w(A)) / 2|^2 <= gap - 1/4 |w - w(A)|^2

A penalised intercept is one more weight, and sum_i A_i is its w(A).

A free intercept. Any dual variables A within the bounds of the rows, with any sum, say that

    P(w, b) >= -r*(-A) - 1/2 |w(A)|^2 + 1/2 |w - w(A)|^2 - b sum_i A_i

for each w of the ball. Beyond some b that is more than the objective of the state, so that b* is
not there. Good A are slopes of the risk at scores a little higher, or lower, than those of the
state, and points between them and the state's own. All of it holds for X - 1 c^T and the
intercept b + c.w, too: a c near the rows that move with the intercept takes the uncertainty of w
out of that of b, and |x - c| is less than |x|.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy import ndarray as Array

from widemargin.certificate import best_sums, feasible_near, upper_bound
from widemargin.data.rows import Rows
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import MarginRisk
from widemargin.rounding import SUM, gamma, squares
from widemargin.row_sums import MORE, Sums, dual_sums, lengths, score_errors

# Slopes are taken where the risk has grown by so many gaps, each on both sides.
_GROWTHS = (1.0, 8.0, 64.0, 512.0)
# Steps of the intercept that are tried: the largest one, halved again and again.
_HALVINGS = 36
#: how far from the state's dual variables towards these slopes
PARTS = (1.0, 0.25, 0.0625, 2.0**-7)


class Interval(NamedTuple):
    """Bounds on a value per row, (n,), or on one value."""

    low: Array
    high: Array


class Basis(NamedTuple):
    """What a region was proved from: the state, its bounds, and slopes for the intercept."""

    coef: Array
    scores: Array  # with the intercept
    A: Array
    sums: Sums
    primal: float
    dual: float
    offset: float
    slopes: tuple[tuple[Array, Sums], ...] = ()  # A and its sums


@dataclass(frozen=True)
class Region:
    """Weights and intercepts among which all optimal ones are.

    |w* - centre| <= radius  and  low <= b* + c.w* <= high; if the intercept is penalised, the
    ball is that of both, and low = high is its centre.

    Attributes
    ----------
    centre : ndarray of shape (d,)
    radius, low, high : float
    c : ndarray of shape (d,)
    penalized : bool
    basis : Basis
        What it was proved from.
    """

    centre: Array
    radius: float
    low: float = 0.0
    high: float = 0.0
    c: Array | None = None
    penalized: bool = False
    basis: "Basis | None" = None

    def scores(self, rows: Rows) -> Interval:
        """Return bounds on the optimal scores w*.x + b* of rows, (n,), rounding included."""
        plain, size = rows.plain, lengths(rows)
        middle = plain.scores(self.centre)
        error = score_errors(rows, self.centre, 0.0)[:]
        square = size * size
        if self.penalized:
            square += 1.0
        if self.c is not None:
            along, length = plain.scores(self.c), math.sqrt(squares(self.c)) * (1.0 + SUM)
            middle -= (moved := float(self.centre @ self.c))
            far = math.sqrt(squares(self.centre)) * length * gamma(self.c.size + MORE)
            error += far + gamma(4) * abs(moved)
            blur = gamma(rows.longest_row + self.c.size + MORE)
            square += length * length - 2.0 * along
            square += 4.0 * blur * (size + length) ** 2  # of both products, and of their sum
        reach = np.sqrt(np.maximum(square, 0.0)) * (self.radius * (1.0 + 1e-14))
        ends = np.array([self.low, self.high])
        error += gamma(8) * (np.abs(middle) + reach + float(np.abs(ends[np.isfinite(ends)]).sum()))
        return Interval(middle + self.low - reach - error, middle + self.high + reach + error)

    def weights(self) -> Interval:
        """Return bounds on the optimal weights, (d,)."""
        reach = self.radius + gamma(4) * np.abs(self.centre)
        return Interval(self.centre - reach, self.centre + reach)


def basis_of(problem: Problem, state: State, tol: float) -> Basis:
    """Return what is known of a state, with feasible dual variables near its own.

    Rounding is bounded more closely if it is more than a small fraction of `tol`.
    """
    if problem.penalty.is_sparse:
        raise ValueError(
            f"penalty={problem.penalty.name!r} is not strongly convex enough to say where the "
            "optimum is: proofs are for penalty='l2'"
        )
    rows, risk, w = problem.rows.plain, problem.risk, state.coef
    assert isinstance(risk, MarginRisk)
    scores = rows.scores(w)
    primal = upper_bound(problem, w, state.offset, scores, tol).value
    A = feasible_near(problem, state.dual)
    sums = best_sums(problem, A, rows.combine(A), tol)
    if not sums.bound(problem.intercept).value >= 0.0:  # D(0) = 0 is better
        A = np.zeros_like(A)
        sums = best_sums(problem, A, np.zeros_like(w), tol)
    dual = sums.bound(problem.intercept).value
    return Basis(w, scores + state.offset, A, sums, primal, dual, float(state.offset))


def region_of(problem: Problem, state: State, tol: float) -> Region:
    """Return where the optimum is, by the gap of a state; any state will do."""
    basis = basis_of(problem, state, tol)
    w, sums, primal, dual = basis.coef, basis.sums, basis.primal, basis.dual
    penalized = problem.intercept is Intercept.PENALIZED
    drift, apart = sums.drift(problem.intercept), squares(w - sums.combined)
    if penalized:
        apart += (basis.offset - float(sums.totals[0])) ** 2
    sure = max(0.0, (1.0 - SUM) * math.sqrt(apart) - drift)
    radius = math.sqrt(max(0.0, primal - dual - 0.25 * sure * sure)) * (1.0 + SUM) + 0.5 * drift
    centre = 0.5 * (w + sums.combined)
    radius += gamma(8) * math.sqrt(squares(centre))
    if not math.isfinite(radius):
        radius = math.inf
    if problem.intercept is Intercept.FREE:
        return _with_intercept(problem, Region(centre, radius, basis=basis), basis)
    middle = 0.5 * (basis.offset + float(sums.totals[0])) if penalized else 0.0
    return Region(centre, radius, middle, middle, penalized=penalized, basis=basis)


def _with_intercept(problem: Problem, ball: Region, own: Basis) -> Region:
    """Return the ball, with bounds on the intercept."""
    rows, risk, primal = problem.rows.plain, problem.risk, own.primal
    gap = primal - own.sums.bound(Intercept.NONE).value
    below, above = _steps(risk, own.scores, max(gap, 1e-12 * abs(primal)))
    slopes = []
    for step in (*below, *above):
        A = risk.feasible(-risk.cut(own.scores + step).slope)
        slopes.append((A, dual_sums(problem.rows, risk, A, rows.combine(A))))
    best = replace(ball, low=-math.inf, high=math.inf)
    for (_, first), (_, second) in zip(slopes[: len(below)], slopes[len(below) :]):
        apart = float(first.totals[0] - second.totals[0])
        if not apart > 0.0:
            continue
        c = (first.combined - second.combined) / apart
        low, high = -math.inf, math.inf
        for _, sums in slopes:
            for part in PARTS:
                mean = mixed(own.sums, sums, part, c)
                bound = mean.bound(Intercept.NONE).value + _beyond(ball, mean)
                low = max(low, -_end(mean, bound, primal, -1.0))
                high = min(high, _end(mean, bound, primal, 1.0))
        if high - low < best.high - best.low:
            best = replace(best, low=low, high=high, c=c)
    return replace(best, basis=own._replace(slopes=tuple(slopes)))


def _steps(risk: MarginRisk, scores: Array, gap: float) -> list[list[float]]:
    """Return changes of the intercept by which the risk grows by several gaps, on both sides."""
    largest = 4.0 * float(np.abs(risk.residuals(scores)).max(initial=1.0))
    sizes = largest * 2.0 ** -np.arange(_HALVINGS, -1, -1.0)
    steps = np.concatenate([-sizes[::-1], [0.0], sizes])
    values = risk.line(scores, np.ones_like(scores)).evaluate(steps).values
    growth = values - values[sizes.size]
    found = []
    for side in (np.arange(sizes.size)[::-1], sizes.size + 1 + np.arange(sizes.size)):
        enough = [np.flatnonzero(growth[side] >= wanted * gap) for wanted in _GROWTHS]
        found.append([float(steps[side[places[0]]]) for places in enough if places.size])
    return found


def mixed(own: Sums, plane: Sums, part: float, c: Array) -> Sums:
    """Return the sums of A = (1 - part) A_own + part A_plane over rows x - c."""
    rest = 1.0 - part  # exact, for a power of two
    totals = rest * own.totals + part * plane.totals
    size = rest * own.size + part * plane.size
    pull = rest * own.pull + part * plane.pull + math.sqrt(squares(c)) * (1.0 + SUM) * size
    return plane._replace(
        height=rest * own.height + part * plane.height,  # at most that of the mixture
        combined=rest * own.combined + part * plane.combined - totals[0] * c,
        totals=totals,
        size=size,
        pull=(1.0 + SUM) * pull,
        n_used=own.n_used + plane.n_used + 192,  # at least as in the error of the totals
        more=rest * own.more + part * plane.more,
    )


def _beyond(ball: Region, sums: Sums) -> float:
    """Return how much the ball adds to the bound of dual variables whose w is outside of it."""
    error = sums.drift(Intercept.NONE) + gamma(8) * math.sqrt(squares(sums.combined))
    apart = (1.0 - SUM) * math.sqrt(squares(sums.combined - ball.centre)) - error
    return 0.5 * max(0.0, apart - ball.radius) ** 2 * (1.0 - SUM)


def _end(sums: Sums, bound: float, primal: float, sign: float) -> float:
    """Return a bound on sign * (b* + c.w*).

    The objective is at least  bound - total b,  up to rounding, and at most `primal`.
    """
    slope, unsure = -sign * float(sums.totals[0]), (sums.totals_error + SUM) * sums.size
    slope += unsure if primal < bound else -unsure
    if not slope > 0.0:
        return math.inf
    end = (primal - bound) / slope
    return end + gamma(16) * (abs(end) + (abs(primal) + abs(bound)) / slope)
