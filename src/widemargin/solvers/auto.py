"""The choice of a solver, as one readable table."""

import numpy as np

from widemargin.data import Rows
from widemargin.solvers.coordinate import CoordinateDescent

#: what `solver=` accepts
SOLVERS = ("auto", "dcd", "acf")

# Mean cost over mean first step, above which adaptive frequencies pay. An unbounded first step
# has length 1 / |x|^2; where costs are below it most support vectors end at their bounds,
# which uniform passes find out at once. Where costs are above, dual variables have to be
# balanced against one another, and some need far more visits than others.
_ADAPTIVE_PAYS = 2.0


def choose(rows: Rows, cost: np.ndarray) -> str:
    """Return the name of the solver for these rows and row costs."""
    norms = rows.squared_norms()
    counted = (cost > 0.0) & (norms > 0.0)
    if not counted.any():
        return "dcd"
    stretch = float(cost[counted].mean() / np.mean(1.0 / norms[counted]))
    return "acf" if stretch > _ADAPTIVE_PAYS else "dcd"


def make(name: str, seed: int) -> CoordinateDescent:
    """Return the solver called `name`."""
    return CoordinateDescent(schedule=name, seed=seed)
