"""What both methods of dual coordinate descent share: when to check, and what to remember.

Passes change dual variables and track w; a check certifies where they have led to, and puts exact
numbers in place of those tracked.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from widemargin.certificate import certificate_of
from widemargin.data.rows import SingleRows
from widemargin.monitor import Monitor, raise_out_of_range
from widemargin.problem import Problem, State
from widemargin.risk import Bound
from widemargin.solvers.base import Solver
from widemargin.solvers.multiple import improved

# A gap check costs about two passes over all rows. It is made when the gap seen in passing
# promises that it will succeed; in any case after so many passes that they have grown by this
# share since the last check, and are at least this many: fewer where costs are more than so many
# times the longest step. There a point's best multiple is much better than the point itself,
# which only a check tells.
_FRACTION_BETWEEN_CHECKS = 0.3
_PASSES_BETWEEN_CHECKS, _WHERE_COSTS_ARE_LARGE = 20.0, 10.0
_LARGE_COSTS = 50.0

#: below this tolerance w is kept in double precision from the start
SINGLE_PRECISION_TOL = 1e-5
# Single precision is given up once it blurs the dual value by this fraction of the gap allowed.
_BLUR_ALLOWED = 0.05


@dataclass(frozen=True)
class DescentSolver(Solver):
    """Solver over rows in memory.

    Parameters
    ----------
    schedule : {"dcd", "acf"}
    seed : int
        Of the order in which rows are visited.
    """

    schedule: str = "acf"
    seed: int = 0

    #: (problem, state, monitor, schedule, seed) -> what one run of it is
    descent: ClassVar[Callable[..., "Descent"]]

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified."""
        SingleRows.require(problem.rows, f"solver {self.schedule!r}")
        return self.descent(problem, state, monitor, self.schedule, self.seed).run()


class Descent(ABC):
    """One run: the best points seen, and what is expected of the next check.

    Classes below have a schedule, and `n_counted` rows of positive cost.
    """

    def __init__(self, problem, state, monitor):
        self.problem, self.monitor = problem, monitor
        # Each row's share of the gap when last visited: their sum is the gap, a little out of
        # date. At alpha = 0 it is the cost.
        self.seen_gap = np.array(problem.risk.cost)
        self.best = State(state.coef, state.offset, state.dual)
        self.best_primal, self.best_dual = Bound(np.inf, 0.0), Bound(-np.inf, 0.0)
        self.likely_primal = np.inf
        # What the gap was expected to be, and how far from it the last check was.
        self.predicted = np.inf
        self.optimism = 1.0
        self.checked_at = 0.0
        self.seen_then = np.inf  # the gap seen in passing, at the last check
        pull = problem.risk.cost * problem.rows.squared_norms()
        large = float(pull.mean()) > _LARGE_COSTS
        self.patience = _WHERE_COSTS_ARE_LARGE if large else _PASSES_BETWEEN_CHECKS

    @abstractmethod
    def _pass(self) -> int:
        """Visit the rows that the schedule names; return how many were visited."""

    @abstractmethod
    def _check(self) -> None:
        """Certify the current point, put exact numbers in place, remember the best."""

    @abstractmethod
    def _dual_estimate(self) -> float:
        """Return the dual value at the current point, up to rounding and imbalance."""

    def _first_check(self):
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

    def _worth_checking(self):
        """Tell, at the price of a sum over rows, whether a check would succeed."""
        now = self.monitor.iteration
        since = now - self.checked_at
        if since < self._pause(now):
            return False
        self.predicted = self.optimism * self._gap_in_sight()
        if since >= max(self.patience, _FRACTION_BETWEEN_CHECKS * now):
            return True
        if not self._is_promising():
            return False
        # Likely values may be far too high still, and better ones cost a sum over features.
        self.likely_primal = self._dual_estimate() + self.predicted
        return self._is_promising()

    def _gap_in_sight(self):
        """Return about what a check would find, by what was seen in passing."""
        # Seen just before each row was mended: the gap itself is 0.6 to 1.0 of the sum.
        return float(self.seen_gap.sum())

    def _is_promising(self):
        return self.predicted <= self.monitor.tol * self.likely_primal

    def _pause(self, now):
        """Return how many passes there should be from one check to the next, at the least."""
        return min(1.0, 0.1 * now)

    def _remember(self, coef, offset, scores, primal, alpha, dual):
        """Keep the better of each: a primal point, of scores X coef, and dual variables."""
        if math.isnan(primal.value) or math.isnan(dual.value):
            raise_out_of_range(primal.value, dual.value)
        if dual.value > self.best_dual.value:
            self.best_dual = dual
            self.best.dual = alpha
        coef, offset, primal = improved(
            self.problem, coef, offset, scores, primal, self.best_dual, self.monitor.tol
        )
        if primal.value < self.best_primal.value:
            self.best_primal = primal
            self.best.coef, self.best.offset = coef, offset

    def _report(self):
        """Tell the monitor of the best points, and learn how well the gap was foreseen."""
        certificate = certificate_of(self.best_primal, self.best_dual)
        self.monitor.check(certificate, self.best, self.schedule.last_count)
        self._learn(certificate.gap)
        self.likely_primal = certificate.primal

    def _learn(self, found):
        """Learn how well a gap was foreseen that has been found, and when that was."""
        if np.isfinite(self.predicted) and self.predicted > 0.0:
            self.optimism = float(np.clip(self.optimism * found / self.predicted, 0.01, 20.0))
        self.checked_at = self.monitor.iteration
        self.seen_then = float(self.seen_gap.sum())

    @property
    def _single_will_do(self):
        """Whether w may be single: that halves what random access to it costs, and the exact w
        is put in its place at every check."""
        single = self.problem.rows.dtype == np.float32
        return single and self.monitor.tol >= SINGLE_PRECISION_TOL

    def _is_blurred(self, w_w, w_scores, primal):
        """Return whether the w tracked differs too much from that of alpha.

        `w_scores`, the dual variables times the scores of w, is w.w but for that difference, and
        blurs the dual value as much.
        """
        allowed = _BLUR_ALLOWED * self.monitor.tol * min(primal, self.best_primal.value)
        return abs(w_w - w_scores) > allowed
