"""Newton's method on risks with curvatures everywhere, such as the logistic one.

Problem
    min over w, b   F = 1/2 |w|^2 (+ 1/2 |b|^2 if penalised) + r(X w + b)      any `SmoothRisk`
Dual
    max over A      -r*(-A) - 1/2 |X^T A|^2 (- 1/2 |sum_i A_i|^2 if penalised)
                    sum_i A_i = 0 with a free intercept

Each iteration
    1. computes A, minus the slopes of r, from the scores, and X^T A from the rows. A is feasible
       for the dual, and its gap is half the squared gradient, |w - X^T A|^2 / 2. So the gap falls
       with the fourth power of the error of w where Newton's method converges quadratically;
    2. solves  (I + X^T D X) p = -gradient,  where D are the curvatures of r, with b eliminated:
       by Cholesky, or by conjugate gradients if there are many features;
    3. computes X p, and searches along p, which needs only the scores;
    4. moves a free b to its optimum, which also needs only the scores.

Conjugate gradients end when the direction is accurate enough for the gap allowed, or by a fraction
of the gradient that falls with it, so that convergence stays faster than linear.

Memory besides the rows: ten vectors of scores, and d^2 numbers for Cholesky.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy import ndarray as Array

from widemargin.certificate import (
    Certificate,
    certificate_of,
    feasible_near,
    proved_by,
    upper_bound,
)
from widemargin.data.rows import GramRows, Rows
from widemargin.monitor import Monitor, raise_out_of_range
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Curvature, Line, SmoothRisk
from widemargin.solvers.base import SharesPasses
from widemargin.solvers.line_search import Penalty
from widemargin.solvers.sharing import product

# Values are equal, and so are steps, if they differ by this small a fraction. Slopes tell more: in
# steep directions what is left to gain is rounding, and yet much for the dual value.
_ROUNDING = 1e-14
# A gain is small if it is less than this fraction of the objective.
_LITTLE = 1e-10
# The largest diagonal entry of a Hessian that is scaled.
_LARGEST = 1e290


@dataclass(frozen=True)
class SmoothNewtonSettings:
    """The settings of Newton's method on smooth risks.

    Attributes
    ----------
    cholesky_features, few_steps : int
        Up to this many features the Hessian is computed and factorised; but not before it takes
        less time than so many steps of conjugate gradients, or than the last direction did.
    multiplications_per_entry : float
        An entry takes as long in a step as so many products of two features take in a Hessian.
    least_forcing, most_forcing : float
        Conjugate gradients end where the residual, in the norm of the preconditioner, is this
        fraction of the gradient, or its root, if that is in between.
    cg_steps : int
        At most this many steps of conjugate gradients: then a new point tells more.
    slope_left : float
        The slope left by a line search, as a fraction of the first slope.
    wanted : float
        A certificate is made where the gap is this fraction of the gap allowed.
    side_by_side, bytes_per_row, side_by_side_bytes : int
        How many problems share passes at most; and what each of them needs per row, and what all
        of them may take.
    """

    cholesky_features: int = 1000
    few_steps: int = 5
    multiplications_per_entry: float = 2.5
    least_forcing: float = 1e-4
    most_forcing: float = 0.3
    cg_steps: int = 250
    slope_left: float = 0.1
    wanted: float = 0.9
    side_by_side: int = 16
    bytes_per_row: int = 80
    side_by_side_bytes: int = 1 << 27


@dataclass(frozen=True)
class SmoothNewton(SharesPasses):
    """Solver for smooth risks over rows in memory, on disk, or known by products alone."""

    seed: int = 0  # nothing is drawn
    settings: SmoothNewtonSettings = SmoothNewtonSettings()

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            return _Run(problem, state, monitor, self.settings).run()

    def most_together(self, rows: Rows) -> int:
        """Return how many problems may share passes: each of them needs vectors over the rows."""
        room = self.settings.side_by_side_bytes
        most = room // (self.settings.bytes_per_row * max(1, rows.n_rows))
        return min(max(2, most), self.settings.side_by_side)


class _Run:
    """One run: the point, its scores, and the best dual variables."""

    def __init__(
        self, problem: Problem, state: State, monitor: Monitor, settings: SmoothNewtonSettings
    ):
        self.problem, self.monitor, self.settings = problem, monitor, settings
        assert isinstance(problem.risk, SmoothRisk)
        self.rows, self.risk = problem.rows, problem.risk
        self.free = problem.intercept is Intercept.FREE
        #: the penalty's curvature in b; infinite if there is none
        self.stiffness = {Intercept.FREE: 0.0, Intercept.PENALIZED: 1.0}.get(
            problem.intercept, math.inf
        )
        self.coef = _without_common(np.array(state.coef, dtype=np.float64))
        self.offset: Any = state.offset if self.stiffness < math.inf else 0.0 * state.offset
        self.scores = self._scores(self.coef)
        self.are_fresh = True  # whether scores come from the rows, not from sums
        self.alpha, self.combined = state.dual, np.zeros_like(self.coef)
        self.best_dual, self.wanted = -math.inf, settings.wanted
        self.penalty, self.value = 0.0, math.inf
        self.last_steps = 0  # of conjugate gradients, for the last direction

    def _scores(self, coef: Array) -> Array:
        if not coef.any():
            return np.zeros((self.rows.n_rows, *self.problem.risk.outputs), order="F")
        return product(self.rows, "scores", coef, self.monitor)

    def run(self) -> State:
        monitor = self.monitor
        if self.free:
            self._move_offset()
        self.value = self._objective()
        while True:
            curvature, gradient = self._look()
            self._check()
            if monitor.status != "running":
                return State(self.coef, self.offset, self.alpha)
            way = self._direction(gradient, curvature)
            if not monitor.must_stop():
                self._follow(*way)
            monitor.iteration += 1

    # --- the point and its gap --------------------------------------------------------------

    def _objective(self) -> float:
        penalty = 0.5 * float(np.vdot(self.coef, self.coef))
        if self.stiffness == 1.0:
            penalty += 0.5 * float(np.square(self.offset).sum())
        self.penalty = penalty
        return penalty + self.risk.value(self.scores + self.offset)

    def _look(self) -> tuple[Curvature, tuple[Array, Any]]:
        """Return curvature and gradient; keep the dual variables if their value is the best."""
        with self.monitor.phase("slopes"):
            A, curvature = self.risk.slopes(self.scores, self.offset)
            alpha = self.risk.unsigned(A)
            A = feasible_near(self.problem, alpha)  # with a sum of exactly zero
        combined = product(self.rows, "combine", A, self.monitor)
        total = A.sum(axis=0)
        gradient = self.coef - combined
        of_offset: Any = 0.0
        if self.stiffness < math.inf:
            of_offset = self.stiffness * self.offset - (0.0 * total if self.free else total)
        gap = 0.5 * float(np.vdot(gradient, gradient)) + 0.5 * float(np.square(of_offset).sum())
        if not math.isfinite(gap):  # no direction has finite products either
            raise_out_of_range(self.value, self.value - gap)
        if not self.value - gap <= self.best_dual:
            self.best_dual = self.value - gap
            self.alpha, self.combined = self.risk.unsigned(A), combined
        return curvature, (gradient, of_offset)

    def _check(self) -> None:
        """Tell the monitor of the gap: of a certificate, if the gap seems small enough."""
        monitor, state = self.monitor, State(self.coef, self.offset, self.alpha)
        estimate = Certificate(self.value, max(0.0, self.best_dual))
        stops = not estimate.relative_gap > self.wanted * monitor.tol or monitor.must_stop()
        certificate = self._certified() if stops else estimate
        monitor.check(certificate, state, self.rows.n_rows)
        if not stops and monitor.status != "running":  # a callback asked to stop
            monitor.settle(self._certified())
        elif stops:
            self.wanted *= 0.1

    def _certified(self) -> Certificate:
        problem, tol = self.problem, self.monitor.tol
        with self.monitor.phase("certificate"):
            if not self.are_fresh:
                self.scores, self.are_fresh = self._scores(self.coef), True
            primal = upper_bound(problem, self.coef, self.offset, self.scores, tol)
            A = feasible_near(problem, self.alpha)
            dual = proved_by(problem, A, self.combined, tol)
        return certificate_of(primal, dual)

    # --- a step -----------------------------------------------------------------------------

    def _follow(self, ahead: Array, shift: Any, change: Array | None) -> None:
        """Move along a direction, to where the objective is nearly lowest."""
        change = self._scores(ahead) if change is None else change
        with self.monitor.phase("line search"):
            line = self.risk.line(self.scores + self.offset, change + shift)
            a, b = float(np.vdot(ahead, ahead)), float(np.vdot(self.coef, ahead))
            if self.stiffness == 1.0:
                a += float(np.square(shift).sum())
                b += float(np.sum(self.offset * shift))
            penalty = Penalty(a, b, self.penalty)
            step, value = lowest(penalty, line, self.value, self.settings.slope_left)
            gain = self.value - value
            self.coef = self.coef + step * ahead
            self.offset = self.offset + step * shift
            self.scores = self.scores + step * change
            self.value, self.are_fresh = value, False
            self.penalty = penalty.at(step)
        if not gain > _LITTLE * abs(value) or value < 0.0:
            # What is left to gain may be hidden by the rounding of scores that were summed up; and
            # a value that fell by many orders of magnitude may be nothing but rounding.
            self.scores, self.are_fresh = self._scores(self.coef), True
        if self.free:
            self._move_offset()
        if self.free or self.are_fresh:
            self.value = self._objective()

    def _move_offset(self) -> None:
        with self.monitor.phase("intercept"):
            self.offset = self.offset + self.risk.best_offset(self.scores + self.offset)
            if self.coef.ndim > 1:  # what is added to the scores of all classes has no effect
                self.offset = self.offset - self.offset.mean()

    # --- directions -------------------------------------------------------------------------

    def _direction(
        self, gradient: tuple[Array, Any], curvature: Curvature
    ) -> tuple[Array, Any, Array | None]:
        """Return minus the inverse of the Hessian times the gradient, in w and in b.

        And X times its part in w, if it is known.
        """
        rows = self.rows
        if isinstance(rows, GramRows) and self._hessian_pays(rows):
            with self.monitor.phase("direction"):
                found = self._by_cholesky(rows, *gradient, curvature.diagonal)
            if found is not None:
                return *found, None
        return self._by_conjugate_gradients(*gradient, curvature)

    def _hessian_pays(self, rows: GramRows) -> bool:
        """Return whether a Hessian takes less time than conjugate gradients would."""
        settings, d = self.settings, rows.n_features
        if d > settings.cholesky_features or self.coef.ndim > 1:
            return False
        per_row = max(1.0, rows.n_entries / max(1, rows.n_rows))
        # Products of dense blocks are vectorised; those of sparse rows are not.
        products = min(d * d / 16.0, per_row * per_row / 2.0)
        steps = products / (settings.multiplications_per_entry * per_row)
        return steps <= max(settings.few_steps, self.last_steps)

    def _by_cholesky(
        self, rows: GramRows, gradient: Array, of_offset: float, weight: Array
    ) -> tuple[Array, float] | None:
        index = np.flatnonzero(weight)
        total = float(weight.sum())
        if index.size == 0 or not total < math.inf:
            return None if index.size else (-gradient, 0.0)
        center = np.zeros_like(gradient)
        if self.stiffness < math.inf:
            # About their mean, rows have the moments that are left when b is eliminated.
            center = product(rows, "combine", weight / total, self.monitor)
        hessian, _ = self._moments(rows, index, weight[index], center)
        at_mean, stiff = np.zeros_like(gradient), total + self.stiffness
        if self.stiffness < math.inf:
            at_mean = total * center
            gradient = gradient - at_mean * (of_offset / stiff)
            if self.stiffness > 0.0:
                hessian += (total * self.stiffness / stiff) * np.outer(center, center)
        diagonal = hessian.ravel(order="K")[:: gradient.size + 1]
        diagonal += 1.0
        if not np.all(diagonal <= _LARGEST):
            return None
        scale = 1.0 / np.sqrt(diagonal)
        hessian *= scale
        hessian *= scale[:, None]
        factor, failed = scipy.linalg.lapack.dpotrf(hessian, lower=1, overwrite_a=1)
        if failed:
            return None
        ahead = -scale * scipy.linalg.lapack.dpotrs(factor, scale * gradient, lower=1)[0]
        shift = 0.0
        if self.stiffness < math.inf:
            shift = -(of_offset + float(at_mean @ ahead)) / stiff
        return (ahead, shift) if np.isfinite(ahead).all() else None

    def _moments(
        self, rows: GramRows, index: Array, weight: Array, center: Array
    ) -> tuple[Array, Array]:
        """Return `rows.moments`, or parts of it if the monitor says stop."""
        at_once = max(256, rows.multiplications_per_call // max(1, rows.n_features**2))
        second, first = rows.moments(index[:at_once], weight[:at_once], center)
        for begin in range(at_once, index.size, at_once):
            if self.monitor.must_stop():
                break
            some = slice(begin, begin + at_once)
            more = rows.moments(index[some], weight[some], center)
            second += more[0]
            first += more[1]
        return second, first

    def _by_conjugate_gradients(
        self, gradient: Array, of_offset: Any, curvature: Curvature
    ) -> tuple[Array, Any, Array]:
        """Return the direction, and X times its part in w."""
        rows, monitor = self.rows, self.monitor
        has_offset, inverse = self.stiffness < math.inf, np.zeros((1, 1))
        if has_offset:
            total = curvature.total
            total = total + self.stiffness * np.eye(len(total))
            inverse = np.linalg.pinv(total, hermitian=True)

        def best_shift(of_offset: Any) -> Any:
            """Return the shift that takes away a gradient in b."""
            shift = -(inverse @ np.atleast_1d(of_offset))
            return shift if self.coef.ndim > 1 else float(shift[0])

        change: Array = np.zeros_like(self.scores)
        if np.any(of_offset):
            gradient = gradient + product(
                rows, "combine", curvature.times(change + best_shift(of_offset)), monitor
            )
        scaling = self._scaling(curvature)
        ahead, residual = np.zeros_like(gradient), -gradient
        scaled = _without_common(residual / scaling)
        way, size = scaled, float(np.vdot(residual, scaled))
        enough = self._forcing() ** 2 * size
        for n_steps in range(self.settings.cg_steps):
            self.last_steps = n_steps
            if not size > enough or monitor.must_stop():
                break
            along = product(rows, "scores", way, monitor)
            bent = curvature.times(along)
            if has_offset:
                bent = curvature.times(along + best_shift(bent.sum(axis=0)))
            image = product(rows, "combine", bent, monitor) + way
            step = size / float(np.vdot(way, image))
            ahead += step * way
            change += step * along
            residual = residual - step * image
            scaled = _without_common(residual / scaling)
            before, size = size, float(np.vdot(residual, scaled))
            way = scaled + (size / before) * way
            monitor.iteration += 1
        shift = best_shift(of_offset + curvature.times(change).sum(axis=0)) if has_offset else 0.0
        return ahead, shift, change

    def _scaling(self, curvature: Curvature) -> Array:
        """Return the diagonal of the Hessian, shaped as the coefficients; or ones."""
        rows, scaling = self.rows, np.ones_like(self.coef)
        if not isinstance(rows, GramRows):
            return scaling
        diagonal = curvature.diagonal
        first = np.zeros_like(self.coef)
        if self.stiffness < math.inf:
            first = product(rows, "combine", diagonal, self.monitor)
        stiff = diagonal.sum(axis=0) + min(self.stiffness, 1.0)
        columns = diagonal.reshape(rows.n_rows, -1).T
        squares = [rows.combine_squares(np.ascontiguousarray(column)) for column in columns]
        sums = np.stack(squares, axis=-1).reshape(self.coef.shape)
        return np.maximum(1.0, 1.0 + sums - first**2 / np.maximum(stiff, 1e-300))

    def _forcing(self) -> float:
        """Return how accurate a direction shall be, as a fraction of the gradient."""
        settings = self.settings
        gap = max(self.value - self.best_dual, 1e-300)
        # Accurate enough to bring the gap below the gap allowed; or else by a fraction that falls.
        enough = math.sqrt(0.1 * self.monitor.tol * abs(self.value) / gap)
        falling = (gap / max(abs(self.value), 1e-300)) ** 0.25
        forcing = max(enough, min(falling, settings.most_forcing))
        return min(max(forcing, settings.least_forcing), settings.most_forcing)


def _without_common(coef: Array) -> Array:
    """Return weights of classes without what these have in common.

    That has no effect on the losses, and costs penalty; in conjugate gradients it would be a part
    that the preconditioner does not fit.
    """
    return coef if coef.ndim == 1 else coef - coef.mean(axis=1, keepdims=True)


def lowest(penalty: Penalty, line: Line, value: float, slope_left: float) -> tuple[float, float]:
    """Return a step where  penalty + line  is nearly lowest, and the sum there; 0.0 for no gain.

    `value` is the sum at 0. The slope there is `slope_left` of the first one. The method is
    Newton's, on the slope, which rises with the step, from 1 and with a bracket around the root.
    """
    low, high, step, first = 0.0, math.inf, 1.0, math.nan
    best, lowest_value = 0.0, value
    for _ in range(100):
        sums = line.evaluate([step])
        slope = float(sums.slopes[0]) + penalty.a * step + penalty.b
        curvature = float(sums.curvatures[0]) + penalty.a
        here = float(sums.values[0]) + penalty.at(step)
        if here < lowest_value:
            best, lowest_value = step, here
        if math.isnan(first):
            first = float(line.evaluate([0.0]).slopes[0]) + penalty.b
            if not first < 0.0:
                break
        if abs(slope) <= slope_left * abs(first) and here <= value + _ROUNDING * abs(value):
            return step, here
        if slope < 0.0:
            low = step
        else:
            high = step
        ahead = step - slope / curvature if curvature > 0.0 else math.nan
        if not low < ahead < high:
            ahead = 4.0 * step if high == math.inf else 0.5 * (low + high)
        if ahead in (low, high) or high - low <= _ROUNDING * high:
            break
        step = ahead
    return best, lowest_value
