"""The choice of a solver, in one table."""

from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import Any

import numpy as np

from widemargin.data import Rows
from widemargin.risk import CrammerSinger, MarginRisk, Risk
from widemargin.solvers.base import Solver, kind_of, place_of
from widemargin.solvers.registry import SOLVERS, Place, names, quoted

#: default memory budget of out-of-core solvers, in bytes
DEFAULT_BUDGET = 1 << 30

# Up to this many features, computing and factorising the Hessian takes nearly no time. Up to this
# many more it takes seconds for many rows. Newton's method is worth them above this stretch.
_FEW_FEATURES, _SOME_FEATURES = 300, 1000
_NEWTON_PAYS = {False: 300.0, True: 30.0}  # by whether dual variables are unbounded
# With fewer rows per feature, a hinge needs many Newton steps, and a pass over so few rows costs
# next to nothing: coordinate descent is faster up to this stretch, by whether a nearby solution is
# known.
_ROWS_PER_FEATURE = 40
_FEW_ROWS_PAY = {False: 50.0, True: 1000.0}
# With fewer rows per feature than this, it is faster up to the stretch of `_ADAPTIVE_PAYS`, or up
# to that of `_FEW_ROWS_PAY` if a nearby solution is known.
_MORE_ROWS_PER_FEATURE = 1000
# Below this stretch a squared hinge is nearly a parabola, and a few Newton steps are enough.
_NEARLY_A_PARABOLA = 0.005
# Above this stretch adaptive frequencies pay, see `Facts`; and below it if there are few features.
# Without upper bounds they always pay: there are no bounds for uniform passes to find.
_ADAPTIVE_PAYS = {False: 1.2, True: 0.0}


@dataclass(frozen=True)
class Facts:
    """What the choice among solvers for rows in memory depends on.

    Attributes
    ----------
    n_rows, n_features : int
        Of the rows that count.
    unbounded : bool
        Whether dual variables have no upper bounds, as those of a squared hinge.
    stretch : float
        Mean cost over mean first step. The first step of coordinate descent, without bounds, has
        length 1 / |x|^2. If costs are smaller, most support vectors end at their bounds, and
        uniform passes find these at once. If costs are larger, dual variables have to be balanced
        against each other, and some need far more visits than others.
    warm : bool
        Whether a nearby solution is known: it tells which rows need visits.
    """

    n_rows: int
    n_features: int
    unbounded: bool
    stretch: float
    warm: bool = False


def facts(rows: Rows, risk: MarginRisk, warm: bool = False) -> Facts:
    """Return the facts that are known about a problem before it is solved."""
    n, stretch = _stretch(rows, risk.cost)
    return Facts(n, rows.n_features, risk.loss.high == np.inf, stretch, warm)


def _stretch(rows, cost):
    """Return how many rows count, and their stretch, see `Facts`."""
    norms = rows.squared_norms()
    counted = (cost > 0.0) & (norms > 0.0)
    n = int(np.count_nonzero(counted))
    return n, float(cost[counted].mean() / np.mean(1.0 / norms[counted])) if n else 0.0


def pick(facts: Facts) -> str:
    """Return the solver for a two-class problem over rows in memory."""
    per_feature = facts.n_rows / max(1, facts.n_features)
    enough = _FEW_ROWS_PAY[True] if facts.warm else _ADAPTIVE_PAYS[False]
    passes_are_enough = not facts.unbounded and (
        (per_feature < _ROWS_PER_FEATURE and facts.stretch < _FEW_ROWS_PAY[facts.warm])
        or (per_feature < _MORE_ROWS_PER_FEATURE and facts.stretch < enough)
    )
    if facts.n_features <= min(_FEW_FEATURES, facts.n_rows) and not passes_are_enough:
        return "newton"
    if (
        facts.n_features <= min(_SOME_FEATURES, facts.n_rows)
        and facts.stretch > _NEWTON_PAYS[facts.unbounded]
    ):
        return "newton"
    if facts.unbounded and facts.stretch < _NEARLY_A_PARABOLA:
        return "newton"
    pays = facts.warm or facts.stretch > _ADAPTIVE_PAYS[facts.unbounded]
    return "acf" if pays or facts.n_features <= _FEW_FEATURES else "dcd"


def pick_together(n_rows: int, stretch: float, n_coefficients: int) -> str:
    """Return the solver for all classes in one problem, over rows in memory."""
    tall = n_rows >= _ROWS_PER_FEATURE * n_coefficients
    planes_pay = n_coefficients if tall else n_coefficients**2
    return "ocas" if stretch > planes_pay else "acf"


def choose(
    rows, risk: MarginRisk | CrammerSinger, warm: bool = False, must_stream: bool = False
) -> str:
    """Return the name of the solver for these rows and this risk.

    `warm` says that training starts from the solution of a similar problem. `must_stream` says
    of rows on disk that checkpoints are wanted, or that memory is too small for other solvers.
    """
    place = place_of(rows)
    if isinstance(risk, CrammerSinger):
        if place is not Place.MEMORY:
            return "ocas"
        n_rows, stretch = _stretch(rows, risk.cost)
        return pick_together(n_rows, stretch, rows.n_features * risk.outputs[0])
    if place is Place.GPU:
        # With more features, Newton's method would need many steps of conjugate gradients.
        return "newton" if rows.n_features <= _SOME_FEATURES or risk.loss.is_smooth else "ocas"
    if place is Place.DISK:
        if rows.n_features > _FEW_FEATURES or must_stream:
            return "stream"
        # Rows of few features are strongly coupled, so coordinate descent needs very many visits.
        # Cutting planes store a bit per row and plane, but a number if the loss is smooth: too
        # much.
        return "newton" if risk.loss.is_smooth else "ocas"
    if place is Place.PRODUCTS:
        return "newton" if risk.loss.is_smooth else "ocas"
    n_counted = int(np.count_nonzero(risk.cost))
    per_feature = _ROWS_PER_FEATURE if risk.loss.is_smooth else _MORE_ROWS_PER_FEATURE
    if rows.n_features <= min(_FEW_FEATURES, n_counted // per_feature):
        return "newton"  # for any stretch; computing it would take a pass over the rows
    return pick(facts(rows, risk, warm))


@cache
def _imported(where: str) -> Any:
    """Return the class "module:Class". It is imported on demand: most fits need only one."""
    return resolve_name(where)


def make(name: str, risk: Risk | None, seed: int, memory_budget: int = DEFAULT_BUDGET) -> Solver:
    """Return the solver called `name` for problems with this risk.

    The risk is None on a cluster, where only the workers have it.
    """
    solver = SOLVERS[name]
    where = solver.classes[kind_of(risk)]
    kind = _imported(where)
    if not (isinstance(kind, type) and issubclass(kind, Solver)):
        raise TypeError(f"solver={name!r} is declared as {where}, which is no Solver")
    choices = {"seed": seed, "memory_budget": memory_budget}
    return kind(**solver.settings, **{told: choices[told] for told in solver.told})


def check(name: str, rows: Rows, risk: Risk) -> None:
    """Raise ValueError if the solver called `name` cannot work on these rows or this risk."""
    solver, place, kind = SOLVERS[name], place_of(rows), kind_of(risk)
    if solver.takes(place, kind):
        return
    able = quoted(names(place, kind))
    if not solver.takes(rows=place):
        hint = " (see widemargin.open_rows)" if Place.DISK in solver.rows else ""
        raise ValueError(
            f"solver={name!r} needs rows {' or '.join(solver.rows)}{hint}, and these are {place}: "
            f"use one of {able}, or let solver='auto' choose"
        )
    raise ValueError(
        f"solver={name!r} is for {' or '.join(solver.classes)}: {kind} needs one of {able} "
        f"for rows {place}"
    )
