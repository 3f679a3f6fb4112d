"""LIBLINEAR through its own Python package.

The number of sweeps cannot be set (the library ends at 300 by itself), so the ladders climb the
tolerance: of its dual solver, and with the squared hinge of its primal one. That comes first: how
long a fit of the dual one takes nobody knows, and it may be the last there is time for.
"""

import numpy as np
from liblinear.liblinearutil import problem, train

from . import Fit

name = "liblinear-official"
losses = ("hinge", "squared_hinge", "crammer_singer")
intercepts = ("none", "penalized")
most_rows = None
several_classes = True

_DUAL = {"hinge": 3, "squared_hinge": 1, "crammer_singer": 4}
_PRIMAL = {"squared_hinge": 2}


def prepare(X, y, cell):
    return problem(y.astype(np.float64), X), X.shape[1]


def ladders(cell):
    solvers = [solvers[cell.loss] for solvers in (_PRIMAL, _DUAL) if cell.loss in solvers]
    return [
        [{"solver": solver, "tol": 10 * 0.7**step} for step in range(40)] for solver in solvers
    ]


def warm_up_settings(cell):
    return [ladder[0] for ladder in ladders(cell)]


def fit(prepared, cell, setting):
    stated, n_features = prepared
    bias = 1 if cell.intercept == "penalized" else -1
    options = f"-s {setting['solver']} -c {cell.C} -e {setting['tol']} -B {bias} -q"
    model = train(stated, options)
    labels = np.array(model.get_labels())
    n_scores = 1 if labels.size == 2 else labels.size
    n_columns = model.nr_feature + (bias > 0)
    weights = np.ctypeslib.as_array(model.w, shape=(n_columns, n_scores)).T.copy()
    if labels.size == 2:
        # The weights score the label that the library lists first.
        weights *= 1.0 if labels[0] > labels[1] else -1.0
    else:
        weights = weights[np.argsort(labels)]
    # Features after the last one that is not zero everywhere are unknown to the library.
    coef = np.zeros((n_scores, n_features))
    coef[:, : model.nr_feature] = weights[:, : model.nr_feature]
    return Fit(coef, weights[:, -1] if bias > 0 else 0.0)
