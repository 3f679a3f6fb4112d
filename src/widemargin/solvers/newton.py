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
from widemargin.problem import Problem, State
from widemargin.solvers import newton_subsample
from widemargin.solvers.base import SharesPasses, place_of
from widemargin.solvers.coordinate import CoordinateDescent
from widemargin.solvers.cutting_plane import CuttingPlanes
from widemargin.solvers.newton_run import MANY_ENTRIES, NewtonRun, can_use_subsample, is_rare
from widemargin.solvers.newton_subsample import Subsample
from widemargin.solvers.registry import Place
from widemargin.solvers.sharing import rows_once

# How many problems are solved side by side at most, bytes per row that each of them needs, and
# bytes for all of them on the host and on a GPU.
_SIDE_BY_SIDE, _BYTES_PER_ROW = 16, 64
_BYTES, _BYTES_ON_GPU = 1 << 27, 1 << 32

# At w = 0 all rows have z = 1. With this delta all of them are curved.
_FIRST_DELTA = 1.5

# A cold start first solves one row in 16, if these are at least this many rows, and this many per
# feature. The sample is solved to _SAMPLE_TOL: its optimum differs by more from that of all rows.
_SAMPLE_ONE_IN, _SAMPLE_ROWS, _SAMPLE_ROWS_PER_FEATURE = 16, 1000, 20
_SAMPLE_TOL = 3e-3
# A GPU takes about as long for fewer rows as for this many.
_SAMPLE_ROWS_ON_GPU = 100_000


@dataclass(frozen=True)
class Newton(SharesPasses):
    """Solver for margin risks over any rows; fast for many rows of few features.

    Parameters
    ----------
    seed : int
        Seed of coordinate descent, which takes over if Newton's method makes no progress.
    """

    seed: int = 0

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            # Overflows are noticed by their results.
            run = _solved(problem, state, monitor)
        if not run.best.is_stuck:
            return run.best.state
        # The scales of the features differ too much. Single rows still make progress.
        in_memory = place_of(problem.rows) is Place.MEMORY
        monitor.handed_over_to = name = "acf" if in_memory else "ocas"
        solver = CoordinateDescent(name, self.seed) if in_memory else CuttingPlanes(name)
        return solver.solve(problem, run.best.state, monitor)

    def most_together(self, rows: Rows) -> int:
        """Return how many problems may share passes: each of them needs vectors over the rows."""
        room = _BYTES_ON_GPU if rows.device == "cuda" else _BYTES
        return min(max(2, room // (_BYTES_PER_ROW * rows.n_rows)), _SIDE_BY_SIDE)


def _is_warm(state):
    return bool(np.any(state.coef) or np.any(state.dual))


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
    def of(cls, problem):
        """Return a sample of a problem's rows, in memory; None if it would not pay."""
        use_subsample = can_use_subsample(problem)
        return rows_once(use_subsample, lambda: cls._drawn(problem.rows, use_subsample))

    @classmethod
    def _drawn(cls, rows, use_subsample):
        one_in = newton_subsample.represented_rows(rows) if use_subsample else _SAMPLE_ONE_IN
        size = rows.n_rows // one_in
        least = _SAMPLE_ROWS_ON_GPU if rows.device == "cuda" else _SAMPLE_ROWS
        enough = max(least, _SAMPLE_ROWS_PER_FEATURE * rows.n_features)
        if not isinstance(rows, GramRows) or size < enough:
            return None
        if use_subsample:
            # The sample may become the subsample, which adds rare rows itself.
            index = np.flatnonzero(newton_subsample.draw(rows.n_rows, one_in, seed=0))
            return cls(rows.take(index), index, float(one_in), index.size / rows.n_rows)
        index = np.random.default_rng(0).choice(rows.n_rows, size, replace=False)
        index.sort()
        factor = rows.n_rows / size
        few = rows.n_rows * rows.n_features < MANY_ENTRIES
        if not few and isinstance(rows, LeverageRows):
            # A sample of few rows has few of the rare ones, or none.
            rare = is_rare(rows)
            drawn = np.zeros(rows.n_rows, dtype=bool)
            drawn[index] = True
            index = np.flatnonzero(drawn | rare)
            factor = np.where(rare[index], 1.0, factor)
        index = np.asarray(index, like=rows.like)
        return cls(rows.take(index), index, factor, index.size / rows.n_rows)

    def of_problem(self, problem):
        """Return the problem of the sampled rows, which approximates that of all rows."""
        risk = problem.risk
        part = risk.over(risk.y[self.index], risk.cost[self.index] * self.factor)
        return Problem(self.rows, part, problem.intercept)


def _solved(problem: Problem, state: State, monitor: Monitor) -> NewtonRun:
    """Return a run from `state` that has ended."""
    warm = _is_warm(state)
    sample = None if warm else _Sample.of(problem)
    if sample is None:
        run = NewtonRun(problem, state, _FIRST_DELTA, monitor, 1.0, near=warm)
    else:
        part = sample.of_problem(problem)
        first = NewtonRun(part, state, _FIRST_DELTA, monitor, sample.fraction, near=False)
        first.run(max(_SAMPLE_TOL, monitor.tol))
        start = State(first.best.state.coef, first.best.state.offset, state.dual)
        run = NewtonRun(problem, start, first.delta, monitor, 1.0, near=True)
        if run.uses_subsample:
            run.sampled = Subsample.of_sample(first, sample.index, run)
    if not (warm and run.certify_start(monitor.tol)):
        run.run(monitor.tol)
    return run
