"""The `report` method of all estimators."""

from copy import copy
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, column_or_1d

from widemargin.arrays import Matrix, Vector, dense, on_host
from widemargin.data import Rows
from widemargin.data.devices import gpu_array, is_on_gpu
from widemargin.estimators.order import check_grades


class Reporting:
    """Mixin with the method `report`."""

    def report(
        self,
        path: str | PathLike,
        X: Matrix = None,
        y: Vector | None = None,
        *,
        qid: Vector | None = None,
        feature_names: Any = None,
    ) -> None:
        """Write a report on the fitted model: one self-contained HTML file.

        It shows the certificate, the training history, the largest weights and how to reproduce
        the model; and, if X and y are given, metrics, ROC and precision-recall curves and the
        confusion matrix of its predictions.

        Parameters
        ----------
        path : path-like
            Output file. An existing file is replaced.
        X : {array-like, sparse matrix} of shape (n, n_features), default=None
            Rows to evaluate the model on, preferably a test set. Rows on disk
            (`widemargin.open_rows`) are read once.
        y : array-like of shape (n,), default=None
            Labels or grades; None takes the labels of rows on disk.
        qid : array-like of shape (n,), default=None
            Groups of the rows, for `LinearRanker`; None takes the groups of rows on disk, if any.
        feature_names : mapping from name to column, or sequence of n_features names, default=None
            A vocabulary, or names in the order of the columns. None takes the column names of the
            data frame that the model was fitted on, or else numbers the features from 0.
        """
        # Imported here, because loading the templates takes time that training need not wait for.
        from widemargin.report import JudgedRows, write_report
        from widemargin.report.measures import judge

        check_is_fitted(self)
        model: Any = copy(self)
        model.coef_ = dense(model.coef_)
        if qid is not None and hasattr(self, "classes_"):
            raise ValueError(f"qid: {type(self).__name__} knows no groups")
        rows = None
        if X is not None:
            are_rows = isinstance(X, Rows)
            y = X.labels if y is None and are_rows else y
            if y is None:
                raise ValueError("y is missing: the report needs the labels of X")
            if qid is None and are_rows and not hasattr(self, "classes_"):
                qid = X.qid
            # Grades may be ordered categories. Class labels may be of any type.
            y = _vector(y) if is_on_gpu(y) or hasattr(self, "classes_") else check_grades(y)
            judged = judge(self, X, y, None if qid is None else _vector(qid))
            rows = JudgedRows(judged)
        elif y is not None:
            raise ValueError("y is given without X")
        write_report(model, path, rows, feature_names=feature_names)


def _vector(values: Vector) -> np.ndarray:
    return column_or_1d(on_host(gpu_array(values)) if is_on_gpu(values) else values)
