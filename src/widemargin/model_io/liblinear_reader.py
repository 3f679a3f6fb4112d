"""Read LIBLINEAR's model files."""

import os
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from widemargin.estimators.linear_svc import LinearSVC
from widemargin.model_io.saved import ModelFileError

_MAGIC = b"solver_type"
_SOLVERS = {
    "L2R_L2LOSS_SVC_DUAL": ("squared_hinge", "ovr"),
    "L2R_L2LOSS_SVC": ("squared_hinge", "ovr"),
    "L2R_L1LOSS_SVC_DUAL": ("hinge", "ovr"),
    "MCSVM_CS": ("hinge", "crammer_singer"),
    "L1R_L2LOSS_SVC": ("squared_hinge", "ovr"),
    "L2R_LR": ("squared_hinge", "ovr"),
    "L1R_LR": ("squared_hinge", "ovr"),
    "L2R_LR_DUAL": ("squared_hinge", "ovr"),
}
_MOST = 2**31 - 1


def is_liblinear(path: str | os.PathLike[str]) -> bool:
    """Return whether a file starts as LIBLINEAR's models do."""
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read_liblinear(path: str | os.PathLike[str]) -> LinearSVC:
    """Return a classifier with the weights of a LIBLINEAR model file.

    It predicts, but has neither a certificate nor dual variables, which LIBLINEAR does not write.
    `loss` and `multi_class` say what LIBLINEAR minimised, where that is a loss of `LinearSVC`; C
    is not in the file.

    Parameters
    ----------
    path : path-like
        A model of classes, written by LIBLINEAR's ``train`` or by `write_liblinear`.

    Returns
    -------
    model : LinearSVC

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


def _model(file: BinaryIO) -> LinearSVC:
    header = dict(_header(file))
    solver = _needed(header, "solver_type")
    if solver not in _SOLVERS:
        raise ValueError(f"solver_type {solver} makes no classes")
    n_classes, n_features = (_count(header, name) for name in ("nr_class", "nr_feature"))
    bias = float(_needed(header, "bias"))
    labels = np.array([int(word) for word in _needed(header, "label").split()])
    if labels.size != n_classes or np.unique(labels).size < labels.size or n_classes < 2:
        raise ValueError(f"{n_classes} classes, and the labels {header['label']}")
    crammer_singer = solver == "MCSVM_CS"
    n_columns = 1 if n_classes == 2 and not crammer_singer else n_classes
    n_rows = n_features + (bias >= 0.0)
    words = file.read().split()
    if len(words) != n_rows * n_columns:
        raise ValueError(f"{len(words):,} weights, expected {n_rows:,} times {n_columns}")
    weights = np.array(words, dtype=np.float64).reshape(n_rows, n_columns).T
    if not np.isfinite(weights).all():
        raise ValueError("a weight is not finite")
    if n_columns == 2:  # the difference decides
        weights = weights[:1] - weights[1:]
        n_columns = 1
    order = np.argsort(labels)
    if n_columns > 1:
        weights = weights[order]
    elif order[0] == 0:  # LIBLINEAR's positive class is its first
        weights = -weights
    loss, multi_class = _SOLVERS[solver]
    model = LinearSVC(
        loss=loss, multi_class=multi_class, fit_intercept=bias >= 0.0, penalized_intercept=bias > 0
    )
    model.classes_ = labels[order]
    model.coef_ = np.ascontiguousarray(weights[:, :n_features])
    intercept = bias * weights[:, n_features] if bias >= 0.0 else np.zeros(n_columns)
    model.intercept_ = np.array(intercept)
    model.n_features_in_ = n_features
    return model


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
