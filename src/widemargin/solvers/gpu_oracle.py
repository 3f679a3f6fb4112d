"""Answers to OCAS from two-class losses of rows on a GPU, which is not waited for in between.

A GPU does nothing while the host waits for a number from it, thinks, and sends for more. So the
search for a step, the step, and the slope of the plane at its end are one kernel, and the product
of that slope has begun when the host learns what the step was.
"""

from functools import cached_property

from widemargin import passes
from widemargin.arrays import move_to
from widemargin.monitor import Monitor
from widemargin.problem import Problem
from widemargin.risk import MarginRisk
from widemargin.solvers.line_search import Penalty
from widemargin.solvers.oracle import LONG_STEP, PLANE_AT, ROUNDING, Answer, Oracle, Place


class PlaceAhead(Place):
    """A place on the way from another; its vector is made when it is first asked for.

    By then a GPU has begun with what the next solution waits for.
    """

    def __init__(self, start, step, ahead, free, scores):
        self.start, self.step, self.ahead = start, step, ahead
        self.free, self.scores = free, scores

    @cached_property
    def vector(self):
        return self.start + self.step * self.ahead


class GpuOracle(Oracle):
    """As `Oracle`; steps are exact, whatever is asked for."""

    def __init__(self, problem: Problem, monitor: Monitor):
        super().__init__(problem, monitor)
        self.guess = 0.1

    @staticmethod
    def can_answer(problem: Problem) -> bool:
        """Return whether there is a kernel for this problem's steps."""
        return problem.rows.device == "cuda" and isinstance(problem.risk, MarginRisk)

    def step(self, center, target, search, instead_of_zero) -> Answer:
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
                PLANE_AT,
            )
        with self.monitor.phase("planes"):
            a = self._combine(slope)
        with self.monitor.phase("line search"):
            step, (square, along, start), value, cut = found()
            penalty = Penalty(square, along, 0.5 * start)
            if step > 0.0:
                self.guess = step
            free = center.free + step * moved
            ahead = ahead if square > 0.0 else 0.0  # else it is rounding, which nobody followed
            center = PlaceAhead(center.vector, step, ahead, free, center.scores)
        if step > LONG_STEP:
            return self.jump(center)._replace(step=step)
        with self.monitor.phase("planes"):
            plane = self._plane(a, slope, cut.constant, cut.code)
        return Answer(step, center, penalty.at(step) + value, plane, cut.active)
