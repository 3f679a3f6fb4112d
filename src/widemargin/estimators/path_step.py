"""All problems of one cost: their starts, and how they are solved."""

import math
from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np

from widemargin import threads
from widemargin.estimators.starts import Trail, carried
from widemargin.problem import State
from widemargin.risk import MarginRisk
from widemargin.solvers.registry import SOLVERS


class Step:
    """All problems at one cost: how they are solved, and their states.

    Parameters
    ----------
    C : float
    sets : list of ProblemSet
    solver : str
    solvers : list
        One for each problem.
    monitor : callable(problem=index) -> Monitor
        Its time begins with the call.
    n_threads : int
        How many problems are solved in parallel.
    lent : int
        How many threads each of them gets.
    trails : dict of Trail
        The trails of the problems, by index; kept up to date.
    keep : dtype
        Type in which the coefficients of solved problems are stored.
    """

    def __init__(self, C, sets, solver, solvers, monitor, n_threads, lent, trails, keep):
        self.C, self.sets, self.solver, self.solvers = C, sets, solver, solvers
        self.make_monitor, self.n_threads, self.lent = monitor, n_threads, lent
        self.trails, self.keep = trails, keep
        self.together = SOLVERS[solver].shares_passes
        self.n_problems = sum(map(len, sets))
        self.former: dict[int, State] = {}  # states at another cost, of problems not begun
        self.former_C = math.nan
        self.states: list = [None] * self.n_problems
        self.monitors: list = [None] * self.n_problems
        self.futures: dict[int, Future] = {}
        self.abandoned = False

    def follow(self, states, C):
        """Start the remaining problems from these states, (index, State), which are for C."""
        self.former.update((index, state) for index, state in states if index not in self.futures)
        self.former_C = C

    def problem(self, index):
        """Return one of the problems; together, their labels would take much memory."""
        which, j = divmod(index, len(self.sets[0]))
        return self.sets[which][j]

    def start(self, index):
        """Return the starting point of a problem."""
        state = self.former.pop(index, None)
        problem = self.problem(index)
        if state is None:
            return State.zero(problem)
        state = state.unpacked()
        state = State(state.coef.astype(np.float64, copy=False), state.offset, state.dual)
        trail = self.trails.pop(index, None)
        if trail is not None and self.former_C < self.C and not self.together:
            return trail.followed(problem, state, self.former_C, self.C)
        return carried(problem, state, self.C / self.former_C)

    def solve(self, index):
        """Solve one problem."""
        self.monitors[index] = monitor = self.make_monitor(problem=index)
        if self.abandoned:
            return
        former, problem = self.former.get(index), self.problem(index)
        with threads.lent(self.lent):
            state = self.solvers[index].solve(problem, self.start(index), monitor)
        state.coef = state.coef.astype(self.keep, copy=False)
        self.states[index] = state.packed()
        risk = problem.risk
        goes_straight = isinstance(risk, MarginRisk) and not risk.loss.is_smooth
        if former is not None and self.former_C < self.C and goes_straight:
            way = former.unpacked().dual, self.former_C, state.dual, risk.cost, self.C
            self.trails[index] = Trail.of(*way)

    def solve_together(self):
        """Solve all problems, with shared passes."""
        self.monitors = [self.make_monitor(problem=index) for index in range(self.n_problems)]
        with threads.lent(self.lent):
            self.states = self.solvers[0].solve_together(
                MadeWhenAsked(self.problem, self.n_problems),
                MadeWhenAsked(self.start, self.n_problems),
                self.monitors,
                State.packed,
            )

    def submit(self, pool, index):
        """Submit one problem to a thread pool, unless that was done."""
        if index not in self.futures:
            self.futures[index] = pool.submit(self.solve, index)
        return self.futures[index]

    def abandon(self):
        """Stop the problems that are being solved, and do not begin the others."""
        self.abandoned = True
        for future in self.futures.values():
            future.cancel()
        for monitor in self.monitors:
            if monitor is not None:
                monitor.deadline = -math.inf


class MadeWhenAsked(Sequence):
    """A sequence whose elements are made on access, so that few of them are in memory."""

    def __init__(self, make, length):
        self.make, self.length = make, length

    def __len__(self):
        return self.length

    def __getitem__(self, which):
        if isinstance(which, slice):
            return [self.make(index) for index in range(*which.indices(self.length))]
        return self.make(which)
