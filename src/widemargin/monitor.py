"""When to stop, and what to record: tolerance, limits, Ctrl-C, history.

A solver asks its `Monitor` two questions. Between kernel calls, ``monitor.must_stop()``: is
the time up, or was Ctrl-C pressed? At each gap check, ``monitor.check(...)``: is the certificate
good enough, or are the iterations used up?
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, NoReturn

from widemargin.certificate import Certificate
from widemargin.kernels.jit import clock

# A killed run loses at most this much time, and the time of its last save.
_SECONDS_BETWEEN_SAVES = 20.0
# A run stops with status "rounding" if the rest of the gap is this fraction of its rounding error.
_OF_ROUNDING = 0.1


#: statuses of runs that stopped before their tolerance, other than by Ctrl-C or a callback
FELL_SHORT = ("max_iter", "max_time", "rounding", "inconsistent")
#: statuses of runs that ended as they should: by the certified gap, or by a paper's own rule
DONE = ("converged", "published")
#: all that a run can end with
STATUSES = (*DONE, "interrupted", "callback", *FELL_SHORT)


@dataclass(frozen=True)
class Record:
    """One gap check of one problem.

    Attributes
    ----------
    problem : int
        Which class; 0 for two-class problems.
    time : float
        Seconds since the fit began.
    iteration : float
        Passes over the rows so far (visits / rows), or iterations.
    primal, dual, gap : float
        The best so far.
    active_rows : int
        Rows of the last pass; of cutting planes, rows that have a loss.
    phases : dict of str to float
        Seconds spent, by phase.
    disk_passes : int
        How often all rows were read from disk since the fit began, for all problems.
    network_bytes : int
        Bytes sent to all workers of a cluster and back.
    """

    problem: int
    time: float
    iteration: float
    primal: float
    dual: float
    gap: float
    active_rows: int
    phases: dict[str, float] = field(default_factory=dict)
    disk_passes: int = 0
    network_bytes: int = 0

    @property
    def relative_gap(self) -> float:
        """The gap as a fraction of the primal value."""
        return Certificate(self.primal, self.dual).relative_gap


def raise_out_of_range(primal: float, dual: float) -> NoReturn:
    """Raise FloatingPointError: an objective or its lower bound is not finite."""
    raise FloatingPointError(
        f"training left the range of float64: the objective is {primal:g}, its lower bound "
        f"{dual:g}. Scale the features, or use smaller C and weights."
    )


class Interruption:
    """A flag that Ctrl-C sets while `watching`; a second Ctrl-C interrupts as usual."""

    def __init__(self) -> None:
        self.requested = False

    @contextmanager
    def watching(self) -> Iterator["Interruption"]:
        """Handle SIGINT if this is the main thread: only that one receives signals."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        previous = signal.getsignal(signal.SIGINT)
        if previous is not signal.default_int_handler:
            # Ctrl-C already has a handler, or is ignored: that is not to be changed.
            yield self
            return

        def request(signum: int, frame: FrameType | None) -> None:
            if self.requested:
                raise KeyboardInterrupt
            self.requested = True

        signal.signal(signal.SIGINT, request)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, previous)


class Phase:
    """A context that adds the time spent inside to seconds[name].

    It is a class because each pass uses one: a generator would take three times as long.
    """

    def __init__(self, seconds: dict[str, float], name: str):
        self.seconds, self.name = seconds, name

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *exception: object) -> None:
        took = time.perf_counter() - self.began
        self.seconds[self.name] = self.seconds.get(self.name, 0.0) + took


@dataclass(eq=False)
class Monitor:
    """Decides when to stop one problem, and records its history."""

    tol: float  # certified relative duality gap to reach
    max_iter: float
    #: seconds for this problem, from now on, by a clock that does not count compilation
    max_time: float | None = None
    interruption: Interruption = field(default_factory=Interruption)
    #: called with (Record, State) after each gap check; True asks the solver to stop
    on_check: Callable | None = None
    problem: int = 0  # written into each record
    #: the clock reading that history counts from
    started: float = field(default_factory=time.perf_counter)
    #: called with the state from time to time, for checkpoints
    save: Callable | None = None
    #: how often all rows were read from disk
    times_read: Callable[[], int] = int  # int() is zero

    def __post_init__(self) -> None:
        self.deadline = None if self.max_time is None else clock() + self.max_time
        self.saved_at = time.perf_counter()
        self.history: list[Record] = []
        self.phases: dict[str, float] = {}
        self.iteration = 0.0
        self.handed_over_to = ""  # the solver that took over when another one was stuck
        self.network_bytes = 0
        self.status = "running"
        self.certificate: Certificate | None = None

    def phase(self, name: str) -> Phase:
        """Return a context that adds the time spent inside to `phases[name]`."""
        return Phase(self.phases, name)

    def save_now_and_then(self, state: Any) -> None:
        """Save `state`, if that was not done lately."""
        if self.save is None:
            return
        now = time.perf_counter()
        if now - self.saved_at >= _SECONDS_BETWEEN_SAVES:
            self.save(state)
            self.saved_at = time.perf_counter()

    def must_stop(self) -> bool:
        """Return whether to stop at once: time is up, or the user interrupts."""
        if self.status == "running":
            if self.interruption.requested:
                self.status = "interrupted"
            elif self.deadline is not None and clock() >= self.deadline:
                self.status = "max_time"
            elif self.iteration >= self.max_iter:
                self.status = "max_iter"
        return self.status != "running"

    def settle(self, certificate: Certificate) -> None:
        """Replace the estimate of the last check by a certificate."""
        self.certificate = certificate
        self.history[-1] = replace(
            self.history[-1],
            primal=certificate.primal,
            dual=certificate.dual,
            gap=certificate.gap,
        )

    def check(
        self, certificate: Certificate, state: Any, active_rows: int, rule: bool | None = None
    ) -> bool:
        """Record a gap check of `state`; return whether to stop.

        `rule` is whether a paper's own stopping rule holds, for solvers that stop by one; None
        for those that stop by the certified gap.
        """
        self.certificate = certificate
        record = Record(
            problem=self.problem,
            time=time.perf_counter() - self.started,
            iteration=self.iteration,
            primal=certificate.primal,
            dual=certificate.dual,
            gap=certificate.gap,
            active_rows=active_rows,
            phases=dict(self.phases),
            disk_passes=self.times_read(),
            network_bytes=self.network_bytes,
        )
        self.history.append(record)
        asked_to_stop = self.on_check is not None and self.on_check(record, state)
        if not (math.isfinite(certificate.primal) and math.isfinite(certificate.dual)):
            raise_out_of_range(certificate.primal, certificate.dual)
        rounding = certificate.rounding
        if certificate.gap < 0.0:
            self.status = "inconsistent"
        elif certificate.relative_gap <= self.tol if rule is None else rule:
            self.status = "converged" if rule is None else "published"
        elif rule is None and certificate.gap - rounding <= _OF_ROUNDING * rounding:
            self.status = "rounding"
        elif asked_to_stop:
            self.status = "callback"
        return self.must_stop()


class Leg(Monitor):
    """The monitor of a solver that does a part of the work for another monitor.

    Its status is "max_iter" when its part is over, and that of the other monitor when that one
    says stop. History and phases are those of the other one.

    Parameters
    ----------
    whole : Monitor
    most : float
        Most iterations of this part.
    is_over : callable or None
        Called with iterations and relative gap at each check: whether the part is over.
    """

    def __init__(
        self,
        whole: Monitor,
        most: float = math.inf,
        is_over: Callable[[float, float], bool] | None = None,
    ):
        super().__init__(whole.tol, whole.max_iter, interruption=whole.interruption)
        self.whole, self.before, self.is_over = whole, whole.iteration, is_over
        self.max_iter = min(most, whole.max_iter - whole.iteration)
        self.history, self.phases = whole.history, whole.phases
        self.save, self.times_read = whole.save, whole.times_read

    @property
    def relative_gap(self) -> float:
        """The relative gap found by the last check."""
        return 1.0 if self.certificate is None else self.certificate.relative_gap

    def must_stop(self) -> bool:
        self.whole.iteration = self.before + self.iteration
        if self.whole.must_stop():
            self.status = self.whole.status
        elif self.iteration >= self.max_iter:
            self.status = "max_iter"
        return self.status != "running"

    def check(
        self, certificate: Certificate, state: Any, active_rows: int, rule: bool | None = None
    ) -> bool:
        self.certificate = certificate
        self.whole.iteration = self.before + self.iteration
        self.whole.check(certificate, state, active_rows, rule)
        if self.is_over is not None and self.is_over(self.iteration, certificate.relative_gap):
            self.status = "max_iter"
        return self.must_stop()

    def settle(self, certificate: Certificate) -> None:
        self.certificate = certificate
        self.whole.settle(certificate)
