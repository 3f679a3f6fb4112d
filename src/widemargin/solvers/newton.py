"""Newton's method on a smooth hinge: for many rows of few features.

Problem
    min over w, b   1/2 |w|^2 (+ 1/2 b^2 if penalised) + sum_i c_i loss(1 - y_i (w.x_i + b))
                    any of losses.py
Dual
    max over alpha  sum_i (alpha_i - shift_i alpha_i^2 / 2) - 1/2 |X^T A|^2,   A_i = alpha_i y_i
    hinge           0 <= alpha_i <= c_i,  shift_i = 0
    squared hinge   0 <= alpha_i,         shift_i = 1 / (2 c_i)
    smooth hinge    0 <= alpha_i <= c_i,  shift_i = 1 / c_i
    free intercept  sum_i A_i = 0

With z_i = 1 - y_i s_i, the hinge is smoothed: it is quadratic between 0 and delta:

    h(z) = 0 | z^2 / (2 delta) | z - delta / 2      for  z <= 0 | 0 < z < delta | z >= delta

Its slopes alpha_i = c_i clip(z_i / delta, 0, 1) are feasible for the dual of the hinge itself. So
every gradient w - X^T A comes with a lower bound on the original problem. The gap

    primal(w) - dual(alpha) = sum_i (c_i max(0, z_i) - alpha_i z_i) + 1/2 |w - X^T A|^2

has two parts: the smoothing gap, and half the squared gradient. delta shrinks as soon as the
smoothing gap is the larger part. The squared and the smooth hinge need no delta.

Each iteration
    1. computes alpha from z, and X^T A from the rows: gradient, dual value, certificate;
    2. solves  (I + sum_i k_i x_i x_i^T) p = -gradient  over the curved rows, which have
       0 < z_i < delta and curvature k_i: by Cholesky, or by conjugate gradients if there are
       many features;
    3. computes X p, and does a line search along p, which needs only z;
    4. moves b to its optimum, which also needs only z, so that sum_i A_i = 0 holds.

A cold start on many rows first solves the problem for a random sample of them. After that, most
rows stay on one piece of their loss. The problem is solved for the others, the working set, with
a full pass over all rows in between. For squared losses, a subsample replaces the working set.

    newton_run.py        the iterations over all rows, the working set, the full passes
    newton_subsample.py  the subsample for squared losses
    newton_steps.py      Newton steps over any rows
    newton_direction.py  the directions
    newton_proof.py      dual variables with a better bound
    newton_best.py       the best points, and their certificate

When delta shrinks, the direction is computed for the new problem with the rows that were curved in
the old one: z changes in proportion to delta, more than the set of rows between the bounds does.

Problems over the same rows share passes over them (see sharing.py).

Memory besides the rows: ten vectors of n numbers; copies of the sample and of the working set,
usually at most an eighth of all rows; and d^2 numbers for Cholesky.
"""

from dataclasses import dataclass

import numpy as np

from widemargin.data.rows import GramRows, LeverageRows, Rows
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.solvers import newton_subsample
from widemargin.solvers.base import SharesPasses, place_of
from widemargin.solvers.coordinate import CoordinateDescent
from widemargin.solvers.cutting_plane import CuttingPlanes
from widemargin.solvers.newton_best import MarginProblem
from widemargin.solvers.newton_run import (
    NewtonRun,
    can_use_subsample,
    has_many_entries,
    is_rare,
)
from widemargin.solvers.newton_settings import NewtonSettings
from widemargin.solvers.newton_subsample import Subsample
from widemargin.solvers.registry import Place
from widemargin.solvers.sharing import rows_once


@dataclass(frozen=True)
class Newton(SharesPasses):
    """Solver for margin risks over any rows; fast for many rows of few features.

    Parameters
    ----------
    seed : int
        Seed of coordinate descent, which takes over if Newton's method makes no progress.
    settings : NewtonSettings
    """

    seed: int = 0
    settings: NewtonSettings = NewtonSettings()

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            # Overflows are noticed by their results.
            run = _solved(problem, state, monitor, self.settings)
        if not run.best.is_stuck:
            return run.best.state
        # The scales of the features differ too much. Single rows still make progress.
        in_memory = place_of(problem.rows) is Place.MEMORY
        monitor.handed_over_to = name = "acf" if in_memory else "ocas"
        solver = CoordinateDescent(name, self.seed) if in_memory else CuttingPlanes(name)
        return solver.solve(problem, run.best.state, monitor)

    def most_together(self, rows: Rows) -> int:
        """Return how many problems may share passes: each of them needs vectors over the rows."""
        settings, room = self.settings, self.settings.side_by_side_bytes
        if rows.device == "cuda":
            room = settings.side_by_side_bytes_on_gpu
        return min(max(2, room // (settings.bytes_per_row * rows.n_rows)), settings.side_by_side)


@dataclass(frozen=True)
class _Sample:
    """A random sample of the rows, and all rows with rare features.

    `factor` is how many rows each sampled row represents. `fraction` is the size of the sample
    relative to all rows.
    """

    rows: Rows
    index: np.ndarray
    factor: np.ndarray | float
    fraction: float

    @classmethod
    def of(cls, problem: MarginProblem, settings: NewtonSettings) -> "_Sample | None":
        """Return a sample of a problem's rows, in memory; None if it would not pay."""
        use_subsample = can_use_subsample(problem, settings)
        return rows_once(use_subsample, lambda: cls._drawn(problem.rows, settings, use_subsample))

    @classmethod
    def _drawn(cls, rows: Rows, settings: NewtonSettings, use_subsample: bool) -> "_Sample | None":
        sample, one_in = settings.sample, settings.sample.one_in
        if use_subsample:
            one_in = newton_subsample.represented_rows(rows, settings)
        size = rows.n_rows // one_in
        least = sample.fewest_rows_on_gpu if rows.device == "cuda" else sample.fewest_rows
        enough = max(least, sample.rows_per_feature * rows.n_features)
        if not isinstance(rows, GramRows) or size < enough:
            return None
        if use_subsample:
            # The sample may become the subsample, which adds rare rows itself.
            index = np.flatnonzero(newton_subsample.draw(rows.n_rows, one_in, seed=0))
            return cls(rows.take(index), index, float(one_in), index.size / rows.n_rows)
        index = np.random.default_rng(0).choice(rows.n_rows, size, replace=False)
        index.sort()
        factor: np.ndarray | float = rows.n_rows / size
        if isinstance(rows, LeverageRows) and has_many_entries(rows, settings):
            # A sample of few rows has few of the rare ones, or none.
            rare = is_rare(rows, settings.working_set)
            drawn = np.zeros(rows.n_rows, dtype=bool)
            drawn[index] = True
            index = np.flatnonzero(drawn | rare)
            factor = np.where(rare[index], 1.0, factor)
        index = np.asarray(index, like=rows.like)
        return cls(rows.take(index), index, factor, index.size / rows.n_rows)

    def of_problem(self, problem: MarginProblem) -> MarginProblem:
        """Return the problem of the sampled rows, which approximates that of all rows."""
        risk = problem.risk
        part = risk.over(risk.y[self.index], risk.cost[self.index] * self.factor)
        return Problem(self.rows, part, problem.intercept)


def _solved(
    problem: MarginProblem, state: State, monitor: Monitor, settings: NewtonSettings
) -> NewtonRun:
    """Return a run from `state` that has ended."""
    free = problem.intercept is Intercept.FREE
    delta = settings.first_delta * problem.risk.spread(has_offset=free)
    if np.any(state.coef) or np.any(state.dual):
        run = NewtonRun(problem, state, delta, monitor, settings, near=True)
        if not run.certify_start(monitor.tol):
            run.run(monitor.tol)
        return run
    sample = _Sample.of(problem, settings)
    if sample is None:
        run = NewtonRun(problem, state, delta, monitor, settings)
    else:
        part = sample.of_problem(problem)
        first = NewtonRun(part, state, delta, monitor, settings, sample.fraction)
        first.run(max(settings.sample.tol, monitor.tol))
        start = State(first.best.state.coef, first.best.state.offset, state.dual)
        run = NewtonRun(problem, start, first.delta, monitor, settings, near=True)
        if run.uses_subsample:
            run.sampled = Subsample.of_sample(first, sample.index, run)
    run.run(monitor.tol)
    return run
