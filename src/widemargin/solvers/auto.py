"""The choice of a solver, in one table."""

from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import Any

import numpy as np

from widemargin.data import Rows
from widemargin.data.rows import GramRows
from widemargin.risk import CrammerSinger, LogisticRisk, MarginRisk, Risk, SmoothRisk
from widemargin.solvers.base import Solver, kind_of, place_of
from widemargin.solvers.choice_settings import ChoiceSettings
from widemargin.solvers.registry import SOLVERS, Place, RiskKind, names, quoted

#: default memory budget of out-of-core solvers, in bytes
DEFAULT_BUDGET = 1 << 30
#: the tolerance for which the choice was measured; a smaller one shifts it
USUAL_TOL = 1e-3


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
        Mean cost over the typical first step. The first step of coordinate descent, without
        bounds, has length 1 / |x|^2, of which this is the geometric mean. If costs are smaller,
        most support vectors end at their bounds, and a few passes find these. If costs are larger,
        dual variables have to be balanced against each other.
    warm : bool
        Whether a nearby solution is known: it tells which rows need visits.
    tol : float
        The relative gap that is wanted.
    """

    n_rows: int
    n_features: int
    unbounded: bool
    stretch: float
    warm: bool = False
    tol: float = USUAL_TOL


def facts(rows: Rows, risk: MarginRisk, warm: bool = False, tol: float = USUAL_TOL) -> Facts:
    """Return the facts that are known about a problem before it is solved."""
    n, stretch = _stretch(rows, risk.cost)
    unbounded = risk.loss.high == np.inf
    if not unbounded:
        stretch /= risk.spread(has_offset=True)  # first steps are as long as targets are large
    return Facts(n, rows.n_features, unbounded, stretch, warm, tol)


def _stretch(rows: Rows, cost: np.ndarray) -> tuple[int, float]:
    """Return how many rows count, and their stretch, see `Facts`."""
    norms = rows.squared_norms()
    counted = (cost > 0.0) & (norms > 0.0)
    n = int(np.count_nonzero(counted))
    # Neither a few rows that are nearly empty nor a few very long ones decide.
    return n, float(cost[counted].mean() * np.exp(np.log(norms[counted]).mean())) if n else 0.0


def pick(facts: Facts, settings: ChoiceSettings = ChoiceSettings()) -> str:
    """Return the solver for a two-class problem over rows in memory."""
    per_feature = facts.n_rows / max(1, facts.n_features)
    few_rows_pay = settings.few_rows_pay_if_warm if facts.warm else settings.few_rows_pay
    if facts.tol < USUAL_TOL and per_feature > settings.joint_rows_per_feature:
        few_rows_pay *= (facts.tol / USUAL_TOL) ** settings.tol_power
    enough = few_rows_pay if facts.warm else settings.passes_pay
    passes_are_enough = not facts.unbounded and (
        (per_feature < settings.rows_per_feature and facts.stretch < few_rows_pay)
        or (per_feature < settings.more_rows_per_feature and facts.stretch < enough)
    )
    if facts.n_features <= min(settings.few_features, facts.n_rows) and not passes_are_enough:
        return "newton"
    newton_pays = settings.newton_pays_if_unbounded if facts.unbounded else settings.newton_pays
    some_features = facts.n_features <= min(settings.some_features, facts.n_rows)
    if some_features and facts.stretch > newton_pays:
        return "newton"
    if facts.unbounded and facts.stretch < settings.nearly_a_parabola:
        return "newton"
    return "acf"


def pick_together(
    n_rows: int, stretch: float, n_coefficients: int, settings: ChoiceSettings = ChoiceSettings()
) -> str:
    """Return the solver for all classes in one problem, over rows in memory."""
    tall = n_rows >= settings.rows_per_feature * n_coefficients
    planes_pay = n_coefficients if tall else n_coefficients**2
    return "ocas" if stretch > planes_pay else "acf"


def choose(
    rows: Rows,
    risk: MarginRisk | CrammerSinger | SmoothRisk,
    warm: bool = False,
    must_stream: bool = False,
    tol: float = USUAL_TOL,
    settings: ChoiceSettings = ChoiceSettings(),
    penalty: str = "l2",
) -> str:
    """Return the name of the solver for these rows, this risk and this penalty.

    `warm` says that training starts from the solution of a similar problem. `must_stream` says
    of rows on disk that checkpoints are wanted, or that memory is too small for other solvers.
    """
    place = place_of(rows)
    if penalty != "l2":
        return _for_penalty(place, kind_of(risk), penalty)
    if isinstance(risk, SmoothRisk):
        return _choose_for_smooth(rows, risk, tol, settings)
    if isinstance(risk, CrammerSinger):
        if place is not Place.MEMORY:
            return "ocas"
        n_rows, stretch = _stretch(rows, risk.cost)
        return pick_together(n_rows, stretch, rows.n_features * risk.outputs[0], settings)
    if place is Place.GPU:
        # With more features, Newton's method would need many steps of conjugate gradients.
        few = rows.n_features <= settings.some_features
        return "newton" if few or risk.loss.is_smooth else "ocas"
    if place is Place.DISK:
        if rows.n_features > settings.few_features or must_stream:
            return "stream"
        # Rows of few features are strongly coupled, so coordinate descent needs very many visits.
        # Cutting planes store a bit per row and plane, but a number if the loss is smooth: too
        # much.
        return "newton" if risk.loss.is_smooth else "ocas"
    if place is Place.PRODUCTS:
        # Rows that are made anew in each pass: Newton's method makes few passes over them.
        has_hessian = isinstance(rows, GramRows) and rows.n_features <= settings.some_features
        return "newton" if risk.loss.is_smooth or has_hessian else "ocas"
    n_counted = int(np.count_nonzero(risk.cost))
    smooth = risk.loss.is_smooth
    per_feature = settings.rows_per_feature if smooth else settings.more_rows_per_feature
    if rows.n_features <= min(settings.few_features, n_counted // per_feature):
        return "newton"  # for any stretch; computing it would take a pass over the rows
    return pick(facts(rows, risk, warm, tol), settings)


def _for_penalty(place: Place, kind: RiskKind, penalty: str) -> str:
    """Return the solver for a penalty other than "l2"; ValueError if there is none."""
    able = names(place, kind, penalty=penalty)
    if able:
        return able[0]
    anywhere = names(None, kind, penalty=penalty)
    if not anywhere:
        raise ValueError(f"penalty={penalty!r} is not for {kind}: use penalty='l2'")
    places = dict.fromkeys(where for name in anywhere for where in SOLVERS[name].rows)
    raise ValueError(
        f"penalty={penalty!r} needs rows {' or '.join(places)}, and these are {place}: "
        "use penalty='l2'"
    )


def _choose_for_smooth(rows: Rows, risk: SmoothRisk, tol: float, settings: ChoiceSettings) -> str:
    """Return the name of the solver for a smooth risk."""
    if place_of(rows) is not Place.MEMORY or not isinstance(risk, LogisticRisk):
        return "newton"
    pays = settings.logistic_passes_pay * min(1.0, tol / USUAL_TOL) ** settings.tol_power
    return "dcd" if _stretch(rows, risk.cost)[1] < pays else "newton"


@cache
def _imported(where: str) -> Any:
    """Return the class "module:Class". It is imported on demand: most fits need only one."""
    return resolve_name(where)


def make(
    name: str,
    risk: Risk | None,
    seed: int,
    memory_budget: int = DEFAULT_BUDGET,
    may_change: bool = False,
) -> Solver:
    """Return the solver called `name` for problems with this risk.

    The risk is None on a cluster, where only the workers have it. `may_change` says that the
    solver was chosen here, and that others may take turns with it.
    """
    if may_change and name == "acf" and isinstance(risk, MarginRisk):
        return _imported("widemargin.solvers.relay:Relay")(seed)
    solver = SOLVERS[name]
    where = solver.classes[kind_of(risk)]
    kind = _imported(where)
    if not (isinstance(kind, type) and issubclass(kind, Solver)):
        raise TypeError(f"solver={name!r} is declared as {where}, which is no Solver")
    choices = {"seed": seed, "memory_budget": memory_budget}
    return kind(**solver.arguments, **{told: choices[told] for told in solver.told})


def check(name: str, rows: Rows, risk: Risk, penalty: str = "l2") -> None:
    """Raise ValueError if the solver called `name` cannot work on these rows or this risk.

    Or if it does not take this penalty.
    """
    solver, place, kind = SOLVERS[name], place_of(rows), kind_of(risk)
    if penalty not in solver.penalties:
        raise ValueError(
            f"solver={name!r} is for penalty={' or '.join(map(repr, solver.penalties))}: "
            f"penalty={penalty!r} needs one of {quoted(names(None, kind, penalty=penalty))}"
        )
    if solver.takes(place, kind):
        return
    able = quoted(names(place, kind, penalty=penalty))
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
