"""What estimators say of themselves: `report`, and a summary in notebooks and as text."""

import math
import os
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, column_or_1d

from widemargin.arrays import dense, on_host
from widemargin.data import Rows
from widemargin.data.devices import gpu_array, is_on_gpu
from widemargin.estimators.order import check_grades
from widemargin.estimators.validation import check_targets
from widemargin.fitted import Classifier, Measured

if TYPE_CHECKING:
    from widemargin.estimators.proof import Proof
    from widemargin.report import JudgedRows, Report

# Certificates of the same rows agree to this relative difference.
_SAME = 1e-9


class Summarised(BaseEstimator):
    """Mixin with short forms of a fitted model."""

    def __str__(self) -> str:
        """Return the parameters and, if the model is fitted, a summary."""
        lines = (f"{name}: {text}" for name, text in self._summary().items())
        return "\n".join([repr(self), *lines])

    def _summary(self) -> dict[str, str]:
        try:
            check_is_fitted(self)
        except NotFittedError:
            return {}
        from widemargin.report.summary import summary

        return summary(self)

    def _repr_html_inner(self) -> str:
        from widemargin.report.summary import as_html

        return super()._repr_html_inner() + as_html(self._summary())

    def _repr_mimebundle_(self, **settings: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**settings)
        bundle["text/plain"] = str(self)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle


class Reporting(Summarised):
    """Mixin with the method `report`."""

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        feature_names: Any = None,
        proof: "Proof | None" = None,
    ) -> "Report":
        """Make a report on the fitted model: one self-contained HTML page.

        If X and y are given, it begins with what the model does on them: metrics with confidence
        intervals, the confusion matrix, precision, recall and F1 of each class, a choice of
        thresholds, calibration, ROC and precision-recall curves; for regression R2, errors and
        how they are spread. The largest weights, the
        certificate, the training history and how to reproduce the model follow.

        Parameters
        ----------
        path : path-like, default=None
            Output file. An existing file is replaced. None writes no file.
        X : {array-like, sparse matrix} of shape (n, n_features), default=None
            Rows to evaluate the model on, preferably a test set. Rows on disk
            (`widemargin.open_rows`) are read once.
        y : array-like of shape (n,), default=None
            Labels, grades or targets; None takes the labels of rows on disk.
        qid : array-like of shape (n,), default=None
            Groups of the rows, for `LinearRanker` and `MeasureSVC`; None takes the groups of
            rows on disk, if any, for `LinearRanker`.
        feature_names : mapping from name to column, or sequence of n_features names, default=None
            A vocabulary, or names in the order of the columns. None takes the column names of the
            data frame that the model was fitted on, or else numbers the features from 0.
        proof : Proof, default=None
            What `widemargin.prove` says of this model: the report then has the fraction of the
            rows whose prediction is settled. Of training rows, it is made where it can be.

        Returns
        -------
        Report
            A notebook shows it. ``save(path)`` writes it, and ``html`` is the page.
        """
        # Imported here, because loading the templates takes time that training need not wait for.
        from widemargin.report import write_report

        check_is_fitted(self)
        model: Any = copy(self)
        model.coef_ = dense(model.coef_)
        has_groups = isinstance(self, Measured) or not isinstance(self, Classifier)
        if qid is not None and (not has_groups or is_regressor(self)):
            raise ValueError(f"qid: {type(self).__name__} knows no groups")
        rows = None
        if X is not None:
            rows = _judged(model, X, y, qid, proof)
        elif y is not None:
            raise ValueError("y is given without X")
        return write_report(model, path, rows, feature_names=feature_names)


def _judged(
    model: Any, X: Any, y: ArrayLike | None, qid: ArrayLike | None, proof: "Proof | None"
) -> "JudgedRows":
    from widemargin.report.measures import JudgedRows, judge

    classifies, are_rows = isinstance(model, Classifier), isinstance(X, Rows)
    y = X.labels if y is None and are_rows else y
    if y is None:
        raise ValueError("y is missing: the report needs the labels of X")
    if qid is None and are_rows and not classifies and not is_regressor(model):
        qid = X.qid
    # Grades may be ordered categories. Class labels may be of any type.
    if is_regressor(model):
        y = check_targets(y)
    else:
        y = _vector(y) if is_on_gpu(y) or classifies else check_grades(y)
    qid = None if qid is None else _vector(qid)
    judged, trained_on = judge(model, X, y, qid), _was_trained_on(model, X, y, qid)
    if proof is not None and proof.model.certificate_ != model.certificate_:
        raise ValueError("proof is that of another model")
    return JudgedRows(
        judged, trained_on=trained_on, settled=_settled(proof, model, X, y, trained_on)
    )


def _settled(proof: "Proof | None", model: Any, X: Any, y: np.ndarray, trained_on: bool) -> str:
    from widemargin.estimators.proof import can_be_proved, prove

    if proof is None and trained_on and can_be_proved(model):
        proof = prove(model, X, y)
    return "" if proof is None else proof.in_words(X)


def _was_trained_on(model: Any, X: Any, y: np.ndarray, qid: np.ndarray | None) -> bool:
    """Return whether rows in memory have the model's certificate: its training rows do.

    Training rows that had sample weights, which nobody passes to a report, are not recognised.
    """
    from widemargin.estimators.certify import certify, training_rows

    if isinstance(X, Rows) or is_on_gpu(X) or is_on_gpu(model.coef_):
        return False
    if y.shape[0] != training_rows(model):
        return False
    try:
        found = certify(model, X, y, qid=qid)
    except ValueError:  # labels that the model does not know, for instance
        return False
    known = model.certificate_
    return math.isclose(found.primal, known.primal, rel_tol=_SAME) and math.isclose(
        found.dual, known.dual, rel_tol=_SAME
    )


def _vector(values: Any) -> np.ndarray:
    return column_or_1d(on_host(gpu_array(values)) if is_on_gpu(values) else values)
