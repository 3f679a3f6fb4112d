"""One problem for each label, where a row may have several."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from widemargin.arrays import Matrix
from widemargin.data import Rows
from widemargin.estimators.label_sets import LabelMatrix
from widemargin.estimators.problems import OneByOne, regularisation_of, row_costs
from widemargin.estimators.validation import is_real
from widemargin.losses import LOSSES, Loss
from widemargin.problem import Intercept, Problem, SparseCoef, State
from widemargin.risk import MarginRisk


@dataclass(eq=False)
class PerLabel(OneByOne):
    """The rows that have a label against those that do not, for each label.

    Attributes
    ----------
    factors : ndarray of shape (k, 2)
        Factors on the costs of the rows without the label, and of those with it.
    """

    labels: LabelMatrix
    loss: Loss
    factors: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Problem:
        y = np.full(self.rows.n_rows, -1, dtype=np.int8)
        y[self.labels.positives(index)] = 1
        cost, (without, having) = self.cost, self.factors[index]
        if without != 1.0 or having != 1.0:
            cost = cost * np.where(y > 0, having, without)
        return Problem(self.rows, MarginRisk(y, cost, self.loss), self.intercept)

    def only_sign(self, index: int) -> float | None:
        """Return the y of all rows that count, if they have the same and the intercept is free.

        Then an intercept alone has no loss, and w = 0 is optimal.
        """
        if self.intercept is not Intercept.FREE:
            return None
        exist = self.counted[index] * self.factors[index] > 0.0
        if exist.all():
            return None
        return 1.0 if exist[1] else -1.0

    @cached_property
    def counted(self) -> np.ndarray:
        """How many rows of positive cost do not have each label, and how many have it, (k, 2)."""
        counts = self.cost > 0.0
        label_of = np.repeat(np.arange(len(self)), self.labels.counts)
        having = np.bincount(label_of, counts[self.labels.rows], minlength=len(self))
        return np.column_stack([np.count_nonzero(counts) - having, having])

    def _states(self, coef: Matrix, intercept: np.ndarray, dual: Matrix) -> list[State]:
        coef = coef.tocsr() if scipy.sparse.issparse(coef) else coef
        return [self.state(coef, intercept, dual, j) for j in range(len(self))]

    def state(self, coef: Matrix, intercept: np.ndarray, dual: Matrix, j: int) -> State:
        """Return the state of one problem; of sparse coefficients in little memory."""
        if not scipy.sparse.issparse(coef):
            return State(coef[j].astype(np.float64), float(intercept[j]), self._dual_of(dual, j))
        part = slice(coef.indptr[j], coef.indptr[j + 1])
        found = SparseCoef(coef.indices[part], coef.data[part], coef.shape[1])
        return State(found, float(intercept[j]), self._dual_of(dual, j))

    def attributes(self, states: Sequence[State]) -> dict[str, Any]:
        coefs = [state.coef for state in states]
        if not all(isinstance(coef, SparseCoef) for coef in coefs):
            return super().attributes([unpacked(state) for state in states])
        starts = np.cumsum([0, *(coef.index.size for coef in coefs)])
        shape = len(coefs), self.rows.n_features
        whole = np.int32 if max(starts[-1], *shape) < 1 << 31 else np.int64
        kind = np.result_type(np.float32, *{c.values.dtype for c in coefs if c.index.size})
        values, index = np.empty(starts[-1], kind), np.empty(starts[-1], whole)
        for begin, coef in zip(starts, coefs):
            part = slice(begin, begin + coef.index.size)
            values[part], index[part] = coef.values, coef.index
        matrix = scipy.sparse.csr_array((values, index, starts.astype(whole)), shape=shape)
        intercept = np.array([state.offset for state in states], dtype=np.float64)
        return {"coef_": matrix.tocsc(), "intercept_": intercept}


def unpacked(state: State) -> State:
    """Return a state with dense coefficients and dual variables, as solvers take it."""
    if isinstance(state.coef, SparseCoef):
        state = State(state.coef.dense(), state.offset, state.dual)
    return state.unpacked()


def label_problems(
    model: BaseEstimator, rows: Rows, labels: LabelMatrix, weights: np.ndarray | None
) -> PerLabel:
    """Return the problems whose solutions make the multi-label classifier `model`."""
    intercept, constant, penalty = regularisation_of(model, rows)
    if penalty.is_sparse:
        raise ValueError(f"penalty={model.penalty!r} is not offered for a matrix of labels")
    if constant is not None:
        raise ValueError(
            "intercept_scaling other than 1 is not offered for a matrix of labels: use 1, or "
            "penalized_intercept=False"
        )
    cost, loss = row_costs(model, rows, weights), LOSSES[model.loss]
    factors = label_factors(model.class_weight, labels, weights)
    return PerLabel(rows, cost, intercept, None, penalty, labels, loss, factors)


def label_factors(
    class_weight: dict | str | None, labels: LabelMatrix, weights: np.ndarray | None
) -> np.ndarray:
    """Return the factors on the costs of rows without and with each label, (k, 2)."""
    factors = np.ones((len(labels), 2))
    if isinstance(class_weight, str):  # balanced, each label for itself
        each = np.ones(labels.n_rows) if weights is None else weights
        label_of = np.repeat(np.arange(len(labels)), labels.counts)
        having = np.bincount(label_of, each[labels.rows], minlength=len(labels))
        sums = np.column_stack([np.maximum(each.sum() - having, 0.0), having])
        both = (sums > 0.0).all(axis=1)
        factors[both] = each.sum() / (2.0 * sums[both])
    elif class_weight is not None:
        place = {label: j for j, label in enumerate(labels.classes.tolist())}
        unknown = set(class_weight) - set(place)
        if unknown:
            raise ValueError(
                "class_weight names labels that y does not have: "
                + ", ".join(sorted(map(repr, unknown)))
            )
        for label, weight in class_weight.items():
            if not (is_real(weight) and 0 <= weight < math.inf):
                raise ValueError(
                    f"class_weight must be non-negative numbers: label {label!r} has {weight!r}"
                )
            factors[place[label], 1] = weight
    return factors
