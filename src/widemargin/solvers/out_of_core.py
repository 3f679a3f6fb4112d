"""Common parts of coordinate descent for rows that do not fit into memory.

Problem and dual as in coordinate.py. Memory holds w, one alpha per row, and pieces of the rows. A
step is the same, by the same kernel. The solvers in stream.py and block_minimization.py differ in
which rows are in memory, for how long, and what happens while others are read.

Each row contributes to the gap, by its last visit. When the sum of these contributions predicts
that the tolerance is reached, both values are computed in one pass over the disk.
"""

import threading
import time
from queue import Empty, Full, Queue
from typing import Any

import numpy as np

from widemargin.arrays import parts_of
from widemargin.certificate import certificate_of, certify_in_one_pass
from widemargin.data.blocks import Block
from widemargin.data.rows import BlockRows
from widemargin.kernels import coordinate as kernels
from widemargin.kernels import rows as row_kernels
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Bound, MarginRisk
from widemargin.solvers.absorbed import constant_feature, kept
from widemargin.solvers.descent import fits_single
from widemargin.solvers.multiple import improved
from widemargin.solvers.pieces import Piece
from widemargin.solvers.settings import OutOfCoreSettings

# Bytes per row that are needed whatever the budget, besides y: alpha, cost and gap contribution;
# scores, their multiple and dual variables during a check; and the labels that the caller keeps.
_BYTES_PER_ROW = 8 + 8 + 4 + 1 + 8 + 8 + 8 + 16
# Bytes per feature: w, the best w, and the exact one during a check.
_BYTES_PER_FEATURE = 8 + 8 + 8
# Blocks that wait for the trainer; and blocks in memory, with those that both threads work on, the
# batch that the reader decodes, and what Arrow keeps for the next one.
_BLOCKS_AHEAD, _BLOCKS_IN_MEMORY = 2, 8
_BLOCK_BYTES = 4 << 20
_NO_MEAN_DOT, _NO_REST = np.empty(0), 0
# Gap contributions are stored in single precision.
_LARGEST_GAP = float(np.finfo(np.float32).max)

#: a problem of two classes over rows on disk
DiskProblem = Problem[BlockRows, MarginRisk]


def bytes_beside_rows(problem: Problem) -> int:
    """Return the bytes of w, alpha and the blocks being read, which do not depend on the
    budget."""
    n, d = problem.rows.n_rows, problem.rows.n_features
    per_row = _BYTES_PER_ROW + problem.risk.y.itemsize
    return n * per_row + d * _BYTES_PER_FEATURE + _BLOCKS_IN_MEMORY * _BLOCK_BYTES


def room_for_rows(problem: Problem, memory_budget: int, settings: OutOfCoreSettings) -> float:
    """Return how many bytes of rows fit into the budget; ValueError if none."""
    needed = bytes_beside_rows(problem)
    least = needed + 2 * _BLOCK_BYTES
    if memory_budget < least:
        n, d = problem.rows.n_rows, problem.rows.n_features
        raise ValueError(
            f"memory_budget is {memory_budget / 2**20:,.0f} MiB, and {n:,} rows of {d:,} features "
            f"need {least / 2**20:,.0f} MiB at least, for w, alpha and the blocks being read"
        )
    return settings.usable * (memory_budget - needed)


class OutOfCore:
    """One run: arrays over all rows, visits of pieces, and gap checks."""

    def __init__(
        self,
        problem: DiskProblem,
        state: State,
        monitor: Monitor,
        seed: int,
        settings: OutOfCoreSettings,
    ):
        self.problem, self.monitor, self.settings = problem, monitor, settings
        risk = problem.risk
        self.random = np.random.default_rng(seed)
        self.generator = self.random.integers(1, 2**63, 1).astype(np.uint64)
        self.n_counted = max(1, int(np.count_nonzero(risk.cost)))
        self.alpha = np.array(state.dual)
        self.seen_gap = risk.cost.astype(np.float32)
        # Random access to w takes half the time in single precision. Checks restore the exact w.
        single = monitor.tol >= settings.single_precision_tol
        self.at_zero = risk.at_zero
        self.w = np.array(state.coef, dtype=np.float32 if single else np.float64)
        # [b, z, k] of the kernels
        self.offset = np.array([0.0, float(self.alpha @ risk.sign), 0.0])
        if problem.intercept is not Intercept.NONE:
            self.offset[0] = state.offset
        self.tally = np.zeros(kernels.TALLY_SIZE)
        self.tally[kernels.LARGEST], self.tally[kernels.SMALLEST] = -np.inf, np.inf
        self.visits = 0
        self.best = State(state.coef, state.offset, self.alpha)
        self.best_primal = Bound(np.inf, 0.0)
        self.optimism = 1.0
        self.predicted = np.inf
        self.passes = 0  # over the rows on disk, of this run
        self.checked_at = 0  # the number of passes at the last check

    # --- pieces ---------------------------------------------------------------------------

    def piece(self, block: Block, wanted: np.ndarray) -> Piece:
        """Return the rows of a block that the mask `wanted` selects; views if that is all."""
        risk, size = self.problem.risk, block.end - block.begin
        part = slice(block.begin, block.end)
        norms = np.empty(size)
        row_kernels.squared_norms(block.arrays, 0, size, norms)
        single = self.w.dtype == np.float32
        if single and not fits_single(float(norms.max(initial=0.0)), self.at_zero):
            self.w = self.w.astype(np.float64)
        piece = Piece(
            ids=np.arange(block.begin, block.end, dtype=np.uint32),
            arrays=block.arrays,
            norms=norms,
            y=risk.y[part],
            cost=risk.cost[part],
        )
        wanted = wanted & (piece.cost > 0.0)
        if self.problem.intercept is not Intercept.NONE and self.offset[2] == 0.0:
            self._set_intercept(float(norms.mean()))
        return piece if wanted.all() else piece.take(np.flatnonzero(wanted))

    def _set_intercept(self, mean_square: float) -> None:
        intercept = self.problem.intercept
        mean_cost = float(self.problem.risk.cost.sum()) / self.n_counted
        scale = self.settings.constant_feature
        self.offset[2] = constant_feature(intercept, mean_square, mean_cost, scale)
        self.offset[0] *= kept(intercept, self.offset[2])

    def visit(
        self, piece: Piece, too_large: float = np.inf, too_small: float = -np.inf
    ) -> np.ndarray:
        """Visit all rows of a piece once; return those that shrinking would keep.

        A row is shrunk if its gradient is beyond `too_large` at 0, or beyond `too_small` at C.
        """
        # Read again at each visit: a check may have balanced the dual variables.
        alpha, seen_gap = self.alpha[piece.ids], np.empty(len(piece))
        status = np.empty(len(piece), dtype=np.uint8)
        order = np.arange(len(piece), dtype=np.uint32)
        kernels.shuffle(order, 0, order.size, self.generator)
        with self.monitor.phase("visits"):
            kernels.uniform_pass(
                piece.arrays,
                piece.norms,
                _NO_MEAN_DOT,
                piece.y,
                piece.cost,
                self.problem.risk.loss.step_numbers,
                alpha,
                self.w,
                self.offset,
                seen_gap,
                order,
                0,
                order.size,
                status,
                _NO_REST,
                too_large,
                too_small,
                self.settings.overstep,
                self.tally,
            )
        self.alpha[piece.ids] = alpha
        self.seen_gap[piece.ids] = np.minimum(seen_gap, _LARGEST_GAP)
        self.visits += len(piece)
        self.monitor.iteration += len(piece) / self.n_counted
        return np.flatnonzero(status != kernels.SHRUNK)

    def absorb_intercept(self) -> None:
        """Update the intercept by its constant feature, see absorbed.py."""
        self.offset[0] = kept(self.problem.intercept, self.offset[2]) * self._model_offset()

    def _model_offset(self) -> float:
        return float(self.offset[0] + self.offset[1] * self.offset[2])

    # --- gap checks -----------------------------------------------------------------------

    def worth_checking(self) -> bool:
        """Return, after a pass over the disk, whether a check is due or would succeed."""
        self.predicted = self.optimism * float(self.seen_gap.sum(dtype=np.float64))
        since, settings = self.passes - self.checked_at, self.settings
        fraction = settings.fraction_between_checks * self.passes
        if since >= max(settings.passes_between_checks, fraction):
            return True
        penalty = 0.5 * float(np.vdot(self.w.astype(np.float64), self.w))
        if self.problem.intercept is Intercept.PENALIZED:
            penalty += 0.5 * float(self.offset[1]) ** 2
        dual = -penalty
        for part in parts_of(self.alpha):
            dual += self.problem.risk.part(part.start, part.stop).dual_sum(self.alpha[part])
        return self.predicted <= self.monitor.tol * (dual + self.predicted)

    def check(self, active: int = 0) -> None:
        """Compute both values in one pass over the disk; restore the exact w."""
        problem, monitor, risk = self.problem, self.monitor, self.problem.risk
        with monitor.phase("checks"):
            here = State(self.w.astype(np.float64), self._model_offset(), self.alpha)
            found = certify_in_one_pass(problem, here, best_offset=True, tol=monitor.tol)
            coef, offset, primal = improved(
                problem,
                here.coef,
                found.offset,
                found.scores,
                found.primal,
                found.dual,
                monitor.tol,
            )
            if primal.value < self.best_primal.value:
                self.best_primal = primal
                self.best.coef, self.best.offset = coef, offset
            for part in parts_of(self.alpha):
                some = risk.part(part.start, part.stop)
                self.alpha[part] = some.unsigned(found.A[part])
                scores = found.scores[part] + found.offset
                gaps = some.row_gaps(scores, self.alpha[part])
                self.seen_gap[part] = np.minimum(gaps, _LARGEST_GAP)
            self.w[:] = found.combined
            self.offset[1] = float(found.A.sum())
            if problem.intercept is Intercept.FREE:
                self.offset[0] = found.offset
        self.passes += 1
        self.checked_at = self.passes
        certificate = certificate_of(self.best_primal, found.dual)
        if np.isfinite(self.predicted) and self.predicted > 0.0:
            off = certificate.gap / self.predicted
            self.optimism = float(np.clip(self.optimism * off, 0.01, 20.0))
        monitor.check(certificate, self.best, active)


class Reader:
    """A thread that prefetches blocks of rows, pass after pass.

    Use it as a context manager. `busy` is the time in seconds that it spent reading.
    """

    def __init__(self, rows: BlockRows):
        self.rows = rows
        self.queue: Queue = Queue(_BLOCKS_AHEAD)
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._read, name="reader", daemon=True)
        self.busy = 0.0

    def __enter__(self) -> "Reader":
        self.thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stopped.set()
        self.thread.join()

    def take(self, timeout: float) -> Any:
        """Return the next block, END_OF_PASS, or None if there is none within `timeout` seconds.

        Errors of the thread are raised here.
        """
        try:
            item = self.queue.get(timeout=timeout) if timeout else self.queue.get_nowait()
        except Empty:
            return None
        if isinstance(item, BaseException):
            raise item
        return item

    def _read(self) -> None:
        try:
            while not self.stopped.is_set():
                blocks = iter(self.rows.blocks())
                while True:
                    began = time.perf_counter()
                    block = next(blocks, END_OF_PASS)
                    self.busy += time.perf_counter() - began
                    if not self._put(block):
                        return
                    if block is END_OF_PASS:
                        break
        except BaseException as error:
            self._put(error)

    def _put(self, item: Any) -> bool:
        """Wait for room in the queue; return False if the thread has to stop."""
        while not self.stopped.is_set():
            try:
                self.queue.put(item, timeout=0.05)
                return True
            except Full:
                continue
        return False


END_OF_PASS = object()
