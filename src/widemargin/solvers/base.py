"""What a solver is: the contract of all of them.

What is known of a solver before it is imported (its name, the rows and the risks it takes) is in
registry.py. How it is made, and what it is refused, is in auto.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from widemargin.data.rows import BlockRows, Rows, SingleRows
from widemargin.monitor import Monitor
from widemargin.problem import Problem, State
from widemargin.risk import CrammerSinger, MarginRisk, Risk
from widemargin.solvers.registry import Place, RiskKind


class Solver(ABC):
    """An algorithm with its settings; nothing of a run is kept in it."""

    @abstractmethod
    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified.

        It asks `monitor.must_stop()` several times a second, counts `monitor.iteration`, and tells
        `monitor.check` of certificates that certificate.py has computed. Where another solver
        goes on in its place, `monitor.handed_over_to` is the name of that one.
        """


class SharesPasses(Solver):
    """A solver whose passes over the rows serve several problems."""

    @abstractmethod
    def solve_together(
        self,
        problems: Sequence[Problem],
        states: Sequence[State],
        monitors: list[Monitor],
        keep: Callable[[State], State] = lambda state: state,
    ) -> list[State]:
        """Solve problems over the same rows, sharing passes over them; return as `solve`.

        What is returned is what `keep` makes of each state, which is done with those that are
        solved before others begin.
        """


class AsksOracle(Solver):
    """A solver that knows the rows by the answers of an oracle, which may be on a cluster."""

    @abstractmethod
    def ask(self, oracle: Any, state: State, bundle: Any = None) -> State:
        """As `solve`, by the answers of an oracle, wherever it has them from.

        The planes in `bundle` must be under its risk; those that are found are added.
        """


def place_of(rows: Rows) -> Place:
    """Return where rows are, of those that a process has."""
    if rows.device == "cuda":
        return Place.GPU
    if isinstance(rows, BlockRows):
        return Place.DISK
    return Place.MEMORY if isinstance(rows, SingleRows) else Place.PRODUCTS


def kind_of(risk: Risk | None) -> RiskKind:
    """Return the kind of a risk."""
    if isinstance(risk, CrammerSinger):
        return RiskKind.CRAMMER_SINGER
    return RiskKind.MARGIN if isinstance(risk, MarginRisk) else RiskKind.ANY
