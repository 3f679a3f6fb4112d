"""What the certificate of a fitted model proves of the optimum: labels, weights, rows."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from widemargin import threads
from widemargin.arrays import Matrix, Vector
from widemargin.data import Rows, as_rows
from widemargin.data.memory import RowsInMemory
from widemargin.estimators.certify import training_problems
from widemargin.estimators.linear_svc import LinearSVC
from widemargin.estimators.linear_svr import LinearSVR
from widemargin.estimators.problems import OneByOne, OneVsRest, with_constant
from widemargin.estimators.targets import PerTarget
from widemargin.estimators.validation import check_matrix
from widemargin.problem import State
from widemargin.proofs.leave_one_out import leave_one_out_scores
from widemargin.proofs.region import Interval, Region, region_of
from widemargin.proofs.screening import dual_bounds, mean_rows, settled_at


class Reduced(NamedTuple):
    """A smaller training set with the same optimum; see `Proof.reduced_problem`."""

    X: Matrix
    y: np.ndarray
    sample_weight: np.ndarray


class LeaveOneOut(NamedTuple):
    """Bounds on the score of each training row by the optimum without it, shaped as the scores.

    `least_error` and `most_error` bound the leave-one-out error: the part of the rows that
    the optimum without them labels wrong. NaN for regression.
    """

    low: np.ndarray
    high: np.ndarray
    least_error: float
    most_error: float


@threads.one_for_blas()
def prove(
    model: BaseEstimator, X: Matrix, y: Vector, sample_weight: Vector | None = None
) -> "Proof":
    """Say what is certain of the optimum that a fitted model is near to.

    The duality gap bounds how far the weights of the optimum are from those of the model, and so
    all of its scores and labels. It takes two passes over the rows for each class; a free
    intercept takes about ten more.

    Parameters
    ----------
    model : fitted LinearSVC, LinearSVR or LinearSVCCV
        Not with multi_class="crammer_singer", for more than two classes.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
    sample_weight : array-like of shape (n_samples,), default=None
        The data that `model` was trained on.

    Returns
    -------
    Proof

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from widemargin import LinearSVC, prove
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> model = LinearSVC(tol=1e-6).fit(X[:400], y[:400])
    >>> proof = prove(model, X[:400], y[:400])
    >>> bool(proof.settled_mask(X[400:]).mean() > 0.95)
    True
    """
    model = getattr(model, "best_estimator_", model)
    if not isinstance(model, LinearSVC | LinearSVR):
        raise TypeError(f"prove is for LinearSVC and LinearSVR, not for {type(model).__name__}")
    problems, states = training_problems(model, X, y, sample_weight)
    if not isinstance(problems, OneByOne):
        raise ValueError(
            "multi_class='crammer_singer' is one problem for all classes, of which only the gap "
            "is proved: use multi_class='ovr'"
        )
    if problems.rows.device == "cuda":
        raise ValueError("X is on a GPU, and proofs are made on the host")
    regions = tuple(
        region_of(problems[j], state.unpacked(), model.tol) for j, state in enumerate(states)
    )
    return Proof(model, problems, tuple(states), regions)


@dataclass(frozen=True, eq=False)
class Proof:
    """What is certain of the optimum of a training problem; `prove` makes it.

    Attributes
    ----------
    model : LinearSVC or LinearSVR
    regions : tuple of Region
        Where the weights and the intercept of the optimum are, of each class or target.
    """

    model: LinearSVC | LinearSVR
    problems: OneByOne
    states: tuple[State, ...]
    regions: tuple[Region, ...]

    def score_bounds(self, X: Matrix) -> Interval:
        """Return bounds on the optimum's scores of rows: (low, high), each shaped as the scores.

        Of regression, these are its predictions.
        """
        return self._shaped([region.scores(self._rows(X)) for region in self.regions])

    def settled_mask(self, X: Matrix) -> np.ndarray:
        """Return which rows have the optimum's own label for certain, (n,).

        The label that the model predicts of such a row stays, however long it is trained.
        """
        if isinstance(self.model, LinearSVR):
            raise TypeError("regression has no labels: score_bounds bounds its predictions")
        low, high = self.score_bounds(X)
        scores = np.asarray(self.model.decision_function(X))
        if scores.ndim == 1:
            return np.where(scores > 0.0, low > 0.0, high <= 0.0)
        place = scores.argmax(axis=1)[:, None]
        lowest = np.take_along_axis(low, place, axis=1)[:, 0]
        np.put_along_axis(high, place, -np.inf, axis=1)
        return np.asarray(lowest > high.max(axis=1))

    def weight_bounds(self) -> Interval:
        """Return bounds on the optimum's weights: (low, high), each shaped as `coef_`.

        The sign of a weight is settled if both are on the same side of zero.
        """
        bounds = [region.weights() for region in self.regions]
        n = self.problems.n_features  # without a feature that is the intercept
        low, high = (np.stack(ends)[:, :n] for ends in zip(*bounds))
        shape = np.shape(self.model.coef_)
        return Interval(low.reshape(shape), high.reshape(shape))

    @cached_property
    def dual_bounds(self) -> Interval:
        """Bounds on the optimum's dual variables: (low, high), each (n_problems, n_samples)."""
        found = [dual_bounds(self.problems[j], region) for j, region in enumerate(self.regions)]
        low, high = (np.stack(ends) for ends in zip(*found))
        return Interval(low, high)

    @property
    def irrelevant_rows(self) -> np.ndarray:
        """Which training rows have no dual weight at the optimum, of any class, (n_samples,).

        Without them the optimum is the same.
        """
        return np.all(settled_at(self.dual_bounds)[0], axis=0)

    @property
    def bounded_rows(self) -> np.ndarray:
        """Which training rows have a dual variable at its bound at the optimum, (n_samples,).

        Of several classes, in all problems that they matter in.
        """
        zero, at_bound = settled_at(self.dual_bounds)
        return (zero | at_bound).all(axis=0) & at_bound.any(axis=0)

    def reduced_problem(self) -> Reduced:
        """Return a smaller training set with the same optimum: (X, y, sample_weight).

        Irrelevant rows are left out. Of one problem, rows at a bound become one row for each label
        (or each side of the targets): their mean, with all of their weight. Class weights are in
        `sample_weight`: train with ``class_weight=None``.
        """
        rows = self.problems.rows
        if not isinstance(rows, RowsInMemory):
            raise TypeError("a reduced problem needs rows in memory")
        X, y = rows.matrix[:, : self.problems.n_features], self._labels()
        keep, cost = ~self.irrelevant_rows, self.problems.cost
        if len(self.regions) > 1:
            return Reduced(X[keep], y[keep], cost[keep] / self.model.C)
        problem, bounded = self.problems[0], self.bounded_rows
        means, targets, costs = mean_rows(problem, self.dual_bounds.low[0], bounded)
        means, keep = means[:, : X.shape[1]], keep & ~bounded
        if isinstance(self.model, LinearSVC):
            targets = self.model.classes_[(targets > 0.0).astype(int)]
        stack = scipy.sparse.vstack if scipy.sparse.issparse(X) else np.vstack
        like = scipy.sparse.csr_matrix if scipy.sparse.issparse(X) else np.asarray
        if len(costs):
            X = stack([X[keep].astype(np.float64), like(means)])
        else:
            X = X[keep]
        X = X.tocsr() if scipy.sparse.issparse(X) else X
        y = np.concatenate([y[keep], targets.astype(y.dtype, copy=False)])
        return Reduced(X, y, np.concatenate([cost[keep], costs]) / self.model.C)

    @property
    def objective_bounds(self) -> Interval:
        """Bounds on the optimal objective: (low, high), each (n_problems,)."""
        bases = [region.basis for region in self.regions]
        low = [basis.dual for basis in bases if basis is not None]
        return Interval(
            np.array(low), np.array([basis.primal for basis in bases if basis is not None])
        )

    def leave_one_out(self) -> LeaveOneOut:
        """Return bounds on the scores of all training rows, each by the optimum without it.

        It takes one training and a few passes, in the place of a training for each row.
        """
        found = [
            leave_one_out_scores(self.problems[j], region) for j, region in enumerate(self.regions)
        ]
        low, high = self._shaped(found)
        problems = self.problems
        if not isinstance(problems, OneVsRest):
            return LeaveOneOut(low, high, np.nan, np.nan)
        if low.ndim == 1:
            positive = problems.codes == 1
            wrong = np.where(positive, high <= 0.0, low > 0.0)
            right = np.where(positive, low > 0.0, high <= 0.0)
        else:
            own = problems.codes[:, None]
            low_own, high_own = (
                np.take_along_axis(each, own, axis=1)[:, 0] for each in (low, high)
            )
            others = [each.copy() for each in (low, high)]
            for each in others:
                np.put_along_axis(each, own, -np.inf, axis=1)
            wrong = high_own < others[0].max(axis=1)
            right = low_own > others[1].max(axis=1)
        return LeaveOneOut(low, high, float(wrong.mean()), float(1.0 - right.mean()))

    def without(self, rows: np.ndarray) -> "Proof":
        """Return what is certain of the optimum without some training rows, untrained.

        Parameters
        ----------
        rows : ndarray of bool (n_samples,), or of indices
            The rows that are left out. Class weights stay as they are.
        """
        keep = np.ones(self.problems.rows.n_rows)
        keep[rows] = 0.0
        cost = self.problems.cost * keep
        if not cost.any():
            raise ValueError("no rows are left")
        problems = replace(self.problems, cost=cost)
        tol = self.model.tol
        regions = tuple(
            region_of(problems[j], state.unpacked(), tol) for j, state in enumerate(self.states)
        )
        return Proof(self.model, problems, self.states, regions)

    def _labels(self) -> np.ndarray:
        """Return labels or targets as they were given."""
        problems = self.problems
        if isinstance(problems, OneVsRest):
            return self.model.classes_[problems.codes]
        assert isinstance(problems, PerTarget)
        return problems.y

    def _rows(self, X: Matrix) -> Rows:
        return with_constant(as_rows(check_matrix(self.model, X, reset=False)), self.model)

    def _shaped(self, found: list[Interval]) -> Interval:
        """Return one interval for each row, or one for each row and class."""
        low, high = (np.stack(ends, axis=-1) for ends in zip(*found))
        return Interval(low[:, 0], high[:, 0]) if len(found) == 1 else Interval(low, high)
