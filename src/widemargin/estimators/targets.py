"""From targets and weights to the problems of regression; used by fitting and certifying."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator

from widemargin.arrays import Matrix, for_kernels
from widemargin.data import Rows
from widemargin.estimators.problems import OneByOne, regularisation_of, row_costs
from widemargin.losses import TARGET_LOSSES, Loss, Shape
from widemargin.problem import Problem, State
from widemargin.risk import TargetRisk


@dataclass(eq=False)
class PerTarget(OneByOne):
    """One problem for each target."""

    y: np.ndarray  # (n,) or (n, k)
    loss: Loss

    def __len__(self) -> int:
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    def __getitem__(self, index: int) -> Problem:
        column = self.y if self.y.ndim == 1 else self.y[:, index]
        risk = TargetRisk(for_kernels(np.ascontiguousarray(column)), self.cost, self.loss)
        return Problem(self.rows, risk, self.intercept, self.penalty)

    def states(self, coef: np.ndarray, intercept: np.ndarray, dual: Matrix) -> list[State]:
        return super().states(np.atleast_2d(coef), intercept, dual)

    def attributes(self, states: Sequence[State]) -> dict[str, np.ndarray]:
        found = super().attributes(states)
        if self.y.ndim == 1:
            found["coef_"] = found["coef_"][0]
        return found


def target_problems(
    model: BaseEstimator, rows: Rows, y: np.ndarray, weights: np.ndarray | None
) -> PerTarget:
    """Return the problems whose solutions make the regressor `model`."""
    shape = Shape(model.epsilon, model.delta, model.quantile)
    loss = TARGET_LOSSES[model.loss](shape)
    cost = row_costs(model, rows, weights)
    return PerTarget(rows, cost, *regularisation_of(model, rows), y, loss)
