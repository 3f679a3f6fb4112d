"""All solvers, and their declarations, which are known before a solver is imported.

This module imports no solver, no NumPy and no Numba, so that the command line can show its lists
at once. A new solver is a file with a class, see base.py, and an entry of `SOLVERS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
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
    LOGISTIC = "logistic regression"
    MULTINOMIAL = "multi_class='multinomial'"
    ONE_CLASS = "one-class problems"
    ANY = "any convex risk"  # such as the hinge over pairs of rows


# The mean of the lowest scores may be negative, and needs cutting planes of its own.
_NOT_ONE_CLASS = tuple(kind for kind in RiskKind if kind is not RiskKind.ONE_CLASS)


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
    penalties : tuple of str
        The names of the penalties it takes, see penalty.py.
    counts : {"pass", "iteration"}
        What `max_iter` and `n_iter_` count.
    published : str
        The paper and algorithm that it follows to the letter, also in when it stops; "" if it
        stops by the certified gap. Such a solver is taken by name only, and lists leave it out.
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
    published: str = ""
    penalties: tuple[str, ...] = ("l2",)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    told: tuple[Literal["seed", "memory_budget"], ...] = ()
    splits_rows: bool = False
    shares_passes: bool = False
    keeps_checkpoints: bool = False

    def takes(
        self, rows: Place | None = None, risk: RiskKind | None = None, penalty: str | None = None
    ) -> bool:
        """Return whether it can work on such rows, risk and penalty; None stands for any."""
        return (
            (rows is None or rows in self.rows)
            and (risk is None or risk in self.classes)
            and (penalty is None or penalty in self.penalties)
        )


def _coordinate_descent(
    name: str, summary: str, more: Mapping[RiskKind, str] = MappingProxyType({})
) -> Declaration:
    return Declaration(
        name=name,
        summary=summary,
        classes={
            RiskKind.MARGIN: "widemargin.solvers.coordinate:CoordinateDescent",
            RiskKind.CRAMMER_SINGER: "widemargin.solvers.multiclass_coordinate:MulticlassDescent",
            **more,
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
        classes=dict.fromkeys(_NOT_ONE_CLASS, "widemargin.solvers.cutting_plane:CuttingPlanes"),
        arguments={"method": name},
        rows=(Place.MEMORY, Place.PRODUCTS, Place.DISK, Place.GPU, *more_rows),
        counts="iteration",
        splits_rows=True,
    )


def _with_one_class(solver: Declaration) -> Declaration:
    one_class = "widemargin.solvers.one_class:OneClassPlanes"
    return replace(solver, classes={**solver.classes, RiskKind.ONE_CLASS: one_class})


def _published(name: str, paper: str, kind: str, **declared: Any) -> Declaration:
    return Declaration(
        name=f"{name}-paper",
        summary=f"{name} as published",
        classes={RiskKind.MARGIN: kind},
        published=paper,
        **declared,
    )


def _published_descent(name: str, paper: str) -> Declaration:
    return _published(
        name,
        paper,
        "widemargin.solvers.published_descent:PublishedDescent",
        arguments={"schedule": name},
        told=("seed",),
        rows=(Place.MEMORY,),
        counts="pass",
    )


def _published_out_of_core(name: str, paper: str, kind: str, **arguments: Any) -> Declaration:
    return _published(
        name,
        paper,
        f"widemargin.solvers.published_disk:{kind}",
        arguments=arguments,
        told=("memory_budget", "seed"),
        rows=(Place.DISK,),
        counts="pass",
        keeps_checkpoints=True,
    )


def _published_planes(name: str, paper: str) -> Declaration:
    return replace(
        _cutting_planes(name, f"{name} as published"),
        name=f"{name}-paper",
        classes=dict.fromkeys(_NOT_ONE_CLASS, "widemargin.solvers.cutting_plane:PublishedPlanes"),
        published=paper,
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
        _coordinate_descent(
            "dcd",
            "dual coordinate descent",
            {RiskKind.LOGISTIC: "widemargin.solvers.logistic_descent:LogisticDescent"},
        ),
        _coordinate_descent("acf", "dual coordinate descent with adaptive frequencies"),
        Declaration(
            name="newton",
            summary="Newton's method",
            classes={
                RiskKind.MARGIN: "widemargin.solvers.newton:Newton",
                RiskKind.LOGISTIC: "widemargin.solvers.smooth_newton:SmoothNewton",
                RiskKind.MULTINOMIAL: "widemargin.solvers.smooth_newton:SmoothNewton",
            },
            told=("seed",),
            rows=(Place.MEMORY, Place.PRODUCTS, Place.DISK, Place.GPU),
            counts="iteration",
            splits_rows=True,
            shares_passes=True,
        ),
        Declaration(
            name="proximal",
            summary="proximal Newton steps for sparse weights",
            classes=dict.fromkeys(
                (RiskKind.MARGIN, RiskKind.LOGISTIC),
                "widemargin.solvers.feature_descent:FeatureDescent",
            ),
            rows=(Place.MEMORY,),
            penalties=("l1", "elasticnet"),
            counts="iteration",
        ),
        _cutting_planes("cpa", "SVM-perf's cutting planes", Place.CLUSTER),
        _with_one_class(
            _cutting_planes("ocas", "cutting planes with a line search", Place.CLUSTER)
        ),
        _cutting_planes("gca", "the same on grids of steps"),
        _cutting_planes("gca2", "the same on truncated grids"),
        _cutting_planes("tca", "the same with three steps"),
        _out_of_core("stream", "StreamSVM", "widemargin.solvers.stream:Stream"),
        _out_of_core("bm", "block minimization", _BLOCK_MINIMIZATION, selective=False),
        _out_of_core("sbm", "selective block minimization", _BLOCK_MINIMIZATION, selective=True),
        _published_descent("dcd", "Hsieh et al. 2008, Algorithm 3; LIBLINEAR"),
        _published_descent("acf", "Glasmachers & Dogan 2013, Algorithms 2 to 4"),
        _published_planes("cpa", "Joachims 2006, Algorithm 1"),
        _published_planes("ocas", "Franc & Sonnenburg 2008, Algorithm 1"),
        _published_planes("gca", "Arnosti 2010, Algorithm 1"),
        _published_planes("gca2", "Arnosti 2010, Algorithm 2"),
        _published_planes("tca", "Arnosti 2010, Algorithm 3"),
        _published_out_of_core(
            "stream",
            "Matsushima, Vishwanathan & Smola 2012, Algorithms 1 and 2",
            "PublishedStream",
        ),
        _published_out_of_core(
            "bm", "Yu, Hsieh, Chang & Lin 2010, Algorithm 1", "PublishedBlocks", selective=False
        ),
        _published_out_of_core(
            "sbm", "Chang & Roth 2011, Algorithm 1", "PublishedBlocks", selective=True
        ),
    )
}


def names(
    rows: Place | None = None,
    risk: RiskKind | None = None,
    published: bool = False,
    penalty: str | None = "l2",
) -> tuple[str, ...]:
    """Return the names of the solvers that can work on such rows, risk and penalty.

    `published` adds those that follow a paper to the letter.
    """
    return tuple(
        name
        for name, solver in SOLVERS.items()
        if solver.takes(rows, risk, penalty) and (published or not solver.published)
    )


def only_for(rows: Place, published: bool = False) -> tuple[str, ...]:
    """As `names`, of the solvers that can work on no other rows."""
    return tuple(name for name in names(rows, None, published) if SOLVERS[name].rows == (rows,))


def quoted(solvers: tuple[str, ...]) -> str:
    """Return names as messages list them."""
    return ", ".join(map(repr, solvers))
