"""Block minimisation: alternatives to StreamSVM, with the same blocks and kernels.

Problem and dual as in coordinate.py, for any loss of losses.py.

"bm"   Rows are read in parts that fill the memory. A few sweeps over each part optimise its dual
       variables, with all others fixed, before the next part is read. Yu, Hsieh, Chang & Lin
       2010, Algorithm 1.
"sbm"  Half of the memory keeps those rows of all parts read so far that are nearest to the
       margin. They are optimised together with each new part. Chang & Roth 2011, Algorithm 1.

Both alternate between reading and training.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from widemargin.data.blocks import Block
from widemargin.data.rows import BlockRows
from widemargin.kernels.response import signs, targets
from widemargin.monitor import Monitor
from widemargin.problem import Problem, State
from widemargin.solvers.base import Solver
from widemargin.solvers.out_of_core import DiskProblem, OutOfCore, room_for_rows
from widemargin.solvers.pieces import Piece
from widemargin.solvers.settings import OutOfCoreSettings


@dataclass(frozen=True)
class BlockMinimization(Solver):
    """Solver for margin risks over rows on disk."""

    memory_budget: int  # bytes
    selective: bool  # whether rows near the margin are kept: "sbm"
    seed: int = 0
    settings: OutOfCoreSettings = OutOfCoreSettings()

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified."""
        BlockRows.require(problem.rows, f"solver {'sbm' if self.selective else 'bm'!r}")
        room = room_for_rows(problem, self.memory_budget, self.settings)
        return _Run(problem, state, monitor, room, self).run()


class _Run(OutOfCore):
    def __init__(
        self,
        problem: DiskProblem,
        state: State,
        monitor: Monitor,
        room: float,
        solver: BlockMinimization,
    ):
        super().__init__(problem, state, monitor, solver.seed, solver.settings)
        self.kept: Piece | None = None
        self.kept_room = solver.settings.kept_fraction * room if solver.selective else 0.0
        # A part may fill the memory that kept rows do not take.
        self.part_room = room - self.kept_room
        self.in_memory = np.zeros(problem.rows.n_rows, dtype=bool)

    def run(self) -> State:
        self.check()
        while self.monitor.status == "running":
            for part in self._parts():
                self._solve(part)
                part.clear()  # frees memory for the next part
                self.monitor.save_now_and_then(self.best)
                if self.monitor.must_stop():
                    break
            else:
                self.passes += 1
                self.absorb_intercept()
            if self.monitor.must_stop() or self.worth_checking():
                self.check(self.problem.rows.n_rows)
        return self.best

    def _parts(self) -> Iterator[list[Piece]]:
        """Yield the parts: lists of pieces, each as large as the memory for parts allows."""
        pieces: list[Piece] = []
        size = 0
        blocks = iter(self.problem.rows.blocks())
        while True:
            with self.monitor.phase("reading"):
                block = next(blocks, None)
            if block is None:
                break
            piece = self.piece(block, self._wanted(block))
            if pieces and size + piece.nbytes > self.part_room:
                yield pieces
                pieces, size = [], 0
            pieces.append(piece)
            size += piece.nbytes
        if pieces:
            yield pieces

    def _wanted(self, block: Block) -> np.ndarray:
        """Return which rows of a block to read: those that are not kept."""
        return ~self.in_memory[block.begin : block.end]

    def _solve(self, pieces: list[Piece]) -> None:
        """Sweep over a part and the kept rows a few times."""
        if self.kept is not None:
            pieces.insert(0, self.kept)
        for _ in range(self.settings.sweeps):
            for index in self.random.permutation(len(pieces)):
                self.visit(pieces[index])
                if self.monitor.must_stop():
                    return
        if self.kept_room:
            self._select(pieces)

    def _select(self, pieces: list[Piece]) -> None:
        """Keep the rows of `pieces` that are nearest to the margin, as many as fit."""
        distance = np.concatenate([self._distance(piece) for piece in pieces])
        sizes = np.concatenate([np.diff(piece.arrays[2]) for piece in pieces]) * 8 + 48
        nearest = np.argsort(distance)
        chosen = np.zeros(distance.size, dtype=bool)
        chosen[nearest[np.cumsum(sizes[nearest]) <= self.kept_room]] = True
        if self.kept is not None:
            self.in_memory[self.kept.ids] = False
            self.kept = None
        parts, begin = [], 0
        while pieces:  # each piece is freed after its rows are copied
            piece = pieces.pop(0)
            parts.append(piece.take(np.flatnonzero(chosen[begin : begin + len(piece)])))
            begin += len(piece)
        self.kept = Piece.joined(parts)
        self.in_memory[self.kept.ids] = True

    def _distance(self, piece: Piece) -> np.ndarray:
        """Return how far the residual of each row is from a kink of its loss, (m,)."""
        scores = piece.scores(self.w) + self.offset[0] + self.offset[1] * self.offset[2]
        sizes = np.abs(targets(piece.y) - signs(piece.y) * scores)
        return np.abs(sizes - self.problem.risk.loss.eps)
