"""Models that order rows: the common parts of `LinearRanker` and `OrdinalSVC`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from widemargin.arrays import Matrix, move_to, on_host
from widemargin.data import Rows
from widemargin.data.devices import DEVICES, is_on_gpu
from widemargin.data.memory import DenseRows
from widemargin.estimators.callbacks import CallbackSupportMixin
from widemargin.estimators.fitting import Fit, fit_one
from widemargin.estimators.reporting import Reporting
from widemargin.estimators.scoring import model_scores
from widemargin.estimators.validation import (
    check_choice,
    check_positive,
    check_training_parameters,
)
from widemargin.problem import Intercept, Problem, State, Tangents
from widemargin.risk import PairwiseHinge
from widemargin.solvers.registry import RiskKind, names

NORMALIZATIONS = ("pairs", "queries")


class OrderingModel(Reporting, CallbackSupportMixin, BaseEstimator):
    """A linear model trained by the pairwise hinge loss."""

    #: how pairs of different groups are weighted, one of NORMALIZATIONS
    normalization = "pairs"
    coef_: np.ndarray

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def _scores(self, X: Matrix) -> np.ndarray:
        check_is_fitted(self)
        stays_on_gpu = is_on_gpu(X) and not isinstance(X, Rows)
        scores = model_scores(self, X, self.coef_)
        return scores if stays_on_gpu else on_host(scores)

    def _check_parameters(self) -> None:
        check_positive("C", self.C)
        check_choice("solver", self.solver, ("auto", *names(risk=RiskKind.ANY, published=True)))
        check_choice("device", self.device, DEVICES)
        check_training_parameters(self)

    def _fit_order(self, problem: "OrderingProblem", data: dict[str, Any]) -> Fit:
        """Solve `problem` and set the attributes of the model; return the Fit."""
        fit = fit_one(self, problem, self._start(problem), data)
        dual = fit.states[0].dual
        self.dual_weights_, self.dual_points_ = dual.weights, on_host(dual.coefs)
        self.n_pairs_ = problem.n_pairs
        return fit

    def _start(self, problem: "OrderingProblem") -> State | None:
        """Return the state of the last fit for a warm start; None without one."""
        if not (self.warm_start and hasattr(self, "dual_points_")):
            return None
        if self.coef_.shape != (problem.rows.n_features,):
            return None
        return problem.state(self)


class OrderingProblem:
    """A sequence of one Problem, whose solution orders the rows.

    The total weight of all pairs is C times the total weight of their rows. So C has about the
    same effect as in a classifier, and does not depend on the number of pairs.

    `finish(coef)` returns the attributes that predictions need besides `coef_`.
    """

    def __init__(
        self,
        model: BaseEstimator,
        rows: Rows,
        grades: np.ndarray,
        weights: np.ndarray | None,
        group: np.ndarray | None = None,
        finish: Callable[[np.ndarray], dict] | None = None,
    ) -> None:
        # Only differences of rows count, so a column may be shifted. Columns that are far from
        # zero are, because differences of large numbers would lose precision.
        self.rows = rows.near_origin() if isinstance(rows, DenseRows) else rows
        self.finish = finish
        weights = np.ones(rows.n_rows) if weights is None else weights
        risk = PairwiseHinge(grades, weights, group)
        if risk.rows.size == 0:
            raise ValueError(_no_pairs(grades[weights > 0.0]))
        #: groups without pairs
        self.left_out = np.empty(0, dtype=np.intp)
        if group is not None:
            self.left_out = np.setdiff1d(group[weights > 0.0], risk.groups)
        pairs = risk.weigh_pairs()
        if model.normalization == "queries":
            by_group = np.bincount(risk.member, risk.weight) / np.diff(risk.starts)
            fraction = by_group / by_group.sum() / pairs
        else:
            fraction = np.full(pairs.size, 1.0 / pairs.sum())
        self.n_pairs = int(risk.count_pairs().sum())
        risk = risk.scaled(model.C * risk.weight.sum() * fraction)
        self.risk = risk.move_to(rows.like) if rows.device == "cuda" else risk

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Problem:
        return Problem(self.rows, self.risk, Intercept.NONE)

    def attributes(self, states: Sequence[State]) -> dict[str, np.ndarray]:
        """Return the attributes that the model needs for prediction."""
        (state,) = states
        coef = on_host(state.coef)
        more = self.finish(coef) if self.finish is not None else {}
        return {"coef_": coef, **more}

    def state(self, model: BaseEstimator) -> State:
        """Return the state of a fitted model."""
        like = self.rows.coef_like
        points = move_to(model.dual_points_, like)
        coef = move_to(model.coef_.astype(np.float64), like)
        return State(coef, 0.0, Tangents(model.dual_weights_, points))


def _no_pairs(grades: np.ndarray) -> str:
    if np.all(grades == grades[0]):
        return (
            f"every row that counts has the same grade, {grades[0]:g} (n_samples={grades.size}): "
            "there is nothing to put in order"
        )
    return "no group has rows of different grades: there is no pair to put in order"
