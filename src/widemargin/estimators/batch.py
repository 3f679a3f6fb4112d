"""Solves several problems over the same rows, in the threads and the time that there are.

Fits, paths of C, folds, calibration and clusters differ in what they do before and after a problem
is solved. How threads and time are divided among the problems is decided here.
"""

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, starmap
from typing import Any

from widemargin import threads
from widemargin.data.rows import Rows, SingleRows
from widemargin.monitor import Interruption, Monitor, Record, clock
from widemargin.problem import Problem, State
from widemargin.solvers import auto
from widemargin.solvers.base import SharesPasses
from widemargin.solvers.registry import SOLVERS

# How many submitted problems there should be per thread; one of them waits.
_UNDER_WAY = 2
# Over rows of fewer entries, passes are not shared: waiting for the other problems takes longer.
_ENTRIES_TO_SHARE = 1 << 18


@dataclass
class Limits:
    """The limits of a training of one or several problems, which begins now.

    `times_read` is how often all rows had been read from disk when it began.
    """

    tol: float
    max_iter: int
    max_time: float | None
    rows: Rows | None = None
    interruption: Interruption = field(default_factory=Interruption)
    started: float = field(default_factory=time.perf_counter)
    clock_started: float = field(default_factory=clock)

    def __post_init__(self) -> None:
        self.already_read = self.times_read()

    @classmethod
    def of(cls, model: Any, rows: Rows | None = None) -> "Limits":
        """Return the limits that the parameters of an estimator set."""
        return cls(model.tol, model.max_iter, model.max_time, rows)

    @property
    def deadline(self) -> float | None:
        """The reading of `monitor.clock` when the time is up; None for never."""
        return None if self.max_time is None else self.clock_started + self.max_time

    @property
    def seconds_left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - clock())

    def times_read(self) -> int:
        return 0 if self.rows is None else self.rows.times_read

    def monitor(
        self,
        problem: int,
        seconds: float | None,
        on_check: Callable[[Record, State], bool] | None = None,
    ) -> Monitor:
        """Return the monitor of a problem, which has so many seconds from now on."""
        return Monitor(
            self.tol,
            self.max_iter,
            seconds,
            self.interruption,
            on_check,
            problem,
            self.started,
            times_read=lambda: self.times_read() - self.already_read,
        )


@dataclass(frozen=True)
class Plan:
    """How problems share threads and passes.

    Attributes
    ----------
    solver : str
        Its name.
    n_at_once : int
        How many problems are solved side by side, each with its own passes.
    n_row_threads : int
        How many threads each of them has; or all of those that share passes.
    n_together : int
        How many problems share passes; 0 if none do.
    """

    solver: str
    n_at_once: int
    n_row_threads: int
    n_together: int = 0

    @classmethod
    def of(cls, n_jobs: int, n_problems: int, problem: Problem, solver: str) -> "Plan":
        """Return the plan for problems such as this one.

        Problems over rows on disk are solved one by one, since the memory budget is for one. So
        are problems on a GPU that share no passes: one problem, with one thread on the host, keeps
        a GPU busy.
        """
        declared, rows = SOLVERS[solver], problem.rows
        on_gpu = rows.device == "cuda"
        n_row_threads = n_jobs if declared.splits_rows and not on_gpu else 1
        few = isinstance(rows, SingleRows) and rows.n_entries < _ENTRIES_TO_SHARE
        if n_problems > 1 and declared.shares_passes and not few:
            made = auto.make(solver, problem.risk, seed=0)
            assert isinstance(made, SharesPasses)
            return cls(solver, 1, n_row_threads, min(n_problems, made.most_together(rows)))
        n_at_once = min(n_jobs, n_problems)
        if "memory_budget" in declared.told or on_gpu:
            n_at_once = 1
        return cls(solver, n_at_once, max(1, n_row_threads // n_at_once))


class Batch(ABC):
    """Several problems, each of which is solved once, in so many seconds; None for no limit."""

    def __init__(self, n_problems: int, plan: Plan, seconds: float | None):
        self.n_problems, self.plan, self.seconds = n_problems, plan, seconds
        self.deadline: float | None = None  # known when the batch runs
        self.unsolved = set(range(n_problems))
        self.futures: dict[int, Future] = {}

    @abstractmethod
    def solve(self, index: int, seconds: float | None) -> None:
        """Solve one problem in so many seconds; None for no limit."""

    @abstractmethod
    def meet(self, places: range, functions: list[Callable[[], None]]) -> None:
        """Call the functions, which solve the problems at these places, with shared passes."""

    def run(
        self,
        pool: ThreadPoolExecutor | None = None,
        go_ahead: Callable[[int], Future | None] = lambda index: None,
    ) -> None:
        """Solve all problems.

        `pool` is for problems side by side; None for a new one. `go_ahead(index)` is called if a
        thread would be idle: it submits what can follow a solved problem, and returns its future
        or None.
        """
        if self.seconds is not None:
            self.deadline = clock() + self.seconds
        if self.plan.n_together > 0:
            self._together()
        elif self.plan.n_at_once == 1:
            for index in range(self.n_problems):
                self._solve_alone(index)
        elif pool is not None:
            self._side_by_side(pool, go_ahead)
        else:
            with threads.pool(self.plan.n_at_once) as pool:
                self._side_by_side(pool, go_ahead)

    def submit(self, pool: ThreadPoolExecutor, index: int) -> Future:
        """Submit one problem to a thread pool, unless that was done."""
        if index not in self.futures:
            self.futures[index] = pool.submit(self._solve_alone, index)
        return self.futures[index]

    def abandon(self) -> None:
        """Do not begin any more problems."""
        for future in self.futures.values():
            future.cancel()

    def _seconds(self, n_rounds: int) -> float | None:
        """Return an equal part of the time that is left, for each of `n_rounds`."""
        if self.seconds is None:
            return None
        left = self.seconds if self.deadline is None else max(0.0, self.deadline - clock())
        return left / max(1, n_rounds)

    def _solve_alone(self, index: int) -> None:
        seconds = self._seconds(math.ceil(len(self.unsolved) / self.plan.n_at_once))
        with threads.lent(self.plan.n_row_threads):
            self.solve(index, seconds)
        self.unsolved.discard(index)

    def _together(self) -> None:
        n_groups = math.ceil(self.n_problems / self.plan.n_together)
        cuts = [self.n_problems * group // n_groups for group in range(n_groups + 1)]
        with threads.lent(self.plan.n_row_threads):
            for group, places in enumerate(starmap(range, pairwise(cuts))):
                seconds = self._seconds(n_groups - group)
                self.meet(places, [partial(self.solve, index, seconds) for index in places])

    def _side_by_side(
        self, pool: ThreadPoolExecutor, go_ahead: Callable[[int], Future | None]
    ) -> None:
        under_way = {self.submit(pool, index): index for index in range(self.n_problems)}
        ahead: set[Future] = set()
        solved: deque[int] = deque()
        try:
            while under_way:
                done, _ = wait({*under_way, *ahead}, return_when=FIRST_COMPLETED)
                for future in done & under_way.keys():
                    future.result()  # raises the errors of the problem's solver
                    solved.append(under_way.pop(future))
                ahead -= done
                enough = _UNDER_WAY * self.plan.n_at_once
                while solved and len(under_way) + len(ahead) < enough:
                    following = go_ahead(solved.popleft())
                    ahead |= set() if following is None else {following}
        except BaseException:
            self.abandon()
            raise


class MadeWhenAsked(Sequence):
    """A sequence whose elements are made on access, so that few of them are in memory."""

    def __init__(self, make: Callable[[int], Any], length: int):
        self.make, self.length = make, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return self.make(range(self.length)[index])
