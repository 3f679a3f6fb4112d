"""Training problems, which do not change, and the states that solvers reach."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from widemargin.data.rows import Rows
from widemargin.penalty import RIDGE, Penalty
from widemargin.risk import LowestMean, Risk, RowRisk

RowsT = TypeVar("RowsT", bound=Rows)
RiskT = TypeVar("RiskT", bound=Risk)


class Intercept(Enum):
    """How the offset b of all scores is treated."""

    NONE = "none"
    FREE = "free"  # unpenalised, as in SVC(kernel="linear")
    PENALIZED = "penalized"  # b^2 / 2 is added to the objective, as in LIBLINEAR

    @classmethod
    def of(cls, model: BaseEstimator) -> "Intercept":
        """Return the kind that `fit_intercept` and `penalized_intercept` of an estimator set."""
        if not model.fit_intercept:
            return cls.NONE
        return cls.PENALIZED if model.penalized_intercept else cls.FREE


@dataclass(frozen=True)
class Problem(Generic[RowsT, RiskT]):
    """min over w, b of  penalty(w) (+ penalty(b) if penalised) + risk(X w + b)."""

    rows: RowsT
    risk: RiskT
    intercept: Intercept = Intercept.FREE
    penalty: Penalty = RIDGE

    def __post_init__(self) -> None:
        if self.penalty.is_sparse and not isinstance(self.risk, RowRisk):
            raise ValueError(f"{type(self.risk).__name__} is for a penalty of |w|^2 / 2 alone")
        if self.intercept is not Intercept.NONE and not self.risk.takes_intercept:
            raise ValueError(
                f"{type(self.risk).__name__} takes no intercept: it has no effect, or none "
                "that the lower bound knows of"
            )


@dataclass(frozen=True)
class Tangents:
    """A convex combination of planes below the risk, each given by a point where it touches.

    It gives a lower bound if the risk's dual has no closed form.

    Attributes
    ----------
    weights : ndarray of shape (m,)
        If their sum is less than 1, the plane zero has the rest: no risk is negative.
    coefs : ndarray of shape (m, d)
    """

    weights: np.ndarray
    coefs: np.ndarray

    @classmethod
    def weighted_sum(cls, parts: Sequence[tuple[float, "Tangents"]]) -> "Tangents":
        """Return a weighted sum [(weight, Tangents)] as one combination."""
        return cls(
            np.concatenate([weight * part.weights for weight, part in parts]),
            np.concatenate([part.coefs for _, part in parts]),
        )


@dataclass(frozen=True)
class SparseDual:
    """Dual variables of which most are zero, in little memory.

    Attributes
    ----------
    index : ndarray of shape (m,), uint32 or wider
        The rows where they are not zero, in increasing order.
    values : ndarray of shape (m,)
    n_rows : int
    """

    index: np.ndarray
    values: np.ndarray
    n_rows: int

    @classmethod
    def of(cls, dual: np.ndarray) -> "SparseDual":
        """Return the sparse form of an array (n,)."""
        index = np.flatnonzero(dual != 0.0)  # of a mask: an eighth of the time
        small = index.astype(np.uint32) if dual.size < 1 << 32 else index
        return cls(small, dual[index], dual.size)

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + self.values.nbytes

    def dense(self) -> np.ndarray:
        """Return the array (n,)."""
        dual = np.zeros(self.n_rows)
        dual[self.index] = self.values
        return dual


@dataclass(frozen=True, eq=False)
class SparseCoef:
    """Coefficients of which most are zero.

    Attributes
    ----------
    index : ndarray of shape (m,), int32, increasing
    values : ndarray of shape (m,), float32 or float64
    size : int
        How many there are, with the zeros.
    """

    index: np.ndarray
    values: np.ndarray
    size: int

    @classmethod
    def of(cls, coef: np.ndarray, used: np.ndarray, size: int) -> "SparseCoef":
        """Return the coefficients of the features `used`, in any order, without zeros."""
        places = np.flatnonzero(coef)
        places = places[np.argsort(used[places])]
        return cls(used[places].astype(np.int32), coef[places], size)

    def dense(self) -> np.ndarray:
        """Return the coefficients in float64, (d,)."""
        coef = np.zeros(self.size)
        coef[self.index] = self.values
        return coef


@dataclass
class State:
    """A primal point and a dual point, from which a solver can continue.

    Attributes
    ----------
    coef : ndarray of shape (d,) or (d, k)
    offset : float or ndarray of shape (k,)
        The intercept b.
    dual : ndarray of shape (n,) or (n, k), or Tangents
        alpha, none below 0 for one-sided losses; `risk.signed(alpha)` are the dual variables A.
        Tangents if the risk is not a sum over rows. SparseDual while other problems are solved;
        solvers do not take it.
    """

    coef: Any
    offset: Any
    dual: Any

    def packed(self) -> "State":
        """Return this state with sparse dual variables, if these take less memory."""
        if not isinstance(self.dual, np.ndarray) or self.dual.ndim > 1:
            return self
        bytes_for_each = self.dual.itemsize + 4  # with the index of its row
        if bytes_for_each * np.count_nonzero(self.dual) >= self.dual.nbytes:
            return self
        return State(self.coef, self.offset, SparseDual.of(self.dual))

    def unpacked(self) -> "State":
        """Return this state with dense dual variables, as solvers take it."""
        if not isinstance(self.dual, SparseDual):
            return self
        return State(self.coef, self.offset, self.dual.dense())

    @classmethod
    def zero(cls, problem: Problem) -> "State":
        outputs, rows = problem.risk.outputs, problem.rows
        coef = np.zeros((rows.n_features, *outputs), like=rows.coef_like)
        dual: np.ndarray | Tangents = Tangents(np.empty(0), coef[None][:0])
        if isinstance(problem.risk, RowRisk | LowestMean):
            dual = np.zeros((rows.n_rows, *outputs), like=rows.like)
        return cls(coef, np.zeros(outputs) if outputs else 0.0, dual)
