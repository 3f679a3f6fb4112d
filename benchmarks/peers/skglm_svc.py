"""skglm's LinearSVC: coordinate descent on the dual, with Anderson's extrapolation.

It has the hinge loss only, and no intercept whatever `fit_intercept` says, so that a penalised
one is a constant feature. One ladder climbs the sweeps over all rows; the other the number of
working sets, which grow from 10 rows, as they do by default. Its default of up to 50,000 sweeps
on each of them would not end in time, and is 100 here.
"""

import numpy as np
import scipy.sparse as sp
from skglm import LinearSVC

from . import Fit, iteration_ladder, split_constant_feature, with_constant_feature

name = "skglm"
losses = ("hinge",)
intercepts = ("none", "penalized")
most_rows = None
several_classes = True


def prepare(X, y, cell):
    # It computes in float64, on columns: given anything else, every fit would convert first.
    X = with_constant_feature(X, cell).astype(np.float64)
    return (X.tocsc() if sp.issparse(X) else X), y


def ladders(cell):
    sweeps = iteration_ladder(limit=100_000)
    return [
        [{"working_set": "all rows", "max_iter": 1, "max_epochs": epochs} for epochs in sweeps],
        [{"working_set": "grows", "max_iter": sets, "max_epochs": 100} for sets in sweeps],
    ]


def warm_up_settings(cell):
    return [ladder[0] for ladder in ladders(cell)]


def fit(prepared, cell, setting):
    X, y = prepared
    model = LinearSVC(
        C=cell.C,
        fit_intercept=False,
        tol=1e-9,
        p0=X.shape[0] if setting["working_set"] == "all rows" else 10,
        max_iter=setting["max_iter"],
        max_epochs=setting["max_epochs"],
    ).fit(X, y)
    coef, intercept = split_constant_feature(np.atleast_2d(model.coef_), cell)
    return Fit(coef, intercept)
