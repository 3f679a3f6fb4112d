"""Coordinate descent, with Newton's method in between where it would take very long.

Which of them is faster depends on what is known only during a run: how strongly the rows between
their bounds are coupled. Coordinate descent begins. Its relative gap falls by about the same
factor from pass to pass, so that the passes left can be predicted. If they are many, Newton's
method goes on from the best points so far, and may take a part of the time predicted. If it does
not arrive, coordinate descent goes on from the best points of both. Another attempt has to be
twice as long. With many features and a kink in the loss, no attempt is made: conjugate gradients
then take too many steps.

All limits are numbers of passes, not seconds: the same seed gives the same bits.
"""

import math
from dataclasses import dataclass, replace

from widemargin.monitor import Leg, Monitor
from widemargin.problem import Problem, State
from widemargin.solvers.base import Solver
from widemargin.solvers.choice_settings import RelaySettings
from widemargin.solvers.coordinate import CoordinateDescent
from widemargin.solvers.newton import Newton
from widemargin.solvers.newton_settings import NewtonSettings


class _Pace:
    """How fast the relative gap falls, and what that says of the passes left."""

    def __init__(self, tol: float, pass_of_newton: float, settings: RelaySettings):
        self.tol, self.pass_of_newton, self.settings = tol, pass_of_newton, settings
        self.next_look, self.seen_at, self.seen_gap = settings.first_look, 0.0, 1.0
        self.attempt = self.last_attempt = 0.0  # Newton's iterations

    def is_slow(self, now: float, gap: float) -> bool:
        """Return whether to try Newton's method after `now` passes, for `attempt` iterations."""
        if now < self.next_look:
            return False
        settings = self.settings
        fell = math.log(self.seen_gap / gap) if 0.0 < gap < self.seen_gap else 0.0
        wanted = math.log(gap / self.tol) if gap > self.tol else 0.0
        left = settings.most_left * now
        if fell > 0.0:
            left = min(left, wanted * (now - self.seen_at) / fell)
        self.next_look, self.seen_at, self.seen_gap = settings.growth * now, now, gap
        self.attempt = settings.part_of_passes_left * left / self.pass_of_newton
        return self.attempt >= max(settings.fewest_iterations, 2.0 * self.last_attempt)

    def tried(self, gap: float) -> None:
        """An attempt has ended, and coordinate descent begins again."""
        self.last_attempt, self.seen_at, self.seen_gap = self.attempt, 0.0, gap
        self.next_look = self.settings.first_look


@dataclass(frozen=True)
class Relay(Solver):
    """Solver for margin risks over rows in memory: `auto` takes it where it says "acf".

    Parameters
    ----------
    seed : int
    settings : RelaySettings
    newton : NewtonSettings
    """

    seed: int = 0
    settings: RelaySettings = RelaySettings()
    newton: NewtonSettings = NewtonSettings()

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified."""
        # The primal point of coordinate descent is not as near as its gap says.
        far = replace(self.newton, warm_fraction=self.settings.smoothing)
        descent, newton = CoordinateDescent("acf", self.seed), Newton(self.seed, far)
        n_features, per_iteration = problem.rows.n_features, 1.0
        if n_features <= far.cholesky_features:
            per_iteration += n_features / self.settings.features_per_pass
        elif not problem.risk.loss.is_smooth:
            return descent.solve(problem, state, monitor)
        pace = _Pace(monitor.tol, per_iteration, self.settings)
        while True:
            state = descent.solve(problem, state, Leg(monitor, is_over=pace.is_slow))
            if monitor.must_stop():
                return state
            monitor.handed_over_to = "newton"
            leg = Leg(monitor, pace.attempt)
            state = newton.solve(problem, state, leg)
            if monitor.must_stop():
                return state
            pace.tried(leg.relative_gap)
