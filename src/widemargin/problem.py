"""What is to be solved, frozen; and the point a solver has reached."""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from widemargin.data.rows import Rows
from widemargin.risk import Risk


class Intercept(Enum):
    """How the offset b of all scores is treated."""

    NONE = "none"
    FREE = "free"  # unpenalised, as in SVC(kernel="linear")
    PENALIZED = "penalized"  # b^2 / 2 is added to the objective, as in LIBLINEAR


@dataclass(frozen=True)
class Problem:
    """min over w, b of  1/2 |w|^2 (+ 1/2 b^2 if penalised) + risk(X w + b)."""

    rows: Rows
    risk: Risk
    intercept: Intercept = Intercept.FREE


@dataclass
class State:
    """A primal point, a dual point, and what is needed to go on from there.

    Attributes
    ----------
    coef : ndarray of shape (d,) or (d, k)
    offset : float or ndarray of shape (k,)
        The intercept b.
    dual : ndarray of shape (n,) or (n, k)
        alpha >= 0; `risk.signed(alpha)` are the dual variables A.
    """

    coef: np.ndarray
    offset: float | np.ndarray
    dual: np.ndarray

    @classmethod
    def zero(cls, problem: Problem) -> "State":
        outputs = problem.risk.outputs
        return cls(
            np.zeros((problem.rows.n_features, *outputs)),
            np.zeros(outputs) if outputs else 0.0,
            np.zeros((problem.rows.n_rows, *outputs)),
        )
