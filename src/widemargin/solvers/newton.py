"""Newton's method on a smooth hinge: for many rows of few features.

Problem
    min over w, b   1/2 |w|^2 (+ 1/2 b^2 if penalised) + sum_i c_i loss(y_i (w.x_i + b))
                    hinge, squared hinge
Dual
    max over alpha  sum_i (alpha_i - shift_i alpha_i^2 / 2) - 1/2 |X^T A|^2,   A_i = alpha_i y_i
    hinge           0 <= alpha_i <= c_i,  shift_i = 0
    squared hinge   0 <= alpha_i,         shift_i = 1 / (2 c_i)
    free intercept  sum_i A_i = 0

With z_i = 1 - y_i s_i, the hinge is rounded off between 0 and delta:

    h(z) = 0 | z^2 / (2 delta) | z - delta / 2      for  z <= 0 | 0 < z < delta | z >= delta

Its slopes alpha_i = c_i clip(z_i / delta, 0, 1) are feasible in the dual of the hinge itself, so
every gradient, w - X^T A, comes with a lower bound on the true problem, and

    primal(w) - dual(alpha) = sum_i (c_i max(0, z_i) - alpha_i z_i) + 1/2 |w - X^T A|^2

says how much of the gap is due to rounding off, and how much to a gradient that is not zero.
delta shrinks as soon as the former is what is left. The squared hinge is smooth as it is.

Each iteration
    1. takes alpha from z, and X^T A from the rows: gradient, dual value, certificate;
    2. solves  (I + sum_i k_i x_i x_i^T) p = -gradient  over the rows with a curvature k_i, for
       which 0 < z_i < delta: by Cholesky, or by conjugate gradients where features are many;
    3. takes X p from the rows, and goes as far along p as is best, which z alone tells;
    4. moves b to where it is best, which z alone tells too, so that sum_i A_i = 0 holds.

A cold start on many rows solves a random sample of them first. From there on, most rows stay on
one piece of their loss, and the problem is solved for the others, with a look at all rows now and
then; or, where losses are squared, for some rows that stand for all (newton_run.py and
newton_subsample.py; newton_steps.py has the iterations, newton_direction.py the directions, and
newton_proof.py dual variables that prove more).

When delta shrinks, the direction is that of the new problem with the rows that were curved in the
old one: what changes is z, in proportion to delta, more than which rows are between the bounds.

Problems over the same rows are solved in lock-step and share passes over them (see lockstep.py).

Memory beyond the rows: ten vectors of n numbers, copies of the sample or of the rows in doubt, an
eighth of all or less as a rule, and d^2 numbers for Cholesky.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from widemargin.data.rows import GramRows, LeverageRows, Rows
from widemargin.monitor import Monitor
from widemargin.problem import Problem, State
from widemargin.solvers import lockstep, newton_subsample
from widemargin.solvers.base import SharesPasses, place_of
from widemargin.solvers.coordinate import CoordinateDescent
from widemargin.solvers.cutting_plane import CuttingPlanes
from widemargin.solvers.lockstep import Requests
from widemargin.solvers.newton_run import MANY_ENTRIES, NewtonRun, can_use_subsample, is_rare
from widemargin.solvers.newton_subsample import Subsample
from widemargin.solvers.registry import Place

# Problems solved side by side at most; and bytes that they may need, some 64 for every row, on the
# host and on a GPU.
_SIDE_BY_SIDE, _BYTES_PER_ROW = 16, 64
_BYTES, _BYTES_ON_GPU = 1 << 27, 1 << 32

# At w = 0 all rows have z = 1, and all are curved at first.
_FIRST_DELTA = 1.5

# A cold start solves this share of the rows first, if they are this many: as well as makes sense,
# beside what tells the sample from the whole.
_SAMPLE_ONE_IN, _SAMPLE_ROWS, _SAMPLE_ROWS_PER_FEATURE = 16, 1000, 20
_SAMPLE_TOL = 3e-3
# A GPU takes about as long for fewer rows as for these.
_SAMPLE_ROWS_ON_GPU = 100_000


@dataclass(frozen=True)
class Newton(SharesPasses):
    """Solver for margin risks over any rows; fast where rows are many and features few.

    Parameters
    ----------
    seed : int
        Of coordinate descent, to which problems are handed over that it is stuck with.
    """

    seed: int = 0

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified."""
        return self.solve_together([problem], [state], [monitor])[0]

    def solve_together(
        self,
        problems: Sequence[Problem],
        states: Sequence[State],
        monitors: list[Monitor],
        keep: Callable[[State], State] = lambda state: state,
    ) -> list[State]:
        """Solve problems over the same rows, sharing passes over them; return as `solve`."""
        solved: list[State] = []
        rows = problems[0].rows
        room = _BYTES_ON_GPU if rows.device == "cuda" else _BYTES
        count = min(max(2, room // (_BYTES_PER_ROW * rows.n_rows)), _SIDE_BY_SIDE)
        for begin in range(0, len(problems), count):
            some = slice(begin, begin + count)
            found = _side_by_side(problems[some], states[some], monitors[some], self.seed)
            solved += map(keep, found)
        return solved


def _side_by_side(problems, states, monitors, seed):
    sample = None if all(map(_is_warm, states)) else _Sample.of(problems)
    return lockstep.run(
        [_solve(*of_one, sample, seed) for of_one in zip(problems, states, monitors)], monitors
    )


def _is_warm(state):
    return bool(np.any(state.coef) or np.any(state.dual))


@dataclass(frozen=True)
class _Sample:
    """Some rows, drawn at random, and all that have features which few rows have.

    `factor` is how many rows each of them stands for.
    """

    rows: Rows
    index: np.ndarray
    factor: np.ndarray | float
    fraction: float

    @classmethod
    def of(cls, problems):
        """Return a sample of the rows of some problems, in memory; None where it would not pay."""
        rows = problems[0].rows
        use_subsample = all(map(can_use_subsample, problems))
        one_in = newton_subsample.represented_rows(rows) if use_subsample else _SAMPLE_ONE_IN
        size = rows.n_rows // one_in
        least = _SAMPLE_ROWS_ON_GPU if rows.device == "cuda" else _SAMPLE_ROWS
        enough = max(least, _SAMPLE_ROWS_PER_FEATURE * rows.n_features)
        if not isinstance(rows, GramRows) or size < enough:
            return None
        if use_subsample:
            # Subsample, which they may become, see to rare rows.
            index = np.flatnonzero(newton_subsample.draw(rows.n_rows, one_in, seed=0))
            return cls(rows.take(index), index, float(one_in), index.size / rows.n_rows)
        index = np.random.default_rng(0).choice(rows.n_rows, size, replace=False)
        index.sort()
        factor = rows.n_rows / size
        few = rows.n_rows * rows.n_features < MANY_ENTRIES
        if not few and isinstance(rows, LeverageRows):
            # Of few rows a sample has fewer, or none.
            rare = is_rare(rows)
            drawn = np.zeros(rows.n_rows, dtype=bool)
            drawn[index] = True
            index = np.flatnonzero(drawn | rare)
            factor = np.where(rare[index], 1.0, factor)
        index = np.asarray(index, like=rows.like)
        return cls(rows.take(index), index, factor, index.size / rows.n_rows)

    def of_problem(self, problem):
        """Return the problem that the sampled rows make in place of all."""
        risk = problem.risk
        part = risk.over(risk.y[self.index], risk.cost[self.index] * self.factor)
        return Problem(self.rows, part, problem.intercept)


# --- one problem ----------------------------------------------------------------------------


def _solve(problem, state, monitor, sample, seed) -> Requests:
    """Improve `state`: the algorithm of one problem."""
    delta = _FIRST_DELTA
    warm = _is_warm(state)
    if not warm and sample is not None:
        first = NewtonRun(
            sample.of_problem(problem), state, delta, monitor, sample.fraction, near=False
        )
        yield from first.run(max(_SAMPLE_TOL, monitor.tol))
        start = State(first.best.state.coef, first.best.state.offset, state.dual)
        delta = first.delta
    else:
        start = state
    near = warm or start is not state
    run = NewtonRun(problem, start, delta, monitor, 1.0, near)
    if start is not state and run.uses_subsample:
        run.sampled = Subsample.of_sample(first, sample.index, run)
    done = False
    if warm:
        done = yield from run.certify_start(monitor.tol)
    if not done:
        yield from run.run(monitor.tol)
    if run.best.is_stuck:
        # Features of very different scales: one by one, rows still get there.
        in_memory = place_of(problem.rows) is Place.MEMORY
        monitor.handed_over_to = name = "acf" if in_memory else "ocas"
        solver = CoordinateDescent(name, seed) if in_memory else CuttingPlanes(name)
        return solver.solve(problem, run.best.state, monitor)
    return run.best.state
