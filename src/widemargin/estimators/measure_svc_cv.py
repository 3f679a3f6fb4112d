"""A classifier trained for a measure that chooses its own C."""

import warnings
from typing import Any, Self

import numpy as np
from numpy import ndarray as Array
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.utils.validation import check_is_fitted, column_or_1d

from widemargin.data import as_rows
from widemargin.estimators.measure_svc import MeasureModel, MeasureSVC, check_place
from widemargin.estimators.path import pick
from widemargin.estimators.validation import check_costs, check_matrix, check_weights


class MeasureSVCCV(MeasureModel):
    """`MeasureSVC` whose C is chosen by cross-validation, by the measure itself.

    Each fold is trained from the smallest C to the largest, each time from the solution and the
    planes of the last C. The best C is trained on all rows.

    Parameters
    ----------
    measure : str, default="f1"
        As in `MeasureSVC`.
    Cs : int or array-like of shape (n_Cs,), default=10
        Values of C, or how many there are between 1e-3 and 1e3.
    cv : int, cross-validation generator or iterable, default=5
        As in scikit-learn. With `qid`, a number of folds divides the groups.
    parameters : dict or None, default=None
        Further parameters of `MeasureSVC`, for each training.

    Attributes
    ----------
    C_ : float
    Cs_ : ndarray of shape (n_Cs,)
    scores_ : ndarray of shape (n_folds, n_Cs)
        The measure of held-out rows.
    relative_gaps_ : ndarray of shape (n_folds, n_Cs)
        The certified gap of each training.
    best_estimator_ : MeasureSVC
        Trained on all rows at `C_`. `classes_`, `coef_`, `intercept_` and `certificate_` are its.
    """

    def __init__(
        self, measure: str = "f1", *, Cs: Any = 10, cv: Any = 5, parameters: dict | None = None
    ) -> None:
        self.measure = measure
        self.Cs = Cs
        self.cv = cv
        self.parameters = parameters

    @property
    def scoring(self) -> str:
        """What C is chosen by: the measure."""
        return self.measure

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        qid: ArrayLike | None = None,
    ) -> Self:
        """Choose C, and fit the model at that C to all rows; as `MeasureSVC.fit`."""
        check_place(X)
        costs, given = check_costs("Cs", self.Cs), self.parameters or {}
        X, labels = check_matrix(self, X, reset=True), column_or_1d(y, warn=True)
        weights, rows = check_weights(sample_weight, X), as_rows(X)
        groups = None if qid is None else column_or_1d(qid)
        by_groups = groups is not None and isinstance(self.cv, int)
        splitter = GroupKFold(self.cv) if by_groups else check_cv(self.cv, labels, classifier=True)
        folds = list(splitter.split(np.zeros(len(labels)), labels, groups))
        self.Cs_, self.scores_ = costs, np.full((len(folds), costs.size), np.nan)
        self.relative_gaps_ = np.full_like(self.scores_, np.nan)
        order = np.argsort(costs, kind="stable")

        def part(values: Array | None, index: Array) -> Array | None:
            return None if values is None else values[index]

        for fold, (train, held_out) in enumerate(folds):
            model = MeasureSVC(self.measure, **given).set_params(warm_start=True)
            of_train = labels[train], part(weights, train), part(groups, train)
            of_rest = labels[held_out], part(weights, held_out), part(groups, held_out)
            X_train, X_rest = pick(rows, train), pick(rows, held_out)
            for place in order:
                with warnings.catch_warnings():  # small C make small weights, and that is all
                    warnings.simplefilter("ignore", UserWarning)
                    model.set_params(C=float(costs[place])).fit(X_train, *of_train)
                self.scores_[fold, place] = model.score(X_rest, *of_rest)
                self.relative_gaps_[fold, place] = model.certificate_.relative_gap
        means = self.scores_.mean(axis=0)[order]
        if np.isnan(means).all():
            raise ValueError("a fold holds out rows of one class only: it has no such score")
        self.C_ = float(costs[order[int(np.nanargmax(means))]])
        best = MeasureSVC(self.measure, **given).set_params(C=self.C_)
        self.best_estimator_ = best.fit(X, labels, sample_weight=weights, qid=groups)
        for name in ("classes_", "coef_", "intercept_", "certificate_"):
            setattr(self, name, getattr(best, name))
        return self

    def to_sklearn(self) -> BaseEstimator:
        """Return a plain ``sklearn.svm.LinearSVC`` that predicts the same."""
        check_is_fitted(self)
        return self.best_estimator_.to_sklearn()
