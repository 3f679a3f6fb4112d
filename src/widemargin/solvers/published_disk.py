"""StreamSVM and block minimisation to the letter: "stream-paper", "bm-paper" and "sbm-paper".

Problem and dual as in coordinate.py, for losses of classes, without an intercept or with a
penalised one, which is a constant feature.

"stream"  Matsushima, Vishwanathan & Smola 2012, Algorithms 1 and 2. Rows come into memory one by
          one, and where it is full a random row makes room. The trainer visits random rows in
          memory. A row at a bound is evicted if its gradient is beyond eps, the largest projected
          gradient of n visits, which shrinks while memory is nearly full.
"bm"      Yu, Hsieh, Chang & Lin 2010, Algorithm 1. Sweeps over one block after another, each in
          the order of a permutation of all of its rows.
"sbm"     Chang & Roth 2011, Algorithm 1. Half of the memory keeps the rows nearest to the margin.

`tol` is eps of the papers: a run ends after a pass over the disk in which the largest and the
smallest projected gradient differ by no more. Steps go to the maximum over one variable, in
float64. A certificate costs a pass, which is not counted: it is computed after 1, 2, 4, ...
passes, and at the end. What the papers have and these do not: StreamSVM's reader puts rows into
memory at any time, and here between visits, as many as it has read.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin.certificate import certify_in_one_pass
from widemargin.data.blocks import Block
from widemargin.data.rows import BlockRows, SingleRows
from widemargin.kernels import published as kernels
from widemargin.monitor import Monitor
from widemargin.problem import Problem, State
from widemargin.risk import MarginRisk
from widemargin.solvers import block_minimization
from widemargin.solvers.base import Solver
from widemargin.solvers.block_minimization import BlockMinimization
from widemargin.solvers.out_of_core import END_OF_PASS, DiskProblem, Reader, room_for_rows
from widemargin.solvers.pieces import Piece
from widemargin.solvers.published_descent import Visits, check_published
from widemargin.solvers.settings import (
    PUBLISHED_OUT_OF_CORE,
    OutOfCoreSettings,
    PublishedStreamSettings,
)

# Bytes per row for where it is in memory, its length and its norm; and for the list of rows.
_BYTES_PER_ROW = 8 + 8 + 8 + 8
_BYTES_PER_ENTRY = 8
# How many seconds to wait for the reader if there are no rows in memory.
_PATIENCE = 0.05


class Certified:
    """Certificates of a run over rows on disk, after 1, 2, 4, ... passes."""

    def __init__(self, problem: DiskProblem, monitor: Monitor):
        self.problem, self.monitor, self.next_check = problem, monitor, 1
        self.state: State | None = None

    def check(self, visits: Visits, passes: int, rule: bool, active: int) -> None:
        """After a pass, certify the point if that is due; `rule` is whether to stop."""
        if not (rule or passes >= self.next_check or self.monitor.must_stop()):
            return
        self.next_check = 2 * passes
        with self.monitor.phase("checks"):
            self.state = State(visits.w.copy(), visits.intercept, visits.alpha.copy())
            found = certify_in_one_pass(self.problem, self.state, tol=self.monitor.tol)
        self.monitor.check(found.certificate, self.state, active, rule)


@dataclass(frozen=True)
class PublishedBlocks(BlockMinimization):
    """Solver for margin risks over rows on disk: "bm-paper" and "sbm-paper"."""

    settings: OutOfCoreSettings = PUBLISHED_OUT_OF_CORE

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the last point, certified."""
        name = "sbm-paper" if self.selective else "bm-paper"
        BlockRows.require(problem.rows, f"solver {name!r}")
        check_published(problem, name)
        room = room_for_rows(problem, self.memory_budget, self.settings)
        return _BlockRun(problem, state, monitor, room, self).run()


class _BlockRun(block_minimization._Run):
    def __init__(self, problem: DiskProblem, state: State, monitor: Monitor, *more: Any):
        super().__init__(problem, state, monitor, *more)
        self.visits_of_all = Visits(problem, self.alpha, self.w.astype(np.float64))
        self.w, self.offset = self.visits_of_all.w, self.visits_of_all.offset
        self.extremes = np.zeros(4)

    def run(self) -> State:
        certified, visits = Certified(self.problem, self.monitor), self.visits_of_all
        certified.check(visits, self.passes, False, 0)
        while self.monitor.status == "running":
            self.extremes[:2] = -np.inf, np.inf
            for part in self._parts():
                self._solve(part)
                part.clear()
                self.monitor.save_now_and_then(self.best)
                if self.monitor.must_stop():
                    break
            self.passes += 1
            largest, smallest = self.extremes[:2]
            running = self.monitor.status == "running"
            rule = bool(running and largest - smallest <= self.monitor.tol)
            certified.check(visits, self.passes, rule, self.problem.rows.n_rows)
        assert certified.state is not None
        return certified.state

    def _wanted(self, block: Block) -> np.ndarray:
        """Return all rows: the blocks of the papers do not depend on what is kept."""
        return np.ones(block.end - block.begin, dtype=bool)

    def _solve(self, pieces: list[Piece]) -> None:
        if self.kept is not None:
            new = [piece.take(np.flatnonzero(~self.in_memory[piece.ids])) for piece in pieces]
            pieces[:] = [self.kept, *new]
        block = Piece.joined(pieces)
        pieces[:] = [block]
        of_block = self.visits_of_all.part(block.ids)
        for _ in range(self.settings.sweeps):
            order = self.random.permutation(np.arange(len(block), dtype=np.uint32))
            if not self._sweep(block, of_block, order):
                break
        self.alpha[block.ids] = of_block.alpha
        if self.kept_room:
            self._select(pieces)

    def _sweep(self, block: Piece, of_block: Visits, order: np.ndarray) -> bool:
        """Visit the rows of a block in this order; return whether there is time for more."""
        at_once = max(1, SingleRows.entries_per_call * len(block) // max(1, block.arrays[0].size))
        shrunk, gains = np.zeros(len(block), dtype=bool), np.empty(len(block))
        with self.monitor.phase("visits"):
            for begin in range(0, order.size, at_once):
                end = min(begin + at_once, order.size)
                kernels.sweep(
                    block.arrays, block.norms, block.y, of_block.upper, of_block.shift,
                    of_block.alpha, self.w, self.offset, order, begin, end, np.inf, -np.inf,
                    shrunk, gains, self.extremes,
                )  # fmt: skip
                self.monitor.iteration += (end - begin) / self.n_counted
                if self.monitor.must_stop():
                    return False
        return True


@dataclass(frozen=True)
class PublishedStream(Solver):
    """Solver for margin risks over rows on disk: "stream-paper"."""

    memory_budget: int  # bytes
    seed: int = 0
    settings: PublishedStreamSettings = PublishedStreamSettings()

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the last point, certified."""
        BlockRows.require(problem.rows, "solver 'stream-paper'")
        check_published(problem, "stream-paper")
        per_row = _BYTES_PER_ROW * problem.rows.n_rows
        room = room_for_rows(problem, self.memory_budget - per_row, OutOfCoreSettings(usable=1.0))
        return _StreamRun(problem, state, monitor, int(room) // _BYTES_PER_ENTRY, self).run()


class _StreamRun:
    """One run; `size` is how many entries of rows memory has."""

    def __init__(
        self,
        problem: Problem[BlockRows, MarginRisk],
        state: State,
        monitor: Monitor,
        size: int,
        solver: PublishedStream,
    ):
        self.problem, self.monitor, self.settings = problem, monitor, solver.settings
        risk, n = problem.risk, problem.rows.n_rows
        self.evictions = np.random.default_rng([solver.seed, 0])
        self.choices = np.random.default_rng([solver.seed, 1])
        self.draws = np.empty(0)
        alpha = risk.feasible(np.array(state.dual) * risk.y) * risk.y
        w = problem.rows.combine(alpha * risk.y) if alpha.any() else np.zeros_like(state.coef)
        self.visits = Visits(problem, alpha, w)
        self.wanted = risk.cost > 0.0
        self.n_counted = max(1, int(np.count_nonzero(self.wanted)))
        self.room = int(self.settings.usable * size)
        self.entries = np.empty(size, dtype=np.float32), np.empty(size, dtype=np.uint32)
        self.starts, self.lengths = np.full(n, -1), np.zeros(n, dtype=np.int64)
        self.norms, self.members = np.zeros(n), np.zeros(n, dtype=np.int64)
        self.counts = np.zeros(4, dtype=np.int64)
        self.extremes = np.array([-np.inf, np.inf, np.inf, 0.0])
        self.passes, self.turn = 0, 0

    def run(self) -> State:
        monitor, certified = self.monitor, Certified(self.problem, self.monitor)
        certified.check(self.visits, 0, False, 0)
        now = State(self.visits.w, 0.0, self.visits.alpha)
        with Reader(self.problem.rows) as reader:
            while monitor.status == "running":
                monitor.phases["reading"] = reader.busy
                pass_ended = self._take(reader)
                monitor.save_now_and_then(now)
                if pass_ended or monitor.must_stop():
                    rule = pass_ended and self._rule_holds() and monitor.status == "running"
                    certified.check(
                        self.visits, self.passes, rule, int(self.counts[kernels.COUNT])
                    )
        assert certified.state is not None
        return certified.state

    def _take(self, reader: Reader) -> bool:
        """Take what the reader has, and visit rows in memory; return whether a pass ended."""
        with self.monitor.phase("waiting"):
            block = reader.take(timeout=0.0 if self.counts[kernels.COUNT] else _PATIENCE)
        if block is END_OF_PASS:
            self.passes += 1
            return True
        if block is not None:
            self._remember(block)
            self.turn = block.end - block.begin
        if self.counts[kernels.COUNT]:
            self._visit(self.turn)
        return False

    def _rule_holds(self) -> bool:
        largest, smallest = self.extremes[:2]
        self.extremes[:2] = -np.inf, np.inf
        return bool(largest - smallest <= self.monitor.tol)

    def _remember(self, block: Block) -> None:
        """Copy a block's rows into memory, where others make room."""
        memory = self.entries, self.starts, self.lengths, self.norms, self.members, self.counts
        n_rows, row = block.end - block.begin, 0
        while row < n_rows:
            before = row
            if self.draws.size == 0:
                self.draws = self.evictions.random(n_rows)
            row, used = kernels.remember(
                block.arrays, block.begin, row, self.wanted, self.room, self.draws, *memory
            )
            self.draws = self.draws[used:]
            if row == before and used == 0 and not self._close_holes():
                raise ValueError(f"row {block.begin + row:,} does not fit into the memory_budget")

    def _close_holes(self) -> bool:
        """Move rows in memory next to each other; return whether there were holes."""
        counts, members = self.counts, self.members[: self.counts[kernels.COUNT]]
        if counts[kernels.FILLED] == counts[kernels.LIVE]:
            return False
        in_order = members[np.argsort(self.starts[members])]
        counts[kernels.FILLED] = kernels.close_holes(
            in_order, self.entries, self.starts, self.lengths
        )
        return True

    def _visit(self, count: int) -> None:
        visits = self.visits
        with self.monitor.phase("visits"):
            done = kernels.stream_visits(
                self.entries, self.starts, self.lengths, self.norms, self.members, self.counts,
                visits.y, visits.upper, visits.shift, visits.alpha, visits.w, visits.offset,
                self.choices.random(count), self.n_counted,
                self.settings.nearly_full * self.room, self.settings.shrink, self.extremes,
            )  # fmt: skip
        self.monitor.iteration += done / self.n_counted
