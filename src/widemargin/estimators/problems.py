"""From labels and weights to training problems, and back; used by fitting and certifying."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from widemargin.arrays import Matrix, move_to, on_host
from widemargin.data import Rows, as_rows
from widemargin.data.memory import RowsInMemory
from widemargin.estimators.penalties import penalty_of
from widemargin.estimators.validation import is_real
from widemargin.penalty import Penalty
from widemargin.problem import Intercept, Problem, SparseDual, State
from widemargin.risk import (
    LOSSES,
    CrammerSinger,
    Hinge,
    LogisticRisk,
    MarginRisk,
    MultinomialRisk,
    RowRisk,
)
from widemargin.words import label_in_words

MULTI_CLASS = ("ovr", "crammer_singer")
#: the `loss` of estimators of logistic regression, and their choices of `multi_class`
LOGISTIC = "logistic"
LOGISTIC_MULTI_CLASS = ("auto", "multinomial", "ovr")


def make_problems(
    model: BaseEstimator,
    rows: Rows,
    classes: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray | None,
) -> "ProblemSet":
    """Return the problems whose solutions make the classifier of `model`.

    `classes` (k,) are the labels, and `codes` (n,) the place of each row's label among them.
    """
    cost = row_costs(model, rows, weights)
    if model.class_weight is not None:
        cost *= move_to(_class_factors(model, classes, codes, weights), cost)
    codes = np.asarray(codes, like=rows.like)
    check_classes(classes, codes, cost)
    kind, of_classes = regularisation_of(model, rows), (codes, len(classes))
    if model.loss == LOGISTIC:
        if len(classes) > 2 and model.multi_class != "ovr":
            return AllTogether(rows, cost, *kind, *of_classes, MultinomialRisk)
        return OneVsRest(rows, cost, *kind, *of_classes, LogisticRisk)
    if model.multi_class == "crammer_singer":
        if len(classes) > 2:
            return AllTogether(rows, cost, *kind, *of_classes, CrammerSinger)
        # w = w_2 - w_1 of two classes solves the hinge problem with twice the cost.
        return OneVsRest(rows, 2.0 * cost, *kind, *of_classes, Hinge)
    make = partial(MarginRisk, loss=LOSSES[model.loss])
    return OneVsRest(rows, cost, *kind, *of_classes, make)


def regularisation_of(model: BaseEstimator, rows: Rows) -> tuple[Intercept, float | None, Penalty]:
    """Return the kind of intercept, the value of the feature if one makes it, the penalty."""
    constant = _constant(model, rows)
    kind = Intercept.of(model) if constant is None else Intercept.NONE
    return kind, constant, penalty_of(model)


def _constant(model: BaseEstimator, rows: Rows) -> float | None:
    """Return the value of the feature whose weight is the intercept; None if there is none."""
    if not (model.fit_intercept and model.penalized_intercept) or model.intercept_scaling == 1:
        return None
    return float(np.asarray(model.intercept_scaling, dtype=rows.dtype))


def with_constant(rows: Rows, model: BaseEstimator) -> Rows:
    """Return the rows with a last feature that is constant, if `model` has one."""
    constant = _constant(model, rows)
    if constant is None:
        return rows
    if not isinstance(rows, RowsInMemory):
        raise ValueError(
            "intercept_scaling other than 1 needs rows in memory, to which a constant feature is "
            "added: use 1, or penalized_intercept=False"
        )
    column = np.full((rows.n_rows, 1), constant, dtype=rows.dtype)
    if scipy.sparse.issparse(rows.matrix):
        wider = scipy.sparse.hstack([rows.matrix, column], format="csr", dtype=rows.dtype)
    else:
        wider = np.hstack([rows.matrix, column])
    wide = as_rows(wider)
    wide.constant = constant
    return wide


@dataclass(eq=False)
class ProblemSet(ABC):
    """Problems over the same rows, and the conversion of their states to an estimator's arrays.

    The arrays are coef (m, d), intercept (m,) and dual, CSR (m, n), with m = 1 for two
    classes and one row per class, or per target, otherwise.
    """

    rows: Rows
    cost: np.ndarray
    intercept: Intercept
    constant: float | None  # the value of the last feature, if its weight is the intercept
    penalty: Penalty

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> Problem: ...

    def states(self, coef: np.ndarray, intercept: np.ndarray, dual: Matrix) -> list[State]:
        """Return the states of the problems for these arrays, or for parts of them.

        If the problems have no intercept, it is zero, whatever the arrays say.
        """
        if self.constant is not None:
            coef = np.column_stack([coef, intercept / self.constant])
        if self.intercept is Intercept.NONE:
            intercept = np.zeros(len(intercept))
        return self._states(coef, intercept, dual)

    @abstractmethod
    def _states(self, coef: np.ndarray, intercept: np.ndarray, dual: Matrix) -> list[State]: ...

    @property
    def n_features(self) -> int:
        return self.rows.n_features - (self.constant is not None)

    def attributes(self, states: Sequence[State]) -> dict[str, np.ndarray]:
        """Return the attributes with which the estimator predicts as these states do."""
        coef, intercept = self._arrays(states)
        if self.constant is not None:
            coef, intercept = coef[:, :-1].copy(), self.constant * coef[:, -1]
        return {"coef_": coef, "intercept_": intercept}

    @abstractmethod
    def _arrays(self, states: Sequence[State]) -> tuple[np.ndarray, np.ndarray]: ...

    @abstractmethod
    def dual(self, states: Sequence[State]) -> scipy.sparse.csr_array:
        """Return the dual variables of the problems' states."""

    @abstractmethod
    def dual_in_place(self, states: Sequence[State]) -> np.ndarray:
        """Return the dual variables as one dense array, on the device of the rows."""


class OneByOne(ProblemSet):
    """Problems with one score per row each."""

    def _states(self, coef: np.ndarray, intercept: np.ndarray, dual: Matrix) -> list[State]:
        return [
            State(
                move_to(coef[j].astype(np.float64, copy=False), self.rows.coef_like),
                float(intercept[j]),
                self._dual_of(dual, j),
            )
            for j in range(len(self))
        ]

    def _dual_of(self, dual: Matrix, j: int) -> Any:
        """Return the dual variables of one problem; sparse ones on the host stay sparse."""
        if not scipy.sparse.issparse(dual):
            return move_to(dual[j], self.cost)
        part = slice(dual.indptr[j], dual.indptr[j + 1])
        found = SparseDual(dual.indices[part], dual.data[part], dual.shape[1])
        return move_to(found.dense(), self.cost) if self.rows.device == "cuda" else found

    def _arrays(self, states: Sequence[State]) -> tuple[np.ndarray, np.ndarray]:
        coef = np.empty((len(states), self.rows.n_features))
        intercept = np.empty(len(states))
        for j, state in enumerate(states):
            coef[j], intercept[j] = on_host(state.coef), state.offset
        return coef, intercept

    def dual(self, states: Sequence[State]) -> scipy.sparse.csr_array:
        # One after the other: a list of them would double their memory.
        counts = [_count_nonzero(state.dual) for state in states]
        starts, n_rows = np.cumsum([0, *counts]), self.rows.n_rows
        whole = np.int32 if max(starts[-1], n_rows) < 1 << 31 else np.int64
        values, columns = np.empty(starts[-1]), np.empty(starts[-1], dtype=whole)
        for begin, state in zip(starts, states):
            found = _sparse(state.dual)
            part = slice(begin, begin + found.index.size)
            values[part], columns[part] = found.values, found.index
        shape = len(states), n_rows
        return scipy.sparse.csr_array((values, columns, starts.astype(whole)), shape=shape)

    def dual_in_place(self, states: Sequence[State]) -> np.ndarray:
        return np.stack([state.dual for state in states])


@dataclass(eq=False)
class OneVsRest(OneByOne):
    """One two-class problem for two classes; else one per class, against all others."""

    codes: np.ndarray
    n_classes: int
    make: Callable[[np.ndarray, np.ndarray], RowRisk]  # of labels and costs

    def __post_init__(self) -> None:
        # Of two classes the second one is the positive one, as in scikit-learn.
        self.positives = [1] if self.n_classes == 2 else list(range(self.n_classes))

    def __len__(self) -> int:
        return len(self.positives)

    def __getitem__(self, index: int) -> Problem:
        # For bytes, `where` takes ten times as long.
        y = (self.codes == self.positives[index]).view(np.int8)
        y *= 2
        y -= 1
        return Problem(self.rows, self.make(y, self.cost), self.intercept, self.penalty)


@dataclass(eq=False)
class AllTogether(ProblemSet):
    """One problem for all classes: Crammer and Singer's, or multinomial regression."""

    codes: np.ndarray
    n_classes: int
    make: Callable[[np.ndarray, np.ndarray, int], RowRisk]

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Problem:
        risk = self.make(self.codes, self.cost, self.n_classes)
        return Problem(self.rows, risk, self.intercept, self.penalty)

    def _states(self, coef: np.ndarray, intercept: np.ndarray, dual: Matrix) -> list[State]:
        coef = move_to(coef.T.astype(np.float64, order="C"), self.rows.coef_like)
        dual = move_to(dual.toarray() if scipy.sparse.issparse(dual) else dual, self.cost)
        return [State(coef, on_host(intercept).astype(np.float64), dual.T)]

    def _arrays(self, states: Sequence[State]) -> tuple[np.ndarray, np.ndarray]:
        (state,) = states
        coef = np.ascontiguousarray(on_host(state.coef).T, dtype=np.float64)
        return coef, np.array(state.offset)

    def dual(self, states: Sequence[State]) -> scipy.sparse.csr_array:
        (state,) = states
        return scipy.sparse.csr_array(on_host(state.dual).T)

    def dual_in_place(self, states: Sequence[State]) -> np.ndarray:
        (state,) = states
        return state.dual.T


def warm_starts(previous: tuple | None, classes: np.ndarray, problems: ProblemSet) -> list:
    """Return one State per problem, from the previous fit where it matches."""
    if previous is not None:
        old_classes, coef, intercept, dual = previous
        if (
            np.array_equal(old_classes, classes)
            and dual.shape[1] == problems.rows.n_rows
            and coef.shape[1] == problems.n_features
        ):
            return problems.states(coef, intercept, dual)
    return [None] * len(problems)


def _count_nonzero(dual: Any) -> int:
    if isinstance(dual, SparseDual):
        return dual.index.size
    return int(np.count_nonzero(on_host(dual)))


def _sparse(dual: Any) -> SparseDual:
    return dual if isinstance(dual, SparseDual) else SparseDual.of(on_host(dual))


def check_classes(classes: np.ndarray, codes: np.ndarray, cost: np.ndarray) -> None:
    """Raise ValueError unless two classes have rows of positive weight."""
    counted, present = cost > 0.0, np.arange(len(classes))
    if not counted.all():
        present = np.flatnonzero(on_host(np.bincount(codes[counted], minlength=1)))
    if present.size < 2:
        only = label_in_words(classes[present[0]]) if present.size else "none"
        raise ValueError(
            "a classifier needs rows of at least 2 classes, but the data (rows of weight "
            f"zero not counted) contains only one class: {only}"
        )


def row_costs(model: BaseEstimator, rows: Rows, weights: np.ndarray | None) -> np.ndarray:
    """Return C times sample weight, (n,), on the device of the rows."""
    cost = np.zeros(rows.n_rows, like=rows.like)
    cost += float(model.C)
    if weights is not None:
        cost *= move_to(weights, cost)
    return cost


def _class_factors(
    model: BaseEstimator, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray | None
) -> np.ndarray:
    """Return the class weight of each row, (n,)."""
    codes = on_host(codes)
    weights = None if weights is None else on_host(weights)
    return class_weights(model.class_weight, classes, codes, weights)[codes]


def class_weights(
    class_weight: dict | str, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray | None
) -> np.ndarray:
    """Return one weight per class, (k,); ValueError if one is no valid weight."""
    by_class = np.ones(len(classes))
    if isinstance(class_weight, str):  # balanced
        totals = np.bincount(codes, weights, minlength=len(classes))
        present = totals > 0.0
        by_class[present] = totals.sum() / (np.count_nonzero(present) * totals[present])
        return by_class
    unknown = set(class_weight) - set(classes.tolist())
    if unknown:
        raise ValueError(
            "class_weight names classes that y does not have: "
            + ", ".join(sorted(map(repr, unknown)))
        )
    for j, label in enumerate(classes.tolist()):
        weight = class_weight.get(label, 1.0)
        if not (is_real(weight) and 0 <= weight < math.inf):
            raise ValueError(
                f"class_weight must be non-negative numbers: class {label!r} has {weight!r}"
            )
        by_class[j] = weight
    return by_class
