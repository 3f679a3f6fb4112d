"""scikit-learn's SGDClassifier, in three ways that differ in how well they suit a problem.

It minimises ``alpha / 2 |w|^2`` plus the mean of the losses, so ``alpha = 1 / (C n)``. Its
intercept is free; a penalised one is a constant feature. Each ladder climbs the number of sweeps:

- the default learning rate, which falls with 1 / t;
- the same, averaging the coefficients over the second half of the sweeps;
- a rate of ``1 / mean |x|^2`` that falls with t^(1/4), averaged over the second half too.
"""

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier

from . import (
    N_THREADS,
    RANDOM_SEED,
    Fit,
    iteration_ladder,
    split_constant_feature,
    with_constant_feature,
)

name = "sklearn SGD"
losses = ("hinge", "squared_hinge")
intercepts = ("none", "penalized", "free")
most_rows = None
several_classes = True


def prepare(X, y, cell):
    # In float32, which it would keep, rounding adds up over many sweeps.
    X = with_constant_feature(X, cell).astype(np.float64)
    squares = X.multiply(X) if sp.issparse(X) else X * X
    return X, y, float(squares.sum() / X.shape[0])


def ladders(cell):
    sweeps = iteration_ladder()
    return [
        [{"rate": "optimal", "averaged": False, "max_iter": n} for n in sweeps],
        [{"rate": "optimal", "averaged": True, "max_iter": n} for n in sweeps],
        [{"rate": "invscaling", "averaged": True, "max_iter": n} for n in sweeps],
    ]


def warm_up_settings(cell):
    return [ladder[0] for ladder in ladders(cell)]


def fit(prepared, cell, setting):
    X, y, mean_square = prepared
    n_rows = X.shape[0]
    model = SGDClassifier(
        loss=cell.loss,
        alpha=1 / (cell.C * n_rows),
        fit_intercept=cell.intercept == "free",
        max_iter=setting["max_iter"],
        tol=None,
        average=max(1, n_rows * setting["max_iter"] // 2) if setting["averaged"] else False,
        learning_rate=setting["rate"],
        eta0=1 / mean_square,
        power_t=0.25,
        n_jobs=N_THREADS,
        random_state=RANDOM_SEED,
    ).fit(X, y)
    coef, intercept = split_constant_feature(model.coef_, cell)
    return Fit(coef, model.intercept_ if cell.intercept == "free" else intercept)
