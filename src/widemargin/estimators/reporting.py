"""A page about a fitted model, as a method of all estimators."""

import numpy as np
from sklearn.utils.validation import check_is_fitted, column_or_1d

from widemargin.arrays import on_host
from widemargin.data import Rows
from widemargin.data.devices import gpu_array, is_on_gpu
from widemargin.estimators.order import check_grades


class Reporting:
    """Estimators that can tell what they are."""

    def report(self, path, X=None, y=None, *, qid=None, feature_names=None):
        """Write a page about the fitted model: one HTML file that loads nothing.

        It tells what the certificate proves, how training went, which weights are largest and
        how to repeat it; and, where rows are given, how well these are predicted.

        Parameters
        ----------
        path : path-like
            Where to write. An existing file is replaced.
        X : {array-like, sparse matrix} of shape (n, n_features), default=None
            Rows to predict: held out, best of all. Those on disk (`widemargin.open_rows`) are
            read through once.
        y : array-like of shape (n,), default=None
            Their labels or grades; None: the labels of rows on disk.
        qid : array-like of shape (n,), default=None
            Groups of the rows, for `LinearRanker`; None: those of rows on disk, or else none.
        feature_names : mapping from name to column, or sequence of n_features names, default=None
            A vocabulary, or names in the order of the columns. None: those of the data frame
            that the model was fitted on; or else features are numbered from 0.
        """
        # Imported when needed: templates are nothing that training waits for.
        from widemargin.report import JudgedRows, write_report
        from widemargin.report.measures import judge

        check_is_fitted(self)
        if qid is not None and hasattr(self, "classes_"):
            raise ValueError(f"qid: {type(self).__name__} knows no groups")
        rows = None
        if X is not None:
            are_rows = isinstance(X, Rows)
            y = X.labels if y is None and are_rows else y
            if y is None:
                raise ValueError("y is missing: without labels, there is nothing to compare with")
            if qid is None and are_rows and not hasattr(self, "classes_"):
                qid = X.qid
            # Grades may be ordered categories, classes are whatever they are.
            y = _vector(y) if is_on_gpu(y) or hasattr(self, "classes_") else check_grades(y)
            judged = judge(self, X, y, None if qid is None else _vector(qid))
            rows = JudgedRows(judged)
        elif y is not None:
            raise ValueError("y is given, but X is not: there are no rows to predict")
        write_report(self, path, rows, feature_names=feature_names)


def _vector(values) -> np.ndarray:
    return column_or_1d(on_host(gpu_array(values)) if is_on_gpu(values) else values)
