"""All solvers, and their declarations, which are known before a solver is imported.

This module imports no solver, no NumPy and no Numba, so that the command line can show its lists
at once. A new solver is a file with a class, see base.py, and an entry of `SOLVERS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

#: between the names of a solver and of the one that took over from it, in `solver_`
THEN = ", then "


class Place(StrEnum):
    """Where rows are; solvers say which of these they can use."""

    MEMORY = "in memory"  # single rows can be read
    PRODUCTS = "known by their products alone"
    DISK = "on disk"  # blocks of rows, in order
    GPU = "on a GPU"
    CLUSTER = "on a cluster"


class RiskKind(StrEnum):
    """The kinds of risks, of which solvers say which they can minimise."""

    MARGIN = "two classes at a time"
    CRAMMER_SINGER = "multi_class='crammer_singer'"
    ANY = "any convex risk"  # such as the hinge over pairs of rows


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """A solver's declaration.

    Attributes
    ----------
    name : str
        Its name for `solver=`.
    summary : str
        A few words for help texts.
    classes : mapping from RiskKind to str
        The risks it takes, and the subclass of `base.Solver` that solves each: "module:Class".
    arguments : mapping
        Keyword arguments of these classes. Without `settings`, they have their defaults.
    told : tuple of {"seed", "memory_budget"}
        Further keyword arguments, which the user chooses.
    rows : tuple of Place
        The rows it takes. On a cluster it must be a `base.AsksOracle`.
    counts : {"pass", "iteration"}
        What `max_iter` and `n_iter_` count.
    splits_rows : bool
        Whether it can use several threads for one problem.
    shares_passes : bool
        Whether a pass over the rows serves several problems: it is a `base.SharesPasses`.
    keeps_checkpoints : bool
        Whether it calls `monitor.save_now_and_then`.
    """

    name: str
    summary: str
    classes: Mapping[RiskKind, str]
    rows: tuple[Place, ...]
    counts: Literal["pass", "iteration"]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    told: tuple[Literal["seed", "memory_budget"], ...] = ()
    splits_rows: bool = False
    shares_passes: bool = False
    keeps_checkpoints: bool = False

    def takes(self, rows: Place | None = None, risk: RiskKind | None = None) -> bool:
        """Return whether it can work on such rows and such a risk; None stands for any."""
        return (rows is None or rows in self.rows) and (risk is None or risk in self.classes)


def _coordinate_descent(name: str, summary: str) -> Declaration:
    return Declaration(
        name=name,
        summary=summary,
        classes={
            RiskKind.MARGIN: "widemargin.solvers.coordinate:CoordinateDescent",
            RiskKind.CRAMMER_SINGER: "widemargin.solvers.multiclass_coordinate:MulticlassDescent",
        },
        arguments={"schedule": name},
        told=("seed",),
        rows=(Place.MEMORY,),
        counts="pass",
    )


def _cutting_planes(name: str, summary: str, *more_rows: Place) -> Declaration:
    return Declaration(
        name=name,
        summary=summary,
        classes=dict.fromkeys(RiskKind, "widemargin.solvers.cutting_plane:CuttingPlanes"),
        arguments={"method": name},
        rows=(Place.MEMORY, Place.PRODUCTS, Place.DISK, Place.GPU, *more_rows),
        counts="iteration",
        splits_rows=True,
    )


def _out_of_core(name: str, summary: str, solver: str, **arguments: Any) -> Declaration:
    return Declaration(
        name=name,
        summary=summary,
        classes={RiskKind.MARGIN: solver},
        arguments=arguments,
        told=("memory_budget", "seed"),
        rows=(Place.DISK,),
        counts="pass",
        keeps_checkpoints=True,
    )


_BLOCK_MINIMIZATION = "widemargin.solvers.block_minimization:BlockMinimization"

#: by name, in the order in which they are listed
SOLVERS: dict[str, Declaration] = {
    solver.name: solver
    for solver in (
        _coordinate_descent("dcd", "dual coordinate descent"),
        _coordinate_descent("acf", "dual coordinate descent with adaptive frequencies"),
        Declaration(
            name="newton",
            summary="Newton's method",
            classes={RiskKind.MARGIN: "widemargin.solvers.newton:Newton"},
            told=("seed",),
            rows=(Place.MEMORY, Place.PRODUCTS, Place.DISK, Place.GPU),
            counts="iteration",
            splits_rows=True,
            shares_passes=True,
        ),
        _cutting_planes("cpa", "SVM-perf's cutting planes", Place.CLUSTER),
        _cutting_planes("ocas", "cutting planes with a line search", Place.CLUSTER),
        _cutting_planes("gca", "the same on grids of steps"),
        _cutting_planes("gca2", "the same on truncated grids"),
        _cutting_planes("tca", "the same with three steps"),
        _out_of_core("stream", "StreamSVM", "widemargin.solvers.stream:Stream"),
        _out_of_core("bm", "block minimization", _BLOCK_MINIMIZATION, selective=False),
        _out_of_core("sbm", "selective block minimization", _BLOCK_MINIMIZATION, selective=True),
    )
}


def names(rows: Place | None = None, risk: RiskKind | None = None) -> tuple[str, ...]:
    """Return the names of the solvers that can work on such rows, and on such a risk."""
    return tuple(name for name, solver in SOLVERS.items() if solver.takes(rows, risk))


def only_for(rows: Place) -> tuple[str, ...]:
    """Return the names of the solvers that can work on such rows, and on no others."""
    return tuple(name for name, solver in SOLVERS.items() if solver.rows == (rows,))


def quoted(solvers: tuple[str, ...]) -> str:
    """Return names as messages list them."""
    return ", ".join(map(repr, solvers))
