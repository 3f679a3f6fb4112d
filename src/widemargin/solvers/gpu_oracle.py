"""An oracle for OCAS, two-class losses and rows on a GPU, which does not wait for the GPU.

A GPU is idle while the host waits for a number from it, decides, and starts the next kernel. So
the line search, the step, and the slope of the plane at its end are one kernel. The product of
that slope has begun when the host learns the step.
"""

from functools import cached_property
from typing import Any

import numpy as np

from widemargin import passes
from widemargin.arrays import move_to
from widemargin.monitor import Monitor
from widemargin.problem import Problem
from widemargin.risk import MarginRisk
from widemargin.solvers.line_search import Penalty
from widemargin.solvers.oracle import LONG_STEP, ROUNDING, Answer, Oracle, Place, Search


class PlaceAhead(Place):
    """A place on the way from another; its vector is computed when it is first needed.

    By then, the GPU has started the work that the next solution waits for.
    """

    def __init__(self, start: Any, step: float, ahead: Any, free: np.ndarray, scores: Any):
        self.start, self.step, self.ahead = start, step, ahead
        self.free, self.scores = free, scores

    @cached_property  # read only
    def vector(self) -> Any:  # type: ignore[override]
        return self.start + self.step * self.ahead


class GpuOracle(Oracle):
    """As `Oracle`; line searches are always exact."""

    def __init__(self, problem: Problem, monitor: Monitor):
        super().__init__(problem, monitor)
        self.guess = 0.1

    @staticmethod
    def can_answer(problem: Problem) -> bool:
        """Return whether there is a kernel for this problem's line search."""
        return problem.rows.device == "cuda" and isinstance(problem.risk, MarginRisk)

    def step(
        self,
        center: Place,
        target: Place,
        search: Search,
        instead_of_zero: float,
        plane_at: float,
    ) -> Answer:
        risk = self.problem.risk
        assert isinstance(risk, MarginRisk)
        self._add_scores(target, self._rounded(target))
        with self.monitor.phase("line search"):
            ahead, sums = passes.of(center.vector).way(center.vector, target.vector)
            moved = target.free - center.free
            slope, found = risk.walk(
                center.scores,
                target.scores,
                move_to(sums, center.scores),
                ROUNDING**2,
                moved.sum(),
                self.guess,
                instead_of_zero,
                plane_at,
            )
        with self.monitor.phase("planes"):
            a = self._combine(slope)
        with self.monitor.phase("line search"):
            step, (square, along, start), value, cut = found()
            penalty = Penalty(square, along, 0.5 * start)
            if step > 0.0:
                self.guess = step
            free = center.free + step * moved
            ahead = ahead if square > 0.0 else 0.0  # else it was rounding error, and not followed
            center = PlaceAhead(center.vector, step, ahead, free, center.scores)
        if step > LONG_STEP:
            return self.jump(center)._replace(step=step)
        with self.monitor.phase("planes"):
            plane = self._plane(a, slope, cut.constant, cut.code)
        return Answer(step, center, penalty.at(step) + value, plane, cut.active)
