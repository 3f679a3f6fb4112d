"""Read LIBLINEAR's model files."""

import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from widemargin.estimators.linear_svc import LinearSVC
from widemargin.estimators.linear_svr import LinearSVR
from widemargin.estimators.logistic_regression import LogisticRegression
from widemargin.model_io.saved import ModelFileError

_MAGIC = b"solver_type"
_Classifier = LinearSVC | LogisticRegression
# What each solver minimised, as a model of ours.
_SOLVERS: dict[str, tuple[type[_Classifier], dict[str, Any]]] = {
    "L2R_L2LOSS_SVC_DUAL": (LinearSVC, {"loss": "squared_hinge"}),
    "L2R_L2LOSS_SVC": (LinearSVC, {"loss": "squared_hinge"}),
    "L2R_L1LOSS_SVC_DUAL": (LinearSVC, {"loss": "hinge"}),
    "MCSVM_CS": (LinearSVC, {"loss": "hinge", "multi_class": "crammer_singer"}),
    "L1R_L2LOSS_SVC": (LinearSVC, {"loss": "squared_hinge", "penalty": "l1"}),
    "L2R_LR": (LogisticRegression, {"multi_class": "ovr", "penalty": "l2"}),
    "L2R_LR_DUAL": (LogisticRegression, {"multi_class": "ovr", "penalty": "l2"}),
    "L1R_LR": (LogisticRegression, {"multi_class": "ovr", "penalty": "l1"}),
}
_REGRESSION = {
    "L2R_L2LOSS_SVR": "squared_epsilon_insensitive",
    "L2R_L2LOSS_SVR_DUAL": "squared_epsilon_insensitive",
    "L2R_L1LOSS_SVR_DUAL": "epsilon_insensitive",
}
_MOST = 2**31 - 1


def is_liblinear(path: str | os.PathLike[str]) -> bool:
    """Return whether a file starts as LIBLINEAR's models do."""
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read_liblinear(path: str | os.PathLike[str]) -> "_Classifier | LinearSVR":
    """Return a classifier or a regressor with the weights of a LIBLINEAR model file.

    It predicts, but has neither a certificate nor dual variables, which LIBLINEAR does not write.
    Its parameters say what LIBLINEAR minimised; C and epsilon are not in the file. Logistic models
    have probabilities, those of LIBLINEAR's ``predict -b 1``.

    Parameters
    ----------
    path : path-like
        A model of classes or of regression, written by LIBLINEAR's ``train`` or by
        `write_liblinear`.

    Returns
    -------
    model : LinearSVC, LogisticRegression or LinearSVR

    Raises
    ------
    ModelFileError
        The file is no such model, or is cut short.
    """
    try:
        with open(path, "rb") as file:
            return _model(file)
    except (ValueError, OverflowError) as error:
        raise ModelFileError(f"{os.fspath(path)}: not a LIBLINEAR model ({error})") from error


def _model(file: BinaryIO) -> "_Classifier | LinearSVR":
    header = dict(_header(file))
    solver = _needed(header, "solver_type")
    if solver in _REGRESSION:
        return _regressor(file, header, _REGRESSION[solver])
    if solver not in _SOLVERS:
        raise ValueError(f"solver_type {solver} makes neither classes nor regression")
    n_classes, n_features = (_count(header, name) for name in ("nr_class", "nr_feature"))
    bias = float(_needed(header, "bias"))
    labels = np.array([int(word) for word in _needed(header, "label").split()])
    if labels.size != n_classes or np.unique(labels).size < labels.size or n_classes < 2:
        raise ValueError(f"{n_classes} classes, and the labels {header['label']}")
    crammer_singer = solver == "MCSVM_CS"
    n_columns = 1 if n_classes == 2 and not crammer_singer else n_classes
    weights = _weights(file, n_features + (bias >= 0.0), n_columns)
    if n_columns == 2:  # the difference decides
        weights = weights[:1] - weights[1:]
        n_columns = 1
    order = np.argsort(labels)
    if n_columns > 1:
        weights = weights[order]
    elif order[0] == 0:  # LIBLINEAR's positive class is its first
        weights = -weights
    kind, parameters = _SOLVERS[solver]
    model = kind(**parameters, **_intercept_of(bias))
    model.classes_ = labels[order]
    model.coef_ = np.ascontiguousarray(weights[:, :n_features])
    intercept = bias * weights[:, n_features] if bias >= 0.0 else np.zeros(n_columns)
    model.intercept_ = np.array(intercept)
    model.n_features_in_ = n_features
    return model


def _regressor(file: BinaryIO, header: dict[str, str], loss: str) -> LinearSVR:
    n_features, bias = _count(header, "nr_feature"), float(_needed(header, "bias"))
    weights = _weights(file, n_features + (bias >= 0.0), 1)[0]
    model = LinearSVR(loss=loss, **_intercept_of(bias))
    model.coef_ = np.ascontiguousarray(weights[:n_features])
    model.intercept_ = bias * weights[n_features:] if bias >= 0.0 else np.zeros(1)
    model.n_features_in_ = n_features
    return model


def _intercept_of(bias: float) -> dict[str, Any]:
    """Return the parameters of an intercept that is the weight of a constant feature."""
    scaling = {"intercept_scaling": bias} if bias > 0.0 else {}
    return {"fit_intercept": bias >= 0.0, "penalized_intercept": bias > 0.0, **scaling}


def _weights(file: BinaryIO, n_rows: int, n_columns: int) -> np.ndarray:
    """Return what follows the header, (n_columns, n_rows)."""
    words = file.read().split()
    if len(words) != n_rows * n_columns:
        raise ValueError(f"{len(words):,} weights, expected {n_rows:,} times {n_columns}")
    weights = np.array(words, dtype=np.float64).reshape(n_rows, n_columns).T
    if not np.isfinite(weights).all():
        raise ValueError("a weight is not finite")
    return weights


def _header(file: BinaryIO) -> Iterator[tuple[str, str]]:
    """Yield names and values up to the line before the weights."""
    while line := file.readline(1 << 24):
        name, _, value = line.decode("ascii").strip().partition(" ")
        if name == "w":
            return
        yield name, value
    raise ValueError("it is cut short")


def _needed(header: dict[str, str], name: str) -> str:
    if name not in header:
        raise ValueError(f"{name} is missing")
    return header[name]


def _count(header: dict[str, str], name: str) -> int:
    number = int(_needed(header, name))
    if not 1 <= number <= _MOST:
        raise ValueError(f"{name} is {number}")
    return number
