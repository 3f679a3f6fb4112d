"""When coordinate descent certifies its point: the forecast of a check."""

from collections.abc import Callable

import numpy as np

from widemargin.kernels import forecast as kernels
from widemargin.solvers.settings import CheckSettings

# What a check can teach about forecasts: how far the found gap may be from the predicted one.
_LEAST_OPTIMISM, _MOST_OPTIMISM = 0.01, 20.0


class Forecast:
    """The numbers of a forecast, `plan`, which compiled runs read and write.

    Parameters
    ----------
    settings : CheckSettings
    tol : float
    max_iter : float
    n_counted, n_entries : int
        Rows of positive cost, and numbers that a visit of all rows reads.
    mean_pull : float
        The mean of cost |x|^2.
    pauses : tuple of float
        The least and the most passes between two checks.
    """

    def __init__(
        self,
        settings: CheckSettings,
        tol: float,
        max_iter: float,
        n_counted: int,
        n_entries: int,
        mean_pull: float,
        pauses: tuple[float, float] = (0.0, 1.0),
    ):
        worth_it = settings.entries_between_checks / max(1, n_entries)
        patience = max(settings.passes, min(worth_it, settings.passes_if_small))
        if mean_pull > settings.large_costs:
            patience = settings.passes_if_costs_are_large
        self.plan = plan = np.zeros(kernels.PLAN_SIZE)
        plan[kernels.PREDICTED] = plan[kernels.LIKELY_PRIMAL] = np.inf
        plan[kernels.OPTIMISM] = plan[kernels.LEFT] = 1.0
        plan[kernels.VISITS_PER_PASS] = n_counted
        plan[kernels.TOL], plan[kernels.MOST_PASSES] = tol, max_iter
        plan[kernels.FRACTION] = settings.fraction
        plan[kernels.PATIENCE] = patience
        plan[kernels.PAUSE_GROWTH] = plan[kernels.LOOK_GROWTH] = settings.growth_between_looks
        plan[kernels.SHORTEST_PAUSE], plan[kernels.LONGEST_PAUSE] = pauses
        plan[kernels.PASSES_TO_LOOK] = settings.entries_between_looks / max(1, n_entries)
        self.seen_then = np.inf  # the estimate of the gap at the last check

    @property
    def predicted(self) -> float:
        """The gap that a check is predicted to find."""
        return float(self.plan[kernels.PREDICTED])

    @property
    def optimism(self) -> float:
        """The ratio of found to predicted gaps so far."""
        return float(self.plan[kernels.OPTIMISM])

    @property
    def now(self) -> float:
        """Passes so far."""
        return float(self.plan[kernels.NOW])

    @property
    def likely_primal(self) -> float:
        return float(self.plan[kernels.LIKELY_PRIMAL])

    @likely_primal.setter
    def likely_primal(self, value: float) -> None:
        self.plan[kernels.LIKELY_PRIMAL] = value

    @property
    def allowed(self) -> float:
        """The gap at which training ends, probably."""
        return float(self.plan[kernels.TOL]) * self.likely_primal

    @property
    def is_promising(self) -> bool:
        """Whether a check will probably succeed."""
        return self.predicted <= self.allowed

    def foresee_joint_steps(self, left: float, most_free: float) -> None:
        """A check may be preceded by a joint step, if there are no more than so many free rows.

        It leaves the part `left` of their contributions to the gap.
        """
        self.plan[kernels.LEFT], self.plan[kernels.MOST_FREE] = left, most_free

    def predict(self, seen: float) -> None:
        """Predict the gap from an estimate of it."""
        self.plan[kernels.PREDICTED] = self.optimism * seen

    def is_due(self, now: float, seen: float, dual: Callable[[], float]) -> bool:
        """Return whether to check after so many passes, for runs that are not compiled."""
        self.plan[kernels.NOW] = now
        may = kernels.may_check(self.plan, seen)
        if may == kernels.IF_PROMISING:
            return bool(kernels.is_promising(self.plan, dual()))
        return bool(may == kernels.DUE)

    def learn(self, found: float, seen: float) -> None:
        """Learn from the gap that a check found; `seen` estimates it before the next one."""
        predicted = self.predicted
        if np.isfinite(predicted) and predicted > 0.0:
            ratio = self.optimism * found / predicted
            self.plan[kernels.OPTIMISM] = min(max(ratio, _LEAST_OPTIMISM), _MOST_OPTIMISM)
        self.plan[kernels.CHECKED_AT] = self.plan[kernels.NOW]
        self.seen_then = seen
        kernels.plan_look(self.plan)
