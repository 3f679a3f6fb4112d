"""A classifier trained for a measure that chooses its own C."""

from typing import Any, Self

import numpy as np
from numpy import ndarray as Array
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.utils.validation import check_is_fitted

from widemargin.data import as_rows
from widemargin.estimators.fold_search import FoldSearch
from widemargin.estimators.folds import check_folds
from widemargin.estimators.measure_svc import (
    MeasureModel,
    MeasureSVC,
    check_counts,
    check_place,
)
from widemargin.estimators.path import pick
from widemargin.estimators.validation import (
    check_costs,
    check_groups,
    check_labels,
    check_matrix,
    check_same_length,
    check_weights,
)
from widemargin.risk import measure_called


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
    status_ : str
        "interrupted" if Ctrl-C ended the search; else that of the last training.
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
        costs, model = check_costs("Cs", self.Cs), MeasureSVC(self.measure)
        model.set_params(**(self.parameters or {}))._check_parameters()
        X, labels = check_matrix(self, X, reset=True), check_labels(y)
        check_same_length(X, labels)
        weights, groups = check_weights(sample_weight, X), check_groups(qid, labels.size)
        if measure_called(self.measure).kind != "error":
            check_counts(self.measure, weights)
        by_groups = groups is not None and isinstance(self.cv, int)
        splitter = GroupKFold(self.cv) if by_groups else check_cv(self.cv, labels, classifier=True)
        folds = splitter.split(np.zeros(labels.size), labels, groups)
        search = FoldSearch(model, costs, _taken, _train, _score, self.measure)
        search.fit((as_rows(X), labels, weights, groups), check_folds(folds, labels, weights))
        for name in ("Cs_", "C_", "scores_", "relative_gaps_", "best_estimator_", "status_"):
            setattr(self, name, getattr(search, name))
        for name in ("classes_", "coef_", "intercept_", "certificate_"):
            setattr(self, name, getattr(self.best_estimator_, name))
        return self

    def to_sklearn(self) -> BaseEstimator:
        """Return a plain ``sklearn.svm.LinearSVC`` that predicts the same."""
        check_is_fitted(self)
        return self.best_estimator_.to_sklearn()


def _taken(rows: tuple, index: Array) -> tuple:
    X, *columns = rows
    return pick(X, index), *(None if each is None else each[index] for each in columns)


def _train(model: MeasureSVC, rows: tuple) -> None:
    model.fit(*rows)


def _score(model: MeasureSVC, rows: tuple) -> float:
    return model.score(*rows)
