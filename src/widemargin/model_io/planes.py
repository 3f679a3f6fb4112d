"""Models whose lower bound is proved by planes below the risk, in model files."""

from typing import Any

import numpy as np
from safetensors import safe_open

from widemargin.arrays import on_host
from widemargin.estimators.linear_ranker import LinearRanker
from widemargin.estimators.measure_svc import MeasureSVC
from widemargin.estimators.ordinal_svc import OrdinalSVC
from widemargin.problem import Tangents
from widemargin.tensors import FLOAT, Malformed, read_field, read_tensor

_POINTS = (*FLOAT, "U8")


def tensors_of_order(model: LinearRanker | OrdinalSVC) -> dict[str, np.ndarray]:
    """Return the arrays of a LinearRanker or an OrdinalSVC that its file holds."""
    tensors = {
        "coef": on_host(model.coef_),
        "dual_weights": model.dual_weights_,
        "dual_points": model.dual_points_,
    }
    if isinstance(model, OrdinalSVC):
        tensors["thresholds"] = model.thresholds_
    return tensors


def read_order(model: LinearRanker | OrdinalSVC, file: safe_open, description: dict) -> None:
    """Set the attributes of a model from these arrays, but the classes and thresholds."""
    model.coef_ = read_tensor(file, "coef", FLOAT, (None,))
    model.dual_weights_ = _read_weights(file)
    shape = (len(model.dual_weights_), len(model.coef_))
    model.dual_points_ = read_tensor(file, "dual_points", FLOAT, shape)
    model.n_samples_fit_ = read_field(description, "n_rows", int)
    model.n_pairs_ = read_field(description, "n_pairs", int)
    if model.n_samples_fit_ < 2 or model.n_pairs_ < 1:
        raise Malformed(
            f"a ranking needs at least 2 rows and 1 pair, not {model.n_samples_fit_} rows and "
            f"{model.n_pairs_} pairs"
        )


def read_thresholds(file: safe_open, n_classes: int) -> np.ndarray:
    """Return the thresholds between ordered classes; some may be infinite."""
    thresholds = read_tensor(file, "thresholds", FLOAT, (n_classes - 1,), finite=False)
    if np.any(np.isnan(thresholds)) or np.any(thresholds[1:] < thresholds[:-1]):
        raise Malformed("the thresholds are not in increasing order")
    return thresholds


def tensors_of_measure(model: MeasureSVC) -> dict[str, np.ndarray]:
    """Return the arrays of a MeasureSVC that its file holds."""
    dual: Any = model.dual_
    proof = {"dual": dual}
    if isinstance(dual, Tangents):
        proof = {"dual_weights": dual.weights, "dual_points": dual.coefs}
    return {"coef": model.coef_, "intercept": model.intercept_, **proof}


def read_measure(model: MeasureSVC, file: safe_open, description: dict) -> None:
    """Set the attributes of a model from these arrays, but the classes."""
    model.n_samples_fit_ = read_field(description, "n_rows", int)
    model.coef_ = read_tensor(file, "coef", FLOAT, (1, None))
    model.intercept_ = read_tensor(file, "intercept", FLOAT, (1,), finite=False)
    if np.isnan(model.intercept_[0]):  # an infinite one accepts all rows, or none
        raise Malformed("the tensor 'intercept' holds values that are not numbers")
    if "dual" in file.keys():  # noqa: SIM118 (an open safetensors file is no mapping)
        model.dual_ = read_tensor(file, "dual", FLOAT, (model.n_samples_fit_,))
        return
    weights = _read_weights(file)
    points = read_tensor(file, "dual_points", _POINTS, (len(weights), None))
    if points.dtype != np.uint8 and points.shape[1] != model.coef_.shape[1]:
        raise Malformed("the tensor 'dual_points' does not fit the coefficients")
    model.dual_ = Tangents(weights, points)


def _read_weights(file: safe_open) -> np.ndarray:
    weights = read_tensor(file, "dual_weights", FLOAT, (None,))
    if np.any(weights < 0.0):
        raise Malformed("the tensor 'dual_weights' holds values below zero")
    return weights
