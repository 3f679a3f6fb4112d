"""The order in which coordinate descent visits rows.

A schedule decides which rows a pass visits, and learns from the visits. The steps are made by the
kernels, and are the same for both schedules.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from widemargin.kernels import coordinate as kernels
from widemargin.solvers.settings import VisitSettings

# The place of `offset` among the kernels' arguments.
_OFFSET = 8


class _Schedule:
    """An order of visits.

    Parameters
    ----------
    rows : ndarray of shape (m,), uint32
        The rows that count.
    n_rows : int
        How many rows there are in all.
    seed : int
    settings : VisitSettings
    """

    #: whether joint steps for free dual variables are worth their cost
    faces: ClassVar[bool] = False

    def __init__(self, rows: np.ndarray, n_rows: int, seed: int, settings: VisitSettings):
        self.rows, self.order, self.settings = rows, rows.copy(), settings
        # The state of xorshift64 must not be zero.
        self.generator = np.array([2 * seed + 1], dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        self.last_count = rows.size

    def inform(self, inside: np.ndarray, at_bound: np.ndarray) -> None:
        """Learn where dual variables are at the start: masks over all rows, (n,)."""

    def _shuffled(self, count: int) -> np.ndarray:
        """Shuffle the first `count` of the order, and return them."""
        self.last_count = count
        kernels.shuffle(self.order, 0, count, self.generator)
        return self.order[:count]


class Shrinking(_Schedule):
    """Active rows; rows that have had nothing to gain for long are shrunk."""

    #: the largest move of the offsets of all classes
    largest: ClassVar[Callable[..., float]] = staticmethod(np.max)

    def __init__(self, rows: np.ndarray, n_rows: int, seed: int, settings: VisitSettings):
        super().__init__(rows, n_rows, seed, settings)
        self._bring_back_all()

    def _start_with(self, active: np.ndarray) -> None:
        self.active = active
        self.offset: Any = None  # the intercept when rows were first left out
        self._forget()

    def _forget(self) -> None:
        """Forget the thresholds for shrinking."""

    def activate(self, wanted: np.ndarray) -> None:
        """Reactivate the rows of the mask `wanted`, after a check of all rows."""
        wanted = wanted.copy()
        wanted[self.active] = True
        self._start_with(self.rows[wanted[self.rows]])

    def _bring_back_all(self) -> None:
        self._start_with(self.rows.copy())

    def _watch_offset(self, offset: Any, room: float) -> None:
        """Reactivate all rows once the intercept has moved by more than `room`.

        An inactive row was at least that far from having anything to gain. The intercept changes
        all scores by the same amount, and only rows that are visited can hold it back.
        """
        if self.offset is None:
            self.offset = offset
        elif self.largest(abs(offset - self.offset)) > room:
            self._bring_back_all()


class Preferred(_Schedule):
    """Rows in proportion to preferences."""

    def __init__(self, rows: np.ndarray, n_rows: int, seed: int, settings: VisitSettings):
        super().__init__(rows, n_rows, seed, settings)
        self.preference = np.zeros(n_rows)
        self.preference[rows] = 1.0
        self.informed = False  # before the first pass
        # Credits start at random, so that rows of equal preference are not due in the same pass.
        self.credit = np.random.default_rng(seed).random(n_rows)
        self.least = settings.smallest_pass * rows.size

    def inform(self, inside: np.ndarray, at_bound: np.ndarray) -> None:
        # Rows between their bounds have the most to gain. Few of those at zero will leave it.
        counted, settings = self.preference > 0.0, self.settings
        self.preference[counted] = settings.at_zero
        self.preference[counted & at_bound] = settings.at_bound
        self.preference[counted & inside] = settings.inside
        self.informed = True

    def activate(self, wanted: np.ndarray) -> None:
        """Do nothing."""

    def _compose(self) -> int:
        """Compose the order of a pass; return the number of its rows."""
        return kernels.adaptive_order(self.preference, self.credit, self.least, self.order)


# --- two classes: kernels that shrink, prefer and tally ----------------------------------------


class UniformSchedule(Shrinking):
    """All active rows once a pass, with shrinking.

    A row that a visit finds at a bound, with nothing to gain, rests for the next two passes.
    `block` rows that are neighbours in memory are visited together.
    """

    largest = staticmethod(float)  # there is only one offset

    def __init__(
        self, rows: np.ndarray, n_rows: int, seed: int, settings: VisitSettings, block: int
    ):
        self.status = np.empty(n_rows, dtype=np.uint8)
        super().__init__(rows, n_rows, seed, settings)
        self.block, self.tally = block, np.zeros(kernels.TALLY_SIZE)
        self.due = np.empty_like(rows)
        self.n_passes = 0

    def _forget(self) -> None:
        self.too_large, self.too_small = np.inf, -np.inf
        self.status[:] = kernels.DUE

    def run(
        self,
        arguments: tuple,
        absorbing: tuple[float, float],
        enough: int,
        rows_per_call: int,
        must_stop: Callable[[], bool],
    ) -> int:
        """Make one pass over the active rows that are due, whatever `enough` is.

        `absorbing` are K and `kept`, see absorbed.py. Return how many rows were visited.
        """
        tally = self.tally
        tally[kernels.LARGEST], tally[kernels.SMALLEST] = -np.inf, np.inf
        count = self._find_due()
        while count == 0 and self.active.size:  # all of them rest
            count = self._find_due()
        kernels.shuffle_blocks(self.due[:count], self.block, self.generator, self.order)
        self.last_count = count
        settings = self.settings
        is_first = self.n_passes < settings.first_passes
        overstep = settings.first_overstep if is_first else settings.overstep
        visits = 0
        for begin in range(0, count, rows_per_call):
            visits = min(begin + rows_per_call, count)
            kernels.uniform_pass(
                *arguments, self.order, begin, visits, self.status, settings.rest, self.too_large,
                self.too_small, overstep, tally,
            )  # fmt: skip
            if must_stop():
                break
        self.n_passes += 1
        largest, smallest = tally[kernels.LARGEST], tally[kernels.SMALLEST]
        self.too_large = largest if largest > 0.0 else np.inf
        self.too_small = smallest if smallest < 0.0 else -np.inf
        b, z, k = offset = arguments[_OFFSET]
        self._watch_offset(b + z * k, min(self.too_large, -self.too_small))
        K, kept = absorbing
        offset[0] = kept * (b + K * z)
        return visits

    def _find_due(self) -> int:
        """List the rows that are due, and drop shrunk ones; return how many are due."""
        n_active, n_due = kernels.due_rows(self.active, self.status, self.due)
        self.active = self.active[:n_active]
        return n_due


class AdaptiveSchedule(Preferred):
    """Rows in proportion to preferences, which adapt to the gains of visits.

    A row whose step would move w far beyond its bound has preference zero. It is inactive, until a
    check of all rows finds that it has something to gain. (Gradients would tell less, if rows
    differ in norm.) Only the first pass, which has all rows, visits blocks of neighbours: in later
    passes, blocks would cost several times the visits.
    """

    faces = True

    def __init__(
        self, rows: np.ndarray, n_rows: int, seed: int, settings: VisitSettings, block: int
    ):
        super().__init__(rows, n_rows, seed, settings)
        self.block, self.tally = block, np.zeros(kernels.TALLY_SIZE)
        self.place = np.zeros(2, dtype=np.intp)  # rows of the pass visited so far, and in all
        self.tally[kernels.TOO_LARGE] = self.tally[kernels.SMALLEST] = np.inf
        self.tally[kernels.OFFSET] = np.nan

    def activate(self, wanted: np.ndarray) -> None:
        """Reactivate the rows of the mask `wanted`, after a check of all rows."""
        self.preference[wanted & (self.preference == 0.0)] = 1.0

    def _bring_back_all(self) -> None:
        self.preference[self.rows[self.preference[self.rows] == 0.0]] = 1.0
        self.tally[kernels.SMALLEST], self.tally[kernels.OFFSET] = np.inf, np.nan

    def run(
        self,
        arguments: tuple,
        absorbing: tuple[float, float],
        enough: int,
        rows_per_call: int,
        must_stop: Callable[[], bool],
    ) -> int:
        """Make whole passes until `enough` rows were visited; return how many were.

        `absorbing` are K and `kept`, see absorbed.py.
        """
        m, tally, place, settings = self.rows.size, self.tally, self.place, self.settings
        first = tally[kernels.MEAN_GAIN] == 0.0
        if first:
            enough = 1  # the next pass needs the mean gain of this one
            if not self.informed:
                kernels.shuffle_blocks(self.rows, self.block, self.generator, self.order)
                place[:] = 0, m
                tally[kernels.GAIN] = tally[kernels.LARGEST] = 0.0
        visits = 0
        while True:
            some = kernels.adaptive_passes(
                *arguments, self.order, place, enough - visits, rows_per_call, self.preference,
                *settings.preferences, 1.0 / m, settings.pushed, settings.overstep, self.credit,
                self.least, self.generator, *absorbing, tally,
            )  # fmt: skip
            visits += some
            ended = place[0] == place[1]
            if some == 0 or (ended and tally[kernels.DRIFT] > tally[kernels.SMALLEST]):
                self._bring_back_all()
                break
            if (ended and visits >= enough) or must_stop():
                break
        self.last_count = int(place[1])
        if first:
            # If nothing was gained there is no mean gain: the next pass is like the first.
            tally[kernels.MEAN_GAIN] = tally[kernels.GAIN] / max(1, visits)
        return visits


SCHEDULES: dict[str, type[UniformSchedule] | type[AdaptiveSchedule]] = {
    "dcd": UniformSchedule,
    "acf": AdaptiveSchedule,
}
