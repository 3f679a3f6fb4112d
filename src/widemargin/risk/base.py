"""What every risk can do: values, cuts, lines, and its dual. None ever sees the rows."""

from abc import ABC, abstractmethod
from types import ModuleType
from typing import NamedTuple, Protocol

import numpy as np


class Cut(NamedTuple):
    """A plane under the risk:  r(T) >= <slope, T> + constant  for all scores T."""

    value: float  # r at the scores where the plane was taken, and touches
    slope: np.ndarray  # shaped as the scores
    constant: float  # -r*(slope)
    code: np.ndarray | None  # the slope, packed, if the risk can unpack it
    active: int  # rows that have a loss there


class Bound(NamedTuple):
    """A value that is no smaller, or no larger, than the true one, and by how much at most."""

    value: float
    rounding: float


class LineSums(NamedTuple):
    """The risk at p steps along a line, and on which pieces of their losses rows are.

    A risk that is no sum over rows has no pieces, (p, 0), and no curvature.
    """

    values: np.ndarray  # (p,)
    slopes: np.ndarray  # (p,) one subgradient each
    curvatures: np.ndarray  # (p,) second derivative of the pieces
    pieces: np.ndarray  # what `passes` remember of them; equal at two steps: equal between them


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
        The passes that work where their numbers are.
    """

    size: int
    passes: ModuleType

    def between(self, sums: LineSums, j) -> "RowLine | None":
        """Return the part of the sum made by rows on other pieces at step j + 1 than at step j.

        None if there are none; others may take part.
        """


class Risk(ABC):
    """A convex function of the scores, never negative.

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
        """Return a bound above r at all scores that are no farther from S than `error`, (n,).

        `low`, shaped as S, are further digits of S, of no more than a rounding of it.
        """

    def may_have_loss(self, S, error):
        """Return which rows may have a loss at scores no farther from S than `error`, (n,)."""
        return np.ones_like(error, dtype=bool)

    def part(self, begin, end) -> "Risk":
        """Return the risk of the rows from `begin` to `end`; of all of them, if it is no sum."""
        return self

    @abstractmethod
    def cut(self, S) -> Cut:
        """Return a plane under r that touches it at S."""

    @abstractmethod
    def line(self, S, D) -> Line:
        """Return r along S + step * D."""


class RowRisk(Risk):
    """A sum of losses of single rows, whose dual has a closed form.

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
        """Return dual variables near A that satisfy each row's constraints, with any intercept."""

    @abstractmethod
    def balanced(self, A):
        """Return feasible dual variables near feasible A for which sum_i A_i = 0.

        That is what a free intercept asks for.
        """

    @abstractmethod
    def largest_lack(self, S, error) -> float:
        """Return what a row lacks to having no loss at scores within `error` of S, at most."""

    def useful_offset(self, S, offset):
        """Return an offset that is no farther out than one can be of use.

        S are the scores without it; r(S + offset) does not rise.
        """
        return offset

    @abstractmethod
    def signed(self, alpha):
        """Return A for the non-negative dual variables alpha that a State carries."""

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
        """Return the code of a weighted sum of two slopes: the sum itself, unpacked."""
        return weight * self.unpack(code) + other_weight * self.unpack(other)
