"""The choice of a solver, as one readable table."""

import numpy as np

from widemargin.data import Rows
from widemargin.risk import CrammerSinger, Risk, RowRisk

#: what `solver=` accepts
CUTTING_PLANES = ("cpa", "ocas", "gca", "gca2", "tca")
OUT_OF_CORE = ("stream", "bm", "sbm")
SOLVERS = ("auto", "dcd", "acf", *CUTTING_PLANES, *OUT_OF_CORE)

#: bytes that out-of-core solvers use if nobody says how many
DEFAULT_BUDGET = 1 << 30

# Mean cost over mean first step, above which adaptive frequencies pay. An unbounded first step
# has length 1 / |x|^2; where costs are below it most support vectors end at their bounds,
# which uniform passes find out at once. Where costs are above, dual variables have to be
# balanced against one another, and some need far more visits than others.
_ADAPTIVE_PAYS = 2.0


def choose(rows: Rows, risk: RowRisk) -> str:
    """Return the name of the solver for these rows and this risk."""
    on_disk = hasattr(rows, "blocks")
    if isinstance(risk, CrammerSinger):
        return "ocas" if on_disk else "acf"
    if on_disk:
        return "stream"
    cost = risk.cost
    norms = rows.squared_norms()
    counted = (cost > 0.0) & (norms > 0.0)
    if not counted.any():
        return "dcd"
    stretch = float(cost[counted].mean() / np.mean(1.0 / norms[counted]))
    return "acf" if stretch > _ADAPTIVE_PAYS else "dcd"


def make(name: str, risk: Risk, seed: int, memory_budget: int = DEFAULT_BUDGET):
    """Return the solver called `name` for problems with this risk."""
    # Imported when needed: most fits need one of them.
    if name in CUTTING_PLANES:
        from widemargin.solvers.cutting_plane import CuttingPlanes

        return CuttingPlanes(name)
    if name == "stream":
        from widemargin.solvers.stream import Stream

        return Stream(memory_budget, seed)
    if name in OUT_OF_CORE:
        from widemargin.solvers.block_minimization import BlockMinimization

        return BlockMinimization(memory_budget, name == "sbm", seed)
    if isinstance(risk, CrammerSinger):
        from widemargin.solvers.multiclass_coordinate import MulticlassDescent

        return MulticlassDescent(schedule=name, seed=seed)
    from widemargin.solvers.coordinate import CoordinateDescent

    return CoordinateDescent(schedule=name, seed=seed)


def check(name: str, rows: Rows, risk: Risk) -> None:
    """Raise ValueError if the solver called `name` cannot work on these rows or this risk."""
    on_disk = hasattr(rows, "blocks")
    if name in OUT_OF_CORE and not on_disk:
        raise ValueError(
            f"solver={name!r} reads rows from disk, and X is in memory: pass what "
            "widemargin.open_rows returns, or let solver='auto' choose"
        )
    if name in ("dcd", "acf") and on_disk:
        raise ValueError(
            f"solver={name!r} needs rows in memory, and these are on disk: "
            f"{', '.join(map(repr, (*OUT_OF_CORE, *CUTTING_PLANES)))} do not"
        )
    if name in OUT_OF_CORE and isinstance(risk, CrammerSinger):
        raise ValueError(
            f"solver={name!r} tells two classes apart at a time: multi_class='crammer_singer' "
            f"needs one of {', '.join(map(repr, CUTTING_PLANES))} for rows on disk"
        )


def splits_rows(name: str) -> bool:
    """Return whether the solver called `name` can use several threads on one problem."""
    return name in CUTTING_PLANES
