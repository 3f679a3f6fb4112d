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
from widemargin.solvers.multiple import improved
from widemargin.solvers.settings import CoordinateSettings


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

    last_count: int


class Descent(ABC):
    """One run: the best points so far, and the prediction of the next check.

    Subclasses have a schedule, and `n_counted` rows of positive cost.
    """

    schedule: Counts

    def __init__(
        self, problem: Problem, state: State, monitor: Monitor, settings: CoordinateSettings
    ):
        self.problem, self.monitor, self.settings = problem, monitor, settings
        # Each row's contribution to the gap when last visited. The sum is an estimate of the gap,
        # a little out of date. At alpha = 0 the contribution is the cost.
        self.seen_gap = np.array(problem.risk.cost)
        self.best = State(state.coef, state.offset, state.dual)
        self.best_primal, self.best_dual = Bound(np.inf, 0.0), Bound(-np.inf, 0.0)
        self.likely_primal = np.inf
        # The predicted gap, and the ratio of found to predicted gaps so far.
        self.predicted = np.inf
        self.optimism = 1.0
        self.checked_at = 0.0
        self.seen_then = np.inf  # the estimate of the gap at the last check
        pull = problem.risk.cost * problem.rows.squared_norms()
        checks = settings.checks
        large = float(pull.mean()) > checks.large_costs
        self.patience = checks.passes_if_costs_are_large if large else checks.passes

    @abstractmethod
    def _pass(self) -> int:
        """Visit the rows that the schedule names; return how many were visited."""

    @abstractmethod
    def _check(self) -> None:
        """Certify the current point, replace updated numbers by exact ones, keep the best."""

    @abstractmethod
    def _dual_estimate(self) -> float:
        """Return the dual value at the current point, up to rounding and imbalance."""

    def _first_check(self) -> None:
        self._check()

    def run(self) -> State:
        monitor = self.monitor
        self._first_check()
        while monitor.status == "running":
            with monitor.phase("passes"):
                visits = self._pass()
            if visits == 0 or monitor.must_stop() or self._worth_checking():
                self._check()
        return self.best

    def _worth_checking(self) -> bool:
        """Return whether a check is due; this takes a sum over the rows."""
        now = self.monitor.iteration
        since = now - self.checked_at
        if since < self._pause(now):
            return False
        self.predicted = self.optimism * self._gap_in_sight()
        if since >= max(self.patience, self.settings.checks.fraction * now):
            return True
        if not self._is_promising():
            return False
        # The estimate of the primal value may be far too high. A better one takes a sum over
        # features.
        self.likely_primal = self._dual_estimate() + self.predicted
        return self._is_promising()

    def _gap_in_sight(self) -> float:
        """Return an estimate of the gap that a check would find."""
        # Contributions are those just before each row's step: the gap is 0.6 to 1.0 of their sum.
        return float(self.seen_gap.sum())

    def _is_promising(self) -> bool:
        return self.predicted <= self.monitor.tol * self.likely_primal

    def _pause(self, now: float) -> float:
        """Return the least number of passes between two checks."""
        return min(1.0, 0.1 * now)

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
        self._learn(certificate.gap)
        self.likely_primal = certificate.primal

    def _learn(self, found: float) -> None:
        """Learn from a gap that was found how good the prediction was."""
        if np.isfinite(self.predicted) and self.predicted > 0.0:
            self.optimism = float(np.clip(self.optimism * found / self.predicted, 0.01, 20.0))
        self.checked_at = self.monitor.iteration
        self.seen_then = float(self.seen_gap.sum())

    @property
    def _single_will_do(self) -> bool:
        """Whether w may be in single precision: random access to it takes half the time.

        At every check the exact w replaces it.
        """
        single = self.problem.rows.dtype == np.float32
        return single and self.monitor.tol >= self.settings.checks.single_precision_tol

    def _is_blurred(self, w_w: float, w_scores: float, primal: float) -> bool:
        """Return whether the tracked w differs too much from the w of alpha.

        `w_scores`, the dual variables times the scores of w, would be w.w without this difference.
        The dual value is off by as much.
        """
        blur_allowed = self.settings.checks.blur_allowed
        allowed = blur_allowed * self.monitor.tol * min(primal, self.best_primal.value)
        return abs(w_w - w_scores) > allowed
