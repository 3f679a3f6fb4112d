"""All problems of one cost: their starts, and how they are solved."""

import math
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from widemargin.estimators.batch import Batch, Limits, Plan
from widemargin.estimators.problems import ProblemSet
from widemargin.estimators.starts import Trail, carried
from widemargin.problem import Problem, State
from widemargin.risk import MarginRisk
from widemargin.solvers.base import Solver
from widemargin.solvers.registry import SOLVERS
from widemargin.solvers.sharing import together


@dataclass(eq=False)
class Step(Batch):
    """All problems at one cost: how they are solved, and their states."""

    C: float
    sets: list[ProblemSet]
    solvers: list[Solver]  # one for each problem
    plan: Plan
    limits: Limits
    seconds: float | None  # for all problems
    trails: dict[int, Trail]  # of the problems, by index; kept up to date
    keep: DTypeLike  # type in which the coefficients of solved problems are stored

    def __post_init__(self) -> None:
        super().__init__(len(self.solvers), self.plan, self.seconds)
        # Newton's method goes faster to where the whole solution is multiplied.
        self.follows_trails = not SOLVERS[self.plan.solver].shares_passes
        self.former: dict[int, State] = {}  # states at another cost, of problems not begun
        self.former_C = math.nan
        self.states: list = [None] * self.n_problems
        self.monitors: list = [None] * self.n_problems
        self.abandoned = False

    def follow(self, states: Iterable[tuple[int, State]], C: float) -> None:
        """Start the remaining problems from these states, (index, State), which are for C."""
        begun = self.futures
        self.former.update((index, state) for index, state in states if index not in begun)
        self.former_C = C

    def go_ahead(self, pool: ThreadPoolExecutor, index: int, step: "Step") -> Future:
        """Submit a problem that was solved at the step before; return its future."""
        self.follow([(index, step.states[index])], step.C)
        return self.submit(pool, index)

    def by_set(self, of_problems: list) -> list[list]:
        """Return a list over all problems as one list for each set."""
        size = len(self.sets[0])
        return [of_problems[begin : begin + size] for begin in range(0, self.n_problems, size)]

    def _start(self, index: int, problem: Problem) -> State:
        state = self.former.pop(index, None)
        if state is None:
            return State.zero(problem)
        state = state.unpacked()
        state = State(state.coef.astype(np.float64, copy=False), state.offset, state.dual)
        trail = self.trails.pop(index, None)
        if trail is not None and self.former_C < self.C:
            return trail.followed(problem, state, self.former_C, self.C)
        return carried(problem, state, self.C / self.former_C)

    def meet(self, places: range, functions: list[Callable[[], None]]) -> None:
        together(self.sets[0].rows, functions)

    def solve(self, index: int, seconds: float | None) -> None:
        self.monitors[index] = monitor = self.limits.monitor(index, seconds)
        if self.abandoned:
            return
        which, j = divmod(index, len(self.sets[0]))
        problem = self.sets[which][j]  # made here: labels of all problems would take much memory
        former = self.former.get(index)
        state = self.solvers[index].solve(problem, self._start(index, problem), monitor)
        state.coef = state.coef.astype(self.keep, copy=False)
        self.states[index] = state.packed()
        risk = problem.risk
        if former is None or self.former_C >= self.C or not self.follows_trails:
            return
        if isinstance(risk, MarginRisk) and not risk.loss.is_smooth:
            way = former.unpacked().dual, self.former_C, state.dual, risk.cost, self.C
            self.trails[index] = Trail.of(*way)

    def abandon(self) -> None:
        """Stop the problems that are being solved, and do not begin the others."""
        self.abandoned = True
        super().abandon()
        for monitor in self.monitors:
            if monitor is not None:
                monitor.deadline = -math.inf
