"""What workers do: functions of a part of the rows, and sums of their results.

A task is a function of its arguments alone, so that one which was lost with its worker can be done
again elsewhere. What saves time is remembered besides: the scores of the best point and the way to
the reduced problem's solution, for each part. A worker who does not know them makes them anew.
"""

import threading
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from widemargin.data import Rows
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import (
    CrammerSinger,
    Hinge,
    LineSums,
    PairwiseHinge,
    RowRisk,
    SquaredHinge,
)
from widemargin.solvers.line_search import Penalty, best_of

_LOSSES = {"hinge": Hinge, "squared_hinge": SquaredHinge}


@dataclass(frozen=True)
class Part:
    """Some rows, what is known of them, and a name by which a worker remembers them.

    Attributes
    ----------
    rows : Rows of shape (m, d)
    y : ndarray of shape (m,)
        Labels.
    weights : ndarray of shape (m,) or None
    qid : ndarray of shape (m,) or None
        Groups, of rows that are to be put in order.
    name : str
    """

    rows: Rows
    y: np.ndarray
    weights: np.ndarray | None
    qid: np.ndarray | None
    name: str

    @property
    def all_weights(self):
        return np.ones(self.rows.n_rows) if self.weights is None else self.weights


@dataclass(frozen=True)
class Recipe:
    """How to make a risk of a part's labels.

    Attributes
    ----------
    classes : ndarray of shape (k,)
    costs : ndarray of shape (k,)
        C times the weight of each class.
    loss : {"hinge", "squared_hinge", "crammer_singer"}
    positive : int
        Place of the class that is told from all others; of no meaning to "crammer_singer".
    name : str
        By which workers remember what they made of it.
    """

    classes: np.ndarray
    costs: np.ndarray
    loss: str
    positive: int
    name: str

    #: steps at which a line search asks for the risk
    n_steps = 63

    @property
    def outputs(self):
        return (len(self.classes),) if self.loss == "crammer_singer" else ()

    def risk(self, part: Part) -> RowRisk:
        codes = np.searchsorted(self.classes, part.y)
        cost = self.costs[codes]
        if part.weights is not None:
            cost = cost * part.weights
        if self.loss == "crammer_singer":
            return CrammerSinger(codes, cost, len(self.classes))
        y = np.where(codes == self.positive, np.int8(1), np.int8(-1))
        return _LOSSES[self.loss](y, cost)


@dataclass(frozen=True)
class RankingRecipe:
    """How to make a risk of a part's grades; no group has rows in another part.

    Attributes
    ----------
    scale : float
        Weight of a pair; or of a group, over the weight of its pairs and times that of its rows.
    by_group : bool
        Which of the two.
    name : str
    """

    scale: float
    by_group: bool
    name: str

    # Each takes a sort.
    n_steps = 15
    outputs = ()

    def risk(self, part: Part) -> PairwiseHinge:
        risk = _ranking_risk(part)
        factors = np.full(risk.n_levels.size, self.scale)
        if self.by_group:
            factors *= _mean_weights(risk) / risk.weigh_pairs()
        return risk.scaled(factors)


def _ranking_risk(part):
    group = None if part.qid is None else np.unique(part.qid, return_inverse=True)[1]
    return PairwiseHinge(part.y, part.all_weights, group)


def _mean_weights(risk):
    """Return the mean weight of each group's rows, (g,)."""
    return np.bincount(risk.member, risk.weight) / np.diff(risk.starts)


class Point(NamedTuple):
    """A point as it is sent: coefficients, offset, and a name by which workers remember it."""

    name: str
    coef: np.ndarray
    offset: np.ndarray | float

    def scores(self, part):
        return part.rows.scores(np.asarray(self.coef, dtype=np.float64)) + self.offset


class Share(NamedTuple):
    """A part's share of a plane, and of the objective's losses at the point before it."""

    step: float  # that led there: the same for all parts
    a: np.ndarray
    e: np.ndarray
    size: np.ndarray  # sum of |slope|, to tell rounding in e
    constant: float
    loss: float
    active: int


# --- what a worker remembers --------------------------------------------------------------------


class _Memory:
    """The risk and the last line of each part: one of each, whatever has been asked."""

    def __init__(self):
        self.lock = threading.Lock()
        self.risks: dict[str, tuple] = {}
        self.lines: dict[str, tuple] = {}

    def risk(self, part, recipe):
        name, risk = self.risks.get(part.name, (None, None))
        if name != recipe.name:
            risk = recipe.risk(part)
            with self.lock:
                self.risks[part.name] = recipe.name, risk
        return risk

    def line(self, part, center: Point, target: Point):
        """Return scores of the center, and what to add for those of the target."""
        known, S, D = self.lines.get(part.name, (None, None, None))
        if known == (center.name, target.name):
            return S, D
        if known is None or known[0] != center.name:
            S = center.scores(part)
        D = target.scores(part) - S
        self.keep(part, (center.name, target.name), S, D)
        return S, D

    def keep(self, part, names, S, D=None):
        with self.lock:
            self.lines[part.name] = names, S, D

    def forget(self, names):
        with self.lock:
            for name in names:
                self.risks.pop(name, None)
                self.lines.pop(name, None)


_memory = _Memory()


def forget(names) -> None:
    """Forget all about some parts."""
    _memory.forget(names)


# --- tasks --------------------------------------------------------------------------------------


def itself(point: Point) -> Point:
    """Return what it is given: from here, other workers can take it."""
    return point


def describe_classes(part: Part):
    """Return name, rows, features, and the labels that occur with their weights."""
    labels, codes = np.unique(part.y, return_inverse=True)
    counted = np.bincount(codes, weights=part.all_weights, minlength=labels.size)
    return part.name, part.rows.n_rows, part.rows.n_features, labels, counted


def describe_ranking(part: Part):
    """Return name, rows, features, groups or None, how many pairs there are, and sums of weights.

    Of rows in pairs, of pairs, and of groups: the means of their rows.
    """
    risk = _ranking_risk(part)
    groups = None if part.qid is None else np.unique(part.qid)
    if risk.weight.size == 0:
        sums = np.zeros(3)
    else:
        sums = np.array([risk.weight.sum(), risk.weigh_pairs().sum(), _mean_weights(risk).sum()])
    n_pairs = int(risk.count_pairs().sum()) if risk.weight.size else 0
    return part.name, part.rows.n_rows, part.rows.n_features, groups, n_pairs, sums


def line_sums(part: Part, recipe: Recipe, center: Point, target: Point, steps) -> np.ndarray:
    """Return values, slopes and curvatures, (3, p), of the part's losses on the way."""
    S, D = _memory.line(part, center, target)
    sums = _memory.risk(part, recipe).line(S, D).evaluate(steps)
    return np.array([sums.values, sums.slopes, sums.curvatures])


def choose(sums, penalty: Penalty, steps, instead_of_zero: float) -> float:
    """Return the best step, from the sums over all parts at some."""
    total = np.sum(sums, axis=0)
    values, slopes, curvatures = total
    step = best_of(penalty, steps, LineSums(values, slopes, curvatures, np.empty((0, 0))))
    return step if step > 0.0 else instead_of_zero


def plane(part: Part, recipe: Recipe, center: Point, target: Point, step, beyond, named) -> Share:
    """Return the share of a plane that touches the risk `beyond` where `step` leads to.

    As shares of the way from there to the target, and from the center to the target. Where the
    step leads to is remembered under the name `named`.
    """
    risk = _memory.risk(part, recipe)
    S, D = _memory.line(part, center, target)
    here = S + step * D
    _memory.keep(part, (named, None), here)
    cut = risk.cut(here + (beyond * (1.0 - step)) * D)
    loss = risk.value(here)
    return _share(part, step, cut, loss)


def plane_at(part: Part, recipe: Recipe, point: Point) -> Share:
    """Return the share of the plane that touches the risk at a point."""
    S = point.scores(part)
    _memory.keep(part, (point.name, None), S)
    cut = _memory.risk(part, recipe).cut(S)
    return _share(part, 1.0, cut, cut.value)


def loss_at(part: Part, recipe: Recipe, point: Point) -> float:
    """Return the part's losses at a point, whatever else is known of it."""
    return _memory.risk(part, recipe).value(point.scores(part))


def _share(part, step, cut, loss):
    e, size = cut.slope.sum(axis=0), np.abs(cut.slope).sum(axis=0)
    a = part.rows.combine(cut.slope).ravel()
    return Share(step, a, np.atleast_1d(e), np.atleast_1d(size), cut.constant, loss, cut.active)


def add_shares(shares) -> Share:
    """Return their sum, taken in their order."""
    total = shares[0]
    for share in shares[1:]:
        sums = (one + other for one, other in zip(total[1:], share[1:], strict=True))
        total = Share(total.step, *sums)
    return total


def solve_alone(part: Part, recipe: Recipe, intercept: Intercept, growth: float, sweeps: int):
    """Return coef and offset that are good for this part, were it `growth` times as large."""
    from widemargin.monitor import Monitor
    from widemargin.solvers.coordinate import CoordinateDescent

    risk = recipe.risk(part)
    risk.cost = risk.cost * growth
    problem = Problem(part.rows, risk, intercept)
    state = CoordinateDescent().solve(problem, State.zero(problem), Monitor(1e-3, sweeps))
    return state.coef, state.offset
