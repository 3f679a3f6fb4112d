"""The choice of a solver, as one readable table."""

from widemargin.solvers.coordinate import CoordinateDescent

#: what `solver=` accepts
SOLVERS = ("auto", "dcd", "acf")


def choose(solver: str) -> str:
    """Return the name of the solver to use where `solver` may be "auto"."""
    return "acf" if solver == "auto" else solver


def make(name: str, seed: int) -> CoordinateDescent:
    """Return the solver called `name`."""
    return CoordinateDescent(schedule=name, seed=seed)
