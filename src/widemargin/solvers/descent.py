"""Common parts of two-class and multi-class coordinate descent: when to check, the best points.

Passes change dual variables and update w. A check certifies the current point, and replaces the
updated numbers by exact ones.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from widemargin.certificate import certificate_of
from widemargin.data.rows import SingleRows
from widemargin.monitor import Monitor, raise_out_of_range
from widemargin.problem import Problem, State
from widemargin.risk import Bound
from widemargin.solvers.base import Solver
from widemargin.solvers.forecast import Forecast
from widemargin.solvers.multiple import improved
from widemargin.solvers.settings import CoordinateSettings

# Far enough from the largest number of single precision for what happens between two checks.
_LARGEST = 1e30


def fits_single(largest_square: float, at_zero: float) -> bool:
    """Return whether w and the scores surely stay in the range of single precision.

    While the dual value is above zero, |w|^2 / 2 is at most the sum of losses at scores of zero,
    and no score is larger than |w| |x|.

    Parameters
    ----------
    largest_square : float
        The largest |x|^2.
    at_zero : float
        `RowRisk.at_zero`.
    """
    return max(largest_square, at_zero, largest_square * at_zero) < _LARGEST


@dataclass(frozen=True)
class DescentSolver(Solver):
    """Solver over rows in memory.

    Parameters
    ----------
    schedule : {"dcd", "acf"}
    seed : int
        Seed of the order of visits.
    settings : CoordinateSettings
    """

    schedule: str = "acf"
    seed: int = 0
    settings: CoordinateSettings = CoordinateSettings()

    #: makes a run: (problem, state, monitor, solver) -> Descent
    descent: ClassVar[Callable[..., "Descent"]]

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified."""
        SingleRows.require(problem.rows, f"solver {self.schedule!r}")
        return self.descent(problem, state, monitor, self).run()


class Counts(Protocol):
    """What a run knows of its schedule: how many rows the last pass had."""

    @property
    def last_count(self) -> int: ...


class Descent(ABC):
    """One run: the best points so far, and the forecast of the next check.

    Subclasses have a schedule and a forecast.
    """

    schedule: Counts
    forecast: Forecast

    def __init__(
        self, problem: Problem, state: State, monitor: Monitor, settings: CoordinateSettings
    ):
        self.problem, self.monitor, self.settings = problem, monitor, settings
        # Each row's contribution to the gap when last visited. The sum is an estimate of the gap,
        # a little out of date.
        self.seen_gap = np.empty(0)
        self.best = State(state.coef, state.offset, state.dual)
        self.best_primal, self.best_dual = Bound(np.inf, 0.0), Bound(-np.inf, 0.0)

    def _forecast(self, n_counted: int, n_entries: int, **more: Any) -> Forecast:
        """Return the forecast, where so many rows count."""
        rows, cost, monitor = self.problem.rows, self.problem.risk.cost, self.monitor
        pull = float(cost @ rows.squared_norms()) / max(1, cost.size)
        sizes = n_counted, n_entries, pull
        return Forecast(self.settings.checks, monitor.tol, monitor.max_iter, *sizes, **more)

    @abstractmethod
    def _advance(self) -> bool:
        """Visit rows, for up to a tenth of a second or so; return whether a check is due."""

    @abstractmethod
    def _check(self) -> None:
        """Certify the current point, replace updated numbers by exact ones, keep the best."""

    def _first_check(self) -> None:
        self._check()

    def run(self) -> State:
        monitor = self.monitor
        self._first_check()
        while monitor.status == "running":
            with monitor.phase("passes"):
                is_due = self._advance()
            if monitor.must_stop() or is_due:
                self._check()
        return self.best

    def _remember(
        self,
        coef: np.ndarray,
        offset: Any,
        scores: np.ndarray,
        primal: Bound,
        alpha: np.ndarray,
        dual: Bound,
    ) -> None:
        """Keep the better primal point, with scores X coef, and the better dual variables."""
        if math.isnan(primal.value) or math.isnan(dual.value):
            raise_out_of_range(primal.value, dual.value)
        if dual.value > self.best_dual.value:
            self.best_dual = dual
            self.best.dual = alpha
        if self.settings.checks.tries_multiples:
            coef, offset, primal = improved(
                self.problem, coef, offset, scores, primal, self.best_dual, self.monitor.tol
            )
        if primal.value < self.best_primal.value:
            self.best_primal = primal
            self.best.coef, self.best.offset = coef, offset

    def _report(self) -> None:
        """Report the best points to the monitor, and learn from the prediction's error."""
        certificate = certificate_of(self.best_primal, self.best_dual)
        self.monitor.check(certificate, self.best, self.schedule.last_count)
        self.forecast.learn(certificate.gap, float(self.seen_gap.sum()))
        self.forecast.likely_primal = certificate.primal

    @property
    def _single_will_do(self) -> bool:
        """Whether w may be in single precision: random access to it takes half the time.

        At every check the exact w replaces it.
        """
        rows = self.problem.rows
        if (
            rows.dtype != np.float32
            or self.monitor.tol < self.settings.checks.single_precision_tol
        ):
            return False
        return fits_single(float(rows.squared_norms().max(initial=0.0)), self.problem.risk.at_zero)

    def _is_blurred(self, w_w: float, w_scores: float, primal: float) -> bool:
        """Return whether the tracked w differs too much from the w of alpha.

        `w_scores`, the dual variables times the scores of w, would be w.w without this difference.
        The dual value is off by as much.
        """
        blur_allowed = self.settings.checks.blur_allowed
        allowed = blur_allowed * self.monitor.tol * min(primal, self.best_primal.value)
        return abs(w_w - w_scores) > allowed
