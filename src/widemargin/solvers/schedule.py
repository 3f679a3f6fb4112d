"""The order in which coordinate descent visits rows.

A schedule has the arrays by which compiled runs decide which rows a pass visits, and which they
change as they learn from visits: see kernels/descent.py. The steps are the same for both.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from widemargin.kernels import coordinate as visits
from widemargin.kernels import descent as kernels
from widemargin.kernels.coordinate import OFFSET, SMALLEST, TOO_LARGE
from widemargin.kernels.descent import N_ACTIVE, TALLY_SIZE, TOO_SMALL
from widemargin.solvers.settings import VisitSettings


class Schedule:
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
    #: the least and the most passes between two checks
    pauses: ClassVar[tuple[float, float]]
    #: the compiled run; its arguments `visits` and `numbers`
    kernel: ClassVar[Callable[..., int]]
    visited: tuple
    numbers: tuple

    def __init__(self, rows: np.ndarray, n_rows: int, seed: int, settings: VisitSettings):
        self.rows, self.order, self.settings = rows, rows.copy(), settings
        self.generator = random_bits(seed)
        self.place = np.zeros(2, dtype=np.intp)  # rows of the pass visited so far, and in all
        self.tally = np.zeros(TALLY_SIZE)

    @property
    def last_count(self) -> int:
        """How many rows the last pass has."""
        return int(self.place[1])

    def inform(self, inside: np.ndarray, at_bound: np.ndarray) -> None:
        """Learn where dual variables are at the start: masks over all rows, (n,)."""

    def activate(self, wanted: np.ndarray) -> None:
        """Reactivate the rows of the mask `wanted`, after a check of all rows."""
        raise NotImplementedError

    def run(self, *arguments: Any) -> int:
        """Make passes until a check is due, or for so many visits; see kernels/descent.py."""
        return self.kernel(*arguments, *self.visited, *self.numbers)


def random_bits(seed: int) -> np.ndarray:
    """Return the state of xorshift64, (1,), which must not be zero."""
    return np.array([2 * seed + 1], dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


class UniformSchedule(Schedule):
    """All active rows once a pass, with shrinking.

    A row that a visit finds at a bound, with nothing to gain, rests for the next two passes.
    """

    pauses = 0.0, 1.0
    kernel = staticmethod(kernels.uniform_run)

    def __init__(self, rows: np.ndarray, n_rows: int, seed: int, settings: VisitSettings):
        super().__init__(rows, n_rows, seed, settings)
        self.status = np.zeros(n_rows, dtype=np.uint8)
        self.active = rows.copy()
        self._start_with(rows)
        self.numbers = float(settings.overstep), int(settings.rest)
        self.visited = (
            rows, self.active, self.order, self.place, self.status, self.generator, self.tally
        )  # fmt: skip

    def _start_with(self, active: np.ndarray) -> None:
        """Make these rows active, and forget the thresholds for shrinking."""
        self.active[: active.size] = active
        self.status[:] = visits.DUE
        self.tally[N_ACTIVE], self.tally[OFFSET] = active.size, np.nan
        self.tally[TOO_LARGE], self.tally[TOO_SMALL] = np.inf, -np.inf

    def activate(self, wanted: np.ndarray) -> None:
        wanted = wanted.copy()
        wanted[self.active[: int(self.tally[N_ACTIVE])]] = True
        self._start_with(self.rows[wanted[self.rows]])


class Preferences:
    """How often rows are visited, and what is still owed to them.

    Parameters
    ----------
    rows, n_rows, seed, settings
        As of a schedule.
    """

    def __init__(self, rows: np.ndarray, n_rows: int, seed: int, settings: VisitSettings):
        self.settings = settings
        self.preference = np.zeros(n_rows)
        self.preference[rows] = 1.0
        # Credits start at random, so that rows of equal preference are not due in the same pass.
        self.credit = np.random.default_rng(seed).random(n_rows)
        self.least = settings.smallest_pass * rows.size

    def inform(self, inside: np.ndarray, at_bound: np.ndarray) -> None:
        """Learn where dual variables are at the start: masks over all rows, (n,)."""
        # Rows between their bounds have the most to gain. Few of those at zero will leave it.
        counted, settings = self.preference > 0.0, self.settings
        self.preference[counted] = settings.at_zero
        self.preference[counted & at_bound] = settings.at_bound
        self.preference[counted & inside] = settings.inside


class AdaptiveSchedule(Schedule):
    """Rows in proportion to preferences, which adapt to the gains of visits.

    A row whose step would move w far beyond its bound has preference zero. It is inactive, until a
    check of all rows finds that it has something to gain. (Gradients would tell less, if rows
    differ in norm.)
    """

    faces = True
    pauses = 1.0, np.inf
    kernel = staticmethod(kernels.adaptive_run)

    def __init__(self, rows: np.ndarray, n_rows: int, seed: int, settings: VisitSettings):
        super().__init__(rows, n_rows, seed, settings)
        self.preferences = Preferences(rows, n_rows, seed, settings)
        self.preference, self.credit = self.preferences.preference, self.preferences.credit
        self.informed = False  # before the first pass
        self.tally[TOO_LARGE] = self.tally[SMALLEST] = np.inf
        self.tally[OFFSET] = np.nan
        numbers = *settings.preferences, settings.pushed, settings.overstep
        self.numbers = (*map(float, numbers), float(self.preferences.least))
        self.visited = (
            rows, self.order, self.place, self.preference, self.credit, self.generator, self.tally
        )  # fmt: skip

    def inform(self, inside: np.ndarray, at_bound: np.ndarray) -> None:
        self.preferences.inform(inside, at_bound)
        self.informed = True

    def activate(self, wanted: np.ndarray) -> None:
        self.preference[wanted & (self.preference == 0.0)] = 1.0

    def run(self, *arguments: Any) -> int:
        if not self.informed:  # the first pass has all rows
            visits.shuffle(self.order, 0, self.rows.size, self.generator)
            self.place[1] = self.rows.size
            self.informed = True
        return super().run(*arguments)


SCHEDULES: dict[str, type[Schedule]] = {"dcd": UniformSchedule, "acf": AdaptiveSchedule}
