"""When to stop, and what to remember: tolerance, limits, Ctrl-C, history.

A solver asks its `Monitor` two things. Between kernel calls, ``monitor.must_stop()``: has
time run out, has somebody pressed Ctrl-C? At each gap check, ``monitor.check(...)``: is the
proof good enough, are there iterations left? Everything else is the solver's own business.
"""

import math
import signal
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NoReturn

from widemargin.certificate import Certificate
from widemargin.kernels.jit import clock

# A killed run loses this much time at most, and what its last save took.
_SECONDS_BETWEEN_SAVES = 20.0
# A gap is as small as rounding lets it be, once what else there is of it is this fraction of that.
_OF_ROUNDING = 0.1


#: why a run stopped that did not get as far as it was asked to, and that nobody stopped
FELL_SHORT = ("max_iter", "max_time", "rounding", "inconsistent")


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
        Times that all rows were read from disk since the fit began, for whichever problem.
    network_bytes : int
        Sent to all workers of a cluster and back.
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
    """Raise FloatingPointError: an objective, or its lower bound, is no finite number."""
    raise FloatingPointError(
        f"training left the range of float64: the objective is {primal:g}, its lower bound "
        f"{dual:g}. Scale the features, or use smaller C and weights."
    )


class Interruption:
    """A flag that Ctrl-C raises while `watching`; a second Ctrl-C interrupts as usual."""

    def __init__(self):
        self.requested = False

    @contextmanager
    def watching(self):
        """Take over SIGINT, where this thread may: only the main one receives signals."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        previous = signal.getsignal(signal.SIGINT)
        if previous is not signal.default_int_handler:
            # Somebody handles Ctrl-C already (or ignores it): that is theirs to decide.
            yield self
            return

        def request(signum, frame):
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

    A class, since there is one for every pass: a generator would take three times as long.
    """

    def __init__(self, seconds: dict[str, float], name: str):
        self.seconds, self.name = seconds, name

    def __enter__(self):
        self.began = time.perf_counter()

    def __exit__(self, *exception):
        took = time.perf_counter() - self.began
        self.seconds[self.name] = self.seconds.get(self.name, 0.0) + took


class Monitor:
    """Watches one problem.

    Parameters
    ----------
    tol : float
        Certified relative duality gap to reach.
    max_iter : int
        Passes over the rows.
    max_time : float or None
        Seconds for this problem, counted from now, by a clock that leaves out compilation.
    interruption : Interruption or None
    on_check : callable(Record, State) -> bool or None
        Called after each gap check; True asks the solver to stop.
    problem : int
        Written into each record.
    started : float or None
        The clock reading that history counts from; now, by default.
    save : callable(State) or None
        Given the state now and then, to be kept for a run that goes on from it.
    times_read : callable() -> int or None
        Tells how often all rows were read from disk so far; None where they are not there.
    """

    def __init__(
        self,
        tol: float,
        max_iter: int,
        max_time: float | None = None,
        interruption: Interruption | None = None,
        on_check: Callable | None = None,
        problem: int = 0,
        started: float | None = None,
        save: Callable | None = None,
        times_read: Callable[[], int] | None = None,
    ):
        now = time.perf_counter()
        self.tol = tol
        self.max_iter = max_iter
        self.deadline = None if max_time is None else clock() + max_time
        self.interruption = interruption or Interruption()
        self.on_check = on_check
        self.problem = problem
        self.started = now if started is None else started
        self.save, self.saved_at = save, now
        self.history: list[Record] = []
        self.phases: dict[str, float] = {}
        self.iteration = 0.0
        self.times_read = times_read or (lambda: 0)
        self.handed_over_to = ""  # the solver that went on where another one was stuck
        self.network_bytes = 0
        self.status = "running"
        self.certificate: Certificate | None = None

    def phase(self, name: str) -> Phase:
        """Add the time spent inside to `phases[name]`."""
        return Phase(self.phases, name)

    def save_now_and_then(self, state) -> None:
        """Hand out `state` to be saved, if that was not done lately."""
        if self.save is None:
            return
        now = time.perf_counter()
        if now - self.saved_at >= _SECONDS_BETWEEN_SAVES:
            self.save(state)
            self.saved_at = time.perf_counter()

    def must_stop(self) -> bool:
        """Return whether to stop at once, for a reason outside of the problem."""
        if self.status == "running":
            if self.interruption.requested:
                self.status = "interrupted"
            elif self.deadline is not None and clock() >= self.deadline:
                self.status = "max_time"
            elif self.iteration >= self.max_iter:
                self.status = "max_iter"
        return self.status != "running"

    def settle(self, certificate: Certificate) -> None:
        """Put a certificate in place of the estimate that the last check was told of."""
        self.certificate = certificate
        self.history[-1] = replace(
            self.history[-1],
            primal=certificate.primal,
            dual=certificate.dual,
            gap=certificate.gap,
        )

    def check(self, certificate: Certificate, state, active_rows: int) -> bool:
        """Record a gap check of `state`; return whether to stop."""
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
        if certificate.gap < 0.0:
            self.status = "inconsistent"
        elif certificate.relative_gap <= self.tol:
            self.status = "converged"
        elif certificate.gap - certificate.rounding <= _OF_ROUNDING * certificate.rounding:
            self.status = "rounding"
        elif asked_to_stop:
            self.status = "callback"
        return self.must_stop()
