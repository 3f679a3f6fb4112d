"""ReHLine: coordinate descent on the dual of any piecewise linear-quadratic loss.

It stops at its own relative duality gap. That is set to next to nothing here, so that the number
of sweeps decides.
"""

import numpy as np
import scipy.sparse as sp
from rehline import plq_Ridge_Classifier

from . import Fit, iteration_ladder

name = "ReHLine"
losses = ("hinge", "squared_hinge")
intercepts = ("none", "penalized")
most_rows = None
several_classes = True

_LOSSES = {"hinge": "hinge", "squared_hinge": "squared hinge"}


def prepare(X, y, cell):
    # It computes in float64, on CSR matrices or C-ordered arrays.
    X = X.astype(np.float64)
    return (X.tocsr() if sp.issparse(X) else np.ascontiguousarray(X)), y


def ladders(cell):
    return [[{"max_iter": max_iter} for max_iter in iteration_ladder(limit=100_000)]]


def warm_up_settings(cell):
    return ladders(cell)[0][:1]


def fit(prepared, cell, setting):
    X, y = prepared
    model = plq_Ridge_Classifier(
        loss={"name": _LOSSES[cell.loss]},
        C=cell.C,
        fit_intercept=cell.intercept == "penalized",
        multi_class="ovr" if np.unique(y).size > 2 else None,
        tol=1e-12,
        **setting,
    ).fit(X, y)
    return Fit(np.atleast_2d(model.coef_), np.ravel(model.intercept_))
