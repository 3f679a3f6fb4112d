"""What `widemargin train` does around a fit: its warnings, and the account it gives."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from widemargin.cli.output import count, shape_in_words


def check_labels(y: np.ndarray) -> None:
    """Refuse labels that are measurements rather than names of classes."""
    fractions = np.flatnonzero(y != np.trunc(y))
    if fractions.size:
        first = fractions[0]
        raise ValueError(
            f"row {first + 1} has the label {y[first]}; class labels must be whole numbers"
        )


def fit_quietly(model, X, y) -> None:
    """Fit, without the warning about stopping early: `early_stop` words that one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)


def early_stop(model) -> str:
    """Say why a fit stopped before its tolerance, and what it reached nevertheless."""
    reasons = {
        "max_iter": f"--max-iter {model.max_iter} reached",
        "max_time": f"--max-time {model.max_time} reached",
        "interrupted": "interrupted",
    }
    return (
        f"{reasons.get(model.status_, model.status_)} before --tol {model.tol:g}; "
        f"the model is saved, {model.certificate_.bound_in_words()}"
    )


def report(model, X, data: str, read_seconds: float, fit_seconds: float) -> dict[str, Any]:
    """Collect all that is worth knowing about a fit."""
    return {
        "data": data,
        "rows": X.shape[0],
        "features": X.shape[1],
        "classes": model.classes_.tolist(),
        "parameters": model.get_params(),
        "solver": model.solver_,
        "status": model.status_,
        "iterations": model.n_iter_,
        "read_seconds": read_seconds,
        "fit_seconds": fit_seconds,
        "certificate": model.certificate_.as_dict(),
    }


def in_words(report: dict[str, Any], model) -> dict[str, str]:
    """Say the same in a few lines."""
    size = shape_in_words(report["rows"], report["features"], len(report["classes"]))
    loss = "crammer_singer" if model.multi_class == "crammer_singer" else model.loss
    return {
        "data": f"{size}, read in {report['read_seconds']:.2f} s",
        "training": f"{loss} loss, C = {model.C:g}, solver {model.solver_}, "
        f"{count(model.n_iter_, 'pass')}, {report['fit_seconds']:.2f} s",
        "result": str(model.certificate_),
    }
