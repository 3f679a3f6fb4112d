"""The contract of all solvers.

A solver's name, and the rows and risks that it takes, are declared in registry.py. auto.py chooses
a solver, makes it, and checks what it is given.
"""

from abc import ABC, abstractmethod
from typing import Any

from widemargin.data.rows import BlockRows, Rows, SingleRows
from widemargin.monitor import Monitor
from widemargin.problem import Problem, State
from widemargin.risk import (
    CrammerSinger,
    LogisticRisk,
    LowestMean,
    MarginRisk,
    MultinomialRisk,
    Risk,
)
from widemargin.solvers.registry import Place, RiskKind


class Solver(ABC):
    """An algorithm with its settings; it keeps no state of a run."""

    @abstractmethod
    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified.

        It asks `monitor.must_stop()` several times a second, counts `monitor.iteration`, and
        passes certificates computed by certificate.py to `monitor.check`. If another solver takes
        over, `monitor.handed_over_to` is its name.
        """


class SharesPasses(Solver):
    """A solver whose products are made by sharing.py: a pass can serve several problems."""

    @abstractmethod
    def most_together(self, rows: Rows) -> int:
        """Return how many problems over these rows may share passes, by the memory they need."""


class AsksOracle(Solver):
    """A solver that needs no rows, but the answers of an oracle, which may be on a cluster."""

    @abstractmethod
    def ask(self, oracle: Any, state: State, bundle: Any = None) -> State:
        """As `solve`, with the answers of an oracle, wherever the rows are.

        The planes in `bundle` must be below the oracle's risk. New planes are added to it.
        """


def place_of(rows: Rows) -> Place:
    """Return where rows are, if they belong to this process."""
    if rows.device == "cuda":
        return Place.GPU
    if isinstance(rows, BlockRows):
        return Place.DISK
    return Place.MEMORY if isinstance(rows, SingleRows) else Place.PRODUCTS


def kind_of(risk: Risk | None) -> RiskKind:
    """Return the kind of a risk."""
    if isinstance(risk, CrammerSinger):
        return RiskKind.CRAMMER_SINGER
    if isinstance(risk, LowestMean):
        return RiskKind.ONE_CLASS
    if isinstance(risk, LogisticRisk):
        return RiskKind.LOGISTIC
    if isinstance(risk, MultinomialRisk):
        return RiskKind.MULTINOMIAL
    return RiskKind.MARGIN if isinstance(risk, MarginRisk) else RiskKind.ANY
