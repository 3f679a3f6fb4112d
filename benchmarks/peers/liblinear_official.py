"""LIBLINEAR through its own Python package.

The number of sweeps cannot be set (the library ends at 300 by itself), so the ladder climbs the
tolerance.
"""

import numpy as np
from liblinear.liblinearutil import problem, train

from . import Fit

name = "liblinear-official"

_SOLVERS = {"hinge": 3, "squared_hinge": 1}  # both dual


def prepare(X, y):
    return problem(y.astype(np.float64), X)


def settings():
    return [{"tol": 10 * 0.7**step} for step in range(40)]


def warm_up_settings():
    return settings()[:1]


def fit(prepared, cell, setting, n_threads):
    if n_threads != 1:
        raise ValueError("liblinear-official has one thread")
    bias = 1 if cell.intercept == "penalized" else -1
    options = f"-s {_SOLVERS[cell.loss]} -c {cell.C} -e {setting['tol']} -B {bias} -q"
    model = train(prepared, options)
    labels = np.array(model.get_labels())
    n_scores = 1 if labels.size == 2 else labels.size
    n_columns = model.nr_feature + (bias > 0)
    weights = np.ctypeslib.as_array(model.w, shape=(n_columns, n_scores)).T.copy()
    if labels.size == 2:
        # The weights score the label that the library lists first.
        weights *= 1.0 if labels[0] > labels[1] else -1.0
    else:
        weights = weights[np.argsort(labels)]
    intercept = weights[:, -1] if bias > 0 else 0.0
    return Fit(weights[:, : model.nr_feature], intercept)
