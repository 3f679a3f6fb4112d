"""The choice of a solver, as one readable table."""

import numpy as np

from widemargin.data import Rows
from widemargin.risk import CrammerSinger, Risk, RowRisk

#: what `solver=` accepts
CUTTING_PLANES = ("cpa", "ocas", "gca", "gca2", "tca")
SOLVERS = ("auto", "dcd", "acf", *CUTTING_PLANES)

# Mean cost over mean first step, above which adaptive frequencies pay. An unbounded first step
# has length 1 / |x|^2; where costs are below it most support vectors end at their bounds,
# which uniform passes find out at once. Where costs are above, dual variables have to be
# balanced against one another, and some need far more visits than others.
_ADAPTIVE_PAYS = 2.0


def choose(rows: Rows, risk: RowRisk) -> str:
    """Return the name of the solver for these rows and this risk."""
    if isinstance(risk, CrammerSinger):
        return "acf"
    cost = risk.cost
    norms = rows.squared_norms()
    counted = (cost > 0.0) & (norms > 0.0)
    if not counted.any():
        return "dcd"
    stretch = float(cost[counted].mean() / np.mean(1.0 / norms[counted]))
    return "acf" if stretch > _ADAPTIVE_PAYS else "dcd"


def make(name: str, risk: Risk, seed: int):
    """Return the solver called `name` for problems with this risk."""
    # Imported when needed: most fits need one of the three.
    if name in CUTTING_PLANES:
        from widemargin.solvers.cutting_plane import CuttingPlanes

        return CuttingPlanes(name)
    if isinstance(risk, CrammerSinger):
        from widemargin.solvers.multiclass_coordinate import MulticlassDescent

        return MulticlassDescent(schedule=name, seed=seed)
    from widemargin.solvers.coordinate import CoordinateDescent

    return CoordinateDescent(schedule=name, seed=seed)


def splits_rows(name: str) -> bool:
    """Return whether the solver called `name` can use several threads on one problem."""
    return name in CUTTING_PLANES
