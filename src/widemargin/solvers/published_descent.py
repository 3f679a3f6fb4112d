"""Dual coordinate descent to the letter: "dcd-paper" and "acf-paper".

Problem and dual as in coordinate.py, for losses of classes, without an intercept or with a
penalised one, which is a constant feature.

"dcd"  Hsieh et al. 2008, Algorithm 3, as LIBLINEAR has it. A sweep visits each active row once, in
       random order. A row at a bound is shrunk if its gradient is beyond all projected gradients
       of the last sweep. When they differ by at most eps, all rows become active; a run ends if
       they were.
"acf"  Glasmachers & Dogan 2013, Algorithms 2 to 4. A sweep has about n visits, in proportion to
       preferences. At the first sweep within eps, preferences are reset, and one uniform sweep has
       to confirm it. The first sweep is uniform too; its mean gain is the first mean gain.

`tol` is eps, the difference between the largest and the smallest projected gradient. Both have the
papers' steps, to the maximum over one variable, and float64 throughout. A certificate costs two
passes, which are not counted: it is computed after 1, 2, 4, ... sweeps, and at the end.
"""

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin.arrays import for_kernels
from widemargin.certificate import certificate_of, lower_bound, upper_bound
from widemargin.data.rows import SingleRows
from widemargin.kernels import published as kernels
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import MarginRisk
from widemargin.solvers.base import Solver
from widemargin.solvers.settings import PublishedDescentSettings


@dataclass(frozen=True)
class PublishedDescent(Solver):
    """Solver for margin risks over rows in memory."""

    schedule: str = "dcd"  # or "acf"
    seed: int = 0
    settings: PublishedDescentSettings = PublishedDescentSettings()

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the last point, certified."""
        SingleRows.require(problem.rows, f"solver '{self.schedule}-paper'")
        check_published(problem, f"{self.schedule}-paper")
        return _RUNS[self.schedule](problem, state, monitor, self).run()


def check_published(problem: Problem, solver: str) -> None:
    """Raise ValueError if papers on dual coordinate descent have no such problem."""
    if problem.intercept is Intercept.FREE:
        raise ValueError(
            f"solver={solver!r} has no free intercept, since its paper has none: train without "
            "an intercept, or with a penalized one, which is a constant feature"
        )
    loss = problem.risk.loss
    if loss.eps != 0.0 or not loss.is_one_sided:
        raise ValueError(f"solver={solver!r} is for losses of classes, not for {loss.name!r}")


class Visits:
    """What steps on single rows change, and the constants of rows: see kernels/published.py."""

    def __init__(self, problem: Problem, alpha: np.ndarray, w: np.ndarray):
        risk = problem.risk
        self.y, loss = risk.y, risk.loss
        with np.errstate(divide="ignore", invalid="ignore"):  # rows of cost zero are not visited
            self.upper = np.where(risk.cost > 0.0, loss.high * risk.cost, 0.0)
            self.shift = np.where(risk.cost > 0.0, loss.bend / risk.cost, 0.0)
        self.alpha, self.w = alpha, w
        k = 1.0 if problem.intercept is Intercept.PENALIZED else 0.0
        self.offset = np.array([0.0, float(alpha @ risk.y), k])

    def part(self, index: np.ndarray) -> "Visits":
        """Return those of some rows; w and the offset are shared, alpha is a copy."""
        part = copy(self)
        part.y, part.alpha = self.y[index], self.alpha[index]
        part.upper, part.shift = self.upper[index], self.shift[index]
        return part

    @property
    def intercept(self) -> float:
        return float(self.offset[1] * self.offset[2])


class _Run(ABC):
    """One run: sweeps until a rule holds."""

    def __init__(
        self,
        problem: Problem[SingleRows, MarginRisk],
        state: State,
        monitor: Monitor,
        solver: PublishedDescent,
    ):
        self.problem, self.monitor, self.settings = problem, monitor, solver.settings
        rows, risk = problem.rows, problem.risk
        self.random = np.random.default_rng(solver.seed)
        self.rows = np.flatnonzero(risk.cost > 0.0).astype(np.uint32)
        alpha = risk.feasible(state.dual * risk.y) * risk.y
        self.visits = Visits(problem, alpha, rows.combine(alpha * risk.y))
        self.norms = for_kernels(rows.squared_norms())
        self.shrunk = np.zeros(rows.n_rows, dtype=bool)
        self.extremes = np.zeros(2)
        self.sweeps = 0

    @abstractmethod
    def sweep(self) -> bool:
        """Make one sweep; return whether the paper's rule says stop."""

    def run(self) -> State:
        state, next_check = self._check(False), 1
        while self.monitor.status == "running":
            done = self.sweep()
            self.sweeps += 1
            if done or self.monitor.must_stop() or self.sweeps >= next_check:
                state = self._check(done)
                next_check = 2 * self.sweeps
        return state

    def visit(
        self, order: np.ndarray, too_large: float = np.inf, too_small: float = -np.inf
    ) -> np.ndarray:
        """Visit rows in this order; return the gain of each visit."""
        arrays, visits = self.problem.rows.arrays, self.visits
        gains = np.zeros(order.size)
        self.extremes[:] = -np.inf, np.inf
        with self.monitor.phase("passes"):
            for begin in range(0, order.size, self.problem.rows.rows_per_call):
                end = min(begin + self.problem.rows.rows_per_call, order.size)
                kernels.sweep(
                    arrays, self.norms, visits.y, visits.upper, visits.shift, visits.alpha,
                    visits.w, visits.offset, order, begin, end, too_large, too_small, self.shrunk,
                    gains, self.extremes,
                )  # fmt: skip
                self.monitor.iteration += (end - begin) / max(1, self.rows.size)
                if self.monitor.must_stop():
                    break
        return gains

    def within_eps(self) -> bool:
        """Return whether the last visits' projected gradients differ by at most eps."""
        return bool(
            self.extremes[kernels.LARGEST] - self.extremes[kernels.SMALLEST] <= self.monitor.tol
        )

    def _check(self, rule: bool) -> State:
        problem, visits = self.problem, self.visits
        with self.monitor.phase("checks"):
            coef, b = visits.w.copy(), visits.intercept
            primal = upper_bound(problem, coef, b, tol=self.monitor.tol)
            dual, _ = lower_bound(problem, visits.alpha, self.monitor.tol)
            state = State(coef, b, visits.alpha.copy())
        # If time ran out within a sweep, its rule means nothing.
        rule = rule and self.monitor.status == "running"
        self.monitor.check(certificate_of(primal, dual), state, self.rows.size, rule)
        return state


class _Uniform(_Run):
    """Algorithm 3 of Hsieh et al.: shrinking."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.active, self.too_large, self.too_small = self.rows, np.inf, -np.inf

    def sweep(self) -> bool:
        order = self.random.permutation(self.active)
        self.visit(order, self.too_large, self.too_small)
        self.active = self.active[~self.shrunk[self.active]]
        if self.within_eps():
            if self.active.size == self.rows.size:
                return True
            self.active, self.too_large, self.too_small = self.rows, np.inf, -np.inf
            self.shrunk[:] = False
            return False
        largest, smallest = self.extremes
        self.too_large = largest if largest > 0.0 else np.inf
        self.too_small = smallest if smallest < 0.0 else -np.inf
        return False


class _Adaptive(_Run):
    """Algorithms 2 to 4 of Glasmachers & Dogan: preferences."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.preference, self.credit = np.ones(self.shrunk.size), np.zeros(self.shrunk.size)
        self.order = np.empty(2 * self.rows.size, dtype=np.uint32)
        self.mean_gain = 0.0
        self.is_uniform = True  # all preferences are 1

    def sweep(self) -> bool:
        count = kernels.schedule(self.rows, self.preference, self.credit, self.order)
        order = self.random.permutation(self.order[:count])
        gains = self.visit(order)
        if self.mean_gain == 0.0:
            self.mean_gain = float(gains.mean()) if count else 0.0
        else:
            s = self.settings
            bounds = s.lowest, s.highest, s.rate, 1.0 / self.rows.size
            self.mean_gain = kernels.prefer(order, gains, *bounds, self.mean_gain, self.preference)
        was_uniform, self.is_uniform = self.is_uniform, False
        if not self.within_eps():
            return False
        if was_uniform:
            return True
        self.preference[:], self.is_uniform = 1.0, True
        return False


_RUNS = {"dcd": _Uniform, "acf": _Adaptive}
