"""Models for other programs: ONNX, LIBLINEAR, scikit-learn, JSON and C."""

import copy
import io
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from widemargin.arrays import on_host
from widemargin.data.category_columns import Category
from widemargin.data.columns import Encoder, Number
from widemargin.data.date_columns import Date
from widemargin.estimators.kernel_features import KernelFeatures
from widemargin.estimators.linear_svc import LinearSVC
from widemargin.estimators.linear_svr import LinearSVR
from widemargin.estimators.logistic_regression import LogisticRegression
from widemargin.estimators.measure_svc import MeasureSVC
from widemargin.estimators.one_class_svm import LinearOneClassSVM
from widemargin.estimators.ordinal_svc import OrdinalSVC
from widemargin.estimators.table_features import TableFeatures
from widemargin.fitted import Classifier
from widemargin.model_io import preparation as preparations
from widemargin.model_io.liblinear import write_liblinear

_JSON_VERSION = 1
_CALLED = {"c": "C", "onnx": "ONNX"}


class ExportError(ValueError):
    """A model has no equivalent in a format; the message says why."""


@dataclass(frozen=True)
class Linear:
    """Weights as other programs need them.

    Attributes
    ----------
    weights : ndarray of shape (k, d)
        One row if there are two classes, or none.
    intercepts : ndarray of shape (k,)
    classes : list
        Labels; empty for a ranking and for regression.
    thresholds : ndarray of shape (c - 1,) or None
        Between the labels, for an ordinal model.
    columns : list of Encoder or None
        What makes the features of the columns of a table; None if the features are numbered.
    """

    weights: np.ndarray
    intercepts: np.ndarray
    classes: list[Any]
    thresholds: np.ndarray | None
    columns: list[Encoder] | None


def exported(preparation: Any, model: Any, format: str) -> bytes:
    """Return a model as the bytes of a file.

    Parameters
    ----------
    preparation : TableFeatures, StandardScaler, KernelFeatures or None
        What the model does to rows before.
    model : fitted LinearSVC, LinearSVR, LogisticRegression, LinearRanker, OrdinalSVC, MeasureSVC
    format : {"onnx", "liblinear", "sklearn", "json", "c"}
    """
    if isinstance(model, LinearOneClassSVM) and format != "sklearn":
        raise ExportError("one-class models go with the format sklearn only")
    if isinstance(preparation, KernelFeatures) and format != "sklearn":
        raise ExportError(
            f"{type(preparation).__name__} goes with the format sklearn only: others take linear "
            "functions of the features"
        )
    if format == "liblinear":
        return _as_liblinear(preparation, model)
    if format == "sklearn":
        return _as_sklearn(preparation, model)
    if format == "json":
        return _as_json(preparation, model)
    linear = as_linear(preparation, model)
    _check_columns(linear.columns or [], format)
    if format == "c":
        from widemargin.model_io.c_code import c_code

        return c_code(linear).encode()
    try:
        from widemargin.model_io.onnx_graph import onnx_bytes
    except ImportError as error:
        raise ExportError("ONNX needs the package onnx: pip install 'widemargin[onnx]'") from error
    return onnx_bytes(linear)


def _check_columns(columns: list[Encoder], format: str) -> None:
    """Refuse columns that ONNX and C do not take."""
    for column in columns:
        if not isinstance(column, (Number, Category, Date)):
            raise ExportError(
                f"column {column.name!r} is text, and {_CALLED[format]} takes numbers, categories "
                "and dates only; take --format sklearn, or train without the column"
            )
    seen = {"label", "scores"}  # the names of outputs
    for name in (name for column in columns for name in column.inputs()):
        if name in seen and format == "onnx":
            raise ExportError(f"ONNX would have two values named {name!r}; rename that column")
        seen.add(name)


def as_linear(preparation: Any, model: Any) -> Linear:
    """Return the weights of a model; scales of numbered features are divided out."""
    weights = np.atleast_2d(np.array(on_host(model.coef_), dtype=np.float64))
    intercepts = np.zeros(len(weights))
    if isinstance(model, LinearSVC | LinearSVR | LogisticRegression | MeasureSVC):
        intercepts = np.array(on_host(model.intercept_), dtype=np.float64)
    if isinstance(preparation, StandardScaler):
        weights = weights / preparation.scale_
    columns = preparation.columns_ if isinstance(preparation, TableFeatures) else None
    classes = model.classes_.tolist() if isinstance(model, Classifier) else []
    thresholds = model.thresholds_ if isinstance(model, OrdinalSVC) else None
    return Linear(weights, intercepts, classes, thresholds, columns)


def _as_liblinear(preparation: Any, model: Any) -> bytes:
    if isinstance(preparation, TableFeatures):
        raise ExportError("LIBLINEAR's format holds numbered features, and no tables")
    if preparation is not None:
        model = copy.copy(model)
        model.coef_ = model.coef_ / preparation.scale_
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.txt")
        try:
            write_liblinear(model, path)
        except (TypeError, ValueError) as error:
            raise ExportError(str(error)) from error
        return path.read_bytes()


def _as_sklearn(preparation: Any, model: Any) -> bytes:
    twin = model.to_sklearn()
    if isinstance(preparation, KernelFeatures):
        preparation = preparation.to_sklearn()
    if preparation is not None:
        twin = Pipeline([("features", preparation), ("model", twin)])
    stream = io.BytesIO()
    joblib.dump(twin, stream)
    return stream.getvalue()


def _as_json(preparation: Any, model: Any) -> bytes:
    linear = as_linear(None, model)
    description: dict[str, Any] = {
        "format": "widemargin weights",
        "format_version": _JSON_VERSION,
        "estimator": type(model).__name__,
        "classes": linear.classes or None,
        "features": None,
        "weights": linear.weights.tolist(),
        "intercepts": linear.intercepts.tolist(),
    }
    if linear.thresholds is not None:
        # Infinite thresholds are no numbers of JSON.
        finite = np.isfinite(linear.thresholds)
        values = np.where(finite, linear.thresholds, 0.0).tolist()
        description["thresholds"] = [v if ok else None for v, ok in zip(values, finite.tolist())]
    if "certificate_" in vars(model):
        description["certificate"] = model.certificate_.as_dict()
    if isinstance(preparation, StandardScaler):
        description["scales"] = preparation.scale_.tolist()
    if isinstance(preparation, TableFeatures):
        description["features"] = preparation.get_feature_names_out().tolist()
        tensors: dict[str, np.ndarray] = {}
        preparations.add(preparation, tensors, description)
        description["term_weights"] = {name: array.tolist() for name, array in tensors.items()}
    return (json.dumps(description, ensure_ascii=False, allow_nan=False) + "\n").encode()
