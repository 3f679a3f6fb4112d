"""Bounds on the score of each training row by the optimum without it, from one state.

Without row i, the state's w and b have the objective P - loss_i. Its dual variables without A_i
are feasible too, if the intercept is not free. If it is, dual variables of the other sign are
scaled down by the part f = |A_i| / (sum of their sizes). With mu their mean, weighted by size, T
their part of the dual, and z = x_i - mu (z = x_i if the intercept is not free),

    w(A') = w(A) - A_i z
    gap_i <= gap - loss_i + term_i + f T - A_i w(A).z + 1/2 A_i^2 |z|^2

and the optimum is in a ball around (w + w(A')) / 2, as in region.py. The interval of a free
intercept is proved by the same slopes, each without row i.

Training on a row never makes its own loss larger. So with a loss of one side, no row has a larger
margin without itself than with itself.
"""

import math

import numpy as np
from numpy import ndarray as Array

from widemargin.problem import Intercept, Problem
from widemargin.proofs.region import PARTS, Interval, Region, mixed
from widemargin.risk import MarginRisk
from widemargin.rounding import SUM, gamma, squares
from widemargin.row_sums import Sums, lengths


def leave_one_out_scores(problem: Problem, region: Region) -> Interval:
    """Return bounds on the score of each row by the optimum without that row, (n,)."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        low, high = _Without(problem, region).scores()
    low = np.where(np.isnan(low), -np.inf, low)
    high = np.where(np.isnan(high), np.inf, high)
    risk = problem.risk
    assert isinstance(risk, MarginRisk)
    if risk.loss.is_one_sided:
        whole, positive = region.scores(problem.rows), risk.sign > 0
        high = np.where(positive, np.minimum(high, whole.high), high)
        low = np.where(positive, low, np.maximum(low, whole.low))
    return Interval(low, high)


class _Without:
    """A number for each row, (n,), of the problem without that row."""

    def __init__(self, problem: Problem, region: Region):
        risk, own = problem.risk, region.basis
        assert isinstance(risk, MarginRisk)
        assert own is not None
        self.risk, self.region, self.own, self.rows = risk, region, own, problem.rows.plain
        self.free = problem.intercept is Intercept.FREE
        self.b = own.offset if region.penalized else 0.0  # one more weight, of a constant feature
        self.total = float(own.sums.totals[0]) if region.penalized else 0.0
        v, self.A, self.alpha = own.sums.combined, own.A, risk.unsigned(own.A)
        self.term = risk.row_terms(self.alpha)
        self.loss = risk.losses(risk.residuals(own.scores))
        self.size = np.sqrt(lengths(self.rows) ** 2 + region.penalized)
        self.square = self.size**2
        # Inner products of z_i with w, w(A), itself, and x_i.
        self.with_w = own.scores - (0.0 if region.penalized else own.offset)
        self.with_v = self.rows.scores(v) + self.total
        self.with_z, self.with_x = self.square.copy(), self.square.copy()
        self.with_c = self.rows.scores(region.c) if region.c is not None else np.zeros_like(self.A)
        self.far, self.lost = self.size.copy(), np.zeros_like(self.A)
        if self.free:
            for sign in (1.0, -1.0):
                self._take_over(sign, v)
        self._bound_gaps(problem, v)

    def _take_over(self, sign: float, v: Array) -> None:
        """Let dual variables of the other sign make up for those of this sign."""
        mine, others = self.A * sign > 0.0, self.A * sign < 0.0
        inside = others & (self.alpha > self.risk.lower) & (self.alpha < self.risk.upper)
        most = float(np.abs(self.A[mine]).max(initial=0.0))
        if float(np.abs(self.A[inside]).sum()) > 2.0 * most:
            others = inside  # where the dual is flat
        sizes = np.where(others, np.abs(self.A), 0.0)
        whole = float(sizes.sum()) * (1.0 - SUM)
        part = np.abs(self.A[mine]) / whole if whole > 0.0 else np.full(mine.sum(), np.inf)
        mu = self.rows.combine(sizes) / (whole or 1.0)
        along, length = self.rows.scores(mu)[mine], math.sqrt(squares(mu))
        self.with_w[mine] -= mu @ self.own.coef
        self.with_v[mine] -= mu @ v
        self.with_z[mine] += length * length - 2.0 * along
        self.with_x[mine] -= along
        if self.region.c is not None:
            self.with_c[mine] -= mu @ self.region.c
        self.far[mine] += length * (1.0 + SUM)
        terms = self.term[others]
        taken = part * float(terms.sum()) + SUM * part * float(np.abs(terms).sum())
        self.lost[mine] = np.where(part <= 1.0, taken, np.inf)

    def _bound_gaps(self, problem: Problem, v: Array) -> None:
        """Set `error` of all sums, upper bounds on the objectives, and the radii of the balls."""
        own, A = self.own, self.A
        length_w = math.sqrt(squares(own.coef) + self.b**2)
        length_v = math.sqrt(squares(v) + self.total**2)
        moved, drift = np.abs(A) * self.far, own.sums.drift(problem.intercept)
        self.reach = length_w + length_v + moved  # no centre is longer
        m = 2 * self.rows.longest_row + self.rows.n_features + 512
        self.blur = gamma(m)
        slope = np.abs(self.risk.cut(own.scores).slope)
        steep = np.maximum(np.abs(self.risk.lower), np.abs(self.risk.upper))
        steep = np.where(np.isfinite(steep), steep, 2.0 * slope)
        self.error = self.blur * (
            own.primal
            + 2.0 * (self.loss + np.abs(self.term))
            + steep * (self.size * length_w + abs(own.offset) + np.abs(self.risk.target))
            + moved * self.reach
        )
        self.primal = own.primal - self.loss + self.error
        gap = self.primal - own.dual + self.term + self.lost
        gap += A * (0.5 * A * self.with_z - self.with_v)
        gap += self.error + 2.0 * (own.sums.bound(problem.intercept).rounding + drift * moved)
        apart = squares(own.coef - v) + (self.b - self.total) ** 2
        apart = apart + A * (2.0 * (self.with_w - self.with_v) + A * self.with_z)
        apart -= (8.0 * self.blur * self.reach + 2.0 * drift) * self.reach
        self.radius = np.sqrt(np.maximum(gap - 0.25 * np.maximum(apart, 0.0), 0.0))
        self.radius *= 1.0 + SUM
        self.radius += drift + self.blur * self.reach

    def scores(self) -> Interval:
        """Return bounds on the score of each row."""
        region, A, c = self.region, self.A, self.region.c
        middle = self.rows.scores(region.centre) - 0.5 * A * self.with_x
        square, far = self.square, self.size
        low, high = np.full_like(A, region.low), np.full_like(A, region.high)
        if c is not None:
            length = math.sqrt(squares(c)) * (1.0 + SUM)
            along = self.rows.scores(c)
            middle += 0.5 * A * self.with_c - region.centre @ c
            square, far = square - 2.0 * along + length * length, self.size + length
            square = np.maximum(square, 0.0) + 4.0 * self.blur * far * far
            low, high = self._interval(along, square, far)
        out = self.radius * np.sqrt(square) * (1.0 + SUM)
        out += 4.0 * self.blur * (self.reach * far + np.abs(middle) + out)
        ends = middle + low - out, middle + high + out
        return Interval(
            ends[0] - self.blur * np.abs(ends[0]), ends[1] + self.blur * np.abs(ends[1])
        )

    def _interval(self, along: Array, square: Array, far: Array) -> tuple[Array, Array]:
        """Return bounds on b* + c.w* without each row; x_i - c has the squares `square`."""
        own, c = self.own, self.region.c
        assert c is not None
        low, high = np.full_like(self.A, -np.inf), np.full_like(self.A, np.inf)
        with_own = self.rows.scores(own.sums.combined)
        for A, sums in own.slopes:
            with_plane = self.rows.scores(sums.combined)
            term = self.risk.row_terms(self.risk.unsigned(A))
            for part in PARTS:
                mean = mixed(own.sums, sums, part, c)
                inner = (1.0 - part) * with_own + part * with_plane
                inner -= float(mean.totals[0]) * along + float(mean.combined @ c)
                a = (1.0 - part) * self.A + part * A
                terms = (1.0 - part) * self.term + part * term
                sizes = np.abs(a) * far
                length = math.sqrt(squares(mean.combined)) + mean.pull * self.blur
                bound = mean.bound(Intercept.NONE).value - terms
                bound += a * (inner - 0.5 * a * square)
                bound -= self.blur * (np.abs(terms) + sizes * (length + sizes) + abs(mean.height))
                bound -= self.blur * sizes * (own.sums.pull + sums.pull)
                bound -= 2.0 * mean.drift(Intercept.NONE) * sizes
                ends = self._ends(mean, a, bound)
                low, high = np.maximum(low, -ends[0]), np.minimum(high, ends[1])
        return low, high

    def _ends(self, sums: Sums, a: Array, bound: Array) -> list[Array]:
        """Return bounds on -(b* + c.w*) and on b* + c.w*; infinite, where there is none."""
        unsure = (sums.totals_error + SUM) * sums.size + gamma(4) * np.abs(a)
        unsure = np.where(self.primal < bound, unsure, -unsure)
        ends = []
        for sign in (-1.0, 1.0):
            slope = -sign * (float(sums.totals[0]) - a) + unsure
            end = (self.primal - bound) / slope
            end += gamma(16) * (np.abs(end) + (np.abs(self.primal) + np.abs(bound)) / slope)
            ends.append(np.where((slope > 0.0) & ~np.isnan(end), end, np.inf))
        return ends
