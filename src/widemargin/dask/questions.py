"""Questions to the workers of a cluster: parts of the rows, risks over them, and points."""

import uuid
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from widemargin.data import Rows
from widemargin.risk import LOSSES, CrammerSinger, MarginRisk, PairwiseHinge, RowRisk
from widemargin.solvers.line_search import Penalty


@dataclass(frozen=True)
class Part:
    """Some rows, their labels and weights, and a name for a worker's cache."""

    rows: Rows  # (m, d)
    y: np.ndarray  # (m,) labels
    weights: np.ndarray | None  # (m,)
    qid: np.ndarray | None  # (m,) groups, for ranking
    name: str
    folds: np.ndarray | None = None  # (m,) the fold that holds each row out; -1 for none

    def __sizeof__(self) -> int:
        """Tell Dask how many bytes it would take to move the part."""
        return self.rows.nbytes

    @property
    def all_weights(self) -> np.ndarray:
        return np.ones(self.rows.n_rows) if self.weights is None else self.weights


@dataclass(frozen=True)
class Recipe:
    """How to make a risk from a part's labels."""

    classes: np.ndarray  # (k,)
    costs: np.ndarray  # (k,) C times the weight of each class
    loss: str  # a name of `risk.LOSSES`, or "crammer_singer"
    positive: int  # index of the class that is told from all others
    slot: str = ""  # the key under which workers cache what they made of it
    fold: int | None = None  # the held-out fold, whose rows have cost zero
    name: str = field(default_factory=lambda: uuid.uuid4().hex)  # a new one for each recipe

    #: how many steps of a line search are evaluated
    n_steps = 63

    @property
    def outputs(self) -> tuple[int, ...]:
        return (len(self.classes),) if self.loss == "crammer_singer" else ()

    def risk(self, part: Part) -> RowRisk:
        codes = np.searchsorted(self.classes, part.y)
        cost = self.costs[codes]
        if part.weights is not None:
            cost = cost * part.weights
        if self.fold is not None:
            cost = np.where(part.folds == self.fold, 0.0, cost)
        if self.loss == "crammer_singer":
            return CrammerSinger(codes, cost, len(self.classes))
        y = np.where(codes == self.positive, np.int8(1), np.int8(-1))
        return MarginRisk(y, cost, LOSSES[self.loss])


@dataclass(frozen=True)
class RankingRecipe:
    """How to make a risk from a part's grades; groups must not be divided among parts.

    `scale` is the weight of a pair; or, if `by_group`, that of a group, divided by the weight of
    its pairs and times that of its rows.
    """

    scale: float
    by_group: bool
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    # Each of them takes a sort.
    n_steps = 15
    outputs = ()
    slot = ""

    def risk(self, part: Part) -> PairwiseHinge:
        risk = ranking_risk(part)
        factors = np.full(risk.n_levels.size, self.scale)
        if self.by_group:
            factors *= mean_weights(risk) / risk.weigh_pairs()
        return risk.scaled(factors)


AnyRecipe: TypeAlias = Recipe | RankingRecipe


def ranking_risk(part: Part) -> PairwiseHinge:
    group = None if part.qid is None else np.unique(part.qid, return_inverse=True)[1]
    return PairwiseHinge(part.y, part.all_weights, group)


def mean_weights(risk: PairwiseHinge) -> np.ndarray:
    """Return the mean weight of each group's rows, (g,)."""
    return np.bincount(risk.member, risk.weight) / np.diff(risk.starts)


class Point(NamedTuple):
    """A point as it is sent: coefficients, offset, and a name for the workers' caches."""

    name: str
    coef: np.ndarray
    offset: np.ndarray | float


class Line(NamedTuple):
    """The question for the best step from one point towards another, and the plane there."""

    recipe: Recipe | RankingRecipe
    center: Point
    target: Point
    steps: np.ndarray  # (p,) to choose from
    penalty: Penalty
    instead_of_zero: float
    plane_at: float  # the fraction of the way from the step's end to the target
    named: str  # the name of the point that the step leads to

    @property
    def points(self) -> tuple[Point, ...]:
        return self.center, self.target


class Spot(NamedTuple):
    """The question for the losses and the plane at a point."""

    recipe: Recipe | RankingRecipe
    point: Point

    @property
    def points(self) -> tuple[Point, ...]:
        return (self.point,)


class Proof(NamedTuple):
    """The question for the bounds by a point and planes, given by the points where they touch."""

    recipe: Recipe | RankingRecipe
    best: Point
    touching: list[Point]
    weights: list[float]  # of the planes, from `convex_weights`

    @property
    def points(self) -> tuple[Point, ...]:
        return self.best, *self.touching


@dataclass(frozen=True)
class Questions:
    """Questions of several problems, for one round: at most one of each slot."""

    lines: list[Line]
    spots: list[Spot]
    proofs: list[Proof] = field(default_factory=list)

    @property
    def all(self) -> list[Line | Spot]:
        """The questions whose points' scores are cached."""
        return [*self.lines, *self.spots]

    def __sizeof__(self) -> int:
        return self.nbytes

    @property
    def nbytes(self) -> int:
        asked = [*self.all, *self.proofs]
        return sum(point.coef.nbytes for question in asked for point in question.points)
