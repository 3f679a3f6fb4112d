"""One run of a solver on one problem, and what there is to tell of it.

C_avg is the cutting-plane papers' C, the weight of the *mean* loss: C = C_avg / n.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

from widemargin import datasets, threads
from widemargin.data import as_rows
from widemargin.monitor import Monitor, Record
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import CrammerSinger, Hinge
from widemargin.solvers import auto, cutting_plane
from widemargin.solvers.cutting_plane import CuttingPlanes
from widemargin.solvers.oracle import Oracle
from widemargin.solvers.settings import CuttingPlaneSettings

LIMIT = 60.0  # seconds for one run


@dataclass
class Run:
    """One run of a solver.

    Attributes
    ----------
    history : list of Record
    status : str
    seconds : float
    state : State
    phases : dict
        Seconds by phase.
    values, steps : list of float
        Of cutting planes, by iteration: the objective at the point gone to, and how far towards
        the reduced problem's solution that was.
    """

    history: list[Record]
    status: str
    seconds: float
    state: State
    phases: dict[str, float]
    values: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)

    @property
    def iterations(self) -> int:
        return int(self.history[-1].iteration)

    @property
    def converged(self) -> bool:
        return self.status in ("converged", "published", "callback")

    def first(self, reached: Callable[[Record], bool]) -> Record | None:
        """Return the first record of which `reached` is true."""
        return next((record for record in self.history if reached(record)), None)

    def until(self, gap: float) -> str:
        """Iterations and seconds to a relative gap, in words."""
        record = self.first(lambda record: record.relative_gap <= gap)
        if record is None:
            return f"not in {self.iterations} it, {self.seconds:.0f} s"
        return f"{record.iteration:.0f} it, {record.time:.2g} s"

    @property
    def iterating(self) -> float:
        """Seconds in all phases but the certificate's."""
        return sum(t for name, t in self.phases.items() if name != "certificate")

    def share(self, phase: str) -> float:
        """Seconds in one phase over those in all, the certificate's apart."""
        return self.phases.get(phase, 0.0) / self.iterating


class WatchedOracle(Oracle):
    """Writes down where each iteration went."""

    def __init__(self, problem: Problem, monitor: Monitor):
        super().__init__(problem, monitor)
        self.values: list[float] = []
        self.steps: list[float] = []

    def jump(self, target):
        return self._noted(super().jump(target))

    def step(self, center, target, search, instead_of_zero, plane_at):
        return self._noted(super().step(center, target, search, instead_of_zero, plane_at))

    def _noted(self, answer):
        self.values.append(answer.value)
        self.steps.append(answer.step)
        return answer


def load(name: str):
    """Return X and y of a set that lies in the data folder."""
    data = datasets.load(name, download=False)
    return data.X, data.y


def problem_of(X, y, C_avg: float, multi: bool = False) -> Problem:
    """Return the problem without intercept: two-class hinge, or Crammer and Singer's."""
    n = X.shape[0]
    cost = np.full(n, C_avg / n)
    if not multi:
        return Problem(as_rows(X), Hinge(y, cost), Intercept.NONE)
    classes, codes = np.unique(y, return_inverse=True)
    return Problem(as_rows(X), CrammerSinger(codes, cost, len(classes)), Intercept.NONE)


def solve(
    problem: Problem,
    method: str,
    tol: float,
    *,
    n_threads: int = 1,
    settings: CuttingPlaneSettings = CuttingPlaneSettings(),
    search: Callable | None = None,
    enough: Callable[[Record], bool] | None = None,
    max_iter: int = 100_000,
    limit: float = LIMIT,
) -> Run:
    """Run a method of cutting planes.

    Parameters
    ----------
    search : callable or None
        Takes the place of the exact line search.
    enough : callable(Record) -> bool or None
        Ends the run before `tol` is reached.
    limit : float
        Seconds.
    """
    monitor = Monitor(
        tol=tol,
        max_iter=max_iter,
        max_time=limit,
        on_check=None if enough is None else lambda record, state: enough(record),
    )
    started = time.perf_counter()
    with (
        threads.lent(n_threads),
        patch.object(cutting_plane, "exact", search or cutting_plane.exact),
    ):
        oracle = WatchedOracle(problem, monitor)
        state = CuttingPlanes(method, settings).ask(oracle, State.zero(problem))
    return _run(monitor, started, state, oracle.values, oracle.steps)


def descend(
    problem: Problem, tol: float, name: str = "auto", limit: float = LIMIT, seed: int = 0
) -> Run:
    """Run a solver that is no cutting plane: by name, or the one `solver="auto"` chooses."""
    monitor = Monitor(tol=tol, max_iter=100_000, max_time=limit)
    started = time.perf_counter()
    if name == "auto":
        name = auto.choose(problem.rows, problem.risk)
    solver = auto.make(name, problem.risk, seed)
    return _run(monitor, started, solver.solve(problem, State.zero(problem), monitor))


def _run(monitor, started, state, *watched) -> Run:
    seconds = time.perf_counter() - started
    return Run(monitor.history, monitor.status, seconds, state, monitor.phases, *watched)


def slope(sizes, times) -> float:
    """Return the slope of log time over log size."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def growing(n: int, factor: int, count: int) -> list[int]:
    """Return `count` sizes up to n, each `factor` times the one before; none below 60."""
    sizes = [n // factor**power for power in range(count)]
    return sorted(size for size in sizes if size >= min(n, 60))


def shuffled(X, y, n: int | None = None):
    """Return n rows in random order, the same every time."""
    order = np.random.default_rng(0).permutation(len(y))[:n]
    return X[order], y[order]


def warm_up_cutting_planes(searches=(None,)) -> None:
    """Compile every kernel on a few rows."""
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        X = rng.random((60, 5)).astype(dtype)
        for rows in (X, sp.csr_matrix(X)):
            for multi in (False, True):
                problem = problem_of(rows, np.where(np.arange(60) % 2, 1, -1), 10.0, multi)
                for search in searches:
                    solve(problem, "ocas", 1e-2, search=search)
                for name in ("dcd", "acf") if multi else ("dcd", "acf", "newton"):
                    descend(problem, 1e-2, name)
