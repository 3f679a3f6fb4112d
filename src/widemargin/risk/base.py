"""The contract of risks: values, cuts, lines, and the dual. A risk never sees the rows."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy import ndarray as Array
from numpy.typing import ArrayLike

from widemargin import passes, threads
from widemargin.arrays import parts_of

#: what is added to the scores of every row, (k,) for several outputs
Offset: TypeAlias = float | Array
#: a convex combination of slopes: weights, and packed slopes
Slopes: TypeAlias = Iterable[tuple[float, Array]]


class Cut(NamedTuple):
    """A plane below the risk:  r(T) >= <slope, T> + constant  for all scores T."""

    value: float  # r at the scores where the plane touches it
    slope: Array  # shaped as the scores
    constant: float  # -r*(slope)
    code: Array | None  # the slope, packed, if the risk can unpack it
    active: int  # how many rows have a loss there


class Bound(NamedTuple):
    """A lower or upper bound on a value, and how far it may be from it."""

    value: float
    rounding: float


class LineSums(NamedTuple):
    """The risk at p steps along a line, and the pieces of their losses that rows are on.

    A risk that is not a sum over rows has no pieces, (p, 0), and no curvature.
    """

    values: Array  # (p,)
    slopes: Array  # (p,) one subgradient each
    curvatures: Array  # (p,) second derivative of the pieces
    pieces: Array  # as `passes` return them; if equal at two steps, then also in between


class Line(Protocol):
    """The risk along  S + step * D."""

    def evaluate(self, steps: ArrayLike) -> LineSums:
        """Return values and slopes at all `steps`, in one pass over the rows."""


class RowLine(ABC):
    """The risk along a line, as a sum over rows of piecewise smooth convex functions.

    `vectors` have a number per row, or several.
    """

    def __init__(self, *vectors: Array):
        self.vectors, self.size, self.passes = vectors, len(vectors[0]), passes.of(vectors[0])

    @abstractmethod
    def sums(self, steps: Array) -> tuple[Array, Array]:
        """Return values, slopes and curvatures, (p, 3), and the pieces, as in `passes`."""

    @abstractmethod
    def over(self, vectors: Iterable[Array]) -> "RowLine":
        """Return the same sum over other rows."""

    def evaluate(self, steps: ArrayLike) -> LineSums:
        sums, pieces = self.sums(np.asarray(steps, dtype=np.float64))
        return LineSums(sums[:, 0], sums[:, 1], sums[:, 2], pieces)

    def between(self, sums: LineSums, j: int) -> "RowLine | None":
        """Return the part of the sum with the rows on other pieces at step j + 1 than at step j.

        None if there are none. Other rows may be in it.
        """
        rows = self.passes.changed(sums.pieces, j)
        return None if rows is None else self.over(vector[rows] for vector in self.vectors)


class Risk(ABC):
    """A nonnegative convex function of the scores.

    Attributes
    ----------
    outputs : tuple of int
        Shape of one row's scores: () or (k,).
    """

    outputs: tuple[int, ...]
    #: whether an intercept has an effect, and what it does to the lower bound is known
    takes_intercept: bool = False
    #: how many terms the sums of a plane have, if there are more than rows
    n_terms: int = 0

    @abstractmethod
    def value(self, S: Array) -> float:
        """Return r(S)."""

    @abstractmethod
    def bound(self, S: Array, error: Array, low: Array | None = None) -> Bound:
        """Return an upper bound on r at all scores within `error`, (n,), of S.

        `low`, shaped as S, has further digits of S: it is at most a rounding error of S.
        """

    def may_have_loss(self, S: Array, error: Array) -> Array:
        """Return which rows may have a loss at scores within `error`, (n,), of S."""
        return np.ones_like(error, dtype=bool)

    def part(self, begin: int, end: int) -> "Risk":
        """Return the risk of the rows from `begin` to `end`; all of it if it is not a sum."""
        return self

    @abstractmethod
    def cut(self, S: Array) -> Cut:
        """Return a plane below r that touches it at S."""

    def line(self, S: Array, D: Array) -> Line:
        """Return r along S + step * D."""
        return CutLine(self, S, D)


class CutLine:
    """Any risk along S + step * D, from its cuts."""

    def __init__(self, risk: Any, S: Array, D: Array):
        self.risk, self.S, self.D = risk, S, D

    def evaluate(self, steps: ArrayLike) -> LineSums:
        steps = np.asarray(steps, dtype=np.float64)
        values, slopes = np.transpose(threads.run(self.at, [(step,) for step in steps]))
        return LineSums(values, slopes, np.zeros(steps.size), np.empty((steps.size, 0)))

    def at(self, step: float) -> tuple[float, float]:
        """Return value and slope at a step."""
        cut = self.risk.cut(self.S + step * self.D)
        return cut.value, float(cut.slope @ self.D)


class CodedRisk(Risk):
    """A risk that is no sum over rows, whose planes are known by their codes."""

    @abstractmethod
    def decoded(self, code: Array) -> Cut:
        """Return the plane of a code, (m,) uint8; its value is unset. It is below r, always."""

    @abstractmethod
    def first_codes(self) -> list[Array]:
        """Return the codes of two planes that hold a free intercept back, one on each side."""

    @abstractmethod
    def largest_pulls(self, lengths: Array) -> tuple[float, float]:
        """Return the least sum of |slopes| of `first_codes`, and the largest one times |x_i|."""


class RowRisk(Risk):
    """A sum of losses of single rows, with a dual in closed form.

    Attributes
    ----------
    cost : ndarray of shape (n,)
        Weight of each row's loss.
    """

    cost: Array
    takes_intercept = True
    #: whether slopes are continuous: it has `slopes`
    is_smooth = False
    #: how much a row's dual term falls for each unit that its dual variable nears zero, at most
    steepest = 1.0

    def steepness(self, A: Array, height: float) -> float:
        """Return the same for all rows together, if each A_i nears zero by the same fraction.

        `height` is the dual at A.
        """
        return self.steepest

    @property
    def at_zero(self) -> float:
        """A bound on the value where all scores are zero."""
        return float(self.cost.sum())

    @abstractmethod
    def part(self, begin: int, end: int) -> "RowRisk":
        """Return the risk of the rows from `begin` to `end`, without a copy."""

    @abstractmethod
    def dual(self, A: Array) -> float:
        """Return -r*(-A)."""

    @abstractmethod
    def feasible(self, A: Array) -> Array:
        """Return dual variables near A that satisfy each row's constraints, for any intercept."""

    @abstractmethod
    def balanced(self, A: Array) -> Array:
        """Return feasible dual variables near feasible A with sum_i A_i = 0.

        This is the constraint of a free intercept.
        """

    def slopes(self, S: Array, offset: Any = 0.0) -> tuple[Array, Any]:
        """Return A at the scores S + offset, which is minus the slope there, and the curvature.

        Where a loss is linear, this is the curvature of a parabola which is above it.
        """
        raise TypeError(f"{type(self).__name__} is not smooth")

    @abstractmethod
    def largest_lack(self, S: Array, error: Array) -> float:
        """Return how much a row's score lacks to having no loss, at most, within `error` of S."""

    def useful_offset(self, S: Array, offset: Any) -> Any:
        """Return an offset near enough to be useful, with r(S + offset) no larger.

        S are the scores without the offset.
        """
        return offset

    @abstractmethod
    def signed(self, alpha: Array) -> Array:
        """Return A for the dual variables alpha of a State."""

    @abstractmethod
    def unsigned(self, A: Array) -> Array:
        """Return alpha for feasible A."""

    @abstractmethod
    def unpack(self, code: Array) -> Array:
        """Return the slope that was packed into `code`."""

    def weighted_sum(self, slopes: Slopes) -> Array:
        """Return the dual variables A of a convex combination [(weight, code)] of slopes."""
        total: Any = sum(weight * self.unpack(code) for weight, code in slopes)
        return -total

    def merge(self, code: Array, weight: float, other: Array, other_weight: float) -> Array:
        """Return the code of a weighted sum of two slopes; by default the sum, unpacked."""
        return weight * self.unpack(code) + other_weight * self.unpack(other)


class Curvature(ABC):
    """The second derivative of a risk at some scores: a quadratic form for each row."""

    @abstractmethod
    def times(self, U: Array) -> Array:
        """Return the product with vectors of one number, or k, per row: (n,) or (n, k)."""

    @property
    @abstractmethod
    def diagonal(self) -> Array:
        """The second derivatives in each score, (n,) or (n, k)."""

    @property
    @abstractmethod
    def total(self) -> Array:
        """The second derivative in an offset, (1, 1) or (k, k)."""


@dataclass
class RowCurvature(Curvature):
    """One number per row."""

    weight: Array  # (n,)

    def times(self, U: Array) -> Array:
        return self.weight * U

    @property
    def diagonal(self) -> Array:
        return self.weight

    @property
    def total(self) -> Array:
        return np.full((1, 1), self.weight.sum())


class SmoothRisk(RowRisk):
    """A sum of losses of single rows that have curvatures everywhere.

    A `Line` has no pieces, but values, slopes and curvatures.
    """

    is_smooth = True

    @abstractmethod
    def slopes(self, S: Array, offset: Any = 0.0) -> tuple[Array, Curvature]:
        """Return A at the scores S + offset, which is minus the slope there, and the curvature."""

    @abstractmethod
    def best_offset(self, S: Array) -> Any:
        """Return the offset b that minimises r(S + b)."""


def balanced_sides(A: Array) -> Array:
    """Return A, (n,), with sum zero; the side with the larger sum is scaled down."""
    parts = list(parts_of(A))
    above = math.fsum(float(np.maximum(A[part], 0.0).sum()) for part in parts)
    below = -math.fsum(float(np.minimum(A[part], 0.0).sum()) for part in parts)
    if above == below:
        return A
    balanced, least = np.empty_like(A), min(above, below)
    for part in parts:
        factors = np.where(A[part] > 0.0, least / (above or 1.0), least / (below or 1.0))
        np.multiply(A[part], factors, out=balanced[part])
    return balanced
