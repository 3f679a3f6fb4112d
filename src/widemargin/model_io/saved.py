"""widemargin's own model files.

A saved model is a safetensors file: arrays as raw bytes, and a JSON header that describes them.
Loading parses numbers and text only, so a file of untrusted origin cannot execute code. All of
its contents are validated before a model is built.

Format, version 1. Tensors of a LinearSVC (k problems: 1 for two classes, else one per class):

============== ======== ==========================================================
coef           (k, d)   weights, F64
intercept      (k,)     intercepts, F64; zero if none was fitted
dual_values    (m,)     nonzero dual variables, F64: data of a CSR array
dual_indices   (m,)     ... their training rows: indices of the CSR array, I32 or I64
dual_pointers  (k + 1,) ... and problems: indptr of the CSR array, I32 or I64
classes        (c,)     labels, if they are numbers; else they are in the header
sigmoids       (k, 2)   a and b of calibrated probabilities, F64; optional
============== ======== ==========================================================

A LinearSVR has the first five, with one problem per target. A LogisticRegression has those of a
LinearSVC without sigmoids; of several classes together, dual variables are those of each class.

Tensors of a LinearRanker and an OrdinalSVC; only the latter has the last two:

============== ======== ==========================================================
coef           (d,)     weights, F64
dual_weights   (m,)     weights of the planes that prove the bound, F64, nonnegative
dual_points    (m, d)   points where these planes touch the loss, F64
thresholds     (c - 1,) between the labels, F64, non-decreasing; may be infinite
classes        (c,)     labels, lowest first, if they are numbers; else in the header
============== ======== ==========================================================

Tensors of a MeasureSVC; the last but one, or for "error" the last one, prove the bound:

============== ======== ==========================================================
coef           (1, d)   weights, F64
intercept      (1,)     F64; infinite if all rows are accepted, or none
classes        (2,)     labels, if they are numbers; else in the header
dual_weights   (m,)     weights of planes, F64, nonnegative
dual_points    (m, ...) points where they touch the loss, F64 (m, d); or the labellings of
                        the training rows, a bit each, U8
dual           (n,)     dual variables, F64
============== ======== ==========================================================

Header metadata: one entry, "widemargin", a JSON object with the keys format ("widemargin"),
format_version (1), estimator, parameters, classes (null unless they are in the header), n_rows
(of the training data), n_iter, status, solver, certificate and feature_names; of a LinearRanker
and an OrdinalSVC also n_pairs; preparation.py and label_matrix.py add one more. There is only one
entry because safetensors writes several in random order, and equal models should give equal files.
"""

import json
import os
from numbers import Real
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from widemargin.atomic import atomic_write
from widemargin.estimators.certify import training_rows
from widemargin.estimators.linear_ranker import LinearRanker
from widemargin.estimators.linear_svc import LinearSVC
from widemargin.estimators.linear_svc_cv import LinearSVCCV
from widemargin.estimators.linear_svr import LinearSVR
from widemargin.estimators.logistic_regression import LogisticRegression
from widemargin.estimators.logistic_regression_cv import LogisticRegressionCV
from widemargin.estimators.measure_svc import MeasureSVC
from widemargin.estimators.measure_svc_cv import MeasureSVCCV
from widemargin.estimators.one_class_svm import LinearOneClassSVM
from widemargin.estimators.ordinal_svc import ERRORS, OrdinalSVC
from widemargin.estimators.ranking import NORMALIZATIONS, OrderingModel
from widemargin.estimators.validation import check_choice
from widemargin.model_io import preparation as preparations
from widemargin.model_io.duals import check_parts, read_certificate, read_into, tensors_of
from widemargin.model_io.label_matrix import read_labels, tensors_of_labels
from widemargin.model_io.planes import (
    read_measure,
    read_order,
    read_thresholds,
    tensors_of_measure,
    tensors_of_order,
)
from widemargin.monitor import STATUSES
from widemargin.solvers.registry import SOLVERS, THEN
from widemargin.tensors import FLOAT, Malformed, read_field, read_header, read_tensor

FORMAT_NAME = "widemargin"
FORMAT_VERSION = 1

# The estimators that a file may name.
ESTIMATORS: dict[str, Any] = {
    "LinearSVC": LinearSVC,
    "LinearSVR": LinearSVR,
    "LogisticRegression": LogisticRegression,
    "LinearRanker": LinearRanker,
    "LinearOneClassSVM": LinearOneClassSVM,
    "OrdinalSVC": OrdinalSVC,
    "MeasureSVC": MeasureSVC,
}

_NUMBER = ("I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "F16", "F32", "F64")


class ModelFileError(ValueError):
    """The file is not a model that this version can read; the message names the file."""


def save_model(model: BaseEstimator, path: str | os.PathLike) -> None:
    """Write a fitted model, for `load_model`.

    The file is written atomically: after a crash or on a full disk, an existing file at `path` is
    unchanged.

    Parameters
    ----------
    model : fitted estimator
        A `widemargin.LinearSVC`, `LinearSVR`, `LogisticRegression`, `LinearRanker`, `OrdinalSVC`
        or `MeasureSVC`; or a `LinearSVCCV`, `LogisticRegressionCV` or `MeasureSVCCV`, of which
        `best_estimator_` is written; or a pipeline of a `TableFeatures` and one of these.
    path : path-like
        Output file. An existing file is replaced.

    Notes
    -----
    Not saved: `history_` (empty after loading), and the state of a random generator passed as
    `random_state` (None after loading; an integer seed is kept).
    """
    preparation, model = preparations.split(model)
    check_is_fitted(model)
    if type(model) in (LinearSVCCV, LogisticRegressionCV, MeasureSVCCV):
        model = model.best_estimator_
    name = type(model).__name__
    if type(model) is not ESTIMATORS.get(name):
        saved = ", ".join(f"widemargin.{known}" for known in ESTIMATORS)
        raise TypeError(f"cannot save a {type(model).__module__}.{name}: only {saved}")

    tensors = _tensors(model)
    if "sigmoids_" in vars(model):
        tensors["sigmoids"] = model.sigmoids_
    labels = None
    if "classes_" in vars(model):
        classes = model.classes_
        if classes.dtype.kind in "iuf" and classes.dtype.itemsize <= 8:  # types of safetensors
            tensors["classes"] = classes
        else:
            labels = _labels_to_json(classes)
    description = _description(model, name, labels)
    preparations.add(preparation, tensors, description)
    # safetensors writes the memory of an array and ignores its strides.
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    with atomic_write(path) as file:
        file.write(serialize(arrays, metadata={FORMAT_NAME: json.dumps(description)}))


def _description(model: BaseEstimator, name: str, labels: dict | None) -> dict[str, Any]:
    """Return what the header of a model's file says."""
    feature_names = getattr(model, "feature_names_in_", None)
    parameters = model.get_params(deep=False).items()
    description = {
        "format": FORMAT_NAME,
        "format_version": FORMAT_VERSION,
        "estimator": name,
        "parameters": {key: _parameter_to_json(key, value) for key, value in parameters},
        "classes": labels,
        "n_rows": training_rows(model),
        "n_iter": int(np.max(model.n_iter_)),
        "status": model.status_,
        "solver": model.solver_,
        "certificate": model.certificate_.as_dict(),
        "feature_names": None if feature_names is None else [str(f) for f in feature_names],
    }
    if _orders(model):
        description["n_pairs"] = model.n_pairs_
    if isinstance(model, LinearSVC) and model.multilabel_:
        description["labels"] = {"sparse": model.sparse_output_}
    return description


def load_model(path: str | os.PathLike) -> Any:
    """Read a model that `save_model` wrote. Nothing in the file is executed.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    model : fitted estimator or pipeline
        Its predictions are the same, bit for bit.

    Raises
    ------
    ModelFileError
        The file is truncated, not a safetensors file, not a widemargin model, of another format
        version, or inconsistent.
    OSError
        The file cannot be opened.
    """
    path = os.fspath(path)
    with open(path, "rb"):
        pass  # a missing or unreadable file raises OSError
    try:
        with safe_open(path, framework="numpy") as file:
            description = _read_description(file)
            return preparations.joined(file, description, _build_model(file, description))
    except (SafetensorError, OSError) as error:
        reason = str(error).rpartition(": ")[2]  # without the prefix of the library
        raise ModelFileError(
            f"{path}: not a model file, or one that was cut short ({reason})"
        ) from error
    except Malformed as error:
        raise ModelFileError(f"{path}: {error}") from error


def _tensors(model: BaseEstimator) -> dict[str, np.ndarray]:
    """Return the arrays of a fitted model, without labels and sigmoids."""
    if _orders(model):
        return tensors_of_order(model)
    if isinstance(model, LinearSVC) and model.multilabel_:
        return tensors_of_labels(model)
    return tensors_of_measure(model) if isinstance(model, MeasureSVC) else tensors_of(model)


def _orders(model: BaseEstimator) -> bool:
    """Return whether the model is a LinearRanker or an OrdinalSVC."""
    return isinstance(model, OrderingModel)


def _parameter_to_json(name: str, value: Any) -> Any:
    """Return a constructor parameter as JSON; `_parameter_from_json` is the inverse."""
    if name == "checkpoint" or isinstance(value, (np.random.RandomState, np.random.Generator)):
        return None  # meaningless elsewhere: paths of checkpoints, states of generators
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        # As pairs: keys of JSON objects are strings, but labels may be numbers.
        return {
            "pairs": [
                [_parameter_to_json(name, key), _parameter_to_json(name, weight)]
                for key, weight in value.items()
            ]
        }
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Real):  # number type of another library
        return float(value)
    raise TypeError(f"cannot save parameter {name}={value!r}")


def _parameter_from_json(value: Any) -> Any:
    if isinstance(value, dict):
        weights = dict(value["pairs"])
        if not all(type(weight) in (int, float) and weight >= 0 for weight in weights.values()):
            raise ValueError("class weights must be numbers of at least 0")
        return weights
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError(f"a whole number of {len(str(abs(value)))} digits")
    return value


def _labels_to_json(classes: np.ndarray) -> dict:
    """Return labels that are not numeric arrays as JSON; refuse arbitrary objects."""
    kinds = {"U": "str", "b": "bool", "O": "object"}
    values = classes.tolist()
    if classes.dtype.kind not in kinds or not all(
        isinstance(value, (str, bool, int, float)) for value in values
    ):
        raise TypeError(f"cannot save class labels of type {classes.dtype}: {values[:3]}")
    return {"kind": kinds[classes.dtype.kind], "values": values}


def _read_description(file: safe_open) -> dict:
    """Return the JSON in the header of an open safetensors file, if it is one of our models."""
    try:
        description = read_header(file, FORMAT_NAME)
    except ValueError as error:
        raise Malformed(f"the header does not describe a model: {error}") from error
    if FORMAT_NAME not in (file.metadata() or {}):
        raise Malformed("a safetensors file, but not one that holds a widemargin model")
    if not isinstance(description, dict) or description.get("format") != FORMAT_NAME:
        raise Malformed("the header does not describe a model")
    if description.get("format_version") != FORMAT_VERSION:
        raise Malformed(
            f"model format version {description.get('format_version')!r}; "
            f"this widemargin reads version {FORMAT_VERSION}"
        )
    return description


def _build_model(file: safe_open, description: dict) -> Any:
    """Return a fitted estimator from an open file and its header; both are validated."""
    model = _read_estimator(description)
    model.certificate_ = read_certificate(read_field(description, "certificate", dict))
    if _orders(model):
        _read_order(model, file, description)
    elif isinstance(model, MeasureSVC):
        _read_measure(model, file, description)
    elif isinstance(model, LinearOneClassSVM):
        read_into(model, file, description, 1)
        _check_single(model)
    elif isinstance(model, LinearSVR):
        _read_regressor(model, file, description)
    else:
        _read_classifier(model, file, description)
    model.n_features_in_ = model.coef_.shape[-1]
    n_iter = read_field(description, "n_iter", int)
    model.n_iter_ = np.array([n_iter]) if isinstance(model, LogisticRegression) else n_iter
    model.status_ = read_field(description, "status", str)
    model.solver_ = read_field(description, "solver", str)
    if n_iter < 0:
        raise Malformed(f"the header's 'n_iter' is {n_iter}")
    try:
        check_choice("the header's 'status'", model.status_, STATUSES)
        for solver in model.solver_.split(THEN):
            check_choice("the header's 'solver'", solver, SOLVERS)
    except ValueError as error:
        raise Malformed(str(error)) from error
    model.history_ = []
    if description.get("feature_names") is not None:
        names = read_field(description, "feature_names", list)
        if len(names) != model.n_features_in_ or not all(isinstance(f, str) for f in names):
            raise Malformed(f"the header does not name all {model.n_features_in_} features")
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def _read_estimator(description: dict) -> Any:
    """Return the unfitted estimator that the header describes."""
    name = read_field(description, "estimator", str)
    if name not in ESTIMATORS:
        raise Malformed(f"holds an unknown estimator {name!r}")
    try:
        parameters = {
            key: _parameter_from_json(value)
            for key, value in read_field(description, "parameters", dict).items()
        }
        model = ESTIMATORS[name](**parameters)
        model._check_parameters()
        if _orders(model):
            check_choice("normalization", model.normalization, NORMALIZATIONS)
        elif not isinstance(model, MeasureSVC):
            check_random_state(model.random_state)
            if (
                vars(model).get("checkpoint") is not None
            ):  # a file must not choose paths on this machine
                raise ValueError("it names a checkpoint")
        if isinstance(model, OrdinalSVC):
            check_choice("error", model.error, ERRORS)
    except (TypeError, KeyError, ValueError) as error:
        raise Malformed(f"the header's parameters are not {name}'s: {error}") from error
    return model


def _read_classifier(model: LinearSVC, file: safe_open, description: dict) -> None:
    if description.get("labels") is not None:
        model.classes_ = _read_classes(file, description, at_least=1)
        read_labels(model, file, description)
        return
    model.classes_ = _read_classes(file, description)
    if not _rises(model.classes_):
        raise Malformed("its class labels are not in order")
    n_problems = 1 if len(model.classes_) == 2 else len(model.classes_)
    read_into(model, file, description, n_problems)
    check_parts(model.certificate_, len(model.classes_), "class")
    if "sigmoids" in file.keys():  # noqa: SIM118 (an open safetensors file is no mapping)
        model.sigmoids_ = read_tensor(file, "sigmoids", FLOAT, (n_problems, 2))


def _read_regressor(model: LinearSVR, file: safe_open, description: dict) -> None:
    read_into(model, file, description, None)
    check_parts(model.certificate_, len(model.intercept_), "target")
    if len(model.intercept_) == 1:
        model.coef_ = model.coef_[0]


def _read_order(model: OrderingModel, file: safe_open, description: dict) -> None:
    read_order(model, file, description)
    if isinstance(model, OrdinalSVC):
        model.classes_ = _read_classes(file, description)
        model.thresholds_ = read_thresholds(file, len(model.classes_))
    _check_single(model)


def _read_measure(model: MeasureSVC, file: safe_open, description: dict) -> None:
    model.classes_ = _read_classes(file, description)
    if len(model.classes_) != 2 or not _rises(model.classes_):
        raise Malformed("its class labels are not two, in order")
    read_measure(model, file, description)
    _check_single(model)


def _check_single(model: Any) -> None:
    if model.certificate_.parts:
        raise Malformed("the header's certificate has parts, for a problem that has none")


def _read_classes(file: safe_open, description: dict, at_least: int = 2) -> np.ndarray:
    """Return the class labels, which must be distinct, in the order of the fitted model."""
    if description.get("classes") is None:
        classes = read_tensor(file, "classes", _NUMBER, (None,))
    else:
        labels = read_field(description, "classes", dict)
        values = read_field(labels, "values", list)
        allowed = {"str": (str,), "bool": (bool,), "object": (str, bool, int, float)}
        kind = allowed.get(read_field(labels, "kind", str))
        if kind is None or not all(isinstance(value, kind) for value in values):
            raise Malformed("the header's class labels do not match their type")
        classes = np.array(values, dtype={"str": str, "bool": bool}.get(labels["kind"], object))
    if len(classes) < at_least or len(set(classes.tolist())) != len(classes):
        least = "at least two " if at_least > 1 else ""
        raise Malformed(f"its class labels are not {least}distinct values")
    return classes


def _rises(labels: np.ndarray) -> bool:
    try:
        return np.array_equal(np.unique(labels), labels)
    except TypeError:  # text beside numbers
        return False
