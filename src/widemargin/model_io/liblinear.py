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

_INT32 = np.iinfo(np.int32)


def write_liblinear(model: BaseEstimator, path: str | os.PathLike) -> None:
    """Write a fitted model as a LIBLINEAR model file, for LIBLINEAR's `predict`.

    Parameters
    ----------
    model : fitted estimator
        A `widemargin.LinearSVC`, whose labels must be integers of 32 bits, a `LinearSVCCV`, of
        which `best_estimator_` is written, or a `LinearSVR` of one target.
    path : path-like
        Output file, written atomically. An existing file is replaced.
    """
    check_is_fitted(model)
    if isinstance(model, LinearSVCCV):
        model = model.best_estimator_
    if isinstance(model, LinearSVC):
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


def _of_classes(model: LinearSVC) -> tuple[str, np.ndarray]:
    """Return the beginning of a header, and the weights."""
    labels = liblinear_labels(model.classes_)
    if len(labels) == 2:
        # LIBLINEAR predicts the first label if the decision value is positive; here a positive
        # value means the second class.
        labels = labels[::-1]
    # For other losses LIBLINEAR has no name; it predicts the same by any.
    named = {"squared_hinge": "L2R_L2LOSS_SVC_DUAL"}
    solver_type = named.get(model.loss, "L2R_L1LOSS_SVC_DUAL")
    if model.multi_class == "crammer_singer" and len(labels) > 2:
        solver_type = "MCSVM_CS"
    shown = " ".join(map(str, labels))
    header = f"solver_type {solver_type}\nnr_class {len(labels)}\nlabel {shown}\n"
    return header, dense(model.coef_)


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
