"""The contract of risks: values, cuts, lines, and the dual. A risk never sees the rows."""

from abc import ABC, abstractmethod
from types import ModuleType
from typing import NamedTuple, Protocol

import numpy as np


class Cut(NamedTuple):
    """A plane below the risk:  r(T) >= <slope, T> + constant  for all scores T."""

    value: float  # r at the scores where the plane touches it
    slope: np.ndarray  # shaped as the scores
    constant: float  # -r*(slope)
    code: np.ndarray | None  # the slope, packed, if the risk can unpack it
    active: int  # how many rows have a loss there


class Bound(NamedTuple):
    """A lower or upper bound on a value, and how far it may be from it."""

    value: float
    rounding: float


class LineSums(NamedTuple):
    """The risk at p steps along a line, and the pieces of their losses that rows are on.

    A risk that is not a sum over rows has no pieces, (p, 0), and no curvature.
    """

    values: np.ndarray  # (p,)
    slopes: np.ndarray  # (p,) one subgradient each
    curvatures: np.ndarray  # (p,) second derivative of the pieces
    pieces: np.ndarray  # as `passes` return them; if equal at two steps, then also in between


class Line(Protocol):
    """The risk along  S + step * D."""

    def evaluate(self, steps) -> LineSums:
        """Return values and slopes at all `steps`, in one pass over the rows."""


class RowLine(Line, Protocol):
    """The risk along a line, as a sum over rows of piecewise smooth convex functions.

    Attributes
    ----------
    size : int
        How many rows.
    passes : module
        The passes for the device of its arrays.
    """

    size: int
    passes: ModuleType

    def between(self, sums: LineSums, j) -> "RowLine | None":
        """Return the part of the sum with the rows on other pieces at step j + 1 than at step j.

        None if there are none. Other rows may be in it.
        """


class Risk(ABC):
    """A nonnegative convex function of the scores.

    Attributes
    ----------
    outputs : tuple of int
        Shape of one row's scores: () or (k,).
    """

    outputs: tuple[int, ...]

    @abstractmethod
    def value(self, S) -> float:
        """Return r(S)."""

    @abstractmethod
    def bound(self, S, error, low=None) -> Bound:
        """Return an upper bound on r at all scores within `error`, (n,), of S.

        `low`, shaped as S, has further digits of S: it is at most a rounding error of S.
        """

    def may_have_loss(self, S, error):
        """Return which rows may have a loss at scores within `error`, (n,), of S."""
        return np.ones_like(error, dtype=bool)

    def part(self, begin, end) -> "Risk":
        """Return the risk of the rows from `begin` to `end`; all of it if it is not a sum."""
        return self

    @abstractmethod
    def cut(self, S) -> Cut:
        """Return a plane below r that touches it at S."""

    @abstractmethod
    def line(self, S, D) -> Line:
        """Return r along S + step * D."""


class RowRisk(Risk):
    """A sum of losses of single rows, with a dual in closed form.

    Attributes
    ----------
    cost : ndarray of shape (n,)
        Weight of each row's loss.
    """

    cost: np.ndarray

    @abstractmethod
    def part(self, begin, end) -> "RowRisk":
        """Return the risk of the rows from `begin` to `end`, without a copy."""

    @abstractmethod
    def line(self, S, D) -> RowLine: ...

    @abstractmethod
    def dual(self, A) -> float:
        """Return -r*(-A)."""

    @abstractmethod
    def feasible(self, A):
        """Return dual variables near A that satisfy each row's constraints, for any intercept."""

    @abstractmethod
    def balanced(self, A):
        """Return feasible dual variables near feasible A with sum_i A_i = 0.

        This is the constraint of a free intercept.
        """

    @abstractmethod
    def largest_lack(self, S, error) -> float:
        """Return how much a row's score lacks to having no loss, at most, within `error` of S."""

    def useful_offset(self, S, offset):
        """Return an offset near enough to be useful, with r(S + offset) no larger.

        S are the scores without the offset.
        """
        return offset

    @abstractmethod
    def signed(self, alpha):
        """Return A for the nonnegative dual variables alpha of a State."""

    @abstractmethod
    def unsigned(self, A):
        """Return alpha for feasible A."""

    @abstractmethod
    def unpack(self, code):
        """Return the slope that was packed into `code`."""

    def weighted_sum(self, slopes):
        """Return the dual variables A of a convex combination [(weight, code)] of slopes."""
        return -sum(weight * self.unpack(code) for weight, code in slopes)

    def merge(self, code, weight, other, other_weight):
        """Return the code of a weighted sum of two slopes; by default the sum, unpacked."""
        return weight * self.unpack(code) + other_weight * self.unpack(other)
