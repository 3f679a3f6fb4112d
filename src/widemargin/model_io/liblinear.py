"""LIBLINEAR's model files."""

import os

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from widemargin.arrays import dense
from widemargin.atomic import atomic_write
from widemargin.estimators.linear_svc import LinearSVC
from widemargin.estimators.linear_svc_cv import LinearSVCCV
from widemargin.estimators.linear_svr import LinearSVR
from widemargin.estimators.logistic_regression import LogisticRegression
from widemargin.estimators.logistic_regression_cv import LogisticRegressionCV
from widemargin.estimators.penalties import penalty_of

_INT32 = np.iinfo(np.int32)


def write_liblinear(model: BaseEstimator, path: str | os.PathLike) -> None:
    """Write a fitted model as a LIBLINEAR model file, for LIBLINEAR's `predict`.

    Parameters
    ----------
    model : fitted estimator
        A `widemargin.LinearSVC`, whose labels must be integers of 32 bits; a
        `LogisticRegression` of such labels, of two classes or one versus rest; a search for C of
        these, of which `best_estimator_` is written; or a `LinearSVR` of one target.
    path : path-like
        Output file, written atomically. An existing file is replaced.
    """
    check_is_fitted(model)
    if isinstance(model, LinearSVCCV | LogisticRegressionCV):
        model = model.best_estimator_
    if isinstance(model, LinearSVC | LogisticRegression):
        header, weights = _of_classes(model)
    elif isinstance(model, LinearSVR):
        header, weights = _of_targets(model)
    else:
        raise TypeError(
            f"LIBLINEAR's format has no {type(model).__name__}, only classes and "
            "regression; use save_model"
        )
    bias = -1
    if model.fit_intercept or np.any(model.intercept_):  # a threshold may have been tuned
        # LIBLINEAR's bias is the value of a constant feature, whose weight is in the last row.
        bias = 1
        weights = np.column_stack([weights, model.intercept_])
    with atomic_write(path) as file:
        file.write(f"{header}nr_feature {model.n_features_in_}\nbias {bias}\nw\n".encode())
        for feature in weights.T:
            # repr is the shortest text that parses to the same double.
            file.write((" ".join(map(repr, feature.tolist())) + "\n").encode())


def _of_classes(model: LinearSVC | LogisticRegression) -> tuple[str, np.ndarray]:
    """Return the beginning of a header, and the weights."""
    labels = liblinear_labels(model.classes_)
    if len(labels) == 2:
        # LIBLINEAR predicts the first label if the decision value is positive; here a positive
        # value means the second class.
        labels = labels[::-1]
    solver_type = _solver_type(model)
    shown = " ".join(map(str, labels))
    header = f"solver_type {solver_type}\nnr_class {len(labels)}\nlabel {shown}\n"
    return header, dense(model.coef_)


def _solver_type(model: LinearSVC | LogisticRegression) -> str:
    sparse, several = penalty_of(model).name == "l1", len(model.classes_) > 2
    if isinstance(model, LogisticRegression):
        if several and model.multi_class != "ovr":
            raise ValueError(
                "LIBLINEAR's logistic models of more than two classes are one versus rest: train "
                "with multi_class='ovr'"
            )
        return "L1R_LR" if sparse else "L2R_LR"
    if several and model.multi_class == "crammer_singer":
        return "MCSVM_CS"
    # For other losses and penalties LIBLINEAR has no name; it predicts the same by any.
    if model.loss == "squared_hinge":
        return "L1R_L2LOSS_SVC" if sparse else "L2R_L2LOSS_SVC_DUAL"
    return "L2R_L1LOSS_SVC_DUAL"


def _of_targets(model: LinearSVR) -> tuple[str, np.ndarray]:
    if model.coef_.ndim > 1:
        raise ValueError(f"LIBLINEAR's format holds one target, not {len(model.coef_)}")
    named = {"squared_epsilon_insensitive": "L2R_L2LOSS_SVR_DUAL"}
    solver_type = named.get(model.loss, "L2R_L1LOSS_SVR_DUAL")
    return f"solver_type {solver_type}\nnr_class 2\n", model.coef_[None]


def liblinear_labels(classes: ArrayLike) -> list[int]:
    """Return `classes` as 32-bit integers; raises ValueError if they are not."""
    classes = np.asarray(classes)
    is_integer = classes.dtype.kind in "iu" or (
        classes.dtype.kind == "f" and np.array_equal(classes, np.trunc(classes))
    )
    if not is_integer or classes.min() < _INT32.min or classes.max() > _INT32.max:
        shown = ", ".join(repr(label) for label in classes[:3].tolist())
        more = ", ..." if len(classes) > 3 else ""
        raise ValueError(f"LIBLINEAR's format holds only 32-bit integer labels, not {shown}{more}")
    return [int(label) for label in classes]
