"""StreamSVM: coordinate descent on the rows in memory, while a thread reads the other rows.

Problem and dual as in coordinate.py, for any loss of losses.py.

Matsushima, Vishwanathan & Smola 2012, Algorithms 1 (reader) and 2 (trainer). A reader thread reads
the rows on disk, pass after pass. The trainer visits each row that is read. It keeps the row in
memory unless the row is shrunk. While it waits for the reader, it visits the rows in memory. For
the hinge, a row is dropped if

    alpha_i = 0 and its gradient > eps,   or   alpha_i = C and its gradient < -eps,

where eps is the largest violation of the last n visits. While memory is nearly full, eps shrinks.
The reader's next pass reads dropped rows again. There are two changes to the paper. Rows are read
and kept in blocks. Rows in memory get several visits for each row that is read, even if the reader
is fast.
"""

from dataclasses import dataclass

import numpy as np

from widemargin.data.rows import BlockRows
from widemargin.kernels import coordinate as kernels
from widemargin.monitor import Monitor
from widemargin.problem import Problem, State
from widemargin.solvers.base import Solver
from widemargin.solvers.out_of_core import (
    END_OF_PASS,
    DiskProblem,
    OutOfCore,
    Reader,
    room_for_rows,
)
from widemargin.solvers.pieces import Piece
from widemargin.solvers.settings import OutOfCoreSettings

# How many seconds to wait for the reader if there are no rows in memory.
_PATIENCE = 0.05


@dataclass(frozen=True)
class Stream(Solver):
    """Solver for margin risks over rows on disk."""

    memory_budget: int  # bytes
    seed: int = 0
    settings: OutOfCoreSettings = OutOfCoreSettings()

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified."""
        BlockRows.require(problem.rows, "solver 'stream'")
        room = room_for_rows(problem, self.memory_budget, self.settings)
        return _Run(problem, state, monitor, room, self).run()


class _Run(OutOfCore):
    def __init__(
        self, problem: DiskProblem, state: State, monitor: Monitor, room: float, solver: Stream
    ):
        super().__init__(problem, state, monitor, solver.seed, solver.settings)
        self.room = room
        self.small_piece = min(solver.settings.small_piece, room / 16)
        self.pieces: list[Piece] = []
        self.size = 0  # bytes of all pieces
        self.in_memory = np.zeros(problem.rows.n_rows, dtype=bool)
        self.eps = np.inf
        self.turn = 0  # the index of the piece to visit next
        self.owed = 0.0  # how many visits to kept rows to make before the next block
        self.sweep_ends = self.n_counted  # the number of visits at which the sweep ends

    def run(self) -> State:
        monitor = self.monitor
        self.check()
        with Reader(self.problem.rows) as reader:
            while monitor.status == "running":
                monitor.phases["reading"] = reader.busy
                if self.visits >= self.sweep_ends:
                    self._end_sweep()
                pass_ended = False
                if self.pieces and self.owed > 0.0:
                    self._visit_kept()
                else:
                    pass_ended = self._take(reader)
                monitor.save_now_and_then(self.best)
                if monitor.must_stop() or (pass_ended and self.worth_checking()):
                    self.check(int(self.in_memory.sum()))
        return self.best

    def _take(self, reader: Reader) -> bool:
        """Visit the next block, or kept rows if none was read; return whether a pass ended."""
        with self.monitor.phase("waiting"):
            block = reader.take(timeout=0.0 if self.pieces else _PATIENCE)
        if block is END_OF_PASS:
            self.passes += 1
            return True
        if block is not None:
            piece = self.piece(block, ~self.in_memory[block.begin : block.end])
            if len(piece):
                kept = self.visit(piece, self.eps, -self.eps)
                self._keep(piece.take(kept))
            self.owed = self.settings.visits_to_kept_rows * (block.end - block.begin)
        elif self.pieces:
            self._visit_kept()
        return False

    def _visit_kept(self) -> None:
        """Visit the rows of one piece, and drop those that are shrunk."""
        if self.turn >= len(self.pieces):
            self.random.shuffle(self.pieces)
            self.turn = 0
        piece = self.pieces[self.turn]
        kept = self.visit(piece, self.eps, -self.eps)
        self.owed -= len(piece)
        if kept.size < 0.7 * len(piece):  # otherwise a copy costs too much
            self._let_go(self.turn)
            self._keep(piece.take(kept))
        else:
            self.turn += 1

    def _keep(self, piece: Piece) -> None:
        if len(piece) == 0:
            return
        if self.pieces and self.pieces[-1].nbytes + piece.nbytes < self.small_piece:
            last = len(self.pieces) - 1
            piece = Piece.joined([self._let_go(last), piece])
        while self.pieces and self.size + piece.nbytes > self.room:
            self._let_go(int(self.random.integers(len(self.pieces))))
        if self.size > self.settings.nearly_full * self.room:
            self.eps *= self.settings.shrink
        self.pieces.append(piece)
        self.size += piece.nbytes
        self.in_memory[piece.ids] = True

    def _let_go(self, index: int) -> Piece:
        """Remove a piece from memory, and return it."""
        piece = self.pieces.pop(index)
        self.size -= piece.nbytes
        self.in_memory[piece.ids] = False
        if index < self.turn:
            self.turn -= 1
        return piece

    def _end_sweep(self) -> None:
        """After as many visits as there are rows, update eps and the intercept."""
        self.sweep_ends = self.visits + self.n_counted
        self.absorb_intercept()
        tally = self.tally
        largest = max(tally[kernels.LARGEST], -tally[kernels.SMALLEST])
        self.eps = largest if largest > 0.0 else np.inf
        tally[kernels.LARGEST], tally[kernels.SMALLEST] = -np.inf, np.inf
